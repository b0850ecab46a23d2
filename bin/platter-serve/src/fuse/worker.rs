//! A thread that carries out requests of the kernel, with a descriptor of the FUSE driver, and a channel to each
//! device, of its own.
//!
//! A turn takes the requests that there are, submits them as bios, reaps what is complete and replies. Data of a write
//! is received in the memory of its bio, and a reply is sent from the memory that the device has filled.
//!
//! A thread that has nothing to do sleeps until it has a request or a completion, and then tries both; with one request at
//! a time most of these tries find nothing, so they are made less often (`Tries`).

mod sleep;

use super::device_user::DeviceUser;
use super::post::{MAX_TRANSFER, Post, WorkerWake, reply};
use super::shared::Shared;
use super::slow::{Job as SlowJob, Work};
use super::tries::Tries;
use super::wire::{self, Fallocate, Header, IN_HEADER, Transfer, WRITE_ARGS, fallocate, op};
use crate::admission::Admission;
use crate::age::Mark;
use crate::bios::{self, Bios};
use crate::buffers::Buffers;
use crate::clients::add;
use crate::telling::FirstFailure;
use platter_block::bio::{Bio, Context, Flags, Op};
use platter_block::fault::Fault;
use platter_disk::channel::Channel;
use platter_disk::pool::PoolBuf;
use platter_wait::Epoll;
use rustix::event::epoll;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

/// Requests that are taken before completions are looked for.
const BATCH: usize = 32;

/// A device that this worker has used.
///
/// The channel is closed before the client is gone.
struct Open {
    channel: Channel,
    admission: Admission,
    user: Arc<DeviceUser>,
}

#[derive(Clone, Copy)]
struct Slot {
    unique: u64,
    place: usize,
    len: u32,
    /// Bytes of the buffer that its bio has.
    capacity: usize,
    mark: Mark,
}

/// One thread. Its channels belong to the thread that makes it.
pub(super) struct Worker {
    fuse: Arc<OwnedFd>,
    bell: Arc<WorkerWake>,
    any: Epoll,
    shared: Arc<Shared>,
    slow: Sender<SlowJob>,
    /// Those in use, in places that requests in work remember.
    opened: Vec<Option<Open>>,
    /// How many users had ended when their channels were last closed.
    ended: u64,
    head: [u8; IN_HEADER + WRITE_ARGS],
    /// Memory for the data of the next write.
    landing: Option<PoolBuf>,
    buffers: Buffers,
    slots: Vec<Slot>,
    free: Vec<usize>,
    slow_in_work: usize,
    /// Bytes of the last request that was received, if it waits to be admitted or for memory.
    held: Option<usize>,
    /// The place of the device that was asked for the present request, until that has it. No other request is taken before it,
    /// so the place is still that of the same device, or empty.
    asked: Option<usize>,
    tries: Tries,
    bios: Bios,
    descriptors: Vec<i32>,
    events: Vec<epoll::Event>,
    failure: FirstFailure,
}

impl Worker {
    pub(super) fn new(post: Post, shared: Arc<Shared>, slow: Sender<SlowJob>) -> Worker {
        let Post { fuse, bell, any } = post;
        let depth = shared.options.depth;
        Worker {
            fuse,
            slow,
            bell,
            any,
            opened: Vec::new(),
            ended: 0,
            head: [0; IN_HEADER + WRITE_ARGS],
            landing: None,
            buffers: Buffers::first(shared.options.client_memory_bytes, shared.users.memory()),
            slots: vec![Slot { unique: 0, place: 0, len: 0, capacity: 0, mark: Mark::default() }; depth],
            free: (0..depth).rev().collect(),
            slow_in_work: 0,
            held: None,
            asked: None,
            tries: Tries::default(),
            bios: Bios::default(),
            descriptors: Vec::new(),
            events: Vec::with_capacity(2),
            failure: FirstFailure::default(),
            shared,
        }
    }

    /// Works until the file system is unmounted, or the export is told to end.
    pub(super) fn run(mut self) {
        loop {
            if self.ended != self.shared.users.ended() {
                self.close_ended();
            }
            // A request that is held may wait for this memory.
            self.slow_in_work -= self.bell.take_finished(|memory| self.buffers.put(memory));
            if let Some(bytes) = self.held.take() {
                self.take(bytes);
            }
            let mut taken = 0;
            while taken < BATCH && self.has_room() && self.tries.is_due() {
                let request = self.receive();
                self.tries.tried(request.is_ok());
                match request {
                    Ok(bytes) => self.take(bytes),
                    Err(Errno::AGAIN) => break,
                    // The request was taken back.
                    Err(Errno::INTR | Errno::NOENT) => {}
                    Err(_) => return self.end(),
                }
                taken += 1;
            }
            if self.shared.is_over() {
                return self.end();
            }
            for open in self.opened.iter_mut().flatten() {
                if open.channel.outstanding() > 0 {
                    open.channel.poll(&mut self.bios.done);
                }
            }
            if self.finish_all() == 0 && taken < BATCH {
                let takes = self.has_room();
                self.wait(takes);
                if self.finish_all() == 0 {
                    self.tries.expect();
                }
            }
        }
    }

