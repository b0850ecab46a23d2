//! Method and tables of the report.

use super::Results;
use super::load::{Cell, DISKS, LOADS, Order, Place};
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};

/// The method, in paragraphs.
pub(super) fn method(writes: u64) -> Vec<String> {
    vec![
        format!(
            "{writes} writes of 4 KiB, 32 at a time, in virtual time, through noop to models of SCSI disks with 64 tags \
             that serve their queue by positioning time. Each second or each eighth write is a hard barrier: \
             everything before it is durable first, and nothing behind it starts before it is durable."
        ),
        "drain: the queue waits for everything before the barrier and holds back what is behind it. tag: the barrier is \
         an ordered tag, and writes behind it follow at once; one barrier is under way at a time, as in Linux \
         2.6.16. none: the same writes without order and without flushes, which is what order costs."
            .to_owned(),
        "Without its write cache the disk is drain against tag, with it drain+FUA against tag+FUA: a flush before each \
         barrier. No figures were published; the rules were fixed before the model was run. Processor time and the \
         host's bus take no time, so what tags save is the time in which the disk has no command."
            .to_owned(),
    ]
}

/// The name of a load.
pub(super) fn name(place: Place, every: u64) -> String {
    let place = if place == Place::Log { "log" } else { "random" };
    format!("{place}, a barrier every {every}")
}

/// A table for each disk and state of its cache.
pub(super) fn tables(results: &Results) -> Vec<(String, Table)> {
    let mut all = Vec::new();
    for disk in DISKS {
        for cache in [false, true] {
            let title = format!("{disk}, write cache {}", if cache { "on" } else { "off" });
            all.push((title, table(results, disk, cache)));
        }
    }
    all
}

fn table(results: &Results, disk: &'static str, cache: bool) -> Table {
    let mut table = Table::new([
        Column::text("load"),
        Column::number("none", "writes/s"),
        Column::number("drain", "writes/s"),
        Column::number("tag", "writes/s"),
        Column::number("tag/drain", ""),
        Column::number("drain", "ms/barrier"),
        Column::number("tag", "ms/barrier"),
    ]);
    for (place, every) in LOADS {
        let of = |order| results.of(&Cell { disk, cache, place, every, order });
        let (Some(none), Some(drain), Some(tag)) = (of(Order::None), of(Order::Drain), of(Order::Tag)) else {
            continue;
        };
        let millis = |found: &super::Found| fixed(found.commit.0 as f64 / 1e6, 2);
        table.row([
            name(place, every),
            fixed(none.rate, 0),
            fixed(drain.rate, 0),
            fixed(tag.rate, 0),
            fixed(tag.rate / drain.rate, 2),
            millis(drain),
            millis(tag),
        ]);
    }
    table
}
