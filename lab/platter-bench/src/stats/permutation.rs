//! Ratios of two groups of runs, with intervals from permutation tests.
//!
//! A ratio r is in the interval if the test does not reject that the new values, divided by r, and the base values come from one
//! distribution: the values are exchanged between the groups in all ways, and the share of exchanges that put the geometric
//! means at least as far apart as they are is the probability of that under this assumption (Fisher, "The Design of
//! Experiments", 1935; the interval by inversion of the test: Tritchler, "On Inverting Permutation Tests", 1984). So the
//! interval excludes 1 for no more than the stated share of pairs of equal groups, whatever the distribution, and for few
//! values too, where intervals by resampling are too narrow.
//!
//! Example: with 4 runs on each side there are 70 exchanges, and two of them put the groups at least as far apart as the
//! real ones if all new values are larger: 2/70 = 2.9 %, which is enough for an interval of 95 %, and not for one of 99 %.

use super::sample::finite;
use super::{Interval, Seeded, StatsError};

/// Most exchanges that are all looked at; of more, this many are drawn.
const MOST: u64 = 20_000;

/// Halvings of the distance in which an end of an interval lies.
const HALVINGS: u32 = 40;

/// How the ends are found. The default is 95 %, seed 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Permutation {
    /// The probability that the interval covers the ratio, above 0 and below 1.
    pub confidence: f64,
    /// Seed of the draws, where there are more than 20,000 exchanges.
    pub seed: u64,
}

impl Default for Permutation {
    fn default() -> Self {
        Self { confidence: 0.95, seed: 1 }
    }
}

/// The difference of the means of the groups after each exchange, as a line over the logarithm of the ratio by which the new values
/// are divided: `at - slope * log ratio`. The first is that of the groups as they are, with slope 1.
struct Exchanges(Vec<(f64, f64)>);

impl Exchanges {
    /// The share that is at least as far apart as the first.
    fn share(&self, log_ratio: f64) -> f64 {
        let apart = |&(at, slope): &(f64, f64)| (at - slope * log_ratio).abs();
        let real = apart(&self.0[0]);
        // Sums in another order differ in the last digits.
        let least = real - 1e-9 * (1e-12 + real);
        self.0.iter().filter(|line| apart(line) >= least).count() as f64 / self.0.len() as f64
    }

    /// The share far away from the estimate: the smallest there is.
    fn smallest_share(&self) -> f64 {
        let extreme = self.0.iter().filter(|(_, slope)| slope.abs() > 1.0 - 1e-9).count();
        extreme as f64 / self.0.len() as f64
    }

    /// The ratios that are not rejected; `None`: there are too few values for that.
    fn interval(&self, confidence: f64) -> Option<Interval> {
        let level = 1.0 - confidence;
        if self.smallest_share() > level + 1e-12 {
            return None;
        }
        let estimate = self.0[0].0;
        // The share falls with the distance from the estimate, because no slope is steeper than the first.
        let end = |sign: f64| {
            let (mut inside, mut outside) = (0.0, 1e-3);
            while self.share(estimate + sign * outside) > level {
                (inside, outside) = (outside, outside * 2.0);
                if outside > 700.0 {
                    return sign * outside;
                }
            }
            for _ in 0..HALVINGS {
                let middle = (inside + outside) / 2.0;
                match self.share(estimate + sign * middle) > level {
                    true => inside = middle,
                    false => outside = middle,
                }
            }
            sign * outside
        };
        let [low, high] = [end(-1.0), end(1.0)].map(|distance| (estimate + distance).exp());
        Some(Interval { low, estimate: estimate.exp(), high })
    }
}

impl Permutation {
    fn check(&self) -> Result<(), StatsError> {
        match self.confidence > 0.0 && self.confidence < 1.0 {
            true => Ok(()),
            false => {
                let allowed = "above 0 and below 1";
                Err(StatsError::Parameter { name: "confidence", value: self.confidence, allowed })
            }
        }
    }

