//! The measurements, arranged for the claims.

use super::SEVERAL;
use super::machine::DISKS;
use platter_bench::chunked::{Cell, Personality, Plan, Point};
use std::cell::RefCell;
use std::collections::HashMap;

/// The points of a run.
pub(super) struct Found<'a> {
    pub(super) plan: &'a Plan,
    points: HashMap<Cell, &'a Point>,
    /// Disks at work while large requests are read, if that was watched.
    watched: &'a [Point],
    /// The points that were asked for.
    used: RefCell<Vec<Cell>>,
}

impl<'a> Found<'a> {
    pub(super) fn new(plan: &'a Plan, points: &'a [Point], watched: &'a [Point]) -> Found<'a> {
        let points = points.iter().map(|point| (point.cell, point)).collect();
        Found { plan, points, watched, used: RefCell::default() }
    }

    /// What was asked for since the last call.
    pub(super) fn take_used(&self) -> Vec<Cell> {
        self.used.take()
    }

    pub(super) fn point(&self, cell: &Cell) -> Option<&Point> {
        self.used.borrow_mut().push(*cell);
        self.points.get(cell).copied()
    }

    /// The mean number of disks that a personality has at work.
    pub(super) fn at_work(&self, personality: Personality) -> Option<f64> {
        let point = self.watched.iter().find(|point| point.cell.personality == personality)?;
        Some(point.busy.as_ref()?.mean_pct.iter().sum::<f64>() / 100.0)
    }

    /// The median of a cell in MiB/s.
    pub(super) fn cell(&self, cell: &Cell) -> Option<f64> {
        Some(self.point(cell)?.median())
    }

    /// The median in MiB/s.
    pub(super) fn rate(&self, personality: Personality, disks: usize, request: u64) -> Option<f64> {
        Some(self.point(&self.plan.cell(personality, disks, request))?.median())
    }

    /// The same on all disks.
    pub(super) fn all(&self, personality: Personality, request: u64) -> Option<f64> {
        self.rate(personality, DISKS, request)
    }

    /// The same with another stripe.
    pub(super) fn striped(&self, personality: Personality, request: u64, stripe: u64) -> Option<f64> {
        let cell = Cell { stripe, ..self.plan.cell(personality, DISKS, request) };
        Some(self.point(&cell)?.median())
    }

    /// The largest rate of a personality over all sizes of requests.
    pub(super) fn peak(&self, personality: Personality, disks: usize) -> Option<f64> {
        let rates = self.plan.requests.iter().filter_map(|&request| self.rate(personality, disks, request));
        rates.reduce(f64::max)
    }

    /// The median of an array with several requests at once.
    pub(super) fn several(&self, request: u64, stripe: u64) -> Option<f64> {
        let cell = self.plan.cell(Personality::CsraidPosix, DISKS, request);
        Some(self.point(&Cell { stripe, depth: SEVERAL, ..cell })?.median())
    }

    /// The ratio of two personalities' rates on all disks, at each size of requests in a range.
    pub(super) fn ratios(&self, one: Personality, other: Personality, from: u64, to: u64) -> Vec<f64> {
        let sizes = self.plan.requests.iter().filter(|&&request| (from..=to).contains(&request));
        sizes.filter_map(|&request| Some(self.all(one, request)? / self.all(other, request)?)).collect()
    }

    /// The distance of the quartiles in medians, on average over requests from a size on, on all disks.
    pub(super) fn spread(&self, personality: Personality, from: u64) -> Option<f64> {
        let sizes = self.plan.requests.iter().filter(|&&request| request >= from);
        let spread = |&request: &u64| {
            let [low, median, high] = self.point(&self.plan.cell(personality, DISKS, request))?.quartiles;
            Some((high - low) / median)
        };
        mean(&sizes.map(spread).collect::<Option<Vec<f64>>>()?)
    }
}

pub(super) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The share of values that are at least 1.
pub(super) fn share_ahead(ratios: &[f64]) -> Option<f64> {
    mean(&ratios.iter().map(|&ratio| f64::from(u8::from(ratio >= 1.0))).collect::<Vec<f64>>())
}
