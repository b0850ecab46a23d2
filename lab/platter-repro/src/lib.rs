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
mod elevators;
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
pub use elevators::Elevators;
pub use kind::Kind;
pub use report::Report;
pub use tally::Tally;

use platter_bench::load::Stuck;
use platter_bench::processes::ProcessError;
use std::sync::atomic::AtomicBool;

/// How large experiments are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Published sizes and times are divided by this, 1 to [`MAX_SCALE`].
    pub scale: u64,
    /// Concurrent simulations; results do not depend on their number.
    pub threads: usize,
    /// Seed of the models. Figures near a bound are computed with the seeds that follow it too.
    pub seed: u64,
    /// Elevators that are not those of the published kernels.
    pub elevators: Elevators,
    /// Whether figures are measured on this machine too, where that needs no disk. Not reproducible; takes some seconds.
    pub here: bool,
}

impl Default for Options {
    /// A quarter of the published sizes, one thread, seed 1, the elevators of the published kernels, nothing measured.
    fn default() -> Options {
        Options { scale: 4, threads: 1, seed: 1, elevators: Elevators::default(), here: false }
    }
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
    /// The elevators of its runs that [`Elevators`] can change.
    elevators: fn() -> Vec<&'static str>,
    run: fn(&Options, Hooks<'_>) -> Result<Report, ReproError>,
}

impl Experiment {
    /// The elevators of its runs that [`Options::elevators`] can change, in alphabetical order.
    pub fn elevators(&self) -> Vec<&'static str> {
        let mut all = (self.elevators)();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Runs it. If its elevators are not those of the published kernels, no claim counts as a prediction.
    ///
    /// # Errors
    /// It was cancelled, a model or a disk failed, or none of its runs has an elevator that is to be changed.
    pub fn run(&self, options: &Options, hooks: Hooks<'_>) -> Result<Report, ReproError> {
        options.elevators.check(&[self])?;
        let mut report = (self.run)(options, hooks)?;
        options.elevators.mark(self, &mut report);
        Ok(report)
    }
}

/// No elevators that can be changed.
fn no_elevators() -> Vec<&'static str> {
    Vec::new()
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
    /// The table of kernels does not have this one.
    #[error("unknown kernel `{name}`; expected one of: {}", elevators::kernels().join(", "))]
    NoKernel {
        /// What was given instead.
        name: String,
    },
    /// No run has an elevator that was to be changed.
    #[error("{}", elevators::unused(*.elevator, .known))]
    NoSuchElevator {
        /// The elevator; `None`: any.
        elevator: Option<&'static str>,
        /// The elevators of the runs.
        known: Vec<&'static str>,
    },
    /// An elevator did not take a value of a parameter.
    #[error("{elevator}: {reason}")]
    Refused {
        /// The elevator.
        elevator: &'static str,
        /// The parameter and its range.
        reason: String,
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
