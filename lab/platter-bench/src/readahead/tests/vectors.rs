//! The I/Os that the kernels' policies are known to make.

use super::{by_name, policies};
use crate::readahead::{Machine, Outcome, Pattern, Read, Workload, run};
use crate::stats::Seeded;
use platter_block::hint::Hint;
use platter_cache::readahead::Settings;
use std::collections::BTreeSet;

const KIB: u64 = 1024;

fn simulate(policy: &str, reads: &[Read]) -> Outcome {
    with(policy, &[], reads)
}

fn with(policy: &str, params: &[(&str, i64)], reads: &[Read]) -> Outcome {
    let row = by_name(policy).unwrap();
    let mut settings = Settings::default();
    for (name, value) in params {
        settings.set(row, name, *value).unwrap();
    }
    run(row, &settings, &Machine::default(), reads)
}

/// Reads of whole pages by one thread.
fn pages(reads: impl IntoIterator<Item = (u64, u64)>) -> Vec<Read> {
    let read = |(page, count)| Read { thread: 0, handle: 0, pos: page * 4096, len: count * 4096 };
    reads.into_iter().map(read).collect()
}

fn sizes(outcome: &Outcome) -> Vec<u32> {
    outcome.ios.iter().map(|io| io.pages).collect()
}

fn places(outcome: &Outcome) -> Vec<(u64, u32)> {
    outcome.ios.iter().map(|io| (io.page, io.pages)).collect()
}

/// Aligned reads of 16 KiB at random places so far from each other that no window reaches the next.
fn random(count: u64, threads: u64) -> Vec<Read> {
    let mut random = Seeded::new(1);
    let mut places = BTreeSet::new();
    let mut place = || loop {
        let place = 1000 + 64 * random.below(50_000);
        if places.insert(place) {
            return place;
        }
    };
    let mut read = |n: u64| {
        let thread = (n % threads) as u32;
        Read { thread, handle: 0, pos: place() * 4096, len: 16 * KIB }
    };
    (0..count).map(&mut read).collect()
}

#[test]
fn random_reads_of_one_thread() {
    let reads = random(8, 1);
    assert_eq!(sizes(&simulate("2.6.0", &reads)), [1; 32]);
    for policy in ["2.6.1", "2.6.5"] {
        assert_eq!(sizes(&simulate(policy, &reads)), [16, 5, 5, 5, 5, 5, 5, 5], "{policy}");
        // Without the page too many.
        assert_eq!(sizes(&with(policy, &[("extra", 0)], &reads))[1], 4, "{policy}");
    }
    let both = simulate("2.6.2", &reads);
    assert_eq!(sizes(&both), [16, 18, 4, 6, 4, 6, 4, 6, 4, 6, 4, 6, 4, 6, 4, 6]);
    assert_eq!(both.pages_wasted(), 30 + 7 * 6);
    assert_eq!(sizes(&simulate("2.6.7", &reads)), [16, 10, 7, 5, 4, 4, 4, 4]);
    for policy in ["none", "2.6.11", "ondemand", "context", "platter"] {
        assert_eq!(sizes(&simulate(policy, &reads)), [4; 8], "{policy}");
    }
    // 1 page and 5 after it, before the thread waits.
    assert_eq!(sizes(&simulate("linux-2.4", &reads)), [6; 8]);
}

#[test]
fn two_threads_on_one_handle_page_by_page() {
    let outcome = simulate("2.6.5", &random(8, 2));
    let expected = [&[16, 2][..], &[1; 8 * 4 - 4 - 2][..]].concat();
    assert_eq!(sizes(&outcome), expected);
    assert_eq!(outcome.counters.closed_by_miss, 1);
}

