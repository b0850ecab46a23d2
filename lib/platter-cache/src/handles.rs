//! The state of each open handle of a cache: its readahead, its counters, and which errors it has reported.

use super::engine::Engine;
use super::policy::{Manners, Policy};
use super::task::Wait;
use crate::readahead::Call;
use platter_block::fault::Fault;
use platter_block::handle::{HandleCounters, HandleId};
use platter_block::time::{Span, Time};
use std::collections::HashMap;
use std::ops::Range;

/// How long a read call that could continue keeps its handle from other calls. If a program runs its lane
/// less often than that, its calls overlap and the policy becomes less exact. Without a limit, a lane that is
/// not run would block all others.
const PATIENCE: Span = Span::from_millis(10);

/// The read call that has exclusive use of a handle.
struct Sole {
    /// The number of the call.
    call: u64,
    /// What it waits for.
    wait: Wait,
    /// When it was first found that the call could continue.
    since: Option<Time>,
}

/// The state of a handle.
pub(super) struct Handle {
    /// Removed while it is being called.
    pub(super) policy: Option<Policy>,
    pub(super) counters: HandleCounters,
    /// Write-back errors up to this one occurred before the handle was opened, or have been reported through
    /// it.
    seen: u64,
    /// The read call in progress, and the lanes that wait for its end, if the policy runs only one call at a
    /// time.
    sole: Option<Sole>,
    waiters: Vec<u32>,
    /// Pages that this handle has read from the disk are evicted first when it has used them.
    pub(super) once: bool,
}

/// Handles by number, at indexes that fit in the two bytes that a frame has for them. The first is the
/// device's own.
pub(super) struct Handles {
    manners: Manners,
    /// The counts of policies are part of those of handles: in one shard of all that share them.
    has_policies: bool,
    places: Vec<Option<Handle>>,
    free: Vec<u16>,
    by_id: HashMap<HandleId, u16>,
    /// Counters of closed handles.
    closed: HandleCounters,
    /// Number of write-back errors so far, and the last one with its position.
    errors: u64,
    last_error: Option<(Fault, u64)>,
    /// Number of exclusive read calls so far.
    calls: u64,
    /// Indexes of handles for which lanes may wait.
    awaited: Vec<u16>,
    /// When the first handle is taken away from a call that does not continue.
    due: Option<Time>,
    /// Pages that the current step of a read needs and has begun to read.
    pub(super) demanded: Vec<Range<u64>>,
}

impl Handles {
    /// With the handle of the device.
    pub(super) fn new(policy: Policy, has_policies: bool) -> Handles {
        let mut handles = Handles {
            manners: Manners::of(&policy),
            has_policies,
            places: Vec::new(),
            free: Vec::new(),
            by_id: HashMap::new(),
            closed: HandleCounters::default(),
            errors: 0,
            last_error: None,
            calls: 0,
            awaited: Vec::new(),
            due: None,
            demanded: Vec::new(),
        };
        handles.open(HandleId::DEVICE, policy);
        handles
    }

    /// A page that a read needs is being read.
    pub(super) fn demand(&mut self, page: u64) {
        match self.demanded.last_mut().filter(|last| last.end == page) {
            Some(last) => last.end += 1,
            None => self.demanded.push(page..page + 1),
        }
    }

