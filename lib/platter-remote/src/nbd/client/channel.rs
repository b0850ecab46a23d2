//! The driver: one connection, whose requests survive its loss.

use super::attempt::Attempt;
use super::memory::Batch;
use super::shared::Shared;
use super::slots::{Slots, State};
use super::socket::Socket;
use crate::nbd::reply::MAX_PARSED;
use crate::nbd::wire::{Request, command};
use crate::reach::{LONGEST_PAUSE, Retries};
use crate::unflushed::{Change, Kept};
use crate::waiter::Waiter;
use platter_block::bio::Op;
use platter_block::driver::{Completion, Driver, Started};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

mod link;
mod receive;
#[cfg(test)]
mod tests;
mod transmit;

/// Bytes of the buffer for headers of replies.
const INPUT: usize = if MAX_PARSED > 16 << 10 { MAX_PARSED } else { 16 << 10 };

/// The state of the connection.
enum Link {
    /// It works. `leaving`: the server is shutting down and takes no more requests; it has until then to close its side.
    Up { socket: Arc<Socket>, leaving: Option<Time> },
    /// The server has not kept to the protocol. Nothing is sent any more, and what it sends is dropped, until it has
    /// closed its side too: then it works on no request any more. `most`: bytes that are dropped at most.
    Draining { socket: Arc<Socket>, until: Time, most: u64 },
    /// There is none. The next attempt is made when it is needed, but not before a time.
    Down { retry: Time },
    /// It is being made.
    Attempting { attempt: Box<Attempt>, until: Time },
}

/// Data of a read that the server is sending.
#[derive(Clone, Copy)]
struct Payload {
    slot: u32,
    /// Where the next byte belongs, from the beginning of the read.
    at: usize,
    left: usize,
    /// Whether the reply ends with it.
    done: bool,
}

/// A flush over a new connection before anything is written again. The server may owe it an error for what it has lost,
/// which is written again after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settling {
    No,
    Due,
    Sent,
}

/// A channel to a remote disk.
pub(super) struct Channel {
    shared: Arc<Shared>,
    link: Link,
    slots: Slots,
    /// Requests that wait to be sent, in order.
    outbox: VecDeque<u32>,
    /// The channel's own requests that wait to be sent; they come before everything else.
    own: VecDeque<u32>,
    /// What the channel has yet to write again.
    replay: VecDeque<Kept>,
    settling: Settling,
    /// Own requests that were not answered.
    replaying: usize,
    /// The request of which only a part could be sent, and how much.
    partial: Option<(u32, usize)>,
    /// Requests that the server has.
    sent: usize,
    /// Changes whose connection was lost, and that the server may still carry out.
    unanswered: usize,
    batch: Batch,
    /// Requests of the batch, with the bytes of each.
    sending: Vec<(u32, usize)>,
    input: Box<[u8]>,
    /// The bytes of `input` that were not parsed.
    begin: usize,
    end: usize,
    payload: Option<Payload>,
    /// Since when there may be something to receive that the last call has left, while the queue has requests here.
    again: Option<Time>,
    ready: Vec<Completion>,
    retries: Retries,
    waiter: OnceLock<Waiter>,
    /// Whether the waiter listen for room to send.
    awaits_output: AtomicBool,
}

impl Channel {
    /// A channel over a connection that has been negotiated.
    pub(super) fn new(shared: Arc<Shared>, socket: Socket) -> Channel {
        let socket = Arc::new(socket);
        // Before anything is written that a loss would count for too.
        shared.look_at_all();
        if shared.connections() == 0 {
            // What was written over earlier connections was not watched since they ended.
            shared.unflushed.lost();
        }
        shared.add(&socket);
        let replay = shared.unflushed.to_replay();
        Channel {
            shared,
            link: Link::Up { socket, leaving: None },
            slots: Slots::default(),
            outbox: VecDeque::new(),
            own: VecDeque::new(),
            settling: if replay.is_empty() { Settling::No } else { Settling::Due },
            replay,
            replaying: 0,
            partial: None,
            sent: 0,
            unanswered: 0,
            batch: Batch::default(),
            sending: Vec::new(),
            input: vec![0; INPUT].into_boxed_slice(),
            begin: 0,
            end: 0,
            payload: None,
            again: None,
            ready: Vec::new(),
            retries: Retries::default(),
            waiter: OnceLock::new(),
            awaits_output: AtomicBool::new(false),
        }
    }

    fn socket(&self) -> Option<&Socket> {
        match &self.link {
            Link::Up { socket, .. } | Link::Draining { socket, .. } => Some(socket),
            Link::Attempting { attempt, .. } => Some(&attempt.socket),
            Link::Down { .. } => None,
        }
    }

    /// Whether the channel waits for room to send.
    fn wants_output(&mut self) -> bool {
        match &mut self.link {
            Link::Up { leaving: Some(_), .. } => false,
            Link::Up { socket, .. } => {
                let is_behind = socket.is_behind();
                is_behind || self.partial.is_some() || self.has_next()
            }
            Link::Attempting { attempt, .. } => attempt.wants_output(),
            _ => false,
        }
    }

