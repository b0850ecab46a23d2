//! The kernel interface of Linux native AIO: `io_setup(2)` and its family, and the completion ring that the kernel
//! maps into the process.

use platter_block::time::Span;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Operations (`linux/aio_abi.h`).
pub(super) mod opcode {
    pub(in super::super) const PREAD: u16 = 0;
    pub(in super::super) const PWRITE: u16 = 1;
    pub(in super::super) const FDSYNC: u16 = 3;
    pub(in super::super) const POLL: u16 = 5;
    pub(in super::super) const PREADV: u16 = 7;
    pub(in super::super) const PWRITEV: u16 = 8;
}

/// `aio_resfd` is an eventfd to signal.
pub(super) const FLAG_RESFD: u32 = 1;
/// `aio_reqprio` is an I/O priority.
pub(super) const FLAG_IOPRIO: u32 = 1 << 1;

/// The kernel's `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Iocb {
    pub(super) data: u64,
    #[cfg(target_endian = "little")]
    pub(super) key: u32,
    pub(super) rw_flags: i32,
    #[cfg(target_endian = "big")]
    pub(super) key: u32,
    pub(super) opcode: u16,
    pub(super) reqprio: u16,
    pub(super) fd: u32,
    pub(super) buf: u64,
    pub(super) nbytes: u64,
    pub(super) offset: u64,
    pub(super) reserved: u64,
    pub(super) flags: u32,
    pub(super) resfd: u32,
}

/// The kernel's `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Event {
    pub(super) data: u64,
    pub(super) obj: u64,
    pub(super) result: i64,
    pub(super) result2: i64,
}

/// Head of the mapped completion ring (`struct aio_ring` of `fs/aio.c`). The events follow it.
#[repr(C)]
struct Ring {
    id: u32,
    nr: u32,
    /// Next event to read; written by us.
    head: AtomicU32,
    /// Next event to be written; written by the kernel.
    tail: AtomicU32,
    magic: u32,
    compat_features: u32,
    incompat_features: u32,
    header_length: u32,
}

const RING_MAGIC: u32 = 0xa10a_10a1;

/// An AIO context. Any holder may examine its ring; only the driver reads from it and submits.
pub(super) struct Context {
    id: libc::c_ulong,
    /// Most requests at a time.
    depth: u32,
    /// Whether the ring can be read in user space.
    mapped: bool,
    #[cfg(test)]
    pub(super) script: Mutex<std::collections::VecDeque<i32>>,
}

/// Idle contexts. Destroying one takes the kernel tens of milliseconds, and making one needs events of the system's
/// `fs.aio-max-nr`, so a few are kept.
static IDLE: Mutex<Vec<Arc<Context>>> = Mutex::new(Vec::new());
/// Number of idle contexts kept.
const KEPT: usize = 16;

