//! The rounds of a benchmark on the ladder: a warm-up, then every rung in turn, in an order that rotates, so that changes
//! of the machine over time affect all rungs.

use super::crew::{Measured, Until};
use std::time::{Duration, Instant};

/// How long a cell is warmed up.
const WARM_UP: Duration = Duration::from_millis(50);
/// Duration of a run of a cell, within the budget; the ticks of idle time are too coarse for less.
const CELL: std::ops::RangeInclusive<Duration> = Duration::from_millis(30)..=Duration::from_millis(400);
/// Fewest reads of a worker in a run of a cell that is measured by time.
const FEWEST: u64 = 8;
/// Rounds that are run even when the time is up.
const FEWEST_ROUNDS: usize = 2;

/// Which cells are measured, and for how long. A cell is one rung with one call; cells are numbered by call, then by rung.
#[derive(Clone, Copy)]
pub(crate) struct Rounds {
    pub(crate) calls: usize,
    pub(crate) rungs: usize,
    /// Most rounds.
    pub(crate) repeat: usize,
    /// Reads of each worker in each run; `None`: as many as fit the time, found by a warm-up.
    pub(crate) reads: Option<u64>,
    /// All cells of a round do the same reads, because reads differ from each other. Otherwise each does as many as fit its part
    /// of the time, so that runs are about as long.
    pub(crate) same: bool,
    /// When the rounds should be over.
    pub(crate) end: Instant,
}

/// What the rounds brought.
pub(crate) struct Measurements {
    /// By cell.
    pub(crate) runs: Vec<Vec<Measured>>,
    /// Runs that were left out because the time was up.
    pub(crate) left_out: usize,
}

impl Rounds {
    /// Runs of cells in all, warm-ups among them.
    pub(crate) fn total(&self) -> usize {
        let warm_ups = usize::from(self.reads.is_none());
        self.calls * self.rungs * (self.repeat + warm_ups)
    }

    /// Runs all rounds. `measure` is given a cell, the number of its first read and when it ends; it returns `None` when it
    /// was interrupted, which ends the rounds.
    ///
    /// # Errors
    /// Those of `measure`.
    pub(crate) fn run<E>(
        &self,
        mut measure: impl FnMut(usize, u64, Until) -> Result<Option<Measured>, E>,
    ) -> Result<Measurements, E> {
        let cells = self.calls * self.rungs;
        let mut result = Measurements { runs: vec![Vec::new(); cells], left_out: 0 };
        let Some(reads) = self.plan(cells, &mut measure)? else { return Ok(result) };
        let (mut first, began) = (0, Instant::now());
        for round in 0..self.repeat {
            if self.is_over(round, began) {
                result.left_out = (self.repeat - round) * cells;
                break;
            }
            for turn in 0..self.rungs {
                for call in 0..self.calls {
                    let index = call * self.rungs + (turn + round) % self.rungs;
                    let Some(measured) = measure(index, first, Until::Reads(reads[index]))? else {
                        return Ok(result);
                    };
                    result.runs[index].push(measured);
                    first += if self.same { 0 } else { reads[index] };
                }
            }
            first += if self.same { reads.first().copied().unwrap_or(0) } else { 0 };
        }
        Ok(result)
    }

    /// Whether another round would last too long. The machine may have become slower since the warm-up.
    fn is_over(&self, round: usize, began: Instant) -> bool {
        let each = began.elapsed() / round.max(1) as u32;
        self.reads.is_none() && round >= FEWEST_ROUNDS && Instant::now() + each > self.end + each / 2
    }

    /// How many reads each worker does in each cell; `None` when interrupted.
    fn plan<E>(
        &self,
        cells: usize,
        measure: &mut impl FnMut(usize, u64, Until) -> Result<Option<Measured>, E>,
    ) -> Result<Option<Vec<u64>>, E> {
        if let Some(reads) = self.reads {
            return Ok(Some(vec![reads; cells]));
        }
        let mut rates = Vec::with_capacity(cells);
        for cell in 0..cells {
            match measure(cell, 0, Until::Time(WARM_UP))? {
                Some(run) => rates.push(run.reads as f64 / run.threads as f64 / run.wall_ns as f64),
                None => return Ok(None),
            }
        }
        let rest = self.end.saturating_duration_since(Instant::now());
        let each = rest / (cells * self.repeat) as u32;
        let each = each.clamp(*CELL.start(), *CELL.end()).as_nanos() as f64;
        if self.same {
            // As long as `each` on average.
            let of_one_read: f64 = rates.iter().map(|rate| 1.0 / rate).sum();
            let all = (each * cells as f64 / of_one_read).round() as u64;
            return Ok(Some(vec![all.max(FEWEST); cells]));
        }
        Ok(Some(rates.iter().map(|rate| ((rate * each).round() as u64).max(FEWEST)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_stats::DeviceStats;
    use platter_block::counters::Snapshot;
    use std::convert::Infallible;

    /// A run with these figures.
    fn measured(reads: u64, wall_ns: u64) -> Measured {
        Measured {
            reads,
            wall_ns,
            cpu_ns: 0,
            idle_pct: None,
            counters: Snapshot::default(),
            device: DeviceStats::default(),
            waits: 0,
            threads: 1,
            descriptor_bytes: 0,
        }
    }

    /// The runs of two rungs, the first three times as slow, as (cell, first read, reads).
    fn runs(rounds: Rounds) -> Vec<(usize, u64, u64)> {
        let mut seen = Vec::new();
        let result = rounds.run(|cell, first, until| {
            let each = if cell == 0 { 30_000 } else { 10_000 };
            Ok::<_, Infallible>(Some(match until {
                Until::Time(span) => measured(span.as_nanos() as u64 / each, span.as_nanos() as u64),
                Until::Reads(reads) => {
                    seen.push((cell, first, reads));
                    measured(reads, reads * each)
                }
            }))
        });
        let Ok(result) = result;
        assert!(result.runs.iter().all(|runs| runs.len() == 2) && result.left_out == 0);
        seen
    }

    #[test]
    fn runs_last_as_long_or_do_the_same() {
        let (repeat, end) = (2, Instant::now());
        let rounds = Rounds { calls: 1, rungs: 2, repeat, reads: None, same: false, end };
        // The shortest run, of 30 ms: 1,000 and 3,000 reads. The second round begins with the other rung.
        let found = runs(rounds);
        assert_eq!(found, [(0, 0, 1000), (1, 1000, 3000), (1, 4000, 3000), (0, 7000, 1000)]);
        // 60 ms for both: 1,500 reads each.
        let found = runs(Rounds { same: true, ..rounds });
        assert_eq!(found, [(0, 0, 1500), (1, 0, 1500), (1, 1500, 1500), (0, 1500, 1500)]);
    }

    #[test]
    fn an_interruption_ends_the_rounds() {
        let rounds =
            Rounds { calls: 1, rungs: 2, repeat: 3, reads: Some(5), same: false, end: Instant::now() };
        let mut left = 3;
        let result = rounds.run(|_, _, _| {
            left -= 1;
            Ok::<_, Infallible>((left >= 0).then(|| measured(5, 1)))
        });
        let Ok(result) = result;
        assert_eq!(result.runs.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(rounds.total(), 6);
    }
}
