//! A thread that carries out the requests of one queue, with a channel of its own.
//!
//! A turn takes the requests that have arrived, submits them as bios, reaps what is complete and hands all answers over
//! with one call.

use super::abi::{Request, op};
use super::params::MAX_TRANSFER;
use super::port::Port;
use super::shared::Shared;
use crate::admission::Admission;
use crate::age::Mark;
use crate::bios::{self, Bios};
use crate::buffers::Buffers;
use crate::clients::{Client, Connected, add};
use crate::telling::FirstFailure;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::Fault;
use platter_block::lane::Bell;
use platter_block::time::Span;
use platter_disk::channel::Channel;
use platter_wait::EventFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The name of this kind of export.
pub(super) const KIND: &str = "ublk";

/// How long memory is kept by a thread that has nothing to do.
const KEEP: Span = Span::from_millis(1000);

/// A request in work.
#[derive(Clone, Copy, Default)]
struct Slot {
    mark: Mark,
    /// The whole request.
    pos: u64,
    len: u64,
    /// Zeroes that are still to be written as data.
    left: u64,
    durable: Flags,
    /// Bytes of the buffer that its bio has.
    capacity: usize,
}

/// The bytes of a request; `None`: no disk reaches so far. Those of a flush mean nothing.
fn range(request: &Request) -> Option<(u64, u64)> {
    if request.op() == op::FLUSH {
        return Some((0, 0));
    }
    Some((request.pos()?, request.len()))
}

/// One thread. Its channel and its port belong to the thread that makes it.
pub(super) struct Worker<P: Port> {
    port: P,
    // The channel is closed before the client is gone.
    channel: Channel,
    admission: Admission,
    client: Connected,
    wake: Arc<EventFd>,
    shared: Arc<Shared>,
    buffers: Buffers,
    /// By tag.
    slots: Vec<Slot>,
    arrived: Vec<u16>,
    /// Those that have not been started, oldest first.
    queue: VecDeque<u16>,
    /// The first of them has started, and waits for memory.
    lacks_memory: bool,
    bios: Bios,
    /// There are answers that the port has not handed over.
    has_answered: bool,
    failure: FirstFailure,
}

impl<P: Port> Worker<P> {
    pub(super) fn new(
        port: P,
        channel: Channel,
        client: Connected,
        wake: Arc<EventFd>,
        shared: Arc<Shared>,
        depth: u16,
    ) -> Worker<P> {
        let bell = Arc::clone(&wake) as Arc<dyn Bell>;
        Worker {
            port,
            channel,
            admission: Admission::join(&shared.served, &client, bell),
            buffers: Buffers::new(shared.memory_bytes, client.memory()),
            client,
            wake,
            slots: vec![Slot::default(); usize::from(depth)],
            arrived: Vec::new(),
            queue: VecDeque::new(),
            lacks_memory: false,
            bios: Bios::default(),
            has_answered: false,
            failure: FirstFailure::default(),
            shared,
        }
    }

    /// Works until the driver has taken all tags back, or the export hands the device on. Requests that are not
    /// answered then come to the next server.
    ///
    /// # Errors
    /// The driver does not take answers.
    pub(super) fn run(&mut self) -> Result<(), Errno> {
        loop {
            let is_open = self.port.turn(&mut self.arrived);
            let hands_on = self.shared.hands_on();
            for tag in self.arrived.drain(..) {
                self.slots[usize::from(tag)].mark = self.client.begin();
                self.client.counts.in_flight.fetch_add(1, Ordering::Relaxed);
                self.queue.push_back(tag);
            }
            if !hands_on && is_open.is_ok() {
                self.start_all();
            }
            self.channel.poll(&mut self.bios.done);
            bios::finish_all(self, |worker| &mut worker.bios, Worker::finish);
            if std::mem::take(&mut self.has_answered) {
                continue;
            }
            if self.channel.outstanding() == 0 {
                match is_open {
                    Ok(true) if !hands_on => {}
                    Ok(true) => return Ok(()),
                    Ok(false) if self.queue.is_empty() => return Ok(()),
                    Ok(false) => {}
                    Err(error) => return Err(error),
                }
            }
            self.wait();
        }
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self) {
        let descriptors = [self.port.descriptor(), self.wake.raw()];
        let is_idle = self.channel.outstanding() == 0 && self.queue.is_empty();
        if is_idle && self.buffers.has_free() {
            let since = Instant::now();
            self.channel.wait_or_readable(&mut self.bios.done, &descriptors, Some(KEEP));
            if since.elapsed().as_nanos() >= u128::from(KEEP.0) {
                self.buffers.trim();
            }
        } else {
            self.admission.sleep(&mut self.channel, &mut self.bios.done, &descriptors);
        }
        self.wake.clear();
    }