    /// The ratio of the geometric means of `new` and `base`, whose runs do not belong together. `None`: there are too few
    /// values for the confidence.
    ///
    /// # Errors
    /// A list without values, a value that is not finite or not above 0, or a confidence out of range.
    pub fn ratio(self, new: &[f64], base: &[f64]) -> Result<Option<Interval>, StatsError> {
        self.check()?;
        let (new, base) = (logarithms(new)?, logarithms(base)?);
        let all: Vec<f64> = new.iter().chain(&base).copied().collect();
        let (count, total) = (new.len(), all.iter().sum::<f64>());
        let line = |chosen: &[usize]| {
            let sum: f64 = chosen.iter().map(|&at| all[at]).sum();
            let from_new = chosen.iter().filter(|&&at| at < count).count() as f64;
            let (m, n) = (count as f64, base.len() as f64);
            (sum / m - (total - sum) / n, from_new / m - (m - from_new) / n)
        };
        let mut chosen: Vec<usize> = (0..count).collect();
        let mut lines = vec![line(&chosen)];
        if choices(all.len() as u64, count as u64) <= MOST {
            while next_choice(&mut chosen, all.len()) {
                lines.push(line(&chosen));
            }
        } else {
            let (mut rng, mut order) = (Seeded::new(self.seed), (0..all.len()).collect::<Vec<_>>());
            while (lines.len() as u64) < MOST {
                for at in 0..count {
                    order.swap(at, at + rng.below((all.len() - at) as u64) as usize);
                }
                lines.push(line(&order[..count]));
            }
        }
        Ok(Exchanges(lines).interval(self.confidence))
    }

    /// The same for runs of which `new[i]` and `base[i]` were measured under the same circumstances, one after the other: only
    /// values of a pair are exchanged.
    ///
    /// # Errors
    /// As [`ratio`](Self::ratio), or lists of different length.
    pub fn paired_ratio(self, new: &[f64], base: &[f64]) -> Result<Option<Interval>, StatsError> {
        self.check()?;
        if new.len() != base.len() {
            return Err(StatsError::Unpaired { left: new.len(), right: base.len() });
        }
        let (new, base) = (logarithms(new)?, logarithms(base)?);
        let steps: Vec<f64> = new.iter().zip(&base).map(|(new, base)| new - base).collect();
        let n = steps.len() as f64;
        let line = |exchanged: &dyn Fn(usize) -> bool| {
            let sign = |at| if exchanged(at) { -1.0 } else { 1.0 };
            let sum: f64 = steps.iter().enumerate().map(|(at, step)| sign(at) * step).sum();
            (sum / n, (0..steps.len()).map(sign).sum::<f64>() / n)
        };
        let lines = if steps.len() < 15 {
            (0u64..1 << steps.len()).map(|mask| line(&|at| mask >> at & 1 == 1)).collect()
        } else {
            let mut rng = Seeded::new(self.seed);
            let drawn = (1..MOST).map(|_| {
                let signs: Vec<bool> = steps.iter().map(|_| rng.next_u64() & 1 == 1).collect();
                line(&|at| signs[at])
            });
            std::iter::once(line(&|_| false)).chain(drawn).collect()
        };
        Ok(Exchanges(lines).interval(self.confidence))
    }
}

fn logarithms(values: &[f64]) -> Result<Vec<f64>, StatsError> {
    finite(values)?;
    match values.iter().position(|&value| value <= 0.0) {
        Some(index) => Err(StatsError::TooSmall { index, value: values[index], allowed: "above 0" }),
        None => Ok(values.iter().map(|value| value.ln()).collect()),
    }
}

/// In how many ways `k` of `n` are chosen; more than [`MOST`] if there are more.
fn choices(n: u64, k: u64) -> u64 {
    let mut ways: u64 = 1;
    for at in 0..k.min(n - k) {
        ways = ways.saturating_mul(n - at) / (at + 1);
        if ways > MOST {
            return MOST + 1;
        }
    }
    ways
}

/// The next choice in lexicographic order. `false`: there is none.
fn next_choice(chosen: &mut [usize], n: usize) -> bool {
    let k = chosen.len();
    let Some(at) = (0..k).rev().find(|&at| chosen[at] < n - k + at) else { return false };
    chosen[at] += 1;
    for later in at + 1..k {
        chosen[later] = chosen[later - 1] + 1;
    }
    true
}

