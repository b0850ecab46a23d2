//! The driver: requests as commands to a node, and what follows from the answers.

#![allow(unsafe_code)]

use super::node::Interface;
use super::shared::Shared;
use super::verdict::judge;
use super::work::{Asynchronous, Collected, MAX_SENT, NAP, Synchronous, Terms, Work, nap};
use crate::unflushed::Change;
use crate::waiter::Waiter;
use crate::workers::Workers;
use platter_block::bio::Op;
use platter_block::command::{Command, CommandSet, Outcome, Sense, Transfer};
use platter_block::driver::{Completion, Driver, Started};
use platter_block::time::{Span, Time};
use platter_scsi::host::encode;
use platter_scsi::host::verdict::{Judged, Verdict};
use platter_wait::wait_readable;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often a request is sent at most, if each time the unit asks for it again.
const ATTEMPTS: u8 = 6;
/// Most commands that threads have, or that wait for one.
const MAX_WAITING: usize = 128;

/// Who sends the commands.
enum Carrier {
    Asynchronous(Asynchronous),
    Threads { workers: Workers<Synchronous>, file: Arc<File>, interface: Interface, running: usize },
}

/// A request that has not been reported.
struct Slot {
    tag: u32,
    op: Op,
    pos: u64,
    len: u64,
    fua: bool,
    command: Option<Arc<Command>>,
    terms: Terms,
    attempts: u8,
    /// For a flush: the count of changes that it covers.
    covers: u64,
    /// While the carrier does not have it.
    work: Option<Box<Work>>,
}

impl Slot {
    fn changes(&self) -> bool {
        self.command.as_ref().map_or(self.op.changes(), |command| command.reach().changes())
    }
}

/// A channel to a disk.
pub(super) struct Channel {
    shared: Arc<Shared>,
    carrier: Carrier,
    waiter: Arc<Waiter>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    outbox: VecDeque<u32>,
    ready: Vec<Completion>,
    answered: Vec<Synchronous>,
    /// Another thread polls the descriptor.
    is_watched: AtomicBool,
    /// Nothing more is sent.
    is_dead: AtomicBool,
    /// The descriptor does not tell when commands end, so that threads look from time to time.
    naps: bool,
    /// When to look next.
    look_at: Option<Time>,
}

impl Channel {
    pub(super) fn new(shared: Arc<Shared>, file: File) -> io::Result<Channel> {
        let waiter = Arc::new(Waiter::new()?);
        let interface = shared.node.interface;
        let carrier = match interface == Interface::Generic && shared.options.write {
            true => Carrier::Asynchronous(Asynchronous::new(Box::new(file))),
            false => {
                let workers = Workers::new(shared.options.threads.max(1) as usize, Arc::clone(&waiter));
                Carrier::Threads { workers, file: Arc::new(file), interface, running: 0 }
            }
        };
        Ok(Channel::over(shared, carrier, waiter))
    }

    fn over(shared: Arc<Shared>, carrier: Carrier, waiter: Arc<Waiter>) -> Channel {
        Channel {
            shared,
            carrier,
            waiter,
            slots: Vec::new(),
            free: Vec::new(),
            outbox: VecDeque::new(),
            ready: Vec::new(),
            answered: Vec::new(),
            is_watched: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            naps: false,
            look_at: None,
        }
    }

    /// Commands that the carrier has.
    fn sent(&self) -> usize {
        match &self.carrier {
            Carrier::Asynchronous(carrier) => carrier.count(),
            Carrier::Threads { running, .. } => *running,
        }
    }

    fn room(&self) -> usize {
        match &self.carrier {
            Carrier::Asynchronous(_) => MAX_SENT,
            Carrier::Threads { .. } => MAX_WAITING,
        }
    }

