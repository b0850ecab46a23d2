//! The lanes of synchronous callers: lent for a call, limited in number, and closed when they are no longer needed.
//!
//! A lane costs a driver channel (a ring, descriptors), hence the limit. A caller that finds no idle lane opens one;
//! at the limit, or if the system refuses another one, it waits until a call of another thread or a lane set aside ends.

use crate::sync::{Condvar, Mutex, lock};
use std::time::Duration;

/// Idle lanes that are kept open however long they are idle.
const KEEP: usize = 4;
/// After the system has refused a lane, one in this many further callers tries to open a lane instead of waiting.
const RETRY: u32 = 64;

/// A pool of lanes of type `L`; generic, so that a model checker can run it with a simpler type.
pub(crate) struct LanePool<L> {
    state: Mutex<PoolState<L>>,
    /// Notified when a lane is returned, set aside or closed, or may be over.
    changed: Condvar,
    most: usize,
}

struct PoolState<L> {
    /// Unused lanes, the last used one at the end.
    idle: Vec<L>,
    /// Lanes that exist: idle, lent, or set aside.
    open: usize,
    /// Lanes set aside because the disk still has a request that was given up.
    aside: usize,
    /// The disk may have returned all that some of these wait for, and no caller has looked yet.
    is_over: bool,
    waiting: usize,
    /// Callers that have waited since the system refused a lane; `None`: no refusal.
    refused: Option<u32>,
    /// Smallest number of idle lanes since the last [`LanePool::trim`].
    least_idle: usize,
}

/// Why there is no lane.
pub(crate) enum NoLane<E> {
    /// There is no lane, and none can be opened.
    Failed(E),
    /// All allowed lanes are set aside.
    AllAside,
    /// No lane was returned in time, or, before that, some that were set aside may be over.
    Late,
}

impl<L> LanePool<L> {
    /// A pool of at most `most` lanes, at least one.
    pub(crate) fn new(most: usize) -> LanePool<L> {
        let (idle, is_over, refused) = (Vec::new(), false, None);
        let state = PoolState { idle, open: 0, aside: 0, is_over, waiting: 0, refused, least_idle: 0 };
        LanePool { state: Mutex::new(state), changed: Condvar::new(), most: most.max(1) }
    }

    /// Takes an idle lane, opens one, or waits for one, at most for the time that `left` returns; it is called before
    /// each wait.
    pub(crate) fn take<E>(
        &self,
        open: impl Fn() -> Result<L, E>,
        left: impl Fn() -> Option<Duration>,
    ) -> Result<L, NoLane<E>> {
        let mut state = lock(&self.state);
        loop {
            if let Some(lane) = state.idle.pop() {
                state.least_idle = state.least_idle.min(state.idle.len());
                return Ok(lane);
            }
            if state.may_open(self.most) {
                state.open += 1;
                drop(state);
                let opened = open();
                state = lock(&self.state);
                state.refused = opened.is_err().then_some(0);
                let error = match opened {
                    Ok(lane) => return Ok(lane),
                    Err(error) => error,
                };
                state.open -= 1;
                if state.open == state.aside {
                    // There is nothing to wait for; other waiting callers find that out themselves.
                    state.refused = None;
                    self.changed.notify_all();
                    return Err(NoLane::Failed(error));
                }
                continue;
            }
            if std::mem::take(&mut state.is_over) {
                return Err(NoLane::Late);
            }
            if state.open == state.aside {
                return Err(NoLane::AllAside);
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                return Err(NoLane::Late);
            }
            state.waiting += 1;
            state = match left {
                None => self.changed.wait(state),
                Some(left) => self.changed.wait_for(state, left),
            };
            state.waiting -= 1;
        }
    }

    /// Returns a lane.
    pub(crate) fn put(&self, lane: L) {
        let mut state = lock(&self.state);
        state.idle.push(lane);
        if state.waiting > 0 {
            drop(state);
            self.changed.notify_one();
        }
    }

    /// A lane that was taken has been closed. The system may now give what it refused before.
    pub(crate) fn closed(&self) {
        let mut state = lock(&self.state);
        (state.open, state.refused) = (state.open - 1, None);
        drop(state);
        self.changed.notify_all();
    }

    /// A lane that was taken is set aside: it exists but cannot be taken.
    pub(crate) fn set_aside(&self) {
        lock(&self.state).aside += 1;
        self.changed.notify_all();
    }

    /// The disk may have returned all that lanes set aside wait for: a caller that waits is to close them.
    pub(crate) fn over(&self) {
        let mut state = lock(&self.state);
        state.is_over = state.aside > 0;
        drop(state);
        self.changed.notify_all();
    }

    /// `count` lanes that were set aside are being closed, and callers may wait for that.
    pub(crate) fn closing(&self, count: usize) {
        lock(&self.state).aside -= count;
    }

    /// Removes the lanes that were idle for the whole time since the last call, except a few. The caller must drop
    /// them without a lock held.
    pub(crate) fn trim(&self) -> Vec<L> {
        let mut state = lock(&self.state);
        // The lanes at the bottom were not used.
        let unused = state.least_idle.saturating_sub(KEEP);
        let gone = state.idle.drain(..unused).collect();
        state.open -= unused;
        state.least_idle = state.idle.len();
        gone
    }

    /// Removes all idle lanes, because the system refused to open something else.
    pub(crate) fn empty(&self) -> Vec<L> {
        let mut state = lock(&self.state);
        state.least_idle = 0;
        state.open -= state.idle.len();
        std::mem::take(&mut state.idle)
    }

    /// Number of lanes that exist.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        lock(&self.state).open
    }
}

impl<L> PoolState<L> {
    fn may_open(&mut self, most: usize) -> bool {
        if self.open >= most {
            return false;
        }
        match &mut self.refused {
            None => true,
            // No lane is left that could be returned: there is nothing to wait for.
            Some(_) if self.open == self.aside => true,
            Some(waited) => {
                *waited += 1;
                waited.is_multiple_of(RETRY)
            }
        }
    }
}
