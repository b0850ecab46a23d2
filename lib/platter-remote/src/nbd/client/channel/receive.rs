//! Replies from the socket. The data of reads goes straight to their memory; headers go through a buffer, with what the
//! socket returned behind them.

use super::{Channel, INPUT, Link, Payload, Phase};
use crate::nbd::client::slots::Parcel;
use crate::nbd::reply::{Reply, parse};
use crate::nbd::wire::{Chunk, error};
use crate::slots::{Slot, State};
use platter_block::bio::Op;
use platter_block::time::Time;
use std::io;
use std::sync::Arc;

/// While the data of a read is received, only the next header is received with it: what follows is data that would
/// have to be copied.
const NEXT_HEADER: usize = Chunk::BYTES + 8;

/// Most bytes that one call receives, but for the data of the last read: a server that keeps sending must not keep the
/// thread from everything else.
const MOST_BYTES: usize = 4 << 20;

/// What a call to the system counts in bytes, so that small replies are bounded too.
const CALL_BYTES: usize = 4 << 10;

/// After an error of sending what has been answered is received. How often at most that is done, as the connection may work
/// after all.
const LAST_CALLS: usize = 64;

/// Most chunks of a reply that bring no data.
const MOST_EMPTY: u32 = 1024;

/// A server that does not keep to the protocol.
type Violation = String;

