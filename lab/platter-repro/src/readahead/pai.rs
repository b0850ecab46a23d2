//! Statements of May 2004 about the readahead of 2.6.5 and 2.6.7: the reads of iozone and of decision support, which R. Pai
//! had examined, what closes a window, and what looking pages up costs when all are cached.

use super::claim;
use super::exact::{number, random, simulate, sizes};
use crate::claim::{Claim, Rule};
use crate::kind::Kind;
use crate::policies::by_name;
use platter_bench::readahead::{Outcome, Pattern, Read, Workload};
use platter_cache::readahead::{Access, Call, Pages, Settings, Window};
use std::collections::BTreeSet;

const PAGE: &str = "Random file I/O regressions in 2.6, KernelTrap, 4 May 2004";
const PIGGIN: (&str, &str) = (PAGE, "N. Piggin, 3 May 2004");
const HINT: (&str, &str) = (PAGE, "N. Piggin, 4 May 2004, 9:58");
const MORTON: (&str, &str) = (PAGE, "A. Morton, 3 May 2004, 13:57");
const LOOKUPS: (&str, &str) = (PAGE, "A. Morton, 3 May 2004, 11:08 and 17:10");
const PAI: (&str, &str) = (PAGE, "R. Pai, 3 May 2004, 17:50");

/// Why cached pages do not close windows.
const CLOSED_BY_JUMPS: &str = "by the rules of 2.6.5 a lookup inside a window makes the next one larger by 2 pages, and a window \
     that was cached makes it smaller by 1: cached pages in sequence close none. Pai's counters count none either \
     (counters-before-hits of sysbench2004), and Morton agreed on the same day that overlapping reads do (23:29)";

/// Pages of a request of 16 KiB.
const REQUEST: u64 = 4;
/// Pages of the largest window.
const MAX: u64 = 32;

/// All of them.
pub(super) fn claims() -> Vec<Claim> {
    let mut claims = patterns();
    claims.extend(closed());
    claims.extend(lookups());
    // Counts: a seed changes nothing.
    for claim in claims.iter_mut().filter(|claim| claim.kind != Kind::Mechanism) {
        let near = claim.ours.filter(|value| claim.rule.is_near(*value));
        claim.interval = near.map(|value| [value, value]);
    }
    claims
}

/// Large random reads: iozone has one program that reads records, decision support several with a handle each.
fn patterns() -> Vec<Claim> {
    let workload = |threads, request| Workload {
        pattern: Pattern::Random,
        request,
        threads,
        handles: threads,
        count: 2000,
        span: 8 << 30,
        ..Workload::default()
    };
    let (iozone, dss) = (workload(1, 256 << 10), workload(8, 64 << 10));
    let rows = [
        (
            "iozone-2.6.5",
            "2.6.5",
            &iozone,
            "2.6.5: a steady stream of large I/O for iozone's large random reads (256 KiB)",
        ),
        ("dss-2.6.5", "2.6.5", &dss, "2.6.5: the same for decision support (8 programs, 64 KiB)"),
        ("iozone-2.6.7", "2.6.7", &iozone, "2.6.7, which Pai's later patches made: the same for iozone"),
        ("dss-2.6.7", "2.6.7", &dss, "2.6.7: the same for decision support"),
    ];
    let row = |(id, policy, workload, says): (&'static str, &str, &Workload, &'static str)| {
        let large = (workload.request >> 12).min(MAX) / 2;
        Claim {
            ours: simulate(policy, &[], &workload.reads()).map(|outcome| share_of_large(&outcome, large)),
            ..claim(id, PAI, says, "of pages in large I/Os", Rule::Between(0.9, 1.0))
        }
    };
    rows.map(row).into()
}

/// The share of pages that were read by I/Os of at least this many.
fn share_of_large(outcome: &Outcome, large: u64) -> f64 {
    let sum = |least: u64| -> u64 {
        sizes(outcome).into_iter().map(u64::from).filter(|pages| *pages >= least).sum()
    };
    sum(large) as f64 / sum(0).max(1) as f64
}