    fn start_all(&mut self) {
        while let Some(&tag) = self.queue.front() {
            let request = self.port.request(tag);
            if !self.lacks_memory && !self.admits(tag, &request) {
                return;
            }
            self.lacks_memory = !self.start(tag, &request);
            if self.lacks_memory {
                return;
            }
            self.queue.pop_front();
        }
    }

    /// Whether a request may start: the client's share of the device.
    fn admits(&mut self, tag: u16, request: &Request) -> bool {
        let bytes = match request.op() {
            op::READ | op::WRITE => request.len(),
            op::WRITE_ZEROES => self.shared.served.data_of_zeroes(request.len(), !request.has(op::NOUNMAP)),
            _ => 0,
        };
        let slot = &mut self.slots[usize::from(tag)];
        self.admission.set_next(slot.mark);
        let admits = self.admission.admits(self.channel.clock(), bytes);
        match admits {
            true => slot.mark = self.admission.start(),
            // When the first may start, the next ones ask at once.
            false => self.admission.count_waiting(self.queue.len()),
        }
        admits
    }

    /// Begins a request. `false`: there is no memory for it yet.
    fn start(&mut self, tag: u16, request: &Request) -> bool {
        let Some((pos, len)) = range(request) else { return self.refuse(tag, Errno::INVAL) };
        let durable = if request.has(op::FUA) { Flags::FUA } else { Flags::NONE };
        let slot = &mut self.slots[usize::from(tag)];
        (slot.pos, slot.len, slot.left, slot.durable) = (pos, len, 0, durable);
        let changes = !matches!(request.op(), op::READ | op::FLUSH);
        if changes && self.shared.served.is_read_only() {
            return self.refuse(tag, Errno::ROFS);
        }
        match request.op() {
            op::READ | op::WRITE if len == 0 || len > u64::from(MAX_TRANSFER) => {
                self.refuse(tag, Errno::INVAL)
            }
            op::READ => {
                let Some(buffer) = self.buffers.take(len as usize) else { return false };
                self.slots[usize::from(tag)].capacity = buffer.capacity();
                let mut bio = self.bios.spare();
                let set = bio.reset_read(pos, buffer);
                self.submit(tag, bio, set)
            }
            op::WRITE => {
                let Some(mut buffer) = self.buffers.take(len as usize) else { return false };
                if let Err(error) = self.port.take_data(tag, &mut buffer) {
                    self.buffers.put(buffer);
                    return self.refuse(tag, error);
                }
                self.slots[usize::from(tag)].capacity = buffer.capacity();
                let mut bio = self.bios.spare();
                let set = bio.reset_write(pos, buffer);
                bio.add_flags(durable);
                self.submit(tag, bio, set)
            }
            op::FLUSH if self.shared.first_flush.fails(&self.client, &self.shared.log) => {
                self.refuse(tag, Errno::IO)
            }
            op::FLUSH => self.range(tag, Op::Flush, 0, 0, Flags::NONE),
            op::DISCARD => self.range(tag, Op::Discard, pos, len, durable),
            op::WRITE_ZEROES if request.has(op::NOUNMAP) => self.write_zeroes(tag, len),
            op::WRITE_ZEROES => self.range(tag, Op::WriteZeroes, pos, len, durable),
            _ => self.refuse(tag, Errno::OPNOTSUPP),
        }
    }

