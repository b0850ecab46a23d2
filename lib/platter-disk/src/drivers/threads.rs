//! A pool of threads that make blocking system calls: works on every kernel and file system.

use crossbeam_queue::ArrayQueue;
use platter_block::bio::IoPrio;
use platter_block::driver::{Completion, Driver, Outstanding, Started};
use platter_block::time::{Span, Time};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[allow(unsafe_code)]
pub(super) mod calls;
#[allow(unsafe_code)]
mod descriptors;
#[cfg(test)]
mod tests;
mod workers;

use super::file_target::{Target, Way};
use super::pause::Pause;
use super::slots::Slots;
use super::tally::Tally;
use crate::wake::{ArmedDoorbell, EventFd};
use calls::Call;
pub(super) use calls::can_avoid_blocking;
pub(super) use descriptors::DescriptorThreads;
use workers::Work;
pub(super) use workers::Workers;

/// The request counts of a channel, for other threads.
pub(super) struct Counts(Tally);

impl Default for Counts {
    fn default() -> Counts {
        Counts(Tally::new())
    }
}

impl Outstanding for Counts {
    fn outstanding(&self) -> u32 {
        self.0.left(|| 0)
    }
}

/// State that the driver shares with the threads.
pub(super) struct Channel {
    target: Arc<Target>,
    /// Calls by slot. The lock is never contended: a request belongs to the driver before it is pushed, and
    /// to a thread until it has completed.
    calls: Box<[Mutex<Call>]>,
    /// Completed slots and their results. Has room for all.
    done: ArrayQueue<(u32, i64)>,
    counts: Arc<Counts>,
    wake: Arc<ArmedDoorbell>,
    /// Rung together with `wake`, for those who sleep on a descriptor of the driver whose threads these are.
    watch: Arc<ArmedDoorbell>,
}

impl Channel {
    fn ring(&self) {
        self.wake.ring();
        self.watch.ring();
    }

    fn call(&self, slot: u32) -> MutexGuard<'_, Call> {
        self.calls[slot as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn complete(&self, slot: u32, result: i64) {
        let pushed = self.done.push((slot, result));
        debug_assert!(pushed.is_ok(), "more completions than slots");
        self.counts.0.give();
        self.ring();
    }
}

impl Work for Channel {
    fn run(&self, slot: u32, set_ioprio: &mut dyn FnMut(IoPrio) -> i64) {
        let call = self.call(slot);
        let result = match set_ioprio(call.ioprio) {
            0 => calls::run(&self.target, &call),
            failed => failed,
        };
        drop(call);
        self.complete(slot, result);
    }
}

/// A channel whose requests are carried out by the threads of the disk.
pub struct Threads {
    channel: Arc<Channel>,
    /// The channel as the threads see it.
    work: Arc<dyn Work>,
    workers: Arc<Workers>,
    slots: Slots,
    /// Slots that were filled but not handed to the pool yet.
    staged: Vec<u32>,
    /// Time until the system is asked again for a thread: it had none to give, and the pool has none.
    pause: Pause,
    /// A caller has the wait handle, so the descriptor must be armed whenever there is nothing to reap.
    watched: AtomicBool,
}

impl Threads {
    /// A channel to `target` that takes `depth` requests at a time.
    pub(super) fn new(
        target: Arc<Target>,
        depth: u32,
        workers: Arc<Workers>,
        wake: Arc<ArmedDoorbell>,
    ) -> Threads {
        Threads::beside(target, depth, workers, [wake, Arc::new(ArmedDoorbell::new())], Arc::default())
    }

    /// The same beside another driver, with its counters. The second descriptor is rung together with the first.
    pub(super) fn beside(
        target: Arc<Target>,
        depth: u32,
        workers: Arc<Workers>,
        [wake, watch]: [Arc<ArmedDoorbell>; 2],
        counts: Arc<Counts>,
    ) -> Threads {
        let depth = depth.max(1);
        let calls = (0..depth).map(|_| Mutex::new(Call::new())).collect();
        let done = ArrayQueue::new(depth as usize);
        let channel = Arc::new(Channel { target, calls, done, counts, wake, watch });
        Threads {
            work: Arc::<Channel>::clone(&channel),
            channel,
            workers,
            slots: Slots::new(depth),
            staged: Vec::with_capacity(depth as usize),
            pause: Pause::default(),
            watched: AtomicBool::new(false),
        }
    }

