//! How a connection comes and goes. The server is known to be done with one once it has closed its side.

use super::{Channel, Connection, Link, Phase, Settling};
use crate::reconnect::{FAILED, Protocol};
use crate::slots::State;
use platter_block::bio::Op;
use platter_block::time::Time;
use rustix::io::Errno;

/// Bytes of a server that does not keep to the protocol that are dropped at once.
const DROPPED: usize = 1 << 20;

impl Channel {
    /// Goes on with a connection.
    pub(super) fn go_on(&mut self, now: Time) {
        if self.open().is_some() {
            self.transmit(now);
        }
        let Link::Up(connection) = &self.link else { return };
        match connection.phase {
            Phase::Leaving(until) if now >= until => {
                self.lost(now, "the server is shutting down, but keeps the connection", false);
            }
            Phase::Draining { .. } => {
                self.drain(now);
            }
            Phase::Open | Phase::Leaving(_) => {}
        }
    }

    /// The connection is lost. `closed`: the server has closed its side, or it looks as if it had.
    pub(super) fn lost(&mut self, now: Time, why: &str, closed: bool) {
        let closed = closed && self.socket().is_some_and(|socket| !socket.is_unclean());
        self.lose(now, why, closed);
    }

    /// The connection has ended, for a reason.
    pub(super) fn end_link(&mut self, why: &str) {
        if let Link::Up(connection) = &self.link {
            self.shared.end(&connection.socket);
        }
        self.shared.reach.report(why);
        self.stop();
        // Own writes that were not sent are made again for the next connection.
        while let Some(index) = self.wire.own.pop_front() {
            self.wire.replaying -= 1;
            self.slots.put(index);
        }
        self.wire.replay.clear();
        self.wire.settling = Settling::No;
    }

    /// Nothing more of the connection is read, and nothing sent.
    fn stop(&mut self) {
        (self.wire.payload, self.wire.again) = (None, None);
        self.drop_partial();
        (self.wire.begin, self.wire.end) = (0, 0);
    }

    /// The server has sent something that it must not.
    pub(super) fn violated(&mut self, now: Time, what: &str) {
        let Some(socket) = self.working().cloned() else { return };
        self.shared.reach.report(&format!("the server does not keep to the NBD protocol: {what}"));
        socket.end_output();
        self.stop();
        let (until, most) = (now + self.shared.bounds.peer_timeout, self.drained_at_most());
        self.link = Link::Up(Connection { socket, phase: Phase::Draining { until, most } });
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
        let Link::Up(Connection { socket, phase: Phase::Draining { until, most } }) = &mut self.link else {
            return None;
        };
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

    /// Drops what the server sends, until that has ended.
    pub(super) fn drain(&mut self, now: Time) {
        let Some(closed) = self.drop_input(now) else { return };
        // What was not answered has failed: sent again, it might be answered in the same way.
        for index in self.slots.select(|slot| slot.state == State::Sent) {
            let slot = self.slots.at(index);
            if closed || !slot.op.changes() {
                self.finish(index, FAILED);
            }
        }
        let trouble = self.shared.reach.trouble().last();
        self.lost(now, &trouble, closed);
    }

    /// The server is shutting down, and has not carried out this request.
    pub(super) fn leave(&mut self, now: Time, index: u32) {
        let slot = self.slots.at_mut(index);
        slot.attempts += 1;
        if slot.attempts >= super::Nbd::ATTEMPTS || slot.tag.is_none() {
            return self.settle(index, FAILED);
        }
        self.stage_again(index);
        if let Link::Up(connection @ Connection { phase: Phase::Open, .. }) = &mut self.link {
            connection.phase = Phase::Leaving(now + self.shared.bounds.peer_timeout);
            self.shared.reach.report("the server is shutting down");
            connection.socket.end_output();
            self.drop_partial();
        }
    }
}