    /// Writes the next part of the last `left` bytes of a request as zeroes that take space. `false`: there is no
    /// memory for it yet.
    fn write_zeroes(&mut self, tag: u16, left: u64) -> bool {
        let part = left.min(u64::from(MAX_TRANSFER));
        let Some(mut buffer) = self.buffers.take(part as usize) else { return false };
        buffer.fill(0);
        let slot = &mut self.slots[usize::from(tag)];
        (slot.left, slot.capacity) = (left - part, buffer.capacity());
        let (pos, durable) = (slot.pos + slot.len - left, slot.durable);
        let mut bio = self.bios.spare();
        let set = bio.reset_write(pos, buffer);
        bio.add_flags(durable);
        self.submit(tag, bio, set)
    }

    fn range(&mut self, tag: u16, op: Op, pos: u64, len: u64, flags: Flags) -> bool {
        let mut bio = self.bios.spare();
        bio.reset(op, pos, len);
        bio.add_flags(flags);
        self.submit(tag, bio, Ok(()))
    }

    fn submit(&mut self, tag: u16, bio: Bio, set: Result<(), Fault>) -> bool {
        self.bios.submit(&mut self.channel, tag, bio, set);
        true
    }

    /// Answers a request that was not given to the device.
    fn refuse(&mut self, tag: u16, error: Errno) -> bool {
        self.client.counts.errors.fetch_add(1, Ordering::Relaxed);
        self.answer(tag, -error.raw_os_error());
        true
    }

    fn answer(&mut self, tag: u16, result: i32) {
        self.client.counts.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.admission.answered(self.slots[usize::from(tag)].mark, self.channel.now());
        self.port.answer(tag, result);
        self.has_answered = true;
    }

    fn finish(&mut self, bio: Bio) {
        let tag = bio.token() as u16;
        let slot = self.slots[usize::from(tag)];
        let (op, moved, pos) = (bio.op(), bio.done() + bio.len(), bio.pos());
        let told = (&*self.client, &self.shared.log);
        let status = self.shared.first_flush.settle(self.shared.served.device(), told, op, bio.status());
        let buffer = self.bios.put_from(bio, &mut self.buffers, slot.capacity);
        let counts = &self.client.counts;
        let result = match (op, status) {
            (_, Err(fault)) => {
                counts.errors.fetch_add(1, Ordering::Relaxed);
                let device = self.shared.served.device();
                self.failure.tell(device, told, fault, (op, pos, slot.len));
                Err(Errno::from_raw_os_error(fault.errno()))
            }
            (Op::Read, Ok(())) => {
                counts.completed(op, slot.len, add);
                buffer.as_ref().map_or(Err(Errno::IO), |data| self.port.give_data(tag, data))
            }
            (_, Ok(())) => {
                counts.completed(op, moved, add);
                Ok(())
            }
        };
        buffer.into_iter().for_each(|buffer| self.buffers.put(buffer));
        match result {
            // The memory of the part before is free, so there is some.
            Ok(()) if slot.left > 0 && self.write_zeroes(tag, slot.left) => {}
            Ok(()) if slot.left > 0 => self.answer(tag, -Errno::NOMEM.raw_os_error()),
            Ok(()) => self.answer(tag, slot.len as i32),
            Err(error) => self.answer(tag, -error.raw_os_error()),
        }
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Awaits what the device has: it uses this worker's memory, and others may wait for it.
    pub(super) fn end(&mut self) {
        self.bios.forget_all(&mut self.channel);
    }
}

#[cfg(test)]
mod tests;
