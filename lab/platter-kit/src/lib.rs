//! Crash tests for storage engines: their code on a simulated disk whose power is cut at every I/O.
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
//! The first closure is the engine: it stores something on a [`Device`] and records its promises, which are what it
//! would have answered to its own callers. A [`History`] of transactions is usually enough; any type with a default
//! will do. The second closure opens what the engine has stored, and checks it against the promises. An engine that
//! keeps files gets [`files`] instead of a device, and [`Kit::open`] puts an elevator, an array or several devices
//! between the engine and the disks.
//!
//! # What is tried
//!
//! The engine runs once without a cut, which shows its I/Os. Then it runs again for each of them, and power is cut with
//! that I/O in flight: what was flushed stays, and of everything else any part may be lost, each sector by itself, as a
//! disk with a volatile cache permits. The kit tries to lose all of it, nothing, and several selections that the seed
//! decides ([`Kit::tries`]), on demand also [each write alone](Kit::each_write). After each cut the check runs on what
//! is left; where it writes, as engines do that repair themselves, it runs again with [a second
//! cut](Kit::recovery_tries) in the middle of that. For a small run this is every boundary between two I/Os; for a large
//! one [`Cuts::Random`] chooses some.
//!
//! A check that fails, or panics, is a finding. One that ends its process, by a signal such as SIGBUS, is one if each trial
//! has [a process of its own](Kit::isolated). An engine that gets an error must return: after the cut every I/O fails
//! until it does. An engine that fails or panics without a cut is reported as well.
//!
//! # How to read a finding
//!
//! ```text
//! transaction 1 was acknowledged and is lost: the contents are those after transaction 0
//! found with power cut 8: at I/O 3, 2 sectors lost
//! to see it again: Kit::new(1) and replay the plan "io=3 lost=0/1:0+1,0/3:0+1"
//! ```
//!
//! The first line is the error of the check. The plan in the last one is the smallest cut that was found to lead to it:
//! power fails when the engine has issued I/Os 0 to 3 (a write of one byte reads its sector and writes it back) and 3 is
//! in flight. Lost are sector 0 of the write that is command 1 of disk 0, and sector 0 of command 3
//! (`disk/command:sector+count`). Everything else survives. So command 1 is what should have been flushed before the
//! engine made the promise that the check finds broken.
//!
//! If it was found with another cut, a further line has that one and its error, which is of the same kind: the texts
//! differ in numbers and quotations only.
//!
//! [`Kit::replay`] repeats the plan once, under a debugger if need be. A plan that continues with `then io=2 lost=…` cuts
//! power again, at I/O 2 of opening and checking what the first cut has left.
//!
//! # Testing the test
//!
//! A check that finds nothing may be a check that cannot. [`Kit::drop_each_flush`] drops each flush of the engine in
//! turn, and the FUA of each write: the disk acknowledges it and makes nothing durable. The result says for each flush whether the check noticed; a
//! flush that it did not miss is superfluous, or is not tested. [`Kit::flushes`] drops one of them, or all.
//!
//! # What it does not do
//!
//! - It tests one thread. A run repeats itself if the engine calls synchronously or polls a channel; futures are completed
//!   by a service thread, in an order that depends on the host. Time, random numbers and the order of a `HashMap` must
//!   come from the test for the same reason. [`Summary::differing`] counts trials whose I/O was not that of the first run.
//! - The engine is stopped by errors of its I/O, not killed: what it does after an error is not undone, but nothing of
//!   it reaches the disk.
//! - A sector of 512 bytes is written wholly or not. Disks do not lie, except about flushes that are dropped on purpose,
//!   and do not fail before the cut. Silent corruption and I/O errors are injected by `platter_sim::fault`, without a kit.
//! - It proves nothing about loads that were not run, or cuts that were not tried.

use platter_block::time::Span;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::SimDisk;
use platter_sim::ideal::Ideal;
use platter_sim::power::Survivors;
use platter_sim::rng::Rng;
use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;
use trial::{Cut, Trial};

