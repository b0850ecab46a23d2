//! One measured quantity over several runs: order statistics, spread, fairness.

use super::StatsError;

/// The values of one quantity over several runs, sorted; never empty, all finite.
///
/// ```
/// use platter_bench::stats::Sample;
/// let runs = Sample::new(&[12.0, 10.0, 11.0, 19.0])?;
/// assert_eq!(runs.median(), 11.5);
/// assert_eq!((runs.min(), runs.max()), (10.0, 19.0));
/// # Ok::<(), platter_bench::stats::StatsError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    sorted: Vec<f64>,
}

impl Sample {
    /// Sorts a copy of `values`.
    ///
    /// # Errors
    /// [`StatsError::Empty`] or [`StatsError::NotFinite`].
    pub fn new(values: &[f64]) -> Result<Self, StatsError> {
        finite(values)?;
        // Adding zero turns -0.0 into 0.0, so that equal values sort and print alike.
        let mut sorted: Vec<f64> = values.iter().map(|v| v + 0.0).collect();
        sorted.sort_by(f64::total_cmp);
        Ok(Self { sorted })
    }

    /// The values in ascending order.
    pub fn values(&self) -> &[f64] {
        &self.sorted
    }

    /// How many values there are; at least 1.
    pub fn count(&self) -> usize {
        self.sorted.len()
    }

    /// The smallest value.
    pub fn min(&self) -> f64 {
        self.sorted[0]
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    /// The arithmetic mean.
    pub fn mean(&self) -> f64 {
        let n = self.count() as f64;
        // Dividing first keeps the sum of huge values finite; rounding must not leave the range.
        self.sorted.iter().map(|v| v / n).sum::<f64>().clamp(self.min(), self.max())
    }

    /// The value below which the fraction `q` of the sample lies, for `q` in 0..=1 (clamped).
    ///
    /// Definition 7 of Hyndman and Fan ("Sample Quantiles in Statistical Packages", 1996), the default of R
    /// and NumPy: linear interpolation at position `q * (n - 1)` of the sorted values.
    pub fn quantile(&self, q: f64) -> f64 {
        let position = q.clamp(0.0, 1.0) * (self.count() - 1) as f64;
        let below = position.floor() as usize;
        let above = (below + 1).min(self.count() - 1);
        let (low, high) = (self.sorted[below], self.sorted[above]);
        let part = position - below as f64;
        // This form cannot overflow and never leaves low..=high by rounding.
        (low * (1.0 - part) + high * part).clamp(low, high)
    }

    /// The `p`-th percentile, `p` in 0..=100; see [`Sample::quantile`].
    pub fn percentile(&self, p: f64) -> f64 {
        self.quantile(p / 100.0)
    }

    /// The middle value, or the mean of the two middle ones.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Lower quartile, median, upper quartile.
    pub fn quartiles(&self) -> [f64; 3] {
        [self.quantile(0.25), self.quantile(0.5), self.quantile(0.75)]
    }

    /// The distance from the smallest to the largest value as a fraction of the median: 0.03 means that the
    /// runs lie within 3 %. `None` when the median is 0.
    pub fn relative_spread(&self) -> Option<f64> {
        let median = self.median();
        // Each side is divided on its own: max - min may overflow.
        (median != 0.0).then(|| (self.max() / median - self.min() / median).abs())
    }
}

pub(super) fn finite(values: &[f64]) -> Result<(), StatsError> {
    if values.is_empty() {
        return Err(StatsError::Empty);
    }
    match values.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(StatsError::NotFinite { index, value: values[index] }),
        None => Ok(()),
    }
}

