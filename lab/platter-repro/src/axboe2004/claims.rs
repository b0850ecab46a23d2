//! The claims. The slides give words, so most rules are an order of growth, a direction, or the parameter of the kernel that the
//! word stands for.

use super::Figures;
use crate::claim::{Claim, Rule};
use crate::kind::Kind;
use crate::seeds::interval;

const TOKYO: &str = "Axboe, Linux Block IO - present and future, Tokyo, 15 October 2004";

/// A claim about the figure of its name.
struct Row {
    id: &'static str,
    kind: Kind,
    /// The slide.
    place: &'static str,
    says: &'static str,
    unit: &'static str,
    /// If the slide has a figure or an order of growth.
    published: Option<f64>,
    rule: Rule,
}

const SCHEDULING: &str = "2.4 IO scheduling";
const DEADLINE: &str = "deadline scheduler";
const AS: &str = "Anticipatory scheduler";
const CFQ: &str = "CFQ scheduler";
const BARRIERS: &str = "IO Barriers";
const PLUG: &str = "Plugging performance, thresh=4, delay=3ms";
const ALLOCATION: &str = "Scalability components";
const NEXT: &str = "Linux-2.7";

/// How the logarithm of the number of requests grows from 128 to 65,536.
const LOGARITHM: f64 = 16.0 / 7.0;

