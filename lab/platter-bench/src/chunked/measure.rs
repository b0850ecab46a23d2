//! One cell, measured: in virtual time on this thread, in real time with a thread for each process.

use super::busy::Watch;
use super::process::Process;
use super::{Cell, ChunkedError, Harness, Point, array};
use crate::device_stats::DeviceStats;
use crate::load::{Load, Pause, Work};
use crate::stats::Sample;
use platter_block::bio::Bio;
use platter_block::time::Time;
use platter_disk::channel::Channel;
use platter_disk::clock::Clock;
use platter_disk::device::Device;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Measures one point on the first `cell.disks` of `disks`; with `watch` also their activity. `None`:
/// cancelled.
///
/// # Errors
/// A configuration that is invalid on these disks, or a failed I/O.
pub fn measure(
    cell: &Cell,
    harness: &Harness,
    disks: &[Device],
    watch: bool,
    cancel: &AtomicBool,
) -> Result<Option<Point>, ChunkedError> {
    cell.check()?;
    harness.check()?;
    let targets = array::targets(cell, disks)?;
    let disks = &disks[..cell.disks];
    let before = DeviceStats::before(disks);
    let watch = watch.then(|| Watch::start(disks));
    let clock = targets[0].clock();
    let run = Run { cell, harness, targets: &targets, disks, cancel };
    let measured = match &clock {
        Clock::Virtual(_) => run.in_virtual_time()?,
        Clock::Host => run.in_real_time()?,
    };
    let busy = watch.map(|watch| watch.finish(clock.now()));
    let Some((mut rates, device)) = measured else { return Ok(None) };
    // All processes work at the same time: the total rate is the rate of one times their number.
    rates.iter_mut().for_each(|rate| *rate *= targets.len() as f64);
    let sample = Sample::new(&rates).map_err(|error| ChunkedError::Option(error.to_string()))?;
    let device = device.since(&before);
    Ok(Some(Point { cell: *cell, quartiles: sample.quartiles(), samples: sample.count(), busy, device }))
}

struct Run<'a> {
    cell: &'a Cell,
    harness: &'a Harness,
    targets: &'a [Device],
    /// Below the targets.
    disks: &'a [Device],
    cancel: &'a AtomicBool,
}

/// The rates of the processes, and what the disks have counted by then. `None`: cancelled.
type Measured = Option<(Vec<f64>, DeviceStats)>;

impl Run<'_> {
    fn open(&self, index: usize) -> Result<Process, ChunkedError> {
        Process::open(&self.targets[index], self.cell, self.harness, index as u64)
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    fn in_virtual_time(&self) -> Result<Measured, ChunkedError> {
        let left = AtomicUsize::new(self.targets.len());
        let all = (0..self.targets.len()).map(|index| self.open(index));
        let mut processes = Processes { all: all.collect::<Result<_, _>>()?, left: &left };
        let mut load = Load::new(self.targets[0].clock(), self.targets.len() as u32, 0);
        processes.start(&mut load)?;
        let cancelled = load.run_unless(&mut processes, Time(u64::MAX), self.cancel)?;
        // Before the channels are closed, which gives up the I/O in flight.
        Ok((!cancelled).then(|| (processes.rates(), DeviceStats::of_all(self.disks))))
    }

    fn in_real_time(&self) -> Result<Measured, ChunkedError> {
        let left = AtomicUsize::new(self.targets.len());
        let failed = AtomicBool::new(false);
        let rates = Mutex::new(Vec::new());
        let results: Vec<Result<(), ChunkedError>> = std::thread::scope(|scope| {
            let work = |index| {
                let (left, failed, rates) = (&left, &failed, &rates);
                scope.spawn(move || {
                    let result = self.work(index, left, failed);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    rates.lock().unwrap_or_else(PoisonError::into_inner).extend(result?);
                    Ok(())
                })
            };
            let workers: Vec<_> = (0..self.targets.len()).map(work).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().map(join).collect()
        });
        results.into_iter().collect::<Result<(), _>>()?;
        let rates = rates.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The workers have waited for the I/O in flight.
        Ok((!self.is_cancelled()).then(|| (rates, DeviceStats::of_all(self.disks))))
    }

    /// One process in real time; it works until all have their samples.
    fn work(&self, index: usize, left: &AtomicUsize, failed: &AtomicBool) -> Result<Vec<f64>, ChunkedError> {
        let mut processes = Processes { all: vec![self.open(index)?], left };
        let mut load = Load::new(self.targets[index].clock(), 1, 0);
        processes.start(&mut load)?;
        while !failed.load(Ordering::Relaxed) && !self.is_cancelled() {
            if load.run(&mut processes, Time(u64::MAX))? == Pause::Over {
                break;
            }
        }
        Ok(processes.rates())
    }
}

/// The processes of a load, each on a port of its own.
struct Processes<'a> {
    all: Vec<Process>,
    /// Processes, those of other threads too, that do not have their samples yet: until then all of them work.
    left: &'a AtomicUsize,
}

impl Processes<'_> {
    fn start(&mut self, load: &mut Load) -> Result<(), ChunkedError> {
        for process in &mut self.all {
            process.start(load.now())?;
        }
        (0..self.all.len() as u32).try_for_each(|port| load.settle(self, port))
    }

    fn rates(&self) -> Vec<f64> {
        self.all.iter().flat_map(Process::rates).collect()
    }
}

impl Work for Processes<'_> {
    type Error = ChunkedError;

    fn channels(&mut self, port: u32) -> impl Iterator<Item = &mut Channel> {
        self.all.get_mut(port as usize).map(|process| &mut process.channel).into_iter()
    }

    fn completed(&mut self, load: &mut Load, port: u32, done: &mut Vec<Bio>) -> Result<(), ChunkedError> {
        let process = &mut self.all[port as usize];
        let before = process.is_over();
        process.completed(load.now(), done)?;
        if process.is_over() && !before {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}
