//! Confidence intervals by resampling (Efron, "Bootstrap Methods: Another Look at the Jackknife", 1979),
//! by the percentile method.

use super::sample::finite;
use super::{Sample, Seeded, StatsError};

/// How a bootstrap is run. The default is 95 %, 2,000 resamples, seed 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bootstrap {
    /// The probability that the interval is to cover, above 0 and below 1.
    pub confidence: f64,
    /// How many resamples are drawn, 100 to 1,000,000.
    pub resamples: u32,
    /// Seed of the draws.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { confidence: 0.95, resamples: 2000, seed: 1 }
    }
}

impl Bootstrap {
    fn check(&self) -> Result<(), StatsError> {
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            let allowed = "above 0 and below 1";
            return Err(StatsError::Parameter { name: "confidence", value: self.confidence, allowed });
        }
        if !(100..=1_000_000).contains(&self.resamples) {
            let (value, allowed) = (f64::from(self.resamples), "from 100 to 1000000");
            return Err(StatsError::Parameter { name: "resamples", value, allowed });
        }
        Ok(())
    }
}

/// An estimate and the interval around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end; never above `estimate`.
    pub low: f64,
    /// The statistic of the sample itself.
    pub estimate: f64,
    /// Upper end; never below `estimate`.
    pub high: f64,
}

/// The median of `values` and its bootstrap confidence interval.
///
/// With fewer than about six values the interval is little more than the range of the values, and with one
/// value it has no width.
///
/// # Errors
/// No values, a value that is not finite, or a parameter of `how` out of range.
pub fn median_interval(values: &[f64], how: Bootstrap) -> Result<Interval, StatsError> {
    how.check()?;
    let sample = Sample::new(values)?;
    let values = sample.values();
    let n = values.len();
    let mut rng = Seeded::new(how.seed);
    // The sample is sorted, so a resample is known by how often each rank was drawn.
    let mut times = vec![0u32; n];
    let mut medians = Vec::with_capacity(how.resamples as usize);
    for _ in 0..how.resamples {
        times.fill(0);
        for _ in 0..n {
            times[rng.below(n as u64) as usize] += 1;
        }
        medians.push(median_of_counts(values, &times));
    }
    medians.sort_by(f64::total_cmp);
    let estimate = sample.median();
    let (low, high) = central(&medians, how.confidence);
    Ok(Interval { low: low.min(estimate), estimate, high: high.max(estimate) })
}

/// The median of `ours[i] / theirs[i]` over paired runs, and its bootstrap confidence interval.
///
/// Run `i` of both sides is measured under the same circumstances (one after the other); pairs are resampled
/// as a whole, so what disturbs both sides alike cancels.
///
/// # Errors
/// Lists of different length, no pairs, a value that is not finite or not above 0, or a parameter of `how`
/// out of range.
pub fn ratio_interval(ours: &[f64], theirs: &[f64], how: Bootstrap) -> Result<Interval, StatsError> {
    if ours.len() != theirs.len() {
        return Err(StatsError::Unpaired { left: ours.len(), right: theirs.len() });
    }
    for side in [ours, theirs] {
        finite(side)?;
        if let Some(index) = side.iter().position(|&v| v <= 0.0) {
            return Err(StatsError::TooSmall { index, value: side[index], allowed: "above 0" });
        }
    }
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
    median_interval(&ratios, how)
}

/// The median of a sorted sample in which value `i` occurs `times[i]` times.
fn median_of_counts(sorted: &[f64], times: &[u32]) -> f64 {
    let n: u32 = times.iter().sum();
    let (lower_rank, upper_rank) = ((n - 1) / 2, n / 2);
    let mut seen = 0;
    let mut lower = None;
    for (&value, &count) in sorted.iter().zip(times) {
        seen += count;
        if lower.is_none() && seen > lower_rank {
            lower = Some(value);
        }
        if seen > upper_rank {
            return lower.map_or(value, |low| low * 0.5 + value * 0.5);
        }
    }
    sorted[sorted.len() - 1]
}

