//! The claims. Each rule was written down before the model was run, and is not changed.

use super::Results;
use super::tables::{finishes, kib_per_s};
use crate::claim::{Claim, Rule};
use crate::kind::Kind;
use platter_bench::processes::Outcome;

/// Computes a figure from results. `None` if an elevator is missing. The flag says that the figure is only a
/// bound, because a process had not finished.
type Figure = fn(&Results) -> Option<(f64, bool)>;

struct ClaimRow {
    id: &'static str,
    source: &'static str,
    says: &'static str,
    published: f64,
    unit: &'static str,
    rule: Rule,
    figure: Figure,
}

const MORTON: &str = "Morton, linux-kernel, 20 February 2003";
const AXBOE: &str = "Axboe, linux-kernel, 2 December 2004";
const AXBOE_PRIORITIES: &str = "Axboe, linux-kernel, 13 December 2004";
const TOKYO: &str = "Axboe, Linux Block IO - present and future, Tokyo, 15 October 2004";
const SOURCES: &str = "deadline-iosched.c, Linux 2.6";

pub(super) fn all(results: &Results) -> Vec<Claim> {
    let rows = ROWS_MORTON.iter().chain(ROWS_AXBOE).chain(ROWS_OTHERS);
    rows.map(|row| {
        let figure = (row.figure)(results);
        let bound = figure.is_some_and(|(_, bound)| bound);
        let known = || WHY_NOT.iter().find(|(id, _)| *id == row.id).map_or(NOT_KNOWN, |(_, why)| why);
        let reason = match figure {
            None => Some("an elevator that it needs is not in this build".to_owned()),
            Some((value, _)) if !row.rule.holds(value) => Some(known().to_owned()),
            Some(_) if bound => Some("a process was not through when the time was over: a bound".to_owned()),
            Some(_) => None,
        };
        Claim {
            id: row.id,
            kind: if row.source == SOURCES { Kind::Ours } else { Kind::Prediction },
            document: row.source,
            source: row.source,
            says: row.says,
            published: Some(row.published),
            modelled: figure.map(|(value, _)| value),
            here: None,
            unit: row.unit,
            rule: row.rule,
            reason,
        }
    })
    .collect()
}

const NOT_KNOWN: &str = "the model does not show it, and why is not known";

const STREAM_OF_2_4: &str = "in the published run a streaming reader kept the disk of 2.4 for a long time; here \
    linus has moved on to another reader when it requests its next window; other reasons for keeping the disk are \
    not modelled";
const OLD_CFQ: &str =
    "the measurement used a patch of February 2003, older than any release; cfq-v1 is that of 2.6.6";
const RELEASED_CFQ: &str = "the measurement used the prototype of December 2004; cfq is the release, whose longer \
    slices and more frequent turns for high levels (1.8 : 1 : 0.6 by the slices alone, 3.6 : 1 : 0.3 with the \
    turns) favour them more";

const CFQ_WRITES: &str = "direct writes are asynchronous here, which gives the published share of anticipatory; the \
    prototype with time slices probably had a queue of each process for them, which is not verified";

/// Why a claim may not hold, as far as that is understood.
const WHY_NOT: &[(&str, &str)] = &[
    ("parallel-reads-cfq", OLD_CFQ),
    ("copy-trees-alike", OLD_CFQ),
    ("parallel-reads-2.4", STREAM_OF_2_4),
    ("parallel-reads-2.4-unfair", STREAM_OF_2_4),
    ("start-during-read-2.4", STREAM_OF_2_4),
    ("tree-during-read-2.4", STREAM_OF_2_4),
    (
        "fsync-during-read-as",
        "the order is right but the ratio is not: anticipatory takes longer here, deadline less, for an unknown \
         reason",
    ),
    ("reader-and-writer-as", "writes are asynchronous here, as direct writes were in the published run"),
    ("seq-write-cfq", CFQ_WRITES),
    ("reader-and-writer-cfq", CFQ_WRITES),
    ("priorities-0-4", RELEASED_CFQ),
    ("priorities-0-6", RELEASED_CFQ),
    ("linus-starves", "the longest wait of the model is of that order, but below the rule"),
];

/// When the last process ended.
fn last(results: &Results, scene: &str, elevator: &str) -> Option<(f64, bool)> {
    let finishes = finishes(results.of(scene, elevator)?);
    let bound = finishes.iter().any(|(_, through)| !through);
    Some((finishes.iter().map(|(s, _)| *s).fold(0.0, f64::max), bound))
}

