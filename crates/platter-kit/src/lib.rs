//! A test kit for storage engines: their code on a simulated disk whose power is cut at every I/O.
//!
//! The engine is a closure over a [`Device`]. It records its promises (what it would have answered to its own
//! callers) in a separate state. After the cut the device is opened again and a second closure checks whether
//! the promises were kept. A failure reports the seed and a [`Plan`], shrunk to the fewest I/Os before the
//! cut and the smallest loss that still fails, with which [`Kit::replay`] repeats it.
//!
//! ```
//! use platter_kit::{Device, Failure, History, Kit};
//!
//! # fn main() -> Result<(), Failure> {
//! let engine = |disk: &Device, history: &mut History<u8>| {
//!     for n in 1..=5 {
//!         history.begin(n);
//!         disk.write_at(&[n], 0)?;
//!         disk.flush()?; // Without this line the kit reports that transaction 1 is lost.
//!         history.acknowledge();
//!     }
//!     Ok(())
//! };
//! let summary = Kit::new(1).run(engine, |disk, history| {
//!     let mut found = [0];
//!     disk.read_at(&mut found, 0)?;
//!     Ok(history.check(&found[0])?)
//! })?;
//! assert!(summary.cuts > 60);
//! # Ok(())
//! # }
//! ```
//!
//! An engine that gets an error must return: after the cut every I/O fails until it does. The kit uses one
//! thread, and a run is reproducible if the engine calls synchronously or polls a channel. Futures are
//! completed by a service thread, in an order that depends on the host. [`Summary::differing`] counts the
//! trials whose I/O was not that of the first run.

use platter_block::time::Span;
use platter_disk::leaf::LeafSettings;
use platter_sim::SimDisk;
use platter_sim::ideal::Ideal;
use platter_sim::power::{Lost, Survivors};
use platter_sim::rng::Rng;
use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;
use trial::{Cut, Trial};

pub mod files;
mod flushes;
mod history;
mod plan;
mod shrink;
pub mod soak;
mod trace;
mod trial;

pub use flushes::{DroppedFlush, Flushes};
pub use history::{Broken, History};
pub use plan::{Failure, Plan, PlanError, RecoveryCut};
pub use platter_disk::device::Device;

/// What engines and checks return: done, or any error.
pub type Outcome = Result<(), Box<dyn Error>>;

/// Where power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// At every I/O that changes something, and after the last one. A read in flight has no effect, so a cut at a read
    /// leaves nothing that a cut at the next write may not leave as well.
    Every,
    /// At this number of them, chosen by the seed.
    Random(u64),
}

/// Statistics of a run of the kit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// I/Os of the engine without a power cut.
    pub ios: u64,
    /// Trials: power cuts, each followed by a check. The first one is the cut after the end of the whole run.
    pub cuts: u64,
    /// Trials of these in which power was cut a second time, while the check read and repaired what the
    /// first cut had left.
    pub recoveries: u64,
    /// Trials whose I/Os before the cut were not those of the first run. The plan of a failure repeats only
    /// what is the same in each run, so an engine should get its random numbers and the time from the test.
    pub differing: u64,
}

type Open<D> = Arc<dyn Fn(&[SimDisk]) -> Result<D, String> + Send + Sync>;

/// See the [module](self). `D` is what engine and check get: a [`Device`], or what [`Kit::open`] makes of the
/// disks.
pub struct Kit<D = Device> {
    seed: u64,
    disk: Ideal,
    disks: usize,
    open: Open<D>,
    cuts: Cuts,
    tries: u64,
    each_write: bool,
    recovery_tries: u64,
    shrink_tries: u64,
    flushes: Flushes,
}

impl<D> Clone for Kit<D> {
    fn clone(&self) -> Kit<D> {
        Kit { open: Arc::clone(&self.open), ..*self }
    }
}

impl Kit {
    /// A kit with one disk of 64 MiB that has a write cache, cut at every I/O in six ways.
    pub fn new(seed: u64) -> Kit {
        let open: Open<Device> = Arc::new(|disks: &[SimDisk]| {
            let device = match disks {
                [first, ..] => Device::from_disk(first.attach("kit"), LeafSettings::default(), None),
                [] => Device::null(0),
            };
            device.map_err(|error| error.to_string())
        });
        Kit {
            seed,
            disk: Ideal { size: 64 << 20, latency: Span::from_micros(100), depth: 32, write_cache: true },
            disks: 1,
            open,
            cuts: Cuts::Every,
            tries: 6,
            each_write: false,
            recovery_tries: 1,
            shrink_tries: 2000,
            flushes: Flushes::Honest,
        }
    }
}

