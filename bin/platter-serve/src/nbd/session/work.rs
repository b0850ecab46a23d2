//! From requests to bios, and from completed bios to replies.

use super::outbox::{Body, Reply};
use super::slots::Job;
use super::{Incoming, LARGE_PAYLOAD, Refused, Session};
use crate::clients::add_alone;
use crate::nbd::terms::{Plan, payload_bytes, range};
use platter_block::bio::{Bio, Context, Flags, Op};
use platter_block::fault::{Fault, Kind};
use platter_disk::pool::PoolBuf;
use platter_remote::nbd::wire::{Request, command, command_flag, error, error_from_errno};

/// Most bytes of one step of a request that is carried out in steps.
const STEP: u32 = 256 << 10;

/// From this length on a read asks whether its range is a hole.
const SPARSE_FROM: u32 = 64 << 10;

impl Session<'_> {
    /// Begins the request at the front of the inbox as planned. `false`: there is no memory for it yet.
    pub(super) fn begin(&mut self, request: &Request, plan: Plan) -> bool {
        // Memory first: once the header is consumed there is no way back.
        let data = match plan {
            Plan::Read { .. } | Plan::Write { .. } => request.length,
            Plan::Zeroes { unmap: false, .. } | Plan::ReadAhead => request.length.min(STEP),
            _ => 0,
        };
        let buffer = if data > 0 { self.buffers.take(data as usize) } else { None };
        if data > 0 && buffer.is_none() {
            return false;
        }
        let Some(slot) = self.slots.take(request) else { return false };
        self.slots.get(slot).mark = self.admission.start();
        self.inbox.consume(Request::BYTES);
        let is_partial =
            matches!(plan, Plan::Read { .. } | Plan::Zeroes { .. } | Plan::Discard { .. } | Plan::ReadAhead)
                && self.terms.is_partial(request);
        match (plan, buffer) {
            (plan, buffer) if is_partial => self.begin_partial(slot, request, plan, buffer),
            (Plan::Read { whole }, Some(buffer)) => self.begin_read(slot, request, whole, buffer),
            (Plan::Write { .. }, Some(buffer)) => self.begin_write(slot, request, buffer),
            (Plan::Zeroes { fua, unmap: false }, Some(mut buffer)) => {
                buffer.fill(0);
                self.lock_blocks(slot, request, false);
                self.submit_step(slot, Job::WriteZeroes { fua }, buffer);
            }
            (Plan::ReadAhead, Some(buffer)) => self.submit_step(slot, Job::ReadAhead, buffer),
            (Plan::Flush, _) if self.first_flush.fails(self.client, self.log) => {
                let why = "answered writes may be lost: an earlier server was killed, or a flush has failed";
                self.refuse(slot, request, error::EIO, Body::Text(why));
            }
            (Plan::Flush, _) => self.submit_range(slot, Job::Flush, Op::Flush, false),
            (Plan::Discard { fua }, _) => self.begin_discard(slot, request, fua),
            (Plan::Zeroes { fua, .. }, _) => {
                self.lock_blocks(slot, request, false);
                self.submit_range(slot, Job::Change, Op::WriteZeroes, fua);
            }
            (Plan::Status { one }, _) => self.report_status(slot, request, one),
            (Plan::Disconnect, _) => {
                self.answered(slot);
                self.slots.put(slot);
                self.end("the client disconnected");
            }
            (Plan::Refuse { error, message }, _) => {
                self.skip = payload_bytes(request);
                self.ahead = usize::MAX;
                self.refused = Some(Refused { slot, request: *request, error, message });
            }
            _ => self.succeed(slot, request, None),
        }
        true
    }

    fn begin_read(&mut self, slot: u16, request: &Request, whole: bool, buffer: PoolBuf) {
        if self.sparse_reads && !whole && request.length >= SPARSE_FROM {
            let status = self.served.device().allocation(request.offset, u64::from(request.length));
            if status.is_ok_and(|extent| extent.is_hole() && extent.end() >= range(request).end) {
                self.buffers.put(buffer);
                self.answered(slot);
                self.outbox.push(Reply::hole(slot, request.cookie, request.offset, request.length));
                return;
            }
        }
        let mut bio = self.bios.spare();
        let entry = self.slots.get(slot);
        (entry.job, entry.capacity) = (Job::Read, buffer.capacity());
        let set = bio.reset_read(request.offset, buffer);
        self.submit(slot, bio, set, Flags::NONE);
    }

    /// Begins a write: what has arrived of its payload is copied, the rest is received into the bio's memory.
    fn begin_write(&mut self, slot: u16, request: &Request, mut buffer: PoolBuf) {
        let arrived = self.inbox.unread();
        let filled = arrived.len().min(buffer.len());
        self.copies.copy(&mut buffer, &arrived[..filled]);
        self.inbox.consume(filled);
        self.ahead = if request.length >= LARGE_PAYLOAD { Request::BYTES } else { usize::MAX };
        if filled == buffer.len() {
            self.submit_write(slot, buffer);
        } else {
            self.incoming = Some(Incoming { slot, buffer, filled });
        }
    }

    pub(super) fn submit_write(&mut self, slot: u16, buffer: PoolBuf) {
        let entry = self.slots.get(slot);
        (entry.job, entry.capacity) = (Job::Write, buffer.capacity());
        let request = entry.request;
        if self.terms.is_partial(&request) {
            return self.write_partial(slot, &request, buffer);
        }
        self.lock_blocks(slot, &request, false);
        let mut bio = self.bios.spare();
        let set = bio.reset_write(request.offset, buffer);
        self.submit(slot, bio, set, durable(request.flags & command_flag::FUA != 0));
    }

    pub(super) fn begin_discard(&mut self, slot: u16, request: &Request, fua: bool) {
        self.lock_blocks(slot, request, false);
        self.submit_range(slot, Job::Change, Op::Discard, fua);
    }

    fn submit_range(&mut self, slot: u16, job: Job, op: Op, fua: bool) {
        let entry = self.slots.get(slot);
        entry.job = job;
        let request = entry.request;
        let mut bio = self.bios.spare();
        bio.reset(op, request.offset, u64::from(request.length));
        self.submit(slot, bio, Ok(()), durable(fua));
    }

    /// Submits the next step of a request that is carried out in steps.
    pub(super) fn submit_step(&mut self, slot: u16, job: Job, mut buffer: PoolBuf) {
        let entry = self.slots.get(slot);
        (entry.job, entry.capacity) = (job, buffer.capacity());
        let (request, done) = (entry.request, entry.done);
        buffer.truncate((request.length - done) as usize);
        let (mut bio, pos) = (self.bios.spare(), request.offset + u64::from(done));
        let (set, flags) = match job {
            Job::ReadAhead => (bio.reset_read(pos, buffer), Flags::READAHEAD),
            Job::WriteZeroes { fua } => (bio.reset_write(pos, buffer), durable(fua)),
            _ => (bio.reset_write(pos, buffer), Flags::NONE),
        };
        self.submit(slot, bio, set, flags);
    }

    fn submit(&mut self, slot: u16, mut bio: Bio, set: Result<(), Fault>, flags: Flags) {
        bio.add_flags(flags);
        // Fair elevators tell clients apart by it.
        bio.set_context(Context::new(self.client.id as u32));
        self.bios.submit(&mut self.channel, slot, bio, set);
    }

    /// Turns a completed bio into a reply, or into the next step of its request.
    pub(super) fn finish(&mut self, bio: Bio) {
        let (slot, moved) = (bio.token() as u16, bio.done() + bio.len());
        let told = (self.client, self.log);
        let status = self.first_flush.settle(self.served.device(), told, bio.op(), bio.status());
        let entry = self.slots.get(slot);
        let buffer = self.bios.put_from(bio, &mut self.buffers, entry.capacity);
        let (request, job) = (entry.request, entry.job);
        if let (Err(fault), false) = (status, job == Job::ReadAhead) {
            if let Some(buffer) = buffer {
                self.buffers.put(buffer);
            }
            return self.refuse_failed(slot, &request, job, fault);
        }
        match (job, buffer) {
            (Job::Read, data) => self.succeed(slot, &request, data),
            (Job::WriteZeroes { .. } | Job::ReadAhead, Some(buffer)) => {
                entry.done += moved as u32;
                if entry.done < request.length && status.is_ok() {
                    return self.submit_step(slot, job, buffer);
                }
                self.buffers.put(buffer);
                self.succeed(slot, &request, None);
            }
            (_, buffer) => {
                if let Some(buffer) = buffer {
                    self.buffers.put(buffer);
                }
                self.succeed(slot, &request, None);
            }
        }
    }

    /// Answers a request that succeeded; `data` is what it has read.
    pub(super) fn succeed(&mut self, slot: u16, request: &Request, data: Option<PoolBuf>) {
        self.answered(slot);
        let op = match request.kind {
            command::READ => Some(Op::Read),
            command::WRITE => Some(Op::Write),
            command::FLUSH => Some(Op::Flush),
            command::TRIM | command::WRITE_ZEROES => Some(Op::Discard),
            _ => None,
        };
        if let Some(op) = op {
            self.client.counts.completed(op, u64::from(request.length), add_alone);
        }
        let (cookie, is_read) = (request.cookie, request.kind == command::READ);
        self.outbox.push(match data {
            Some(data) if self.terms.structured => Reply::data(slot, cookie, request.offset, data),
            Some(data) => Reply::simple(slot, cookie, 0, Body::Data(data)),
            None if self.terms.structured && is_read => Reply::none(slot, cookie),
            None => Reply::simple(slot, cookie, 0, Body::Nothing),
        });
    }

    pub(super) fn refuse_failed(&mut self, slot: u16, request: &Request, job: Job, fault: Fault) {
        let op = match job {
            Job::Read | Job::ReadAhead => Op::Read,
            Job::Write | Job::WriteZeroes { .. } => Op::Write,
            Job::Flush => Op::Flush,
            Job::Change if request.kind == command::TRIM => Op::Discard,
            Job::Change => Op::WriteZeroes,
        };
        let whole = (op, request.offset, u64::from(request.length));
        self.failure.tell(self.served.device(), (self.client, self.log), fault, whole);
        let number = match fault.kind {
            // `EPERM` would say that the export is read-only.
            Kind::Refused => error::EIO,
            _ => error_from_errno(fault.errno()),
        };
        // The names of devices and files are not for clients.
        self.refuse(slot, request, number, Body::Bytes(fault.kind.to_string().into_bytes()));
    }

    /// Answers a request with an error.
    pub(super) fn refuse(&mut self, slot: u16, request: &Request, error: u32, message: Body) {
        self.answered(slot);
        add_alone(&self.client.counts.errors, 1);
        self.outbox.push(match self.terms.structured {
            true => Reply::error(slot, request.cookie, error, message),
            false => Reply::simple(slot, request.cookie, error, Body::Nothing),
        });
    }
}

pub(super) fn durable(fua: bool) -> Flags {
    if fua { Flags::FUA } else { Flags::NONE }
}