/// The last of one against the last of another.
fn lasts(results: &Results, one: (&str, &str), other: (&str, &str)) -> Option<(f64, bool)> {
    let ((a, bound_a), (b, bound_b)) = (last(results, one.0, one.1)?, last(results, other.0, other.1)?);
    Some((a / b.max(f64::MIN_POSITIVE), bound_a || bound_b))
}

/// The last of one elevator against that of another in the same scene.
fn versus(results: &Results, scene: &str, one: &str, other: &str) -> Option<(f64, bool)> {
    lasts(results, (scene, one), (scene, other))
}

/// The last finisher against the first.
fn spread(results: &Results, scene: &str, elevator: &str) -> Option<(f64, bool)> {
    let finishes = finishes(results.of(scene, elevator)?);
    let first = finishes.iter().map(|(s, _)| *s).fold(f64::INFINITY, f64::min);
    let bound = finishes.iter().any(|(_, through)| !through);
    Some((finishes.iter().map(|(s, _)| *s).fold(0.0, f64::max) / first, bound))
}

/// Throughput of one scene against that of another.
fn rates(results: &Results, elevator: &str, one: &str, other: &str) -> Option<(f64, bool)> {
    Some((kib_per_s(results.of(one, elevator)?) / kib_per_s(results.of(other, elevator)?), false))
}

/// The fastest process against the slowest.
fn fairness(results: &Results, scene: &str, elevator: &str) -> Option<(f64, bool)> {
    let rates = results.of(scene, elevator)?.records.iter().map(|record| record.bytes as f64);
    let (least, most) =
        rates.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
    Some((most / least.max(1.0), false))
}

/// The share of the first process.
fn first_share(results: &Results, scene: &str, elevator: &str) -> Option<(f64, bool)> {
    let records = &results.of(scene, elevator)?.records;
    let all: u64 = records.iter().map(|record| record.bytes).sum();
    Some((records.first()?.bytes as f64 / all.max(1) as f64, false))
}

/// Bytes of one process against those of another.
fn between(results: &Results, scene: &str, one: usize, other: usize) -> Option<(f64, bool)> {
    let records = &results.of(scene, "cfq")?.records;
    Some((records.get(one)?.bytes as f64 / records.get(other)?.bytes.max(1) as f64, false))
}

fn worst(outcome: &Outcome) -> f64 {
    outcome.records.iter().filter_map(|record| record.latency.max()).max().unwrap_or(0) as f64 / 1e9
}

