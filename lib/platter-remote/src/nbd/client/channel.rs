//! The NBD protocol over a connection, as a channel has it.

use super::attempt::Attempt;
use super::memory::Batch;
use super::shared::Shared;
use super::slots::{Parcel, prepare};
use super::socket::Socket;
use crate::nbd::handshake::{Export, Handshake, Outcome};
use crate::nbd::reply::MAX_PARSED;
use crate::nbd::wire::{Request, command};
use crate::reconnect::{self, Protocol, Words};
use crate::slots::Slot;
use crate::unflushed::{Change, Kept};
use crate::waiter::Waiter;
use platter_block::bio::Op;
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

mod link;
mod receive;
#[cfg(test)]
mod tests;
mod transmit;

/// Bytes of the buffer for headers of replies.
const INPUT: usize = if MAX_PARSED > 16 << 10 { MAX_PARSED } else { 16 << 10 };

/// A channel to a remote disk.
pub(super) type Channel = reconnect::Channel<Nbd>;
type Link = reconnect::Link<Nbd>;

/// A connection.
pub(super) struct Connection {
    socket: Arc<Socket>,
    phase: Phase,
}

/// What a connection is used for.
enum Phase {
    /// Everything.
    Open,
    /// The server is shutting down and takes no more requests; it has until then to close its side.
    Leaving(Time),
    /// The server has not kept to the protocol. Nothing is sent any more, and what it sends is dropped, until it has
    /// closed its side too: then it works on no request any more. `most`: bytes that are dropped at most.
    Draining { until: Time, most: u64 },
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

/// What a channel has of its connection.
pub(super) struct Nbd {
    /// The channel's own requests that wait to be sent; they come before everything else.
    own: VecDeque<u32>,
    /// What the channel has yet to write again.
    replay: VecDeque<Kept>,
    settling: Settling,
    /// Own requests that were not answered.
    replaying: usize,
    /// The request of which only a part could be sent, and how much.
    partial: Option<(u32, usize)>,
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
}

/// A channel over a connection that has been negotiated.
pub(super) fn channel(shared: Arc<Shared>, socket: Socket) -> Channel {
    let socket = Arc::new(socket);
    // Before anything is written that a loss would count for too.
    shared.look_at_all();
    if shared.connections() == 0 {
        // What was written over earlier connections was not watched since they ended.
        shared.unflushed.lost();
    }
    shared.add(&socket);
    let replay = shared.unflushed.to_replay();
    let nbd = Nbd {
        own: VecDeque::new(),
        settling: if replay.is_empty() { Settling::No } else { Settling::Due },
        replay,
        replaying: 0,
        partial: None,
        batch: Batch::default(),
        sending: Vec::new(),
        input: vec![0; INPUT].into_boxed_slice(),
        begin: 0,
        end: 0,
        payload: None,
        again: None,
    };
    Channel::new(shared, Connection { socket, phase: Phase::Open }, nbd)
}

impl Channel {
    fn socket(&self) -> Option<&Socket> {
        match &self.link {
            Link::Up(connection) => Some(&connection.socket),
            Link::Attempting { attempt, .. } => Some(&attempt.socket),
            Link::Down { .. } => None,
        }
    }

    /// The connection, if answers may come.
    fn working(&self) -> Option<&Arc<Socket>> {
        match &self.link {
            Link::Up(Connection { socket, phase: Phase::Open | Phase::Leaving(_) }) => Some(socket),
            _ => None,
        }
    }

    /// The connection, if the server takes requests.
    fn open(&self) -> Option<&Arc<Socket>> {
        match &self.link {
            Link::Up(Connection { socket, phase: Phase::Open }) => Some(socket),
            _ => None,
        }
    }
}

impl Protocol for Nbd {
    type Shared = Shared;
    type Connection = Connection;
    type Attempt = Attempt;
    type Ready = Export;
    type Kept = Parcel;

    const ENDS_OLD: bool = false;
    const ATTEMPTS: u8 = 4;
    const WORDS: Words = Words {
        silent: "the server does not answer",
        absent: "no connection",
        flush_failed: "a flush failed: a connection was lost, and with it perhaps earlier writes",
        unanswered: "the connection was lost without a sign that the server is done with it, so an earlier write may \
                     still change the disk at any time; open it again when the server is known to be idle",
        left: "a connection was closed before the server had answered a write, which may still change the disk at any \
               time; open it again when the server is known to be idle",
    };

    fn connect(channel: &mut Channel) -> Result<Attempt, String> {
        let shared = &channel.shared;
        let place = &shared.places[channel.retries.next_place(shared.places.len())];
        let handshake = Handshake::open(&shared.uri.export);
        Attempt::begin(place, shared.bounds.peer_timeout, handshake).map_err(|error| error.to_string())
    }

