//! The lanes of synchronous callers: lent for a call, limited in number, and closed when they are no longer needed.
//!
//! A lane costs a driver channel (a ring, descriptors), hence the limit. A caller that finds no idle lane opens one;
//! at the limit, or if the system refuses another one, it waits until a call of another thread ends.

use crate::sync::{Condvar, Mutex, lock};

/// Idle lanes that are kept open however long they are idle.
const KEEP: usize = 4;
/// After the system has refused a lane, one in this many further callers tries to open a lane instead of waiting.
const RETRY: u32 = 64;

/// A pool of lanes of type `L`; generic, so that a model checker can run it with a simpler type.
pub(crate) struct LanePool<L> {
    state: Mutex<PoolState<L>>,
    /// Notified when a lane is returned or closed.
    changed: Condvar,
    most: usize,
}

struct PoolState<L> {
    /// Unused lanes, the last used one at the end.
    idle: Vec<L>,
    /// Lanes that exist: idle or lent.
    open: usize,
    waiting: usize,
    /// Callers that have waited since the system refused a lane; `None`: no refusal.
    refused: Option<u32>,
    /// Smallest number of idle lanes since the last [`LanePool::trim`].
    least_idle: usize,
}

impl<L> LanePool<L> {
    /// A pool of at most `most` lanes, at least one.
    pub(crate) fn new(most: usize) -> LanePool<L> {
        let state = PoolState { idle: Vec::new(), open: 0, waiting: 0, refused: None, least_idle: 0 };
        LanePool { state: Mutex::new(state), changed: Condvar::new(), most: most.max(1) }
    }

    /// Takes an idle lane, opens one, or waits for one.
    ///
    /// # Errors
    /// There is no lane, and none can be opened.
    pub(crate) fn take<E>(&self, open: impl Fn() -> Result<L, E>) -> Result<L, E> {
        let mut state = lock(&self.state);
        loop {
            if let Some(lane) = state.idle.pop() {
                state.least_idle = state.least_idle.min(state.idle.len());
                return Ok(lane);
            }
            if !state.may_open(self.most) {
                state.waiting += 1;
                state = self.changed.wait(state);
                state.waiting -= 1;
                continue;
            }
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
            if state.open == 0 {
                // There is nothing to wait for; other waiting callers find that out themselves.
                state.refused = None;
                self.changed.notify_all();
                return Err(error);
            }
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

    /// Whether a caller that finds no idle lane would open one; counts as such a caller.
    #[cfg(test)]
    pub(crate) fn would_open(&self) -> bool {
        lock(&self.state).may_open(self.most)
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
            Some(_) if self.open == 0 => true,
            Some(waited) => {
                *waited += 1;
                waited.is_multiple_of(RETRY)
            }
        }
    }
}
