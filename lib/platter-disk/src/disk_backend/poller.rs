//! Chooses which of the sleeping lanes polls the driver of the shared queue.
//!
//! With an elevator all lanes wait for one driver. If each of them polled its descriptor, each completion would wake
//! all of them. So one lane polls it, runs the queue and posts completions; the others sleep on their own bells. When
//! the polling lane stops sleeping, another one is rung and takes over.
//!
//! Example: lanes 1, 2 and 3 sleep, lane 1 polls. The bio of lane 2 completes: lane 1 wakes, runs the queue, puts the bio into lane 2's mailbox, rings it,
//! and sleeps on. Then lane 1's own bio completes: lane 1 returns to its caller and rings lane 3, which has slept longest and polls from now on.

use crate::sync::{Mutex, lock};

/// Tells which of the lanes that sleep with bios in the shared queue polls. Lanes are identified by their routes.
pub(crate) struct Poller(Mutex<State>);

struct State {
    /// The lane that polls the driver.
    polls: Option<u32>,
    /// The lane that has been rung to take over and has not responded yet.
    called: Option<u32>,
    /// Lanes that sleep only on their bells, the one that has slept longest first.
    others: Vec<u32>,
}

impl State {
    fn forget(&mut self, lane: u32) {
        self.called = self.called.filter(|&called| called != lane);
        if let Some(at) = self.others.iter().position(|&other| other == lane) {
            self.others.remove(at);
        }
    }
}

impl Poller {
    pub(crate) fn new() -> Poller {
        Poller(Mutex::new(State { polls: None, called: None, others: Vec::new() }))
    }

    /// A lane is about to sleep; from here on its bell must wake it. Returns whether it has to poll the driver. May
    /// be called repeatedly until [`leave`](Poller::leave).
    pub(crate) fn enter(&self, lane: u32) -> bool {
        let mut state = lock(&self.0);
        let is_other = |other: u32| other != lane;
        if state.polls.is_some_and(is_other) || state.called.is_some_and(is_other) {
            if !state.others.contains(&lane) {
                state.others.push(lane);
            }
            return false;
        }
        state.forget(lane);
        state.polls = Some(lane);
        true
    }

    /// A lane has stopped sleeping. Returns the lane that takes over, which the caller must ring.
    #[must_use]
    pub(crate) fn leave(&self, lane: u32) -> Option<u32> {
        let mut state = lock(&self.0);
        state.forget(lane);
        state.polls = state.polls.filter(|&polls| polls != lane);
        if state.polls.is_some() || state.called.is_some() {
            return None;
        }
        // Bios mostly complete in the order of submission. The lane that polls is therefore mostly the one that the
        // next completion is for, and wakes no other lane before it returns.
        state.called = (!state.others.is_empty()).then(|| state.others.remove(0));
        state.called
    }

    /// Whether a lane has been rung to take over.
    pub(crate) fn is_called(&self, lane: u32) -> bool {
        lock(&self.0).called == Some(lane)
    }

    /// Number of sleeping lanes, without one that has been rung to take over.
    #[cfg(test)]
    #[allow(dead_code, reason = "for the tests of lanes, not for those of the model checker")]
    pub(crate) fn count(&self) -> usize {
        let state = lock(&self.0);
        state.others.len() + usize::from(state.polls.is_some())
    }
}
