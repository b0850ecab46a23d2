//! Published experiments, reproduced on models.
//!
//! An experiment makes a [`Report`]: tables, and [`Claim`]s, each with the published figure, that of the
//! model and a rule that was decided before the model was run. Claims are about shapes: ratios, orders,
//! bounds. A claim that does not hold is kept and reported as such. A new experiment is one file and one row
//! of [`TABLE`].

#![forbid(unsafe_code)]

mod cells;
mod claim;
mod disk;
mod readahead;
mod report;
pub mod schedulers;
mod staelin2002;
mod sysbench2004;

pub use claim::{Claim, Rule};
pub use report::Report;

use platter_bench::processes::ProcessError;
use std::fmt;
use std::sync::atomic::AtomicBool;

/// How large experiments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Published sizes and times are divided by this, 1 to [`MAX_SCALE`].
    pub scale: u64,
    /// Concurrent simulations; results do not depend on their number.
    pub threads: usize,
}

/// Smallest experiments.
pub const MAX_SCALE: u64 = 64;

/// Progress of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Simulations that are done.
    pub done: usize,
    /// Simulations in all.
    pub total: usize,
}

/// Callbacks of an experiment, and how to stop it.
pub struct Hooks<'a> {
    /// When it becomes true the experiment ends soon.
    pub cancel: &'a AtomicBool,
    /// Called after each simulation.
    pub progress: &'a mut dyn FnMut(Progress),
}

/// An experiment.
pub struct Experiment {
    /// Its name: `platter repro NAME`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Runs it.
    pub run: fn(&Options, Hooks<'_>) -> Result<Report, ReproError>,
}

/// Every experiment.
pub static TABLE: &[Experiment] =
    &[schedulers::EXPERIMENT, staelin2002::EXPERIMENT, sysbench2004::EXPERIMENT, readahead::EXPERIMENT];

/// Looks an experiment up by name.
pub fn by_name(name: &str) -> Option<&'static Experiment> {
    TABLE.iter().find(|experiment| experiment.name == name)
}

/// Why an experiment failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReproError {
    /// It was cancelled.
    Interrupted,
    /// A disk or its processes.
    Processes(ProcessError),
    /// The chunked benchmark.
    Chunked(String),
    /// A disk is missing from the catalogue.
    NoDisk(&'static str),
    /// A readahead policy is missing.
    NoPolicy(&'static str),
    /// A layer could not be made, or its I/O failed.
    Stack(String),
}

impl fmt::Display for ReproError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReproError::Interrupted => f.write_str("interrupted before the experiment was through"),
            ReproError::Processes(error) => error.fmt(f),
            ReproError::Chunked(message) | ReproError::Stack(message) => f.write_str(message),
            ReproError::NoDisk(name) => {
                write!(f, "there is no simulated disk `{name}`; see `platter sim list`")
            }
            ReproError::NoPolicy(name) => {
                write!(f, "there is no readahead policy `{name}`; see `platter list`")
            }
        }
    }
}

impl std::error::Error for ReproError {}

impl From<ProcessError> for ReproError {
    fn from(error: ProcessError) -> ReproError {
        ReproError::Processes(error)
    }
}
