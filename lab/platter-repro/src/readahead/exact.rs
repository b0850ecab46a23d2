//! The exact I/Os that policies make of known reads.

use super::{CHANGES, claim};
use crate::claim::{Claim, Rule};
use crate::kind::Kind;
use crate::policies::by_name;
use platter_bench::readahead::{Machine, Outcome, Read, run};
use platter_bench::stats::Seeded;
use platter_cache::readahead::Settings;
use std::collections::BTreeSet;

const THREAD: (&str, &str) =
    ("Random file I/O regressions in 2.6, KernelTrap, 4 May 2004", "R. Pai, 3 May 2004, example");
const RULES: (&str, &str) =
    ("Linux, mm/readahead.c and mm/filemap.c", "the rules of that kernel, taken through by hand");

pub(super) fn simulate(policy: &str, values: &[i64], reads: &[Read]) -> Option<Outcome> {
    let settings = Settings { values: values.to_vec(), ..Settings::default() };
    Some(run(by_name(policy)?, &settings, &Machine::default(), reads))
}

/// Reads of 16 KiB at places of which no window reaches the next.
pub(super) fn random(count: u64, threads: u64) -> Vec<Read> {
    let (mut random, mut places) = (Seeded::new(1), BTreeSet::new());
    let mut place = || loop {
        let place = 1000 + 64 * random.below(50_000);
        if places.insert(place) {
            return place;
        }
    };
    (0..count)
        .map(|n| Read { thread: (n % threads) as u32, handle: 0, pos: place() << 12, len: 4 << 12 })
        .collect()
}

/// Reads of a page.
fn pages(pages: impl IntoIterator<Item = u64>) -> Vec<Read> {
    pages.into_iter().map(|page| Read { thread: 0, handle: 0, pos: page << 12, len: 1 << 12 }).collect()
}

pub(super) fn sizes(outcome: &Outcome) -> Vec<u32> {
    outcome.ios.iter().map(|io| io.pages).collect()
}

/// How many of the first I/Os are as expected.
fn agree(found: Option<Outcome>, expected: &[u32]) -> Option<f64> {
    let found = sizes(&found?);
    Some(found.iter().zip(expected).take_while(|(a, b)| a == b).count() as f64)
}

