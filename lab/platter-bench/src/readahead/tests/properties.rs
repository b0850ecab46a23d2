//! Properties of every policy, for any reads.

use super::{by_name, policies};
use crate::readahead::{Machine, Outcome, Read, SSD, Workload, run};
use platter_cache::readahead::{ReadaheadType, Settings};
use proptest::prelude::*;

/// Pages of a device that is small enough for reads to overlap.
const PAGES: u64 = 2000;

fn reads() -> impl Strategy<Value = Vec<Read>> {
    let pos = prop_oneof![0..PAGES * 4096, (0..PAGES / 4).prop_map(|n| n * 4 * 4096)];
    let read = (0..4u32, 0..2u32, pos, 1..300_000u64);
    let read = read.prop_map(|(thread, handle, pos, len)| Read { thread, handle, pos, len });
    // Alone, or as the beginning of a sequence, forwards or backwards.
    let reads = (read, 1..20u64, any::<bool>()).prop_map(|(read, count, back)| {
        let len = read.len.min(40_000);
        let pos = |n: u64| match back {
            true => read.pos.saturating_sub(n * len),
            false => read.pos + n * len,
        };
        (0..count).map(|n| Read { pos: pos(n), len, ..read }).collect::<Vec<_>>()
    });
    prop::collection::vec(reads, 1..12).prop_map(|runs| runs.concat())
}

fn machine() -> impl Strategy<Value = Machine> {
    let cache = prop_oneof![Just(None), (40..600usize).prop_map(Some)];
    let cached = prop::collection::btree_set(0..PAGES, 0..300);
    let rest = (1..6u64, prop_oneof![Just(4usize), Just(128)]);
    (cache, cached, rest).prop_map(|(cache, cached, (latency, requests))| Machine {
        pages: PAGES,
        cache,
        cached: cached.into_iter().collect(),
        latency,
        requests,
        ..Machine::default()
    })
}

/// All pages that the reads touch on the device.
fn touched(reads: &[Read]) -> u64 {
    let pages =
        reads.iter().flat_map(|read| read.pos / 4096..(read.pos + read.len).div_ceil(4096).min(PAGES));
    pages.collect::<std::collections::BTreeSet<u64>>().len() as u64
}

fn check(row: &ReadaheadType, settings: &Settings, machine: &Machine, reads: &[Read], outcome: &Outcome) {
    let name = row.name;
    let largest = reads.iter().map(|read| read.len / 4096 + 2).max().unwrap_or(0);
    // A window for the request, and one ahead of it.
    let most = largest * 2 + 2 * u64::from(settings.optimal.max(settings.max));
    for window in &outcome.windows {
        assert!(window.count > 0, "{name}: {window:?}");
        let end = window.first + u64::from(window.count);
        assert!(end <= PAGES, "{name}: {window:?}");
        assert!(u64::from(window.count) <= most, "{name}: {window:?} of {most}");
        assert!(window.mark.is_none_or(|mark| (window.first..end).contains(&mark)), "{name}: {window:?}");
    }
    assert!(outcome.ios.iter().all(|io| io.pages > 0 && io.page + u64::from(io.pages) <= PAGES), "{name}");
    assert!(outcome.pages_used <= outcome.pages_read, "{name}");
    if machine.cache.is_none() {
        assert!(outcome.pages_read <= PAGES - machine.cached.len() as u64, "{name}: a page was read twice");
        assert!(outcome.pages_used + machine.cached.len() as u64 >= touched(reads), "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn windows_are_bounded_and_on_the_device(
        reads in reads(),
        machine in machine(),
        max in prop_oneof![Just(0u32), 1..5u32, Just(32), Just(100)],
        optimal in prop_oneof![Just(0u32), Just(32), Just(256)],
    ) {
        for row in policies() {
            let settings = Settings { max, optimal, ..Settings::default() };
            check(row, &settings, &machine, &reads, &run(row, &settings, &machine, &reads));
        }
    }

    #[test]
    fn what_is_cached_costs_nothing_where_hits_are_free(reads in reads()) {
        let machine = Machine { pages: PAGES, cached: (0..PAGES).collect(), ..Machine::default() };
        for row in policies() {
            let settings = Settings::default();
            let outcome = run(row, &settings, &machine, &reads);
            prop_assert_eq!(outcome.ios.len() as u64 + outcome.waits, 0);
            if !(row.make)(&settings).every_page() {
                prop_assert_eq!(outcome.counters.lookups, 0, "{}", row.name);
            }
        }
    }
}

/// A cache too small for its streams: no policy reads the same pages again and again.
#[test]
fn lost_pages_do_not_make_streams_read_more_and_more() {
    let workload = Workload {
        pattern: crate::readahead::Pattern::Interleaved,
        streams: 16,
        request: 4096,
        count: 16_000,
        ..Workload::default()
    };
    let machine = Machine { cache: Some(200), ..Machine::default() };
    let row = by_name("platter").unwrap();
    let settings = Settings { optimal: 256, ..Settings::default() };
    let outcome = run(row, &settings, &machine, &workload.reads());
    assert!(outcome.pages_read < 2 * outcome.reads, "{}", outcome.pages_read);
    assert!(outcome.counters.shrunk > 0);
}

/// Reads at random in a region that is small compared with the reads remembered continue each other by chance: that must not make
/// them more expensive than without readahead.
#[test]
fn reads_at_random_in_a_small_region_waste_little() {
    // Pages of the region, and of the cache.
    for (span, cache) in [(128, 16), (1024, 128), (8192, 1024), (65536, 8192)] {
        let workload = Workload {
            pattern: crate::readahead::Pattern::Random,
            request: 16384,
            span: span * 4096,
            count: 20_000,
            ..Workload::default()
        };
        let machine = Machine { cache: Some(cache), ..Machine::default() };
        let of = |name| run(by_name(name).unwrap(), &Settings::default(), &machine, &workload.reads());
        let (platter, none) = (of("platter"), of("none"));
        let wasted = platter.pages_wasted() * 100 / platter.pages_read;
        assert!(wasted <= 11, "{wasted} % of {} pages in a region of {span}", platter.pages_read);
        let (time, without) = (SSD.of(&platter), SSD.of(&none));
        assert!(time <= without * 1.02, "{time} and {without} in a region of {span}");
    }
}

#[test]
fn names_are_unique_and_parameters_are_checked() {
    let rows = policies();
    for (index, row) in rows.iter().enumerate() {
        assert!(rows[..index].iter().all(|other| other.name != row.name), "{}", row.name);
        let mut settings = Settings::default();
        let error = settings.set(row, "colour", 1).unwrap_err().to_string();
        assert!(error.contains(row.name) && error.contains("colour"), "{error}");
        for param in row.params {
            assert!(settings.set(row, param.name, param.max + 1).is_err());
            settings.set(row, param.name, param.max).unwrap();
        }
        assert_eq!(settings.values, row.params.iter().map(|param| param.max).collect::<Vec<_>>());
    }
}