    /// Completes a request with a result, as the server or the channel has decided.
    fn finish(&mut self, index: u32, result: i64) {
        let slot = self.slots.at(index);
        match slot.state {
            State::Sent => self.sent -= 1,
            State::Unanswered(_) => self.unanswered -= 1,
            _ => {}
        }
        let mut result = result;
        if result >= 0 && slot.op.changes() && slot.tag.is_some() {
            let copy = || slot.memory.copy(slot.len as usize);
            let (op, pos, len, fua) = (slot.op, slot.pos, slot.len, slot.fua);
            self.shared.unflushed.changed(&Change { op, pos, len, fua, copy: &copy });
            if self.socket().is_some_and(Socket::has_ended) {
                // The answer came before the end, and is read after what was lost was counted.
                self.shared.unflushed.lost();
            }
        }
        if result >= 0 && slot.op == Op::Flush && slot.tag.is_some() {
            self.shared.look_at_others();
            if self.shared.unflushed.flushed(slot.covers) {
                self.shared.reach.recover();
            } else {
                self.shared
                    .reach
                    .report("a flush failed: a connection was lost, and with it perhaps earlier writes");
                result = -i64::from(libc::EIO);
            }
        }
        match slot.tag {
            Some(tag) => self.ready.push(Completion { tag, result }),
            None => {
                self.replaying -= 1;
                if slot.op == Op::Flush {
                    self.settling = Settling::No;
                } else if result < 0 {
                    self.shared.unflushed.suspect();
                }
            }
        }
        self.slots.put(index);
    }

    /// Makes the wait handle readable: there is something to report.
    fn announce(&self) {
        if let Some(waiter) = self.waiter.get() {
            waiter.bell.ring_once();
        }
    }

    /// Keeps the wait handle up to date.
    fn listen(&mut self) {
        if self.waiter.get().is_none() {
            return;
        }
        let output = self.wants_output();
        if self.awaits_output.swap(output, Ordering::Relaxed) != output
            && let (Some(waiter), Some(socket)) = (self.waiter.get(), self.socket())
        {
            waiter.listen(socket, output);
        }
    }

    /// There is another socket.
    fn listen_anew(&mut self) {
        let output = self.wants_output();
        self.awaits_output.store(output, Ordering::Relaxed);
        if let (Some(waiter), Some(socket)) = (self.waiter.get(), self.socket()) {
            waiter.listen(socket, output);
        }
    }
}

impl Driver for Channel {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        if self.slots.taken() - self.replaying >= self.shared.options.depth as usize {
            return false;
        }
        let index = self.slots.take(request);
        if request.op == Op::Flush {
            self.slots.at_mut(index).covers = self.shared.unflushed.begin_flush();
        }
        self.outbox.push_back(index);
        if self.shared.reach.failure().is_some() {
            self.fail_all(now);
        }
        true
    }

    fn submit(&mut self, now: Time) {
        self.advance(now);
        if !self.ready.is_empty() {
            self.announce();
        }
        self.listen();
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        if let Some(waiter) = self.waiter.get() {
            waiter.bell.clear();
        }
        // An idle connection is looked at only for threads that would otherwise see it readable forever.
        let leaving = matches!(self.link, Link::Up { leaving: Some(_), .. });
        if self.sent > 0 || leaving || self.again.is_some() || self.waiter.get().is_some() {
            self.receive(now);
        }
        self.advance(now);
        self.listen();
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        let link = match &self.link {
            Link::Up { leaving, .. } => *leaving,
            Link::Down { retry } => self.has_next().then_some(*retry),
            Link::Draining { until, .. } | Link::Attempting { until, .. } => Some(*until),
        };
        Time::earliest(Time::earliest(link, self.next_unanswered()), self.again)
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.submit(now);
        if !self.ready.is_empty() || self.slots.taken() == 0 || self.again.is_some() {
            return;
        }
        let event = self.next_event().map(|at| at.since(now));
        let limit = timeout.into_iter().chain(event).min();
        let output = self.wants_output();
        match self.socket() {
            Some(socket) => socket.wait(output, limit),
            None => {
                // An interrupted sleep ends early, as the caller expects.
                platter_wait::nap(limit.unwrap_or(LONGEST_PAUSE));
            }
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        if self.waiter.get().is_none() {
            let waiter = Waiter::new().ok()?;
            // Listens for room to send too, until the channel is run next.
            self.awaits_output.store(true, Ordering::Relaxed);
            self.socket().into_iter().for_each(|socket| waiter.listen(socket, true));
            let _ = self.waiter.set(waiter);
            self.announce();
        }
        self.waiter.get().map(|waiter| waiter.descriptor().as_raw_fd())
    }

    /// A request that was sent cannot be recalled.
    fn cancel(&mut self, _now: Time, tag: u32) -> bool {
        let Some(index) = self.slots.with_tag(tag) else { return false };
        if self.slots.at(index).state != State::Staged {
            return false;
        }
        self.outbox.retain(|&other| other != index);
        self.finish(index, -i64::from(libc::ECANCELED));
        self.announce();
        true
    }
}

impl Drop for Channel {
    /// Waits for the answers to what was sent, so that the server works on nothing any more when the disk is closed.
    fn drop(&mut self) {
        let begin = Instant::now();
        self.outbox.clear();
        self.own.clear();
        self.replay.clear();
        let most = Duration::from_nanos(self.shared.options.peer_timeout.0);
        while self.sent > 0
            && let Link::Up { socket, .. } | Link::Draining { socket, .. } = &self.link
        {
            let left = most.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            let socket = Arc::clone(socket);
            let output = self.wants_output();
            if self.again.is_none() {
                socket.wait(output, Some(Span(left.as_nanos() as u64)));
            }
            self.transmit(Time(0));
            self.receive(Time(0));
            self.drain(Time(0));
        }
        self.leave_unanswered();
        if let Link::Up { socket, .. } | Link::Draining { socket, .. } = &self.link {
            self.shared.remove(socket);
        }
        if let (Link::Up { socket, .. }, None) = (&self.link, self.partial) {
            let bye = Request { kind: command::DISC, ..Request::default() }.to_bytes();
            // Best effort: the server sees the end of the connection in any case.
            let _ = socket.send(&bye);
            socket.end_output();
        }
        self.shared.channels.fetch_sub(1, Ordering::SeqCst);
    }
}
