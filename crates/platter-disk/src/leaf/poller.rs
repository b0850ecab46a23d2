//! Which of the lanes that sleep polls the driver of the shared queue.
//!
//! With an elevator all lanes wait for one driver. If each of them polled its descriptor, each completion would wake them
//! all. So one lane polls it, runs the queue and posts what completes; the others sleep on their own bells. When that
//! lane stops sleeping, another one is rung and takes over.

use crate::sync::{Mutex, lock};

/// Who polls, of the lanes that sleep with bios in the shared queue. Lanes are known by their routes.
pub(crate) struct Poller(Mutex<State>);

struct State {
    /// The lane that polls the driver.
    polls: Option<u32>,
    /// The lane that has been rung to take over, and has not come back yet.
    called: Option<u32>,
    /// Lanes that sleep on their bells only, the one that has slept longest first.
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

    /// A lane is about to sleep; from here on its bell must be heard. Returns whether it has to poll the driver. Until the
    /// call of [`leave`](Poller::leave), it may be called any number of times.
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

    /// A lane has stopped sleeping. Returns the lane that the caller must ring, which takes over.
    #[must_use]
    pub(crate) fn leave(&self, lane: u32) -> Option<u32> {
        let mut state = lock(&self.0);
        state.forget(lane);
        state.polls = state.polls.filter(|&polls| polls != lane);
        if state.polls.is_some() || state.called.is_some() {
            return None;
        }
        // What was submitted first mostly completes first: so the lane that polls is mostly the one that the next completion
        // is for, and wakes no other one before it returns.
        state.called = (!state.others.is_empty()).then(|| state.others.remove(0));
        state.called
    }

    /// Whether a lane has been rung to take over.
    pub(crate) fn is_called(&self, lane: u32) -> bool {
        lock(&self.0).called == Some(lane)
    }

    /// Lanes that sleep, without one that has been rung to take over.
    #[cfg(test)]
    #[allow(dead_code, reason = "for the tests of lanes, not for those of the model checker")]
    pub(crate) fn count(&self) -> usize {
        let state = lock(&self.0);
        state.others.len() + usize::from(state.polls.is_some())
    }
}
