//! The full feature phase of a session, by one thread.
//!
//! Bytes go [`units`] -> [`requests`] -> the target -> [`work`] on the device -> [`reply`]. A command waits in a slot: for
//! its data, for its share of the device, for other commands, for the device, and for its response to be sent.

mod outbox;
mod reply;
mod requests;
mod slots;
mod units;
mod work;

use super::login::{Agreed, MAX_RECEIVE, Params};
use super::texts::Texts;
use super::unit::Attached;
use crate::admission::Admission;
use crate::bios::{self, Bios};
use crate::buffers::Buffers;
use crate::clients::{Client, Connected};
use crate::events::Log;
use crate::export::Options;
use crate::restart::FirstFlush;
use crate::served::Served;
use crate::stream::copies::Copies;
use crate::stream::inbox::Inbox;
use crate::stream::shared::Shared;
use crate::stream::sleep::{Sleep, Wants};
use crate::stream::socket::{Mode, Socket};
use crate::telling::FirstFailure;
use outbox::{Digests, Outbox};
use platter_disk::channel::Channel;
use platter_remote::iscsi::wire::{DIGEST_BYTES, HEADER_BYTES, Header, opcode, padding};
use rustix::io::Errno;
use slots::{Slots, State};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use units::{Incoming, Place};

/// After this time without a request, memory for data is returned to the system.
pub(super) const IDLE: Duration = Duration::from_secs(1);

/// How often something is received after the server was told to stop: enough for what a socket can hold.
const LAST_ROUNDS: u32 = 64;

/// Most units that wait to be sent before no more are taken, and most bytes in them that are not data of the medium.
const MAX_UNSENT: usize = 4096;
const MAX_UNSENT_BYTES: usize = 1 << 20;

/// The parts of a session that exist before it.
pub(super) struct SessionParts<'a> {
    pub(super) socket: &'a Arc<Socket>,
    pub(super) client: &'a Connected,
    pub(super) shared: &'a Shared,
    pub(super) served: Arc<Served>,
    pub(super) sleep: Sleep,
    pub(super) attached: Attached,
    /// The address at which the initiator reached the server.
    pub(super) address: Option<String>,
}

/// A session and its connection.
pub(super) struct Session<'a> {
    socket: &'a Socket,
    client: &'a Client,
    log: &'a Log,
    shared: &'a Shared,
    options: &'a Options,
    address: Option<String>,
    served: Arc<Served>,
    first_flush: FirstFlush,
    admission: Admission,
    channel: Channel,
    params: Params,
    digests: Digests,
    stat_sn: u32,
    exp_cmd_sn: u32,
    /// The last number of a command that the initiator was told it may use.
    max_cmd_sn: u32,
    /// Commands that may be unanswered, besides immediate ones.
    window: u32,
    inbox: Inbox,
    copies: Copies,
    incoming: Option<Incoming>,
    /// Everything that had arrived was received; more is to be awaited.
    drained: bool,
    /// The next unit waits until others are sent; whether it is a command.
    stalled: Option<bool>,
    buffers: Buffers,
    slots: Slots,
    /// Commands that wait for their share of the device.
    arrived: VecDeque<u16>,
    /// The one of them that has asked for it.
    asks: Option<u16>,
    /// Commands that wait for others.
    waiting: usize,
    /// Task management functions that are not complete: token and task tag.
    functions: Vec<(u64, u32)>,
    next_token: u64,
    texts: Texts,
    logout: Option<Header>,
    outbox: Outbox,
    bios: Bios,
    sleep: Sleep,
    /// Why no more requests are taken.
    ended: Option<&'static str>,
    failure: FirstFailure,
    /// How often something is received once the server stops.
    rounds_left: u32,
    // Last: it is given up when the device has nothing of the session.
    attached: Attached,
}