    /// Closes the channels of users that have ended, unless requests are in work there. Nothing is complete and not
    /// answered when it is called.
    fn close_ended(&mut self) {
        let ended = self.shared.users.ended();
        let mut all = true;
        for place in &mut self.opened {
            if place.as_ref().is_some_and(|open| open.user.has_ended()) {
                match place.as_ref().is_some_and(|open| open.channel.outstanding() > 0) {
                    true => all = false,
                    false => *place = None,
                }
            }
        }
        if all {
            self.ended = ended;
        }
    }

    /// Whether another request can be taken.
    fn has_room(&mut self) -> bool {
        if self.landing.is_none() {
            self.landing = self.buffers.take(MAX_TRANSFER);
        }
        self.held.is_none() && self.landing.is_some() && self.free.len() > self.slow_in_work
    }

    /// Takes one request from the kernel. Returns its length.
    fn receive(&mut self) -> Result<usize, Errno> {
        let landing = self.landing.as_deref_mut().unwrap_or_default();
        rustix::io::readv(&*self.fuse, &mut [IoSliceMut::new(&mut self.head), IoSliceMut::new(landing)])
    }

    /// The arguments of a request of `bytes` bytes.
    fn arguments(&self, bytes: usize) -> Vec<u8> {
        let beyond = bytes.saturating_sub(self.head.len());
        let landing = self.landing.as_deref().unwrap_or_default();
        [&self.head[IN_HEADER..bytes.clamp(IN_HEADER, self.head.len())], &landing[..beyond]].concat()
    }

    fn take(&mut self, bytes: usize) {
        let Some(header) = Header::parse(&self.head).filter(|_| bytes >= IN_HEADER) else { return };
        if !self.admits(&header) {
            self.held = Some(bytes);
            return;
        }
        let args = &self.head[IN_HEADER..];
        match header.opcode {
            op::READ => match Transfer::parse(args) {
                Some(transfer) => {
                    if !self.read(&header, &transfer) {
                        self.held = Some(bytes);
                        return;
                    }
                }
                None => self.refuse(&header, Errno::INVAL),
            },
            op::WRITE => match Transfer::parse(args) {
                Some(transfer) if bytes.checked_sub(self.head.len()) == Some(transfer.len as usize) => {
                    self.write(&header, &transfer);
                }
                _ => self.refuse(&header, Errno::INVAL),
            },
            op::FSYNC => self.flush(&header),
            op::FALLOCATE => match Fallocate::parse(args) {
                Some(request) => self.allocate(&header, &request),
                None => self.refuse(&header, Errno::INVAL),
            },
            _ => {
                let arguments = self.arguments(bytes);
                if let Some(result) = self.shared.answer(&header, &arguments) {
                    let is_sent = reply(&self.fuse, header.unique, result.as_deref().map_err(|error| *error));
                    if let (false, Ok(answer)) = (is_sent, &result) {
                        self.shared.take_back(&header, answer);
                    }
                }
            }
        }
        self.withdraw();
    }

    /// Whether a request may start: the client's share of the device.
    fn admits(&mut self, header: &Header) -> bool {
        if !matches!(header.opcode, op::READ | op::WRITE | op::FSYNC | op::FALLOCATE) {
            return true;
        }
        // What is wrong with the file is answered later.
        let Ok(place) = self.open() else { return true };
        let Some(Some(open)) = self.opened.get_mut(place) else { return true };
        self.asked = Some(place);
        let transfer = Transfer::parse(&self.head[IN_HEADER..]);
        let bytes = match (header.opcode, transfer) {
            (op::READ | op::WRITE, Some(transfer)) => u64::from(transfer.len),
            _ => 0,
        };
        open.admission.admits(open.channel.clock(), bytes)
    }

    fn refuse(&self, header: &Header, error: Errno) {
        reply(&self.fuse, header.unique, Err(error));
    }

    /// The present request does not go to a device, unless it has begun there.
    fn withdraw(&mut self) {
        if let Some(place) = self.asked.take()
            && let Some(Some(open)) = self.opened.get_mut(place)
        {
            open.admission.withdraw(open.channel.now());
        }
    }