const ROWS_MORTON: &[ClaimRow] = &[
    ClaimRow {
        id: "parallel-reads-as",
        source: MORTON,
        says: "ten parallel readers: deadline takes several times as long as anticipatory",
        published: 3.84,
        unit: "deadline / anticipatory",
        rule: Rule::AtLeast(2.0),
        figure: |r| versus(r, "parallel-reads", "deadline", "anticipatory"),
    },
    ClaimRow {
        id: "parallel-reads-cfq",
        source: MORTON,
        says: "ten parallel readers: the first CFQ lies between deadline and anticipatory",
        published: 1.45,
        unit: "deadline / cfq-v1",
        rule: Rule::Between(1.05, 3.0),
        figure: |r| versus(r, "parallel-reads", "deadline", "cfq-v1"),
    },
    ClaimRow {
        id: "parallel-reads-2.4",
        source: MORTON,
        says: "ten parallel readers: 2.4 is nearly as fast as anticipatory",
        published: 1.06,
        unit: "linus / anticipatory",
        rule: Rule::AtMost(2.0),
        figure: |r| versus(r, "parallel-reads", "linus", "anticipatory"),
    },
    ClaimRow {
        id: "parallel-reads-2.4-unfair",
        source: MORTON,
        says: "ten parallel readers with 2.4: the last takes several times as long as the first",
        published: 6.07,
        unit: "last / first",
        rule: Rule::AtLeast(3.0),
        figure: |r| spread(r, "parallel-reads", "linus"),
    },
    ClaimRow {
        id: "parallel-reads-as-fair",
        source: MORTON,
        says: "ten parallel readers with anticipatory: nearly together",
        published: 1.24,
        unit: "last / first",
        rule: Rule::AtMost(1.6),
        figure: |r| spread(r, "parallel-reads", "anticipatory"),
    },
    ClaimRow {
        id: "readahead-8k-deadline",
        source: MORTON,
        says: "less readahead destroys deadline",
        published: 3.75,
        unit: "8 KB / 128 KB",
        rule: Rule::AtLeast(2.0),
        figure: |r| lasts(r, ("parallel-reads-8k", "deadline"), ("parallel-reads", "deadline")),
    },
    ClaimRow {
        id: "readahead-8k-cfq",
        source: MORTON,
        says: "less readahead destroys the first CFQ",
        published: 5.42,
        unit: "8 KB / 128 KB",
        rule: Rule::AtLeast(2.0),
        figure: |r| lasts(r, ("parallel-reads-8k", "cfq-v1"), ("parallel-reads", "cfq-v1")),
    },
    ClaimRow {
        id: "readahead-8k-as",
        source: MORTON,
        says: "less readahead does nothing to anticipatory",
        published: 0.84,
        unit: "8 KB / 128 KB",
        rule: Rule::AtMost(1.3),
        figure: |r| lasts(r, ("parallel-reads-8k", "anticipatory"), ("parallel-reads", "anticipatory")),
    },
    ClaimRow {
        id: "start-during-write-2.4",
        source: MORTON,
        says: "a program starts during a streaming write: 2.4 takes several times as long as deadline",
        published: 4.43,
        unit: "linus / deadline",
        rule: Rule::AtLeast(2.0),
        figure: |r| versus(r, "start-during-write", "linus", "deadline"),
    },
    ClaimRow {
        id: "start-during-write-as",
        source: MORTON,
        says: "a program starts during a streaming write: anticipatory is no slower than deadline",
        published: 0.86,
        unit: "anticipatory / deadline",
        rule: Rule::AtMost(1.3),
        figure: |r| versus(r, "start-during-write", "anticipatory", "deadline"),
    },
    ClaimRow {
        id: "start-during-read-2.4",
        source: MORTON,
        says: "a program starts during a streaming read: 2.4 takes several times as long as deadline",
        published: 9.0,
        unit: "linus / deadline",
        rule: Rule::AtLeast(2.0),
        figure: |r| versus(r, "start-during-read", "linus", "deadline"),
    },
    ClaimRow {
        id: "start-during-read-as",
        source: MORTON,
        says: "a program starts during a streaming read: anticipatory is slower than deadline, not by far",
        published: 1.8,
        unit: "anticipatory / deadline",
        rule: Rule::Between(1.0, 5.0),
        figure: |r| versus(r, "start-during-read", "anticipatory", "deadline"),
    },
    ClaimRow {
        id: "copy-trees-alike",
        source: MORTON,
        says: "copying trees: no scheduler makes a difference",
        published: 1.09,
        unit: "slowest / fastest",
        rule: Rule::AtMost(1.35),
        figure: |r| {
            let all: Option<Vec<(f64, bool)>> =
                super::published::MORTON_ELEVATORS.iter().map(|e| last(r, "copy-trees", e)).collect();
            let all = all?;
            let most = all.iter().map(|(s, _)| *s).fold(0.0, f64::max);
            let least = all.iter().map(|(s, _)| *s).fold(f64::INFINITY, f64::min);
            Some((most / least, all.iter().any(|(_, bound)| *bound)))
        },
    },
    ClaimRow {
        id: "six-trees-deadline",
        source: MORTON,
        says: "six trees read in parallel: deadline takes several times as long as anticipatory",
        published: 4.47,
        unit: "deadline / anticipatory",
        rule: Rule::AtLeast(2.0),
        figure: |r| versus(r, "six-trees", "deadline", "anticipatory"),
    },
    ClaimRow {
        id: "six-trees-2.4",
        source: MORTON,
        says: "six trees read in parallel: 2.4 takes many times as long as anticipatory",
        published: 7.89,
        unit: "linus / anticipatory",
        rule: Rule::AtLeast(2.0),
        figure: |r| versus(r, "six-trees", "linus", "anticipatory"),
    },
    ClaimRow {
        id: "read-during-write-as",
        source: MORTON,
        says: "a file read during a streaming write: deadline takes many times as long as anticipatory",
        published: 12.6,
        unit: "deadline / anticipatory",
        rule: Rule::AtLeast(4.0),
        figure: |r| versus(r, "read-during-write", "deadline", "anticipatory"),
    },
    ClaimRow {
        id: "read-during-write-cfq",
        source: MORTON,
        says: "a file read during a streaming write: the first CFQ lies between deadline and anticipatory",
        published: 1.78,
        unit: "deadline / cfq-v1",
        rule: Rule::Between(1.05, 8.0),
        figure: |r| versus(r, "read-during-write", "deadline", "cfq-v1"),
    },
    ClaimRow {
        id: "tree-during-write-as",
        source: MORTON,
        says: "a tree read during a streaming write: deadline takes many times as long as anticipatory",
        published: 26.3,
        unit: "deadline / anticipatory",
        rule: Rule::AtLeast(5.0),
        figure: |r| versus(r, "tree-during-write", "deadline", "anticipatory"),
    },
    ClaimRow {
        id: "tree-during-write-alone",
        source: MORTON,
        says: "a tree read during a streaming write with anticipatory: about twice as long as alone",
        published: 2.15,
        unit: "during / alone",
        rule: Rule::AtMost(5.0),
        figure: |r| lasts(r, ("tree-during-write", "anticipatory"), ("tree-alone", "deadline")),
    },
    ClaimRow {
        id: "tree-during-write-2.4",
        source: MORTON,
        says: "a tree read during a streaming write: 2.4 takes twice as long as deadline or more",
        published: 2.01,
        unit: "linus / deadline",
        rule: Rule::AtLeast(1.5),
        figure: |r| versus(r, "tree-during-write", "linus", "deadline"),
    },
    ClaimRow {
        id: "tree-during-read-as",
        source: MORTON,
        says: "a tree read during a streaming read: deadline takes many times as long as anticipatory",
        published: 12.9,
        unit: "deadline / anticipatory",
        rule: Rule::AtLeast(4.0),
        figure: |r| versus(r, "tree-during-read", "deadline", "anticipatory"),
    },
    ClaimRow {
        id: "tree-during-read-2.4",
        source: MORTON,
        says: "a tree read during a streaming read: 2.4 takes many times as long as deadline",
        published: 8.63,
        unit: "linus / deadline",
        rule: Rule::AtLeast(2.0),
        figure: |r| versus(r, "tree-during-read", "linus", "deadline"),
    },
    ClaimRow {
        id: "fsync-during-read-as",
        source: MORTON,
        says: "a write with fsync during a streaming read: anticipatory is slower than deadline, not by far",
        published: 1.55,
        unit: "anticipatory / deadline",
        rule: Rule::Between(1.0, 4.0),
        figure: |r| versus(r, "fsync-during-read", "anticipatory", "deadline"),
    },
];

