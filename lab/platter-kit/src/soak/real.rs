//! The soak on real drivers: threads, a file or a block device, and a script that makes the driver fail.
//!
//! A round makes a stack of layers over one or two files (or a block device), and threads that use it at once in all three
//! ways of calling. A `script` between queue and driver delays completions, keeps requests until they are
//! released or past their timeout, lets writes land late, cuts transfers short and fails some, transiently or not. Some
//! futures are begun by threads that exit, or that block, before they complete. Flushes on the threads of their callers
//! go through the script, too.
//!
//! What is checked: each I/O completes exactly once, each read gives a version that it may give, only I/O that the
//! script affects fails, everything ends, and after the script ends everything works. Power is not cut. The system
//! schedules the threads, so the seed alone does not repeat a round.

use super::feature::Features;
use platter_disk::drivers::FileDriver;
use platter_sim::rng::Rng;
use script::Done;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

mod judge;
mod late;
mod round;
mod script;
mod shared;
mod wake_timer;
mod worker;

pub use script::Done as Scripted;

/// What to soak, and how long.
#[derive(Clone, Debug)]
pub struct RealOptions {
    /// A directory for temporary files, or a block device, which is overwritten.
    pub place: PathBuf,
    /// The drivers, in turn.
    pub drivers: Vec<FileDriver>,
    /// Seed of the first round.
    pub seed: u64,
    /// Rounds of each driver.
    pub rounds: u64,
    /// Begin no round after this time.
    pub time: Option<Duration>,
    /// Threads.
    pub threads: usize,
    /// I/Os of each thread and round.
    pub ios: u64,
    /// Features that no round has.
    pub without: Features,
}

/// The outcome of the rounds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealReport {
    /// Rounds that were done.
    pub rounds: u64,
    /// I/Os that completed.
    pub ios: u64,
    /// I/Os that failed.
    pub failed: u64,
    /// Sectors read and compared.
    pub sectors_checked: u64,
    /// Futures whose thread exited or blocked before they completed.
    pub left: u64,
    /// What the script did.
    pub script: Done,
    /// Drivers that are not available here, with the reason.
    pub skipped: Vec<String>,
    /// The finding, with the seed and driver of its round.
    pub found: Option<String>,
    /// The soak was stopped before its end.
    pub interrupted: bool,
}

/// Soaks until something is found, all rounds are done, time is up, or `stop` is set. `progress` is told the rounds done.
///
/// # Errors
/// A place where nothing can be made or opened.
pub fn run(
    options: &RealOptions,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<RealReport, String> {
    let began = Instant::now();
    let mut report = RealReport::default();
    let mut drivers = options.drivers.clone();
    for number in 0..options.rounds {
        let mut at = 0;
        while let Some(&driver) = drivers.get(at) {
            report.interrupted = stop.load(Ordering::Relaxed);
            if report.interrupted || options.time.is_some_and(|most| began.elapsed() >= most) {
                return Ok(report);
            }
            let seed = options.seed.wrapping_add(number);
            let mut rng = Rng::stream(seed, driver as u64);
            match round::round(options, driver, &mut rng) {
                Ok(counts) => {
                    report.add(&counts);
                    at += 1;
                }
                Err(round::Failure::Unavailable(why)) => {
                    report.skipped.push(format!("{driver}: {why}"));
                    drivers.remove(at);
                }
                Err(round::Failure::Found(counts, what)) => {
                    report.add(&counts);
                    report.found = Some(format!("{driver}, seed {seed}: {what}"));
                    return Ok(report);
                }
                Err(round::Failure::Setup(what)) => return Err(what),
            }
            progress(report.rounds);
        }
        if drivers.is_empty() {
            break;
        }
    }
    Ok(report)
}

impl RealReport {
    fn add(&mut self, counts: &shared::Counts) {
        self.rounds += 1;
        self.ios += counts.ios;
        self.failed += counts.failed;
        self.sectors_checked += counts.sectors_checked;
        self.left += counts.left;
        self.script.add(&counts.script);
    }

    /// Name and value of each count, for reports.
    pub fn rows(&self) -> [(&'static str, u64); 13] {
        let script = &self.script;
        [
            ("rounds", self.rounds),
            ("ios", self.ios),
            ("failed", self.failed),
            ("sectors checked", self.sectors_checked),
            ("futures left by their thread", self.left),
            ("requests", script.requests),
            ("delayed", script.delayed),
            ("stuck", script.stuck),
            ("landed late", script.late),
            ("transient errors", script.transient),
            ("short transfers", script.short),
            ("errors", script.errors),
            ("blocking flushes", script.blocking_flushes),
        ]
    }
}

#[cfg(test)]
mod tests;