    /// The place of the device of the request that was received, opening a channel if it is new here.
    fn open(&mut self) -> Result<usize, Errno> {
        let handle = wire::parse_handle(&self.head[IN_HEADER..]).ok_or(Errno::INVAL)?;
        let of_handle = |open: &Option<Open>| open.as_ref().is_some_and(|open| open.user.handle == handle);
        if let Some(place) = self.opened.iter().position(of_handle) {
            let has_ended = self.opened[place].as_ref().is_none_or(|open| open.user.has_ended());
            return if has_ended { Err(Errno::NODEV) } else { Ok(place) };
        }
        let user = self.shared.users.find(handle).ok_or(Errno::NODEV)?;
        let channel = user.served().device().channel(self.slots.len()).map_err(|_| Errno::MFILE)?;
        let open = Some(Open { channel, admission: Admission::new(Arc::clone(&user.share)), user });
        if let Some(place) = self.opened.iter().position(Option::is_none) {
            self.opened[place] = open;
            return Ok(place);
        }
        self.opened.push(open);
        Ok(self.opened.len() - 1)
    }

    /// Whether bios can carry out a transfer of this range.
    fn is_aligned(&self, place: usize, pos: u64, len: u64) -> bool {
        let Some(Some(open)) = self.opened.get(place) else { return false };
        let block = u64::from(open.user.served().device().limits_at(pos).logical_block);
        pos.is_multiple_of(block) && len.is_multiple_of(block)
    }

    /// The device of a request, its size, and the number of bytes of a range that lie on it.
    fn range(&mut self, header: &Header, pos: u64, len: u64) -> Option<(usize, u64)> {
        match self.open() {
            Ok(place) => {
                let size = self.opened[place].as_ref().map_or(0, |open| open.user.served().device().size());
                Some((place, len.min(size.saturating_sub(pos))))
            }
            Err(error) => {
                self.refuse(header, error);
                None
            }
        }
    }

    /// Begins a read. `false`: there is no memory for it yet.
    fn read(&mut self, header: &Header, transfer: &Transfer) -> bool {
        let range = self.range(header, transfer.pos, u64::from(transfer.len));
        let Some((place, len)) = range else { return true };
        if len == 0 || len > MAX_TRANSFER as u64 {
            let result = if len == 0 { Ok(&[][..]) } else { Err(Errno::INVAL) };
            reply(&self.fuse, header.unique, result);
        } else if !self.is_aligned(place, transfer.pos, len) {
            let Some(buffer) = self.buffers.take(len as usize) else { return false };
            self.pass_on(header, place, Work::Read(transfer.pos, buffer));
        } else {
            let Some(buffer) = self.buffers.take(len as usize) else { return false };
            let (capacity, mut bio) = (buffer.capacity(), self.bios.spare());
            let set = bio.reset_read(transfer.pos, buffer).map(|()| capacity);
            self.submit(header, place, len as u32, bio, set);
        }
        true
    }

    fn write(&mut self, header: &Header, transfer: &Transfer) {
        let Some((place, len)) = self.range(header, transfer.pos, u64::from(transfer.len)) else { return };
        if self.opened[place].as_ref().is_some_and(|open| open.user.served().is_read_only()) {
            return self.refuse(header, Errno::ROFS);
        }
        if len == 0 {
            return self.refuse(header, Errno::NOSPC);
        }
        let Some(mut data) = self.landing.take() else { return self.refuse(header, Errno::IO) };
        data.truncate(len as usize);
        let durable = self.durable();
        if !self.is_aligned(place, transfer.pos, len) {
            return self.pass_on(header, place, Work::Write(transfer.pos, data, durable));
        }
        let (capacity, mut bio) = (data.capacity(), self.bios.spare());
        let set = bio.reset_write(transfer.pos, data).map(|()| capacity);
        bio.add_flags(durable);
        self.submit(header, place, len as u32, bio, set);
    }

    /// What the write that was received needs for a file that was opened with `O_DSYNC` or `O_SYNC`: the kernel does not
    /// send an `FSYNC` after it.
    fn durable(&self) -> Flags {
        let flags = wire::parse_write_flags(&self.head[IN_HEADER..]).unwrap_or_default();
        match OFlags::from_bits_retain(flags).intersects(OFlags::DSYNC | OFlags::SYNC) {
            true => Flags::FUA,
            false => Flags::NONE,
        }
    }

    fn flush(&mut self, header: &Header) {
        let Some((place, _)) = self.range(header, 0, 0) else { return };
        let owed = self
            .opened
            .get(place)
            .and_then(Option::as_ref)
            .is_some_and(|open| open.user.first_flush().fails(open.user.client(), &self.shared.log));
        if owed {
            return self.refuse(header, Errno::IO);
        }
        let mut bio = self.bios.spare();
        bio.reset(Op::Flush, 0, 0);
        self.submit(header, place, 0, bio, Ok(0));
    }

