//! A pool of threads that make blocking system calls: works on every kernel and file system.

use crossbeam_queue::ArrayQueue;
use platter_block::bio::IoPrio;
use platter_block::driver::{Completion, Driver, Started};
use platter_block::time::{Span, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[allow(unsafe_code)]
pub(super) mod calls;
mod workers;

use super::bell::Bell;
use super::slots::Slots;
use super::target::Target;
use calls::Call;
pub(super) use calls::can_avoid_blocking;
pub(super) use workers::Workers;

/// What the driver shares with the threads.
pub(super) struct Channel {
    target: Arc<Target>,
    /// By slot. The lock is never contended: a request is the driver's before it is pushed, and a thread's
    /// until it has completed.
    calls: Box<[Mutex<Call>]>,
    /// Slots that are done, and their results. Has room for all.
    done: ArrayQueue<(u32, i64)>,
    bell: Arc<Bell>,
}

impl Channel {
    fn call(&self, slot: u32) -> MutexGuard<'_, Call> {
        self.calls[slot as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a request on the calling thread, which `set_ioprio` gives the right priority first.
    fn run(&self, slot: u32, set_ioprio: &mut dyn FnMut(IoPrio) -> i64) {
        let call = self.call(slot);
        let result = match set_ioprio(call.ioprio) {
            0 => calls::run(&self.target, &call),
            failed => failed,
        };
        drop(call);
        self.complete(slot, result);
    }

    fn complete(&self, slot: u32, result: i64) {
        let pushed = self.done.push((slot, result));
        debug_assert!(pushed.is_ok(), "more completions than slots");
        self.bell.ring();
    }
}

/// A channel whose requests are done by the threads of the disk.
pub struct Threads {
    channel: Arc<Channel>,
    workers: Arc<Workers>,
    slots: Slots,
    /// Slots that were filled and not yet handed to the pool.
    staged: Vec<u32>,
    /// Somebody has the wait handle, so the bell must be armed whenever there is nothing to reap.
    watched: AtomicBool,
}

impl Threads {
    /// A channel to `target` that takes `depth` requests at a time.
    pub(super) fn new(target: Arc<Target>, depth: u32, workers: Arc<Workers>, bell: Arc<Bell>) -> Threads {
        let depth = depth.max(1);
        let calls = (0..depth).map(|_| Mutex::new(Call::new())).collect();
        let channel = Arc::new(Channel { target, calls, done: ArrayQueue::new(depth as usize), bell });
        let staged = Vec::with_capacity(depth as usize);
        Threads { channel, workers, slots: Slots::new(depth), staged, watched: AtomicBool::new(false) }
    }

    fn take(&mut self, done: &mut Vec<Completion>) {
        while let Some((slot, result)) = self.channel.done.pop() {
            if let Some(tag) = self.slots.put(slot) {
                done.push(Completion { tag, result });
            }
        }
    }

    fn ring_doorbell(&mut self) {
        if !self.staged.is_empty() {
            self.workers.push(&self.channel, self.staged.drain(..));
        }
    }

    /// Requests that have not been reaped.
    pub(super) fn in_flight(&self) -> usize {
        self.slots.taken()
    }

    /// Whether there is something to reap.
    pub(super) fn has_done(&self) -> bool {
        !self.channel.done.is_empty()
    }
}

impl Driver for Threads {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let Some(slot) = self.slots.take(request.tag) else { return false };
        let mut call = self.channel.call(slot);
        call.op = request.op;
        call.fua = request.fua;
        call.ioprio = request.ioprio;
        call.pos = request.pos;
        call.len = request.len;
        call.iovecs.fill(request);
        drop(call);
        self.staged.push(slot);
        true
    }

    fn submit(&mut self, _now: Time) {
        self.ring_doorbell();
    }

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        self.take(done);
        if self.watched.load(Ordering::Relaxed) {
            self.channel.bell.arm();
            self.take(done);
        }
    }

    fn wait(&mut self, _now: Time, timeout: Option<Span>) {
        self.ring_doorbell();
        if self.in_flight() == 0 {
            return;
        }
        self.channel.bell.arm();
        if !self.has_done() {
            self.channel.bell.wait(timeout);
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        if !self.watched.swap(true, Ordering::Relaxed) {
            self.channel.bell.arm();
            if self.has_done() {
                self.channel.bell.ring();
            }
        }
        Some(self.channel.bell.raw())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // What was never submitted nobody has seen; the rest holds memory until it is done.
        for slot in self.staged.drain(..) {
            self.slots.put(slot);
        }
        let mut done = Vec::new();
        while self.in_flight() > 0 {
            self.wait(Time(0), None);
            self.take(&mut done);
        }
    }
}