/// Fewest runs on each side with which a ratio can be given at this confidence. `paired`: [`Permutation::paired_ratio`].
pub fn runs_needed(confidence: f64, paired: bool) -> u32 {
    let level = 1.0 - confidence + 1e-12;
    let share = |n: u64| match paired {
        true => 2.0 / 2f64.powi(n.min(1000) as i32),
        false => 2.0 / choices(2 * n, n) as f64,
    };
    (1..1000).find(|&n| share(n) <= level).unwrap_or(1000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value around 1, about normally distributed with this relative spread.
    fn noisy(rng: &mut Seeded, spread: f64) -> f64 {
        let uniform = |rng: &mut Seeded| (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let sum: f64 = (0..12).map(|_| uniform(rng)).sum();
        1.0 + spread * (sum - 6.0)
    }

    #[test]
    fn four_runs_that_do_not_overlap_suffice_for_95_percent_and_not_for_99() {
        let (new, base) = ([2.0, 2.1, 2.2, 2.3], [1.0, 1.1, 1.2, 1.3]);
        let found = Permutation::default().ratio(&new, &base).unwrap().expect("an interval");
        assert!(found.low > 1.4 && found.estimate > 1.85 && found.high < 2.4, "{found:?}");
        let strict = Permutation { confidence: 0.99, ..Permutation::default() };
        assert_eq!(strict.ratio(&new, &base).unwrap(), None);
        let needed = [0.95, 0.98, 0.99, 0.998].map(|confidence| runs_needed(confidence, false));
        assert_eq!((needed, runs_needed(0.95, true)), ([4, 5, 5, 7], 6));
    }

    #[test]
    fn an_interval_is_that_of_the_logarithms_turned_round() {
        let (a, b) = ([10.0, 11.0, 12.0, 9.5, 10.7], [10.1, 10.9, 13.0, 9.0, 11.0]);
        let there = Permutation::default().ratio(&a, &b).unwrap().unwrap();
        let back = Permutation::default().ratio(&b, &a).unwrap().unwrap();
        assert!((there.low * back.high - 1.0).abs() < 1e-6 && (there.high * back.low - 1.0).abs() < 1e-6);
        assert!(there.low < 1.0 && there.high > 1.0);
        let scaled = Permutation::default().ratio(&a.map(|x| 3.0 * x), &b).unwrap().unwrap();
        assert!((scaled.low / there.low - 3.0).abs() < 1e-6);
    }

    /// How often equal groups are told apart, and groups that differ by 5 % with a spread of 2 %.
    fn found(runs: usize, paired: bool) -> [f64; 2] {
        const TRIALS: u32 = 200;
        let mut rng = Seeded::new(7);
        let mut counts = [0u32; 2];
        for _ in 0..TRIALS {
            for (count, factor) in counts.iter_mut().zip([1.0, 1.05]) {
                let mut new = Vec::new();
                let mut base = Vec::new();
                for _ in 0..runs {
                    // What disturbs both runs of a pair.
                    let common = if paired { noisy(&mut rng, 0.1) } else { 1.0 };
                    base.push(common * noisy(&mut rng, 0.02));
                    new.push(factor * common * noisy(&mut rng, 0.02));
                }
                let interval = match paired {
                    true => Permutation::default().paired_ratio(&new, &base),
                    false => Permutation::default().ratio(&new, &base),
                };
                let interval = interval.unwrap().expect("enough runs");
                *count += u32::from(interval.low > 1.0 || interval.high < 1.0);
            }
        }
        counts.map(|count| f64::from(count) / f64::from(TRIALS))
    }

    /// Of 200 trials with 5 % of alarms, 3 standard deviations are 4.6 %.
    #[test]
    fn equal_groups_give_at_most_5_percent_alarms_and_a_change_of_5_percent_is_found() {
        for (runs, paired, power) in [(4, false, 0.6), (6, false, 0.9), (8, false, 0.95), (8, true, 0.9)] {
            let [alarms, hits] = found(runs, paired);
            assert!(alarms <= 0.096, "{runs} runs: {alarms} alarms");
            assert!(hits >= power, "{runs} runs: {hits} found");
        }
    }

    #[test]
    fn bad_values_are_errors() {
        let how = Permutation::default();
        assert!(matches!(how.ratio(&[], &[1.0]), Err(StatsError::Empty)));
        assert!(matches!(how.ratio(&[1.0, 0.0], &[1.0]), Err(StatsError::TooSmall { index: 1, .. })));
        assert!(matches!(how.ratio(&[f64::NAN], &[1.0]), Err(StatsError::NotFinite { .. })));
        assert!(matches!(how.paired_ratio(&[1.0], &[1.0, 2.0]), Err(StatsError::Unpaired { .. })));
        let wide = Permutation { confidence: 1.0, seed: 1 };
        assert!(matches!(wide.ratio(&[1.0], &[1.0]), Err(StatsError::Parameter { .. })));
    }
}
