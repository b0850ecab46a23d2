//! The chunked benchmark on simulated disks whose times are known: exact rates for each personality.

use platter_aio::statistics::STATISTICS;
use platter_bench::chunked::{self, Cell, Harness, Pattern, Personality, Plan, Point, RunOptions};
use platter_block::bio::Op;
use platter_block::driver::{Features, Geometry};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::open::DiskOptions;
use platter_sim::model::{Command, Ended, Model};
use platter_sim::{SimDisk, World};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A disk that does one command after the other and takes a time for each, and one for each sector.
struct Serial {
    each: u64,
    sector: u64,
    free: Time,
    queue: VecDeque<Ended>,
}

const SIZE: u64 = 1 << 30;

impl Model for Serial {
    fn geometry(&self) -> Geometry {
        let features = Features::default().with_fua(true);
        Geometry::new(SIZE, Limits::unlimited(512)).with_features(features)
    }

    fn depth(&self) -> u32 {
        64
    }

    fn accept(&mut self, now: Time, command: &Command) -> bool {
        assert!(matches!(command.op, Op::Read | Op::Write));
        self.free = self.free.max(now) + Span(self.each + self.sector * u64::from(command.sectors));
        self.queue.push_back(Ended { tag: command.tag, at: self.free });
        true
    }

    fn next_event(&self) -> Option<Time> {
        self.queue.front().map(|first| first.at)
    }

    fn advance(&mut self, now: Time, ended: &mut Vec<Ended>) {
        while let Some(first) = self.queue.front().copied().filter(|first| first.at <= now) {
            self.queue.pop_front();
            ended.push(first);
        }
    }
}

/// Disks that take `each` ns for a command and `sector` ns for a sector.
fn disks(world: &Arc<World>, count: usize, each: u64, sector: u64) -> Vec<Device> {
    let disk = |number| {
        let model = Serial { each, sector, free: Time(0), queue: VecDeque::new() };
        let disk = SimDisk::new(world, Box::new(model), None);
        Device::from_disk(disk.attach(&format!("serial{number}")), DiskSettings::default(), None).unwrap()
    };
    (0..count).map(disk).collect()
}

const STRIPE: u64 = 64 << 10;
/// Time of a sector at 50 MiB/s, rounded; the rates below are relative to this.
const SECTOR: u64 = 9766;
const DISK: f64 = 512.0 / (1 << 20) as f64 / (SECTOR as f64 / 1e9);

const HARNESS: Harness = Harness { samples: 5, enough: Span::ZERO, seed: 3 };

fn cell(personality: Personality, disks: usize, request: u64) -> Cell {
    Cell { stripe: STRIPE, ..Cell::new(personality, disks, request) }
}

fn measure_on(cell: &Cell, disks: &[Device]) -> Point {
    let harness = HARNESS;
    chunked::measure(cell, &harness, disks, false, &AtomicBool::new(false)).unwrap().unwrap()
}

fn measure(cell: &Cell) -> Point {
    measure_on(cell, &disks(&World::new(1), cell.disks, 0, SECTOR))
}

/// Rate as a share of that of all disks.
fn efficiency(cell: &Cell) -> f64 {
    let point = measure(cell);
    let share = point.median() / (DISK * cell.disks as f64);
    assert!((0.0..=1.0 + 1e-9).contains(&share), "{share}");
    share
}

fn is_about(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-6
}

#[test]
fn disks_by_themselves_give_all_they_have() {
    for disks in 1..=3 {
        for request in [4096, STRIPE, 1 << 20] {
            let point = measure(&cell(Personality::Jbod, disks, request));
            assert!(is_about(point.median(), DISK * disks as f64), "{disks} {request}");
            assert_eq!(point.samples, 5 * disks);
        }
    }
}

/// A request of k stripes on N disks takes the time of the most stripes that one of them has: k / (N ⌈k/N⌉) of all.
#[test]
fn synchronous_requests_wait_for_the_disk_with_the_most_stripes() {
    for disks in 1..=4_u64 {
        for stripes in 1..=9_u64 {
            let request = stripes * STRIPE;
            let expected = stripes as f64 / (disks * stripes.div_ceil(disks)) as f64;
            let got = efficiency(&cell(Personality::CsraidSync, disks as usize, request));
            assert!(is_about(got, expected), "{stripes} stripes on {disks} disks: {got}, not {expected}");
        }
    }
    // Smaller than a stripe: one disk at a time.
    assert!(is_about(efficiency(&cell(Personality::CsraidSync, 4, 4096)), 0.25));
}

#[test]
fn windows_is_synchronous_with_stripes_of_its_own() {
    for (request, expected) in [(1 << 20, 1.0 / 3.0), (3 << 20, 1.0), (4 << 20, 4.0 / 6.0)] {
        let got = efficiency(&cell(Personality::Windows, 3, request));
        assert!(is_about(got, expected), "{request}: {got}");
    }
}

