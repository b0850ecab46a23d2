//! Callbacks of a run, and how to stop it.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Progress of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Real time since the start.
    pub elapsed: Duration,
    /// Virtual time since the start, on simulated devices.
    pub simulated: Option<Duration>,
    /// Requests that have completed: reads, writes and fsyncs.
    pub requests: u64,
}

/// Callbacks of a run, and how to stop it.
pub struct Hooks<'a> {
    /// Called now and then on the caller's thread.
    pub progress: Option<&'a mut dyn FnMut(&Progress)>,
    /// When it becomes true the run ends soon.
    pub cancel: &'a AtomicBool,
}

impl<'a> Hooks<'a> {
    /// No progress reports.
    pub fn none(cancel: &'a AtomicBool) -> Hooks<'a> {
        Hooks { progress: None, cancel }
    }
}
