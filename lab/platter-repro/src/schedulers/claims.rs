//! The claims. Their rules follow the published figures: see [`Rule::near`] and [`Rule::change`].

mod figures;
mod rows;

use super::{Key, Results};
use crate::claim::{Claim, Rule};
use crate::kind::Kind;
use crate::seeds::interval;
use std::collections::BTreeSet;

/// Computes a figure from results. `None` if an elevator is missing. The flag says that the figure is only a
/// bound, because a process had not finished.
type Figure = fn(&Results) -> Option<(f64, bool)>;

struct ClaimRow {
    id: &'static str,
    document: &'static str,
    place: &'static str,
    says: &'static str,
    published: f64,
    unit: &'static str,
    rule: Rule,
    figure: Figure,
}

const MORTON: &str = "Morton, linux-kernel, 20 February 2003";
const MORTON_JANUARY: &str = "Morton, 2.5.59-mm5, linux-kernel, 23 January 2003";
const AXBOE: &str = "Axboe, linux-kernel, 2 December 2004";
const AXBOE_PRIORITIES: &str = "Axboe, linux-kernel, 13 December 2004";
const TOKYO: &str = "Axboe, Linux Block IO - present and future, Tokyo, 15 October 2004";
const SOURCES: &str = "deadline-iosched.c, Linux 2.6";

/// The simulations behind the figures that are near a bound of their rule.
pub(super) fn near(results: &Results) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for row in table() {
        let (figure, used) = results.note(|results| (row.figure)(results));
        if figure.is_some_and(|(value, _)| row.rule.is_near(value)) {
            keys.extend(used);
        }
    }
    keys
}

fn table() -> impl Iterator<Item = &'static ClaimRow> {
    rows::OF_MORTON.iter().chain(rows::OF_AXBOE).chain(rows::OTHER)
}

/// The claims, with their intervals over the results of other seeds.
pub(super) fn all(results: &Results, others: &[Results]) -> Vec<Claim> {
    table().map(|row| row.claim(results, others)).collect()
}

impl ClaimRow {
    fn claim(&self, results: &Results, others: &[Results]) -> Claim {
        let figure = (self.figure)(results);
        let ours = figure.map(|(value, _)| value);
        let near = ours.filter(|value| self.rule.is_near(*value));
        let values = others.iter().map(|other| (self.figure)(other).map(|(value, _)| value));
        let kind = if self.document == SOURCES { Kind::Ours } else { Kind::Prediction };
        Claim {
            published: Some(self.published),
            ours,
            interval: near.and_then(|value| interval(value, values)),
            reason: self.reason(figure),
            ..Claim::new(self.id, kind, (self.document, self.place), (self.says, self.unit), self.rule)
        }
    }

    fn reason(&self, figure: Option<(f64, bool)>) -> Option<String> {
        let known = || WHY_NOT.iter().find(|(id, _)| *id == self.id).map_or(NOT_KNOWN, |(_, why)| why);
        match figure {
            None => Some("an elevator that it needs is not in this build".to_owned()),
            Some((value, _)) if !self.rule.holds(value) => Some(known().to_owned()),
            Some((_, true)) => Some("a process was not through when the time was over: a bound".to_owned()),
            Some(_) => None,
        }
    }
}

const NOT_KNOWN: &str = "the model does not show it, and why is not known";

const STREAM_OF_2_4: &str = "in the published run a streaming reader kept the disk of 2.4 for a long time; here \
    linus has moved on to another reader when it requests its next window; other reasons for keeping the disk are \
    not modelled";
const OLD_CFQ: &str =
    "the measurement used a patch of February 2003, older than any release; cfq-v1 is that of 2.6.6";
const TURNS: &str = "slice, idle time and depth are those of the prototype of December 2004, but its rule for the next level \
    was not published: here it is that of the release, which gives high levels more turns than low ones. With slices alone \
    the shares of levels 0, 4 and 6 would be 1.8 : 1 : 0.6, with the turns 3.6 : 1 : 0.3";

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
    (
        "linus-starves",
        "64 writes of 124 KiB are in the queue of the model, 8 MB; the mail speaks of 30 MB, and how they came into the \
         queue of 2.4 is not known",
    ),
    ("priorities-0-4", TURNS),
    ("priorities-0-6", TURNS),
];
