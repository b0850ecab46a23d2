//! Linux native AIO: asynchronous for direct I/O on every kernel that has it (4.18 for all that is used
//! here), with the completion ring read in user space.

use platter_block::bio::Op;
use platter_block::driver::{Completion, Driver, Started};
use platter_block::time::{Span, Time};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[allow(unsafe_code)]
mod syscalls;

use super::bell::Bell;
use super::iovec::Iovecs;
use super::side::Side;
use super::slots::Slots;
use super::target::Target;
use syscalls::{Batch, Context, Event, FLAG_IOPRIO, FLAG_RESFD, Iocb, opcode};

/// A channel over native AIO. Reads, writes and flushes are asynchronous; discard and write-zeroes, which
/// AIO does not have, go to two threads of the channel's own.
pub struct Aio {
    // Dropped in this order: the threads finish, then the kernel does, and then nobody looks at the rest.
    side: Side,
    context: Context,
    target: Arc<Target>,
    slots: Slots,
    batch: Batch,
    iovecs: Box<[Iovecs]>,
    /// Completions that wait for the next reap: refused requests, and events that `wait` took.
    ready: Vec<Completion>,
    events: Vec<Event>,
    bell: Bell,
    /// Somebody has the wait handle: requests signal it.
    watched: AtomicBool,
    /// Requests in flight that do not.
    unwatched: usize,
    /// Slot of the request that listens to the threads; past those of the queue's requests.
    listener: u32,
}

impl Aio {
    /// A channel to `target` that takes `depth` requests at a time.
    ///
    /// # Errors
    /// What `io_setup` said: `EAGAIN` when `fs.aio-max-nr` is used up, `ENOSYS` when the kernel has no AIO.
    pub(super) fn new(target: Arc<Target>, depth: u32) -> io::Result<Aio> {
        let depth = depth.max(1);
        Ok(Aio {
            side: Side::new(Arc::clone(&target), depth),
            context: Context::new(depth + 1)?,
            target,
            slots: Slots::new(depth),
            batch: Batch::new(depth + 1),
            iovecs: (0..depth).map(|_| Iovecs::default()).collect(),
            ready: Vec::with_capacity(depth as usize),
            events: Vec::with_capacity(depth as usize + 1),
            bell: Bell::new()?,
            watched: AtomicBool::new(false),
            unwatched: 0,
            listener: depth,
        })
    }

    fn stage(&mut self, slot: u32, mut iocb: Iocb) {
        iocb.data = u64::from(slot);
        if self.watched.load(Ordering::Relaxed) {
            iocb.flags |= FLAG_RESFD;
            iocb.resfd = self.bell.raw() as u32;
        } else {
            self.unwatched += 1;
        }
        self.batch.stage(slot, iocb);
    }

    fn request(&mut self, slot: u32, request: &Started<'_>) -> Iocb {
        let mut iocb = Iocb {
            fd: self.target.file_for(request).as_raw_fd() as u32,
            offset: request.pos,
            ..Iocb::default()
        };
        if request.op == Op::Flush {
            return Iocb { opcode: opcode::FDSYNC, offset: 0, ..iocb };
        }
        let read = request.op == Op::Read;
        if let Some(segment) = request.single_segment() {
            iocb.opcode = if read { opcode::PREAD } else { opcode::PWRITE };
            iocb.buf = segment.addr().expose_provenance() as u64;
            iocb.nbytes = u64::from(segment.len());
        } else {
            let iovecs = &mut self.iovecs[slot as usize];
            iovecs.fill(request);
            iocb.opcode = if read { opcode::PREADV } else { opcode::PWRITEV };
            iocb.buf = iovecs.as_slice().as_ptr().expose_provenance() as u64;
            iocb.nbytes = iovecs.as_slice().len() as u64;
        }
        if request.fua {
            iocb.rw_flags = libc::RWF_DSYNC;
        }
        if request.ioprio.raw() != 0 {
            iocb.flags |= FLAG_IOPRIO;
            iocb.reqprio = request.ioprio.raw();
        }
        iocb
    }