    fn take_slot(&mut self, request: &Started<'_>) -> u32 {
        let command = request.command().cloned();
        let shared = &self.shared;
        let timeout = command.as_ref().and_then(|command| command.timeout());
        let timeout = timeout.unwrap_or(shared.options.command_timeout).0.div_ceil(1_000_000);
        let terms = Terms {
            transfer: command.as_ref().map_or(Transfer::None, |command| command.transfer()),
            timeout_ms: u32::try_from(timeout.max(1)).unwrap_or(u32::MAX),
            at_head: command.as_ref().is_some_and(|command| command.is_at_head()),
        };
        let covers = if request.op == Op::Flush { shared.unflushed.begin_flush() } else { 0 };
        let (index, work) = match self.free.pop() {
            Some(index) => (index, self.slots[index as usize].work.take()),
            None => (self.slots.len() as u32, None),
        };
        let mut slot = Slot {
            tag: request.tag,
            op: request.op,
            pos: request.pos,
            len: request.len,
            fua: request.fua,
            command,
            terms,
            attempts: 0,
            covers,
            work: None,
        };
        let mut work = work.unwrap_or_else(|| Work::new(index));
        if request.op.has_data() {
            // SAFETY: the queue keeps the request in flight until its completion is reported, which `finish`, which clears
            // the memory, comes before. While the carrier has the work its slot is not finished.
            unsafe { work.lend(request) };
        }
        match &slot.command {
            Some(command) => work.set_command(command.bytes()),
            None => {
                let block = shared.found.block;
                let (lba, count) = (slot.pos / block, (slot.len / block) as u32);
                let (bytes, way, own) = encode::command(slot.op, lba, count, slot.fua, block as usize);
                work.set_command(bytes.get());
                slot.terms.transfer = way;
                if let Some(own) = own {
                    work.own(own);
                }
            }
        }
        slot.work = Some(work);
        match self.slots.get_mut(index as usize) {
            Some(place) => *place = slot,
            None => self.slots.push(slot),
        }
        index
    }

    /// Sends what waits, as far as the carrier takes it.
    fn transmit(&mut self) {
        if self.is_dead() {
            return self.refuse_waiting();
        }
        while let Some(index) = self.outbox.pop_front() {
            let slot = &mut self.slots[index as usize];
            let Some(work) = slot.work.take() else { continue };
            let terms = slot.terms;
            let refused = match &mut self.carrier {
                Carrier::Asynchronous(carrier) => carrier.start(work, terms).err(),
                Carrier::Threads { workers, file, interface, running } => {
                    let (file, interface) = (Arc::clone(file), *interface);
                    let call = Synchronous { work, file, interface, terms, result: Ok(()) };
                    let refused = workers.start(call).err();
                    *running += usize::from(refused.is_none());
                    refused.map(|call| (call.work, io::Error::from_raw_os_error(libc::EAGAIN)))
                }
            };
            let Some((work, error)) = refused else { continue };
            self.slots[index as usize].work = Some(work);
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            // EDOM: the descriptor has as many commands as it takes.
            let is_full = matches!(errno, libc::EAGAIN | libc::EDOM | libc::ENOMEM | libc::EBUSY);
            match is_full {
                true if self.sent() > 0 => return self.outbox.push_front(index),
                true => self.finish(index, -i64::from(libc::EAGAIN)),
                false => self.finish(index, -i64::from(errno)),
            }
        }
    }

    /// Fails what was not sent to a device that takes nothing more.
    fn refuse_waiting(&mut self) {
        while let Some(index) = self.outbox.pop_front() {
            self.finish(index, -i64::from(libc::ENODEV));
        }
    }

    /// Takes the answers that have come.
    fn receive(&mut self) {
        let mut answered = std::mem::take(&mut self.answered);
        match &mut self.carrier {
            Carrier::Threads { workers, running, .. } => {
                workers.collect(&mut answered);
                *running -= answered.len();
                for call in answered.drain(..) {
                    self.returned(call.work, call.result);
                }
            }
            Carrier::Asynchronous(_) => self.receive_all(),
        }
        self.answered = answered;
    }

    fn receive_all(&mut self) {
        let mut has_any = false;
        while let Carrier::Asynchronous(carrier) = &mut self.carrier {
            match carrier.collect() {
                Collected::Answer(work) => {
                    has_any = true;
                    self.listen_again();
                    self.returned(work, Ok(()));
                }
                Collected::Nothing => {
                    // Otherwise a descriptor that has hung up ends each sleep of a thread that polls it.
                    let is_spurious = !has_any && !self.naps && self.is_watched.load(Ordering::Relaxed);
                    if is_spurious && carrier.has_hung_up() {
                        self.hang_up();
                    }
                    return;
                }
                Collected::Refused(error) => return self.refused(&error),
            }
        }
    }