/// With one stripe ahead two disks work at a time, however many there are; without, one.
#[test]
fn the_kernel_has_two_stripes_in_flight() {
    let request = 12 * STRIPE;
    for (disks, overrun, readahead, expected) in [
        // Thirteen stripes are read for twelve, two at a time, if another disk has the one too many.
        (1, false, None, 1.0),
        (3, false, Some(0), 1.0 / 3.0),
        (4, false, Some(0), 1.0 / 4.0),
        (2, false, None, 1.0),
        (4, false, None, 0.5),
    ] {
        let cell = Cell { overrun, readahead, ..cell(Personality::Kernel24, disks, request) };
        let got = efficiency(&cell);
        assert!(is_about(got, expected), "{disks} {overrun} {readahead:?}: {got}, not {expected}");
    }
}

/// On one disk, readahead past the end of a request is wasted: only k of k + 1 stripes are needed.
#[test]
fn readahead_past_the_chunk_costs_what_it_reads() {
    for stripes in [1_u64, 2, 4, 16] {
        let kernel = cell(Personality::Kernel24, 1, stripes * STRIPE);
        let expected = stripes as f64 / (stripes + 1) as f64;
        let got = efficiency(&kernel);
        assert!(is_about(got, expected), "{stripes}: {got}, not {expected}");
        assert!(is_about(efficiency(&Cell { overrun: false, ..kernel }), 1.0));
        // It is not wasted for sequential requests: only the last sample may end before its readahead is
        // used.
        let got = efficiency(&Cell { pattern: Pattern::Stream, ..kernel });
        assert!(got > 0.94, "{stripes}: {got}");
    }
}

/// Readahead past the end of a request delays the next one by its own time only: commands that cost 1 ms
/// each.
#[test]
fn commands_have_their_price() {
    let disks = disks(&World::new(1), 2, 1_000_000, 0);
    let point = measure_on(&cell(Personality::CsraidSync, 2, 2 * STRIPE), &disks);
    assert_eq!(point.quartiles, [125.0; 3]);
    let point = measure_on(&cell(Personality::Jbod, 2, STRIPE), &disks);
    assert_eq!(point.quartiles, [125.0; 3]);
}

/// Several requests at once keep all disks at work although each is on one disk only; more is not possible.
#[test]
fn asynchronous_requests_fill_the_disks() {
    for personality in [Personality::CsraidAsync, Personality::CsraidPosix] {
        let sync = efficiency(&cell(Personality::CsraidSync, 3, STRIPE));
        let harness = Harness { samples: 101, enough: Span::from_millis(20), seed: 3 };
        let deep = |depth| {
            let cell = Cell { depth, ..cell(personality, 3, STRIPE) };
            let disks = disks(&World::new(1), 3, 0, SECTOR);
            let never = AtomicBool::new(false);
            chunked::measure(&cell, &harness, &disks, false, &never).unwrap().unwrap().median() / (DISK * 3.0)
        };
        let (one, four, many) = (deep(1), deep(4), deep(64));
        assert!(is_about(one, sync) && is_about(sync, 1.0 / 3.0), "{one} {sync}");
        // Four requests at random on three disks: a closed network, in which a disk is at work 4 / (4 + 3 - 1) of the
        // time if service times were exponential, and more if they are constant.
        assert!(four > 4.0 / 6.0 && four < 0.95, "{four}");
        assert!(many > 0.95 && many <= 1.1, "{many}");
    }
}

#[test]
fn streams_and_long_chunks_go_on_where_the_last_request_ended() {
    // A request of two stripes on three disks leaves one idle.
    for pattern in [Pattern::Stream, Pattern::Chunks(6 * STRIPE)] {
        let got = efficiency(&Cell { pattern, ..cell(Personality::CsraidSync, 3, 2 * STRIPE) });
        assert!(is_about(got, 2.0 / 3.0), "{got}");
    }
}

#[test]
fn writes_take_the_same_way() {
    for personality in [Personality::Jbod, Personality::CsraidSync, Personality::CsraidPosix] {
        let read = cell(personality, 2, 4 * STRIPE);
        let write = Cell { write: true, ..read };
        assert_eq!(measure(&read).quartiles, measure(&write).quartiles);
    }
    // A write is known to its end: nothing is wasted at the end of a request.
    let kernel = Cell { write: true, ..cell(Personality::Kernel24, 1, 4 * STRIPE) };
    assert!(is_about(efficiency(&kernel), 1.0));
}

#[test]
fn how_busy_disks_are_is_seen() {
    let cell = cell(Personality::CsraidSync, 3, 2 * STRIPE);
    let disks = disks(&World::new(1), 3, 0, SECTOR);
    let harness = Harness { samples: 200, ..HARNESS };
    let point = chunked::measure(&cell, &harness, &disks, true, &AtomicBool::new(false)).unwrap().unwrap();
    let busy = point.busy.unwrap();
    assert_eq!((busy.mean_pct.len(), busy.timeline_pct[0].len()), (3, chunked::BUCKETS));
    // Two of three at any time.
    let all: f64 = busy.mean_pct.iter().sum();
    assert!((all - 200.0).abs() < 2.0, "{busy:?}");
    assert!(busy.mean_pct.iter().all(|&pct| (50.0..85.0).contains(&pct)), "{:?}", busy.mean_pct);
}