/// 16 threads, 200 reads: the effects of a shared state and of a copy for each call.
#[test]
fn sixteen_threads_on_one_handle() {
    let count = |outcome: &Outcome, size| sizes(outcome).iter().filter(|&&pages| pages == size).count();
    let reads = random(200, 16);
    for policy in ["2.6.5", "2.6.6+private", "2.6.6+lock", "2.6.6+size"] {
        let outcome = simulate(policy, &reads);
        let found = (count(&outcome, 1), count(&outcome, 2), count(&outcome, 5), count(&outcome, 16));
        let total = outcome.ios.len();
        match policy {
            "2.6.5" => assert_eq!((found, total), ((794, 1, 0, 1), 796)),
            "2.6.6+private" => assert_eq!((found, total), ((0, 0, 184, 16), 200)),
            "2.6.6+lock" => assert_eq!((found, total), ((0, 0, 199, 1), 200)),
            _ => assert_eq!(count(&outcome, 4), 200),
        }
    }
    for policy in ["none", "2.6.11", "ondemand", "context", "platter"] {
        assert_eq!(sizes(&simulate(policy, &reads)), [4; 200], "{policy}");
    }
}

#[test]
fn sequential_reads_of_a_page() {
    let reads = pages((0..128).map(|page| (page, 1)));
    for (policy, expected) in [
        ("2.6.0", &[16, 18, 32, 32][..]),
        ("2.6.2", &[16, 18, 32, 32]),
        ("2.6.1", &[16, 32, 32, 32]),
        ("2.6.5", &[16, 32, 32, 32]),
        ("2.6.6+private", &[16, 32, 32, 32]),
        ("2.6.7", &[16, 16, 16, 16, 18, 32]),
    ] {
        let outcome = simulate(policy, &reads);
        assert_eq!(sizes(&outcome)[..expected.len()], *expected, "{policy}");
        // Each window begins where the last one ended.
        let ends = outcome.ios.windows(2).all(|pair| pair[0].page + u64::from(pair[0].pages) == pair[1].page);
        assert!(ends && outcome.ios[0].page == 0, "{policy}");
    }
    // Ahead of need: 2.6.0 reads the second window with the second page, 2.6.1 with the last of the first.
    assert_eq!(simulate("2.6.0", &reads).ios[1].round, 1);
    assert_eq!(simulate("2.6.1", &reads).ios[1].round, 15);
}

#[test]
fn on_demand_sequences() {
    for policy in ["ondemand", "context"] {
        let first = |reads: &[Read], count: usize| places(&simulate(policy, reads))[..count].to_vec();
        let ones = pages((0..100).map(|page| (page, 1)));
        assert_eq!(first(&ones, 5), [(0, 4), (4, 8), (12, 16), (28, 32), (60, 32)], "{policy}");
        let fours = pages((0..16).map(|n| (4 * n, 4)));
        assert_eq!(first(&fours, 3), [(0, 8), (8, 16), (24, 32)], "{policy}");
    }
    let later = pages((1000..1100).map(|page| (page, 1)));
    let expected = [(1000, 1), (1001, 4), (1005, 8), (1013, 16), (1029, 32)];
    assert_eq!(places(&simulate("ondemand", &later))[..5], expected);
    assert_eq!(places(&with("context", &[("conservative", 1)], &later))[..5], expected);
}

/// The rules of 4.19: those of 2.6.31 with the conservative context of 3.12.
#[test]
fn two_streams_alternate_on_one_handle() {
    let reads = pages((0..120).flat_map(|n| [(1000 + n, 1), (5000 + n, 1)]));
    let outcome = with("context", &[("conservative", 1)], &reads);
    for stream in [1000, 5000] {
        let of_stream = outcome.ios.iter().filter(|io| (stream..stream + 1000).contains(&io.page));
        let sizes: Vec<u32> = of_stream.map(|io| io.pages).collect();
        assert_eq!(sizes[..8], [1, 1, 3, 4, 10, 22, 32, 32]);
    }
}

/// Two streams that do not take turns strictly: where each policy finds that they are streams.
#[test]
fn context_finds_streams_two_reads_earlier() {
    let reads = pages([1, 1001, 2, 1002, 3, 4, 1003, 5, 1004, 1005, 6].map(|page| (page, 1)));
    let streams = |policy| {
        let outcome = simulate(policy, &reads);
        [0, 1000].map(|from| {
            let of_stream = outcome.ios.iter().filter(|io| (from..from + 1000).contains(&io.page));
            of_stream.filter(|io| io.pages > 1).map(|io| io.page).next().unwrap()
        })
    };
    assert_eq!(streams("ondemand"), [4, 1005]);
    assert_eq!(streams("context"), [2, 1002]);
    assert_eq!(streams("platter"), [2, 1002]);
}

