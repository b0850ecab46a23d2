//! A test kit for storage engines: their code on a simulated disk whose power is cut at every I/O.
//!
//! The engine is a closure over a [`Device`]. It records its promises (what it would have answered to its own
//! callers) in a separate state. After the cut the device is opened again and a second closure checks whether
//! the promises were kept. A failure reports the seed and a [`Plan`], shrunk to the fewest I/Os before the
//! cut and the smallest loss that still fails, with which [`Kit::replay`] repeats it.
//!
//! ```
//! use platter_kit::Kit;
//! use platter_disk::device::Device;
//! use platter_block::fault::Error;
//!
//! /// Appends blocks to a log. A block counts as stored when the number in block 0 covers it.
//! fn append(disk: &Device, stored: &mut u8) -> Result<(), Error> {
//!     for n in 1..=5u8 {
//!         disk.write_at(&[n; 512], u64::from(n) * 512)?;
//!         disk.flush()?; // Without this line the kit finds a block 0 whose log is not there.
//!         disk.write_at(&[n; 512], 0)?;
//!         disk.flush()?;
//!         *stored = n;
//!     }
//!     Ok(())
//! }
//!
//! fn check(disk: &Device, stored: &u8) -> Result<(), String> {
//!     let read = |n: u8| {
//!         let mut block = [0; 512];
//!         disk.read_at(&mut block, u64::from(n) * 512).map_err(|error| error.to_string())?;
//!         Ok::<u8, String>(block[0])
//!     };
//!     let count = read(0)?;
//!     if count < *stored {
//!         return Err(format!("{stored} were stored, {count} are there"));
//!     }
//!     (1..=count).try_for_each(|n| if read(n)? == n { Ok(()) } else { Err(format!("block {n} is lost")) })
//! }
//!
//! let summary = Kit::new(1).run(append, check).unwrap_or_else(|failure| panic!("{failure}"));
//! assert_eq!(summary.ios, 20);
//! ```
//!
//! An engine that gets an error must return: after the cut every I/O fails until it does. The kit uses one
//! thread, and a run is reproducible if the engine calls synchronously or polls a channel. Futures are
//! completed by a service thread, in an order that depends on the host.

use platter_block::fault::Error;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::leaf::LeafSettings;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::power::{Lost, Supply, Survivors};
use platter_sim::{Options, SimDisk, World};
use std::fmt::Display;
use std::sync::Arc;

mod plan;
mod shrink;
pub mod soak;

pub use plan::{Failure, Plan, PlanError};

/// Where power is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cuts {
    /// At every I/O, and after the last one.
    Every,
    /// At this number of I/Os, chosen by the seed.
    Random(u64),
}

/// Statistics of a run of the kit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// I/Os of the engine without a power cut.
    pub ios: u64,
    /// Power cuts, each followed by a check.
    pub cuts: u64,
}

type Open = Arc<dyn Fn(&[SimDisk]) -> Result<Device, Error> + Send + Sync>;

/// See the [module](self).
#[derive(Clone)]
pub struct Kit {
    seed: u64,
    disk: Ideal,
    disks: usize,
    open: Open,
    cuts: Cuts,
    tries: u64,
}

/// The result of one cut.
struct Trial {
    /// The error that the check found.
    wrong: Option<String>,
    /// I/Os until the end of the engine.
    ios: u64,
    lost: Lost,
    /// The sectors that could have been lost.
    could: Lost,
}

impl Kit {
    /// A kit with one disk of 64 MiB that has a write cache, cut at every I/O in six ways.
    pub fn new(seed: u64) -> Kit {
        let open: Open = Arc::new(|disks: &[SimDisk]| match disks {
            [first, ..] => Device::from_disk(first.attach("kit"), LeafSettings::default(), None),
            [] => Device::null(0),
        });
        let disk = Ideal { size: 64 << 20, latency: Span::from_micros(100), depth: 32, write_cache: true };
        Kit { seed, disk, disks: 1, open, cuts: Cuts::Every, tries: 6 }
    }

    /// Other disks: `count` of this kind, which lose power together.
    pub fn disks(self, disk: Ideal, count: usize) -> Kit {
        Kit { disk, disks: count.max(1), ..self }
    }

    /// How to open the device on the disks, before the cut and after it: a queue with an elevator, an array.
    pub fn open(self, open: impl Fn(&[SimDisk]) -> Result<Device, Error> + Send + Sync + 'static) -> Kit {
        Kit { open: Arc::new(open), ..self }
    }

    /// Where power is cut.
    pub fn cuts(self, cuts: Cuts) -> Kit {
        Kit { cuts, ..self }
    }

