//! The figures that claims are made of. The flag says that a figure is only a bound, because a process had not finished.

use crate::schedulers::Results;
use crate::schedulers::tables::{finishes, kib_per_s};
use platter_bench::processes::Outcome;

/// When the last process ended.
pub(super) fn last(results: &Results, scene: &str, elevator: &str) -> Option<(f64, bool)> {
    let finishes = finishes(results.of(scene, elevator)?);
    let bound = finishes.iter().any(|(_, through)| !through);
    Some((finishes.iter().map(|(s, _)| *s).fold(0.0, f64::max), bound))
}

/// The last of one against the last of another.
pub(super) fn lasts(results: &Results, one: (&str, &str), other: (&str, &str)) -> Option<(f64, bool)> {
    let ((a, bound_a), (b, bound_b)) = (last(results, one.0, one.1)?, last(results, other.0, other.1)?);
    Some((a / b.max(f64::MIN_POSITIVE), bound_a || bound_b))
}

/// The last of one elevator against that of another in the same scene.
pub(super) fn versus(results: &Results, scene: &str, one: &str, other: &str) -> Option<(f64, bool)> {
    lasts(results, (scene, one), (scene, other))
}

/// The last finisher against the first.
pub(super) fn spread(results: &Results, scene: &str, elevator: &str) -> Option<(f64, bool)> {
    let finishes = finishes(results.of(scene, elevator)?);
    let first = finishes.iter().map(|(s, _)| *s).fold(f64::INFINITY, f64::min);
    let bound = finishes.iter().any(|(_, through)| !through);
    Some((finishes.iter().map(|(s, _)| *s).fold(0.0, f64::max) / first, bound))
}

/// Throughput of one scene against that of another.
pub(super) fn rates(results: &Results, elevator: &str, one: &str, other: &str) -> Option<(f64, bool)> {
    Some((kib_per_s(results.of(one, elevator)?) / kib_per_s(results.of(other, elevator)?), false))
}

/// The fastest process against the slowest.
pub(super) fn fairness(results: &Results, scene: &str, elevator: &str) -> Option<(f64, bool)> {
    let rates = results.of(scene, elevator)?.records.iter().map(|record| record.bytes as f64);
    let (least, most) =
        rates.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
    Some((most / least.max(1.0), false))
}

/// The share of the first process.
pub(super) fn first_share(results: &Results, scene: &str, elevator: &str) -> Option<(f64, bool)> {
    let records = &results.of(scene, elevator)?.records;
    let all: u64 = records.iter().map(|record| record.bytes).sum();
    Some((records.first()?.bytes as f64 / all.max(1) as f64, false))
}

/// Bytes of one process against those of another.
pub(super) fn between(results: &Results, scene: &str, one: usize, other: usize) -> Option<(f64, bool)> {
    let records = &results.of(scene, "cfq")?.records;
    Some((records.get(one)?.bytes as f64 / records.get(other)?.bytes.max(1) as f64, false))
}

pub(super) fn worst(outcome: &Outcome) -> f64 {
    outcome.records.iter().filter_map(|record| record.latency.max()).max().unwrap_or(0) as f64 / 1e9
}

/// Seconds that the first process waited for an I/O on average.
pub(super) fn mean_of_first(outcome: &Outcome) -> Option<f64> {
    Some(outcome.records.first()?.latency.mean()? / 1e9)
}
