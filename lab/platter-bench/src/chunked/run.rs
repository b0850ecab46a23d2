//! All points: side by side where time is virtual, one after the other where it is not.

use super::{Cell, ChunkedError, Harness, Point, measure};
use platter_disk::device::Device;
use platter_sim::World;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Opens the disks, those that are simulated in the world given.
pub type Opener<'a> =
    dyn Fn(&Arc<World>) -> Result<Vec<Device>, Box<dyn std::error::Error + Send + Sync>> + Sync + 'a;

/// Progress of a run.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Points that are done.
    pub done: usize,
    /// Points in all.
    pub total: usize,
    /// One that is being measured, or was just now.
    pub now: &'a Cell,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Points {
    /// Points in the order of their cells; those that an interruption left out are missing.
    pub points: Vec<Point>,
    /// Whether time was virtual.
    pub simulated: bool,
    /// Whether it was interrupted.
    pub interrupted: bool,
}

/// How to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// How each point is measured.
    pub harness: Harness,
    /// Points at once in virtual time.
    pub threads: usize,
    /// Watch the activity of the disks.
    pub watch: bool,
}

/// How often progress is reported while no point is finished.
const TICK: Duration = Duration::from_millis(200);

struct Runner<'a> {
    cells: &'a [Cell],
    options: &'a RunOptions,
    open: &'a Opener<'a>,
    cancel: &'a AtomicBool,
    next: AtomicUsize,
}

type Finished = (usize, Result<Option<Point>, ChunkedError>);

/// Measures every cell. Simulated disks are created for each cell, in a world of its own, so that points
/// depend neither on each other nor on their order or the number of threads.
///
/// # Errors
/// The first error.
pub fn run(
    cells: &[Cell],
    options: &RunOptions,
    open: &Opener<'_>,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Points, ChunkedError> {
    options.harness.check()?;
    let runner = Runner { cells, options, open, cancel, next: AtomicUsize::new(0) };
    let disks = runner.disks()?;
    let simulated = disks.first().is_some_and(|disk| disk.clock().simulated().is_some());
    let mut points: Vec<Option<Point>> = vec![None; cells.len()];
    let mut failure = None;
    let mut done = 0;
    let (send, finished) = mpsc::channel();
    std::thread::scope(|scope| {
        let threads = if simulated { options.threads.clamp(1, cells.len().max(1)) } else { 1 };
        for _ in 0..threads {
            let (runner, send, disks) = (&runner, send.clone(), &disks);
            scope.spawn(move || runner.work((!simulated).then_some(disks), &send));
        }
        drop(send);
        loop {
            match finished.recv_timeout(TICK) {
                Ok((index, result)) => {
                    done += 1;
                    match result {
                        Ok(point) => points[index] = point,
                        Err(error) => {
                            // No further one is begun.
                            runner.next.store(usize::MAX / 2, Ordering::Relaxed);
                            failure.get_or_insert(error);
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            let begun = runner.next.load(Ordering::Relaxed).clamp(1, cells.len());
            progress(&Progress { done, total: cells.len(), now: &cells[begun - 1] });
        }
    });
    match failure {
        Some(error) => Err(error),
        None => {
            let interrupted = points.iter().any(Option::is_none);
            Ok(Points { points: points.into_iter().flatten().collect(), simulated, interrupted })
        }
    }
}

impl Runner<'_> {
    fn disks(&self) -> Result<Vec<Device>, ChunkedError> {
        (self.open)(&World::new(self.options.harness.seed)).map_err(ChunkedError::Open)
    }

    /// Measures cells until none is left, on these disks or on new ones for each point.
    fn work(&self, disks: Option<&Vec<Device>>, finished: &mpsc::Sender<Finished>) {
        while !self.cancel.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = self.cells.get(index) else { return };
            let disks = disks.map_or_else(|| self.disks(), |disks| Ok(disks.clone()));
            let RunOptions { harness, watch, .. } = self.options;
            let result = disks.and_then(|disks| measure(cell, harness, &disks, *watch, self.cancel));
            if finished.send((index, result)).is_err() {
                return;
            }
        }
    }
}