const ROWS_AXBOE: &[ClaimRow] = &[
    ClaimRow {
        id: "seq-read-deadline",
        source: AXBOE,
        says: "eight sequential readers instead of one: deadline collapses",
        published: 0.061,
        unit: "8 clients / 1",
        rule: Rule::AtMost(0.25),
        figure: |r| rates(r, "deadline", "seq-read-8", "seq-read-1"),
    },
    ClaimRow {
        id: "seq-read-as",
        source: AXBOE,
        says: "eight sequential readers instead of one: anticipatory holds",
        published: 0.90,
        unit: "8 clients / 1",
        rule: Rule::AtLeast(0.8),
        figure: |r| rates(r, "anticipatory", "seq-read-8", "seq-read-1"),
    },
    ClaimRow {
        id: "seq-read-cfq",
        source: AXBOE,
        says: "eight sequential readers instead of one: time slices hold",
        published: 0.88,
        unit: "8 clients / 1",
        rule: Rule::AtLeast(0.8),
        figure: |r| rates(r, "cfq", "seq-read-8", "seq-read-1"),
    },
    ClaimRow {
        id: "seq-read-latency",
        source: AXBOE,
        says: "eight sequential readers: the longest wait with time slices is below that with anticipatory",
        published: 0.62,
        unit: "cfq / anticipatory",
        rule: Rule::AtMost(1.0),
        figure: |r| {
            let of = |elevator| Some(worst(r.of("seq-read-8", elevator)?));
            Some((of("cfq")? / of("anticipatory")?, false))
        },
    },
    ClaimRow {
        id: "rand-read-as",
        source: AXBOE,
        says: "eight random readers instead of one: anticipatory holds",
        published: 0.96,
        unit: "8 clients / 1",
        rule: Rule::AtLeast(0.85),
        figure: |r| rates(r, "anticipatory", "rand-read-8", "rand-read-1"),
    },
    ClaimRow {
        id: "rand-read-cfq",
        source: AXBOE,
        says: "eight random readers instead of one: time slices hold",
        published: 0.97,
        unit: "8 clients / 1",
        rule: Rule::AtLeast(0.85),
        figure: |r| rates(r, "cfq", "rand-read-8", "rand-read-1"),
    },
    ClaimRow {
        id: "rand-read-cfq-fair",
        source: AXBOE,
        says: "eight random readers: time slices are fair",
        published: 1.06,
        unit: "fastest / slowest",
        rule: Rule::AtMost(1.25),
        figure: |r| fairness(r, "rand-read-8", "cfq"),
    },
    ClaimRow {
        id: "rand-read-as-unfair",
        source: AXBOE,
        says: "eight random readers: anticipatory is not",
        published: 2.36,
        unit: "fastest / slowest",
        rule: Rule::AtLeast(1.25),
        figure: |r| fairness(r, "rand-read-8", "anticipatory"),
    },
    ClaimRow {
        id: "seq-write-deadline",
        source: AXBOE,
        says: "eight sequential writers instead of one: deadline collapses",
        published: 0.19,
        unit: "8 clients / 1",
        rule: Rule::AtMost(0.5),
        figure: |r| rates(r, "deadline", "seq-write-8", "seq-write-1"),
    },
    ClaimRow {
        id: "seq-write-cfq",
        source: AXBOE,
        says: "eight sequential writers instead of one: time slices hold",
        published: 0.95,
        unit: "8 clients / 1",
        rule: Rule::AtLeast(0.8),
        figure: |r| rates(r, "cfq", "seq-write-8", "seq-write-1"),
    },
    ClaimRow {
        id: "reader-and-writer-as",
        source: AXBOE,
        says: "a reader against a writer: anticipatory gives the reader nearly everything",
        published: 0.998,
        unit: "share of the reader",
        rule: Rule::AtLeast(0.95),
        figure: |r| first_share(r, "reader-and-writer", "anticipatory"),
    },
    ClaimRow {
        id: "reader-and-writer-cfq",
        source: AXBOE,
        says: "a reader against a writer: time slices give each about half",
        published: 0.57,
        unit: "share of the reader",
        rule: Rule::Between(0.35, 0.8),
        figure: |r| first_share(r, "reader-and-writer", "cfq"),
    },
    ClaimRow {
        id: "reader-and-writer-deadline",
        source: AXBOE,
        says: "a reader against a writer: together they get far less with deadline than with time slices",
        published: 0.17,
        unit: "deadline / cfq",
        rule: Rule::AtMost(0.5),
        figure: |r| {
            let of = |elevator| Some(kib_per_s(r.of("reader-and-writer", elevator)?));
            Some((of("deadline")? / of("cfq")?, false))
        },
    },
    ClaimRow {
        id: "priorities-0-4",
        source: AXBOE_PRIORITIES,
        says: "level 0 gets about twice as much as level 4",
        published: 2.24,
        unit: "be/0 / be/4",
        rule: Rule::Between(1.3, 4.0),
        figure: |r| between(r, "priorities", 0, 5),
    },
    ClaimRow {
        id: "priorities-0-6",
        source: AXBOE_PRIORITIES,
        says: "level 0 gets several times as much as level 6",
        published: 4.70,
        unit: "be/0 / be/6",
        rule: Rule::Between(2.0, 13.0),
        figure: |r| between(r, "priorities", 0, 6),
    },
    ClaimRow {
        id: "priorities-free",
        source: AXBOE_PRIORITIES,
        says: "priorities cost no throughput",
        published: 1.0,
        unit: "with / without",
        rule: Rule::AtLeast(0.85),
        figure: |r| rates(r, "cfq", "priorities", "no-priorities"),
    },
];