impl<D> Kit<D> {
    /// Other disks: `count` of this kind, which lose power together.
    #[must_use]
    pub fn disks(self, disk: Ideal, count: usize) -> Kit<D> {
        Kit { disk, disks: count.max(1), ..self }
    }

    /// How to open what the engine uses on the disks, before the cut and after it: a queue with an elevator,
    /// an array, several devices, files. It may write; power is not cut there, except in a
    /// [cut during recovery](Kit::recovery_tries).
    #[must_use]
    pub fn open<T, E: Display>(
        self,
        open: impl Fn(&[SimDisk]) -> Result<T, E> + Send + Sync + 'static,
    ) -> Kit<T> {
        let open: Open<T> = Arc::new(move |disks| open(disks).map_err(|error| error.to_string()));
        let Kit { seed, disk, disks, cuts, tries, each_write, recovery_tries, shrink_tries, flushes, .. } =
            self;
        Kit { seed, disk, disks, open, cuts, tries, each_write, recovery_tries, shrink_tries, flushes }
    }

    /// Where power is cut.
    #[must_use]
    pub fn cuts(self, cuts: Cuts) -> Kit<D> {
        Kit { cuts, ..self }
    }

    /// Number of selections of lost sectors that are tried at each cut: first all sectors, then none, then random
    /// ones. 6 if not set, at least 1.
    #[must_use]
    pub fn tries(self, tries: u64) -> Kit<D> {
        Kit { tries: tries.max(1), ..self }
    }

    /// Also tries, at each cut, to lose each write alone and all but each one; where there are five or fewer,
    /// every combination of them. Finds what depends on the order of two writes, and takes longer the more writes
    /// an engine makes between its flushes.
    #[must_use]
    pub fn each_write(self) -> Kit<D> {
        Kit { each_write: true, ..self }
    }

    /// Number of times that the trial of each cut is repeated with a second cut while the check writes: an engine
    /// that repairs its contents when it is opened may lose power then as well. 1 if not set. Costs nothing where
    /// opening and checking write nothing.
    #[must_use]
    pub fn recovery_tries(self, recovery_tries: u64) -> Kit<D> {
        Kit { recovery_tries, ..self }
    }

    /// Maximum number of trials to shrink a failure. 2000 if not set; 0 reports it as found.
    #[must_use]
    pub fn shrink_tries(self, shrink_tries: u64) -> Kit<D> {
        Kit { shrink_tries, ..self }
    }

