//! Linux native AIO: asynchronous for direct I/O on every kernel that has it (4.18 for everything used here). The
//! completion ring is read in user space.
//!
//! Requests belong to the process, not to the thread that submitted them: they complete whatever that thread does.
//! Shared lanes therefore use it for direct I/O, even besides io_uring.

use platter_block::bio::{IoPrio, Op};
use platter_block::driver::{Completion, Driver, Outstanding, Started};
use platter_block::time::{Span, Time};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

mod seen;
#[allow(unsafe_code)]
mod syscalls;
#[cfg(test)]
mod tests;

use super::file_target::{Target, Way, rw_flags};
use super::iovec::Iovecs;
use super::pause::Pause;
use super::side::Side;
use super::slots::Slots;
use super::threads::Workers;
use super::unavailable::errno_of_call;
use crate::wake::EventFd;
use seen::Seen;
use syscalls::{Batch, Context, Event, FLAG_IOPRIO, FLAG_RESFD, Iocb, opcode};

/// Number of requests after which a batch is submitted although more may follow, so that the device works on them while
/// the rest is prepared.
const HEAD_START: u32 = 8;

/// Whether this process may use native AIO.
pub(super) fn probe() -> io::Result<()> {
    Context::open(2).map(Context::close)
}

/// A channel over native AIO. Reads, writes and flushes are asynchronous. The disk's threads carry out discard and
/// write-zeroes, which AIO does not support, transfers in the page that contains an odd end of a file, and writes for
/// which the file system has to allocate space, as far as it tells.
pub struct Aio {
    side: Side,
    context: Arc<Context>,
    target: Arc<Target>,
    slots: Slots,
    batch: Batch,
    iovecs: Box<[Iovecs]>,
    /// Completions for the next reap: refused requests, and events that `wait` took.
    ready: Vec<Completion>,
    events: Vec<Event>,
    seen: Arc<Seen>,
    /// Pause because the kernel had no resources for the staged requests.
    pause: Pause,
    eventfd: OnceLock<EventFd>,
    /// A caller has the wait handle: requests signal it.
    watched: AtomicBool,
    /// Requests in flight that do not signal it.
    unwatched: usize,
    /// Pause before a caller that has the handle looks for these, which nothing shows.
    nap: Pause,
    /// Signals of the handle that were made, or are about to be, and have not been cleared. The kernel signals after it
    /// has posted the event, so a signal may come after its event has been reaped.
    signals: AtomicI64,
    /// Slot of the request that listens to the threads; it is behind those of the queue's requests.
    listener: u32,
    /// Whether an event means that a request is complete. Otherwise a write that would have blocked has an event too, and
    /// then waits until the owner of the channel moves it to a thread.
    has_final_events: bool,
    /// Whether writes are submitted so that they must not block.
    nowait: bool,
}

impl Aio {
    /// A channel to `target` that takes `depth` requests at a time.
    ///
    /// # Errors
    /// The error of `io_setup`: `EAGAIN` if `fs.aio-max-nr` is used up, `ENOSYS` if the kernel has no AIO.
    pub(super) fn new(target: Arc<Target>, depth: u32, workers: Arc<Workers>) -> io::Result<Aio> {
        let depth = depth.max(1);
        let context = Context::open(depth + 1)?;
        let side = Side::new(Arc::clone(&target), depth, workers);
        let nowait = target.has_holes();
        Ok(Aio {
            seen: Arc::new(Seen::new(Arc::clone(&context), side.outstanding())),
            side,
            context,
            target,
            slots: Slots::new(depth),
            batch: Batch::new(depth + 1),
            iovecs: (0..depth).map(|_| Iovecs::default()).collect(),
            ready: Vec::with_capacity(depth as usize),
            events: Vec::with_capacity(depth as usize + 1),
            pause: Pause::default(),
            eventfd: OnceLock::new(),
            watched: AtomicBool::new(false),
            unwatched: 0,
            nap: Pause::default(),
            signals: AtomicI64::new(0),
            listener: depth,
            has_final_events: !nowait,
            nowait,
        })
    }

    /// Ensures that threads can sleep for the channel.
    ///
    /// # Errors
    /// No descriptor is available.
    pub(super) fn prepare_watch(&self) -> io::Result<()> {
        if self.eventfd.get().is_none() {
            let _ = self.eventfd.set(EventFd::new()?);
        }
        Ok(())
    }

