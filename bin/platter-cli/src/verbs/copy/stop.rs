//! Why a run ends early, and how long it then waits for the devices.

use crate::cli::{CliError, Context};
use platter_block::fault::Error;
use std::time::{Duration, Instant};

/// How long a run waits for I/O in flight after a stop request.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// Why a run ended before its end.
#[derive(Debug)]
pub(super) enum Stopped {
    /// The source failed, or something other than the two devices.
    Failed(String),
    /// The destination failed: data written to it since the last flush may be lost.
    Destination(String),
    /// The user requested it, and no I/O is in flight.
    Interrupted,
    /// The user requested it, and I/O is in flight after the grace period: how much.
    Abandoned(String),
}

impl Stopped {
    pub(super) fn source(error: &Error) -> Stopped {
        Stopped::Failed(error.to_string())
    }

    pub(super) fn destination(error: &Error) -> Stopped {
        Stopped::Destination(error.to_string())
    }
}

/// Whether the user requested a stop, and since when the run waits for the devices.
pub(super) struct Stopper<'c> {
    context: &'c Context,
    until: Option<Instant>,
}

impl<'c> Stopper<'c> {
    pub(super) fn new(context: &'c Context) -> Stopper<'c> {
        context.stop_flag();
        Stopper { context, until: None }
    }

    /// Whether the user requested a stop.
    pub(super) fn asked(&self) -> bool {
        self.context.is_interrupted()
    }

    /// Whether the grace period is over; `left` describes what the run waits for. The first call prints it.
    pub(super) fn is_over(&mut self, left: impl FnOnce() -> String) -> bool {
        if let Some(until) = self.until {
            return Instant::now() >= until;
        }
        self.until = Some(Instant::now() + GRACE);
        let (most, left) = (GRACE.as_secs(), left());
        self.context.note(&format!(
            "interrupted: waiting at most {most} s for {left}; a second signal ends the program at once"
        ));
        false
    }

    /// The error of a run that was interrupted.
    pub(super) fn interruption(&self, message: String) -> CliError {
        self.context.interruption(message)
    }
}