    /// The device is gone. The kernel ends the commands that are out, but the descriptor does not tell when.
    fn hang_up(&mut self) {
        self.is_dead.store(true, Ordering::Relaxed);
        self.shared.report(&format!("{}: the device is gone", self.shared.node.path.display()));
        self.stop_listening();
    }

    /// The kernel does not hand out answers: the device is gone and none is there (ENODEV, Linux before 6.1), there is no
    /// memory, or this thread does not have the credentials of the thread that opened the descriptor (EPERM). The commands go on.
    fn refused(&mut self, error: &io::Error) {
        self.shared.report(&format!("{}: {error}", self.shared.node.path.display()));
        self.stop_listening();
        match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => self.is_dead.store(true, Ordering::Relaxed),
            Some(libc::EPERM) if self.has_ended_all() => self.give_up(),
            _ => {}
        }
    }

    fn has_ended_all(&self) -> bool {
        matches!(&self.carrier, Carrier::Asynchronous(carrier) if carrier.has_ended_all())
    }

    /// All commands have ended, and their answers cannot be received: what became of them is not known.
    fn give_up(&mut self) {
        self.is_dead.store(true, Ordering::Relaxed);
        let Carrier::Asynchronous(carrier) = &mut self.carrier else { return };
        let ended = carrier.abandon();
        for work in ended {
            let index = work.index;
            self.slots[index as usize].work = Some(work);
            self.finish(index, -i64::from(libc::ENOLINK));
        }
    }

    fn stop_listening(&mut self) {
        self.naps = true;
        if let Carrier::Asynchronous(carrier) = &self.carrier {
            self.waiter.forget(carrier.descriptor());
        }
    }

    /// An answer was received: the descriptor tells of the next ones, unless the device is gone.
    fn listen_again(&mut self) {
        if !self.naps || self.is_dead() {
            return;
        }
        self.naps = false;
        if let Carrier::Asynchronous(carrier) = &self.carrier
            && self.is_watched.load(Ordering::Relaxed)
        {
            self.waiter.listen(carrier.descriptor(), false);
        }
    }

    /// A command is back from the carrier.
    fn returned(&mut self, work: Box<Work>, result: io::Result<()>) {
        let index = work.index;
        let (returned, sense) = (work.returned(), Sense::new(work.sense()));
        let slot = &mut self.slots[index as usize];
        slot.work = Some(work);
        let Some(returned) = returned else {
            let errno = result.err().and_then(|error| error.raw_os_error()).unwrap_or(libc::EIO);
            return self.finish(index, -i64::from(errno));
        };
        if returned.is_direct {
            self.shared.counts.direct.fetch_add(1, Ordering::Relaxed);
        }
        if returned.status == 0 && returned.transport == 0 && slot.command.is_none() {
            let missing = u64::from(returned.residual);
            let result = if slot.op.has_data() { slot.len.saturating_sub(missing) as i64 } else { 0 };
            return self.finish(index, result);
        }
        let judged = judge(&returned, sense.bytes());
        if judged.deferred {
            self.shared.unflushed.suspect();
        }
        if let Verdict::Reset { power: true } = judged.verdict {
            self.shared.unflushed.lost();
        }
        let Some(command) = &slot.command else { return self.answered(index, judged, returned.residual) };
        command.set_outcome(&Outcome {
            status: u16::from(returned.status),
            transport: returned.transport,
            residual: returned.residual,
            sense,
            ..Outcome::GOOD
        });
        let result = match judged.verdict {
            Verdict::Good => slot.len.saturating_sub(u64::from(returned.residual)) as i64,
            // Never sent again: only its submitter knows what that would do.
            Verdict::Again | Verdict::Reset { .. } => -i64::from(libc::EREMOTEIO),
            Verdict::Busy => -i64::from(libc::EBUSY),
            Verdict::Failed(errno) => -i64::from(errno),
            Verdict::Lost => -i64::from(libc::EIO),
        };
        self.finish(index, result);
    }

    /// Does what the answer to an ordinary request asks for.
    fn answered(&mut self, index: u32, judged: Judged, missing: u32) {
        let Judged { verdict, why, .. } = judged;
        let slot = &mut self.slots[index as usize];
        match verdict {
            Verdict::Good => {
                let left = slot.len.saturating_sub(u64::from(missing));
                let result = if slot.op.has_data() { left as i64 } else { 0 };
                self.finish(index, result);
            }
            Verdict::Again | Verdict::Reset { .. } if slot.attempts + 1 < ATTEMPTS => {
                slot.attempts += 1;
                self.shared.counts.repeated.fetch_add(1, Ordering::Relaxed);
                self.outbox.push_front(index);
            }
            Verdict::Busy => {
                self.shared.counts.busy.fetch_add(1, Ordering::Relaxed);
                self.finish(index, -i64::from(libc::EAGAIN));
            }
            // A unit without a cache need not know the command.
            Verdict::Failed(libc::EOPNOTSUPP) if slot.op == Op::Flush => self.finish(index, 0),
            Verdict::Failed(errno) => {
                self.shared.report(&why);
                self.finish(index, -i64::from(errno));
            }
            Verdict::Again | Verdict::Reset { .. } | Verdict::Lost => {
                self.shared.report(&why);
                self.finish(index, -i64::from(libc::EIO));
            }
        }
    }

    /// Completes a request.
    fn finish(&mut self, index: u32, result: i64) {
        let (slot, shared) = (&mut self.slots[index as usize], &self.shared);
        let mut result = result;
        if result >= 0 && slot.changes() {
            let (op, pos, len, fua) = (slot.op, slot.pos, slot.len, slot.fua);
            shared.unflushed.changed(&Change { op, pos, len, fua, copy: &Vec::new });
        }
        if result >= 0 && slot.op == Op::Flush && !shared.unflushed.flushed(slot.covers) {
            shared.report("a flush failed: the disk may have lost earlier writes when its power was lost");
            result = -i64::from(libc::EIO);
        }
        if let Some(work) = &mut slot.work {
            work.clear();
        }
        slot.command = None;
        self.ready.push(Completion { tag: slot.tag, result });
        self.free.push(index);
    }

    /// Lets a thread that polls learn of completions that are not the kernel's.
    fn announce(&mut self) {
        if !self.ready.is_empty() && self.is_watched.load(Ordering::Relaxed) {
            self.waiter.bell.ring_once();
        }
    }
}