const ROWS_OTHERS: &[ClaimRow] = &[
    ClaimRow {
        id: "deadline-bound",
        source: SOURCES,
        says: "a read under a streaming write waits for read_expire (500 ms) and a batch of 16, not for all writes",
        published: 0.5,
        unit: "s, longest read",
        rule: Rule::AtMost(1.0),
        figure: |r| Some((worst(r.of("reads-under-writes", "deadline")?), false)),
    },
    ClaimRow {
        id: "linus-starves",
        source: MORTON,
        says: "a read under a streaming write takes seconds with 2.4",
        published: 1.0,
        unit: "s, longest read",
        rule: Rule::AtLeast(1.0),
        figure: |r| Some((worst(r.of("reads-under-writes", "linus")?), false)),
    },
    ClaimRow {
        id: "plugging-deadline",
        source: TOKYO,
        says: "two trees compared with deadline: without plugging a little slower (154 s, not 151 or 152)",
        published: 1.02,
        unit: "without / with",
        rule: Rule::Between(0.99, 1.10),
        figure: |r| lasts(r, ("diff-unplugged", "deadline"), ("diff-plugged", "deadline")),
    },
    ClaimRow {
        id: "plugging-as",
        source: TOKYO,
        says: "two trees compared with anticipatory: without plugging a little slower (154 s, not 150)",
        published: 1.03,
        unit: "without / with",
        rule: Rule::Between(0.99, 1.10),
        figure: |r| lasts(r, ("diff-unplugged", "anticipatory"), ("diff-plugged", "anticipatory")),
    },
];