/// Jain's fairness index of the shares that `shares.len()` parties got: `(Σx)² / (n Σx²)`.
///
/// 1 when all got the same (also when all got nothing), `1/n` when one got everything. Source: Jain, Chiu and
/// Hawe, "A Quantitative Measure of Fairness and Discrimination", 1984.
///
/// # Errors
/// An empty list, a share that is not finite, or a negative one.
pub fn jain_index(shares: &[f64]) -> Result<f64, StatsError> {
    finite(shares)?;
    if let Some(index) = shares.iter().position(|&x| x < 0.0) {
        return Err(StatsError::TooSmall { index, value: shares[index], allowed: "at least 0" });
    }
    let largest = shares.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return Ok(1.0);
    }
    // Scaled by the largest share, so that no square overflows or vanishes.
    let (sum, squares) = shares.iter().map(|x| x / largest).fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    let n = shares.len() as f64;
    Ok((sum * sum / (n * squares)).clamp(1.0 / n, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_match_r_type_7() {
        // R: quantile(c(1, 2, 4, 8, 16), c(.1, .25, .5, .75, .9))
        let s = Sample::new(&[16.0, 1.0, 8.0, 2.0, 4.0]).unwrap();
        for (q, expected) in [(0.1, 1.4), (0.25, 2.0), (0.5, 4.0), (0.75, 8.0), (0.9, 12.8)] {
            assert!((s.quantile(q) - expected).abs() < 1e-12, "{q}");
            assert_eq!(s.percentile(q * 100.0), s.quantile(q));
        }
        assert_eq!(s.quartiles(), [2.0, 4.0, 8.0]);
        assert_eq!(s.mean(), 6.2);
        assert_eq!(s.relative_spread(), Some(3.75));
    }

    #[test]
    fn bad_input_is_named() {
        assert_eq!(Sample::new(&[]), Err(StatsError::Empty));
        let error = Sample::new(&[1.0, f64::INFINITY]).unwrap_err();
        assert_eq!(error.to_string(), "value 1 is inf: only finite numbers can be summarised");
        assert!(jain_index(&[1.0, -2.0]).unwrap_err().to_string().contains("value 1 is -2"));
        assert_eq!(Sample::new(&[-1.0, 0.0, 1.0]).unwrap().relative_spread(), None);
    }

    #[test]
    fn jain_at_its_corners() {
        assert_eq!(jain_index(&[5.0, 5.0, 5.0]), Ok(1.0));
        assert_eq!(jain_index(&[0.0, 0.0]), Ok(1.0));
        assert_eq!(jain_index(&[7.0, 0.0, 0.0, 0.0]), Ok(0.25));
        // The shares of the eight best-effort priority levels of CFQ, 180 ms down to 40 ms: (Σ)² / (8 Σ²).
        let slices = [180.0, 160.0, 140.0, 120.0, 100.0, 80.0, 60.0, 40.0];
        assert!((jain_index(&slices).unwrap() - 774_400.0 / 908_800.0).abs() < 1e-12);
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-1e300..1e300f64, 1..50)
    }

    proptest! {
        #[test]
        fn quantiles_rise_and_stay_inside(values in values(), a in 0.0..1.0f64, b in 0.0..1.0f64) {
            let s = Sample::new(&values).unwrap();
            let (a, b) = (a.min(b), a.max(b));
            prop_assert!(s.min() <= s.quantile(a));
            prop_assert!(s.quantile(a) <= s.quantile(b));
            prop_assert!(s.quantile(b) <= s.max());
            prop_assert!(s.mean() >= s.min() && s.mean() <= s.max());
            prop_assert_eq!(s.quantile(0.0), s.min());
            prop_assert_eq!(s.quantile(1.0), s.max());
        }

        #[test]
        fn median_splits_the_sample(values in values()) {
            let s = Sample::new(&values).unwrap();
            let m = s.median();
            let half = values.len().div_ceil(2);
            prop_assert!(values.iter().filter(|&&v| v <= m).count() >= half);
            prop_assert!(values.iter().filter(|&&v| v >= m).count() >= half);
        }

        #[test]
        fn order_of_the_runs_does_not_matter(mut values in values()) {
            let s = Sample::new(&values).unwrap();
            values.reverse();
            prop_assert_eq!(s, Sample::new(&values).unwrap());
        }

        #[test]
        fn jain_is_in_range_and_ignores_scale(shares in prop::collection::vec(0.0..1e6f64, 1..30)) {
            let j = jain_index(&shares).unwrap();
            prop_assert!(j >= 1.0 / shares.len() as f64 && j <= 1.0);
            let scaled: Vec<f64> = shares.iter().map(|x| x * 1e200).collect();
            prop_assert!((jain_index(&scaled).unwrap() - j).abs() < 1e-9);
        }
    }
}