impl Driver for Channel {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        if self.slots.len() - self.free.len() >= self.room() {
            return false;
        }
        if request.command().is_some_and(|command| command.set() != CommandSet::Scsi) {
            self.ready.push(Completion { tag: request.tag, result: -i64::from(libc::EOPNOTSUPP) });
            return true;
        }
        let index = self.take_slot(request);
        match self.is_dead() {
            true => self.finish(index, -i64::from(libc::ENODEV)),
            false => self.outbox.push_back(index),
        }
        true
    }

    fn submit(&mut self, _now: Time) {
        self.transmit();
        self.announce();
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        self.waiter.bell.clear();
        if self.sent() > 0 {
            self.receive();
        }
        self.transmit();
        self.look_at = (self.naps && self.sent() > 0).then(|| now + NAP);
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        self.look_at.filter(|_| self.sent() > 0)
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.submit(now);
        if !self.ready.is_empty() || self.sent() == 0 {
            return;
        }
        let has_hung_up = match &self.carrier {
            _ if self.naps => return nap(timeout),
            Carrier::Asynchronous(carrier) => carrier.wait(timeout),
            Carrier::Threads { .. } => {
                wait_readable(self.waiter.descriptor(), timeout);
                false
            }
        };
        if has_hung_up {
            self.hang_up();
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        let is_known = self.is_watched.swap(true, Ordering::Relaxed);
        if let Carrier::Asynchronous(carrier) = &self.carrier
            && !self.naps
            && !self.is_dead()
        {
            // Without commands nothing is received, so that a device which is gone is noticed here.
            if self.sent() == 0 && carrier.has_hung_up() {
                self.is_dead.store(true, Ordering::Relaxed);
                self.waiter.forget(carrier.descriptor());
            } else if !is_known {
                self.waiter.listen(carrier.descriptor(), false);
            }
        }
        Some(self.waiter.descriptor().as_raw_fd())
    }

    fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
