//! One cell, measured: in virtual time on this thread, in real time with a thread for each process.

use super::busy::Watch;
use super::process::Process;
use super::{Cell, ChunkedError, Harness, Point, array};
use crate::device_stats::DeviceStats;
use crate::stats::Sample;
use platter_block::time::{Span, Time, VirtualClock};
use platter_disk::clock::Clock;
use platter_disk::device::Device;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Longest sleep before the cancel flag is checked again.
const NAP: Span = Span::from_millis(50);
/// Turns between two looks at it in virtual time.
const TURNS: u32 = 256;

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
    let stats = || DeviceStats::of_all(&disks[..cell.disks]);
    let before = stats();
    let watch = watch.then(|| Watch::start(&disks[..cell.disks]));
    let clock = targets[0].clock();
    let run = Run { cell, harness, targets: &targets, cancel };
    let rates = match &clock {
        Clock::Virtual(clock) => run.in_virtual_time(clock)?,
        Clock::Host => run.in_real_time()?,
    };
    let busy = watch.map(|watch| watch.finish(clock.now()));
    let Some(mut rates) = rates else { return Ok(None) };
    // All processes work at the same time: the total rate is the rate of one times their number.
    rates.iter_mut().for_each(|rate| *rate *= targets.len() as f64);
    let sample = Sample::new(&rates).map_err(|error| ChunkedError::Option(error.to_string()))?;
    let device = stats().since(&before);
    Ok(Some(Point { cell: *cell, quartiles: sample.quartiles(), samples: sample.count(), busy, device }))
}

struct Run<'a> {
    cell: &'a Cell,
    harness: &'a Harness,
    targets: &'a [Device],
    cancel: &'a AtomicBool,
}

type Rates = Option<Vec<f64>>;

impl Run<'_> {
    fn open(&self, index: usize) -> Result<Process, ChunkedError> {
        Process::open(&self.targets[index], self.cell, self.harness, index as u64)
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    fn in_virtual_time(&self, clock: &VirtualClock) -> Result<Rates, ChunkedError> {
        let mut processes = Vec::with_capacity(self.targets.len());
        for index in 0..self.targets.len() {
            let mut process = self.open(index)?;
            process.start(clock.now())?;
            processes.push(process);
        }
        let mut turns = 0;
        while !processes.iter().all(Process::is_over) {
            turns += 1;
            if turns % TURNS == 0 && self.is_cancelled() {
                return Ok(None);
            }
            let now = clock.now();
            let mut next = None;
            for process in &mut processes {
                next = Time::earliest(next, process.turn(now)?);
            }
            let Some(next) = next else { return Err(ChunkedError::Stuck) };
            clock.advance_to(next.max(now + Span(1)));
        }
        Ok(Some(processes.iter().flat_map(Process::rates).collect()))
    }

    fn in_real_time(&self) -> Result<Rates, ChunkedError> {
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
        Ok((!self.is_cancelled()).then_some(rates))
    }

    /// One process in real time; it works until all have their samples.
    fn work(&self, index: usize, left: &AtomicUsize, failed: &AtomicBool) -> Result<Vec<f64>, ChunkedError> {
        let mut process = self.open(index)?;
        process.start(self.targets[index].clock().now())?;
        let mut told = false;
        loop {
            if process.is_over() && !std::mem::replace(&mut told, true) {
                left.fetch_sub(1, Ordering::Relaxed);
            }
            if left.load(Ordering::Relaxed) == 0 || failed.load(Ordering::Relaxed) || self.is_cancelled() {
                return Ok(process.rates().collect());
            }
            process.wait(NAP)?;
        }
    }
}
