//! Ranges that given-up requests may still change, on all queues of a device.
//!
//! Each queue reports its own requests before it returns the bios that it gave up. While there are any, a bit in the
//! gate sends the bios of all lanes to the shared queue, which knows the ranges and holds bios that overlap them. The
//! ranges are therefore checked in one place, and cost lanes nothing while there are none.

use super::gate::Gate;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};

/// A queue of the device. Unlike the index of a lane, this number is not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u32);

impl Owner {
    /// The shared queue.
    pub(crate) const CONTROL: Owner = Owner(0);
}

/// A given-up request. Its tag may be reused as soon as it is returned; its serial number is not.
#[derive(Clone, Copy)]
struct Request {
    owner: Owner,
    tag: u32,
    serial: u64,
}

struct Range {
    request: Request,
    pos: u64,
    end: u64,
}

#[derive(Default)]
struct State {
    ranges: Vec<Range>,
    /// Requests that keep a place with the driver although nothing waits for them.
    quarantined: Vec<Request>,
    /// The serial number of the last request.
    serial: u64,
}

impl State {
    fn request(&mut self, owner: Owner, tag: u32) -> Request {
        self.serial += 1;
        Request { owner, tag, serial: self.serial }
    }

    fn remove(&mut self, which: impl Fn(&Request) -> bool) {
        self.ranges.retain(|range| !which(&range.request));
        self.quarantined.retain(|request| !which(request));
    }
}

pub(crate) struct Doubts {
    state: Mutex<State>,
    /// Number of changes of the state.
    version: AtomicU32,
    owners: AtomicU32,
    depth: u32,
}

impl Doubts {
    /// The state of a device that takes `depth` requests at a time.
    pub(crate) fn new(depth: u32) -> Doubts {
        let (version, owners) = (AtomicU32::new(0), AtomicU32::new(1));
        Doubts { state: Mutex::new(State::default()), version, owners, depth }
    }

    /// The number of a new queue.
    pub(crate) fn new_owner(&self) -> Owner {
        Owner(self.owners.fetch_add(1, Ordering::SeqCst))
    }

    /// Whether given-up requests hold the whole depth.
    fn is_stuck(&self, state: &State) -> bool {
        state.quarantined.len() >= self.depth as usize
    }

    /// Changes the state, and updates the gate.
    fn change(&self, gate: &Gate, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.state);
        change(&mut state);
        gate.set_doubt(!state.ranges.is_empty(), self.is_stuck(&state));
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn add_range(&self, gate: &Gate, owner: Owner, tag: u32, pos: u64, len: u64) {
        self.change(gate, |state| {
            let request = state.request(owner, tag);
            state.ranges.push(Range { request, pos, end: pos + len });
        });
    }

    pub(crate) fn add_quarantined(&self, gate: &Gate, owner: Owner, tag: u32) {
        self.change(gate, |state| {
            let request = state.request(owner, tag);
            state.quarantined.push(request);
        });
    }

    /// The driver has returned a request.
    pub(crate) fn remove(&self, gate: &Gate, owner: Owner, tag: u32) {
        self.change(gate, |state| state.remove(|request| (request.owner, request.tag) == (owner, tag)));
    }

    /// Whether the driver has any request that a queue has given up.
    #[allow(dead_code, reason = "what looks at the state from outside is not in the models")]
    pub(crate) fn has_given_up(&self, owner: Owner) -> bool {
        let state = lock(&self.state);
        let requests = state.ranges.iter().map(|range| &range.request);
        requests.chain(&state.quarantined).any(|request| request.owner == owner)
    }

    /// Removes requests that the device has completed although the driver has not returned them. `outstanding`
    /// returns how many requests the device has of a queue, if that can be seen. Returns whether anything is left.
    pub(crate) fn forget_complete(&self, gate: &Gate, outstanding: impl Fn(Owner) -> Option<u32>) -> bool {
        let state = lock(&self.state);
        let requests = state.ranges.iter().map(|range| &range.request).chain(&state.quarantined);
        let mut owners: Vec<Owner> = requests.map(|request| request.owner).collect();
        let last = state.serial;
        drop(state);
        owners.dedup();
        let before = owners.len();
        owners.retain(|&owner| outstanding(owner) == Some(0));
        for &owner in &owners {
            // Not requests that the owner has given up since, perhaps with the tag of a request that was returned.
            let is_complete = |request: &Request| request.owner == owner && request.serial <= last;
            self.change(gate, |state| state.remove(is_complete));
        }
        owners.len() < before
    }

    /// The driver of a queue has returned everything.
    pub(crate) fn remove_owner(&self, gate: &Gate, owner: Owner) {
        self.change(gate, |state| state.remove(|request| request.owner == owner));
    }

    /// The queues whose requests have ranges in doubt, except the shared one.
    #[allow(dead_code, reason = "what looks at the state from outside is not in the models")]
    pub(crate) fn owners(&self) -> Vec<Owner> {
        let state = lock(&self.state);
        let mut owners: Vec<Owner> = state.ranges.iter().map(|range| range.request.owner).collect();
        owners.retain(|&owner| owner != Owner::CONTROL);
        owners.sort_by_key(|owner| owner.0);
        owners.dedup();
        owners
    }

    /// The ranges in doubt of some queues: first byte, and byte past the last.
    #[allow(dead_code, reason = "what looks at the state from outside is not in the models")]
    pub(crate) fn ranges_of(&self, owners: &[Owner]) -> Vec<(u64, u64)> {
        let state = lock(&self.state);
        let of_them = state.ranges.iter().filter(|range| owners.contains(&range.request.owner));
        of_them.map(|range| (range.pos, range.end)).collect()
    }

    /// Number of requests in quarantine, and of ranges in doubt.
    pub(crate) fn count(&self) -> (u64, u64) {
        let state = lock(&self.state);
        (state.quarantined.len() as u64, state.ranges.len() as u64)
    }

    /// Number of changes so far.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::SeqCst)
    }

    /// Calls `tell` with the ranges of all queues except `owner`'s, and with whether the device is stuck.
    pub(crate) fn others<R>(&self, owner: Owner, tell: impl FnOnce(&[(u64, u64)], bool) -> R) -> R {
        let state = lock(&self.state);
        let others = state.ranges.iter().filter(|range| range.request.owner != owner);
        let ranges: Vec<(u64, u64)> = others.map(|range| (range.pos, range.end)).collect();
        let stuck = self.is_stuck(&state);
        drop(state);
        tell(&ranges, stuck)
    }
}
