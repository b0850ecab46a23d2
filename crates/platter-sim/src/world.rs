//! What the disks of one simulation share: a clock and a seed.

use platter_block::time::{Time, VirtualClock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A simulation: one clock, one seed, any number of disks.
///
/// Time passes when somebody waits. A single thread that drives all of it sees the same run for the same
/// seed; threads of their own can wait too, but who comes first is then the host's affair.
pub struct World {
    clock: Arc<VirtualClock>,
    seed: u64,
    horizons: Mutex<Vec<Weak<Horizon>>>,
}

/// When something happens next on a disk, for those who look at all disks without their locks.
#[derive(Debug)]
pub(crate) struct Horizon(AtomicU64);

const NEVER: u64 = u64::MAX;

impl Horizon {
    pub(crate) fn set(&self, at: Option<Time>) {
        self.0.store(at.map_or(NEVER, |at| at.0), Ordering::Release);
    }

    fn get(&self) -> Option<Time> {
        Some(self.0.load(Ordering::Acquire)).filter(|&at| at != NEVER).map(Time)
    }
}

impl World {
    /// A world at time 0 without disks.
    pub fn new(seed: u64) -> Arc<World> {
        let clock = Arc::new(VirtualClock::new());
        Arc::new(World { clock, seed, horizons: Mutex::new(Vec::new()) })
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<VirtualClock> {
        &self.clock
    }

    /// The seed that decides everything random.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn add(&self) -> Arc<Horizon> {
        let horizon = Arc::new(Horizon(AtomicU64::new(NEVER)));
        let mut all = self.horizons.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&horizon));
        horizon
    }

    /// When something happens next on any disk without another command.
    pub fn next_event(&self) -> Option<Time> {
        let all = self.horizons.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(|disk| disk.upgrade()?.get()).min()
    }

    /// Lets time pass until the next event of any disk, but not past `limit`. `false`: there is neither.
    pub fn pass(&self, limit: Option<Time>) -> bool {
        let Some(at) = Time::earliest(self.next_event(), limit) else { return false };
        self.clock.advance_to(at);
        true
    }
}
