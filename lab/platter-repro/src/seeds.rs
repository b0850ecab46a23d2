//! Figures over several seeds, for verdicts near a bound.

/// Simulations behind an interval: the first, whose figure is ours, and as many with other seeds.
const SEEDS: u64 = 5;

/// The seeds after the first.
pub(super) fn other_seeds(first: u64) -> impl Iterator<Item = u64> {
    (1..SEEDS).map(move |next| first.wrapping_add(next))
}

/// The smallest and the largest of our figure and those of other seeds; `None` if one of these is missing.
pub(super) fn interval(ours: f64, others: impl IntoIterator<Item = Option<f64>>) -> Option<[f64; 2]> {
    let mut ends = [ours; 2];
    let mut seeds = 1;
    for other in others {
        let other = other?;
        ends = [ends[0].min(other), ends[1].max(other)];
        seeds += 1;
    }
    (seeds > 1).then_some(ends)
}