/// The idle contexts. No code that can panic runs while they are locked.
fn idle() -> MutexGuard<'static, Vec<Arc<Context>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Context {
    /// A context for `depth` requests at a time.
    pub(super) fn open(depth: u32) -> io::Result<Arc<Context>> {
        let mut kept = idle();
        match kept.iter().position(|context| context.depth == depth) {
            Some(at) => Ok(kept.swap_remove(at)),
            None => {
                drop(kept);
                Context::new(depth).map(Arc::new)
            }
        }
    }

    /// Keeps a context for the next channel. It must have no request in flight and no unread event.
    pub(super) fn close(context: Arc<Context>) {
        let mut kept = idle();
        if kept.len() < KEPT {
            return kept.push(context);
        }
        drop(kept);
    }

    /// A context for `depth` requests at a time.
    fn new(depth: u32) -> io::Result<Context> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes the id to `id`, which lives until the call returns.
        check(unsafe { libc::syscall(libc::SYS_io_setup, libc::c_long::from(depth), &raw mut id) })?;
        let mut context = Context {
            id,
            depth,
            mapped: false,
            #[cfg(test)]
            script: Default::default(),
        };
        let ring = context.ring();
        context.mapped = ring.magic == RING_MAGIC
            && ring.incompat_features == 0
            && ring.header_length as usize == size_of::<Ring>()
            && ring.nr > 0;
        Ok(context)
    }

    fn ring(&self) -> &Ring {
        // SAFETY: the id of a context is the address of its ring, which the kernel mapped readable and writable for
        // as long as the context lives. The fields that the kernel changes are atomic here.
        unsafe { &*std::ptr::with_exposed_provenance::<Ring>(self.id as usize) }
    }

    /// Submits requests, in order; returns how many were taken.
    ///
    /// # Safety
    /// The `iovec` arrays that the requests name are valid until the call returns, the memory that they name
    /// until they have completed.
    pub(super) unsafe fn submit(&self, batch: &mut Batch) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(errno) = self.script.lock().unwrap().pop_front() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let requests = batch.pointers();
        let (count, list) = (requests.len() as libc::c_long, requests.as_ptr());
        // SAFETY: the pointers are those of the batch's own requests; the rest by this function's contract.
        check(unsafe { libc::syscall(libc::SYS_io_submit, self.id, count, list) })
    }

    /// Whether the ring is readable here and holds an event.
    pub(super) fn has_events(&self) -> bool {
        let ring = self.ring();
        self.mapped && ring.head.load(Ordering::Relaxed) != ring.tail.load(Ordering::Acquire)
    }

    /// Number of completions in the ring that were not read yet. Any thread may ask while the driver reads and the
    /// kernel writes: the answer is correct for some moment since the call began, or lower. 0 if the ring cannot be
    /// read.
    pub(super) fn unread(&self) -> u32 {
        if !self.mapped {
            return 0;
        }
        let ring = self.ring();
        // The head first: an event that is read during the call is then counted here and not yet by the reader.
        let head = ring.head.load(Ordering::Acquire);
        let tail = ring.tail.load(Ordering::Acquire);
        (tail % ring.nr + ring.nr - head % ring.nr) % ring.nr
    }

    /// Visits completions, without a system call if the ring can be read here.
    pub(super) fn reap(&self, each: impl FnMut(Event)) {
        if self.mapped { self.reap_ring(each) } else { self.get_events(0, Some(Span::ZERO), each) }
    }

    fn reap_ring(&self, mut each: impl FnMut(Event)) {
        let ring = self.ring();
        let mut head = ring.head.load(Ordering::Relaxed);
        let tail = ring.tail.load(Ordering::Acquire);
        if head == tail {
            return;
        }
        let first: *const Event = std::ptr::from_ref(ring).wrapping_add(1).cast();
        while head != tail {
            // SAFETY: `head` and `tail` lie below `nr`, the number of events behind the ring's head (which is as long
            // as it says, `new` checked). The kernel wrote this event before it moved the tail past it, and does not
            // write to it again until `head` has passed it.
            each(unsafe { self.event(first, head % ring.nr) });
            head = (head + 1) % ring.nr;
        }
        ring.head.store(head, Ordering::Release);
    }

    /// # Safety
    /// `first` is the first event of the ring, `at` the index of one that the kernel has finished.
    unsafe fn event(&self, first: *const Event, at: u32) -> Event {
        let address = std::ptr::with_exposed_provenance::<Event>(first.addr()).wrapping_add(at as usize);
        // SAFETY: by this function's contract.
        unsafe { address.read() }
    }

    /// Visits completions after waiting for at least `least` events, for `timeout` at most.
    pub(super) fn get_events(&self, least: usize, timeout: Option<Span>, mut each: impl FnMut(Event)) {
        const BATCH: usize = 64;
        let mut events = [Event::default(); BATCH];
        let timeout = timeout.map(timespec);
        let time = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let mut least = least as libc::c_long;
        loop {
            let (most, list) = (BATCH as libc::c_long, events.as_mut_ptr());
            // SAFETY: room for `most` events, and a time or none; both live until the call returns.
            let got = unsafe { libc::syscall(libc::SYS_io_getevents, self.id, least, most, list, time) };
            // An interrupted wait returns early, which is allowed.
            let got = usize::try_from(got).unwrap_or(0);
            events.iter().take(got).for_each(|event| each(*event));
            if got < BATCH {
                return;
            }
            least = 0;
        }
    }
}

impl Drop for Context {
    /// Waits until the kernel has completed all requests.
    fn drop(&mut self) {
        // SAFETY: our own context, not used again.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.id) };
    }
}

fn check(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn timespec(span: Span) -> libc::timespec {
    let mut time: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    time.tv_sec = libc::time_t::try_from(span.as_nanos() / 1_000_000_000).unwrap_or(libc::time_t::MAX);
    time.tv_nsec = (span.as_nanos() % 1_000_000_000) as _;
    time
}

/// Requests by slot, and those queued since the last submission.
pub(super) struct Batch {
    iocbs: Box<[Iocb]>,
    /// Slots to submit; those before `next` have been submitted.
    staged: Vec<u32>,
    next: usize,
    /// Scratch memory for the array of addresses that the kernel gets.
    pointers: Vec<*mut Iocb>,
}

// SAFETY: `pointers` is only read in `pointers()`, which has just filled it.
unsafe impl Send for Batch {}

impl Batch {
    pub(super) fn new(slots: u32) -> Batch {
        let iocbs = vec![Iocb::default(); slots as usize].into_boxed_slice();
        let (staged, pointers) = (Vec::with_capacity(slots as usize), Vec::with_capacity(slots as usize));
        Batch { iocbs, staged, next: 0, pointers }
    }

    /// Fills a slot and stages it.
    pub(super) fn stage(&mut self, slot: u32, iocb: Iocb) {
        self.iocbs[slot as usize] = iocb;
        self.staged.push(slot);
    }

    /// The request staged in a slot.
    pub(super) fn iocb(&self, slot: u32) -> Option<&Iocb> {
        self.iocbs.get(slot as usize)
    }

    /// Number of requests waiting to be submitted.
    pub(super) fn waiting(&self) -> usize {
        self.staged.len() - self.next
    }

    /// The waiting requests in the kernel's form.
    fn pointers(&mut self) -> &[*mut Iocb] {
        let first = self.iocbs.as_mut_ptr();
        self.pointers.clear();
        self.pointers.extend(self.staged[self.next..].iter().map(|slot| first.wrapping_add(*slot as usize)));
        &self.pointers
    }

    /// The first `count` waiting requests were submitted.
    pub(super) fn submitted(&mut self, count: usize) {
        self.next += count;
        if self.next >= self.staged.len() {
            self.staged.clear();
            self.next = 0;
        }
    }

    /// Removes the first waiting request.
    pub(super) fn refuse(&mut self) -> Option<u32> {
        let slot = *self.staged.get(self.next)?;
        self.submitted(1);
        Some(slot)
    }
}