/// A claim that the sizes of the first I/Os are exactly these.
fn sequence(
    id: &'static str,
    from: (&'static str, &str),
    says: &'static str,
    found: Option<Outcome>,
    expected: &[u32],
) -> Claim {
    let all = expected.len() as f64;
    Claim {
        kind: Kind::Mechanism,
        published: Some(all),
        ours: agree(found, expected),
        ..claim(id, from, says, "I/Os as said", Rule::Between(all, all))
    }
}

pub(super) fn number(
    id: &'static str,
    from: (&'static str, &str),
    says: &'static str,
    unit: &'static str,
    (published, ours): (f64, Option<f64>),
) -> Claim {
    Claim {
        kind: Kind::Mechanism,
        published: Some(published),
        ours,
        ..claim(id, from, says, unit, Rule::Between(published, published))
    }
}

/// All of them.
pub(super) fn claims() -> Vec<Claim> {
    let mut claims = random_reads();
    claims.extend(sequences());
    claims.extend(shared());
    claims.extend(contexts());
    claims
}

fn random_reads() -> Vec<Claim> {
    let reads = random(8, 1);
    let of = |policy| simulate(policy, &[], &reads);
    vec![
        sequence(
            "2.6.0-random",
            RULES,
            "2.6.0: each random read of 16 KiB is four of a page, from the first on",
            of("2.6.0"),
            &[1; 32],
        ),
        sequence(
            "2.6.5-random",
            RULES,
            "2.6.5, one thread: 16 pages, then 5 for each random read of 4",
            of("2.6.5"),
            &[16, 5, 5, 5, 5, 5, 5, 5],
        ),
        sequence(
            "2.6.2-random",
            RULES,
            "2.6.2: 16 and 18 pages, then 4 and 6 for each random read of 4",
            of("2.6.2"),
            &[16, 18, 4, 6, 4, 6, 4, 6, 4, 6],
        ),
        sequence(
            "2.6.7-random",
            RULES,
            "2.6.7: 16, 10, 7, 5, 4, 4 pages",
            of("2.6.7"),
            &[16, 10, 7, 5, 4, 4, 4, 4],
        ),
        sequence("2.6.11-random", RULES, "2.6.11: exactly the request", of("2.6.11"), &[4; 8]),
        sequence(
            "2.4-random",
            RULES,
            "2.4: one batch of 6 pages for each random read of 4",
            of("linux-2.4"),
            &[6; 8],
        ),
    ]
}

fn sequences() -> Vec<Claim> {
    let reads = pages(0..128);
    let of = |policy| simulate(policy, &[], &reads);
    vec![
        sequence(
            "2.6.0-sequence",
            RULES,
            "2.6.0, in sequence: 16, 18, 32 pages",
            of("2.6.0"),
            &[16, 18, 32, 32],
        ),
        sequence("2.6.1-sequence", RULES, "2.6.1, in sequence: 16, 32, 32 pages", of("2.6.1"), &[16, 32, 32]),
        number(
            "2.6.1-lazy",
            RULES,
            "2.6.1 reads the second window with the last page of the first, 2.6.0 with its second",
            "pages later",
            (
                14.0,
                of("2.6.1")
                    .zip(of("2.6.0"))
                    .map(|(lazy, old)| lazy.ios[1].round as f64 - old.ios[1].round as f64),
            ),
        ),
        sequence(
            "2.6.7-sequence",
            RULES,
            "2.6.7, in sequence: 16, 16, 16, 16, 18, 32 pages",
            of("2.6.7"),
            &[16, 16, 16, 16, 18, 32],
        ),
        sequence(
            "2.6.24-sequence",
            (CHANGES, "readahead on demand (F. Wu, 2.6.23)"),
            "on demand, in sequence: 4, 8, 16, 32, 32 pages",
            of("ondemand"),
            &[4, 8, 16, 32, 32],
        ),
    ]
}

fn shared() -> Vec<Claim> {
    let reads = random(200, 16);
    let ios = |policy, pages| {
        let outcome = simulate(policy, &[], &reads)?;
        Some(sizes(&outcome).iter().filter(|&&size| size == pages).count() as f64)
    };
    let example = |thread, first: u64| Read { thread, handle: 0, pos: first << 12, len: 5 << 12 };
    let example = simulate("2.6.5", &[], &[example(1, 100), example(2, 200)]);
    vec![
        sequence(
            "pai-example",
            THREAD,
            "100, 200, 101, 201, ... look random and close the window: the rest is single pages",
            example,
            &[16, 2, 1, 1, 1],
        ),
        number(
            "shared-singles",
            RULES,
            "16 threads, 200 reads of 16 KiB on one handle: 794 reads of one page",
            "I/Os",
            (794.0, ios("2.6.5", 1)),
        ),
        number(
            "private-first",
            RULES,
            "the same with a private copy: 16 reads of 16 pages",
            "I/Os",
            (16.0, ios("2.6.6+private", 16)),
        ),
        number("private-rest", RULES, "and 184 of 5", "I/Os", (184.0, ios("2.6.6+private", 5))),
        number("private-singles", RULES, "and none of one page", "I/Os", (0.0, ios("2.6.6+private", 1))),
    ]
}

fn contexts() -> Vec<Claim> {
    let reads = pages([1, 1001, 2, 1002, 3, 4, 1003, 5, 1004, 1005, 6]);
    let first = |policy, from: u64| {
        let outcome = simulate(policy, &[], &reads)?;
        let of_stream = |page: u64| (from..from + 1000).contains(&page);
        outcome.ios.iter().find(|io| io.pages > 1 && of_stream(io.page)).map(|io| io.page as f64)
    };
    const WU: (&str, &str) = (CHANGES, "context readahead (F. Wu, 2.6.31)");
    let says = |policy, low| match (policy, low) {
        ("ondemand", true) => {
            ("marker-low", "of 1, 1001, 2, 1002, 3, 4, 1003, 5, ... markers find the first sequence at 4")
        }
        ("ondemand", _) => ("marker-high", "... and the second at 1005"),
        (_, true) => ("context-low", "what is in memory before a page finds the first at 2"),
        _ => ("context-high", "... and the second at 1002"),
    };
    let claim = |(policy, from, page): (&'static str, u64, f64)| {
        let (id, says) = says(policy, from == 0);
        number(id, WU, says, "page", (page, first(policy, from)))
    };
    [("ondemand", 0, 4.0), ("ondemand", 1000, 1005.0), ("context", 0, 2.0), ("context", 1000, 1002.0)]
        .map(claim)
        .into()
}
