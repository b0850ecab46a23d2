//! A ring as a channel for calls on descriptors.

use crate::drivers::descriptors::{CANCELLED, CallOp, DescriptorCall, Descriptors};
use crate::drivers::pause::Pause;
use crate::wake::{CallDoorbell, wait_readable};
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fd, Fixed, FsyncFlags};
use platter_block::driver::Completion;
use platter_block::time::{Span, Time};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use super::kernel::Kernel;
use super::place;
use super::ring::Ring;
use super::{LISTENER, UringOptions};

/// Index of the registered file: the descriptor of the waker.
const WAKER: Fixed = Fixed(0);

/// A channel over a ring of its own.
pub(in crate::drivers) struct DescriptorRing {
    /// `None` if it was closed after an error that no ring survives.
    ring: Option<Ring>,
    errno: i32,
    wake: Arc<CallDoorbell>,
    /// A poll request for the waker is on the ring.
    listening: bool,
    /// By tag: the ring has the call.
    taken: Box<[bool]>,
    /// By tag: the ring has a cancellation.
    cancelling: Box<[bool]>,
    /// Completions that did not come from the ring.
    ready: Vec<Completion>,
    /// The ring has something to submit.
    owed: bool,
    /// Pause because the kernel had no resources for it.
    pause: Pause,
}

impl DescriptorRing {
    /// # Errors
    /// Those of a ring of the disks.
    pub(in crate::drivers) fn new(depth: u32, wake: Arc<CallDoorbell>) -> io::Result<DescriptorRing> {
        let file = wake.raw().ok_or(io::ErrorKind::NotFound)?;
        let options = UringOptions { exclusive: true, ..UringOptions::default() };
        // Room for the listener; a full ring is submitted and used again.
        let mut ring = Ring::new(depth + 1, &[file], &options, Kernel::default())?;
        ring.outlive_its_descriptor()?;
        Ok(DescriptorRing {
            ring: Some(ring),
            errno: 0,
            wake,
            listening: false,
            taken: vec![false; depth as usize].into_boxed_slice(),
            cancelling: vec![false; depth as usize].into_boxed_slice(),
            ready: Vec::with_capacity(depth as usize),
            owed: false,
            pause: Pause::default(),
        })
    }

    #[allow(unsafe_code)]
    fn push(&mut self, entry: &Entry) -> bool {
        let Some(ring) = &mut self.ring else { return false };
        // SAFETY: the memory that a call names is valid until it has completed, by the contract of segments. Dropping
        // the channel waits for all completions.
        let pushed = unsafe { ring.push(entry) };
        self.owed |= pushed;
        pushed
    }

    fn note(&mut self, now: Time, result: io::Result<bool>) {
        match result {
            Ok(true) => {
                self.owed = false;
                self.pause.end();
            }
            Ok(false) => self.pause.begin(now),
            Err(error) => self.die(&error),
        }
    }

    /// Gives up the ring after a permanent error: closes it, waits until the kernel uses no memory of any call, and
    /// fails all calls that it had.
    #[cold]
    fn die(&mut self, error: &io::Error) {
        self.errno = error.raw_os_error().unwrap_or(libc::EIO);
        match self.ring.take() {
            Some(ring) if self.wake.is_whole() => {
                if let Some(gone) = ring.close() {
                    wait_readable(gone.as_fd(), None);
                }
            }
            // Its numbers may be those of other files by now.
            ring => std::mem::forget(ring),
        }
        for tag in 0..self.taken.len() as u32 {
            if std::mem::take(&mut self.taken[tag as usize]) {
                self.ready.push(Completion { tag, result: -i64::from(self.errno) });
            }
            if std::mem::take(&mut self.cancelling[tag as usize]) {
                self.ready.push(Completion { tag: tag | CANCELLED, result: -i64::from(libc::ENOENT) });
            }
        }
        self.owed = false;
    }

    fn entry(call: &DescriptorCall) -> Entry {
        let (fd, memory, ioprio) = (Fd(call.fd), call.memory, call.ioprio.raw());
        match call.op {
            CallOp::Read => {
                let read = opcode::Read::new(fd, memory.addr(), memory.len());
                read.offset(call.pos).ioprio(ioprio).build()
            }
            CallOp::Write => {
                let write = opcode::Write::new(fd, memory.addr(), memory.len());
                write.offset(call.pos).ioprio(ioprio).build()
            }
            CallOp::Sync => opcode::Fsync::new(fd).build(),
            CallOp::DataSync => opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build(),
        }
    }

