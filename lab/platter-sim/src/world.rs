//! The state that the disks of one simulation share: a clock and a seed.

use crate::bus::Fabric;
use platter_block::time::{Time, VirtualClock, Watch};
use stall::{Call, CallWatch};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

mod stall;

pub use stall::Stalled;

/// A simulation: one clock, one seed, any number of disks.
///
/// Time advances when a caller waits. A single thread that runs all of it sees the same run for the same
/// seed. Several threads may wait too, but then the order depends on the host.
pub struct World {
    clock: Arc<VirtualClock>,
    seed: u64,
    horizons: Mutex<Vec<Weak<Horizon>>>,
    buses: Arc<Fabric>,
    /// Number of calls for which time stood still.
    stands: AtomicU32,
    calls: Option<Arc<CallWatch>>,
}

/// The time of a disk's next event, readable without the disk's lock.
#[derive(Debug)]
pub(crate) struct Horizon(AtomicU64);

const NEVER: u64 = u64::MAX;

/// Number of calls for which time stands still while a completion can be collected.
const PATIENCE: u32 = 32;

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
        World::with(seed, VirtualClock::new(), None)
    }

    /// A world in which one thread does everything, see [`VirtualClock::by_hand`].
    pub fn by_hand(seed: u64) -> Arc<World> {
        let calls = Arc::new(CallWatch::default());
        World::with(seed, VirtualClock::by_hand(Arc::clone(&calls) as Arc<dyn Watch>), Some(calls))
    }

    fn with(seed: u64, clock: VirtualClock, calls: Option<Arc<CallWatch>>) -> Arc<World> {
        Arc::new(World {
            clock: Arc::new(clock),
            calls,
            seed,
            horizons: Mutex::new(Vec::new()),
            buses: Fabric::new(),
            stands: AtomicU32::new(0),
        })
    }

    /// Watches a synchronous call that begins now, in a world [by hand](World::by_hand). Calls `act` if the
    /// call reads the clock `looks` times while time stands still, 200 times as often while time passes (and
    /// `looks` / 25 times more for each millisecond that passed), or after `until`; a call that never returns
    /// does that. `act` runs inside the call and may block its thread.
    pub fn watch_call(&self, looks: u32, until: Time, act: impl Fn(Stalled) + Send + Sync + 'static) {
        if let Some(calls) = &self.calls {
            let began = self.clock.now();
            let call = Call { looks, until, began, at: began, looked: 0, total: 0, act: Arc::new(act) };
            calls.set(Some(call));
        }
    }

    /// The call has returned.
    pub fn end_call(&self) {
        if let Some(calls) = &self.calls {
            calls.set(None);
        }
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<VirtualClock> {
        &self.clock
    }

    /// The seed of all random numbers.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The buses that its disks share.
    pub fn buses(&self) -> &Arc<Fabric> {
        &self.buses
    }

    pub(crate) fn add(&self) -> Arc<Horizon> {
        let horizon = Arc::new(Horizon(AtomicU64::new(NEVER)));
        let mut all = self.horizons.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.strong_count() > 0);
        all.push(Arc::downgrade(&horizon));
        horizon
    }

    /// The time of the next event of any disk without another command.
    pub fn next_event(&self) -> Option<Time> {
        let all = self.horizons.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(|disk| disk.upgrade()?.get()).min()
    }

    /// Advances time to the next event of any disk, but not past `limit`. `false`: there is neither.
    ///
    /// While a disk has completions to report, time stands still for some calls, so that their owner can
    /// collect them. Then time advances to the next event after that, because the owner may not be polling
    /// that disk.
    pub fn pass(&self, limit: Option<Time>) -> bool {
        let now = self.clock.now();
        let (mut due, mut next) = (false, None);
        for at in self.horizons.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let Some(at) = at.upgrade().and_then(|horizon| horizon.get()) else { continue };
            match at <= now {
                true => due = true,
                false => next = Time::earliest(next, Some(at)),
            }
        }
        if due && self.stands.fetch_add(1, Ordering::Relaxed) < PATIENCE {
            std::thread::yield_now();
            return true;
        }
        self.stands.store(0, Ordering::Relaxed);
        let Some(at) = Time::earliest(next, limit) else { return due };
        self.clock.advance_to(at);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_nobody_looks_at_does_not_stop_time() {
        let world = World::new(1);
        let (unseen, seen) = (world.add(), world.add());
        unseen.set(Some(Time(50)));
        seen.set(Some(Time(100)));
        // First to the next event, so that its owner can collect it.
        assert!(world.pass(None));
        assert_eq!(world.clock().now(), Time(50));
        let steps = (0..1000).take_while(|_| world.pass(None) && world.clock().now() < Time(100)).count();
        assert_eq!((world.clock().now(), steps), (Time(100), PATIENCE as usize));
        // There are no further events, but a completion can be collected.
        assert!((0..1000).all(|_| world.pass(None)));
        assert_eq!(world.clock().now(), Time(100));
        unseen.set(None);
        seen.set(None);
        assert!(!world.pass(None));
        assert!(world.pass(Some(Time(120))));
        assert_eq!(world.clock().now(), Time(120));
    }
}
