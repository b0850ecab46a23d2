//! Disks behind a network: the driver of all of them. A channel has one connection after another, and its requests survive the
//! loss of one.
//!
//! A [`Protocol`] connects, puts requests into bytes, takes answers out of bytes, and says what a lost connection means. What is
//! here decides when to connect again, which requests are sent again, and how the others end.

mod driver;
mod link;

use crate::reach::{Reach, Retries};
use crate::slots::{Kept, Slot, Slots, State};
use crate::unflushed::Unflushed;
use crate::waiter::Waiter;
use platter_block::bio::Op;
use platter_block::driver::Completion;
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

pub(crate) const GONE: i64 = -(libc::ENODEV as i64);
pub(crate) const UNKNOWN: i64 = -(libc::ENOLINK as i64);
pub(crate) const FAILED: i64 = -(libc::EIO as i64);
pub(crate) const CANCELLED: i64 = -(libc::ECANCELED as i64);

/// How connections are used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Most at once.
    pub(crate) connections: u32,
    /// Most requests of each.
    pub(crate) depth: u32,
    pub(crate) connect_timeout: Span,
    pub(crate) peer_timeout: Span,
    /// How long I/O is held while there is none.
    pub(crate) reconnect: Span,
}

/// What the channels of a disk share, whatever its protocol.
pub(crate) struct Common {
    pub(crate) bounds: Bounds,
    pub(crate) unflushed: Unflushed,
    pub(crate) reach: Reach,
    pub(crate) reconnects: AtomicU64,
    /// Requests that were sent again.
    pub(crate) repeated: AtomicU64,
}

impl Common {
    /// `replay`: most bytes that are kept to be written again.
    pub(crate) fn new(bounds: Bounds, replay: u64) -> Common {
        Common {
            bounds,
            unflushed: Unflushed::new(replay),
            reach: Reach::default(),
            reconnects: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
        }
    }
}

/// Sentences of a protocol.
pub(crate) struct Words {
    /// An attempt to connect took too long.
    pub(crate) silent: &'static str,
    /// What there is not after an attempt that failed.
    pub(crate) absent: &'static str,
    /// A flush was answered that cannot be believed.
    pub(crate) flush_failed: &'static str,
    /// An unanswered change was borne for long enough.
    pub(crate) unanswered: &'static str,
    /// A channel ends with unanswered changes.
    pub(crate) left: &'static str,
}

/// How a kind of server is spoken to. An implementation is the part of a channel that is its own.
pub(crate) trait Protocol: Sized + Send + 'static {
    /// What the channels of a disk share.
    type Shared: Deref<Target = Common> + Send + Sync;
    /// A connection that works, or that has not yet ended.
    type Connection: Send;
    /// One that is being made.
    type Attempt: Send;
    /// What the server has said of the disk when it is made.
    type Ready;
    /// What is kept of a request.
    type Kept: Kept + Send;

    /// A new connection of a channel ends all that the server has of the old one. Otherwise only the server's closing its side
    /// shows that it is done.
    const ENDS_OLD: bool;
    /// How often a request is sent at most: it may be what the server dies of.
    const ATTEMPTS: u8;
    const WORDS: Words;

    /// Begins to connect.
    fn connect(channel: &mut Channel<Self>) -> Result<Self::Attempt, String>;

    /// Goes on with it, without blocking.
    fn negotiate(attempt: &mut Self::Attempt) -> Result<Option<Self::Ready>, String>;

    /// Takes a new connection into use. An error fails the disk: it has come back as another one.
    fn accept(
        channel: &mut Channel<Self>,
        attempt: Self::Attempt,
        ready: Self::Ready,
    ) -> Result<Self::Connection, String>;

    /// Drops the connection, if there is one. `why` it was lost; `None`: the disk has failed.
    fn disconnect(channel: &mut Channel<Self>, why: Option<&str>);

    /// The channel ends.
    fn close(channel: &mut Channel<Self>);

    /// Puts a request into bytes, each time before it is sent.
    fn stage(_slot: &mut Slot<Self::Kept>, _index: u32) {}

    /// Sends what waits, as far as the connection takes it.
    fn transmit(channel: &mut Channel<Self>, now: Time);

    /// Receives what has come.
    fn receive(channel: &mut Channel<Self>, now: Time);

    /// Whether there may be something to receive although no request was sent.
    fn has_input(_channel: &Channel<Self>) -> bool {
        false
    }

    /// When a connection that works is to be run next.
    fn next_event(_channel: &Channel<Self>) -> Option<Time> {
        None
    }

    /// Whether the connection waits for room to send. `None`: there is none.
    fn wants_output(channel: &mut Channel<Self>) -> Option<bool>;

    /// Awaits the connection.
    fn listen(channel: &Channel<Self>, waiter: &Waiter, output: bool);

    /// Blocks until the connection has something to do, or the time has passed.
    fn wait(channel: &mut Channel<Self>, limit: Option<Span>);

    /// A change was answered.
    fn changed(channel: &Channel<Self>, slot: &Slot<Self::Kept>);

    /// Notices losses of other connections, before a flush is believed.
    fn look_at_others(channel: &Channel<Self>);

    /// Asks the server to end a request that it has, or may have. `false`: that cannot be asked.
    fn abort(_channel: &mut Channel<Self>, _now: Time, _index: u32) -> bool {
        false
    }

    /// The server has not answered that in time.
    fn abort_failed(_channel: &mut Channel<Self>, _now: Time) {}

    /// Whether a request that the server has was answered.
    fn is_answered(_slot: &Slot<Self::Kept>) -> bool {
        false
    }

    /// Requests that the channel has made itself.
    fn own(&self) -> usize {
        0
    }

    /// One of them has ended.
    fn own_ended(_channel: &mut Channel<Self>, _index: u32, _result: i64) {}

    /// The connection of one of them was lost. `may_land`: the server may still carry it out.
    fn own_lost(_channel: &mut Channel<Self>, _index: u32, _may_land: bool) {}
}

