//! Lanes that only wait for the disk to return a request which a synchronous call gave up.

use crate::clock::Clock;
use crate::future::AsyncLane;
use crate::sync::{Mutex, lock};
use platter_block::lane::Lane;
use platter_block::time::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lanes of a device that were set aside. The service thread runs them; where it does not, because time is simulated or
/// there is no such thread, every synchronous call does while it waits.
#[derive(Default)]
pub(crate) struct Aside {
    lanes: Mutex<Vec<Arc<AsyncLane>>>,
    /// Calls run them.
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

    /// Runs the lanes if no thread does. When they want to be run next.
    #[inline]
    pub(crate) fn help(&self) -> Option<Time> {
        if self.is_ours.load(Ordering::Relaxed) { self.run() } else { None }
    }

    #[cold]
    fn run(&self) -> Option<Time> {
        lock(&self.lanes).iter().filter_map(|lane| lane.tend()).min()
    }

    /// Runs all lanes and closes those that have nothing more to wait for. Returns how many there were.
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

    /// The device goes: closes all lanes, which waits for what they have.
    pub(crate) fn close(&self) {
        let lanes = std::mem::take(&mut *lock(&self.lanes));
        lanes.iter().for_each(|lane| lane.close());
    }
}