    /// Adds a handle. Handles beyond 65,535 share the entry of the device, until they are closed.
    pub(super) fn open(&mut self, id: HandleId, policy: Policy) {
        let full = self.free.is_empty() && self.places.len() > usize::from(u16::MAX);
        if full || self.by_id.contains_key(&id) {
            return;
        }
        let handle = Handle {
            policy: Some(policy),
            counters: HandleCounters::default(),
            seen: self.errors,
            sole: None,
            waiters: Vec::new(),
            once: false,
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            (self.places.len() - 1) as u16
        });
        self.places[usize::from(place)] = Some(handle);
        self.by_id.insert(id, place);
    }

    /// Removes a handle. Its counts stay in the sum.
    ///
    /// Returns its index, and the lanes that waited for its read call and can continue now.
    pub(super) fn close(&mut self, id: HandleId) -> Option<(u16, Vec<u32>)> {
        let place = if id == HandleId::DEVICE { None } else { self.by_id.remove(&id) }?;
        let handle = self.places[usize::from(place)].take()?;
        self.closed.merge(&self.counters_of(&handle));
        self.free.push(place);
        Some((place, handle.waiters))
    }

    /// The index of a handle; that of the device for an unknown one.
    pub(super) fn place(&self, id: HandleId) -> u16 {
        self.own_place(id).unwrap_or(0)
    }

    /// The index of a handle that has one of its own.
    pub(super) fn own_place(&self, id: HandleId) -> Option<u16> {
        self.by_id.get(&id).copied()
    }

    /// The handle at an index. A frame may name an index whose handle is closed.
    pub(super) fn at(&mut self, place: u16) -> Option<&mut Handle> {
        self.places.get_mut(usize::from(place))?.as_mut()
    }

    /// Whether a read call has exclusive use of a handle.
    pub(super) fn is_busy(&self, place: u16) -> bool {
        self.places
            .get(usize::from(place))
            .and_then(Option::as_ref)
            .is_some_and(|handle| handle.sole.is_some())
    }

    /// Begins an exclusive read call. Returns its number, which is not 0.
    pub(super) fn occupy(&mut self, place: u16) -> u64 {
        self.calls += 1;
        let call = self.calls;
        if let Some(handle) = self.at(place) {
            handle.sole = Some(Sole { call, wait: Wait::None, since: None });
            if !handle.waiters.is_empty() {
                self.await_place(place);
            }
        }
        call
    }

    /// Records that an exclusive read call was run and waits.
    pub(super) fn parked(&mut self, place: u16, call: u64, wait: Wait) {
        if let Some(sole) = self.at(place).and_then(|handle| handle.sole.as_mut())
            && sole.call == call
        {
            (sole.wait, sole.since) = (wait, None);
        }
    }

    /// Registers a lane that waits for the end of the exclusive read call. Returns `false` if there is none.
    pub(super) fn wait_for(&mut self, place: u16, lane: u32) -> bool {
        let Some(handle) = self.at(place).filter(|handle| handle.sole.is_some()) else { return false };
        if !handle.waiters.contains(&lane) {
            handle.waiters.push(lane);
        }
        self.await_place(place);
        true
    }

    fn await_place(&mut self, place: u16) {
        if !self.awaited.contains(&place) {
            self.awaited.push(place);
        }
    }

    /// Ends a read call. Returns the lanes that waited for it, unless the handle was taken from it already.
    /// Only one of them continues, so they stay in the list.
    pub(super) fn release(&mut self, place: u16, call: u64) -> &[u32] {
        let Some(handle) = self.at(place) else { return &[] };
        if handle.sole.take_if(|sole| sole.call == call).is_none() {
            return &[];
        }
        &handle.waiters
    }

    /// When [`Engine::pass_handles_on`] has work to do even if nothing else happens.
    pub(super) fn wakeup(&self) -> Option<Time> {
        self.due
    }

    /// Updates the counters of a handle, or those of the device if the handle is closed.
    pub(super) fn count(&mut self, place: u16, count: impl FnOnce(&mut HandleCounters)) {
        match self.places.get_mut(usize::from(place)).and_then(Option::as_mut) {
            Some(handle) => count(&mut handle.counters),
            None => count(&mut self.closed),
        }
    }

    /// Counts pages that are read ahead for a handle.
    pub(super) fn count_ahead(&mut self, place: u16, pages: u32) {
        self.count(place, |counters| counters.pages_read_ahead += u64::from(pages));
        self.policy(place).into_iter().for_each(|policy| policy.count_read(pages));
    }

    /// Counts a page that was read ahead for a handle and is used.
    pub(super) fn count_used(&mut self, place: u16) {
        self.count(place, |counters| counters.pages_used += 1);
        self.policy(place).into_iter().for_each(|policy| policy.count_used());
    }

    /// Counts a page that was read ahead for a handle and is evicted.
    pub(super) fn count_unused(&mut self, place: u16) {
        self.count(place, |counters| counters.pages_evicted_unused += 1);
        self.policy(place).into_iter().for_each(|policy| policy.count_unused());
    }

    /// The counters of a handle.
    pub(super) fn counters(&self, id: HandleId) -> Option<HandleCounters> {
        let place = *self.by_id.get(&id)?;
        self.places[usize::from(place)].as_ref().map(|handle| self.counters_of(handle))
    }

    /// The sum of the counters of all handles, including closed ones.
    pub(super) fn sum(&self) -> HandleCounters {
        let mut sum = self.closed.clone();
        self.places.iter().flatten().for_each(|handle| sum.merge(&self.counters_of(handle)));
        sum
    }

    /// Records a write-back error.
    pub(super) fn failed(&mut self, fault: Fault, pos: u64) {
        self.errors += 1;
        self.last_error = Some((fault, pos));
    }

    /// The last write-back error since the handle was opened or last asked.
    pub(super) fn take_error(&mut self, place: u16) -> Option<(Fault, u64)> {
        let errors = self.errors;
        let handle = self.at(place)?;
        let news = handle.seen != errors;
        handle.seen = errors;
        if news { self.last_error } else { None }
    }

    /// The number of write-back errors.
    pub(super) fn errors(&self) -> u64 {
        self.errors
    }

    /// The last write-back error, with its position.
    pub(super) fn last_error(&self) -> Option<(Fault, u64)> {
        self.last_error
    }

    /// How the policies are to be called.
    pub(super) fn manners(&self) -> Manners {
        self.manners
    }

    /// The readahead of a handle, unless it is being called.
    pub(super) fn policy(&self, place: u16) -> Option<&Policy> {
        self.places.get(usize::from(place))?.as_ref()?.policy.as_ref()
    }

    /// Tells a policy that is called under the lock that a call has ended.
    pub(super) fn end_call(&mut self, place: u16, call: &mut Call) {
        if let Some(policy) = self.at(place).and_then(|handle| handle.policy.as_ref()) {
            policy.lock().policy.end(call);
        }
    }

    fn counters_of(&self, handle: &Handle) -> HandleCounters {
        let policy = handle.policy.as_ref().filter(|_| self.has_policies);
        let readahead = policy.map(|policy| policy.lock().policy.counters()).unwrap_or_default();
        HandleCounters { readahead, ..handle.counters.clone() }
    }
}