impl<'a> Session<'a> {
    /// A session on the terms of `agreed`. `first`: bytes that have arrived already.
    ///
    /// # Errors
    /// The device cannot open another channel: a sentence.
    pub(super) fn new(parts: SessionParts<'a>, agreed: &Agreed, first: &[u8]) -> Result<Session<'a>, String> {
        let options = &parts.shared.options;
        // Answered commands that wait to be sent have slots as well.
        let slots = Slots::new(2 * options.depth);
        let admission = Admission::join(&parts.served, parts.client, parts.sleep.bell());
        let channel = parts.served.device().channel(2 * options.depth).map_err(|error| error.to_string())?;
        Ok(Session {
            socket: parts.socket,
            client: parts.client,
            log: &parts.shared.log,
            shared: parts.shared,
            options,
            address: parts.address,
            first_flush: parts.served.newcomer(),
            served: parts.served,
            admission,
            channel,
            params: agreed.params,
            digests: Digests { header: agreed.params.header_digest, data: agreed.params.data_digest },
            stat_sn: agreed.stat_sn,
            exp_cmd_sn: agreed.exp_cmd_sn,
            // As the response to the login has said.
            max_cmd_sn: agreed.exp_cmd_sn.wrapping_add(options.depth as u32).wrapping_sub(1),
            window: options.depth as u32,
            inbox: Inbox::new(first),
            copies: Copies::default(),
            incoming: None,
            drained: false,
            stalled: None,
            buffers: Buffers::new(options.client_memory_bytes, parts.client.memory()),
            slots,
            arrived: VecDeque::new(),
            asks: None,
            waiting: 0,
            functions: Vec::new(),
            next_token: 0,
            texts: Texts::default(),
            logout: None,
            outbox: Outbox::default(),
            bios: Bios::default(),
            sleep: parts.sleep,
            ended: None,
            failure: FirstFailure::default(),
            rounds_left: LAST_ROUNDS,
            attached: parts.attached,
        })
    }

    /// Serves until the connection ends; returns the reason.
    pub(super) fn run(mut self) -> &'static str {
        loop {
            self.take_units();
            self.admit();
            if self.channel.outstanding() > 0 {
                self.channel.poll(&mut self.bios.done);
            }
            bios::finish_all(&mut self, |session| &mut session.bios, Session::finish);
            self.listen();
            if self.socket.is_cut() {
                self.end("it was disconnected");
                return self.broken();
            }
            if let Err(errno) = self.send()
                && errno != Errno::AGAIN
            {
                return self.broken();
            }
            self.client.counts.in_flight.store(self.slots.open() as u64, Ordering::Relaxed);
            self.client.counts.copied_bytes.store(self.copies.bytes(), Ordering::Relaxed);
            // A command that was let go on may have failed before it reached the device.
            let goes_on = self.stalled.is_some_and(|command| !self.is_full(command));
            if goes_on || !self.bios.done.is_empty() {
                continue;
            }
            let works = self.channel.outstanding() > 0 || !self.arrived.is_empty() || self.waiting > 0;
            let idle = !works && self.functions.is_empty() && self.outbox.is_empty();
            if let (Some(why), true) = (self.ended, idle) {
                if self.answer_logout() {
                    continue;
                }
                return why;
            }
            if self.takes() && (idle || !self.drained) && self.receive_more(idle) {
                continue;
            }
            self.rest();
        }
    }

    fn takes(&self) -> bool {
        self.ended.is_none() && self.stalled.is_none() && !self.admission.waits()
    }

    /// Receives if something has arrived. With nothing in work it sleeps for it.
    fn receive_more(&mut self, idle: bool) -> bool {
        self.receive(if idle { Mode::Wait } else { Mode::Try })
    }

