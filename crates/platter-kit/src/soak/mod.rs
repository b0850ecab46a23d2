//! The soak: random devices, random work and random misfortune, run after run, until something is not as it
//! must be.
//!
//! A run is decided by its seed alone: run number `n` of a soak from seed `s` has seed `s + n`, so any run can be
//! repeated by itself. From the seed comes a plan: simulated disks, layers over them, and a list of steps. A
//! step submits I/O through channels, as futures or by synchronous calls, lets time pass, drops, cancels, switches, fails,
//! cuts the power. All that the program sees is compared with an [oracle](platter_sim::oracle) and with the promises:
//!
//! - nothing that was acknowledged as durable is lost, and barriers keep their order, across power cuts, too;
//! - each read gives a version that it may give;
//! - each I/O completes exactly once, by its deadline if it has one, and everything comes to an end in bounded
//!   virtual time;
//! - I/Os fail only where a fault was injected, and not more of them;
//! - nothing succeeds that a write in doubt can still undo;
//! - elevators keep their contract;
//! - when misfortune ends, everything works again, and all memory comes back.
//!
//! A plan that leads to a finding is made smaller, by leaving out steps, faults and layers, before it is shown.

use plan::Plan;
use platter_block::fault::Fault;
use platter_sim::oracle::{Rule, Violation};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

pub mod bugs;
mod cells;
mod cover;
mod feature;
mod memory;
mod parallel;
mod plan;
pub mod real;
mod report;
mod run;
mod shrink;
mod stamp;

pub use bugs::Bug;
pub use cells::Cells;
pub use cover::Cover;
pub use feature::{Feature, FeatureError, Features};
pub use parallel::{Options, run};
pub use report::{Report, json, text};

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The seed of the first run that found it.
    pub seed: u64,
    /// Of which kind it is, in a word.
    pub kind: &'static str,
    /// How many runs found something of its kind.
    pub times: u64,
    /// What was not as it must be.
    pub what: String,
    /// The smallest plan that was found to lead to such a finding: its disks, layers and steps.
    pub plan: String,
}

/// What was not as it must be, and of which kind that is: findings of one kind are taken to be the same when a plan is
/// made smaller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    class: &'static str,
    what: String,
}

impl Finding {
    fn new(class: &'static str, what: String) -> Finding {
        Finding { class, what }
    }

    fn setup(what: impl Into<String>) -> Finding {
        Finding { class: "setup", what: what.into() }
    }

    fn unmakeable(fault: Fault) -> Finding {
        Finding::setup(format!("a bio cannot be made: {fault}"))
    }

    fn violation(violation: &Violation, what: String) -> Finding {
        let class = match violation.rule {
            Rule::NeverWritten => "never-written",
            Rule::Untouched => "untouched",
            Rule::Doubt => "doubt",
            Rule::Torn => "torn",
            Rule::Stale => "stale",
            Rule::Lost => "lost",
            Rule::Order => "order",
        };
        Finding { class, what }
    }
}

/// What one run came to.
#[derive(Default)]
pub(crate) struct Outcome {
    found: Option<Finding>,
    cover: Cover,
    cells: Cells,
}

/// Carries a plan out, on a thread of its own: one that waits for ever inside a call is left there.
fn carry_out(plan: &Arc<Plan>, bug: Option<&'static Bug>, story: bool) -> Outcome {
    let (send, receive) = mpsc::channel();
    let (plan, seed) = (Arc::clone(plan), plan.seed);
    let body = move || {
        let stalled = send.clone();
        let on_stall = move |finding| {
            let _ = stalled.send(Outcome { found: Some(finding), ..Outcome::default() });
            loop {
                std::thread::park();
            }
        };
        let outcome = live(&plan, bug, Arc::new(on_stall), story);
        let _ = send.send(outcome);
    };
    // The name is what a panic's message begins with.
    let thread = std::thread::Builder::new().name(format!("soak of seed {seed}"));
    let _ = thread.spawn(body).expect("a thread for a run can be started");
    receive.recv_timeout(WATCH).unwrap_or_else(|_| {
        let what = format!("the run did not end within {} s of real time", WATCH.as_secs());
        Outcome { found: Some(Finding::new(HANG, what)), ..Outcome::default() }
    })
}

/// Longest real time that a run may take: milliseconds are usual. What waits for ever in virtual time is found out long
/// before; this is for a thread that waits for itself.
const WATCH: Duration = Duration::from_secs(30);

/// The kind of finding of a run that did not end. To make its plan smaller would take hours.
const HANG: &str = "hang";

/// One run.
fn live(plan: &Plan, bug: Option<&'static Bug>, on_stall: run::OnStall, story: bool) -> Outcome {
    let (mut cover, mut cells) = (Cover::default(), Cells::default());
    let lived = catch_unwind(AssertUnwindSafe(|| {
        let mut run = run::Run::new(plan, bug, on_stall, story)?;
        let result = run.run();
        (cover, cells) = (std::mem::take(&mut run.cover), std::mem::take(&mut run.cells));
        result
    }));
    let found = match lived {
        Ok(result) => result.err(),
        Err(panic) => Some(Finding::new("panic", format!("a panic: {}", said(panic.as_ref())))),
    };
    Outcome { found, cover, cells }
}

/// The message of a panic.
fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

#[cfg(test)]
mod tests;
