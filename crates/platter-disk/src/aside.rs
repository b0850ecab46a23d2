//! Lanes that only wait for the disk to return a request that a synchronous call gave up.

use crate::clock::Clock;
use crate::future::AsyncLane;
use crate::sync::{Mutex, lock};
use platter_block::lane::{Bell, Lane};
use platter_block::time::Time;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Lanes of a device that were set aside. The service thread runs them. If it does not, because time is simulated or
/// the thread cannot be started, every synchronous call runs them while it waits. The thread that runs them rings when one has
/// nothing left to wait for.
#[derive(Default)]
pub(crate) struct Aside {
    lanes: Mutex<Vec<Arc<AsyncLane>>>,
    /// Whether calls run the lanes.
    is_ours: AtomicBool,
    /// Tells the calls that wait for a lane.
    bell: Option<Weak<dyn Bell>>,
}

impl Aside {
    pub(crate) fn new(bell: Weak<dyn Bell>) -> Aside {
        Aside { bell: Some(bell), ..Aside::default() }
    }

    pub(crate) fn add(&self, lane: Box<dyn Lane>, clock: Clock) {
        let is_simulated = clock.simulated().is_some();
        let lane = Arc::new(AsyncLane::new(lane, clock).with_bell(self.bell.clone()));
        lock(&self.lanes).push(Arc::clone(&lane));
        if is_simulated || !lane.watch(true) {
            self.is_ours.store(true, Ordering::Relaxed);
            // Calls that wait already do not know that they have to run it.
            self.ring();
        }
    }

    /// Whether calls run the lanes.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours.load(Ordering::Relaxed)
    }

    fn ring(&self) {
        self.bell.iter().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
    }

    /// Runs the lanes if no thread does. Returns when they must be run next.
    #[inline]
    pub(crate) fn help(&self) -> Option<Time> {
        if self.is_ours() { self.run() } else { None }
    }

    #[cold]
    fn run(&self) -> Option<Time> {
        let lanes = lock(&self.lanes);
        let next = lanes.iter().filter_map(|lane| lane.tend()).min();
        if lanes.iter().any(|lane| lane.is_idle()) {
            self.ring();
        }
        next
    }

    /// Runs all lanes and takes out those that have nothing left to wait for. The caller closes them; `tell` is called
    /// with their number before another thread can miss them here.
    pub(crate) fn take_idle(&self, tell: impl FnOnce(usize)) -> Vec<Arc<AsyncLane>> {
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
        tell(over.len());
        drop(lanes);
        over
    }

    /// The device is being closed: closes all lanes, which waits for their requests.
    pub(crate) fn close(&self) {
        let lanes = std::mem::take(&mut *lock(&self.lanes));
        lanes.iter().for_each(|lane| lane.close());
    }
}
