//! Random lives, through every export.

use crate::lives::live;
use crate::stacks::{SPECS, failing};
use crate::ways::all;

/// How many seeds for each stack: `PLATTER_LIVES`, for long runs.
fn seeds() -> u64 {
    std::env::var("PLATTER_LIVES").ok().and_then(|number| number.parse().ok()).unwrap_or(1)
}

fn live_all(specs: &[String]) {
    for kind in all() {
        for spec in specs {
            for seed in 0..seeds() {
                assert_eq!(live(kind, spec, seed), None, "{}, {spec}, seed {seed}", kind.0);
            }
        }
    }
}

#[test]
fn clients_agree_with_the_oracle() {
    live_all(&SPECS.map(str::to_owned));
}

#[test]
fn clients_agree_with_the_oracle_where_io_fails() {
    live_all(&failing());
}
