//! What happens when the connection is lost, and how it comes back.
//!
//! A request that was sent and not answered may have reached the server or not. A read or a flush is sent again over the
//! next connection. A change must not be, as long as the server may still carry out the old one: it could then land
//! after newer data. The server is known to be done with a connection once it has closed its side. If that is not
//! known (the network is silent), the change stays with the channel and counts as started, so that nothing newer overtakes it. After
//! `reconnect` the disk has failed for good: nothing is sent any more, and the change is reported.

use super::{Attempt, Channel, Link, Settling};
use crate::nbd::client::slots::State;
use crate::nbd::handshake::{Export, Handshake, Outcome};
use platter_block::bio::Op;
use platter_block::time::Time;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How often a request is sent at most, if each time the connection is lost: it may be what the server dies of.
const ATTEMPTS: u8 = 4;

/// Bytes of a server that does not keep to the protocol that are dropped at once.
const DROPPED: usize = 1 << 20;

const GONE: i64 = -(libc::ENODEV as i64);
const UNKNOWN: i64 = -(libc::ENOLINK as i64);
const FAILED: i64 = -(libc::EIO as i64);

impl Channel {
    /// Goes on with what can be done now.
    pub(super) fn advance(&mut self, now: Time) {
        if self.shared.reach.failure().is_some() {
            return self.fail_all(now);
        }
        self.end_unanswered(now);
        loop {
            match &mut self.link {
                Link::Up { leaving: Some(until), .. } => {
                    if now < *until {
                        return;
                    }
                    self.lost(now, "the server is shutting down, but keeps the connection", false);
                }
                Link::Up { .. } => {
                    self.transmit(now);
                    if matches!(self.link, Link::Up { .. }) {
                        return;
                    }
                }
                Link::Draining { .. } => {
                    if !self.drain(now) {
                        return;
                    }
                }
                Link::Down { retry } => {
                    let due = now >= *retry;
                    if self.outbox.is_empty() {
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
                    let (result, late) = (attempt.advance(), now >= *until);
                    match result {
                        Ok(Some(Outcome::Export(export))) => self.established(now, &export),
                        Ok(_) if late => self.attempt_failed(now, "the server does not answer"),
                        Ok(_) => return,
                        Err(error) => self.attempt_failed(now, &error.to_string()),
                    }
                }
            }
        }
    }

    /// The connection is lost. `closed`: the server has closed its side, or it looks as if it had.
    pub(super) fn lost(&mut self, now: Time, why: &str, closed: bool) {
        let closed = closed && self.socket().is_some_and(|socket| !socket.is_unclean());
        self.end_link(why);
        for index in self.slots.select(|slot| slot.state == State::Sent) {
            self.sent -= 1;
            let slot = self.slots.at_mut(index);
            // The error that a missing answer is, and not a state of a request that was sent.
            slot.state = State::Staged;
            slot.attempts += 1;
            let (own, attempts) = (slot.tag.is_none(), slot.attempts);
            if slot.op.changes() && !closed {
                self.keep_unanswered(now, index);
            } else if own {
                // It is made again from what is kept.
                self.replaying -= 1;
                self.slots.put(index);
            } else if attempts >= ATTEMPTS {
                self.finish(index, FAILED);
            } else {
                self.slots.stage_again(index);
                self.outbox.push_front(index);
            }
        }
        self.forget_own();
        self.go_down(now);
    }

    fn end_link(&mut self, why: &str) {
        if let Link::Up { socket, .. } | Link::Draining { socket, .. } = &self.link {
            self.shared.end(socket);
        }
        self.shared.reach.report(why);
        (self.payload, self.again) = (None, None);
        self.drop_partial();
        (self.begin, self.end) = (0, 0);
    }

    /// Own writes that were not sent are made again for the next connection.
    fn forget_own(&mut self) {
        while let Some(index) = self.own.pop_front() {
            self.replaying -= 1;
            self.slots.put(index);
        }
        self.replay.clear();
        self.settling = Settling::No;
    }

    fn go_down(&mut self, now: Time) {
        self.link = Link::Down { retry: now };
        self.retries.lost(now + self.shared.options.reconnect);
    }

    /// The server may still carry out a change that was sent over a lost connection: it is not reported.
    fn keep_unanswered(&mut self, now: Time, index: u32) {
        let until = now + self.shared.options.reconnect;
        let slot = self.slots.at_mut(index);
        if slot.tag.is_none() {
            self.replaying -= 1;
            self.slots.put(index);
            self.shared.reach.fail("the connection was lost while earlier writes were repeated, and the server may still repeat some".to_owned());
            return;
        }
        slot.state = State::Unanswered(until);
        self.unanswered += 1;
    }

    /// When the first of the unanswered changes has been borne for long enough.
    pub(super) fn next_unanswered(&self) -> Option<Time> {
        if self.unanswered == 0 {
            return None;
        }
        let until = |state| if let State::Unanswered(until) = state { Some(until) } else { None };
        self.slots.live().filter_map(|(_, slot)| until(slot.state)).min()
    }

    /// The server has not shown in time that it is done with a change. Newer data may follow one that is reported, so nothing may
    /// be sent to the server any more.
    fn end_unanswered(&mut self, now: Time) {
        if self.next_unanswered().is_some_and(|until| now >= until) {
            let why = "the connection was lost without a sign that the server is done with it, so an earlier write may \
                       still change the disk at any time; open it again when the server is known to be idle";
            self.shared.reach.fail(why.to_owned());
            self.fail_all(now);
        }
    }

    /// The channel ends before the server has answered all changes. Another connection could send newer data before the server
    /// carries them out, so nothing may be sent any more.
    pub(super) fn leave_unanswered(&self) {
        let is_left = self.slots.live().any(|(_, slot)| {
            slot.op.changes()
                && slot.early.is_none()
                && matches!(slot.state, State::Sent | State::Unanswered(_))
        });
        if is_left && self.shared.reach.failure().is_none() {
            let why = "a connection was closed before the server had answered a write, which may still change the disk at any \
                       time; open it again when the server is known to be idle";
            self.shared.reach.fail(why.to_owned());
        }
    }

    /// The server has sent something that it must not.
    pub(super) fn violated(&mut self, now: Time, what: &str) {
        let Link::Up { socket, .. } = &self.link else { return };
        let socket = Arc::clone(socket);
        self.shared.reach.report(&format!("the server does not keep to the NBD protocol: {what}"));
        socket.end_output();
        (self.payload, self.again) = (None, None);
        self.drop_partial();
        (self.begin, self.end) = (0, 0);
        let (until, most) = (now + self.shared.options.peer_timeout, self.drained_at_most());
        self.link = Link::Draining { socket, until, most };
        self.drain(now);
    }

    /// More bytes than a server sends that stops once it has answered what it has.
    fn drained_at_most(&self) -> u64 {
        let lengths = self.slots.live().filter(|(_, slot)| slot.state == State::Sent && slot.op == Op::Read);
        // As much again for headers.
        2 * lengths.map(|(_, slot)| slot.len).sum::<u64>() + DROPPED as u64
    }

    /// Drops a part of what the server sends. `None`: it may send more. Otherwise whether it has closed its side.
    fn drop_input(&mut self, now: Time) -> Option<bool> {
        let Link::Draining { socket, until, most } = &mut self.link else { return None };
        let mut buffer = [0; 4096];
        for _ in 0..DROPPED / buffer.len() {
            match socket.receive_raw(&mut buffer) {
                Ok(0) | Err(Errno::CONNRESET | Errno::PIPE) => return Some(!socket.is_unclean()),
                // Time and number also end the stream of a server that does not stop.
                Ok(count) if now < *until && *most > 0 => *most = most.saturating_sub(count as u64),
                Err(Errno::INTR) if now < *until => {}
                Err(Errno::AGAIN) if now < *until => return None,
                _ => return Some(false),
            }
        }
        // The rest keeps the socket readable.
        None
    }

    /// Drops what the server sends. Returns whether that has ended.
    pub(super) fn drain(&mut self, now: Time) -> bool {
        let Some(closed) = self.drop_input(now) else { return false };
        // What was not answered has failed: sent again, it might be answered in the same way.
        for index in self.slots.select(|slot| slot.state == State::Sent) {
            let slot = self.slots.at(index);
            if closed || !slot.op.changes() {
                self.finish(index, FAILED);
            }
        }
        let trouble = self.shared.reach.trouble().last();
        self.lost(now, &trouble, closed);
        true
    }

    /// The server is shutting down, and has not carried out this request.
    pub(super) fn leave(&mut self, now: Time, index: u32) {
        let slot = self.slots.at_mut(index);
        slot.attempts += 1;
        if slot.attempts >= ATTEMPTS || slot.tag.is_none() {
            return self.settle(index, FAILED);
        }
        self.sent -= 1;
        self.slots.stage_again(index);
        self.outbox.push_front(index);
        if let Link::Up { socket, leaving: leaving @ None } = &mut self.link {
            *leaving = Some(now + self.shared.options.peer_timeout);
            self.shared.reach.report("the server is shutting down");
            socket.end_output();
            self.drop_partial();
        }
    }

    /// Begins to connect.
    fn attempt(&mut self, now: Time) {
        let shared = &self.shared;
        let place = &shared.places[self.retries.next_place(shared.places.len())];
        let handshake = Handshake::open(&shared.uri.export);
        match Attempt::begin(place, shared.options.peer_timeout, handshake) {
            Ok(attempt) => {
                let until = now + shared.options.connect_timeout;
                self.link = Link::Attempting { attempt: Box::new(attempt), until };
                self.listen_anew();
            }
            Err(error) => self.attempt_failed(now, &error.to_string()),
        }
    }

    fn attempt_failed(&mut self, now: Time, why: &str) {
        self.shared.reach.report(&format!("no connection: {why}"));
        self.link = Link::Down { retry: self.retries.failed(now) };
        if self.retries.is_over(now) {
            self.fail_held();
        }
    }

    fn established(&mut self, now: Time, export: &Export) {
        if let Err(why) = self.shared.check(export) {
            self.shared.reach.fail(why);
            return self.fail_all(now);
        }
        let link = std::mem::replace(&mut self.link, Link::Down { retry: now });
        let Link::Attempting { attempt, .. } = link else { return };
        let socket = Arc::new(attempt.socket);
        self.shared.look_at_all();
        self.shared.add(&socket);
        self.shared.reconnects.fetch_add(1, Ordering::Relaxed);
        self.shared.reach.note_up();
        self.link = Link::Up { socket, leaving: None };
        self.retries.succeeded();
        self.replay = self.shared.unflushed.to_replay();
        if self.shared.options.replay > 0 {
            self.settling = Settling::Due;
        }
        self.listen_anew();
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
        self.end_link(self.shared.reach.failure().unwrap_or_default().to_owned().as_str());
        self.link = Link::Down { retry: now };
        self.outbox.clear();
        self.forget_own();
        for index in self.slots.select(|_| true) {
            let is_staged = self.slots.at(index).state == State::Staged;
            self.finish(index, if is_staged { GONE } else { UNKNOWN });
        }
        if !self.ready.is_empty() {
            self.announce();
        }
    }
}