/// The values that leave equal tails below and above, by nearest rank outwards.
fn central(sorted: &[f64], confidence: f64) -> (f64, f64) {
    let last = sorted.len() - 1;
    let tail = ((1.0 - confidence) / 2.0 * sorted.len() as f64).floor() as usize;
    let tail = tail.min(last / 2);
    (sorted[tail], sorted[last - tail])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn median_of_counts_is_the_median_of_the_resample() {
        let mut rng = Seeded::new(3);
        for n in 1..20usize {
            let sorted: Vec<f64> = (0..n).map(|v| v as f64).collect();
            let mut times = vec![0u32; n];
            let mut drawn = Vec::new();
            for _ in 0..n {
                let at = rng.below(n as u64) as usize;
                times[at] += 1;
                drawn.push(sorted[at]);
            }
            assert_eq!(median_of_counts(&sorted, &times), Sample::new(&drawn).unwrap().median());
        }
    }

    /// The sample median of an odd number of distinct values exceeds the value of rank r when fewer than half
    /// of the draws fall at or below it: a binomial, so the exact interval is known.
    #[test]
    fn interval_agrees_with_the_exact_binomial_one() {
        let n = 21;
        let values: Vec<f64> = (0..n).map(f64::from).collect();
        let at_most = |rank: f64| {
            // P(median <= rank) = P(at least 11 of 21 draws at or below rank).
            let p = (rank + 1.0) / 21.0;
            let mut term: f64 = (1.0 - p).powi(21);
            let mut below = 0.0;
            for k in 0..11 {
                below += term;
                term *= f64::from(21 - k) / f64::from(k + 1) * p / (1.0 - p);
            }
            1.0 - below
        };
        let got = median_interval(&values, Bootstrap { resamples: 20_000, ..Default::default() }).unwrap();
        assert_eq!(got.estimate, 10.0);
        assert!(at_most(got.low) > 0.02 && at_most(got.low - 1.0) < 0.03, "{got:?}");
        assert!(at_most(got.high) > 0.97 && at_most(got.high - 1.0) < 0.98, "{got:?}");
    }

    #[test]
    fn noise_common_to_both_sides_of_a_pair_cancels() {
        let mut rng = Seeded::new(9);
        let theirs: Vec<f64> = (0..15).map(|_| 100.0 + rng.below(900) as f64).collect();
        let ours: Vec<f64> = theirs.iter().map(|v| v * 1.25).collect();
        let ratio = ratio_interval(&ours, &theirs, Bootstrap::default()).unwrap();
        assert!((ratio.low - 1.25).abs() < 1e-12 && (ratio.high - 1.25).abs() < 1e-12, "{ratio:?}");
    }

    #[test]
    fn bad_input_is_named() {
        let how = Bootstrap::default();
        assert_eq!(
            ratio_interval(&[1.0], &[1.0, 2.0], how).unwrap_err().to_string(),
            "1 values cannot be paired with 2: both lists need the same length"
        );
        assert_eq!(
            ratio_interval(&[1.0], &[0.0], how).unwrap_err().to_string(),
            "value 0 is 0: it must be above 0"
        );
        assert_eq!(median_interval(&[], how), Err(StatsError::Empty));
        for confidence in [0.0, 1.0, -1.0, f64::NAN] {
            assert!(median_interval(&[1.0], Bootstrap { confidence, ..how }).is_err());
        }
        for resamples in [0, 99, 1_000_001] {
            assert!(median_interval(&[1.0], Bootstrap { resamples, ..how }).is_err());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn interval_holds_the_estimate_and_widens_with_confidence(
            values in prop::collection::vec(0.1..1e6f64, 1..30), seed: u64,
        ) {
            let how = Bootstrap { confidence: 0.5, resamples: 300, seed };
            let narrow = median_interval(&values, how).unwrap();
            let wide = median_interval(&values, Bootstrap { confidence: 0.99, ..how }).unwrap();
            let sample = Sample::new(&values).unwrap();
            prop_assert!(sample.min() <= wide.low && wide.low <= narrow.low);
            prop_assert!(narrow.low <= narrow.estimate && narrow.estimate <= narrow.high);
            prop_assert!(narrow.high <= wide.high && wide.high <= sample.max());
            prop_assert_eq!(narrow, median_interval(&values, how).unwrap());
        }

        #[test]
        fn swapping_sides_inverts_the_ratio(
            pairs in prop::collection::vec((0.1..1e3f64, 0.1..1e3f64), 1..20)
                .prop_filter("odd, so that the median is one of the pairs", |p| p.len() % 2 == 1),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let there = ratio_interval(&a, &b, Bootstrap::default()).unwrap();
            let back = ratio_interval(&b, &a, Bootstrap::default()).unwrap();
            prop_assert!((there.estimate * back.estimate - 1.0).abs() < 1e-9);
        }
    }
}
