//! The claims. Nothing was published in figures, so each bounds a ratio from both sides or says which is ahead.

use super::Results;
use super::load::{Cell, DISKS, LOADS, Order, Place};
use crate::claim::{Claim, Rule};
use crate::kind::Kind;
use crate::seeds::interval;

/// Source of what barriers are.
const AXBOE: (&str, &str) =
    ("Axboe, Linux Block IO - present and future, Tokyo, 15 October 2004", "IO Barriers");
/// Source of the sequences.
const LINUX: (&str, &str) = ("Linux 2.6.16", "Documentation/block/barrier.txt, ordered modes");

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
pub(super) fn all(results: &Results, others: &[Results]) -> Vec<Claim> {
    let claim = |id, from, says, figure: &dyn Fn(&Results) -> Option<f64>, rule: Rule| {
        let ours = figure(results);
        let near = ours.filter(|value| rule.is_near(*value));
        let fails = ours.is_none_or(|value| !rule.holds(value));
        Claim {
            ours,
            interval: near.and_then(|value| interval(value, others.iter().map(figure))),
            reason: fails.then(|| "the ratio is outside of the bounds that were set before".to_owned()),
            // The sources give no figures: all bounds are ours.
            ..Claim::new(id, Kind::Ours, from, (says, "x"), rule)
        }
    };
    let mut claims: Vec<Claim> = ROWS
        .iter()
        .map(|row| {
            let Row { id, cache, place, every, says, rule } = *row;
            let cell = Cell { disk: DISKS[0], cache, place, every, order: Order::Tag };
            claim(id, LINUX, says, &|results| ratio(results, cell, Order::Tag, Order::Drain), rule)
        })
        .collect();
    claims.push(claim(
        "never-behind",
        AXBOE,
        "on no disk and with no load are ordered tags slower than draining (the least ratio)",
        &|results| ratios(results, &DISKS, Order::Tag, Order::Drain).into_iter().reduce(f64::min),
        Rule::AtLeast(0.98),
    ));
    claims.push(claim(
        "never-free",
        AXBOE,
        "on no disk and with no load are ordered tags faster than no order (the largest ratio)",
        &|results| ratios(results, &DISKS, Order::Tag, Order::None).into_iter().reduce(f64::max),
        Rule::AtMost(1.02),
    ));
    claims
}
