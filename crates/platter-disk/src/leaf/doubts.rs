//! What requests that were given up may still change, on all queues of a device.
//!
//! Each queue tells of its own requests before it hands out the bios that it gave up. While there are any, a bit in the
//! gate sends the bios of all lanes to the shared queue, which is told of the ranges and holds what overlaps them. So the
//! ranges are looked at in one place, and lanes pay nothing while there are none.

use super::gate::Gate;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};

/// A queue of the device. Unlike a lane's place, its number is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// The shared queue.
    pub(crate) const CONTROL: Owner = Owner(0);
}

struct Range {
    owner: Owner,
    tag: u32,
    pos: u64,
    end: u64,
}

#[derive(Default)]
struct State {
    ranges: Vec<Range>,
    /// Requests that keep a place with the driver although nothing waits for them.
    quarantined: Vec<(Owner, u32)>,
}

pub(crate) struct Doubts {
    state: Mutex<State>,
    /// How often the state has changed.
    version: AtomicU32,
    owners: AtomicU32,
    depth: u32,
}

impl Doubts {
    /// For a device that takes `depth` requests at a time.
    pub(crate) fn new(depth: u32) -> Doubts {
        let (version, owners) = (AtomicU32::new(0), AtomicU32::new(1));
        Doubts { state: Mutex::new(State::default()), version, owners, depth }
    }

    /// The number of a new queue.
    pub(crate) fn new_owner(&self) -> Owner {
        Owner(self.owners.fetch_add(1, Ordering::SeqCst))
    }

    /// Changes the state, and the gate with it.
    fn change(&self, gate: &Gate, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        gate.set_doubt(!state.ranges.is_empty(), state.quarantined.len() >= self.depth as usize);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn add_range(&self, gate: &Gate, owner: Owner, tag: u32, pos: u64, len: u64) {
        self.change(gate, |state| state.ranges.push(Range { owner, tag, pos, end: pos + len }));
    }

    pub(crate) fn add_quarantined(&self, gate: &Gate, owner: Owner, tag: u32) {
        self.change(gate, |state| state.quarantined.push((owner, tag)));
    }

    /// The driver has returned a request.
    pub(crate) fn remove(&self, gate: &Gate, owner: Owner, tag: u32) {
        self.change(gate, |state| {
            state.ranges.retain(|range| (range.owner, range.tag) != (owner, tag));
            state.quarantined.retain(|&request| request != (owner, tag));
        });
    }

    /// The driver of a queue has returned everything.
    pub(crate) fn remove_owner(&self, gate: &Gate, owner: Owner) {
        self.change(gate, |state| {
            state.ranges.retain(|range| range.owner != owner);
            state.quarantined.retain(|request| request.0 != owner);
        });
    }

    /// How often anything has changed.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::SeqCst)
    }

    /// Calls `tell` with the ranges of all queues but `owner`'s, and whether the device is stuck.
    pub(crate) fn others<R>(&self, owner: Owner, tell: impl FnOnce(&[(u64, u64)], bool) -> R) -> R {
        let state = lock(&self.state);
        let others = state.ranges.iter().filter(|range| range.owner != owner);
        let ranges: Vec<(u64, u64)> = others.map(|range| (range.pos, range.end)).collect();
        let stuck = state.quarantined.len() >= self.depth as usize;
        drop(state);
        tell(&ranges, stuck)
    }
}