const ROWS: &[Row] = &[
    Row {
        id: "sort-2.4",
        kind: Kind::Mechanism,
        place: SCHEDULING,
        says: "O(n) sorting and merging: requests that an insertion looks at, 128 to 8,192 waiting",
        unit: "exponent",
        published: Some(1.0),
        rule: Rule::Between(0.95, 1.05),
    },
    Row {
        id: "next-2.4",
        kind: Kind::Mechanism,
        place: SCHEDULING,
        says: "O(1) extraction: requests looked at to take all out, 128 to 8,192 waiting",
        unit: "looks",
        published: Some(0.0),
        rule: Rule::Between(0.0, 0.0),
    },
    Row {
        id: "scan-2.4",
        kind: Kind::Prediction,
        place: SCHEDULING,
        says: "One-way scan (C-SCAN variant): share of steps back with 16 random reads waiting; without order it is 1/2",
        unit: "of steps",
        published: None,
        rule: Rule::Between(0.0, 0.25),
    },
    Row {
        id: "latency-2.4",
        kind: Kind::Mechanism,
        place: SCHEDULING,
        says: "Latency: requests that pass a read before it is served; 2,048 at 16 each",
        unit: "requests",
        published: None,
        rule: Rule::Between(128.0, 144.0),
    },
    Row {
        id: "sort-2.6",
        kind: Kind::Mechanism,
        place: DEADLINE,
        says: "O(log(n)) sorting: keys compared by an insertion, 65,536 waiting / 128",
        unit: "x",
        published: Some(LOGARITHM),
        rule: Rule::Between(1.0, LOGARITHM),
    },
    Row {
        id: "next-2.6",
        kind: Kind::Mechanism,
        place: DEADLINE,
        says: "O(log(n)) next request: keys compared to take one out, 65,536 waiting / 128",
        unit: "x",
        published: Some(LOGARITHM),
        rule: Rule::Between(1.0, LOGARITHM),
    },
    Row {
        id: "merge-2.6",
        kind: Kind::Mechanism,
        place: DEADLINE,
        says: "O(1) merging: requests that a search for a merge looks at, the most of 128 to 8,192 waiting",
        unit: "looks",
        published: Some(1.0),
        rule: Rule::Between(0.0, 2.0),
    },
    Row {
        id: "sort-both",
        kind: Kind::Ours,
        place: DEADLINE,
        says: "beyond the 128 requests of 2.4: looks of linus / comparisons of deadline, 8,192 waiting",
        unit: "x",
        published: None,
        rule: Rule::AtLeast(100.0),
    },
    Row {
        id: "latency-deadline",
        kind: Kind::Mechanism,
        place: DEADLINE,
        says: "Time based latency control: wait of a read that others would pass for ever; read_expire is 500 ms, a batch 160 ms",
        unit: "ms",
        published: None,
        rule: Rule::Between(500.0, 680.0),
    },
    Row {
        id: "latency-unlimited",
        kind: Kind::Ours,
        place: DEADLINE,
        says: "the same without read_expire: requests that pass it",
        unit: "requests",
        published: None,
        rule: Rule::AtLeast(4096.0),
    },
    Row {
        id: "batch-deadline",
        kind: Kind::Mechanism,
        place: DEADLINE,
        says: "Request service batching: writes in a row while reads wait; fifo_batch is 16",
        unit: "requests",
        published: None,
        rule: Rule::Between(16.0, 16.0),
    },
    Row {
        id: "scan-deadline",
        kind: Kind::Mechanism,
        place: DEADLINE,
        says: "C-SCAN request delivery: steps back that do not return to the lowest request, requests not expiring",
        unit: "of steps",
        published: Some(0.0),
        rule: Rule::Between(0.0, 0.0),
    },
    Row {
        id: "separate-deadline",
        kind: Kind::Mechanism,
        place: DEADLINE,
        says: "Separate read/write queues: most requests served before a read that finds 1,000 writes; a batch is 16",
        unit: "requests",
        published: None,
        rule: Rule::Between(0.0, 16.0),
    },
    Row {
        id: "separate-noop",
        kind: Kind::Ours,
        place: DEADLINE,
        says: "the same with one queue for both (noop)",
        unit: "requests",
        published: None,
        rule: Rule::AtLeast(900.0),
    },
    Row {
        id: "scan-as",
        kind: Kind::Prediction,
        place: AS,
        says: "'almost' C-SCAN: there are steps back that do not return to the lowest request, but few",
        unit: "of steps",
        published: None,
        rule: Rule::Between(0.0005, 0.25),
    },
    Row {
        id: "batch-as-reads",
        kind: Kind::Mechanism,
        place: AS,
        says: "Batches reads and writes: time of a batch of reads while writes wait; read_batch_expire is 500 ms",
        unit: "ms",
        published: None,
        rule: Rule::Between(425.0, 575.0),
    },
    Row {
        id: "batch-as-writes",
        kind: Kind::Mechanism,
        place: AS,
        says: "Batches reads and writes: the same of writes while reads wait; write_batch_expire is 125 ms, to which their number adapts",
        unit: "ms",
        published: None,
        rule: Rule::Between(62.5, 250.0),
    },
    Row {
        id: "anticipation",
        kind: Kind::Prediction,
        place: AS,
        says: "Performance: two dependent sequential readers, with anticipation / without (antic_expire 0)",
        unit: "x",
        published: None,
        rule: Rule::AtLeast(2.0),
    },
    Row {
        id: "fair-reads-cfq-v1",
        kind: Kind::Prediction,
        place: CFQ,
        says: "Fairness, Reads: seven readers beside one with 16 reads outstanding, CFQ of 2.6.7 (1 is fair, deadline has 0.25)",
        unit: "Jain",
        published: None,
        rule: Rule::AtLeast(0.9),
    },
    Row {
        id: "fair-reads-cfq-v2",
        kind: Kind::Prediction,
        place: CFQ,
        says: "Fairness, Reads: the same, CFQ of 2.6.10",
        unit: "Jain",
        published: None,
        rule: Rule::AtLeast(0.9),
    },
    Row {
        id: "fair-reads-deadline",
        kind: Kind::Ours,
        place: CFQ,
        says: "the same with deadline, which gives each process what it asks for",
        unit: "Jain",
        published: None,
        rule: Rule::AtMost(0.5),
    },
    Row {
        id: "fair-writes-cfq-v1",
        kind: Kind::Prediction,
        place: CFQ,
        says: "Fairness, Writes: seven writers with 4 writes outstanding beside one with 64, CFQ of 2.6.7",
        unit: "Jain",
        published: None,
        rule: Rule::AtLeast(0.9),
    },
    Row {
        id: "fair-writes-cfq-v2",
        kind: Kind::Prediction,
        place: CFQ,
        says: "Fairness, Writes: the same, CFQ of 2.6.10",
        unit: "Jain",
        published: None,
        rule: Rule::AtLeast(0.9),
    },
    Row {
        id: "fair-writes-deadline",
        kind: Kind::Ours,
        place: CFQ,
        says: "the same with deadline",
        unit: "Jain",
        published: None,
        rule: Rule::AtMost(0.5),
    },
    Row {
        id: "fair-reads-code",
        kind: Kind::Prediction,
        place: CFQ,
        says: "Fairness, Reads: the same, the code of 2.6.7 as it was written (rotate=0)",
        unit: "Jain",
        published: None,
        rule: Rule::AtLeast(0.9),
    },
    Row {
        id: "fair-writes-code",
        kind: Kind::Prediction,
        place: CFQ,
        says: "Fairness, Writes: the same, the code of 2.6.7 as it was written (rotate=0)",
        unit: "Jain",
        published: None,
        rule: Rule::AtLeast(0.9),
    },
    Row {
        id: "group-process",
        kind: Kind::Prediction,
        place: CFQ,
        says: "Groups on per-process: share of one of seven readers, key_type=tgid",
        unit: "of bytes",
        published: None,
        rule: Rule::Between(0.9 / 7.0, 1.1 / 7.0),
    },
    Row {
        id: "group-uid",
        kind: Kind::Prediction,
        place: CFQ,
        says: "Groups on uid: share of a user with one reader beside a user with six, key_type=uid",
        unit: "of bytes",
        published: None,
        rule: Rule::Between(0.45, 0.55),
    },
    Row {
        id: "group-pgid",
        kind: Kind::Prediction,
        place: CFQ,
        says: "Groups on xxx: the same with process groups, key_type=pgid",
        unit: "of bytes",
        published: None,
        rule: Rule::Between(0.45, 0.55),
    },
    Row {
        id: "group-uid-deep",
        kind: Kind::Ours,
        place: CFQ,
        says: "the share of a user, each reader with 8 reads outstanding instead of 2",
        unit: "of bytes",
        published: None,
        rule: Rule::Between(0.45, 0.55),
    },
    Row {
        id: "group-uid-quantum",
        kind: Kind::Ours,
        place: CFQ,
        says: "the share of a user with quantum=1, 2 reads outstanding",
        unit: "of bytes",
        published: None,
        rule: Rule::Between(0.45, 0.55),
    },
    Row {
        id: "priorities-order",
        kind: Kind::Prediction,
        place: NEXT,
        says: "IO priorities: readers of levels 0, 1, 3, 4, 6, the least rate of a level / that of the next lower one",
        unit: "x",
        published: None,
        rule: Rule::AtLeast(1.1),
    },
    Row {
        id: "barrier-soft",
        kind: Kind::Mechanism,
        place: BARRIERS,
        says: "Soft barriers: writes that an elevator of 2.6.7 starts on the other side of a barrier",
        unit: "writes",
        published: None,
        rule: Rule::Between(0.0, 0.0),
    },
    Row {
        id: "barrier-hard",
        kind: Kind::Mechanism,
        place: BARRIERS,
        says: "Hard barriers: the same",
        unit: "writes",
        published: None,
        rule: Rule::Between(0.0, 0.0),
    },
    Row {
        id: "barrier-none",
        kind: Kind::Ours,
        place: BARRIERS,
        says: "the same writes without barriers",
        unit: "writes",
        published: None,
        rule: Rule::AtLeast(100.0),
    },
    Row {
        id: "barrier-soft-flushes",
        kind: Kind::Mechanism,
        place: BARRIERS,
        says: "Soft barriers: flushes of the disk's cache for each",
        unit: "flushes",
        published: None,
        rule: Rule::Between(0.0, 0.0),
    },
    Row {
        id: "barrier-hard-flushes",
        kind: Kind::Mechanism,
        place: BARRIERS,
        says: "Hard barriers: flushes of the disk's cache for each, before and behind, without FUA",
        unit: "flushes",
        published: None,
        rule: Rule::Between(2.0, 2.0),
    },
    Row {
        id: "barrier-flush",
        kind: Kind::Mechanism,
        place: BARRIERS,
        says: "blkdev_issue_flush(): flushes that the disk gets for one",
        unit: "flushes",
        published: None,
        rule: Rule::Between(1.0, 1.0),
    },
    Row {
        id: "barrier-cost-drain",
        kind: Kind::Prediction,
        place: NEXT,
        says: "IO barriers, Efficiency: a log without order / with each eighth write a barrier that drains (IDE)",
        unit: "x",
        published: None,
        rule: Rule::AtLeast(1.0),
    },
    Row {
        id: "barrier-cost-tag",
        kind: Kind::Prediction,
        place: NEXT,
        says: "IO barriers, Efficiency: the same with ordered tags (SCSI)",
        unit: "x",
        published: None,
        rule: Rule::AtLeast(1.0),
    },
    Row {
        id: "barrier-scsi",
        kind: Kind::Prediction,
        place: BARRIERS,
        says: "SCSI vs IDE: a log with ordered tags / by draining",
        unit: "x",
        published: None,
        rule: Rule::Between(1.0, 3.0),
    },
    Row {
        id: "switch-lost",
        kind: Kind::Mechanism,
        place: NEXT,
        says: "Apples in, apples out: bios lost, doubled, failed or exchanged while elevators are switched under load",
        unit: "bios",
        published: None,
        rule: Rule::Between(0.0, 0.0),
    },
    Row {
        id: "switch-passed",
        kind: Kind::Mechanism,
        place: NEXT,
        says: "Online Switching: bios that passed a hard barrier meanwhile",
        unit: "bios",
        published: None,
        rule: Rule::Between(0.0, 0.0),
    },
    Row {
        id: "switch-drain-ratio",
        kind: Kind::Ours,
        place: NEXT,
        says: "Online Switching: time until all that waited is served, at a switch / without one",
        unit: "x",
        published: None,
        rule: Rule::Between(0.5, 1.1),
    },
    Row {
        id: "four",
        kind: Kind::Mechanism,
        place: "IO schedulers",
        says: "2.6 sports 4: elevators of 2.6.7 in the table of kernels, each of which was switched to under load",
        unit: "elevators",
        published: Some(4.0),
        rule: Rule::Between(4.0, 4.0),
    },
    Row {
        id: "bio-place",
        kind: Kind::Mechanism,
        place: "bio: (hda4, 0), (hda, 1004060)",
        says: "Absolute disk location: sector of the disk for sector 0 of a partition",
        unit: "sector",
        published: Some(1_004_060.0),
        rule: Rule::Between(1_004_060.0, 1_004_060.0),
    },
    Row {
        id: "bio-data",
        kind: Kind::Mechanism,
        place: "New 2.6 io unit",
        says: "Arbitrary amount of data: requests for a read of 1 MiB, which had 256 buffer heads in 2.4",
        unit: "requests",
        published: None,
        rule: Rule::Between(1.0, 1.0),
    },
    Row {
        id: "bio-stack",
        kind: Kind::Mechanism,
        place: "New 2.6 io unit",
        says: "Good stacking: requests of the disk for one bio through eight layers",
        unit: "requests",
        published: None,
        rule: Rule::Between(1.0, 1.0),
    },
    Row {
        id: "plug-thresh",
        kind: Kind::Mechanism,
        place: PLUG,
        says: "thresh: requests that start a plugged queue",
        unit: "requests",
        published: Some(4.0),
        rule: Rule::Between(4.0, 4.0),
    },
    Row {
        id: "plug-delay",
        kind: Kind::Mechanism,
        place: PLUG,
        says: "delay: time after which a plugged queue starts one request",
        unit: "ms",
        published: Some(3.0),
        rule: Rule::Between(3.0, 3.01),
    },
    Row {
        id: "plug-sync",
        kind: Kind::Mechanism,
        place: PLUG,
        says: "the same for a request that a thread waits for",
        unit: "ms",
        published: None,
        rule: Rule::Between(0.0, 0.0),
    },
    Row {
        id: "allocation-write",
        kind: Kind::Prediction,
        place: ALLOCATION,
        says: "request allocation of 2.6: requests that a process which has used up the pool gets before another one that asks; it may batch 32",
        unit: "requests",
        published: None,
        rule: Rule::Between(0.0, 33.0),
    },
    Row {
        id: "allocation-read",
        kind: Kind::Mechanism,
        place: ALLOCATION,
        says: "request allocation of 2.6: the same for a read, which has requests of its own",
        unit: "requests",
        published: None,
        rule: Rule::Between(0.0, 0.0),
    },
];