/// Reads of 4.5 KiB: each begins on the page where the last one ended.
#[test]
fn unaligned_reads_are_a_sequence_from_2_6_12_on() {
    let workload = Workload { request: 4608, count: 200, ..Workload::default() };
    let old = simulate("2.6.11", &workload.reads());
    let new = with("2.6.11", &[("same_page", 1)], &workload.reads());
    assert!(old.waits >= 25 && new.waits < 5, "{} {}", old.waits, new.waits);
}

/// Random reads switch readahead off, and 32 pages in sequence switch it on. Windows then still have one page
/// while the sequence continues in 2.6.7, but not in 2.6.8 and 2.6.9.
#[test]
fn a_sequence_after_random_reads() {
    let reads: Vec<(u64, u64)> = (0..20).map(|n| (1000 + n * 7919 % 997 * 64, 1)).collect();
    let reads = pages(reads.into_iter().chain((0..200).map(|n| (100_000 + n, 1))));
    let singles = |runs| {
        let outcome = with("2.6.7", &[("runs", runs)], &reads);
        outcome.ios.iter().filter(|io| io.page >= 100_000 && io.pages == 1).count()
    };
    assert!(singles(0) > 100, "{}", singles(0));
    assert_eq!([singles(1), singles(2)], [33, 33]);
}

/// A window without a page to read makes the next one smaller, and the first window of 2.6.0 none: readahead is off, and
/// stays so when pages are missing.
#[test]
fn hits_shrink_and_close_windows() {
    let mut reads = pages((0..14).map(|n| (n * 70 % 999, 1)));
    reads.extend(pages([(100_000, 4)]));
    let machine = Machine { cached: (0..1000).collect(), ..Machine::default() };
    let outcome = |policy| run(by_name(policy).unwrap(), &Settings::default(), &machine, &reads);
    let first = outcome("2.6.0");
    assert_eq!((first.counters.closed_by_hit, first.counters.closed_by_miss), (1, 0));
    assert_eq!(sizes(&first), [1; 4]);
    let later = outcome("2.6.5");
    assert_eq!((later.counters.shrunk, later.counters.closed_by_hit), (13, 0));
    assert_eq!(places(&later)[0], (100_000, 2));
}

/// The article's example: two threads, pages 100 to 104 and 200 to 204, on one handle.
#[test]
fn the_example_of_may_2004() {
    let reads = [
        Read { thread: 1, handle: 0, pos: 100 * 4096, len: 5 * 4096 },
        Read { thread: 2, handle: 0, pos: 200 * 4096, len: 5 * 4096 },
    ];
    let old = simulate("2.6.5", &reads);
    assert_eq!(places(&old), [(100, 16), (200, 2), (202, 1), (203, 1), (204, 1)]);
    assert_eq!(old.counters.closed_by_miss, 1);
    for policy in ["none", "2.6.11", "ondemand", "context", "platter"] {
        assert_eq!(places(&simulate(policy, &reads)), [(100, 5), (200, 5)], "{policy}");
    }
}

#[test]
fn large_requests_grow_to_the_optimum() {
    let reads = pages([(1000, 128), (1128, 128)]);
    let row = by_name("context").unwrap();
    let mut settings = Settings { optimal: 256, ..Settings::default() };
    let small = run(row, &settings, &Machine::default(), &reads);
    settings.set(row, "large", 1).unwrap();
    let large = run(row, &settings, &Machine::default(), &reads);
    assert!(sizes(&small).iter().all(|&pages| pages <= 32));
    assert_eq!(sizes(&large)[0], 128);
}

#[test]
fn what_the_program_says_counts() {
    let workload =
        Workload { pattern: Pattern::Sequential, request: 8192, count: 400, ..Workload::default() };
    for row in policies() {
        let largest = |hint| {
            let machine = Machine { hint, ..Machine::default() };
            let outcome = run(row, &Settings::default(), &machine, &workload.reads());
            outcome.ios.iter().map(|io| io.pages).max().unwrap()
        };
        assert_eq!(largest(Hint::Random), 2, "{}", row.name);
        let (normal, sequential) = (largest(Hint::Normal), largest(Hint::Sequential));
        let twice = if row.name == "none" { normal } else { 2 * normal };
        assert_eq!(sequential, twice, "{}", row.name);
    }
}