/// The state of the connection.
pub(crate) enum Link<P: Protocol> {
    Up(P::Connection),
    /// There is none. The next attempt is made when it is needed, but not before a time.
    Down {
        retry: Time,
    },
    /// It is being made.
    Attempting {
        attempt: Box<P::Attempt>,
        until: Time,
    },
}

/// A channel to a disk.
pub(crate) struct Channel<P: Protocol> {
    pub(crate) shared: Arc<P::Shared>,
    pub(crate) link: Link<P>,
    pub(crate) slots: Slots<P::Kept>,
    /// Requests that wait to be sent, in order.
    pub(crate) outbox: VecDeque<u32>,
    /// Requests that the server has.
    pub(crate) sent: usize,
    /// Those of them that were cancelled.
    pub(crate) cancelled: usize,
    /// Changes whose connection was lost, and that the server may still carry out.
    pub(crate) unanswered: usize,
    pub(crate) ready: Vec<Completion>,
    pub(crate) retries: Retries,
    pub(crate) waiter: OnceLock<Waiter>,
    /// Whether the waiter listens for room to send.
    awaits_output: AtomicBool,
    /// What is the protocol's own.
    pub(crate) wire: P,
}

impl<P: Protocol> Channel<P> {
    pub(crate) fn new(shared: Arc<P::Shared>, connection: P::Connection, wire: P) -> Channel<P> {
        Channel {
            shared,
            link: Link::Up(connection),
            slots: Slots::new(),
            outbox: VecDeque::new(),
            sent: 0,
            cancelled: 0,
            unanswered: 0,
            ready: Vec::new(),
            retries: Retries::default(),
            waiter: OnceLock::new(),
            awaits_output: AtomicBool::new(false),
            wire,
        }
    }

    /// Puts a request into another state.
    pub(crate) fn enter(&mut self, index: u32, state: State) {
        let slot = self.slots.at_mut(index);
        match slot.state {
            State::Sent => {
                self.sent -= 1;
                self.cancelled -= usize::from(slot.cancelled.is_some());
            }
            State::Unanswered(_) => self.unanswered -= 1,
            State::Staged | State::Free => {}
        }
        match state {
            State::Sent => self.sent += 1,
            State::Unanswered(_) => self.unanswered += 1,
            State::Staged | State::Free => {}
        }
        slot.state = state;
    }

    /// Whether a request is not sent again: a command of the program, a cancelled request, or one that has lost its connection too often.
    pub(crate) fn is_over(slot: &Slot<P::Kept>) -> bool {
        slot.command.is_some() || slot.cancelled.is_some() || slot.attempts >= P::ATTEMPTS
    }

    /// Puts a request that was sent in front of those that wait.
    pub(crate) fn stage_again(&mut self, index: u32) {
        self.enter(index, State::Staged);
        P::stage(self.slots.at_mut(index), index);
        self.shared.repeated.fetch_add(1, Ordering::Relaxed);
        self.outbox.push_front(index);
    }

    /// Completes a request with a result, as the server or the channel has decided.
    pub(crate) fn finish(&mut self, index: u32, mut result: i64) {
        self.enter(index, State::Staged);
        let slot = self.slots.at(index);
        let Some(tag) = slot.tag else {
            P::own_ended(self, index, result);
            return self.slots.put(index);
        };
        if result >= 0 && slot.changes() {
            P::changed(self, slot);
        }
        if result >= 0 && slot.op == Op::Flush {
            P::look_at_others(self);
            match self.shared.unflushed.flushed(slot.covers) {
                true => self.shared.reach.recover(),
                false => {
                    self.shared.reach.report(P::WORDS.flush_failed);
                    result = FAILED;
                }
            }
        }
        self.ready.push(Completion { tag, result });
        self.slots.put(index);
    }

    /// Makes the wait handle readable.
    pub(crate) fn ring(&self) {
        if let Some(waiter) = self.waiter.get() {
            waiter.bell.ring_once();
        }
    }

    /// Makes the wait handle readable, if there is something to report.
    fn announce(&self) {
        if !self.ready.is_empty() {
            self.ring();
        }
    }

    /// Keeps the wait handle up to date. `anew`: there is another connection.
    fn listen(&mut self, anew: bool) {
        if self.waiter.get().is_none() {
            return;
        }
        let Some(output) = P::wants_output(self) else { return };
        let was = self.awaits_output.swap(output, Ordering::Relaxed);
        if let (Some(waiter), true) = (self.waiter.get(), was != output || anew) {
            P::listen(self, waiter, output);
        }
    }
}

impl<P: Protocol> Drop for Channel<P> {
    fn drop(&mut self) {
        P::close(self);
    }
}