    /// Zeroes a range. Space that it takes may be freed, but what is read afterwards is zeroes.
    fn allocate(&mut self, header: &Header, request: &Fallocate) {
        let zeroes = match request.mode {
            mode if mode == fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE => true,
            mode => mode & !fallocate::KEEP_SIZE == fallocate::ZERO_RANGE,
        };
        let Some((place, len)) = self.range(header, request.pos, request.len) else { return };
        if !zeroes {
            return self.refuse(header, Errno::OPNOTSUPP);
        }
        if self.opened[place].as_ref().is_some_and(|open| open.user.served().is_read_only()) {
            return self.refuse(header, Errno::ROFS);
        }
        let grows = len < request.len && request.mode & fallocate::KEEP_SIZE == 0;
        if grows {
            return self.refuse(header, Errno::NOSPC);
        }
        if len == 0 {
            reply(&self.fuse, header.unique, Ok(&[]));
            return;
        }
        if !self.is_aligned(place, request.pos, len) {
            return self.pass_on(header, place, Work::Zero(request.pos, len));
        }
        let mut bio = self.bios.spare();
        bio.reset(Op::WriteZeroes, request.pos, len);
        self.submit(header, place, 0, bio, Ok(0));
    }

    /// Has the thread for unaligned requests carry one out.
    fn pass_on(&mut self, header: &Header, place: usize, work: Work) {
        let Some(Some(open)) = self.opened.get_mut(place) else { return };
        self.asked = None;
        let job = SlowJob {
            fuse: Arc::clone(&self.fuse),
            unique: header.unique,
            user: Arc::clone(&open.user),
            mark: open.admission.start(),
            work,
            bell: Arc::clone(&self.bell),
        };
        open.user.client().counts.in_flight.fetch_add(1, Ordering::Relaxed);
        match self.slow.send(job) {
            // That thread tells when it has completed.
            Ok(()) => self.slow_in_work += 1,
            Err(refused) => {
                let SlowJob { user, mark, work, .. } = refused.0;
                user.client().counts.in_flight.fetch_sub(1, Ordering::Relaxed);
                open.admission.answered(mark, open.channel.now());
                work.into_memory().into_iter().for_each(|memory| self.buffers.put(memory));
                self.refuse(header, Errno::IO);
            }
        }
    }

    fn submit(&mut self, header: &Header, place: usize, len: u32, mut bio: Bio, set: Result<usize, Fault>) {
        let slot = self.free.pop();
        let (Some(slot), Some(Some(open))) = (slot, self.opened.get_mut(place)) else {
            return self.refuse(header, Errno::IO);
        };
        self.asked = None;
        let mark = open.admission.start();
        self.slots[slot] = Slot { unique: header.unique, place, len, capacity: set.unwrap_or(0), mark };
        // Fair elevators tell processes apart by it.
        bio.set_context(Context::new(header.process));
        open.user.client().counts.in_flight.fetch_add(1, Ordering::Relaxed);
        self.bios.submit(&mut open.channel, slot as u64, bio, set.map(|_| ()));
    }

    /// Replies to what is complete. Returns how many.
    fn finish_all(&mut self) -> usize {
        bios::finish_all(self, |worker| &mut worker.bios, Worker::finish)
    }

    fn finish(&mut self, bio: Bio) {
        let slot = bio.token() as usize;
        let (op, status, pos) = (bio.op(), bio.status(), bio.pos());
        let Slot { unique, place, len, capacity, mark } = self.slots[slot];
        let buffer = self.bios.put_from(bio, &mut self.buffers, capacity);
        self.free.push(slot);
        let Some(Some(open)) = self.opened.get(place) else { return };
        let counts = &open.user.client().counts;
        counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        open.admission.answered(mark, open.channel.now());
        let told = (open.user.client(), &self.shared.log);
        let status = open.user.first_flush().settle(open.user.served().device(), told, op, status);
        if status.is_ok() {
            counts.completed(op, u64::from(len), add);
        }
        match (op, status, &buffer) {
            (_, Err(fault), _) => {
                counts.errors.fetch_add(1, Ordering::Relaxed);
                self.failure.tell(open.user.served().device(), told, fault, (op, pos, u64::from(len)));
                reply(&self.fuse, unique, Err(Errno::from_raw_os_error(fault.errno())));
            }
            (Op::Read, Ok(()), Some(data)) => {
                reply(&self.fuse, unique, Ok(data));
            }
            (Op::Write, Ok(()), _) => {
                let mut size = [0; 8];
                size[..4].copy_from_slice(&len.to_ne_bytes());
                reply(&self.fuse, unique, Ok(&size));
            }
            (_, Ok(()), _) => {
                reply(&self.fuse, unique, Ok(&[]));
            }
        }
        buffer.into_iter().for_each(|buffer| self.buffers.put(buffer));
    }
}