    /// The connection does not take responses any more. What the device has is awaited, because it uses this session's
    /// memory, and a later session of the initiator must not overtake it.
    fn broken(&mut self) -> &'static str {
        self.bios.forget_all(&mut self.channel);
        self.ended.unwrap_or("the peer closed the connection before its responses were sent")
    }

    /// Receives what fits. `false`: nothing has arrived.
    fn receive(&mut self, mode: Mode) -> bool {
        let space = self.inbox.space(usize::MAX, &mut self.copies);
        // Data with a digest passes through the inbox, where the digest is computed as it comes.
        let rest: &mut [u8] = match &self.incoming {
            Some(incoming) if !self.params.data_digest => incoming.rest(&mut self.slots),
            _ => &mut [],
        };
        let (direct, wanted) = (rest.len(), rest.len() + space.len());
        let received = match direct {
            0 => self.socket.receive(&mut [IoSliceMut::new(space)], mode),
            _ => self.socket.receive(&mut [IoSliceMut::new(rest), IoSliceMut::new(space)], mode),
        };
        match received {
            Ok(0) => self.end("the peer closed the connection"),
            Ok(bytes) => {
                self.drained = bytes < wanted;
                let direct = direct.min(bytes);
                if let Some(incoming) = &mut self.incoming {
                    incoming.advance(direct);
                }
                self.inbox.filled(bytes - direct);
                self.count_down();
            }
            Err(Errno::AGAIN) => {
                if mode == Mode::Wait {
                    self.buffers.trim();
                }
                return false;
            }
            Err(_) => self.end("the connection failed"),
        }
        true
    }

    /// Takes the units that have arrived, as far as there is room.
    fn take_units(&mut self) {
        self.stalled = None;
        while self.ended.is_none() {
            let goes_on = match self.incoming.take() {
                Some(incoming) => self.take_data(incoming),
                None => self.take_header(),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Takes a header. `false`: it has not arrived completely, or there is no room for its unit.
    fn take_header(&mut self) -> bool {
        let Some(first) = self.inbox.unread().first_chunk::<HEADER_BYTES>() else { return false };
        let header = Header(*first);
        let digest = if self.params.header_digest { DIGEST_BYTES } else { 0 };
        let covered = HEADER_BYTES + header.ahs_bytes();
        let Some(all) = self.inbox.unread().get(..covered + digest) else { return false };
        if digest > 0 && crc32c::crc32c(&all[..covered]).to_le_bytes() != all[covered..] {
            self.end("the digest of a header is wrong");
            return false;
        }
        if header.data_bytes() > MAX_RECEIVE as usize {
            self.end("a data segment is longer than was agreed on");
            return false;
        }
        if self.is_full(header.opcode() == opcode::COMMAND) {
            self.stalled = Some(header.opcode() == opcode::COMMAND);
            return false;
        }
        self.inbox.consume(covered + digest);
        let place = self.begin_unit(&header);
        if self.ended.is_none() {
            self.incoming = Some(Incoming { header, place, filled: 0, sum: 0 });
        }
        true
    }

    /// Whether the next unit is not taken until more has been sent: responses wait in too much memory or, if it is a command,
    /// in all slots. Data for a slot is taken all the same.
    fn is_full(&self, command: bool) -> bool {
        command && self.slots.is_full()
            || self.outbox.len() > MAX_UNSENT
            || self.outbox.held_bytes() > MAX_UNSENT_BYTES
    }

    /// Takes what has arrived of a unit's data. `false`: it is not complete.
    fn take_data(&mut self, mut incoming: Incoming) -> bool {
        let bytes = incoming.header.data_bytes();
        let arrived = self.inbox.unread().len().min(bytes - incoming.filled);
        let part = &self.inbox.unread()[..arrived];
        if self.params.data_digest {
            incoming.sum = crc32c::crc32c_append(incoming.sum, part);
        }
        if let Place::Bytes(all) = &mut incoming.place {
            all.extend(part);
        }
        let rest = incoming.rest(&mut self.slots);
        let kept = rest.len().min(part.len());
        self.copies.copy(&mut rest[..kept], &part[..kept]);
        self.inbox.consume(arrived);
        incoming.filled += arrived;
        let digest = if self.params.data_digest && bytes > 0 { DIGEST_BYTES } else { 0 };
        let pad = padding(bytes);
        if incoming.filled < bytes || self.inbox.unread().len() < pad + digest {
            self.incoming = Some(incoming);
            return false;
        }
        let tail = &self.inbox.unread()[..pad + digest];
        let right =
            digest == 0 || crc32c::crc32c_append(incoming.sum, &tail[..pad]).to_le_bytes() == tail[pad..];
        self.inbox.consume(pad + digest);
        if right {
            self.complete_unit(incoming.header, incoming.place);
        } else {
            // Without error recovery within a session, there is no way to ask for it again.
            self.end("the digest of data is wrong");
        }
        true
    }

    /// While the server stops, takes what was sent before, but not without end.
    fn count_down(&mut self) {
        if self.shared.is_stopping() {
            match self.rounds_left.checked_sub(1) {
                Some(left) => self.rounds_left = left,
                None => self.end("the server stops"),
            }
        }
    }

    fn send(&mut self) -> Result<(), Errno> {
        let buffers = &mut self.buffers;
        self.outbox.send(self.socket, &mut self.slots, |slots, slot| {
            if let Some(buffer) = slots.get(slot).data.take() {
                buffers.put(buffer);
            }
            slots.put(slot);
        })
    }

    /// Takes no more requests; commands whose data is complete are answered.
    fn end(&mut self, why: &'static str) {
        if self.ended.replace(self.ended.unwrap_or(why)).is_some() {
            return;
        }
        self.incoming = None;
        for slot in self.slots.in_states(&[State::Receiving]) {
            self.drop_slot(slot);
        }
    }

    /// Sleeps until there is something to do.
    fn rest(&mut self) {
        self.drained = false;
        let wants = Wants {
            receives: self.takes(),
            sends: !self.outbox.is_empty(),
            wakes: self.waiting > 0 || !self.functions.is_empty(),
        };
        self.sleep.sleep(self.socket, &mut self.channel, &mut self.bios.done, &mut self.admission, wants);
    }
}