pub mod files;
mod flushes;
mod history;
mod isolated;
mod plan;
mod shrink;
pub mod soak;
mod trace;
mod trial;

pub use flushes::{DroppedFlush, Flushes};
pub use history::{Broken, History};
pub use isolated::Isolation;
pub use plan::{Failure, Found, Plan, PlanError, RecoveryCut};
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
    isolation: Option<Arc<Isolation>>,
}

impl<D> Clone for Kit<D> {
    fn clone(&self) -> Kit<D> {
        Kit { open: Arc::clone(&self.open), isolation: self.isolation.clone(), ..*self }
    }
}

impl Kit {
    /// A kit with one disk of 64 MiB that has a write cache, cut at every I/O in six ways.
    pub fn new(seed: u64) -> Kit {
        let open: Open<Device> = Arc::new(|disks: &[SimDisk]| {
            let device = match disks {
                [first, ..] => Device::from_disk(first.attach("kit"), DiskSettings::default(), None),
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
            isolation: None,
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
        let Kit { seed, disk, disks, cuts, tries, each_write, recovery_tries, shrink_tries, .. } = self;
        let Kit { flushes, isolation, .. } = self;
        Kit {
            seed,
            disk,
            disks,
            open,
            cuts,
            tries,
            each_write,
            recovery_tries,
            shrink_tries,
            flushes,
            isolation,
        }
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
        let mut summary = Summary::default();
        if self.is_of_one_trial(&engine, &check) {
            return Ok(summary);
        }
        let trial = |cut: &Cut| self.trial(cut, &engine, &check);
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
        if self.is_of_one_trial(&engine, &check) {
            return Ok(());
        }
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
        let at = |survivors| Cut { io: Some(io), survivors, recovery: None };
        let mut ways: Vec<Survivors> = self.ways(io).collect();
        if self.each_write {
            let plan = Plan { io, ..Plan::default() };
            let all = trial(&at(Survivors::All)).map_err(|wrong| self.failure(plan, wrong, summary.cuts))?;
            ways.extend(shrink::each_write(&all.could));
        }
        for (nth, survivors) in (0..).zip(ways) {
            let cut = at(survivors);
            let changes = self.attempt(&cut, whole, summary, trial)?;
            let mut rng = Rng::stream(self.seed, recovery_stream(io, nth));
            let tries = if changes.is_empty() { 0 } else { self.recovery_tries };
            for _ in 0..tries {
                let again = changes[rng.below(changes.len() as u64) as usize];
                let recovery = Some((again, Survivors::Seeded(rng.bits())));
                summary.recoveries += 1;
                self.attempt(&Cut { recovery, ..cut.clone() }, whole, summary, trial)?;
            }
        }
        Ok(())
    }

    /// One trial; returns which I/Os of opening and checking changed something.
    fn attempt(
        &self,
        cut: &Cut,
        whole: &Trial,
        summary: &mut Summary,
        trial: &impl Fn(&Cut) -> Result<Trial, String>,
    ) -> Result<Vec<u64>, Failure> {
        summary.cuts += 1;
        let plan = Plan { io: cut.io.unwrap_or(whole.trace.len()), ..Plan::default() };
        let found = trial(cut).map_err(|wrong| self.failure(plan, wrong, summary.cuts))?;
        summary.differing += u64::from(!found.trace.is_start_of(&whole.trace));
        match &found.wrong {
            None => Ok(found.recovery.changes(0)),
            Some(wrong) => Err(self.shrink(found.plan(cut), wrong.clone(), summary.cuts, trial)),
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
        let first = Box::new(Found { plan: plan.clone(), wrong: wrong.clone() });
        Failure { seed: self.seed, plan, wrong, first, cuts }
    }
}

/// The number of the stream of random numbers for cuts during recovery, apart from those of other draws.
fn recovery_stream(io: u64, nth: u64) -> u64 {
    (1 << 63) | (io << 16) | nth
}

/// The program of the README.
#[cfg(doctest)]
mod readme {
    #[doc = include_str!("../README.md")]
    struct Readme;
}

#[cfg(test)]
mod tests;
