//! The transmission phase of one connection, driven by one thread with a channel of its own.
//!
//! Each turn takes the requests that have arrived, submits them as one batch, reaps what is complete and sends all
//! replies with one call. The thread sleeps for its socket and its bios at once, or with nothing in work for an interval
//! (`Moderation`). A client has at most as many requests in work as there are slots; while all are in use, or its memory
//! is, nothing is received. So a client that does not read its replies stops itself.

mod outbox;
mod partial;
mod slots;
mod status;
mod work;

use super::link::Link;
use super::negotiation::Agreed;
use super::terms::{Plan, Terms};
use crate::admission::Admission;
use crate::bios::{self, Bios};
use crate::buffers::Buffers;
use crate::clients::{Client, Connected};
use crate::events::Log;
use crate::export::Options;
use crate::moderation::Moderation;
use crate::restart::FirstFlush;
use crate::served::Served;
use crate::stream::copies::Copies;
use crate::stream::inbox::Inbox;
use crate::stream::sleep::{Sleep, Wants};
use crate::stream::socket::Mode;
use crate::telling::FirstFailure;
use outbox::{Body, Outbox};
use platter_disk::channel::Channel;
use platter_disk::pool::PoolBuf;
use platter_remote::nbd::wire::Request;
use rustix::io::Errno;
use slots::Slots;
use std::io::IoSliceMut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// From this payload on the next one is not received together with its header, so that it is not copied.
const LARGE_PAYLOAD: u32 = 32 << 10;

/// Intervals are tried however many requests come together: a client takes about as long to send them.
const MANY: u32 = u32::MAX;

/// After this time without a request, memory for data is returned to the system.
pub(super) const IDLE: Duration = Duration::from_secs(1);

/// How often something is received after the server was told to stop: enough for what a socket can hold.
const LAST_ROUNDS: u32 = 64;

/// Attempts in vain after which the search for more requests pauses, and for how many replies.
const MISSES: u32 = 8;
const PAUSE: u32 = 64;

/// The payload of a write that is being received.
struct Incoming {
    slot: u16,
    buffer: PoolBuf,
    filled: usize,
}

/// A write that is refused.
struct Refused {
    slot: u16,
    request: Request,
    error: u32,
    message: &'static str,
}

/// One connection in the transmission phase.
pub(super) struct Session<'a> {
    link: Link,
    client: &'a Client,
    log: &'a Log,
    served: Arc<Served>,
    first_flush: FirstFlush,
    admission: Admission,
    terms: Terms,
    sparse_reads: bool,
    channel: Channel,
    inbox: Inbox,
    copies: Copies,
    incoming: Option<Incoming>,
    /// Bytes of a refused payload that are still to be dropped.
    skip: u32,
    /// The request whose payload that is. It is answered behind its payload: a client may not take replies before it has sent it.
    refused: Option<Refused>,
    /// Most bytes to receive beyond the payload that is under way.
    ahead: usize,
    /// Everything that had arrived was received; more is to be awaited.
    drained: bool,
    /// The next request waits for a slot or for memory.
    stalled: bool,
    buffers: Buffers,
    slots: Slots,
    outbox: Outbox,
    bios: Bios,
    sleep: Sleep,
    /// Why no more requests are taken.
    ended: Option<&'static str>,
    failure: FirstFailure,
    stopping: &'a AtomicBool,
    /// How often something is received once the server stops.
    rounds_left: u32,
    gathering: Gathering,
    moderation: Moderation,
}

/// Whether it pays to look for more requests before replies are sent.
#[derive(Default)]
struct Gathering {
    /// Attempts in vain since the last one that was not.
    misses: u32,
    /// Occasions to let pass before the next attempt.
    pause: u32,
}

impl Gathering {
    #[inline]
    fn is_due(&mut self) -> bool {
        self.pause = self.pause.saturating_sub(1);
        self.pause == 0
    }

    fn tried(&mut self, found: bool) {
        self.misses = if found { 0 } else { self.misses + 1 };
        self.pause = if self.misses > MISSES { PAUSE } else { 0 };
    }
}

