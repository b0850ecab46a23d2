//! The soak: runs of random devices, random loads and random faults, until a check fails.
//!
//! A run depends only on its seed: run number `n` of a soak from seed `s` has seed `s + n`, so any run can be
//! repeated alone. The seed determines a plan: simulated disks, layers over them, and a list of steps. A step submits
//! I/O through channels, as futures or by synchronous calls, lets time pass, drops or cancels I/O, switches
//! elevators, injects a fault or cuts the power. All that the program sees is compared with an
//! [oracle](platter_sim::oracle) and with the promises:
//!
//! - nothing that was acknowledged as durable is lost, and barriers keep their order, also across power cuts;
//! - each read returns a version that is allowed;
//! - each I/O completes exactly once, by its deadline if it has one, and everything ends in bounded virtual
//!   time;
//! - only I/Os with an injected fault fail;
//! - no I/O succeeds whose result a write that is late can still change;
//! - elevators keep their contract;
//! - after the faults end, everything works again, and all memory is released.
//!
//! A plan that leads to a finding is shrunk before it is shown, unless [`Options::shrink`] is off: steps, faults and layers
//! that are not needed are removed.

use plan::Plan;
use platter_block::fault::Fault;
use platter_sim::oracle::{Rule, Violation};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use watch::Watched;

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
mod watch;

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
    /// The kind of the finding, in one word.
    pub kind: &'static str,
    /// Number of runs with a finding of this kind.
    pub times: u64,
    /// The failed check.
    pub what: String,
    /// The smallest plan that was found to lead to such a finding, or that of the run: its disks, layers and steps.
    pub plan: String,
}

/// The failed check and its kind. When a plan is shrunk, findings of one kind count as the same finding.
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
            Rule::Late => "late",
            Rule::Torn => "torn",
            Rule::Stale => "stale",
            Rule::Lost => "lost",
            Rule::Order => "order",
        };
        Finding { class, what }
    }
}

/// The outcome of one run.
#[derive(Default)]
pub(crate) struct Outcome {
    found: Option<Finding>,
    cover: Cover,
    cells: Cells,
}

/// Runs a plan on a separate thread. A thread that blocks forever inside a call is abandoned.
fn carry_out(plan: &Arc<Plan>, bug: Option<&'static Bug>, story: bool) -> Outcome {
    let (send, receive) = mpsc::channel();
    let (plan, seed) = (Arc::clone(plan), plan.seed);
    let watched = Arc::new(Watched::default());
    let this = Arc::clone(&watched);
    let body = move || {
        this.is_this_thread();
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
    watched.outcome(&receive, WATCH).unwrap_or_else(|| {
        let what = format!("the run did not end within {} s of real time", WATCH.as_secs());
        Outcome { found: Some(Finding::new(HANG, what)), ..Outcome::default() }
    })
}

/// Longest time in which a run may sleep or use a processor; milliseconds are usual. A hang in virtual time is detected much earlier; this limit
/// detects a thread that deadlocks with itself.
const WATCH: Duration = Duration::from_secs(10);

/// The kind of finding of a run that did not end. Its plan is not shrunk, because that would take hours.
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