impl Channel {
    /// Receives what has come and completes what it answers. It may leave a part: then the channel has to be run `again`.
    pub(super) fn receive(&mut self, now: Time) {
        self.wire.again = None;
        let mut left = MOST_BYTES;
        while let Some(socket) = self.working() {
            if left == 0 {
                return self.leave_rest(now);
            }
            let socket = Arc::clone(socket);
            self.make_room();
            if let Some(payload) = self.wire.payload {
                self.wire.batch.push_memory(
                    &self.slots.at(payload.slot).kept.memory,
                    payload.at,
                    payload.left,
                );
            }
            let most = if self.wire.payload.is_some() { NEXT_HEADER } else { self.headers_wanted() };
            let room = &mut self.wire.input[self.wire.end..INPUT.min(self.wire.end + most)];
            let wanted = self.wire.batch.bytes() + room.len();
            match socket.receive_batch(&mut self.wire.batch, room) {
                Ok(0) => return self.lost(now, "the server has closed the connection", true),
                Ok(count) => {
                    let consumed = self.consume(now, count);
                    if let Err(what) = consumed.and_then(|()| self.parse_input(now)) {
                        return self.violated(now, &what);
                    }
                    if count < wanted {
                        return;
                    }
                    left = left.saturating_sub(count + CALL_BYTES);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.ended(now, &error),
            }
        }
    }

    /// There may be more to receive. It need not be in the socket, so waiting for that would not do. Without requests of
    /// the queue nothing runs the channel; the rest is received with the next one.
    fn leave_rest(&mut self, now: Time) {
        if self.slots.taken() > self.wire.replaying {
            self.wire.again = Some(now);
            self.ring();
        }
    }

    /// Sending has failed. What the server has answered before it ended counts.
    pub(super) fn broken(&mut self, now: Time, error: &io::Error) {
        if let Some(socket) = self.working() {
            socket.note_error(error);
        }
        for _ in 0..LAST_CALLS {
            self.receive(now);
            if self.wire.again.is_none() {
                break;
            }
        }
        let Link::Up(connection) = &mut self.link else { return };
        if matches!(connection.phase, Phase::Draining { .. }) {
            return;
        }
        if error.raw_os_error() == Some(libc::EPIPE) {
            // The server takes no more requests. It may still carry out those that it has, until it closes its side.
            if matches!(connection.phase, Phase::Open) {
                connection.phase = Phase::Leaving(now + self.shared.bounds.peer_timeout);
            }
            return self.drop_partial();
        }
        self.ended(now, error);
    }

    fn ended(&mut self, now: Time, error: &io::Error) {
        // By this the other side says that it does not know the connection any more.
        let closed = error.raw_os_error() == Some(libc::ECONNRESET);
        self.lost(now, &format!("the connection is broken: {error}"), closed);
    }

    fn make_room(&mut self) {
        if self.wire.begin == self.wire.end {
            (self.wire.begin, self.wire.end) = (0, 0);
        } else if self.wire.end + NEXT_HEADER > INPUT || self.wire.begin > INPUT / 2 {
            self.wire.input.copy_within(self.wire.begin..self.wire.end, 0);
            (self.wire.begin, self.wire.end) = (0, self.wire.end - self.wire.begin);
        }
    }

    /// How many bytes of headers to receive at once: few if data of reads may come behind them.
    fn headers_wanted(&self) -> usize {
        if self.slots.reads() > 0 { NEXT_HEADER } else { INPUT }
    }

    /// Takes `count` received bytes: first what the payload wanted.
    fn consume(&mut self, now: Time, count: usize) -> Result<(), Violation> {
        let direct = self.wire.payload.map_or(0, |payload| payload.left.min(count));
        self.wire.end += count - direct;
        self.advance_payload(now, direct)
    }

    /// Takes in `count` more bytes of the payload.
    fn advance_payload(&mut self, now: Time, count: usize) -> Result<(), Violation> {
        let Some(payload) = &mut self.wire.payload else { return Ok(()) };
        payload.at += count;
        payload.left -= count;
        let Payload { slot, left: 0, done, .. } = *payload else { return Ok(()) };
        self.wire.payload = None;
        if done { self.answered(now, slot) } else { Ok(()) }
    }

    fn parse_input(&mut self, now: Time) -> Result<(), Violation> {
        while self.wire.payload.is_none() {
            let Some((taken, reply)) =
                parse(&self.wire.input[self.wire.begin..self.wire.end]).map_err(|bad| bad.0)?
            else {
                return Ok(());
            };
            self.wire.begin += taken;
            self.take(now, reply)?;
            if let Some(payload) = self.wire.payload {
                // Some of the data is here already.
                let here = payload.left.min(self.wire.end - self.wire.begin);
                let memory = &self.slots.at(payload.slot).kept.memory;
                memory.scatter(payload.at, &self.wire.input[self.wire.begin..self.wire.begin + here]);
                self.wire.begin += here;
                self.advance_payload(now, here)?;
            }
        }
        Ok(())
    }

    fn find(&self, cookie: u64) -> Result<u32, Violation> {
        let index = cookie as u32;
        let is_awaited = |slot: &Slot<Parcel>| {
            slot.state == State::Sent
                && slot.kept.early.is_none()
                && slot.kept.generation == (cookie >> 32) as u32
        };
        let found = self.slots.get(index).is_some_and(is_awaited).then_some(index);
        found.ok_or_else(|| format!("a reply to a request that was not made (cookie {cookie:#x})"))
    }

    fn take(&mut self, now: Time, reply: Reply) -> Result<(), Violation> {
        match reply {
            Reply::Simple { cookie, error } => self.simple(now, cookie, error),
            Reply::Data { cookie, offset, length, done } => {
                let slot = self.find(cookie)?;
                let at = self.arrives(slot, offset, length)?;
                self.wire.payload = Some(Payload { slot, at, left: length as usize, done });
                Ok(())
            }
            Reply::Hole { cookie, offset, length, done } => {
                let slot = self.find(cookie)?;
                let at = self.arrives(slot, offset, length)?;
                self.slots.at(slot).kept.memory.zero(at, length as usize);
                if done { self.answered(now, slot) } else { Ok(()) }
            }
            Reply::Error { cookie, error, done } => {
                let slot = self.find(cookie)?;
                let first = &mut self.slots.at_mut(slot).kept.error;
                *first = if *first == 0 { error } else { *first };
                if done { self.answered(now, slot) } else { self.count_empty(slot) }
            }
            Reply::Nothing { cookie, done } => {
                let slot = self.find(cookie)?;
                if done { self.answered(now, slot) } else { self.count_empty(slot) }
            }
            Reply::Status { .. } => Err("an allocation status that was not asked for".to_owned()),
        }
    }

    /// A chunk has brought no data, and others follow.
    fn count_empty(&mut self, index: u32) -> Result<(), Violation> {
        let slot = self.slots.at_mut(index);
        slot.kept.empty += 1;
        if slot.kept.empty > MOST_EMPTY {
            return Err(format!("more than {MOST_EMPTY} chunks without data in one answer"));
        }
        Ok(())
    }

    fn simple(&mut self, now: Time, cookie: u64, error: u32) -> Result<(), Violation> {
        let index = self.find(cookie)?;
        let slot = self.slots.at_mut(index);
        if slot.op != Op::Read || error != 0 {
            slot.kept.error = error;
            return self.answered(now, index);
        }
        if self.shared.export.structured {
            return Err("a simple reply to a read, although structured replies are in use".to_owned());
        }
        let left = slot.len as usize;
        slot.kept.arrived.add(0, slot.len as u32);
        self.wire.payload = Some(Payload { slot: index, at: 0, left, done: true });
        Ok(())
    }

    /// Part of a read arrives. Returns its offset in the read.
    fn arrives(&mut self, index: u32, offset: u64, length: u32) -> Result<usize, Violation> {
        let slot = self.slots.at_mut(index);
        let begin = offset.checked_sub(slot.pos);
        let end = begin.and_then(|begin| begin.checked_add(length.into())).filter(|&end| end <= slot.len);
        let (Op::Read, Some(begin), Some(end)) = (slot.op, begin, end) else {
            let (op, pos, len) = (slot.op, slot.pos, slot.len);
            return Err(format!(
                "{length} bytes at {offset} in the answer to a {op} of {len} bytes at {pos}"
            ));
        };
        if !slot.kept.arrived.add(begin as u32, end as u32) {
            return Err(format!("{length} bytes at {offset} that overlap earlier ones of the same answer"));
        }
        Ok(begin as usize)
    }

    /// The whole answer has come.
    fn answered(&mut self, now: Time, index: u32) -> Result<(), Violation> {
        let slot = self.slots.at(index);
        if slot.kept.error == error::ESHUTDOWN {
            self.leave(now, index);
            return Ok(());
        }
        if slot.kept.error == 0 && slot.op == Op::Read && !slot.kept.arrived.cover(slot.len) {
            return Err(format!(
                "a successful read of {} bytes at {} without all of its data",
                slot.len, slot.pos
            ));
        }
        let result = match slot.kept.error {
            0 if slot.op.has_data() => slot.len as i64,
            0 => 0,
            // By this a server says that the export is read-only. A read is not refused for that.
            error::EPERM if slot.op.changes() => -i64::from(libc::EROFS),
            known @ (error::EPERM
            | error::EIO
            | error::ENOMEM
            | error::EINVAL
            | error::ENOSPC
            | error::ENOTSUP) => -i64::from(known),
            _ => -i64::from(libc::EIO),
        };
        // A shortage at the server is not one here.
        let result = if result == -i64::from(libc::ENOMEM) { -i64::from(libc::EIO) } else { result };
        if result >= 0 && !self.slots.at(index).kept.whole {
            return Err("the success of a request of which only a part was sent".to_owned());
        }
        self.settle(index, result);
        Ok(())
    }
}
