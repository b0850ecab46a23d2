//! Means of blocks of a series, as values that depend on each other less than its parts do; and whether a series is steady.
//!
//! Neighbouring parts of a run are alike: what disturbs one lasts into the next. Means of long blocks are nearly independent
//! (Schmeiser, "Batch Size Effects in the Analysis of Simulation Output", 1982), so they can stand for runs of their own, as far as
//! only the noise within the run matters.

use super::Sample;

/// Blocks of a series.
pub const BLOCKS: usize = 10;

/// Fewest parts of a series with blocks.
pub const FEWEST: usize = 2 * BLOCKS;

/// Pairs of blocks in the order of the trend, less those against it, at which a trend is told: Kendall's statistic of 10 values with
/// a probability below 1 % without one (two-sided 0.9 %; Kendall, "Rank Correlation Methods", 1948).
const TREND: i32 = 29;

/// The change from the first to the last block, over the median, from which a trend matters.
const DRIFT: f64 = 0.05;

/// The means of [`BLOCKS`] blocks of equal length; what does not fill a block at the end is left out. `None`: the series is
/// shorter than [`FEWEST`].
pub fn block_means(series: &[f64]) -> Option<[f64; BLOCKS]> {
    if series.len() < FEWEST {
        return None;
    }
    let length = series.len() / BLOCKS;
    let mean = |block: usize| series[block * length..][..length].iter().sum::<f64>() / length as f64;
    Some(core::array::from_fn(mean))
}

/// By how much a series changes from its beginning to its end, as a share of its median, if it is not steady: if its blocks have a
/// trend that is not chance, and that makes 5 % or more. `None`: it is steady, or too short to tell.
pub fn drift(series: &[f64]) -> Option<f64> {
    let means = block_means(series)?;
    let pairs = || (0..BLOCKS).flat_map(|at| (at + 1..BLOCKS).map(move |later| (at, later)));
    let order: i32 = pairs()
        .map(|(at, later)| match means[later].total_cmp(&means[at]) {
            core::cmp::Ordering::Greater => 1,
            core::cmp::Ordering::Less => -1,
            core::cmp::Ordering::Equal => 0,
        })
        .sum();
    let slopes: Vec<f64> =
        pairs().map(|(at, later)| (means[later] - means[at]) / (later - at) as f64).collect();
    let (slope, median) = (Sample::new(&slopes).ok()?.median(), Sample::new(&means).ok()?.median());
    let change = slope * (BLOCKS - 1) as f64 / median;
    (order.abs() >= TREND && change.abs() >= DRIFT).then_some(change)
}

#[cfg(test)]
mod tests {
    use super::super::{Permutation, Seeded};
    use super::*;

    /// A series around 1 whose parts are correlated by `rho` (first-order autoregression) with a spread of 5 %.
    fn series(rng: &mut Seeded, rho: f64, trend: f64) -> Vec<f64> {
        let mut state = 0.0;
        let noise = |rng: &mut Seeded| {
            let sum: f64 = (0..12).map(|_| (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64).sum();
            sum - 6.0
        };
        let count = 120;
        (0..count)
            .map(|at| {
                state = rho * state + (1.0f64 - rho * rho).sqrt() * noise(rng);
                1.0 + 0.05 * state + trend * f64::from(at) / f64::from(count)
            })
            .collect()
    }

    #[test]
    fn blocks_are_means_of_equal_parts_from_the_start() {
        let rising: Vec<f64> = (0..25).map(f64::from).collect();
        let means = block_means(&rising).expect("long enough");
        assert_eq!((means[0], means[9]), (0.5, 18.5));
        assert_eq!(block_means(&rising[..19]), None);
    }

    /// With 100 trials and 5 % of alarms, 3 standard deviations are 6.6 %. With a correlation of 0.9 blocks of 12 parts are not
    /// independent, and alarms are too many: that is said in the documentation.
    #[test]
    fn blocks_of_equal_series_differ_by_chance_only() {
        let mut rng = Seeded::new(3);
        let mut share = |rho: f64| {
            let told = (0..100).filter(|_| {
                let [new, base] = [(); 2].map(|()| block_means(&series(&mut rng, rho, 0.0)).expect("long"));
                let found = Permutation::default().ratio(&new, &base).unwrap().expect("10 blocks each");
                found.low > 1.0 || found.high < 1.0
            });
            told.count() as f64 / 100.0
        };
        let alarms = [0.0, 0.5, 0.7, 0.9].map(&mut share);
        assert!(alarms[0] <= 0.116 && alarms[1] <= 0.116 && alarms[2] <= 0.16, "{alarms:?}");
        assert!(alarms[3] < 0.45, "{alarms:?}");
    }

    #[test]
    fn a_trend_is_told_and_steady_series_are_steady() {
        let mut rng = Seeded::new(5);
        let drifts = |trend: f64, rng: &mut Seeded| {
            (0..200).filter(|_| drift(&series(rng, 0.3, trend)).is_some()).count()
        };
        assert!(drifts(0.0, &mut rng) <= 6, "of 200");
        assert!(drifts(0.3, &mut rng) >= 195, "of 200");
        let falling: Vec<f64> = (0..40).map(|at| 2.0 - f64::from(at) / 40.0).collect();
        let change = drift(&falling).expect("it falls");
        assert!((change + 0.6).abs() < 0.01, "{change}");
    }
}
