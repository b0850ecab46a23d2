//! Callbacks of a run, and how to stop it.

use core::sync::atomic::AtomicBool;
use core::time::Duration;

/// Callbacks of a run, and how to stop it.
pub struct Hooks<'a> {
    /// Called once a second, on the caller's thread.
    pub progress: Option<&'a mut dyn FnMut(&Progress)>,
    /// When it becomes true the jobs stop, and the report says that it is partial.
    pub cancel: &'a AtomicBool,
}

impl<'a> Hooks<'a> {
    /// No progress reports.
    pub fn none(cancel: &'a AtomicBool) -> Self {
        Self { progress: None, cancel }
    }
}

/// Progress of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Time since the start, in real time.
    pub elapsed: Duration,
    /// Virtual time since the start, on simulated devices. Rates are per second of it then.
    pub simulated: Option<Duration>,
    /// Whether this is still the ramp time.
    pub ramping: bool,
    /// I/Os completed since the start.
    pub ios: u64,
    /// I/Os per second since the last report.
    pub iops: f64,
    /// MiB per second since the last report.
    pub mib_per_s: f64,
}

/// Time between two progress reports.
pub(crate) const TICK: Duration = Duration::from_secs(1);