    /// Puts the poll request for the waker on the ring.
    ///
    /// `false`: nothing will wake this thread but completions.
    fn listen(&mut self) -> bool {
        if self.listening {
            // The descriptor has not been signalled since it was armed, or the request completes.
            return self.wake.rearm();
        }
        if !self.wake.arm() {
            return false;
        }
        let entry = opcode::PollAdd::new(WAKER, libc::POLLIN as u32).build().user_data(LISTENER);
        self.listening = self.push(&entry);
        true
    }

    fn collect(&mut self, done: &mut Vec<Completion>) -> usize {
        let Some(ring) = &mut self.ring else { return 0 };
        let (taken, cancelling, listening) = (&mut self.taken, &mut self.cancelling, &mut self.listening);
        let mut seen = 0;
        ring.completions(usize::MAX, |data, result| {
            seen += 1;
            if data == LISTENER {
                *listening = false;
                return;
            }
            let tag = data as u32;
            let place = (tag & !CANCELLED) as usize;
            if tag & CANCELLED == 0 {
                taken[place] = false
            } else {
                cancelling[place] = false
            }
            done.push(Completion { tag, result: i64::from(result) });
        });
        seen
    }
}

impl Descriptors for DescriptorRing {
    fn queue(&mut self, tag: u32, call: &DescriptorCall) -> bool {
        if self.ring.is_none() {
            self.ready.push(Completion { tag, result: -i64::from(self.errno) });
            return true;
        }
        let entry = DescriptorRing::entry(call).user_data(u64::from(tag));
        self.taken[tag as usize] = self.push(&entry);
        self.taken[tag as usize]
    }

    fn submit(&mut self, now: Time) {
        if !self.owed || !self.pause.is_over(now) {
            return;
        }
        let Some(ring) = &mut self.ring else { return };
        let result = ring.submit(true);
        self.note(now, result);
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if self.collect(done) == 0 {
            match self.ring.as_mut().map_or(Ok(false), Ring::post) {
                Ok(false) => {}
                Ok(true) => {
                    self.collect(done);
                }
                Err(error) => self.die(&error),
            }
        }
        done.append(&mut self.ready);
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>, has_work: &dyn Fn() -> bool) {
        let can_be_woken = self.listen();
        let timeout = self.pause.limit(now, timeout);
        let has_done = !self.ready.is_empty() || self.ring.as_mut().is_some_and(Ring::has_completions);
        match &mut self.ring {
            _ if has_done || has_work() => self.submit(now),
            Some(ring) if self.listening || !can_be_woken => {
                let result = ring.wait(timeout);
                self.note(now, result);
            }
            // The ring is full, and nothing would report the waker.
            Some(_) => self.submit(now),
            None => {
                self.wake.wait(timeout);
            }
        }
        self.wake.disarm();
    }

    fn cancel(&mut self, tag: u32) -> bool {
        if self.ring.is_none() {
            self.ready.push(Completion { tag: tag | CANCELLED, result: -i64::from(libc::ENOENT) });
            return true;
        }
        let entry = opcode::AsyncCancel::new(u64::from(tag)).build().user_data(u64::from(tag | CANCELLED));
        self.cancelling[tag as usize] = self.push(&entry);
        self.cancelling[tag as usize]
    }
}

impl Drop for DescriptorRing {
    /// Cancels what can be cancelled and waits for the rest, because the memory belongs to the program again.
    fn drop(&mut self) {
        let mut done = Vec::new();
        for tag in 0..self.taken.len() as u32 {
            while self.taken[tag as usize] && !self.cancel(tag) {
                self.submit(crate::clock::now());
            }
        }
        while self.ring.is_some() && self.taken.contains(&true) {
            let now = crate::clock::now();
            self.wait(now, None, &|| false);
            self.reap(now, &mut done);
            done.clear();
        }
        match self.ring.take() {
            Some(ring) if self.wake.is_whole() => drop(ring.close()),
            ring => std::mem::forget(ring),
        }
    }
}

impl Ring {
    /// Has the kernel keep the ring for this thread, which is the one that enters it, so that it goes on when its descriptor is
    /// closed. Kernels before 5.18 cannot, and a ring whose descriptor is closed fails there.
    fn outlive_its_descriptor(&mut self) -> io::Result<()> {
        self.enable()?;
        self.place = place::take(self.as_fd());
        Ok(())
    }
}
