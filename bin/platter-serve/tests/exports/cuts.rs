//! Lives with power cuts, through every export.

use crate::power::{STACKS, live};
use crate::ways::all;

/// How many seeds for each stack: `PLATTER_CUTS`, for long runs.
fn seeds() -> u64 {
    std::env::var("PLATTER_CUTS").ok().and_then(|number| number.parse().ok()).unwrap_or(6)
}

#[test]
fn what_a_client_was_told_to_be_durable_survives_power_cuts() {
    for kind in all() {
        for stack in STACKS {
            for seed in 0..seeds() {
                assert_eq!(live(kind, stack, seed), None, "{}, {stack}, seed {seed}", kind.0);
            }
        }
    }
}
