//! What tasks wait for, besides I/O: locks on ranges, permits, and events.

use super::core::Below;
use super::ranges::{Mode, RangeKey, RangeLocks};
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

impl Below {
    fn current(&self) -> u32 {
        self.core().current
    }

    fn wake_all(&self, tasks: impl IntoIterator<Item = u32>) {
        let mut core = self.core();
        tasks.into_iter().for_each(|task| core.wake(task));
    }
}

/// Locks on ranges that tasks wait for, in order; see [`RangeLocks`].
pub struct Ranges {
    below: Below,
    locks: Mutex<RangeLocks<u32>>,
}

impl Ranges {
    /// No locks.
    pub fn new(below: &Below) -> Arc<Ranges> {
        Arc::new(Ranges { below: below.clone(), locks: Mutex::default() })
    }

    /// Waits for a lock on a range that is not empty. The lock is held until the result is dropped.
    pub fn lock(
        self: &Arc<Self>,
        range: Range<u64>,
        mode: Mode,
    ) -> impl Future<Output = RangeLock> + Send + use<> {
        let task = self.below.current();
        let (key, _) = lock(&self.locks).lock(range, mode, task);
        let mut held = Some(RangeLock { ranges: Arc::clone(self), key });
        poll_fn(move |_| {
            let is_granted = held.as_ref().is_none_or(|held| lock(&held.ranges.locks).is_granted(held.key));
            match held.take_if(|_| is_granted) {
                Some(held) => Poll::Ready(held),
                None => Poll::Pending,
            }
        })
    }
}

/// A lock on a range, or a request for one.
pub struct RangeLock {
    ranges: Arc<Ranges>,
    key: RangeKey,
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        let mut granted = Vec::new();
        let mut locks = lock(&self.ranges.locks);
        locks.unlock(self.key, &mut granted);
        let tasks: Vec<u32> = granted.iter().filter_map(|&key| locks.get_mut(key).copied()).collect();
        drop(locks);
        self.ranges.below.wake_all(tasks);
    }
}

/// A number of permits, given to tasks in the order in which they asked: it bounds what runs at once, such as copies and
/// the memory that they use.
pub struct Permits {
    below: Below,
    state: Mutex<PermitState>,
}

struct PermitState {
    free: u32,
    line: VecDeque<(u64, u32)>,
    turns: u64,
}

impl Permits {
    /// `count` permits.
    pub fn new(below: &Below, count: u32) -> Arc<Permits> {
        let state = PermitState { free: count, line: VecDeque::new(), turns: 0 };
        Arc::new(Permits { below: below.clone(), state: Mutex::new(state) })
    }

    /// Waits for a permit. It is returned when the result is dropped.
    pub fn take(self: &Arc<Self>) -> impl Future<Output = Permit> + Send + use<> {
        let permits = Arc::clone(self);
        let mut turn = None;
        poll_fn(move |_| {
            let task = permits.below.current();
            let mut state = lock(&permits.state);
            let own = *turn.get_or_insert_with(|| {
                state.turns += 1;
                let own = state.turns;
                state.line.push_back((own, task));
                own
            });
            if state.free == 0 || state.line.front().is_none_or(|&(first, _)| first != own) {
                return Poll::Pending;
            }
            state.free -= 1;
            state.line.pop_front();
            let next = state.line.front().filter(|_| state.free > 0).map(|&(_, task)| task);
            drop(state);
            permits.below.wake_all(next);
            Poll::Ready(Permit(Arc::clone(&permits)))
        })
    }
}

/// A permit, until it is dropped.
pub struct Permit(Arc<Permits>);

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.free += 1;
        let next = state.line.front().map(|&(_, task)| task);
        drop(state);
        self.0.below.wake_all(next);
    }
}

/// Something that happens again and again, and that tasks wait for.
pub struct Event {
    below: Below,
    state: Mutex<(u64, Vec<u32>)>,
}

impl Event {
    /// An event that has not happened.
    pub fn new(below: &Below) -> Arc<Event> {
        Arc::new(Event { below: below.clone(), state: Mutex::default() })
    }

    /// Waits until the event happens after this call.
    pub fn wait(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let event = Arc::clone(self);
        let before = lock(&event.state).0;
        poll_fn(move |_| {
            let task = event.below.current();
            let mut state = lock(&event.state);
            if state.0 != before {
                return Poll::Ready(());
            }
            if !state.1.contains(&task) {
                state.1.push(task);
            }
            Poll::Pending
        })
    }

    /// It happens: all tasks that wait continue. Code that is no task calls [`Frame::announce`](super::Frame::announce)
    /// afterwards: otherwise they continue when a lane is run for another reason.
    pub fn happen(&self) {
        let mut state = lock(&self.state);
        state.0 += 1;
        let tasks = std::mem::take(&mut state.1);
        drop(state);
        self.below.wake_all(tasks);
    }
}
