//! The soak: random devices, random work and random misfortune, run after run, until something is not as it
//! must be.
//!
//! A run is decided by its seed alone: run number `n` of a soak from seed `s` has seed `s + n`, so any run can be
//! repeated by itself. It drives a simulated disk behind the real queues through several channels at once, with
//! barriers, flushes and FUA, switches elevators, lets the disk fail and cuts its power, and compares all that the
//! program sees with an [oracle](platter_sim::oracle):
//!
//! - nothing that was acknowledged as durable is lost, and barriers keep their order, across power cuts, too;
//! - each read gives a version that it may give;
//! - each bio comes back exactly once, and everything comes to an end in bounded virtual time;
//! - I/Os fail only where a fault was injected, and not more of them;
//! - elevators keep their contract.

use std::panic::{AssertUnwindSafe, catch_unwind};

pub mod bugs;
mod cover;
mod life;
mod parallel;
mod report;
mod setup;
mod stamp;
mod workload;

pub use bugs::Bug;
pub use cover::Cover;
pub use parallel::{Options, run};
pub use report::{Report, json, text};

/// A run that found something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The run's seed.
    pub seed: u64,
    /// What was not as it must be.
    pub what: String,
}

/// What one run came to.
pub(crate) struct Outcome {
    found: Option<Found>,
    cover: Cover,
}

/// One run.
fn live(seed: u64, bug: Option<&'static Bug>) -> Outcome {
    let mut cover = Cover::default();
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut life = life::Life::new(seed, bug)?;
        let result = life.run();
        cover = std::mem::take(&mut life.cover);
        result
    }));
    let what = match lived {
        Ok(result) => result.err(),
        Err(panic) => Some(format!("a panic: {}", said(panic.as_ref()))),
    };
    Outcome { found: what.map(|what| Found { seed, what }), cover }
}

/// The message of a panic.
fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

#[cfg(test)]
mod tests;
