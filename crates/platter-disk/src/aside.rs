//! Lanes that only wait for the disk to return a request that a synchronous call gave up.

use crate::clock::Clock;
use crate::future::AsyncLane;
use crate::sync::{Mutex, lock};
use platter_block::lane::Lane;
use platter_block::time::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lanes of a device that were set aside. The service thread runs them. If it does not, because time is simulated or
/// the thread cannot be started, every synchronous call runs them while it waits.
#[derive(Default)]
pub(crate) struct Aside {
    lanes: Mutex<Vec<Arc<AsyncLane>>>,
    /// Whether calls run the lanes.
    is_ours: AtomicBool,
}

impl Aside {
    pub(crate) fn add(&self, lane: Box<dyn Lane>, clock: Clock) {
        let is_simulated = clock.simulated().is_some();
        let lane = Arc::new(AsyncLane::new(lane, clock));
        lock(&self.lanes).push(Arc::clone(&lane));
        if is_simulated || !lane.watch(true) {
            self.is_ours.store(true, Ordering::Relaxed);
        }
    }

    /// Runs the lanes if no thread does. Returns when they must be run next.
    #[inline]
    pub(crate) fn help(&self) -> Option<Time> {
        if self.is_ours.load(Ordering::Relaxed) { self.run() } else { None }
    }

    #[cold]
    fn run(&self) -> Option<Time> {
        lock(&self.lanes).iter().filter_map(|lane| lane.tend()).min()
    }

    /// Runs all lanes and closes those that have nothing left to wait for. Returns how many it closed.
    pub(crate) fn end(&self) -> usize {
        let mut over = Vec::new();
        let mut lanes = lock(&self.lanes);
        lanes.retain(|lane| {
            lane.tend();
            let is_over = lane.is_idle();
            if is_over {
                over.push(Arc::clone(lane));
            }
            !is_over
        });
        if lanes.is_empty() {
            self.is_ours.store(false, Ordering::Relaxed);
        }
        drop(lanes);
        over.iter().for_each(|lane| lane.close());
        over.len()
    }

    /// The device is being closed: closes all lanes, which waits for their requests.
    pub(crate) fn close(&self) {
        let lanes = std::mem::take(&mut *lock(&self.lanes));
        lanes.iter().for_each(|lane| lane.close());
    }
}
