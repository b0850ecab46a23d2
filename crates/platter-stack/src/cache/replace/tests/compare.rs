//! Hit ratios beside those of other policies. `cargo test -p platter-stack hit_ratios -- --nocapture` prints them.

use super::rivals::{Cache, Clock, Lru, Ours, Sieve, TwoQ, best};
use super::traces::TRACES;

const SIZE: usize = 1000;

/// Hits in a thousand.
fn ratio(cache: &mut dyn Cache, trace: &[u64]) -> usize {
    trace.iter().filter(|&&page| cache.access(page)).count() * 1000 / trace.len()
}

#[test]
fn hit_ratios() {
    println!("| workload | LRU | CLOCK | 2Q | SIEVE | S3-FIFO | best |\n|---|---|---|---|---|---|---|");
    for (name, make) in TRACES {
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
        if name.starts_with("Zipf 1.0") {
            assert!(ours >= lru + 40 && ours >= two_q, "{name}");
        }
    }
}
