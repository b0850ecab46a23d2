//! The statements of the paper. Most give no figure: "generally", "far more" and so on are as [`super`] says.

use super::SMALL;
use super::found::{Found, mean, share_ahead};
use super::machine::DISKS;
use super::more;
use super::row::{LARGEST, MIB, claim, ratio};
use crate::claim::number;
use crate::seeds::interval;
use crate::{Claim, Kind, Rule};
use platter_bench::chunked::{Cell, Personality};
use std::collections::HashSet;

const KIB: u64 = 1 << 10;
/// Megabytes of the paper in a MiB.
const MB: f64 = 1.048_576;

use Personality::{CsraidPosix, Jbod, Kernel24, Windows};

/// Those of this file and the others.
fn rows() -> impl Iterator<Item = fn(&Found<'_>) -> Claim> {
    ROWS.into_iter().chain(more::ROWS)
}

fn claims(found: &Found<'_>) -> impl Iterator<Item = Claim> {
    rows().map(|row| row(found))
}

/// Within 40 % of a bound; of the two claims that are the lowest of several rates over the highest, or of one rate over another, within a factor of 2:
/// with few samples such a ratio moves that far.
fn is_near(claim: &Claim, value: f64) -> bool {
    claim.rule.is_near(value)
        || (["kernel-flat", "overrun"].contains(&claim.id) && claim.rule.is_within(2.0, value))
}

/// The points behind the figures that are near a bound of their rule.
pub(super) fn near(found: &Found<'_>) -> HashSet<Cell> {
    let mut cells = HashSet::new();
    for row in rows() {
        found.take_used();
        let claim = row(found);
        if claim.ours.is_some_and(|value| is_near(&claim, value)) {
            cells.extend(found.take_used());
        }
    }
    cells
}

/// All claims, in the order of the paper, with their intervals over what was measured with other seeds.
pub(super) fn all(found: &Found<'_>, others: &[Found<'_>]) -> Vec<Claim> {
    let others: Vec<Vec<Claim>> = others.iter().map(|other| claims(other).collect()).collect();
    let mut all: Vec<Claim> = claims(found).collect();
    for (place, claim) in all.iter_mut().enumerate() {
        let near = claim.ours.filter(|value| claim.kind != Kind::Mechanism && is_near(claim, *value));
        claim.interval = near.and_then(|value| interval(value, others.iter().map(|other| other[place].ours)));
        if claim.holds() == Some(false) {
            claim.reason = Some(why_not(claim.id).to_owned());
        }
    }
    all
}

/// The property of the model because of which a claim does not hold.
fn why_not(id: &str) -> &'static str {
    match id {
        "kernel-peak" => {
            "drives read ahead into their buffers while others are in use, and buffered data arrives at bus \
             speed: the longer requests are, the less is lost by reading stripes one after the other, even \
             without readahead (see the table). At 16 MiB without readahead the model has the published share. \
             Other losses of the kernel (copies, page cache, processor time) are not modelled"
        }
        "kernel-flat" => {
            "with requests of 1 MiB, the larger the stripe that is read past the end, the larger the loss; that \
             the kernel's readahead grows with the stripe is a choice of the model; the kernel had its own \
             windows"
        }
        "kernel-128k" => {
            "in the model the stripes of a small chunk are read one after the other, and stripes differ only by \
             positioning; the kernel's own cost of each stripe is not modelled"
        }
        "csraid-steady" => {
            "in the model rates vary only because positions and zones differ, which they do for both; the cause \
             of the kernel's jumps is not modelled"
        }
        "overrun" => "in the model the surplus is mostly read by a disk that would be idle",
        "stripe-above-chunk-several" => {
            "with four requests at once, a stripe that holds a whole chunk lets each disk serve a different \
             chunk, while small stripes make all disks position for each; with one request at a time the claim \
             holds"
        }
        "kernel-grows" => {
            "from one disk to several, requests of less than a stripe gain nothing: each is on one disk"
        }
        "sequential-peak" => {
            "in sequence and in large chunks the model's array is near the rate of its disks (see kernel-peak)"
        }
        _ => "the model has no cause for it",
    }
}