    fn stage(&mut self, slot: u32, mut iocb: Iocb) {
        iocb.data = u64::from(slot);
        match self.eventfd.get() {
            Some(eventfd) if self.watched.load(Ordering::Relaxed) => {
                iocb.flags |= FLAG_RESFD;
                iocb.resfd = eventfd.raw() as u32;
            }
            _ => self.unwatched += 1,
        }
        self.seen.tally.take();
        self.batch.stage(slot, iocb);
    }

    fn request(&mut self, slot: u32, request: &Started<'_>, len: u64) -> Iocb {
        if request.op == Op::Flush {
            let fd = self.target.flushed().as_raw_fd() as u32;
            return Iocb { opcode: opcode::FDSYNC, fd, ..Iocb::default() };
        }
        let fd = self.target.disk.fd.as_raw_fd() as u32;
        let mut iocb = Iocb { fd, offset: request.pos, rw_flags: rw_flags(request), ..Iocb::default() };
        let read = request.op == Op::Read;
        if let Some(segment) = request.single_segment() {
            iocb.opcode = if read { opcode::PREAD } else { opcode::PWRITE };
            iocb.buf = segment.addr().expose_provenance() as u64;
            iocb.nbytes = u64::from(segment.len()).min(len);
        } else {
            let iovecs = &mut self.iovecs[slot as usize];
            iovecs.fill(request, len);
            iocb.opcode = if read { opcode::PREADV } else { opcode::PWRITEV };
            iocb.buf = iovecs.as_slice().as_ptr().expose_provenance() as u64;
            iocb.nbytes = iovecs.as_slice().len() as u64;
        }
        if self.nowait && !read && !request.atomic {
            iocb.rw_flags |= libc::RWF_NOWAIT;
        }
        if request.ioprio.raw() != 0 {
            iocb.flags |= FLAG_IOPRIO;
            iocb.reqprio = request.ioprio.raw();
        }
        iocb
    }

    #[cold]
    fn queue_beside(&mut self, now: Time, request: &Started<'_>) -> bool {
        self.side.queue(now, request).unwrap_or_else(|error| {
            self.finish_now(request.tag, -i64::from(error.raw_os_error().unwrap_or(libc::EIO)));
            true
        })
    }

    /// Completes a request at the next reap.
    #[cold]
    fn finish_now(&mut self, tag: u32, result: i64) {
        self.ready.push(Completion { tag, result });
        self.announce();
    }

    fn listen(&mut self) {
        if let Some(fd) = self.side.listen() {
            let iocb =
                Iocb { opcode: opcode::POLL, fd: fd as u32, buf: libc::POLLIN as u64, ..Iocb::default() };
            self.stage(self.listener, iocb);
        }
    }

    fn ring_doorbell(&mut self, now: Time) {
        self.listen();
        self.hand_over(now);
    }

    fn hand_over(&mut self, now: Time) {
        while self.batch.waiting() > 0 {
            match submit(&self.context, &mut self.batch) {
                Ok(0) | Err(libc::EAGAIN | libc::ENOMEM) => {
                    self.pause.begin(now);
                    // Sleeping threads must learn of the pause.
                    return self.announce();
                }
                Ok(count) => {
                    self.pause.end();
                    self.batch.submitted(count);
                }
                Err(libc::EINTR) => {}
                // The error of the first request.
                Err(errno) => {
                    if let Some(slot) = self.batch.refuse() {
                        self.finish(now, slot, -i64::from(errno_of_call(errno)));
                        self.announce();
                    }
                }
            }
        }
    }

    /// Makes the wait handle readable: there is something to do.
    fn announce(&self) {
        if let Some(eventfd) = self.eventfd.get()
            && self.watched.load(Ordering::Relaxed)
        {
            self.signal(eventfd);
        }
    }

    fn signal(&self, eventfd: &EventFd) {
        self.signals.fetch_add(1, Ordering::Relaxed);
        eventfd.signal();
    }

    /// Whether there is nothing that could complete.
    fn is_idle(&self) -> bool {
        self.slots.taken() + self.side.in_flight() == 0 && !self.side.is_listening() && self.ready.is_empty()
    }

    /// Makes the wait handle of an idle channel unreadable. A signal that the kernel has yet to make comes later, and is
    /// cleared by the next call.
    fn clear_late_signals(&self, eventfd: &EventFd) {
        let signals = self.signals.load(Ordering::Relaxed);
        if signals > 0 {
            let cleared = i64::try_from(eventfd.clear()).unwrap_or(signals);
            self.signals.store((signals - cleared).max(0), Ordering::Relaxed);
        }
    }

