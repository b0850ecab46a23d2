//! Requests to the socket.

use super::{Channel, Link, Settling};
use crate::nbd::client::slots::State;
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
            true => !self.own.is_empty() || self.may_stage(),
            false => !self.outbox.is_empty(),
        }
    }

    fn is_replaying(&self) -> bool {
        self.replaying > 0 || !self.replay.is_empty() || self.settling == Settling::Due
    }

    /// Whether an own request can be made.
    fn may_stage(&self) -> bool {
        match self.settling {
            Settling::Due => true,
            Settling::Sent => false,
            Settling::No => !self.replay.is_empty() && self.replaying < REPLAYED,
        }
    }

    /// Makes own requests of what has to be written again.
    fn stage_own(&mut self) {
        if self.settling == Settling::Due {
            self.settling = Settling::Sent;
            self.replaying += 1;
            self.own.push_back(self.slots.take_own_flush());
        }
        while self.may_stage()
            && let Some(kept) = self.replay.pop_front()
        {
            self.replaying += 1;
            self.own.push_back(self.slots.take_own(kept.pos, kept.len, kept.data));
        }
    }

    /// Sends what waits, as far as the socket takes it.
    pub(super) fn transmit(&mut self, now: Time) {
        if let Link::Up { socket, .. } = &self.link
            && let Err(error) = socket.push()
        {
            return match error.raw_os_error() {
                Some(libc::EINTR | libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => {}
                _ => self.broken(now, &error),
            };
        }
        while let Link::Up { socket, leaving: None } = &self.link
            && (self.partial.is_some() || self.has_next())
        {
            let socket = Arc::clone(socket);
            self.stage_own();
            self.fill_batch();
            let bytes = self.batch.bytes();
            let sent = socket.send_batch(&mut self.batch);
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
        self.sending.clear();
        while !self.batch.is_full() && self.batch.bytes() < MOST_BYTES {
            let queue = if self.is_replaying() { &mut self.own } else { &mut self.outbox };
            let first = self.partial.take();
            let Some((index, skip)) = first.or_else(|| queue.pop_front().map(|index| (index, 0))) else {
                return;
            };
            self.sending.push((index, skip));
            let slot = self.slots.at(index);
            let header = &slot.header[skip.min(slot.header.len())..];
            // SAFETY: the list is sent before anything else is done with the slots, so the header stays where it is.
            unsafe { self.batch.push_bytes(header) };
            let done = skip.saturating_sub(slot.header.len());
            self.batch.push_memory(&slot.memory, done, slot.payload() - done);
        }
    }

    /// Of the requests in the batch, the first `count` bytes were sent.
    fn count_sent(&mut self, mut count: usize) {
        let (mut unsent, mut early) = (self.sending.len(), None);
        for (at, &(index, skip)) in self.sending.iter().enumerate() {
            let slot = self.slots.at_mut(index);
            let all = slot.header.len() + slot.payload() - skip;
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
            slot.whole = taken == all;
            if slot.whole {
                early = early.or(slot.early.map(|result| (index, result)));
            } else {
                self.partial = Some((index, skip + taken));
            }
            unsent = at + 1;
        }
        for (index, _) in self.sending.drain(unsent..).rev() {
            let own = self.slots.at(index).tag.is_none();
            if own { self.own.push_front(index) } else { self.outbox.push_front(index) }
        }
        self.sending.clear();
        if let Some((index, result)) = early {
            self.finish(index, result);
        }
    }

    /// Completes a request that the server has answered, once all of its bytes were sent: the rest of them must follow
    /// in any case, and comes from its memory.
    pub(super) fn settle(&mut self, index: u32, result: i64) {
        match self.partial {
            Some((partial, _)) if partial == index => self.slots.at_mut(index).early = Some(result),
            _ => self.finish(index, result),
        }
    }

    /// Nothing more is sent over this connection, so the rest of a request that was sent in part is not.
    pub(super) fn drop_partial(&mut self) {
        let Some((index, _)) = self.partial.take() else { return };
        if let Some(result) = self.slots.at(index).early {
            self.finish(index, result);
        }
    }
}
