//! One thread of the test, as far as it does not matter whether it is real or simulated.

use super::plan::Plan;
use super::requests::{Request, Requests};
use super::tally::Tally;
use platter_block::time::Time;

#[derive(Clone, Copy)]
struct Flight {
    request: Request,
    start: Time,
    /// The write is complete and its fsync is in flight.
    syncing: bool,
    /// Part of the end of the run: no event.
    ends: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Takes requests.
    Working,
    /// Makes files durable at the end of the run, from this one on.
    Ending(u32),
    /// Starts nothing any more.
    Over,
}

/// A thread: its requests in flight by slot, and its next action.
pub(super) struct Hand {
    thread: u32,
    state: State,
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    fsync_all: bool,
    /// Files that it makes durable at the end.
    ends_with: u32,
    pub(super) tally: Tally,
}

impl Hand {
    pub(super) fn new(plan: &Plan, thread: u32) -> Hand {
        let slots = plan.depth();
        let ends = plan.mode.writes() && plan.fsync_end && !plan.fsync_all;
        Hand {
            thread,
            state: State::Working,
            flights: vec![None; slots as usize],
            free: (0..slots).rev().collect(),
            fsync_all: plan.fsync_all,
            ends_with: if ends { plan.files } else { 0 },
            tally: Tally::new(),
        }
    }

    /// Requests that are out.
    pub(super) fn out(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Whether no request is in flight and none will follow.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Over && self.out() == 0
    }

    /// The time is up: no more requests except those that end the run.
    pub(super) fn finish(&mut self) {
        if self.state == State::Working {
            self.state = State::Ending(0);
        }
    }

    /// Starts nothing any more.
    pub(super) fn stop(&mut self) {
        self.state = State::Over;
    }

    /// The slot and the request to start now, if there is one. Call [`started`](Hand::started) with the slot.
    pub(super) fn next(&mut self, source: impl FnOnce() -> Option<Request>) -> Option<(u32, Request)> {
        if self.free.is_empty() {
            return None;
        }
        if self.state == State::Working {
            if let Some(request) = source() {
                return self.take(request, false);
            }
            self.finish();
        }
        let State::Ending(file) = self.state else { return None };
        if self.out() > 0 {
            return None;
        }
        if file == self.ends_with {
            self.stop();
            return None;
        }
        self.state = State::Ending(file + 1);
        self.tally.other_syncs += 1;
        self.take(Request::Sync { file }, true)
    }

    fn take(&mut self, request: Request, ends: bool) -> Option<(u32, Request)> {
        let slot = self.free.pop()?;
        self.flights[slot as usize] = Some(Flight { request, start: Time::default(), syncing: false, ends });
        Some((slot, request))
    }

    /// Notes when the request of a slot was started.
    pub(super) fn started(&mut self, slot: u32, now: Time) {
        if let Some(flight) = &mut self.flights[slot as usize] {
            flight.start = now;
        }
    }

    /// The request of a slot has completed. Returns the request that must follow it in the same slot, if any.
    pub(super) fn landed(&mut self, slot: u32, now: Time) -> Option<Request> {
        let flight = self.flights[slot as usize].as_mut()?;
        if let Request::Write { file, .. } = flight.request
            && self.fsync_all
            && !std::mem::replace(&mut flight.syncing, true)
        {
            self.tally.other_syncs += 1;
            return Some(Request::Sync { file });
        }
        if !flight.ends {
            self.tally.record(flight.request, now.since(flight.start).0);
        }
        self.flights[slot as usize] = None;
        self.free.push(slot);
        None
    }

    /// Its number.
    pub(super) fn thread(&self) -> u32 {
        self.thread
    }
}

/// The source of a thread's requests.
pub(super) fn source(requests: &std::sync::Mutex<Requests>, thread: u32) -> impl FnOnce() -> Option<Request> {
    move || requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next(thread)
}
