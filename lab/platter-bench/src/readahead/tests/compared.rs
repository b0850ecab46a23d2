//! `platter` against the best of the others, on generated reads.

use super::{by_name, policies};
use crate::readahead::{Cost, DISK, Machine, Pattern, Read, SSD, Workload, run};
use crate::stats::Seeded;
use platter_cache::readahead::{ReadaheadType, Settings};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Workloads by name, each with the pages that are cached at first.
fn workloads() -> Vec<(String, Vec<Read>, Vec<u64>)> {
    let mut all = Vec::new();
    let mut add = |name: String, workload: Workload| all.push((name, workload.reads(), Vec::new()));
    let base = Workload { span: 15 << 30, ..Workload::default() };
    for request in [4 * KIB, 4608, 8 * KIB, 16 * KIB, 64 * KIB, 128 * KIB, MIB] {
        let (count, start) = ((64 * MIB / request).max(200), MIB);
        let workload = Workload { request, count, start, ..base.clone() };
        add(format!("sequential {request}"), workload.clone());
        add(format!("sequential {request} from 0"), Workload { start: 0, ..workload.clone() });
        let count = (256 * MIB / request).min(2000);
        add(format!("random {request}"), Workload { pattern: Pattern::Random, count, ..workload.clone() });
        add(format!("mixed {request}"), Workload { pattern: Pattern::Mixed, count, ..workload.clone() });
        add(format!("reverse {request}"), Workload { pattern: Pattern::Reverse, count, ..workload });
    }
    for streams in [2, 3, 8, 33, 64] {
        let requests = if streams > 8 { &[16][..] } else { &[4, 16, 64] };
        for request in requests.iter().map(|request| request * KIB) {
            let count = streams * 16 * MIB / request;
            let workload =
                Workload { pattern: Pattern::Interleaved, streams, request, count, ..base.clone() };
            add(format!("interleaved {streams} x {request}"), workload);
        }
    }
    for (request, stride) in [(4, 8), (4, 12), (4, 32), (4, 256), (16, 64), (16, 100), (64, 1024), (1, 10)] {
        let (request, stride) = (request * KIB, stride * KIB);
        let workload = Workload { pattern: Pattern::Strided, request, stride, count: 12_000, ..base.clone() };
        add(format!("strided {request} / {stride}"), workload);
    }
    for run in [2, 3, 4, 8, 16, 64, 256] {
        for request in [4 * KIB, 16 * KIB] {
            let workload = Workload { pattern: Pattern::Runs, run, request, count: 4000, ..base.clone() };
            add(format!("runs {run} x {request}"), workload);
        }
    }
    for (threads, handles) in [(16, 1), (16, 16), (2, 1)] {
        let workload = Workload { pattern: Pattern::Random, threads, handles, count: 3200, ..base.clone() };
        add(format!("random 16K, {threads} threads, {handles} handles"), workload.clone());
        let workload = Workload { pattern: Pattern::Sequential, count: 20_000, ..workload };
        add(format!("sequential 16K, {threads} threads, {handles} handles"), workload);
    }
    for percent in [10, 50, 90] {
        let mut random = Seeded::new(percent);
        let cached = (0..256 * MIB / 4096).filter(|_| random.below(100) < percent).collect();
        let reads = Workload { count: 16_384, ..base.clone() }.reads();
        all.push((format!("sequential 16K, {percent} % cached"), reads, cached));
    }
    all.push(("random after 64 sequences, 1 GiB".to_owned(), after_sequences(), Vec::new()));
    for seed in 0..8 {
        all.push((format!("random trace {seed}"), trace(seed), Vec::new()));
    }
    all
}

/// Sequences that have ended, and then reads at random between them.
fn after_sequences() -> Vec<Read> {
    let span = 1 << 30;
    let first = Workload {
        pattern: Pattern::Interleaved,
        streams: 64,
        request: 4 * KIB,
        count: 64 * 200,
        span,
        ..Workload::default()
    };
    let then = Workload { pattern: Pattern::Random, count: 6000, ..first.clone() };
    [first.reads(), then.reads()].concat()
}

/// Reads of random sizes at random places by several threads.
fn trace(seed: u64) -> Vec<Read> {
    let mut random = Seeded::new(seed);
    let read = |_| Read {
        thread: random.below(4) as u32,
        handle: random.below(2) as u32,
        pos: random.below(15 << 30),
        len: 1 + random.below(64 * KIB),
    };
    (0..2000).map(read).collect()
}

/// Devices: cost, largest window (the kernels' or more), and the gap in pages up to which pages are read
/// rather than left out.
const DEVICES: [(Cost, u32, i64); 3] = [(DISK, 32, 28), (DISK, 256, 0), (SSD, 32, 0)];

/// By which factor `platter` is more expensive than the best of the others, whose name is returned too, for
/// each device.
fn ratios(name: &str, reads: &[Read], cached: Vec<u64>) -> [(f64, &'static str); 3] {
    let machine = Machine { cached, ..Machine::default() };
    // Policies that guess the end of a random read are right only where all runs have the same length.
    let guessed = name.starts_with("runs");
    let fair =
        |row: &&ReadaheadType| !guessed || ["none", "2.6.11", "ondemand", "context"].contains(&row.name);
    let others = policies().into_iter().filter(|row| row.name != "platter").filter(fair);
    let others: Vec<_> =
        others.map(|row| (row.name, run(row, &Settings::default(), &machine, reads))).collect();
    let row = by_name("platter").unwrap();
    DEVICES.map(|(cost, optimal, gap)| {
        let mut settings = Settings { optimal, ..Settings::default() };
        settings.set(row, "gap", gap).unwrap();
        let ours = cost.of(&run(row, &settings, &machine, reads));
        let costs = others.iter().map(|(name, outcome)| (cost.of(outcome), *name));
        let (best, whose) = costs.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        let (ratio, kind) = (ours / best, cost.name);
        println!("{kind:4} {optimal:3} {name:45} {:>9.0} {:>9.0} {ratio:.3} {whose}", ours / 1e3, best / 1e3);
        (ratio, whose)
    })
}

/// Workloads for which `platter` is more expensive than the rule allows.
fn worse(workloads: Vec<(String, Vec<Read>, Vec<u64>)>) -> Vec<String> {
    let mut worse = Vec::new();
    for (name, reads, cached) in workloads {
        let most = if name.starts_with("runs") { 1.12 } else { 1.02 };
        let ratios = ratios(&name, &reads, cached);
        worse.extend(
            ratios.iter().filter(|(ratio, _)| *ratio > most).map(|ratio| format!("{name}: {ratio:?}")),
        );
    }
    worse
}

#[test]
fn nothing_is_more_than_two_percent_better() {
    let numbered = workloads().into_iter().enumerate();
    let (even, odd): (Vec<_>, Vec<_>) = numbered.partition(|(number, _)| number % 2 == 0);
    let [even, odd] = [even, odd].map(|half| {
        let half = half.into_iter().map(|(_, workload)| workload).collect();
        std::thread::spawn(move || worse(half))
    });
    let worse = [even.join().unwrap(), odd.join().unwrap()].concat();
    assert!(worse.is_empty(), "{worse:#?}");
}
