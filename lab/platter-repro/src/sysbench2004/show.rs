//! The assumptions of the model, and the tables of the report.

use super::REQUESTS;
use super::cells::{CELLS, Found, SEEDS, TIMES};
use super::crew::{Outcome, single};
use super::machine::Change;
use platter_bench::report::units::fixed;
use platter_bench::report::{Column, Table};

/// The method and the assumptions, in paragraphs.
pub(super) fn method(requests: u64) -> Vec<String> {
    let all = match requests {
        REQUESTS => String::new(),
        fewer => format!(
            " Only {fewer} requests are run: windows have less time to be closed, and claims need all."
        ),
    };
    let ran = format!(
        "SysBench's fileio test on the cache, the readahead, the queue and the elevators of Platter over a model of an \
             IDE disk, in virtual time: 16 threads, blocks of 16 KiB, 3 reads to 2 writes, 128 files of 3 GB, all files \
             made durable after each 100 requests, {REQUESTS} requests; means of {SEEDS} seeds.{all}"
    );
    let taken = [
        "Between rows of one machine only readahead and elevator differ. A time holds within 15 % of the published seconds, \
         a count within a quarter. Chosen with known results: the memory, from 256 to 512 MB \
         for pages, and the policy of piggin-patched, for which 2.6.6+size was tried first (see piggin-windows).",
        "Disk: ide2004 of the catalogue (80 GB, 7200 rpm, 8.5 ms), one command at a time of 128 KiB at most, \
         write cache on and, as in 2004, never flushed.",
        "Memory: 512 MB, of which 7/8 hold pages of files. This is not published; 18 % of Kopytov's windows were \
         in memory already, which is about the share of this much memory in 3 GB. Piggin's and Morton's machines have 256 MB, \
         as published. The files have just been written: their end is in memory.",
        "File system: ext3 with data=ordered. Files are laid out one after the other behind a journal of 32 MB, \
         indirect blocks in front of their data; an indirect block is read once, when it is needed first. Reads \
         and writes change an inode once a second. fsync writes the file's pages and, if its inode has changed, \
         commits: the data written meanwhile in the order of the writes, a descriptor with the blocks of inodes, \
         a commit block, each waited for; commits requested meanwhile share the next. Inodes are not written in \
         place. Morton's ext2 has no journal: fsync writes the file's pages and then, if it has changed, the block of its \
         inode.",
        "Write-back by share and age (2.6: 10 and 40 %, 30 s; 2.4: 30 and 60 %) never begins between two rounds \
         of fsync; all rows use the limits of 2.6. The queue is plugged as in 2.6 for all rows and has 128 \
         requests for each direction, for 2.4 64 of 248 sectors. The threads are one process for CFQ, and separate tasks for anticipatory.",
        "Processor time is not modelled.",
    ];
    std::iter::once(ran).chain(taken.map(str::to_owned)).collect()
}

pub(super) fn tables(found: &Found) -> Vec<(String, Table)> {
    vec![("Times".to_owned(), times(found)), ("What the cache and the disk did".to_owned(), counts(found))]
}

fn times(found: &Found) -> Table {
    let mut table = Table::new([
        Column::text("run"),
        Column::number("published", "s"),
        Column::number("modelled", "s"),
        Column::number("published", "times 2.4"),
        Column::number("modelled", "times 2.4"),
        Column::text("what"),
    ]);
    for time in TIMES {
        let base = time.base.and_then(|id| TIMES.iter().find(|base| base.id == id));
        let seconds = found.seconds(time.cell);
        let times = base.and_then(|base| Some(seconds? / found.seconds(base.cell)?));
        let show =
            |value: Option<f64>, digits| value.map_or_else(|| "-".to_owned(), |value| fixed(value, digits));
        table.row([
            time.id.to_owned(),
            fixed(time.seconds, 1),
            show(seconds, 1),
            show(base.map(|base| time.seconds / base.seconds), 2),
            show(times, 2),
            time.says.to_owned(),
        ]);
    }
    table
}

fn counts(found: &Found) -> Table {
    type Get = fn(&Outcome) -> f64;
    let columns: [(&str, &str, Get); 10] = [
        ("time", "s", |o| o.time.0 as f64 / 1e9),
        ("closed", "by misses", |o| o.cache.readahead.closed_by_miss as f64),
        ("shrunk", "", |o| o.cache.readahead.shrunk as f64),
        ("pages", "contiguous", |o| o.cache.readahead.contiguous as f64),
        ("pages", "not", |o| o.cache.readahead.random as f64),
        ("reads", "of cache", |o| o.cache.reads.iter().sum::<u64>() as f64),
        ("of 1 page", "%", |o| single(o) * 100.0),
        ("requests", "to disk", |o| o.dispatched as f64),
        ("commits", "", |o| o.commits as f64),
        ("of the journal", "blocks", |o| o.log_blocks as f64),
    ];
    let head = [Column::text("run"), Column::text("readahead"), Column::text("elevator")];
    let numbers = columns.iter().map(|(name, unit, _)| Column::number(*name, *unit));
    let mut table = Table::new(head.into_iter().chain(numbers));
    for (name, kernel) in CELLS {
        let elevator = format!("{} of {}{}", kernel.elevator, kernel.preset, changed(kernel.change));
        let mut row = vec![(*name).to_owned(), kernel.readahead.to_owned(), elevator];
        for (_, _, get) in columns {
            row.push(found.mean(name, get).map_or_else(|| "-".to_owned(), |value| fixed(value, 0)));
        }
        table.row(row);
    }
    table
}

/// What a run changes, behind the name of its elevator.
fn changed(change: Change) -> String {
    match change {
        Change::Nothing => String::new(),
        Change::Requests(requests) => format!(", nr_requests {requests}"),
        Change::Expiry(times) => format!(", expiry times {times}"),
        Change::Tags => ", 16 tags".to_owned(),
    }
}
