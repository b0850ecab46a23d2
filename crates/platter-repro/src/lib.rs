//! Published experiments, reproduced on models.
//!
//! An experiment makes a [`Report`]: tables, and [`Claim`]s, each with the published figure, that of the
//! model and a rule that was decided before the model was run. Claims are about shapes: ratios, orders,
//! bounds. A claim that does not hold is kept and reported as such. A new experiment is one file and one row
//! of [`TABLE`].

#![forbid(unsafe_code)]

mod all;
mod axboe2004;
mod cells;
mod claim;
mod dale2002;
mod disk;
mod dm2002;
mod dsw2002;
mod host;
pub mod hosts;
mod kind;
mod ols2002;
mod ordered;
mod plug2004;
pub mod policies;
pub mod published;
mod readahead;
mod report;
pub mod schedulers;
mod seeds;
mod staelin2002;
mod sysbench2004;
mod tally;
mod unplug2004;

pub use all::{Reports, all};
pub use claim::{Claim, Rule};
pub use kind::Kind;
pub use report::Report;
pub use tally::Tally;

use platter_bench::load::Stuck;
use platter_bench::processes::ProcessError;
use std::sync::atomic::AtomicBool;

/// How large experiments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Published sizes and times are divided by this, 1 to [`MAX_SCALE`].
    pub scale: u64,
    /// Concurrent simulations; results do not depend on their number.
    pub threads: usize,
    /// Seed of the models. Figures near a bound are computed with the seeds that follow it too.
    pub seed: u64,
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
pub static TABLE: &[Experiment] = &[
    schedulers::EXPERIMENT,
    staelin2002::EXPERIMENT,
    sysbench2004::EXPERIMENT,
    readahead::EXPERIMENT,
    ordered::EXPERIMENT,
    dm2002::EXPERIMENT,
    dsw2002::EXPERIMENT,
    dale2002::EXPERIMENT,
    unplug2004::EXPERIMENT,
    plug2004::EXPERIMENT,
    axboe2004::EXPERIMENT,
    ols2002::EXPERIMENT,
];

/// Looks an experiment up by name.
pub fn by_name(name: &str) -> Option<&'static Experiment> {
    TABLE.iter().find(|experiment| experiment.name == name)
}

/// Why an experiment failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReproError {
    /// It was cancelled.
    #[error("interrupted before the experiment was through")]
    Interrupted,
    /// A disk or its processes.
    #[error(transparent)]
    Processes(#[from] ProcessError),
    /// The chunked benchmark.
    #[error("{0}")]
    Chunked(String),
    /// A disk is missing from the catalogue.
    #[error("there is no simulated disk `{0}`; see `platter sim list`")]
    NoDisk(&'static str),
    /// A kernel has no such elevator.
    #[error("the table of kernels has no elevator `{elevator}` of Linux {kernel}")]
    NoPreset {
        /// The kernel.
        kernel: &'static str,
        /// The elevator.
        elevator: &'static str,
    },
    /// A readahead policy is missing.
    #[error("there is no readahead policy `{0}`; see `platter list`")]
    NoPolicy(&'static str),
    /// The threads of an experiment wait for I/Os that a model will never complete.
    #[error(transparent)]
    Stuck(#[from] Stuck),
    /// A layer could not be made, or its I/O failed.
    #[error("{0}")]
    Stack(String),
}
