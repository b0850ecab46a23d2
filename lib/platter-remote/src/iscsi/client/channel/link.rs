//! What happens when the session ends, and how it comes back.
//!
//! A request that was sent and not answered may have been carried out or not. A read or a flush is sent again over the next
//! session. A change must not be, as long as the target may still carry out the old one: it could then land after newer data. A
//! new session of the same name and number takes the place of the old one, and the target ends all commands of that before it
//! answers the login (RFC 7143, 6.3.5). Until then a change stays with the channel and counts as started, so that nothing newer
//! overtakes it. It is then sent again, unless it was cancelled.

use super::{Channel, FAILED, GONE, Link, UNKNOWN};
use crate::iscsi::client::attempt::{Attempt, Ready};
use crate::iscsi::client::discover::terms;
use crate::iscsi::client::slots::State;
use platter_block::time::Time;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The unit attention of a nexus that is new, by which a unit says that nothing else has happened (I_T NEXUS LOSS OCCURRED).
const NEXUS_LOSS: (u8, u8) = (0x29, 0x07);

impl Channel {
    /// Goes on with what can be done now.
    pub(super) fn advance(&mut self, now: Time) {
        if self.shared.reach.failure().is_some() {
            return self.fail_all(now);
        }
        if self.next_silence().is_some_and(|until| now >= until) {
            self.lost(now, Some("the target does not answer an abort"));
        }
        self.end_unanswered(now);
        loop {
            match &mut self.link {
                Link::Up(_) => {
                    self.transmit(now);
                    if matches!(self.link, Link::Up(_)) {
                        return;
                    }
                }
                Link::Down { retry } => {
                    let due = now >= *retry;
                    if self.outbox.is_empty() && self.unanswered == 0 {
                        return;
                    }
                    if !due {
                        if self.retries.is_over(now) {
                            self.fail_held();
                        }
                        return;
                    }
                    self.attempt(now);
                }
                Link::Attempting { attempt, until } => {
                    let (result, late) = (attempt.advance(Duration::ZERO), now >= *until);
                    match result {
                        Ok(true) => self.established(now),
                        Ok(false) if late => self.attempt_failed(now, "the target does not answer"),
                        Ok(false) => return,
                        Err(error) => self.attempt_failed(now, &error.to_string()),
                    }
                }
            }
        }
    }

    /// The session has ended, for a reason of the library's unless another one is known.
    pub(super) fn lost(&mut self, now: Time, why: Option<&str>) {
        let Link::Up(session) = std::mem::replace(&mut self.link, Link::Down { retry: now }) else { return };
        let told = session.loss();
        self.shared.reach.report(&format!("the session ended: {}", why.unwrap_or(&told)));
        // Without another descriptor the library closes the connection.
        self.shared.watches.ended(self.port);
        for answer in session.end() {
            self.answered(answer);
        }
        (self.is_fresh, self.is_lost, self.reset) = (false, false, None);
        let until = now + self.shared.options.reconnect;
        for index in self.slots.select(|slot| slot.state == State::Sent) {
            let slot = self.slots.at_mut(index);
            slot.attempts += 1;
            if slot.changes() {
                self.keep_unanswered(index, until);
            } else if slot.is_over() {
                self.finish(index, FAILED);
            } else {
                self.stage_again(index);
            }
        }
        self.retries.lost(until);
    }

    /// The target may still carry out a change: it is not reported.
    fn keep_unanswered(&mut self, index: u32, until: Time) {
        let slot = self.slots.at_mut(index);
        slot.state = State::Unanswered(until);
        self.sent -= 1;
        self.unanswered += 1;
        self.cancelled -= usize::from(slot.cancelled.is_some());
    }

    /// When the first of the unanswered changes has been borne for long enough.
    pub(super) fn next_unanswered(&self) -> Option<Time> {
        if self.unanswered == 0 {
            return None;
        }
        let until = |state| if let State::Unanswered(until) = state { Some(until) } else { None };
        self.slots.live().filter_map(|(_, slot)| until(slot.state)).min()
    }

    /// Until when the target must have answered an abort.
    pub(super) fn next_silence(&self) -> Option<Time> {
        if self.cancelled == 0 {
            return None;
        }
        let sent = self.slots.live().filter(|(_, slot)| slot.state == State::Sent);
        sent.filter_map(|(_, slot)| slot.cancelled).min()
    }

