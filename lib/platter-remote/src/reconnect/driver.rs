//! A channel as a driver of a queue.

use super::{CANCELLED, Channel, Link, Protocol};
use crate::reach::LONGEST_PAUSE;
use crate::slots::State;
use crate::waiter::Waiter;
use platter_block::bio::Op;
use platter_block::driver::{Completion, Driver, Started};
use platter_block::time::{Span, Time};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

impl<P: Protocol> Driver for Channel<P> {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        if self.slots.taken() - self.wire.own() >= self.shared.bounds.depth as usize {
            return false;
        }
        let index = self.slots.take(request);
        let slot = self.slots.at_mut(index);
        if request.op == Op::Flush {
            slot.covers = self.shared.unflushed.begin_flush();
        }
        P::stage(slot, index);
        self.outbox.push_back(index);
        if self.shared.reach.failure().is_some() {
            self.fail_all(now);
        }
        true
    }

    fn submit(&mut self, now: Time) {
        self.advance(now);
        self.announce();
        self.listen(false);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        if let Some(waiter) = self.waiter.get() {
            waiter.bell.clear();
        }
        // An idle connection is looked at only for threads that would otherwise see it readable forever.
        if self.sent > 0 || P::has_input(self) || self.waiter.get().is_some() {
            P::receive(self, now);
        }
        self.advance(now);
        self.listen(false);
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        let link = match &self.link {
            Link::Up(_) => P::next_event(self),
            Link::Down { retry } => self.wants_connection().then_some(*retry),
            Link::Attempting { until, .. } => Some(*until),
        };
        Time::earliest(link, Time::earliest(self.next_unanswered(), self.next_silence()))
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.submit(now);
        if !self.ready.is_empty() || self.slots.taken() == 0 {
            return;
        }
        let event = self.next_event().map(|at| at.since(now));
        let limit = timeout.into_iter().chain(event).min();
        match &self.link {
            // An interrupted sleep ends early, as the caller expects.
            Link::Down { .. } => platter_wait::nap(limit.unwrap_or(LONGEST_PAUSE)),
            Link::Up(_) | Link::Attempting { .. } => P::wait(self, limit),
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        if self.waiter.get().is_none() {
            let waiter = Waiter::new().ok()?;
            // Listens for room to send too, until the channel is run next.
            self.awaits_output.store(true, Ordering::Relaxed);
            P::listen(self, &waiter, true);
            let _ = self.waiter.set(waiter);
            self.ring();
        }
        self.waiter.get().map(|waiter| waiter.descriptor().as_raw_fd())
    }

    fn cancel(&mut self, now: Time, tag: u32) -> bool {
        let Some(index) = self.slots.with_tag(tag) else { return false };
        if self.slots.at(index).state != State::Staged {
            return P::abort(self, now, index);
        }
        self.outbox.retain(|&other| other != index);
        self.finish(index, CANCELLED);
        self.announce();
        true
    }
}
