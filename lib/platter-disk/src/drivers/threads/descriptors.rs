//! The threads as a channel for calls on descriptors.

use crate::drivers::descriptors::{CANCELLED, CallOp, DescriptorCall, Descriptors};
use crate::drivers::pause::Pause;
use crate::wake::CallDoorbell;
use crossbeam_queue::ArrayQueue;
use platter_block::bio::IoPrio;
use platter_block::driver::Completion;
use platter_block::segment::Segment;
use platter_block::time::{Span, Time};
use std::sync::{Arc, Mutex, PoisonError};

use super::Workers;
use super::calls::until_done;
use super::workers::Work;

/// State that the channel shares with the threads.
struct Shared {
    /// Calls by tag. The lock is never contended: a call belongs to the channel before it is pushed, and to a thread
    /// until it has completed.
    calls: Box<[Mutex<DescriptorCall>]>,
    /// Completed tags and their results. Has room for all.
    done: ArrayQueue<(u32, i64)>,
    wake: Arc<CallDoorbell>,
}

impl Work for Shared {
    fn run(&self, tag: u32, set_ioprio: &mut dyn FnMut(IoPrio) -> i64) {
        let call = *self.calls[tag as usize].lock().unwrap_or_else(PoisonError::into_inner);
        let result = match set_ioprio(call.ioprio) {
            0 => carry_out(&call),
            failed => failed,
        };
        let pushed = self.done.push((tag, result));
        debug_assert!(pushed.is_ok(), "more completions than tags");
        // Without descriptors it always can.
        self.wake.ring();
    }
}

/// A channel whose calls are carried out by threads, which block in them.
pub(in crate::drivers) struct DescriptorThreads {
    shared: Arc<Shared>,
    work: Arc<dyn Work>,
    workers: Arc<Workers>,
    /// Tags that were filled but not handed to the threads yet.
    staged: Vec<u32>,
    /// Outcomes of cancellations.
    cancelled: Vec<Completion>,
    in_flight: usize,
    /// Time until the system is asked again for a thread: it had none to give, and there is none.
    pause: Pause,
}

impl DescriptorThreads {
    pub(in crate::drivers) fn new(
        depth: u32,
        workers: Arc<Workers>,
        wake: Arc<CallDoorbell>,
    ) -> DescriptorThreads {
        let none =
            DescriptorCall { fd: -1, op: CallOp::Sync, pos: 0, memory: Segment::EMPTY, ioprio: IoPrio::NONE };
        let calls = (0..depth).map(|_| Mutex::new(none)).collect();
        let shared = Arc::new(Shared { calls, done: ArrayQueue::new(depth as usize), wake });
        DescriptorThreads {
            work: Arc::<Shared>::clone(&shared),
            shared,
            workers,
            staged: Vec::with_capacity(depth as usize),
            cancelled: Vec::with_capacity(depth as usize),
            in_flight: 0,
            pause: Pause::default(),
        }
    }
}

impl Descriptors for DescriptorThreads {
    fn queue(&mut self, tag: u32, call: &DescriptorCall) -> bool {
        let Some(place) = self.shared.calls.get(tag as usize) else { return false };
        *place.lock().unwrap_or_else(PoisonError::into_inner) = *call;
        self.staged.push(tag);
        self.in_flight += 1;
        true
    }

    fn submit(&mut self, now: Time) {
        let served = if !self.staged.is_empty() {
            self.workers.push(&self.work, self.staged.drain(..))
        } else if self.pause.until().is_some() && self.pause.is_over(now) {
            self.workers.start()
        } else {
            return;
        };
        if served { self.pause.end() } else { self.pause.begin(now) }
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        while let Some((tag, result)) = self.shared.done.pop() {
            self.in_flight -= 1;
            done.push(Completion { tag, result });
        }
        done.append(&mut self.cancelled);
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>, has_work: &dyn Fn() -> bool) {
        self.submit(now);
        self.shared.wake.arm();
        if self.shared.done.is_empty() && self.cancelled.is_empty() && !has_work() {
            self.shared.wake.wait(self.pause.limit(now, timeout));
        }
        self.shared.wake.disarm();
    }

    /// Takes back a call that no thread has started. A blocking system call cannot be interrupted safely.
    fn cancel(&mut self, tag: u32) -> bool {
        let waits = match self.staged.iter().position(|staged| *staged == tag) {
            Some(at) => {
                self.staged.remove(at);
                true
            }
            None => self.workers.take_back(&self.work, tag),
        };
        if waits {
            self.in_flight -= 1;
            self.cancelled.push(Completion { tag, result: -i64::from(libc::ECANCELED) });
        }
        let result = if waits { 0 } else { -i64::from(libc::EALREADY) };
        self.cancelled.push(Completion { tag: tag | CANCELLED, result });
        true
    }
}

impl Drop for DescriptorThreads {
    fn drop(&mut self) {
        self.in_flight -= self.staged.len();
        self.staged.clear();
        let mut done = Vec::new();
        while self.in_flight > 0 {
            let now = crate::clock::now();
            self.wait(now, None, &|| false);
            self.reap(now, &mut done);
        }
    }
}

/// Carries out a call, blocking; returns the bytes done, or a negative errno.
fn carry_out(call: &DescriptorCall) -> i64 {
    let (fd, memory, len, pos) =
        (call.fd, call.memory.addr().cast(), call.memory.len() as usize, call.pos as libc::off_t);
    let stream = -i64::from(libc::ESPIPE);
    match call.op {
        // SAFETY: the memory is valid for writes and used by nothing else until the call has completed, as the maker
        // of the segment promised.
        CallOp::Read => match until_done(|| unsafe { libc::pread(fd, memory, len, pos) as i64 }) {
            // SAFETY: as above.
            result if result == stream => until_done(|| unsafe { libc::read(fd, memory, len) as i64 }),
            result => result,
        },
        // SAFETY: the memory is valid for reads until the call has completed, by the same promise.
        CallOp::Write => match until_done(|| unsafe { libc::pwrite(fd, memory, len, pos) as i64 }) {
            // SAFETY: as above.
            result if result == stream => until_done(|| unsafe { libc::write(fd, memory, len) as i64 }),
            result => result,
        },
        // SAFETY: takes no memory.
        CallOp::Sync => until_done(|| unsafe { libc::fsync(fd).into() }),
        // SAFETY: takes no memory.
        CallOp::DataSync => until_done(|| unsafe { libc::fdatasync(fd).into() }),
    }
}
