//! io_uring: a ring for each channel, with registered files and buffers (Linux 5.11; each option names its
//! own).

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;
use platter_block::bio::Op;
use platter_block::driver::{Completion, Driver, Started};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

mod entries;
mod regions;
#[allow(unsafe_code)]
mod ring;

use super::bell::Bell;
use super::iovec::Iovecs;
use super::side::Side;
use super::slots::Slots;
use super::target::Target;
use regions::Regions;
use ring::Ring;

/// How a ring is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UringOptions {
    /// The channel stays with the thread that uses it first: completions then cost no interruption of it
    /// (Linux 6.1; older kernels save less). Used from another thread the channel fails all its requests with
    /// `EEXIST`. Without this any thread may use it, one at a time.
    pub exclusive: bool,
    /// A kernel thread submits, at the price of a core while there is I/O; submitting takes no system call.
    pub sqpoll: bool,
    /// Completions are polled for instead of interrupted for. The device must have queues for that, and the
    /// file direct I/O.
    pub iopoll: bool,
}

/// User data of the request that listens to the threads beside the ring.
const LISTENER: u64 = u64::MAX;
/// User data of a request that only says that something is in `ready`.
const NOTE: u64 = u64::MAX - 1;

/// Requests that are handed over although more of their batch may follow. The device then works on them while
/// the rest is prepared, which takes microseconds each: on a virtual disk that completes 32 at a time it is worth
/// 10 % of the throughput at that depth. A call per 8 requests costs 20 ns each.
const HEAD_START: u32 = 8;

/// Whether this process can set up a ring with all that is needed of it.
pub(super) fn probe() -> io::Result<()> {
    ring::probe()
}

/// A channel over io_uring. What a ring cannot do without blocking its caller goes to two threads of the
/// channel's own: discards of a block device, and with `iopoll` all but reads and writes.
pub struct Uring {
    side: Side,
    /// `None` after an error that no ring survives.
    ring: Option<Ring>,
    /// What that error was, and a descriptor that is always readable.
    dead: Option<(i32, OwnedFd)>,
    target: Arc<Target>,
    slots: Slots,
    regions: Regions,
    /// By slot.
    lists: Box<[Iovecs]>,
    /// Completions that did not come from the ring.
    ready: Vec<Completion>,
    iopoll: bool,
    /// Requests put on the ring since the kernel was last given some.
    held: u32,
    /// A submission that the kernel put off.
    owed: bool,
    /// What a watcher waits for where the ring's own descriptor does not tell.
    bell: OnceLock<Bell>,
    /// The ring signals the bell.
    bell_hung: bool,
}

impl Uring {
    /// A channel to `target` that takes `depth` requests at a time.
    ///
    /// # Errors
    /// What the kernel said: `ENOSYS` when it has no io_uring, `EPERM` when that is forbidden, `ENOMEM` when the
    /// limit on locked memory is used up, `EINVAL` for a depth above 16384 or an option that it does not know.
    pub(super) fn new(target: Arc<Target>, depth: u32, options: UringOptions) -> io::Result<Uring> {
        let depth = depth.max(1);
        let mut files = vec![target.disk.fd.as_raw_fd()];
        files.extend(target.disk.buffered.as_ref().map(AsRawFd::as_raw_fd));
        // Room for the listener and a note.
        let ring = Ring::new(depth + 2, &files, &options)?;
        Ok(Uring {
            side: Side::new(Arc::clone(&target), depth),
            regions: Regions::new(ring.vectored_fixed),
            ring: Some(ring),
            dead: None,
            target,
            slots: Slots::new(depth),
            lists: (0..depth).map(|_| Iovecs::default()).collect(),
            ready: Vec::with_capacity(depth as usize),
            iopoll: options.iopoll,
            held: 0,
            owed: false,
            bell: OnceLock::new(),
            bell_hung: false,
        })
    }

    /// Whether the ring cannot take a request.
    #[inline]
    fn belongs_beside(&self, op: Op) -> bool {
        match op {
            Op::Read | Op::Write => false,
            Op::Discard => self.iopoll || self.target.is_block,
            Op::Flush | Op::WriteZeroes => self.iopoll,
        }
    }