/// The claims with the figures of the first seed, and intervals over those of the others.
pub(super) fn all(of_seeds: &[Figures]) -> Vec<Claim> {
    ROWS.iter().map(|row| row.claim(of_seeds)).collect()
}

impl Row {
    fn claim(&self, of_seeds: &[Figures]) -> Claim {
        let mut figures = of_seeds.iter().map(|figures| figures.get(self.id).copied());
        let ours = figures.next().flatten();
        let near = ours.filter(|value| self.rule.is_near(*value));
        let fails = ours.is_none_or(|value| !self.rule.holds(value));
        Claim {
            published: self.published,
            ours,
            interval: near.and_then(|value| interval(value, figures)),
            reason: fails.then(|| why_not(self.id).to_owned()),
            ..Claim::new(self.id, self.kind, (TOKYO, self.place), (self.says, self.unit), self.rule)
        }
    }
}

/// Why a claim does not hold, as far as that is understood.
const WHY_NOT: &[(&str, &str)] =
    &[("fair-reads-code", HEAD), ("fair-writes-code", HEAD), ("group-uid", REFILL), ("group-pgid", REFILL)];

const HEAD: &str = "the loop of 2.6.6 to 2.6.9 counts the processes and takes each request from the first of the list, so that a process \
    with many requests is served until it has none; fair-writes-cfq-v1 takes from all in turn, as was intended";
const REFILL: &str = "a refill takes four requests, and a user with two outstanding often has one queued, so that the other user has \
    the rest; with more outstanding, or quantum=1, the shares are even";

fn why_not(id: &str) -> &'static str {
    WHY_NOT.iter().find(|(row, _)| *row == id).map_or("why is not known", |(_, why)| why)
}
