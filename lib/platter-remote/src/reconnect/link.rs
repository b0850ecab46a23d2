//! What happens when a connection is lost, and how it comes back.
//!
//! A request that was sent and not answered may have been carried out or not. A read or a flush is sent again over the next
//! connection. A change must not be, as long as the server may still carry out the old one: it could then land after newer data.
//! Until it is known that the server is done with it, a change stays with the channel and counts as started, so that nothing newer
//! overtakes it. After `reconnect` it is reported, and if another connection may pass it, the disk has failed for good: nothing is
//! sent any more.

use super::{Channel, FAILED, GONE, Link, Protocol, UNKNOWN};
use crate::slots::State;
use platter_block::time::Time;
use std::sync::atomic::Ordering;

impl<P: Protocol> Channel<P> {
    /// Goes on with what can be done now.
    pub(crate) fn advance(&mut self, now: Time) {
        if self.shared.reach.failure().is_some() {
            return self.fail_all(now);
        }
        if self.next_silence().is_some_and(|until| now >= until) {
            P::abort_failed(self, now);
        }
        self.end_unanswered(now);
        loop {
            match &mut self.link {
                Link::Up(_) => {
                    P::transmit(self, now);
                    if matches!(self.link, Link::Up(_)) {
                        return;
                    }
                }
                Link::Down { retry } => {
                    let due = now >= *retry;
                    if !self.wants_connection() {
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
                    let (result, late) = (P::negotiate(attempt), now >= *until);
                    match result {
                        Ok(Some(ready)) => self.established(now, ready),
                        Ok(None) if late => self.attempt_failed(now, P::WORDS.silent),
                        Ok(None) => return,
                        Err(why) => self.attempt_failed(now, &why),
                    }
                }
            }
        }
    }

    /// Whether there is something to do that a connection is needed for.
    pub(super) fn wants_connection(&self) -> bool {
        !self.outbox.is_empty() || (P::ENDS_OLD && self.unanswered > 0)
    }

    /// The connection is lost. `is_done`: the server works on nothing of it any more.
    pub(crate) fn lose(&mut self, now: Time, why: &str, is_done: bool) {
        P::disconnect(self, Some(why));
        let until = now + self.shared.bounds.reconnect;
        for index in self.slots.select(|slot| slot.state == State::Sent) {
            let slot = self.slots.at_mut(index);
            slot.attempts += 1;
            let may_land = slot.changes() && !is_done;
            if slot.tag.is_none() {
                self.enter(index, State::Staged);
                P::own_lost(self, index, may_land);
            } else if may_land {
                self.enter(index, State::Unanswered(until));
            } else if Channel::<P>::is_over(slot) {
                self.finish(index, FAILED);
            } else {
                self.stage_again(index);
            }
        }
        self.link = Link::Down { retry: now };
        self.retries.lost(until);
    }

    /// When the first of the unanswered changes has been borne for long enough.
    pub(super) fn next_unanswered(&self) -> Option<Time> {
        if self.unanswered == 0 {
            return None;
        }
        let until = |state| if let State::Unanswered(until) = state { Some(until) } else { None };
        self.slots.live().filter_map(|(_, slot)| until(slot.state)).min()
    }

    /// Until when the server must have answered that it ends a request.
    pub(super) fn next_silence(&self) -> Option<Time> {
        if self.cancelled == 0 {
            return None;
        }
        let sent = self.slots.live().filter(|(_, slot)| slot.state == State::Sent);
        sent.filter_map(|(_, slot)| slot.cancelled).min()
    }

    /// Whether newer data could reach the server before it carries out an unanswered change. It cannot over the only connection if
    /// each ends what was before it.
    fn may_be_passed(&self) -> bool {
        !P::ENDS_OLD || self.shared.bounds.connections > 1
    }

    /// It was not known in time that the server is done with a change. Newer data may follow one that is reported.
    fn end_unanswered(&mut self, now: Time) {
        if self.next_unanswered().is_none_or(|until| now < until) {
            return;
        }
        if self.may_be_passed() {
            self.shared.reach.fail(P::WORDS.unanswered.to_owned());
            return self.fail_all(now);
        }
        for index in self.slots.select(|slot| matches!(slot.state, State::Unanswered(_))) {
            self.finish(index, UNKNOWN);
        }
        let why = self.shared.reach.trouble().last();
        self.shared.reach.report(&format!("a write that was not answered may have been carried out ({why})"));
    }

    /// The channel ends before the server has answered all changes. Another connection could send newer data before the server
    /// carries them out, so nothing may be sent any more.
    pub(crate) fn leave_unanswered(&self) {
        let is_left = self.slots.live().any(|(_, slot)| {
            slot.changes()
                && !P::is_answered(slot)
                && matches!(slot.state, State::Sent | State::Unanswered(_))
        });
        if is_left && self.may_be_passed() && self.shared.reach.failure().is_none() {
            self.shared.reach.fail(P::WORDS.left.to_owned());
        }
    }

    /// Begins to connect.
    fn attempt(&mut self, now: Time) {
        match P::connect(self) {
            Ok(attempt) => {
                let until = now + self.shared.bounds.connect_timeout;
                self.link = Link::Attempting { attempt: Box::new(attempt), until };
                self.listen(true);
            }
            Err(why) => self.attempt_failed(now, &why),
        }
    }

    fn attempt_failed(&mut self, now: Time, why: &str) {
        self.shared.reach.report(&format!("{}: {why}", P::WORDS.absent));
        self.link = Link::Down { retry: self.retries.failed(now) };
        if self.retries.is_over(now) {
            self.fail_held();
        }
    }

    fn established(&mut self, now: Time, ready: P::Ready) {
        let link = std::mem::replace(&mut self.link, Link::Down { retry: now });
        let Link::Attempting { attempt, .. } = link else { return };
        match P::accept(self, *attempt, ready) {
            Ok(connection) => self.link = Link::Up(connection),
            Err(why) => {
                self.shared.reach.fail(why);
                return self.fail_all(now);
            }
        }
        self.shared.reconnects.fetch_add(1, Ordering::Relaxed);
        self.shared.reach.note_up();
        self.retries.succeeded();
        if P::ENDS_OLD {
            self.resolve_unanswered();
        }
        self.listen(true);
    }

    /// The server has ended everything of the old connection.
    fn resolve_unanswered(&mut self) {
        for index in self.slots.select(|slot| matches!(slot.state, State::Unanswered(_))) {
            match Channel::<P>::is_over(self.slots.at(index)) {
                true => self.finish(index, FAILED),
                false => self.stage_again(index),
            }
        }
        self.announce();
    }

    /// I/O was held as long as it may be.
    fn fail_held(&mut self) {
        self.shared.reach.note_down();
        while let Some(index) = self.outbox.pop_front() {
            self.finish(index, GONE);
        }
        self.announce();
    }

    /// The disk must not be used any more: everything fails.
    pub(super) fn fail_all(&mut self, now: Time) {
        P::disconnect(self, None);
        self.link = Link::Down { retry: now };
        self.outbox.clear();
        for index in self.slots.select(|_| true) {
            let is_staged = self.slots.at(index).state == State::Staged;
            self.finish(index, if is_staged { GONE } else { UNKNOWN });
        }
        self.announce();
    }
}