/// The claims, in the order of the paper.
const ROWS: [fn(&Found<'_>) -> Claim; 15] = [
    // Single disks.
    |found| Claim {
        published: Some(40.0),
        ours: found.peak(Jbod, 1).map(|rate| rate * MB),
        ..claim(
            "disk-peak",
            "5.1, Figure 1",
            "a disk gives roughly 40 MB/s at most",
            "MB/s",
            Rule::Between(36.0, 44.0),
        )
    },
    |found| Claim {
        published: Some(1.0),
        ours: ratio(found.rate(Jbod, 1, 4 * MIB), found.peak(Jbod, 1)),
        ..claim(
            "disk-at-4m",
            "5.1, Figure 1",
            "that is reached with requests as small as 4 MB",
            "of the peak",
            Rule::Between(0.9, 1.0),
        )
    },
    |found| Claim {
        published: Some(120.0),
        ours: found.peak(Jbod, DISKS).map(|rate| rate * MB),
        ..claim(
            "three-disks",
            "5.1, Figure 1",
            "three disks give nearly 120 MB/s",
            "MB/s",
            Rule::Between(108.0, 122.0),
        )
    },
    // The kernel's array.
    |found| Claim {
        published: Some(0.75),
        ours: ratio(found.peak(Kernel24, DISKS), found.peak(Jbod, DISKS)),
        ..claim(
            "kernel-peak",
            "5.3, Figure 3",
            "the kernel's array peaks at 3/4 of what its disks give",
            "of jbod's peak",
            Rule::Between(0.65, 0.85),
        )
    },
    |found| Claim {
        ours: flat(found, MIB).zip(flat(found, 16 * MIB)).map(|(small, large)| small.min(large)),
        ..claim(
            "kernel-flat",
            "5.3, Figure 4",
            "from 64 to 512 KB stripes make little difference, with requests of 1 and of 16 MB",
            "lowest of highest",
            Rule::Between(0.85, 1.0),
        )
    },
    |found| Claim {
        ours: slightly_better(found),
        ..claim(
            "kernel-128k",
            "5.3, Figure 4",
            "stripes of 128 KB are slightly better for smaller chunks (1 MB)",
            "of the next best",
            Rule::Between(1.0, 1.15),
        )
    },
    |found| Claim {
        ours: ratio(found.all(Kernel24, MIB), clipped(found, MIB)),
        ..claim(
            "overrun",
            "5.3",
            "readahead beyond the end of each chunk is a gross waste of bandwidth (1 MB)",
            "of without",
            Rule::AtMost(0.9),
        )
    },
    // The array in user space.
    |found| Claim {
        ours: share_ahead(&found.ratios(CsraidPosix, Kernel24, 0, LARGEST)),
        ..claim(
            "csraid-ahead",
            "5.5, Figure 8",
            "csraid generally outperforms the kernel's array",
            "of sizes",
            Rule::Between(0.75, 1.0),
        )
    },
    |found| Claim {
        ours: ratio(found.spread(CsraidPosix, MIB), found.spread(Kernel24, MIB)),
        ..claim(
            "csraid-steady",
            "5.5, Figure 8",
            "csraid is far more stable than the kernel's array, particularly for large requests (from 1 MB on)",
            "spread of kernel's",
            Rule::AtMost(0.5),
        )
    },
    |found| Claim {
        ours: harm([64, 1024].map(|kib| found.striped(CsraidPosix, 256 * KIB, kib * KIB))),
        ..claim(
            "stripe-above-chunk",
            "5.4, Figure 7",
            "stripes larger than the chunk can harm (chunks of 256 KB, stripes of 1 MB against 64 KB)",
            "of small stripes",
            Rule::AtMost(0.95),
        )
    },
    |found| Claim {
        ours: harm([64, 1024].map(|kib| found.several(256 * KIB, kib * KIB))),
        ..claim(
            "stripe-above-chunk-several",
            "5.4, Figure 7, which has one request at once",
            "the same with four requests at once",
            "of small stripes",
            Rule::AtMost(0.95),
        )
    },
    |found| Claim {
        ours: several_ahead(found),
        ..claim(
            "several-ahead",
            "5.4, expected and not measured",
            "independent requests at once use several disks where requests are no larger than a stripe (four at once)",
            "of one at once",
            Rule::AtLeast(1.1),
        )
    },
    // The stripe set of Windows.
    |found| Claim {
        reason: not_modelled(ratio(found.all(Windows, LARGEST), found.all(Jbod, LARGEST))),
        ..claim(
            "windows-large",
            "5.2, 5.5, Figures 2 and 8",
            "for large requests the stripe set is above jbod (64 MB)",
            "of jbod",
            Rule::AtLeast(1.0),
        )
    },
    |found| Claim {
        reason: not_modelled(found.ratios(Windows, Jbod, 0, 4 * MIB - 1).into_iter().reduce(f64::max)),
        ..claim(
            "windows-small",
            "5.5, Figure 8",
            "below 4 MB jbod is above the stripe set (the size at which it is least so)",
            "of jbod",
            Rule::AtMost(1.0),
        )
    },
    |found| Claim {
        reason: not_modelled(share_ahead(&found.ratios(Windows, CsraidPosix, 0, LARGEST))),
        ..claim(
            "windows-csraid",
            "5.5, Figure 8",
            "csraid is generally below the stripe set",
            "of sizes",
            Rule::Between(0.75, 1.0),
        )
    },
];

/// Why claims about Windows have no figure, with that of its stand-in.
fn not_modelled(stand_in: Option<f64>) -> Option<String> {
    let stand_in = stand_in.map_or_else(|| "-".to_owned(), number);
    Some(format!(
        "Windows is not modelled: how it issued its requests is not published. A stripe set that reads as csraid-sync with \
         stripes of 1 MiB has {stand_in}"
    ))
}

/// The lowest of the kernel's rates with stripes of 64 to 512 KiB, of the highest.
fn flat(found: &Found<'_>, request: u64) -> Option<f64> {
    let rates = [64, 128, 256, 512].map(|kib| found.striped(Kernel24, request, kib * KIB));
    let rates = rates.into_iter().collect::<Option<Vec<f64>>>()?;
    Some(rates.iter().copied().fold(f64::MAX, f64::min) / rates.iter().copied().fold(0.0, f64::max))
}

/// The kernel's rate with stripes of 128 KiB, of the best with others.
fn slightly_better(found: &Found<'_>) -> Option<f64> {
    let others = [64, 256, 512].map(|kib| found.striped(Kernel24, MIB, kib * KIB));
    ratio(found.striped(Kernel24, MIB, 128 * KIB), others.into_iter().flatten().reduce(f64::max))
}

/// The kernel's rate without readahead past the end of a request.
fn clipped(found: &Found<'_>, request: u64) -> Option<f64> {
    let cell = Cell { overrun: false, ..found.plan.cell(Kernel24, DISKS, request) };
    found.point(&cell).map(|point| point.median())
}

/// The rate with large stripes of that with small ones.
fn harm([small, large]: [Option<f64>; 2]) -> Option<f64> {
    ratio(large, small)
}

/// The mean gain of several requests at once, where requests are no larger than a stripe.
fn several_ahead(found: &Found<'_>) -> Option<f64> {
    let sizes = found.plan.requests.iter().filter(|&&request| request <= SMALL);
    let ahead = sizes
        .map(|&request| ratio(found.several(request, found.plan.stripe), found.all(CsraidPosix, request)));
    mean(&ahead.collect::<Option<Vec<f64>>>()?)
}