    /// Number of selections of lost sectors that are tried at each cut: first all sectors, then none, then random ones.
    pub fn tries(self, tries: u64) -> Kit {
        Kit { tries: tries.max(1), ..self }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Runs the engine repeatedly, cuts its power, and checks the contents.
    ///
    /// # Errors
    /// The first cut after which `check` finds an error, shrunk; or an engine that fails without a cut.
    pub fn run<S: Default, E: Display>(
        &self,
        engine: impl Fn(&Device, &mut S) -> Result<(), E>,
        check: impl Fn(&Device, &S) -> Result<(), String>,
    ) -> Result<Summary, Failure> {
        let trial = |io: Option<u64>, survivors: &Survivors| self.trial(io, survivors, &engine, &check);
        // Everything survives: this run also determines the number of I/Os.
        let whole = trial(None, &Survivors::All).map_err(|wrong| self.failure(Plan::default(), wrong, 1))?;
        let mut summary = Summary { ios: whole.ios, cuts: 1 };
        if let Some(wrong) = whole.wrong {
            let plan = Plan { io: whole.ios, lost: Lost::new() };
            return Err(self.failure(plan, wrong, 1));
        }
        for io in self.places(whole.ios) {
            for survivors in self.ways(io) {
                summary.cuts += 1;
                let found = trial(Some(io), &survivors)
                    .map_err(|wrong| self.failure(Plan { io, lost: Lost::new() }, wrong, summary.cuts))?;
                if let Some(wrong) = found.wrong {
                    let plan = Plan { io, lost: found.lost };
                    return Err(self.shrink(plan, wrong, summary.cuts, &trial));
                }
            }
        }
        Ok(summary)
    }

    /// Cuts the power according to `plan`, once.
    ///
    /// # Errors
    /// The error that the check finds, or why the engine failed before the cut.
    pub fn replay<S: Default, E: Display>(
        &self,
        plan: &Plan,
        engine: impl Fn(&Device, &mut S) -> Result<(), E>,
        check: impl Fn(&Device, &S) -> Result<(), String>,
    ) -> Result<(), String> {
        let survivors = Survivors::Except(plan.lost.clone());
        let trial = self.trial(Some(plan.io), &survivors, &engine, &check)?;
        trial.wrong.map_or(Ok(()), Err)
    }

    /// Where to cut an engine that makes `ios` I/Os.
    fn places(&self, ios: u64) -> Vec<u64> {
        match self.cuts {
            Cuts::Every => (0..=ios).collect(),
            Cuts::Random(count) => {
                let mut rng = platter_sim::rng::Rng::stream(self.seed, 1);
                (0..count).map(|_| rng.below(ios + 1)).collect()
            }
        }
    }

    /// The ways to lose something that are tried at one place.
    fn ways(&self, io: u64) -> impl Iterator<Item = Survivors> + use<> {
        let mut rng = platter_sim::rng::Rng::stream(self.seed, 2 + io);
        let fixed = [Survivors::None, Survivors::All].into_iter();
        fixed.chain(std::iter::repeat_with(move || Survivors::Seeded(rng.bits()))).take(self.tries as usize)
    }

    /// One trial: runs the engine until the cut, then the check. An engine that ends before the cut is cut
    /// then.
    fn trial<S: Default, E: Display>(
        &self,
        io: Option<u64>,
        survivors: &Survivors,
        engine: &impl Fn(&Device, &mut S) -> Result<(), E>,
        check: &impl Fn(&Device, &S) -> Result<(), String>,
    ) -> Result<Trial, String> {
        let (world, supply) = (World::new(self.seed), Supply::new());
        let disk = |_| {
            let options = Options { medium: Some(Medium::new()), faults: None, supply: Some(supply.clone()) };
            SimDisk::with(&world, self.disk.into(), options)
        };
        let disks: Vec<SimDisk> = (0..self.disks).map(disk).collect();
        let open = || (self.open)(&disks).map_err(|error| format!("the device cannot be opened: {error}"));
        let device = open()?;
        if let Some(io) = io {
            supply.cut_after(io, survivors.clone());
        }
        let mut state = S::default();
        let ended = engine(&device, &mut state);
        let ios = supply.ios();
        if let (Err(error), 0) = (&ended, supply.cuts()) {
            return Err(format!("the engine failed although nothing was wrong: {error}"));
        }
        drop(device);
        supply.cut(world.clock().now(), survivors.clone());
        disks.iter().for_each(SimDisk::settle);
        supply.restore();
        let reports = supply.take_reports();
        let lost = reports.iter().flat_map(|report| report.lost.iter()).collect();
        let could = reports.iter().flat_map(|report| report.could.iter()).collect();
        let wrong = check(&open()?, &state).err();
        Ok(Trial { wrong, ios, lost, could })
    }

    fn failure(&self, plan: Plan, wrong: String, cuts: u64) -> Failure {
        Failure { seed: self.seed, plan, wrong, cuts }
    }
}

#[cfg(test)]
mod tests;