    /// Makes the wait handle unreadable and collects what completed before that. Costs a system call only if a signal
    /// is outstanding. Requests that do not signal it are looked for at the end of a nap: a handle that stayed readable for
    /// them would keep its sleepers awake for as long as the disk does not answer.
    fn clear_signals(&mut self, now: Time) {
        let signals = self.signals.load(Ordering::Relaxed);
        if signals == 0 {
            return;
        }
        let Some(eventfd) = self.eventfd.get().filter(|_| self.watched.load(Ordering::Relaxed)) else {
            return;
        };
        let cleared = i64::try_from(eventfd.clear()).unwrap_or(signals);
        *self.signals.get_mut() -= cleared;
        // The events of these signals have been posted.
        self.collect(now);
        let signals = self.signals.get_mut();
        *signals = (*signals).max(0);
    }

    /// Whether a caller sleeps on the handle for requests that do not signal it.
    fn sleeps_unsignalled(&self) -> bool {
        self.unwatched > 0
            && self.watched.load(Ordering::Relaxed)
            && self.slots.taken() + self.side.in_flight() > 0
    }

    /// Sets when to look again for requests that do not signal the handle.
    #[inline]
    fn set_nap(&mut self, now: Time) {
        if !self.sleeps_unsignalled() {
            self.nap.end();
        } else if self.nap.is_over(now) {
            self.nap.begin(now);
        }
    }

    /// Records that the kernel has completed a request.
    fn finish(&mut self, now: Time, slot: u32, result: i64) {
        let Some(&iocb) = self.batch.iocb(slot) else { return };
        self.unwatched -= usize::from(iocb.flags & FLAG_RESFD == 0);
        if slot == self.listener {
            self.seen.tally.give();
            return self.side.poll_ended();
        }
        let result = self.target.judged(result);
        if let Some(tag) = self.slots.put(slot) {
            let blocks = iocb.rw_flags & libc::RWF_NOWAIT != 0 && self.would_block(result);
            if !(blocks && self.move_beside(now, slot, tag, &iocb)) {
                self.ready.push(Completion { tag, result });
            }
            if result == 0 {
                self.target.came_short(now);
            }
        }
        self.seen.tally.give();
    }

    /// Whether this result of a non-blocking write means that it would have blocked.
    fn would_block(&mut self, result: i64) -> bool {
        let unknown = result == -i64::from(libc::EOPNOTSUPP);
        // The file system does not support such writes.
        self.nowait &= !unknown;
        unknown || result == -i64::from(libc::EAGAIN)
    }

    /// Moves a write that would have blocked to the threads. `false`: they have no room.
    #[cold]
    fn move_beside(&mut self, now: Time, slot: u32, tag: u32, iocb: &Iocb) -> bool {
        let Ok(threads) = self.side.threads() else { return false };
        let iovecs = &mut self.iovecs[slot as usize];
        if iocb.opcode == opcode::PWRITE {
            let memory = std::ptr::with_exposed_provenance_mut(iocb.buf as usize);
            iovecs.set_single(memory, iocb.nbytes as usize);
        }
        let moved = threads.take_over(tag, |call| {
            std::mem::swap(&mut call.iovecs, iovecs);
            let ioprio = IoPrio::from_raw(iocb.reqprio);
            call.take_over(Op::Write, iocb.offset, iocb.rw_flags & !libc::RWF_NOWAIT, ioprio);
        });
        threads.submit(now);
        moved
    }

    /// Moves the kernel's completions to `ready`.
    fn collect(&mut self, now: Time) {
        let mut events = std::mem::take(&mut self.events);
        self.context.reap(|event| events.push(event));
        self.finish_all(now, events);
    }

    fn finish_all(&mut self, now: Time, mut events: Vec<Event>) {
        for event in events.drain(..) {
            let slot = event.data as u32;
            let signals = self.batch.iocb(slot).is_some_and(|iocb| iocb.flags & FLAG_RESFD != 0);
            *self.signals.get_mut() += i64::from(signals);
            self.finish(now, slot, event.result);
        }
        self.events = events;
    }

    /// Number of requests that the kernel has, including the one that listens.
    fn in_kernel(&self) -> usize {
        self.slots.taken() + usize::from(self.side.is_listening()) - self.batch.waiting()
    }