    fn queue_beside(&mut self, now: Time, request: &Started<'_>) -> bool {
        self.side.queue(now, request).unwrap_or_else(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            self.ready.push(Completion { tag: request.tag, result: -i64::from(errno) });
            self.announce();
            true
        })
    }

    fn listen(&mut self) {
        if let Some(fd) = self.side.listen() {
            let iocb =
                Iocb { opcode: opcode::POLL, fd: fd as u32, buf: libc::POLLIN as u64, ..Iocb::default() };
            self.stage(self.listener, iocb);
        }
    }

    fn ring_doorbell(&mut self) {
        self.listen();
        while self.batch.waiting() > 0 {
            match submit(&self.context, &mut self.batch) {
                Ok(0) => return,
                Ok(count) => self.batch.submitted(count),
                Err(libc::EINTR) => {}
                // Room comes with the next completion, if one is under way.
                Err(libc::EAGAIN) if self.slots.taken() > self.batch.waiting() => return,
                Err(errno) => {
                    if let Some(slot) = self.batch.refuse() {
                        self.finish(slot, -i64::from(errno));
                        self.announce();
                    }
                }
            }
        }
    }

    /// Makes the wait handle readable: there is something in `ready`.
    fn announce(&self) {
        if self.watched.load(Ordering::Relaxed) {
            self.bell.sound();
        }
    }

    /// Notes that a request is done.
    fn finish(&mut self, slot: u32, result: i64) {
        if self.batch.flags(slot) & FLAG_RESFD == 0 {
            self.unwatched -= 1;
        }
        if slot == self.listener {
            return self.side.heard();
        }
        if let Some(tag) = self.slots.put(slot) {
            self.ready.push(Completion { tag, result });
        }
    }

    /// Moves what the kernel has completed to `ready`.
    fn collect(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        self.context.reap(|event| events.push(event));
        events.drain(..).for_each(|event| self.finish(event.data as u32, event.result));
        self.events = events;
    }
}

#[allow(unsafe_code)]
fn submit(context: &Context, batch: &mut Batch) -> Result<usize, i32> {
    // SAFETY: the arrays belong to slots, which are not filled again before their request has completed; and
    // the queue keeps the memory of a request until then.
    unsafe { context.submit(batch) }.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

impl Driver for Aio {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        if matches!(request.op, Op::Discard | Op::WriteZeroes) {
            return self.queue_beside(now, request);
        }
        let Some(slot) = self.slots.take(request.tag) else { return false };
        let iocb = self.request(slot, request);
        self.stage(slot, iocb);
        true
    }

    fn submit(&mut self, now: Time) {
        self.side.submit(now);
        self.ring_doorbell();
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        self.collect();
        if self.watched.load(Ordering::Relaxed) && self.unwatched == 0 {
            self.bell.clear();
            self.collect();
        }
        if self.side.in_flight() > 0 {
            self.side.reap(now, done);
        }
        if self.batch.waiting() > 0 || self.side.in_flight() > 0 {
            self.ring_doorbell();
        }
        done.append(&mut self.ready);
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.submit(now);
        let in_flight = self.slots.taken() + self.side.in_flight();
        if in_flight == 0 || !self.ready.is_empty() || self.context.has_events() {
            return;
        }
        let mut events = std::mem::take(&mut self.events);
        self.context.get_events(1, timeout, |event| events.push(event));
        events.drain(..).for_each(|event| self.finish(event.data as u32, event.result));
        self.events = events;
    }

    fn wait_handle(&self) -> Option<i32> {
        if !self.watched.swap(true, Ordering::Relaxed) {
            // Requests that are in flight do not signal: until they are done the handle stays readable.
            self.bell.sound();
        }
        Some(self.bell.raw())
    }
}
