//! The soak from its first seed, with the readahead policies of past kernels: nothing is found. `scripts/check-defects` has it
//! look for defects, in as many runs as a patch says.

use platter_kit::soak::{Options, run};
use std::sync::atomic::AtomicBool;

/// How many runs: a few, or as many as `PLATTER_SOAK_RUNS` says.
fn runs() -> u64 {
    std::env::var("PLATTER_SOAK_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

#[test]
fn runs_from_the_first_seed_find_nothing() {
    platter_repro::policies::register_readahead();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { runs: runs(), threads, shrink: false, ..Options::default() };
    let report = run(&options, &AtomicBool::new(false), &mut |_| {});
    if let Some(found) = report.found.first() {
        panic!("{} after {} runs: {}", found.kind, report.runs, found.what);
    }
    assert_eq!(report.runs, options.runs);
}