impl<'a> Session<'a> {
    /// A session on the terms of `agreed`. `first`: bytes that have arrived already.
    ///
    /// # Errors
    /// The device cannot open another channel, or there is no free descriptor: a sentence.
    pub(super) fn new(
        link: Link,
        agreed: Agreed,
        first: &[u8],
        options: &Options,
        (client, log, stopping): (&'a Connected, &'a Log, &'a AtomicBool),
    ) -> Result<Session<'a>, String> {
        let channel = agreed.served.device().channel(options.depth).map_err(|error| error.to_string())?;
        let sleep = Sleep::new(link.socket())
            .map_err(|errno| format!("no descriptor for another connection: {errno}"))?;
        Ok(Session {
            link,
            client,
            log,
            first_flush: agreed.served.newcomer(),
            admission: Admission::join(&agreed.served, client, sleep.bell()),
            served: agreed.served,
            terms: agreed.terms,
            sparse_reads: options.sparse_reads,
            channel,
            inbox: Inbox::new(first),
            copies: Copies::default(),
            incoming: None,
            skip: 0,
            refused: None,
            ahead: usize::MAX,
            drained: false,
            stalled: false,
            buffers: Buffers::new(options.client_memory_bytes, client.memory()),
            slots: Slots::new(options.depth),
            outbox: Outbox::default(),
            bios: Bios::default(),
            sleep,
            ended: None,
            failure: FirstFailure::default(),
            stopping,
            rounds_left: LAST_ROUNDS,
            gathering: Gathering::default(),
            moderation: Moderation::new(MANY),
        })
    }

