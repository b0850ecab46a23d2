//! Published and modelled figures side by side.

use super::Results;
use super::published::{AXBOE, AXBOE_ELEVATORS, MORTON, MORTON_ELEVATORS, PRIORITIES, Seconds};
use super::scenes::SCENES;
use crate::claim::number;
use platter_bench::processes::Outcome;
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};

pub(super) fn all(results: &Results) -> Vec<(String, Table)> {
    vec![
        ("Morton, 20 February 2003: seconds, published / modelled at this scale".to_owned(), morton(results)),
        (
            "Axboe, 2 December 2004: KiB/s with 1, 2, 4, 8 clients, published / modelled".to_owned(),
            axboe(results),
        ),
        ("Axboe, 13 December 2004: readers with priorities, cfq".to_owned(), priorities(results)),
    ]
}

fn title(scene: &str) -> &'static str {
    SCENES.iter().find(|known| known.id == scene).map_or("", |known| known.title)
}

/// Seconds until each process in the foreground ended; the time of the run for those that did not.
pub(super) fn finishes(outcome: &Outcome) -> Vec<(f64, bool)> {
    let foreground = outcome.records.iter().filter(|record| record.name != "stream");
    foreground
        .map(|record| (record.took.unwrap_or(record.ran).0 as f64 / 1e9, record.took.is_some()))
        .collect()
}

fn morton(results: &Results) -> Table {
    let columns = MORTON_ELEVATORS.iter().map(|elevator| Column::number(*elevator, "s"));
    let mut table = Table::new([Column::text("")].into_iter().chain(columns));
    for row in &MORTON {
        let cells = MORTON_ELEVATORS.iter().zip(row.seconds).map(|(elevator, published)| {
            let modelled = results.of(row.scene, elevator).map_or_else(|| "-".to_owned(), modelled);
            format!("{} / {modelled}", said(published))
        });
        table.row([title(row.scene).to_owned()].into_iter().chain(cells));
    }
    table
}

fn said(seconds: Seconds) -> String {
    match seconds {
        Seconds::One(s) => number(s),
        Seconds::Range(first, last) => format!("{}..{}", number(first), number(last)),
        Seconds::Over(s) => format!("> {}", number(s)),
        Seconds::None => "-".to_owned(),
    }
}

fn modelled(outcome: &Outcome) -> String {
    let finishes = finishes(outcome);
    let last = finishes.iter().map(|(s, _)| *s).fold(0.0, f64::max);
    let over = if finishes.iter().all(|(_, through)| *through) { "" } else { "> " };
    match finishes.len() {
        0 | 1 => format!("{over}{}", number(last)),
        _ => {
            let first = finishes.iter().map(|(s, _)| *s).fold(f64::INFINITY, f64::min);
            format!("{}..{over}{}", number(first), number(last))
        }
    }
}

/// KiB per second of all processes.
pub(super) fn kib_per_s(outcome: &Outcome) -> f64 {
    let bytes: u64 = outcome.records.iter().map(|record| record.bytes).sum();
    bytes as f64 / 1024.0 / (outcome.took.0.max(1) as f64 / 1e9)
}

fn axboe(results: &Results) -> Table {
    let columns = AXBOE_ELEVATORS.iter().map(|elevator| Column::text(*elevator));
    let mut table = Table::new([Column::text("")].into_iter().chain(columns));
    for row in &AXBOE {
        let cells = AXBOE_ELEVATORS.iter().zip(row.kib_per_s).map(|(elevator, published)| {
            let said: Vec<String> = published.iter().map(|kib| fixed(*kib, 0)).collect();
            let modelled = row.scenes.iter().map(|scene| {
                results
                    .of(scene, elevator)
                    .map_or_else(|| "-".to_owned(), |outcome| fixed(kib_per_s(outcome), 0))
            });
            format!("{} / {}", said.join(" "), modelled.collect::<Vec<_>>().join(" "))
        });
        table.row([title(row.scenes[0]).to_owned()].into_iter().chain(cells));
    }
    table
}

fn priorities(results: &Results) -> Table {
    let columns =
        [Column::text("level"), Column::number("published", "KiB/s"), Column::number("modelled", "KiB/s")];
    let mut table = Table::new(columns);
    let outcome = results.of("priorities", "cfq");
    for (place, (level, published)) in PRIORITIES.iter().enumerate() {
        let record = outcome.and_then(|outcome| outcome.records.get(place));
        let modelled = record.map_or_else(|| "-".to_owned(), |record| fixed(record.mib_per_s() * 1024.0, 0));
        table.row([format!("be/{level}"), fixed(*published, 0), modelled]);
    }
    table
}
