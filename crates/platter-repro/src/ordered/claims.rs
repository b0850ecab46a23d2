//! The claims. Nothing was published in figures, so each bounds a ratio from both sides or says which is ahead.

use super::Results;
use super::load::{Cell, DISKS, LOADS, Order, Place};
use crate::claim::{Claim, Rule};
use crate::kind::Kind;

/// Source of what barriers are.
const AXBOE: &str = "Axboe, Linux Block I/O: Present and Future, 2004, IO Barriers";
/// Source of the sequences.
const LINUX: &str = "Linux 2.6.16, ordered modes";

/// A claim about tag against drain on the first disk.
struct Row {
    id: &'static str,
    cache: bool,
    place: Place,
    every: u64,
    says: &'static str,
    rule: Rule,
}

const ROWS: [Row; 6] = [
    Row {
        id: "random-8",
        cache: false,
        place: Place::Random,
        every: 8,
        says: "random writes gain little from tags, because the arm has to move in any case",
        rule: Rule::Between(1.0, 1.3),
    },
    Row {
        id: "random-2",
        cache: false,
        place: Place::Random,
        every: 2,
        says: "with more barriers random writes gain at most half as much again",
        rule: Rule::Between(1.0, 1.5),
    },
    Row {
        id: "log-8",
        cache: false,
        place: Place::Log,
        every: 8,
        says: "a log is not slower with tags, and at most three times as fast",
        rule: Rule::Between(1.0, 3.0),
    },
    Row {
        id: "log-2",
        cache: false,
        place: Place::Log,
        every: 2,
        says: "a log is not slower with tags, and at most three times as fast",
        rule: Rule::Between(1.0, 3.0),
    },
    Row {
        id: "random-8-cache",
        cache: true,
        place: Place::Random,
        every: 8,
        says: "with a write cache random writes gain at most half as much again",
        rule: Rule::Between(1.0, 1.5),
    },
    Row {
        id: "log-8-cache",
        cache: true,
        place: Place::Log,
        every: 8,
        says: "with a write cache a log is not slower with tags, and at most three times as fast",
        rule: Rule::Between(1.0, 3.0),
    },
];

/// The rate with `one` over the rate with `other`.
fn ratio(results: &Results, cell: Cell, one: Order, other: Order) -> Option<f64> {
    let rate = |order| results.of(&Cell { order, ..cell }).map(|found| found.rate);
    Some(rate(one)? / rate(other)?)
}

/// All ratios of the rates with `one` and `other` on these disks.
fn ratios(results: &Results, disks: &[&'static str], one: Order, other: Order) -> Vec<f64> {
    let cells = disks.iter().flat_map(|&disk| {
        let loads = [false, true].into_iter().flat_map(|cache| LOADS.map(|load| (cache, load)));
        loads.map(move |(cache, (place, every))| Cell { disk, cache, place, every, order: one })
    });
    cells.filter_map(|cell| ratio(results, cell, one, other)).collect()
}

/// The claims with the results of the model.
pub(super) fn all(results: &Results) -> Vec<Claim> {
    let claim = |id, source, says, modelled: Option<f64>, rule: Rule| {
        let fails = modelled.is_none_or(|value| !rule.holds(value));
        Claim {
            id,
            // The sources give no figures: all bounds are ours.
            kind: Kind::Ours,
            document: source,
            source,
            says,
            published: None,
            modelled,
            here: None,
            unit: "x",
            rule,
            reason: fails.then(|| "the ratio is outside of the bounds that were set before".to_owned()),
        }
    };
    let mut claims: Vec<Claim> = ROWS
        .iter()
        .map(|row| {
            let Row { id, cache, place, every, says, rule } = *row;
            let cell = Cell { disk: DISKS[0], cache, place, every, order: Order::Tag };
            claim(id, LINUX, says, ratio(results, cell, Order::Tag, Order::Drain), rule)
        })
        .collect();
    let least = ratios(results, &DISKS, Order::Tag, Order::Drain).into_iter().reduce(f64::min);
    claims.push(claim(
        "never-behind",
        AXBOE,
        "on no disk and with no load are ordered tags slower than draining (the least ratio)",
        least,
        Rule::AtLeast(0.98),
    ));
    let most = ratios(results, &DISKS, Order::Tag, Order::None).into_iter().reduce(f64::max);
    claims.push(claim(
        "never-free",
        AXBOE,
        "on no disk and with no load are ordered tags faster than no order (the largest ratio)",
        most,
        Rule::AtMost(1.02),
    ));
    claims
}
