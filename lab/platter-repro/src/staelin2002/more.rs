//! Statements of the paper about sequential reads, about the growth of its figures, and about the work of disks.

use super::found::{Found, share_ahead};
use super::machine::DISKS;
use super::row::{LARGEST, MIB, claim, ratio};
use crate::{Claim, Rule};
use platter_bench::chunked::{Cell, Pattern, Personality, Plan};

use Personality::{CsraidPosix, CsraidSync, Jbod, Kernel24};

/// Requests of sequential reads of the kernel's array: the largest rate counts.
const SEQUENTIAL: [u64; 3] = [MIB, 16 * MIB, LARGEST];
/// "Improves" allows for this much less from one point to the next.
const LEVEL: f64 = 0.98;

fn stream(plan: &Plan, personality: Personality, request: u64) -> Cell {
    Cell { pattern: Pattern::Stream, ..plan.cell(personality, DISKS, request) }
}

/// The points beside those of the figures.
pub(super) fn cells(plan: &Plan) -> impl Iterator<Item = Cell> {
    let array = SEQUENTIAL.map(|request| stream(plan, Kernel24, request));
    array.into_iter().chain([stream(plan, Jbod, LARGEST)])
}

/// The claims.
pub(super) const ROWS: [fn(&Found<'_>) -> Claim; 8] = [
    |found| Claim {
        ours: share_ahead(&steps(found, Jbod)),
        ..claim(
            "jbod-grows",
            "5.1, Figure 1",
            "the bandwidth of the disks improves with their number and with the size of requests",
            "of steps",
            Rule::Between(0.9, 1.0),
        )
    },
    |found| Claim {
        ours: share_ahead(&steps(found, Kernel24)),
        ..claim(
            "kernel-grows",
            "5.3, Figure 3",
            "the bandwidth of the kernel's array improves with the number of disks and the size of requests",
            "of steps",
            Rule::Between(0.9, 1.0),
        )
    },
    |found| Claim {
        published: Some(0.75),
        ours: ratio(found.peak(Kernel24, DISKS), sequential(found)),
        ..claim(
            "sequential-peak",
            "5.3, under Figure 3",
            "the kernel's array peaks at 3/4 of its own sequential bandwidth",
            "of sequential",
            Rule::Between(0.65, 0.85),
        )
    },
    |found| Claim {
        published: Some(1.0),
        ours: ratio(sequential(found), found.peak(Jbod, DISKS)),
        ..claim(
            "sequential-jbod",
            "5.3, under Figure 3",
            "in sequence the kernel's array gives what its disks give",
            "of jbod's peak",
            Rule::Between(0.9, 1.1),
        )
    },
    |found| Claim {
        ours: ratio(found.at_work(Kernel24), found.at_work(Jbod)),
        ..claim(
            "kernel-idle",
            "5.3, under Figure 3",
            "the kernel's array does not make full use of its disks with large requests (disks at work, 16 MB)",
            "of jbod's",
            Rule::AtMost(0.9),
        )
    },
    |found| Claim {
        ours: share_ahead(&found.ratios(CsraidSync, Kernel24, 0, LARGEST)),
        ..claim(
            "csraid-sync-ahead",
            "5.4, Figures 5 and 6",
            "synchronous csraid improves on the kernel's array too",
            "of sizes",
            Rule::Between(0.75, 1.0),
        )
    },
    |found| Claim {
        ours: ratio(found.peak(CsraidPosix, DISKS), found.peak(Jbod, DISKS)),
        ..claim(
            "csraid-jbod",
            "section 4",
            "the largest rate of csraid is comparable to that of the disks",
            "of jbod's peak",
            Rule::Between(0.9, 1.1),
        )
    },
    |found| Claim {
        ours: ratio(found.all(Jbod, LARGEST), found.cell(&stream(found.plan, Jbod, LARGEST))),
        ..claim(
            "large-sequential",
            "section 2",
            "large random requests behave like sequential ones (64 MB)",
            "of sequential",
            Rule::Between(0.9, 1.1),
        )
    },
];

/// The kernel's largest rate in sequence.
fn sequential(found: &Found<'_>) -> Option<f64> {
    let rates = SEQUENTIAL.iter().filter_map(|&request| found.cell(&stream(found.plan, Kernel24, request)));
    rates.reduce(f64::max)
}

/// Of neighbouring points the larger in [`LEVEL`]s of the smaller: with the next size of requests, and with a disk more.
fn steps(found: &Found<'_>, personality: Personality) -> Vec<f64> {
    let sizes = &found.plan.requests;
    let step = |less: (usize, u64), more: (usize, u64)| {
        let rate = |(disks, request)| found.rate(personality, disks, request);
        Some(rate(more)? / rate(less)? / LEVEL)
    };
    let larger = (1..=DISKS)
        .flat_map(|disks| sizes.windows(2).filter_map(move |pair| step((disks, pair[0]), (disks, pair[1]))));
    let wider = (1..DISKS)
        .flat_map(|disks| sizes.iter().filter_map(move |&size| step((disks, size), (disks + 1, size))));
    larger.chain(wider).collect()
}