/// What happens once a window is closed.
fn closed() -> Vec<Claim> {
    let shared = random(200, 16);
    let far = |page: u64| Read { thread: 0, handle: 0, pos: page << 12, len: REQUEST << 12 };
    // More requests, when the window is closed.
    const FAR: u64 = 3_900_000;
    let more: Vec<Read> = shared.iter().copied().chain((0..8).map(|n| far(FAR + 1000 * n))).collect();
    let more = simulate("2.6.5", &[], &more);
    let singles = |outcome: &Outcome| outcome.ios.iter().filter(|io| io.page >= FAR && io.pages == 1).count();
    let in_turn = |outcome: &Outcome| {
        let first: Vec<_> = outcome.ios.iter().filter(|io| (FAR..FAR + REQUEST).contains(&io.page)).collect();
        let rounds: BTreeSet<u64> = first.iter().map(|io| io.round).collect();
        rounds.len() as f64
    };
    // Two passes over a file, the second through a new handle: it finds all pages.
    let pass = |handle| (0..4096).map(move |page| Read { thread: 0, handle, pos: page << 12, len: 1 << 12 });
    let cached: Vec<Read> = pass(0).chain(pass(1)).collect();
    let cached = simulate("2.6.5", &[], &cached);
    let whole = simulate("2.6.6+size", &[], &shared);
    vec![
        number(
            "four-in-turn",
            PIGGIN,
            "once readahead is off, a read of 16 KiB is four synchronous reads of a page, each after the one before",
            "rounds",
            (4.0, more.as_ref().map(in_turn)),
        ),
        Claim {
            ours: cached.map(|outcome| outcome.counters.closed_by_hit as f64),
            reason: Some(CLOSED_BY_JUMPS.to_owned()),
            ..claim(
                "closed-by-hits",
                MORTON,
                "enough cached pages turn readahead off (a second program that reads 4096 cached pages)",
                "windows closed",
                Rule::AtLeast(1.0),
            )
        },
        number(
            "stays-off",
            MORTON,
            "readahead that is off is not turned on again: 8 more requests of 16 KiB are 32 reads of a page",
            "I/Os",
            (32.0, more.as_ref().map(|outcome| singles(outcome) as f64)),
        ),
        number(
            "size-whole",
            HINT,
            "a window of at least the size of the read: 200 requests of 16 threads are 200 reads of 16 KiB",
            "I/Os",
            (200.0, whole.map(|outcome| sizes(&outcome).iter().filter(|pages| **pages == 4).count() as f64)),
        ),
    ]
}

/// A cache that has every page.
struct Cached {
    /// Pages that the policy had looked up to read them.
    lookups: u64,
}

impl Pages for Cached {
    fn is_cached(&self, _: u64) -> bool {
        true
    }

    fn end(&self) -> u64 {
        1 << 22
    }

    fn is_congested(&self) -> bool {
        false
    }

    fn cached_before(&self, _: u64, most: u32) -> u32 {
        most
    }

    fn first_missing(&self, _: u64, _: u32) -> Option<u64> {
        None
    }

    fn read(&mut self, window: Window) -> u32 {
        self.lookups += u64::from(window.count);
        0
    }
}

/// Pages that a policy looks up beside those that are requested, for each of these: a file of 40,000 pages in sequence, all
/// cached.
fn looked_up(policy: &str) -> Option<f64> {
    let mut policy = (by_name(policy)?.make)(&Settings::default());
    let mut cache = Cached { lookups: 0 };
    let requests = 10_000;
    for request in 0..requests {
        let mut call = Call::new(Access::new((request * REQUEST) << 12, REQUEST << 12));
        policy.begin(&mut call, &mut cache);
        for page in request * REQUEST..(request + 1) * REQUEST {
            policy.page(&mut call, page, &mut cache);
            policy.found(&mut call, page, false, false, &mut cache);
        }
        policy.end(&mut call);
    }
    Some(cache.lookups as f64 / (requests * REQUEST) as f64)
}

fn lookups() -> Vec<Claim> {
    let row = |(id, policy, says, rule): (_, _, _, Rule)| Claim {
        ours: looked_up(policy),
        reason: looked_up(policy).filter(|times| !rule.holds(*times)).map(|_| CLOSED_BY_JUMPS.to_owned()),
        ..claim(id, LOOKUPS, says, "lookups for each page", rule)
    };
    [
        (
            "lookups-off",
            "2.6.5",
            "readahead that turns itself off avoids lookups where the file is cached",
            Rule::AtMost(0.1),
        ),
        (
            "lookups-size",
            "2.6.6+size",
            "windows of the size of each read look every page up once more",
            Rule::AtLeast(1.0),
        ),
    ]
    .map(row)
    .into()
}