    /// Takes a request that was started elsewhere and would have blocked there; `false` if there is no room.
    pub(super) fn take_over(&mut self, tag: u32, fill: impl FnOnce(&mut Call)) -> bool {
        let Some(slot) = self.slots.take(tag) else { return false };
        self.channel.counts.0.take();
        fill(&mut self.channel.call(slot));
        self.staged.push(slot);
        true
    }

    fn take(&mut self, done: &mut Vec<Completion>) {
        while let Some((slot, result)) = self.channel.done.pop() {
            if let Some(tag) = self.slots.put(slot) {
                done.push(Completion { tag, result });
            }
        }
    }

    fn ring_doorbell(&mut self, now: Time) {
        if !self.staged.is_empty() {
            let served = self.workers.push(&self.work, self.staged.drain(..));
            self.note_served(now, served);
        } else if self.pause.until().is_some() && self.pause.is_over(now) {
            let served = self.workers.start();
            self.note_served(now, served);
        }
    }

    /// Records whether the pool has a thread; if not, the pool is asked again after a pause.
    fn note_served(&mut self, now: Time, served: bool) {
        if served {
            return self.pause.end();
        }
        self.pause.begin(now);
        // Sleeping threads must learn of the pause.
        self.channel.ring();
    }

    /// Requests that have not been reaped.
    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.slots.taken()
    }

    /// Whether there is something to reap.
    pub(super) fn has_done(&self) -> bool {
        !self.channel.done.is_empty()
    }
}

impl Driver for Threads {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        let Some(slot) = self.slots.take(request.tag) else { return false };
        self.channel.counts.0.take();
        let (buffered, len) = match self.channel.target.way(now, request) {
            Way::Direct(len) => (false, len),
            Way::Buffered(len) => (true, len),
            Way::Done(result) => {
                self.channel.complete(slot, result);
                return true;
            }
        };
        let mut call = self.channel.call(slot);
        call.fill(request, buffered, len);
        let found = calls::from_cache(&self.channel.target, &call);
        drop(call);
        match found {
            Some(result) => self.channel.complete(slot, result),
            None => self.staged.push(slot),
        }
        true
    }

    fn submit(&mut self, now: Time) {
        self.ring_doorbell(now);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        self.take(done);
        if self.pause.until().is_some() {
            self.ring_doorbell(now);
        }
        if self.watched.load(Ordering::Relaxed) {
            self.channel.wake.arm();
            self.take(done);
        }
    }

    fn next_event(&self) -> Option<Time> {
        self.pause.until()
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.ring_doorbell(now);
        if self.in_flight() == 0 {
            return;
        }
        let fd = self.channel.wake.arm();
        if let Some(fd) = fd.filter(|_| !self.has_done()) {
            fd.wait(self.pause.limit(now, timeout));
        }
    }

    fn wait_handle(&self) -> Option<i32> {
        if !self.watched.swap(true, Ordering::Relaxed) {
            self.channel.wake.arm();
            if self.has_done() {
                self.channel.wake.ring();
            }
        }
        self.channel.wake.fd().map(EventFd::raw)
    }

    /// Takes back a request that no thread has started. A blocking system call cannot be interrupted safely.
    fn cancel(&mut self, _now: Time, tag: u32) -> bool {
        let Some(slot) = self.slots.find(tag) else { return false };
        let waits = match self.staged.iter().position(|staged| *staged == slot) {
            Some(at) => {
                self.staged.remove(at);
                true
            }
            None => self.workers.take_back(&self.work, slot),
        };
        if waits {
            self.channel.complete(slot, -i64::from(libc::ECANCELED));
        }
        waits
    }

    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        let counts: Arc<Counts> = Arc::clone(&self.channel.counts);
        Some(counts)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        // Requests that were never submitted are unknown to the threads; the others hold memory until they
        // complete.
        for slot in self.staged.drain(..) {
            self.slots.put(slot);
            self.channel.counts.0.give();
        }
        let mut done = Vec::new();
        while self.in_flight() > 0 {
            self.wait(crate::clock::now(), None);
            self.take(&mut done);
        }
    }
}
