//! Requests to the socket.

use super::{Channel, Settling};
use crate::nbd::client::slots::{payload, prepare};
use crate::slots::State;
use platter_block::bio::Op;
use platter_block::time::Time;
use std::sync::Arc;

/// Own writes in flight at once.
const REPLAYED: usize = 16;

/// Most bytes of one system call, so that a long batch does not keep the replies waiting.
const MOST_BYTES: usize = 1 << 20;

impl Channel {
    /// Whether requests wait to be sent. Until everything that was written again is answered, only own writes are.
    pub(super) fn has_next(&self) -> bool {
        match self.is_replaying() {
            true => !self.wire.own.is_empty() || self.may_stage(),
            false => !self.outbox.is_empty(),
        }
    }

    fn is_replaying(&self) -> bool {
        self.wire.replaying > 0 || !self.wire.replay.is_empty() || self.wire.settling == Settling::Due
    }

    /// Whether an own request can be made.
    fn may_stage(&self) -> bool {
        match self.wire.settling {
            Settling::Due => true,
            Settling::Sent => false,
            Settling::No => !self.wire.replay.is_empty() && self.wire.replaying < REPLAYED,
        }
    }

    /// Makes own requests of what has to be written again.
    fn stage_own(&mut self) {
        if self.wire.settling == Settling::Due {
            self.wire.settling = Settling::Sent;
            self.wire.replaying += 1;
            let index = self.take_own(Op::Flush, 0, 0, None);
            self.wire.own.push_back(index);
        }
        while self.may_stage()
            && let Some(kept) = self.wire.replay.pop_front()
        {
            self.wire.replaying += 1;
            let op = if kept.data.is_some() { Op::Write } else { Op::WriteZeroes };
            let index = self.take_own(op, kept.pos, kept.len, kept.data);
            self.wire.own.push_back(index);
        }
    }

    /// Takes a slot for a request that the channel makes.
    pub(super) fn take_own(&mut self, op: Op, pos: u64, len: u64, bytes: Option<Arc<Vec<u8>>>) -> u32 {
        let index = self.slots.take_own(op, pos, len);
        let slot = self.slots.at_mut(index);
        if let Some(bytes) = bytes {
            slot.kept.keep(bytes);
        }
        prepare(slot, index);
        index
    }

    /// Sends what waits, as far as the socket takes it.
    pub(super) fn transmit(&mut self, now: Time) {
        if let Some(socket) = self.working()
            && let Err(error) = socket.push()
        {
            return match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => {}
                _ => self.broken(now, &error),
            };
        }
        while let Some(socket) = self.open()
            && (self.wire.partial.is_some() || self.has_next())
        {
            let socket = Arc::clone(socket);
            self.stage_own();
            self.fill_batch();
            let bytes = self.wire.batch.bytes();
            let sent = socket.send_batch(&mut self.wire.batch);
            self.count_sent(*sent.as_ref().unwrap_or(&0));
            match sent {
                Ok(count) if count < bytes => return,
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => return,
                    _ => return self.broken(now, &error),
                },
            }
        }
    }

    /// Lists the memory of the next requests.
    #[allow(unsafe_code)]
    fn fill_batch(&mut self) {
        self.wire.sending.clear();
        while !self.wire.batch.is_full() && self.wire.batch.bytes() < MOST_BYTES {
            let queue = if self.is_replaying() { &mut self.wire.own } else { &mut self.outbox };
            let first = self.wire.partial.take();
            let Some((index, skip)) = first.or_else(|| queue.pop_front().map(|index| (index, 0))) else {
                return;
            };
            self.wire.sending.push((index, skip));
            let slot = self.slots.at(index);
            let header = &slot.kept.header[skip.min(slot.kept.header.len())..];
            // SAFETY: the list is sent before anything else is done with the slots, so the header stays where it is.
            unsafe { self.wire.batch.push_bytes(header) };
            let done = skip.saturating_sub(slot.kept.header.len());
            self.wire.batch.push_memory(&slot.kept.memory, done, payload(slot) - done);
        }
    }

    /// Of the requests in the batch, the first `count` bytes were sent.
    fn count_sent(&mut self, mut count: usize) {
        let (mut unsent, mut early) = (self.wire.sending.len(), None);
        for (at, &(index, skip)) in self.wire.sending.iter().enumerate() {
            let slot = self.slots.at_mut(index);
            let all = slot.kept.header.len() + payload(slot) - skip;
            let taken = count.min(all);
            count -= taken;
            if skip + taken == 0 {
                unsent = at;
                break;
            }
            if slot.state == State::Staged {
                slot.state = State::Sent;
                self.sent += 1;
            }
            slot.kept.whole = taken == all;
            if slot.kept.whole {
                early = early.or(slot.kept.early.map(|result| (index, result)));
            } else {
                self.wire.partial = Some((index, skip + taken));
            }
            unsent = at + 1;
        }
        for (index, _) in self.wire.sending.drain(unsent..).rev() {
            let own = self.slots.at(index).tag.is_none();
            if own { self.wire.own.push_front(index) } else { self.outbox.push_front(index) }
        }
        self.wire.sending.clear();
        if let Some((index, result)) = early {
            self.finish(index, result);
        }
    }

    /// Completes a request that the server has answered, once all of its bytes were sent: the rest of them must follow
    /// in any case, and comes from its memory.
    pub(super) fn settle(&mut self, index: u32, result: i64) {
        match self.wire.partial {
            Some((partial, _)) if partial == index => self.slots.at_mut(index).kept.early = Some(result),
            _ => self.finish(index, result),
        }
    }

    /// Nothing more is sent over this connection, so the rest of a request that was sent in part is not.
    pub(super) fn drop_partial(&mut self) {
        let Some((index, _)) = self.wire.partial.take() else { return };
        if let Some(result) = self.slots.at(index).kept.early {
            self.finish(index, result);
        }
    }
}