    /// Makes the disks acknowledge flushes of the engine without carrying them out, as a backend does that forgets to
    /// pass a sync on. A check that detects lost data then fails.
    #[must_use]
    pub fn flushes(self, flushes: Flushes) -> Kit<D> {
        Kit { flushes, ..self }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs the engine repeatedly, cuts its power, and checks the contents.
    ///
    /// # Errors
    /// The first cut after which `check` finds an error, shrunk; or an engine that fails without a cut.
    pub fn run<S: Default>(
        &self,
        engine: impl Fn(&D, &mut S) -> Outcome,
        check: impl Fn(&D, &S) -> Outcome,
    ) -> Result<Summary, Failure> {
        let trial = |cut: &Cut| self.trial(cut, &engine, &check);
        let mut summary = Summary::default();
        // Everything survives: this run also determines the I/Os.
        let whole = self.first(&mut summary, &trial)?;
        for io in self.places(&whole) {
            self.cut_at(io, &whole, &mut summary, &trial)?;
        }
        Ok(summary)
    }

    /// Cuts the power according to `plan`, once.
    ///
    /// # Errors
    /// The error that the check finds, or why the engine failed before the cut.
    pub fn replay<S: Default>(
        &self,
        plan: &Plan,
        engine: impl Fn(&D, &mut S) -> Outcome,
        check: impl Fn(&D, &S) -> Outcome,
    ) -> Result<(), String> {
        let trial = self.trial(&Cut::of(plan), &engine, &check)?;
        trial.wrong.map_or(Ok(()), Err)
    }

    /// The run that is cut after its end, when everything survives.
    fn first(
        &self,
        summary: &mut Summary,
        trial: &impl Fn(&Cut) -> Result<Trial, String>,
    ) -> Result<Trial, Failure> {
        summary.cuts += 1;
        let whole = trial(&Cut::after_the_end()).map_err(|wrong| self.failure(Plan::default(), wrong, 1))?;
        summary.ios = whole.trace.len();
        match whole.wrong {
            Some(wrong) => Err(self.failure(Plan { io: summary.ios, ..Plan::default() }, wrong, 1)),
            None => Ok(whole),
        }
    }

    /// All trials with power cut at one I/O.
    fn cut_at(
        &self,
        io: u64,
        whole: &Trial,
        summary: &mut Summary,
        trial: &impl Fn(&Cut) -> Result<Trial, String>,
    ) -> Result<(), Failure> {
        let mut ways: Vec<Survivors> = self.ways(io).collect();
        if self.each_write {
            let cut = Cut { io: Some(io), survivors: Survivors::All, recovery: None };
            let all = trial(&cut)
                .map_err(|wrong| self.failure(Plan { io, ..Plan::default() }, wrong, summary.cuts))?;
            ways.extend(shrink::each_write(&all.could));
        }
        for (nth, survivors) in ways.into_iter().enumerate() {
            let mut cut = Cut { io: Some(io), survivors, recovery: None };
            let mut writes = self.attempt(&cut, whole, summary, trial)?;
            let mut rng = Rng::stream(self.seed, recovery_stream(io, nth as u64));
            for again in 0..self.recovery_tries {
                // The check without a second cut wrote here.
                let Some(&at) =
                    (!writes.is_empty()).then(|| &writes[rng.below(writes.len() as u64) as usize])
                else {
                    break;
                };
                let survivors = match again {
                    0 => Survivors::Seeded(rng.bits()),
                    1 => Survivors::None,
                    _ => Survivors::Seeded(rng.bits()),
                };
                cut.recovery = Some((at, survivors));
                summary.recoveries += 1;
                self.attempt(&cut, whole, summary, trial)?;
            }
            writes.clear();
        }
        Ok(())
    }

    /// One trial; returns which I/Os of the check changed something.
    fn attempt(
        &self,
        cut: &Cut,
        whole: &Trial,
        summary: &mut Summary,
        trial: &impl Fn(&Cut) -> Result<Trial, String>,
    ) -> Result<Vec<u64>, Failure> {
        summary.cuts += 1;
        let plan = |lost| Plan { io: cut.io.unwrap_or(u64::MAX), lost, recovery: None };
        let found = trial(cut).map_err(|wrong| self.failure(plan(Lost::new()), wrong, summary.cuts))?;
        summary.differing += u64::from(!found.trace.is_start_of(&whole.trace));
        match &found.wrong {
            None => Ok(found.recovery.changes(0)),
            Some(wrong) => {
                let plan = found.plan(cut);
                let wrong = wrong.clone();
                Err(self.shrink(plan, wrong, summary.cuts, trial))
            }
        }
    }

    /// Where to cut an engine that made these I/Os.
    fn places(&self, whole: &Trial) -> Vec<u64> {
        let mut every = whole.trace.changes(0);
        every.push(whole.trace.len());
        match self.cuts {
            Cuts::Every => every,
            Cuts::Random(count) => {
                let mut rng = Rng::stream(self.seed, 1);
                (0..count).map(|_| every[rng.below(every.len() as u64) as usize]).collect()
            }
        }
    }

    /// The selections of lost sectors that are tried at one cut.
    fn ways(&self, io: u64) -> impl Iterator<Item = Survivors> + use<D> {
        let mut rng = Rng::stream(self.seed, 2 + io);
        let fixed = [Survivors::None, Survivors::All].into_iter();
        fixed.chain(std::iter::repeat_with(move || Survivors::Seeded(rng.bits()))).take(self.tries as usize)
    }

    fn failure(&self, plan: Plan, wrong: String, cuts: u64) -> Failure {
        Failure { seed: self.seed, plan, wrong, cuts }
    }
}

/// The number of the stream of random numbers for cuts during recovery, apart from those of other draws.
fn recovery_stream(io: u64, nth: u64) -> u64 {
    (1 << 63) | (io << 16) | nth
}

#[cfg(test)]
mod tests;