    /// There was no new session in the time for which I/O is held. With one session in all, unanswered changes end now:
    /// whatever is sent later is sent over a session that has ended the old one. Other sessions could pass them.
    fn end_unanswered(&mut self, now: Time) {
        if self.next_unanswered().is_none_or(|until| now < until) {
            return;
        }
        if self.shared.options.connections == 1 {
            for index in self.slots.select(|slot| matches!(slot.state, State::Unanswered(_))) {
                self.finish(index, UNKNOWN);
            }
            let why = self.shared.reach.trouble().last();
            self.shared
                .reach
                .report(&format!("a write that was not answered may have been carried out ({why})"));
            return;
        }
        let why = "a session ended and did not come back, so an earlier write may still change the disk at any time; open it \
                   again when the target is known to be idle";
        self.shared.reach.fail(why.to_owned());
        self.fail_all(now);
    }

    /// The channel ends before the target has answered all changes. With one session in all, whatever is sent later is sent over a
    /// session that has ended the old one. Another session could send newer data before the target carries them out.
    pub(super) fn leave_unanswered(&self) {
        let is_left = self
            .slots
            .live()
            .any(|(_, slot)| slot.changes() && matches!(slot.state, State::Sent | State::Unanswered(_)));
        if is_left && self.shared.options.connections > 1 && self.shared.reach.failure().is_none() {
            let why = "a session was closed before the target had answered a write, which may still change the disk at any time; \
                       open it again when the target is known to be idle";
            self.shared.reach.fail(why.to_owned());
        }
    }

    /// Begins to connect.
    fn attempt(&mut self, now: Time) {
        let shared = &self.shared;
        let place = shared.places[self.retries.next_place(shared.places.len())];
        let terms = terms(&shared.url, &shared.options, (shared.number, self.port));
        match Attempt::begin(&terms, place) {
            Ok(attempt) => {
                let until = now + shared.options.connect_timeout;
                self.link = Link::Attempting { attempt: Box::new(attempt), until };
                self.listen(true);
            }
            Err(error) => self.attempt_failed(now, &error.to_string()),
        }
    }

    fn attempt_failed(&mut self, now: Time, why: &str) {
        self.shared.reach.report(&format!("no session: {why}"));
        self.link = Link::Down { retry: self.retries.failed(now) };
        if self.retries.is_over(now) {
            self.fail_held();
        }
    }

    fn established(&mut self, now: Time) {
        let link = std::mem::replace(&mut self.link, Link::Down { retry: now });
        let Link::Attempting { attempt, .. } = link else { return };
        let Some(Ready { session, found, attentions }) = attempt.into_ready() else { return };
        if let Some(difference) = self.shared.found.difference(&found) {
            self.shared.reach.fail(format!("the target came back with another disk: {difference}"));
            return self.fail_all(now);
        }
        // A unit that says nothing but that the nexus was lost still has its cache.
        let keeps_cache = !attentions.is_empty() && attentions.iter().all(|code| *code == NEXUS_LOSS);
        self.shared.watches.reopened(self.port, session.duplicate(), keeps_cache, &self.shared.unflushed);
        self.shared.counts.reconnects.fetch_add(1, Ordering::Relaxed);
        self.shared.reach.note_up();
        self.link = Link::Up(session);
        self.retries.succeeded();
        self.window = self.shared.options.depth as usize;
        self.resolve_unanswered();
        self.listen(true);
    }

    /// The target has ended everything of the old session.
    fn resolve_unanswered(&mut self) {
        for index in self.slots.select(|slot| matches!(slot.state, State::Unanswered(_))) {
            let slot = self.slots.at(index);
            match slot.is_over() {
                true => self.finish(index, FAILED),
                false => self.stage_again(index),
            }
        }
        if !self.ready.is_empty() {
            self.announce();
        }
    }

    /// I/O was held as long as it may be.
    fn fail_held(&mut self) {
        self.shared.reach.note_down();
        while let Some(index) = self.outbox.pop_front() {
            self.finish(index, GONE);
        }
        if !self.ready.is_empty() {
            self.announce();
        }
    }

    /// The disk must not be used any more: everything fails.
    pub(super) fn fail_all(&mut self, now: Time) {
        if let Link::Up(session) = std::mem::replace(&mut self.link, Link::Down { retry: now }) {
            self.shared.watches.ended(self.port);
            for answer in session.end() {
                self.answered(answer);
            }
        }
        self.outbox.clear();
        for index in self.slots.select(|_| true) {
            let is_staged = self.slots.at(index).state == State::Staged;
            self.finish(index, if is_staged { GONE } else { UNKNOWN });
        }
        if !self.ready.is_empty() {
            self.announce();
        }
    }
}