    /// Serves until the connection ends; returns the reason.
    pub(super) fn run(mut self) -> &'static str {
        loop {
            self.take_requests();
            if self.channel.outstanding() > 0 {
                self.channel.poll(&mut self.bios.done);
            }
            self.finish_all();
            if self.link.socket().is_cut() {
                self.end("it was disconnected");
                return self.broken();
            }
            if self.gathers() {
                continue;
            }
            let used = self.slots.used();
            if let Err(errno) = self.send()
                && errno != Errno::AGAIN
            {
                return self.broken();
            }
            self.client.counts.in_flight.store(self.slots.used() as u64, Ordering::Relaxed);
            let copied = self.copies.bytes() + self.link.copied_bytes();
            self.client.counts.copied_bytes.store(copied, Ordering::Relaxed);
            if self.stalled && self.slots.used() < used {
                continue;
            }
            let idle = self.channel.outstanding() == 0 && self.outbox.is_empty() && !self.link.is_behind();
            if let (Some(why), true) = (self.ended, idle) {
                self.link.close();
                return why;
            }
            let takes = self.ended.is_none() && !self.stalled && !self.admission.waits();
            if takes && (idle || !self.drained) && self.receive_more(idle) {
                continue;
            }
            self.wait();
        }
    }

    /// Receives once more before replies are sent, and returns whether something had arrived: one call then sends more
    /// replies, and the peer wakes up less often. Tried seldom while it is in vain, as with one request at a time.
    fn gathers(&mut self) -> bool {
        let takes = self.ended.is_none() && !self.stalled && !self.admission.waits();
        let gathered = self.moderation.is_on();
        if self.outbox.is_empty() || !takes || gathered || self.channel.outstanding() > 0 {
            return false;
        }
        self.gathering.is_due() && {
            let more = self.receive(Mode::Try);
            self.gathering.tried(more);
            more
        }
    }

    /// Receives if something has arrived. With nothing in work it sleeps for it.
    fn receive_more(&mut self, idle: bool) -> bool {
        if !idle {
            return self.receive(Mode::Try);
        }
        if self.drained && self.incoming.is_none() && self.moderation.is_due() {
            self.moderation.sleep();
            if self.receive(Mode::Try) {
                return true;
            }
        }
        self.receive(Mode::Wait)
    }

    /// The connection does not take replies any more. What the device has is awaited, because it uses this session's
    /// memory and others may wait for it.
    fn broken(&mut self) -> &'static str {
        self.bios.forget_all(&mut self.channel);
        self.ended.unwrap_or("the peer closed the connection before its replies were sent")
    }

    /// Receives what fits. `false`: nothing has arrived.
    fn receive(&mut self, mode: Mode) -> bool {
        let space = self.inbox.space(self.ahead, &mut self.copies);
        let (wanted, received) = match &mut self.incoming {
            Some(incoming) => {
                let rest = &mut incoming.buffer[incoming.filled..];
                let wanted = rest.len() + space.len();
                (wanted, self.link.receive(&mut [IoSliceMut::new(rest), IoSliceMut::new(space)], mode))
            }
            None => (space.len(), self.link.receive(&mut [IoSliceMut::new(space)], mode)),
        };
        match received {
            Ok(0) => self.end("the peer closed the connection"),
            Ok(bytes) => {
                self.drained = bytes < wanted;
                self.received(bytes);
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

    /// While the server stops, takes what was sent before, but not without end.
    fn count_down(&mut self) {
        if self.stopping.load(Ordering::Relaxed) {
            match self.rounds_left.checked_sub(1) {
                Some(left) => self.rounds_left = left,
                None => self.end("the server stops"),
            }
        }
    }

    /// Sorts bytes that were received into the payload under way and into the inbox.
    fn received(&mut self, mut bytes: usize) {
        if let Some(incoming) = &mut self.incoming {
            let part = bytes.min(incoming.buffer.len() - incoming.filled);
            incoming.filled += part;
            bytes -= part;
        }
        self.inbox.filled(bytes);
    }

    /// Submits the requests that have arrived, as far as there is room.
    fn take_requests(&mut self) {
        if let Some(incoming) = self.incoming.take_if(|incoming| incoming.filled == incoming.buffer.len()) {
            self.submit_write(incoming.slot, incoming.buffer);
        }
        while self.incoming.is_none() && self.ended.is_none() {
            if self.skip > 0 {
                let dropped = self.inbox.unread().len().min(self.skip as usize);
                self.inbox.consume(dropped);
                self.skip -= dropped as u32;
            }
            if self.skip == 0
                && let Some(Refused { slot, request, error, message }) = self.refused.take()
            {
                self.refuse(slot, &request, error, Body::Text(message));
            }
            let Some(header) = self.inbox.unread().first_chunk::<{ Request::BYTES }>() else { return };
            let Some(request) = Request::parse(header) else {
                return self.end("the magic number of a request is wrong");
            };
            let plan = self.terms.plan(&request);
            let full = self.slots.is_full();
            if !full && !self.admits(&request, plan) {
                return;
            }
            self.stalled = full || !self.begin(&request, plan);
            if self.stalled && self.slots.used() == 0 {
                self.end("the memory for one client cannot hold a request");
            }
            if self.stalled {
                return;
            }
            self.moderation.taken(1);
        }
    }

    /// Whether the request at the front of the inbox may start. If not, it is asked for again after a wait.
    #[inline]
    fn admits(&mut self, request: &Request, plan: Plan) -> bool {
        let bytes = match plan {
            // It was checked: no more than the largest payload.
            Plan::Read { .. } | Plan::Write { .. } => u64::from(request.length),
            // It was checked: it lies on the device, all of which may have to be read.
            Plan::ReadAhead => u64::from(request.length),
            // It was checked: they lie on the device.
            Plan::Zeroes { unmap, .. } => self.served.data_of_zeroes(u64::from(request.length), unmap),
            // It takes nothing of the device.
            Plan::Disconnect => return true,
            // The length of a request that is refused is any number, and moves nothing.
            _ => 0,
        };
        self.admission.admits(self.channel.clock(), bytes)
    }

    /// A request that was taken has its answer.
    #[inline]
    pub(super) fn answered(&mut self, slot: u16) {
        self.unlock_blocks(slot);
        let mark = self.slots.get(slot).mark;
        self.admission.answered(mark, self.channel.now());
    }

    fn finish_all(&mut self) {
        bios::finish_all(self, |session| &mut session.bios, Session::finish);
    }

    fn send(&mut self) -> Result<(), Errno> {
        let (slots, buffers) = (&mut self.slots, &mut self.buffers);
        self.outbox.send(&mut self.link, |slot, buffer| {
            slots.put(slot);
            if let Some(buffer) = buffer {
                buffers.put(buffer);
            }
        })?;
        self.link.push(Mode::Try)
    }

    /// Takes no more requests; those that were taken are answered.
    fn end(&mut self, why: &'static str) {
        self.ended.get_or_insert(why);
        if let Some(incoming) = self.incoming.take() {
            // The rest of the payload does not come: the request is not carried out.
            self.buffers.put(incoming.buffer);
            self.answered(incoming.slot);
            self.slots.put(incoming.slot);
        }
        if let Some(refused) = self.refused.take() {
            self.answered(refused.slot);
            self.slots.put(refused.slot);
        }
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self) {
        self.drained = false;
        let wants = Wants {
            receives: self.ended.is_none() && !self.stalled && !self.admission.waits(),
            sends: !self.outbox.is_empty() || self.link.is_behind(),
            wakes: false,
        };
        self.sleep.sleep(
            self.link.socket(),
            &mut self.channel,
            &mut self.bios.done,
            &mut self.admission,
            wants,
        );
    }
}
