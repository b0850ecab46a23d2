//! A thread that carries out the requests of one queue, with a channel to the device of its own.
//!
//! Each turn takes the chains that are available, submits them as one batch, reaps what is complete and notifies the guest
//! at most once. It polls the ring before it sleeps, and asks for notifications only then.

mod data;

use super::common::{Common, Line, Stop};
use super::inflight::Journal;
use super::memory::{Lent, Memory};
use super::polling::Polling;
use super::request::{ID_BYTES, Parser, Range, Request, Rules, Status, Work, write_data, write_status};
use super::ring::{Malformed, Ring};
use super::tally::Tally;
use crate::admission::Admission;
use crate::age::Mark;
use crate::bios::{self, Bios};
use crate::moderation::Moderation;
use platter_block::bio::{Bio, Context, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_disk::channel::Channel;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Requests that a driver makes available together. It takes a driver less than a microsecond for each.
const MANY: u32 = 4;

/// Requests of a turn on a disk that completes them at once. The driver is notified after the first of them, so that it
/// works while the thread does. Other disks have all at once, which takes fewer system calls.
const TURN: u32 = 4;

/// Most bytes of zeroes that are written at once.
const STEP: u64 = 256 << 10;

/// Zeroes for ranges that must keep their space.
#[repr(align(4096))]
struct Zeroes([u8; STEP as usize]);
static ZEROES: Zeroes = Zeroes([0; STEP as usize]);

/// A request in work.
struct Slot {
    head: u16,
    work: Work,
    request: Request,
    /// Pieces of the guest's memory, kept for the next request.
    lent: Option<Lent>,
    mark: Mark,
    /// The range that is under way, and how many bytes of it are done.
    range: usize,
    done: u64,
    /// For a flush: the writes that it covers.
    covers: Vec<u64>,
    /// It is durable when it completes.
    is_durable: bool,
}

/// What a queue has to be served with.
pub(super) struct Queue {
    pub(super) number: u16,
    pub(super) ring: Ring,
    pub(super) journal: Option<Journal>,
    /// Chains that an earlier server had taken, oldest first.
    pub(super) recovered: Vec<u16>,
    pub(super) kick: Arc<OwnedFd>,
}

/// The thread's state.
pub(super) struct Worker {
    common: Arc<Common>,
    line: Arc<Line>,
    ring: Ring,
    journal: Option<Journal>,
    recovered: std::vec::IntoIter<u16>,
    kick: Arc<OwnedFd>,
    memory: Arc<Memory>,
    channel: Channel,
    parser: Parser,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// The slot of a request that waits to be admitted.
    held: Option<u16>,
    admission: Admission,
    /// How many further chains are taken. `None`: any number.
    left: Option<u16>,
    tally: Tally,
    moderation: Moderation,
    polling: Polling,
    /// What was submitted last has completed at once: the disk does not gain from large batches.
    is_instant: bool,
    bios: Bios,
}

impl Worker {
    /// A worker for a queue; made by the thread that runs it.
    ///
    /// # Errors
    /// The device has no channel.
    pub(super) fn new(common: Arc<Common>, line: Arc<Line>, queue: Queue) -> Result<Worker, String> {
        let depth = common.depth.min(usize::from(u16::MAX)).min(usize::from(queue.ring.size()).max(1));
        let channel = common.served.device().channel(depth).map_err(|error| error.to_string())?;
        let slot = |_| Slot {
            head: 0,
            work: Work::Flush,
            request: Request::default(),
            lent: None,
            mark: Mark::default(),
            range: 0,
            done: 0,
            covers: Vec::new(),
            is_durable: false,
        };
        Ok(Worker {
            memory: Arc::clone(queue.ring.memory()),
            ring: queue.ring,
            journal: queue.journal,
            recovered: queue.recovered.into_iter(),
            kick: queue.kick,
            channel,
            parser: Parser::default(),
            slots: (0..depth).map(slot).collect(),
            free: (0..depth as u16).rev().collect(),
            held: None,
            admission: Admission::new(Arc::clone(&common.share)),
            left: None,
            tally: Tally::default(),
            moderation: Moderation::new(MANY),
            polling: Polling::default(),
            is_instant: false,
            bios: Bios::default(),
            common,
            line,
        })
    }

    /// Works until it is stopped. Returns the index of the next chain that was not taken.
    ///
    /// # Errors
    /// The driver has broken the rules, or a descriptor fails; what had been taken is complete.
    pub(super) fn run(mut self) -> (u16, Result<(), String>) {
        self.ring.set_notified(false);
        let mut failed = None;
        while self.turn(&mut failed) {}
        self.ring.set_notified(true);
        (self.ring.next_index(), failed.map_or(Ok(()), Err))
    }

    /// Carries out what there is to do, or sleeps. `false`: the queue has ended. `failed`: the first failure.
    fn turn(&mut self, failed: &mut Option<String>) -> bool {
        self.look_for_stop();
        let taken = match self.take_all() {
            Ok(taken) => taken,
            Err(Malformed(why)) => {
                failed.get_or_insert(why);
                self.left = Some(0);
                0
            }
        };
        if self.channel.outstanding() > 0 {
            self.channel.poll(&mut self.bios.done);
        }
        if taken > 0 {
            self.is_instant = self.channel.outstanding() == 0;
        }
        self.moderation.taken(taken);
        self.polling.taken(taken);
        let finished = bios::finish_all(self, |worker| &mut worker.bios, Worker::finish);
        self.tell();
        let is_idle = self.free.len() == self.slots.len();
        if self.left == Some(0) && is_idle {
            return false;
        }
        if taken == 0
            && finished == 0
            && let Err(why) = self.wait()
        {
            failed.get_or_insert(why);
            self.left = Some(0);
        }
        true
    }

    fn look_for_stop(&mut self) {
        let waiting = || match self.ring.has_next() {
            true => self.ring.size(),
            false => 0,
        };
        self.left = match (self.line.stop(), self.left) {
            (Stop::Not, left) => left,
            (Stop::Now, _) => Some(0),
            (Stop::AfterThese, None) => Some(waiting()),
            (Stop::AfterThese, left) => left,
        };
    }

    /// Begins what is available and has room. Returns how many requests.
    fn take_all(&mut self) -> Result<u32, Malformed> {
        let mut taken = 0;
        if let Some(slot) = self.held.take() {
            if !self.admits(slot) {
                self.held = Some(slot);
                return Ok(0);
            }
            self.start(slot);
            taken += 1;
        }
        let most = if self.is_instant { TURN } else { u32::MAX };
        while self.held.is_none() && !self.free.is_empty() && taken < most {
            let Some(head) = self.next_head()? else { break };
            let Some(slot) = self.free.pop() else { break };
            if let Err(malformed) = self.parse(slot, head) {
                self.free.push(slot);
                return Err(malformed);
            }
            taken += 1;
            if self.admits(slot) {
                self.start(slot);
            } else {
                self.held = Some(slot);
            }
        }
        Ok(taken)
    }

    fn next_head(&mut self) -> Result<Option<u16>, Malformed> {
        if let Some(head) = self.recovered.next() {
            return Ok(Some(head));
        }
        if self.left == Some(0) {
            return Ok(None);
        }
        let head = self.ring.take()?;
        match (&mut self.left, head) {
            (Some(left), Some(_)) => *left -= 1,
            (Some(left), None) => *left = 0,
            (None, _) => {}
        }
        if let (Some(journal), Some(head)) = (&mut self.journal, head) {
            journal.begin(head);
        }
        Ok(head)
    }

    fn parse(&mut self, slot: u16, head: u16) -> Result<(), Malformed> {
        let rules =
            Rules { size: self.common.served.device().size(), read_only: self.common.served.is_read_only() };
        let entry = &mut self.slots[usize::from(slot)];
        entry.work = self.parser.parse(&self.ring, head, &rules, &mut entry.request)?;
        (entry.head, entry.range, entry.done) = (head, 0, 0);
        entry.is_durable = false;
        self.tally.begun();
        Ok(())
    }

    /// Whether a request is admitted: the client's share of the device.
    fn admits(&mut self, slot: u16) -> bool {
        if self.left.is_some() {
            self.admission.end();
        }
        let entry = &self.slots[usize::from(slot)];
        let bytes = match entry.work {
            Work::Read(range) | Work::Write(range) => range.len,
            Work::Zero { unmap } => self.common.served.data_of_zeroes(entry.request.range_bytes(), unmap),
            _ => 0,
        };
        self.admission.admits(self.channel.clock(), bytes)
    }

    fn start(&mut self, slot: u16) {
        let entry = &mut self.slots[usize::from(slot)];
        entry.mark = self.admission.start();
        match entry.work {
            Work::Read(range) => self.transfer(slot, Op::Read, range),
            Work::Write(range) => self.transfer(slot, Op::Write, range),
            Work::Flush if self.common.served.is_read_only() => self.answer(slot, Status::Done, 0),
            Work::Flush if self.common.first_flush.fails(&self.common.client, &self.common.log) => {
                if let Some(journal) = &self.journal {
                    journal.region().settle();
                }
                self.answer(slot, Status::Failed, 0);
            }
            Work::Flush => {
                if let Some(journal) = &self.journal {
                    journal.region().answered(&mut entry.covers);
                }
                let mut bio = self.bios.spare();
                bio.reset(Op::Flush, 0, 0);
                self.submit(slot, bio, Ok(()));
            }
            Work::Discard | Work::Zero { .. } => self.step(slot),
            Work::Identify => {
                let name = self.common.served.name().as_bytes();
                let mut id = [0; ID_BYTES];
                let len = name.len().min(ID_BYTES);
                id[..len].copy_from_slice(&name[..len]);
                let written = write_data(&self.memory, &entry.request.pieces, &id);
                self.answer(slot, Status::Done, written);
            }
            Work::Refuse(status) => {
                self.tally.errors += 1;
                self.answer(slot, status, 0);
            }
        }
    }

    /// Submits the next range, or part of it.
    fn step(&mut self, slot: u16) {
        let mut bio = self.bios.spare();
        let entry = &self.slots[usize::from(slot)];
        let Some(range) = entry.request.ranges.get(entry.range).copied() else {
            return self.submit(slot, bio, Err(Fault::new(Kind::Contract, Stage::Handle)));
        };
        let set = match entry.work {
            Work::Zero { unmap: false } => {
                let len = (range.len - entry.done).min(STEP);
                let zeroes: &'static [u8] = &ZEROES.0[..len as usize];
                bio.reset_write(range.pos + entry.done, zeroes)
            }
            work => {
                let op = if work == Work::Discard { Op::Discard } else { Op::WriteZeroes };
                bio.reset(op, range.pos, range.len);
                Ok(())
            }
        };
        self.submit(slot, bio, set);
    }

    fn submit(&mut self, slot: u16, mut bio: Bio, set: Result<(), Fault>) {
        let changes = !matches!(bio.op(), Op::Read | Op::Flush);
        let through = changes && !self.common.write_back.load(Ordering::Relaxed);
        bio.add_flags(if through { Flags::FUA } else { Flags::NONE });
        self.slots[usize::from(slot)].is_durable = through;
        // Fair elevators tell clients apart by it.
        bio.set_context(Context::new(self.common.client.id as u32));
        self.bios.submit(&mut self.channel, slot, bio, set);
    }

    fn finish(&mut self, mut bio: Bio) {
        let slot = bio.token() as u16;
        let moved = if bio.op() == Op::Write { bio.done() + bio.len() } else { 0 };
        let op = bio.op();
        let status = self.take_back(slot, &mut bio);
        let told = (&**self.common.client, &self.common.log);
        let status = self.common.first_flush.settle(self.common.served.device(), told, op, status);
        self.bios.put(bio);
        let entry = &self.slots[usize::from(slot)];
        if let Err(fault) = status {
            self.common.failure.tell(self.common.served.device(), told, fault, self.whole(slot));
            let unsupported = fault.kind == Kind::Unsupported;
            self.tally.errors += 1;
            return self.answer(slot, if unsupported { Status::Unsupported } else { Status::Failed }, 0);
        }
        let mut written = 0;
        match entry.work {
            Work::Read(range) => {
                written = range.len as u32;
                self.tally.read(range.len);
            }
            Work::Write(range) => self.tally.wrote(range.len),
            Work::Discard | Work::Zero { .. } => {
                if self.goes_on(slot, moved) {
                    return self.step(slot);
                }
                self.tally.discards += 1;
            }
            Work::Flush => {
                self.tally.flushes += 1;
                if let Some(journal) = &self.journal {
                    journal.region().covered(&entry.covers);
                }
            }
            Work::Identify | Work::Refuse(_) => {}
        }
        let entry = &self.slots[usize::from(slot)];
        if let (Some(journal), false) = (&mut self.journal, entry.is_durable)
            && matches!(entry.work, Work::Write(_) | Work::Zero { .. } | Work::Discard)
        {
            journal.answers_write();
        }
        self.answer(slot, Status::Done, written);
    }

    /// Whether a request with ranges has more to do after `moved` bytes were written.
    fn goes_on(&mut self, slot: u16, moved: u64) -> bool {
        let entry = &mut self.slots[usize::from(slot)];
        let len = entry.request.ranges.get(entry.range).map_or(0, |range| range.len);
        entry.done += moved;
        if entry.work != (Work::Zero { unmap: false }) || entry.done >= len {
            (entry.range, entry.done) = (entry.range + 1, 0);
        }
        entry.range < entry.request.ranges.len()
    }

    /// Gives a request back to the driver; `written` bytes of data were written to its memory.
    fn answer(&mut self, slot: u16, status: Status, written: u32) {
        let entry = &self.slots[usize::from(slot)];
        let head = entry.head;
        write_status(&self.memory, &entry.request, status);
        if let Some(journal) = &self.journal {
            journal.ending(head);
        }
        self.ring.complete(head, written + 1);
        if let Some(journal) = &self.journal {
            journal.ended(head, self.ring.used_index());
        }
        self.admission.answered(entry.mark, self.channel.now());
        self.tally.ended();
        self.free.push(slot);
    }

    /// What a request is to the device: the operation and the first range.
    fn whole(&self, slot: u16) -> (Op, u64, u64) {
        let entry = &self.slots[usize::from(slot)];
        let first = entry.request.ranges.first().copied().unwrap_or(Range { pos: 0, len: 0 });
        let (op, range) = match entry.work {
            Work::Read(range) => (Op::Read, range),
            Work::Write(range) => (Op::Write, range),
            Work::Discard => (Op::Discard, first),
            Work::Zero { .. } => (Op::WriteZeroes, first),
            _ => (Op::Flush, Range { pos: 0, len: 0 }),
        };
        (op, range.pos, range.len)
    }

    /// Notifies the guest of what is complete, and counts it.
    fn tell(&mut self) {
        if self.ring.is_to_notify() {
            self.line.call();
        }
        self.tally.add_to(&self.common.client.counts);
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self) -> Result<(), String> {
        let takes = self.left.is_none() && self.held.is_none() && !self.free.is_empty();
        let is_idle = takes && self.channel.outstanding() == 0;
        // Before notifications are asked for: the driver need not send one while the ring is polled.
        if is_idle && self.polling.is_due() && self.polls_ring() {
            return Ok(());
        }
        if is_idle && self.moderation.is_due() {
            // Without its notifications, which are dear for a guest.
            self.moderation.sleep();
            if self.ring.has_next() {
                return Ok(());
            }
        }
        if takes {
            self.ring.set_notified(true);
            if self.ring.has_next() {
                self.ring.set_notified(false);
                return Ok(());
            }
        }
        let (wake, kick) = (self.line.wake.raw(), self.kick.as_raw_fd());
        let descriptors = if takes { &[wake, kick][..] } else { &[wake] };
        self.admission.sleep(&mut self.channel, &mut self.bios.done, descriptors);
        // The guest's notification is the usual one. A wake-up that came with it ends the next sleep.
        let is_kicked = self.bios.done.is_empty() && takes && self.answer_kick()?;
        if self.bios.done.is_empty() && !is_kicked {
            self.line.wake.clear();
        }
        if takes {
            self.ring.set_notified(false);
        }
        Ok(())
    }

    /// Polls for a request for a short time, unless time is simulated. Returns whether there is one, or an end.
    fn polls_ring(&mut self) -> bool {
        let (ring, line) = (&self.ring, &self.line);
        self.channel.clock().simulated().is_none()
            && self.polling.poll(|| ring.has_next() || line.stop() != Stop::Not)
    }

    /// Takes the notification of the guest. `false`: there is none.
    fn answer_kick(&self) -> Result<bool, String> {
        match rustix::io::read(&*self.kick, &mut [0u8; 8]) {
            Ok(1..) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Ok(_) => Err("the descriptor of notifications is at its end".to_owned()),
            Err(error) => Err(format!("the descriptor of notifications fails: {error}")),
        }
    }
}

#[cfg(test)]
mod tests;