#[test]
fn points_do_not_depend_on_the_number_of_threads() {
    let plan = Plan { requests: vec![4096, 1 << 20], ..Plan::quick(3) };
    let cells = plan.cells().unwrap();
    let run = |threads| {
        let options = RunOptions { harness: HARNESS, threads, watch: true };
        let open = |world: &Arc<World>| Ok(disks(world, 3, 1_000_000, SECTOR));
        let never = AtomicBool::new(false);
        let mut seen = 0;
        let points = chunked::run(&cells, &options, &open, &never, &mut |progress| {
            assert!(progress.done == seen || progress.done == seen + 1);
            seen = progress.done;
            assert_eq!(progress.total, cells.len());
        });
        let points = points.unwrap();
        assert!(points.simulated && !points.interrupted && seen == cells.len());
        points.points
    };
    let one = run(1);
    assert_eq!(one, run(1));
    assert_eq!(one, run(3));
    assert!(one.iter().zip(&cells).all(|(point, cell)| point.cell == *cell));
}

#[test]
fn a_cancelled_run_has_the_points_until_then() {
    let cells = Plan::quick(2).cells().unwrap();
    let options = RunOptions { harness: HARNESS, threads: 1, watch: false };
    let open = |world: &Arc<World>| Ok(disks(world, 2, 1_000_000, SECTOR));
    let cancel = AtomicBool::new(false);
    let points = chunked::run(&cells, &options, &open, &cancel, &mut |progress| {
        cancel.store(progress.done >= 3, std::sync::atomic::Ordering::Relaxed);
    });
    let points = points.unwrap();
    assert!(points.interrupted && (3..cells.len()).contains(&points.points.len()));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let on_two = disks(&World::new(1), 2, 0, SECTOR);
    let refused = |cell: Cell, word: &str| {
        let result = chunked::measure(&cell, &HARNESS, &on_two, false, &AtomicBool::new(false));
        let said = result.unwrap_err().to_string();
        assert!(said.contains(word), "{said}");
    };
    let good = cell(Personality::CsraidSync, 2, 4096);
    refused(Cell { disks: 3, ..good }, "3 disks where 2 are given");
    refused(Cell { disks: 0, ..good }, "at least one");
    refused(Cell { request: 1000, ..good }, "multiples of 512");
    refused(Cell { stripe: 3 << 10, ..good }, "power of two");
    refused(Cell { pattern: Pattern::Chunks(6000), ..good }, "expected a multiple");
    refused(Cell { pattern: Pattern::Chunks(4 << 30), ..good }, "less than a chunk");
    refused(Cell { depth: 0, ..good }, "expected 1 to 4096");
    let deep = Cell::new(Personality::CsraidAsync, 2, 64 << 20);
    refused(Cell { depth: 64, ..deep }, "smaller depth");
    refused(cell(Personality::Kernel24, 2, STRIPE + 4096), "whole stripes");
}

#[test]
fn real_disks_are_measured_in_real_time() {
    let disks: Vec<Device> = (0..2).map(|_| Device::ram(8 << 20).unwrap()).collect();
    let harness = Harness { samples: 3, enough: Span::from_micros(200), seed: 1 };
    for row in chunked::PERSONALITIES.iter().filter(|row| row.personality.is_simulated()) {
        let cell = Cell { stripe: STRIPE, ..Cell::new(row.personality, 2, STRIPE) };
        let never = AtomicBool::new(false);
        let point = chunked::measure(&cell, &harness, &disks, false, &never).unwrap().unwrap();
        let samples = if row.personality == Personality::Jbod { 6 } else { 3 };
        assert!(point.samples == samples && point.quartiles[0] > 0.0, "{}", row.name);
        let write = Cell { write: true, ..cell };
        assert!(chunked::measure(&write, &harness, &disks, false, &never).unwrap().is_some());
    }
}

#[test]
fn files_are_read_and_written_by_posix_aio() {
    let harness = Harness { samples: 3, enough: Span::from_micros(200), seed: 1 };
    let cell = Cell { stripe: STRIPE, ..Cell::new(Personality::CsraidAio, 2, 4 * STRIPE) };
    let never = AtomicBool::new(false);
    let measure = |cell: &Cell, disks: &[Device]| {
        chunked::measure(cell, &harness, disks, false, &never).map(Option::unwrap)
    };
    let directory = tempfile::tempdir().unwrap();
    let open = |name: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, vec![7; 8 << 20]).unwrap();
        Device::open(path, DiskOptions::read_write()).unwrap()
    };
    let disks = [open("a"), open("b")];
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    for write in [false, true] {
        let bytes = if write { &STATISTICS.written_bytes } else { &STATISTICS.read_bytes };
        let before = count(bytes);
        let point = measure(&Cell { write, ..cell }, &disks).unwrap();
        assert!(point.quartiles[0] > 0.0);
        assert!(count(bytes) - before >= 3 * 4 * STRIPE, "the I/O went through the interface");
    }
    let ram = [Device::ram(8 << 20).unwrap(), Device::ram(8 << 20).unwrap()];
    let error = measure(&cell, &ram).unwrap_err().to_string();
    assert!(error.contains("POSIX aio needs a file or block device"), "{error}");
}