impl Engine {
    /// Takes handles from read calls that could have continued for [`PATIENCE`] and have not: their lanes may
    /// not be run.
    pub(super) fn pass_handles_on(&mut self, now: Time) {
        self.handles.due = None;
        let mut at = 0;
        while let Some(&place) = self.handles.awaited.get(at) {
            let wait = self.handles.at(place).and_then(|handle| handle.sole.as_ref()).map(|sole| sole.wait);
            let can_go_on = wait.is_some_and(|wait| self.is_over(wait));
            let Some(sole) = self.handles.at(place).and_then(|handle| handle.sole.as_mut()) else {
                self.handles.awaited.swap_remove(at);
                continue;
            };
            at += 1;
            if !can_go_on {
                sole.since = None;
                continue;
            }
            let until = *sole.since.get_or_insert(now) + PATIENCE;
            if now < until {
                self.handles.due = Time::earliest(self.handles.due, Some(until));
                continue;
            }
            let call = sole.call;
            self.handles.release(place, call).iter().for_each(|&lane| self.lanes.kick(lane));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policies;
    use crate::readahead::{Settings, TABLE};

    #[test]
    fn handles_beyond_the_last_place_share_one_until_a_place_is_free() {
        let settings = Settings { max: 32, optimal: 32, values: Vec::new() };
        let policies = Policies { row: &TABLE[0], settings };
        let mut handles = Handles::new(policies.make(), true);
        let count = u32::from(u16::MAX);
        (1..=count + 1).for_each(|id| handles.open(HandleId(id), policies.make()));
        assert_eq!((handles.place(HandleId(count)), handles.place(HandleId(count + 1))), (u16::MAX, 0));
        assert_eq!(
            (handles.own_place(HandleId::DEVICE), handles.own_place(HandleId(count + 1))),
            (Some(0), None)
        );
        let place = handles.place(HandleId(7));
        handles.close(HandleId(7));
        handles.open(HandleId(count + 2), policies.make());
        assert_eq!(handles.place(HandleId(count + 2)), place);
    }
}
