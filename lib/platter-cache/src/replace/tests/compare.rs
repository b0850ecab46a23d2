//! Hit ratios beside those of other policies. `cargo test -p platter-cache hit_ratios -- --nocapture` prints them.

use super::rivals::{Cache, Clock, Lru, Ours, Sieve, TwoQ, best};
use super::traces::TRACES;

const SIZE: usize = 1000;

/// Hits in a thousand.
fn ratio(cache: &mut dyn Cache, trace: &[u64]) -> usize {
    trace.iter().filter(|&&page| cache.access(page)).count() * 1000 / trace.len()
}

/// Minimum advantage over LRU's hit ratio, in thousandths, for each of [`TRACES`]: somewhat less than was
/// measured. LRU is optimal for a set that fits in the cache and is replaced as a whole.
const MORE_THAN_LRU: [i64; 9] = [50, 80, 60, 600, 0, -120, 65, 20, 14];

#[test]
fn hit_ratios() {
    println!("| workload | LRU | CLOCK | 2Q | SIEVE | here | best |\n|---|---|---|---|---|---|---|");
    assert_eq!(TRACES.len(), MORE_THAN_LRU.len());
    for ((name, make), more) in TRACES.iter().zip(MORE_THAN_LRU) {
        let trace = make(SIZE as u64);
        let lru = ratio(&mut Lru::new(SIZE), &trace);
        let clock = ratio(&mut Clock::new(SIZE), &trace);
        let two_q = ratio(&mut TwoQ::new(SIZE), &trace);
        let sieve = ratio(&mut Sieve::new(SIZE), &trace);
        let ours = ratio(&mut Ours::new(SIZE), &trace);
        let best = best(&trace, SIZE) * 1000 / trace.len();
        let percent =
            [lru, clock, two_q, sieve, ours, best].map(|ratio| format!("{:.1}", ratio as f64 / 10.0));
        println!("| {name} | {} |", percent.join(" | "));
        assert!(ours as i64 >= lru as i64 + more, "{name}: {ours} and LRU {lru}");
        assert!(
            [lru, clock, two_q, sieve, ours].iter().all(|&ratio| ratio <= best),
            "{name}: {best} is best"
        );
    }
}
