//! Lanes that an event loop of the program runs itself, looked after by the service thread.

use super::{AsyncLane, AsyncState, Next, TICK};
use crate::sync::{MutexGuard, lock};
use platter_block::time::Time;
use std::sync::Arc;

impl AsyncState {
    /// Whether an event loop runs the lane and can see on descriptors when.
    pub(super) fn is_driven(&self) -> bool {
        self.drivers > 0 && !self.unlisted
    }
}

impl AsyncLane {
    /// An event loop runs the lane from now on. In a simulation it does not, since only threads that wait advance the time.
    pub(crate) fn attach(&self) {
        if self.clock.simulated().is_none() {
            lock(&self.state).drivers += 1;
        }
    }

    /// The event loop does not run the lane any more: the service thread does, with its next look.
    pub(crate) fn detach(self: &Arc<Self>) {
        if self.clock.simulated().is_some() {
            return;
        }
        let mut state = lock(&self.state);
        state.drivers -= 1;
        let is_idle = state.lane.is_idle();
        drop(state);
        if !is_idle {
            self.watch(true);
        }
    }

    /// Runs the lane for an event loop. Appends the descriptors that show when to do so again, and returns by when at the latest.
    /// `None`: they do not show everything, and the service thread runs the lane too.
    pub(crate) fn drive(&self, handles: &mut Vec<i32>) -> Option<Option<Time>> {
        let mut state = lock(&self.state);
        if let Some(clock) = self.clock.simulated() {
            if clock.is_by_hand() {
                state.turn(&self.clock);
                state.lane.next_wakeup().into_iter().for_each(|at| clock.advance_to(at));
            }
            return None;
        }
        state.turn(&self.clock);
        state.unlisted = !state.lane.wait_handles(handles);
        (!state.unlisted).then(|| state.lane.next_wakeup().filter(|_| !state.lane.is_idle()))
    }

    /// Runs a lane that an event loop should run, if that is late or the lane was called.
    pub(super) fn look_after(&self, mut state: MutexGuard<'_, AsyncState>, only_late: bool) -> Next {
        let now = self.clock.now();
        let is_late = state.turns == state.seen;
        let is_due = state.lane.next_wakeup().is_some_and(|at| at <= now);
        if is_late || is_due || !only_late {
            state.turn(&self.clock);
        }
        state.seen = state.turns;
        if is_late && state.lane.is_idle() {
            return self.let_go(state);
        }
        state.wakes_at = Time::earliest(state.lane.next_wakeup(), Some(now + TICK));
        Next::Sleep(state.wakes_at)
    }

    /// Hands over I/Os that were polled and wait for others, before an I/O of the device that must not pass them.
    pub(crate) fn hand_over_deferred(self: &Arc<Self>) {
        let deferred = lock(&self.state).deferred > 0;
        if deferred {
            self.hand_over();
        }
    }

    /// Number of I/Os that wait to be handed over with others.
    #[cfg(test)]
    pub(crate) fn deferred(&self) -> u32 {
        lock(&self.state).deferred
    }
}