    /// Blocks until the kernel has completed something or the time has passed.
    fn sleep(&mut self, now: Time, timeout: Option<Span>) {
        let mut events = std::mem::take(&mut self.events);
        self.context.get_events(1, timeout, |event| events.push(event));
        self.finish_all(now, events);
    }
}

#[allow(unsafe_code)]
fn submit(context: &Context, batch: &mut Batch) -> Result<usize, i32> {
    // SAFETY: the arrays belong to slots, which are not filled again before their request has completed; and the
    // queue keeps the memory of a request until then.
    unsafe { context.submit(batch) }.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

impl Driver for Aio {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        let way = self.target.way(now, request);
        let len = match way {
            Way::Direct(len) => len,
            Way::Buffered(_) => return self.queue_beside(now, request),
            Way::Done(result) => {
                self.finish_now(request.tag, result);
                return true;
            }
        };
        // The kernel needs one piece of memory for an atomic write, which the threads gather.
        let gathered = request.atomic && request.single_segment().is_none();
        if gathered || matches!(request.op, Op::Discard | Op::WriteZeroes | Op::Command) {
            return self.queue_beside(now, request);
        }
        // The threads must have room for each request that may have to move there.
        if self.side.in_flight() > 0 && self.slots.taken() + self.side.in_flight() >= self.iovecs.len() {
            return false;
        }
        let Some(slot) = self.slots.take(request.tag) else { return false };
        let iocb = self.request(slot, request, len);
        self.stage(slot, iocb);
        if self.batch.waiting() >= HEAD_START as usize && self.pause.is_over(now) {
            self.hand_over(now);
        }
        true
    }

    fn submit(&mut self, now: Time) {
        self.side.submit(now);
        self.ring_doorbell(now);
        // An outstanding poll request may be one that does not signal the handle, and then it is what shows this request's end.
        self.set_nap(now);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        self.collect(now);
        self.clear_signals(now);
        if self.side.in_flight() > 0 {
            self.side.reap(now, done);
        }
        let waits = self.batch.waiting() > 0 && self.pause.is_over(now);
        if waits || self.side.in_flight() > 0 {
            self.ring_doorbell(now);
        }
        self.set_nap(now);
        done.append(&mut self.ready);
    }

    fn next_event(&self) -> Option<Time> {
        let own = if self.batch.waiting() > 0 { self.pause.until() } else { None };
        let nap = if self.sleeps_unsignalled() { self.nap.until() } else { None };
        Time::earliest(Time::earliest(own, nap), self.side.next_event())
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.side.submit(now);
        self.listen();
        if self.pause.is_over(now) {
            self.hand_over(now);
        }
        let in_flight = self.slots.taken() + self.side.in_flight();
        if in_flight == 0 || !self.ready.is_empty() || self.context.has_events() {
            return;
        }
        let limit = Time::earliest(self.pause.until(), self.side.next_event()).map(|at| at.since(now));
        let limit = timeout.into_iter().chain(limit).min();
        match (self.in_kernel(), limit) {
            (0, Some(span)) => std::thread::sleep(std::time::Duration::from_nanos(span.as_nanos())),
            _ => self.sleep(now, limit),
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        self.prepare_watch().ok()?;
        let eventfd = self.eventfd.get()?;
        if self.is_idle() {
            // An idle channel is not run, so nothing else would clear the handle.
            self.watched.store(true, Ordering::Relaxed);
            self.clear_late_signals(eventfd);
        } else if !self.watched.swap(true, Ordering::Relaxed) {
            // Requests in flight do not signal. The caller runs the channel, and learns when to look for them.
            self.signal(eventfd);
        }
        Some(eventfd.raw())
    }

    /// Cancels only requests that wait for a thread. `io_cancel(2)` is of no use: disks and file systems do not
    /// support it.
    fn cancel(&mut self, now: Time, tag: u32) -> bool {
        self.side.cancel(now, tag)
    }

    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        let seen: Arc<Seen> = Arc::clone(&self.seen);
        self.has_final_events.then_some(seen as _)
    }
}

impl Drop for Aio {
    /// Waits until the kernel has completed all requests.
    fn drop(&mut self) {
        // Requests that were never submitted are unknown to the kernel.
        while let Some(slot) = self.batch.refuse() {
            if slot == self.listener {
                self.side.poll_ended();
            }
            self.slots.put(slot);
            self.seen.tally.give();
        }
        self.side.end_listening();
        while self.slots.taken() > 0 || self.side.is_listening() {
            self.sleep(crate::clock::now(), None);
        }
        Context::close(Arc::clone(&self.context));
    }
}
