//! What a simulated I/O of a flash disk costs, in nanoseconds of this machine, beside what it gives in virtual time:
//! `cargo run --release -p platter-sim --example flash_cost`. 4 KiB at random, depth 32; the best of five runs each.
//! `flash_cost once DISK` runs the steady writes of one disk once, to be counted from outside.

mod closed;

use closed::{Bed, command, params};
use platter_block::bio::Op;
use platter_sim::flash::{SsdParams, Start};
use platter_sim::rng::Rng;
use std::time::Instant;

const WARM: u64 = 100_000;
const COUNT: u64 = 400_000;

/// Nanoseconds of an I/O, and what the disk did.
fn measure(params: SsdParams, op: Op) -> (f64, String) {
    let units = params.size / 4096;
    let mut bed = Bed::new(params);
    let mut rng = Rng::new(7);
    let mut next = |_: usize| command(op, rng.below(units) * 4096, 4096);
    bed.run(32, WARM, &mut next);
    let clock = Instant::now();
    let seen = bed.run(32, COUNT, &mut next);
    let cost = clock.elapsed().as_nanos() as f64 / COUNT as f64;
    let amplification = bed.ssd.meter().write_amplification().map_or(0.0, |a| a as f64 / 1000.0);
    let (rate, gap) = (seen.rate(), seen.gap.0 as f64 / 1e6);
    (cost, format!("{rate} /s, longest gap {gap:.3} ms, amplification {amplification}"))
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [once, name] = &args[..] {
        assert_eq!(once, "once");
        measure(params(name), Op::Write);
        return;
    }
    for name in ["sata_ssd", "nvme_ssd"] {
        for (op, start) in [(Op::Write, Start::Steady), (Op::Write, Start::Erased), (Op::Read, Start::Steady)]
        {
            let runs = (0..5).map(|_| measure(SsdParams { start, ..params(name) }, op));
            let best = runs.min_by(|a, b| a.0.total_cmp(&b.0)).expect("five runs");
            println!("{name} {op:?} {start:?}: {:.0} ns; {}", best.0, best.1);
        }
    }
}