    fn negotiate(attempt: &mut Attempt) -> Result<Option<Export>, String> {
        match attempt.advance() {
            Ok(Some(Outcome::Export(export))) => Ok(Some(export)),
            Ok(_) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    fn accept(channel: &mut Channel, attempt: Attempt, export: Export) -> Result<Connection, String> {
        let shared = &channel.shared;
        shared.check(&export)?;
        let socket = Arc::new(attempt.socket);
        shared.look_at_all();
        shared.add(&socket);
        channel.wire.replay = shared.unflushed.to_replay();
        if shared.options.replay > 0 {
            channel.wire.settling = Settling::Due;
        }
        Ok(Connection { socket, phase: Phase::Open })
    }

    fn disconnect(channel: &mut Channel, why: Option<&str>) {
        let why = why.or_else(|| channel.shared.reach.failure()).unwrap_or_default().to_owned();
        channel.end_link(&why);
    }

    fn stage(slot: &mut Slot<Parcel>, index: u32) {
        prepare(slot, index);
    }

    fn transmit(channel: &mut Channel, now: Time) {
        channel.go_on(now);
    }

    fn receive(channel: &mut Channel, now: Time) {
        channel.receive(now);
    }

    fn has_input(channel: &Channel) -> bool {
        channel.wire.again.is_some() || channel.working().is_some() && channel.open().is_none()
    }

    fn next_event(channel: &Channel) -> Option<Time> {
        let Link::Up(connection) = &channel.link else { return None };
        let until = match connection.phase {
            Phase::Open => None,
            Phase::Leaving(until) | Phase::Draining { until, .. } => Some(until),
        };
        Time::earliest(until, channel.wire.again)
    }

    fn wants_output(channel: &mut Channel) -> Option<bool> {
        if let Link::Attempting { attempt, .. } = &mut channel.link {
            return Some(attempt.wants_output());
        }
        let is_behind = channel.open().map(|socket| socket.is_behind());
        channel.socket()?;
        Some(
            is_behind
                .is_some_and(|is_behind| is_behind || channel.wire.partial.is_some() || channel.has_next()),
        )
    }

    fn listen(channel: &Channel, waiter: &Waiter, output: bool) {
        channel.socket().into_iter().for_each(|socket| waiter.listen(socket, output));
    }

    fn wait(channel: &mut Channel, limit: Option<Span>) {
        let output = Nbd::wants_output(channel).unwrap_or(false);
        if let (Some(socket), None) = (channel.socket(), channel.wire.again) {
            socket.wait(output, limit);
        }
    }

    fn changed(channel: &Channel, slot: &Slot<Parcel>) {
        let copy = || slot.kept.memory.copy(slot.len as usize);
        let (op, pos, len, fua) = (slot.op, slot.pos, slot.len, slot.fua);
        channel.shared.unflushed.changed(&Change { op, pos, len, fua, copy: &copy });
        if channel.socket().is_some_and(Socket::has_ended) {
            // The answer came before the end, and is read after what was lost was counted.
            channel.shared.unflushed.lost();
        }
    }

    fn look_at_others(channel: &Channel) {
        channel.shared.look_at_others();
    }

    fn is_answered(slot: &Slot<Parcel>) -> bool {
        slot.kept.early.is_some()
    }

    fn own(&self) -> usize {
        self.replaying
    }

    fn own_ended(channel: &mut Channel, index: u32, result: i64) {
        channel.wire.replaying -= 1;
        if channel.slots.at(index).op == Op::Flush {
            channel.wire.settling = Settling::No;
        } else if result < 0 {
            channel.shared.unflushed.suspect();
        }
    }

    /// It is made again from what is kept, unless the server may still carry it out.
    fn own_lost(channel: &mut Channel, index: u32, may_land: bool) {
        channel.wire.replaying -= 1;
        channel.slots.put(index);
        if may_land {
            channel.shared.reach.fail("the connection was lost while earlier writes were repeated, and the server may still repeat some".to_owned());
        }
    }

    /// Waits for the answers to what was sent, so that the server works on nothing any more when the disk is closed.
    fn close(channel: &mut Channel) {
        let begin = Instant::now();
        channel.outbox.clear();
        channel.wire.own.clear();
        channel.wire.replay.clear();
        let most = Duration::from_nanos(channel.shared.bounds.peer_timeout.0);
        while channel.sent > 0
            && let Link::Up(connection) = &channel.link
        {
            let left = most.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            let socket = Arc::clone(&connection.socket);
            let output = Nbd::wants_output(channel).unwrap_or(false);
            if channel.wire.again.is_none() {
                socket.wait(output, Some(Span(left.as_nanos() as u64)));
            }
            channel.transmit(Time(0));
            channel.receive(Time(0));
            channel.drain(Time(0));
        }
        channel.leave_unanswered();
        if let Link::Up(connection) = &channel.link {
            channel.shared.remove(&connection.socket);
        }
        if let (Some(socket), None) = (channel.working(), channel.wire.partial) {
            let bye = Request { kind: command::DISC, ..Request::default() }.to_bytes();
            // Best effort: the server sees the end of the connection in any case.
            let _ = socket.send(&bye);
            socket.end_output();
        }
        channel.shared.channels.fetch_sub(1, Ordering::SeqCst);
    }
}