    fn queue_beside(&mut self, now: Time, request: &Started<'_>) -> bool {
        self.side.queue(now, request).unwrap_or_else(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            self.ready.push(Completion { tag: request.tag, result: -i64::from(errno) });
            // Whoever watches the ring must hear of it.
            let note = opcode::Nop::new().build().user_data(NOTE);
            self.owed |= self.ring.as_mut().is_some_and(|ring| push(ring, &note));
            true
        })
    }

    /// Without a ring everything fails, at the next reap.
    #[cold]
    fn queue_dead(&mut self, tag: u32) -> bool {
        let errno = self.dead.as_ref().map_or(libc::EIO, |(errno, _)| *errno);
        self.ready.push(Completion { tag, result: -i64::from(errno) });
        true
    }

    /// Gives the ring up after an error that passes no more: waits until the kernel is done with what it
    /// has, and fails all of it.
    #[cold]
    fn die(&mut self, error: &io::Error) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        if let Some(ring) = self.ring.take() {
            self.dead = Some((errno, ring.close(self.slots.taken() > 0)));
        }
        let ready = &mut self.ready;
        self.slots.drain(|tag| ready.push(Completion { tag, result: -i64::from(errno) }));
    }

    /// Hands over the first part of a batch.
    fn give_head_start(&mut self) {
        self.held = 0;
        let Some(ring) = &mut self.ring else { return };
        match ring.submit_ahead() {
            Ok(all) => self.owed |= !all,
            Err(error) => self.die(&error),
        }
    }

    fn ring_doorbell(&mut self) {
        self.held = 0;
        self.listen();
        let Some(ring) = &mut self.ring else { return };
        if ring.unsubmitted() == 0 {
            // All of it had a head start.
            self.owed = false;
            return;
        }
        match ring.submit() {
            Ok(all) => self.owed = !all,
            Err(error) => self.die(&error),
        }
    }

    /// Makes the ring complete something when the threads beside it do; `true` if that needs a doorbell.
    fn listen(&mut self) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        // A polling ring takes no such request; see `wait`.
        let Some(fd) = (if self.iopoll { None } else { self.side.listen() }) else { return false };
        let entry = opcode::PollAdd::new(Fd(fd), libc::POLLIN as u32).build().user_data(LISTENER);
        let pushed = push(ring, &entry);
        if !pushed {
            self.side.heard();
        }
        pushed
    }

    /// Takes completions from the ring; how many.
    #[inline]
    fn collect(&mut self, done: &mut Vec<Completion>) -> usize {
        let Some(ring) = &mut self.ring else { return 0 };
        let mut seen = 0;
        ring.completions(|data, result| {
            seen += 1;
            match data {
                LISTENER => self.side.heard(),
                NOTE => {}
                slot => {
                    if let Some(tag) = self.slots.put(slot as u32) {
                        done.push(Completion { tag, result: i64::from(result) });
                    }
                }
            }
        });
        seen
    }

    /// A descriptor that tells of deferred completions: the ring's own does not, since nobody posts them
    /// until the owner comes (fact: Linux 6.18; an eventfd is signalled when there is something to post).
    #[cold]
    fn hang_bell(&self) -> Option<i32> {
        if self.bell.get().is_none() {
            let bell = Bell::new().ok()?;
            // Only the owner can tell the ring, so it is called to reap.
            bell.sound();
            let _ = self.bell.set(bell);
        }
        self.bell.get().map(Bell::raw)
    }

    /// Takes note of the bell before what it rang for is looked at.
    #[cold]
    fn clear_bell(&mut self) {
        let (Some(bell), Some(ring)) = (self.bell.get(), &self.ring) else { return };
        if !self.bell_hung {
            self.bell_hung = ring.signal(bell.raw());
        }
        // A bell that the ring does not know stays readable: better to look too often than never.
        if self.bell_hung {
            bell.clear();
        }
    }
}

#[allow(unsafe_code)]
#[inline]
fn push(ring: &mut Ring, entry: &Entry) -> bool {
    // SAFETY: the memory that a request names is valid until it has completed, by the contract of segments,
    // and its array belongs to its slot, which is not filled again before. Dropping the driver waits for the
    // ring to be gone before it gives up the arrays.
    unsafe { ring.push(entry) }
}

impl Driver for Uring {
    #[inline]
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        if self.belongs_beside(request.op) {
            return self.queue_beside(now, request);
        }
        let Some(ring) = &mut self.ring else { return self.queue_dead(request.tag) };
        let Some(slot) = self.slots.take(request.tag) else { return false };
        let list = &mut self.lists[slot as usize];
        let entry = entries::entry(request, &self.target, &mut self.regions, list).user_data(u64::from(slot));
        if !push(ring, &entry) {
            self.slots.put(slot);
            return false;
        }
        self.held += 1;
        if self.held >= HEAD_START {
            self.give_head_start();
        }
        true
    }

    #[inline]
    fn submit(&mut self, now: Time) {
        self.side.submit(now);
        self.ring_doorbell();
    }

    #[inline]
    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        if self.bell.get().is_some() {
            self.clear_bell();
        }
        let seen = self.collect(done);
        // With a bell also when something was seen: the bell is silent as long as the kernel has deferred work
        // that nobody has asked for, whatever is added to it.
        if (seen == 0 || self.bell_hung) && self.slots.taken() + self.side.in_flight() > 0 {
            match self.ring.as_mut().map_or(Ok(false), Ring::post) {
                Ok(false) => {}
                Ok(true) => {
                    self.collect(done);
                }
                Err(error) => self.die(&error),
            }
        }
        if self.side.in_flight() > 0 {
            self.side.reap(now, done);
            self.owed |= self.listen();
        }
        if self.owed {
            self.ring_doorbell();
        }
        done.append(&mut self.ready);
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.held = 0;
        self.side.submit(now);
        self.listen();
        let Some(ring) = &mut self.ring else { return };
        if !self.ready.is_empty() {
            return self.ring_doorbell();
        }
        let beside = self.side.in_flight() > 0;
        if self.slots.taken() == 0 && (!beside || self.iopoll) {
            return self.side.wait(now, timeout);
        }
        // A polling ring does not hear the threads, so it only looks.
        let timeout = if beside && self.iopoll { Some(Span::ZERO) } else { timeout };
        if ring.has_completions() && ring.unsubmitted() == 0 {
            return;
        }
        if let Err(error) = ring.wait(timeout) {
            self.die(&error);
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        match (&self.ring, &self.dead) {
            (Some(ring), _) if ring.deferred => Some(self.hang_bell().unwrap_or(ring.raw())),
            (Some(ring), _) => Some(ring.raw()),
            (None, Some((_, gone))) => Some(gone.as_raw_fd()),
            (None, None) => None,
        }
    }

    fn register(&mut self, region: &Region) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        if self.regions.contains(region.id) {
            return true;
        }
        let place = self.regions.free_place();
        let registered = ring.register(place, region);
        if registered {
            self.regions.insert(place, region.id);
        }
        registered
    }

    fn unregister(&mut self, region: RegionId) {
        if let (Some(place), Some(ring)) = (self.regions.remove(region), &mut self.ring) {
            ring.unregister(place);
        }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        if let Some(ring) = self.ring.take() {
            ring.close(self.slots.taken() > 0);
        }
    }
}
