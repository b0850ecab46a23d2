//! The cache against a model of possible device contents: random lives from seeds.
//!
//! `PLATTER_CACHE_CASES=n` runs n lives of each kind; `scripts/nightly` runs many. The defects in `defects/` that these lives must
//! find are found within the first few. `PLATTER_CACHE_SEED=s` runs only the life of one seed
//! and prints everything that happens in it.

use crate::life::{Life, Trouble};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}: a number")))
}

/// Runs `default` lives, or as many as requested.
fn live(default: u64, stream: u64, trouble: Trouble) {
    let seeds = match number("PLATTER_CACHE_SEED") {
        Some(seed) => seed..seed + 1,
        None => stream << 32..(stream << 32) + number("PLATTER_CACHE_CASES").unwrap_or(default),
    };
    for seed in seeds {
        let mut life = Life::new(seed, trouble);
        let found = catch_unwind(AssertUnwindSafe(|| life.run()));
        let wrong = match found {
            Ok(Ok(())) => continue,
            Ok(Err(wrong)) => wrong,
            Err(_) => "it panicked".to_string(),
        };
        panic!(
            "{}\n{wrong}\nagain: PLATTER_CACHE_STORY=1 PLATTER_CACHE_SEED={seed} ({trouble:?})",
            life.story()
        );
    }
}

#[test]
fn it_is_the_device_that_it_covers() {
    live(1000, 1, Trouble::default());
}

#[test]
fn what_was_flushed_survives_power_cuts() {
    live(1000, 2, Trouble { cuts: true, ..Trouble::default() });
}

#[test]
fn errors_below_lose_nothing_that_was_not_told() {
    live(1000, 3, Trouble { errors: true, ..Trouble::default() });
}

#[test]
fn nor_do_errors_and_power_cuts_together() {
    live(1000, 4, Trouble { errors: true, cuts: true, ..Trouble::default() });
}

/// Commands that get stuck and complete late, deadlines, and cancelled I/O.
#[test]
fn what_comes_late_covers_nothing_that_is_newer() {
    live(400, 5, Trouble { timeouts: true, ..Trouble::default() });
}

/// Lives in which a read that was in flight when a write through the cache failed returns the data that was dropped, after
/// another read has returned what is on the disk.
#[test]
fn a_read_in_flight_may_return_what_a_failed_write_drops() {
    let errors = Trouble { errors: true, ..Trouble::default() };
    for (seed, cuts) in [((3 << 32) + 9_311, false), ((4 << 32) + 44_318, true)] {
        assert_eq!(Life::new(seed, Trouble { cuts, ..errors }).run(), Ok(()));
    }
}

/// A life in which a page fails while a preflush waits for it, and is written again while the device is
/// flushed: that flush does not cover it.
#[test]
fn what_failed_before_the_device_was_flushed_is_not_durable() {
    let trouble = Trouble { timeouts: true, errors: true, cuts: true, ..Trouble::default() };
    assert_eq!(Life::new((6 << 32) + 1137, trouble).run(), Ok(()));
}

/// A life in which a write through the cache succeeded without having reached the disk: its page was of a later epoch, and the
/// disk returned a write of a page of an earlier one meanwhile.
#[test]
fn a_write_that_comes_back_late_is_made_again_before_those_behind_a_barrier() {
    let trouble = Trouble { timeouts: true, ..Trouble::default() };
    assert_eq!(Life::new((5 << 32) + 110_715, trouble).run(), Ok(()));
}

/// A life in which a discard looks for dirty pages while data is being copied into one of them, and writes back another
/// one before it goes to the device.
#[test]
fn what_is_being_copied_when_a_discard_begins_is_not_dropped() {
    assert_eq!(Life::new((1 << 32) + 28_441, Trouble::default()).run(), Ok(()));
}

/// Reads and writes that are commands, some of which may do anything as far as the cache knows.
#[test]
fn commands_are_coherent_with_what_is_cached() {
    live(400, 7, Trouble { commands: true, ..Trouble::default() });
}

#[test]
fn shards_are_one_device() {
    live(500, 10, Trouble { shards: true, ..Trouble::default() });
}

#[test]
fn what_was_flushed_survives_in_all_shards() {
    live(500, 11, Trouble { shards: true, cuts: true, ..Trouble::default() });
}

#[test]
fn errors_in_any_shard_are_told() {
    live(500, 12, Trouble { shards: true, errors: true, cuts: true, ..Trouble::default() });
}

#[test]
fn what_comes_late_to_a_shard_covers_nothing_that_is_newer() {
    live(400, 13, Trouble { shards: true, timeouts: true, ..Trouble::default() });
}

#[test]
fn commands_are_coherent_with_shards() {
    live(400, 14, Trouble { shards: true, commands: true, errors: true, ..Trouble::default() });
}

#[test]
fn commands_are_coherent_beside_errors_and_power_cuts() {
    live(400, 8, Trouble { commands: true, errors: true, cuts: true, ..Trouble::default() });
}
