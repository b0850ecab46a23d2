//! A queue with its driver, and what it asks the queue for.

use super::body::{Queue, Store};
use super::direct::Backlog;
use super::sched::Scheduler;
use super::{Rest, append};
use crate::bio::Bio;
use crate::counters::Counters;
use crate::driver::{Completion, Driver};
use crate::fault::Kind;
use crate::lane::{Cancel, Lane};
use crate::segment::{Region, RegionId};
use crate::time::{Span, Time};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

impl<S: Store> Queue<S> {
    /// Runs the timers that are due at `now`. Returns whether one was due; the driver may then have
    /// [overdue](Queue::next_overdue) requests.
    #[inline]
    pub fn tick(&mut self, now: Time) -> bool {
        self.is_due(now) && self.run_timers(now)
    }

    /// Whether a timer may be due at `now`.
    #[inline]
    fn is_due(&self, now: Time) -> bool {
        now >= self.alarm
    }

    /// Whether the driver has completed a request with an error since the last call.
    #[inline]
    pub(crate) fn take_error(&mut self) -> bool {
        core::mem::take(&mut self.error)
    }

    /// Appends completed bios, oldest first.
    #[inline]
    pub fn take_done(&mut self, out: &mut Vec<Bio>) {
        append(out, &mut self.done);
    }

    /// Whether the queue still holds requests, and whether all of them have started.
    #[inline]
    pub fn rest(&self) -> Rest {
        match self.attention {
            true if self.is_drained() => Rest::Settled,
            true if self.only_started() => Rest::Started,
            true => Rest::Waits,
            false if self.used() == 0 => Rest::Settled,
            false if S::unstarted(self) == 0 => Rest::Started,
            false => Rest::Waits,
        }
    }

    /// Whether attention is only for requests that the driver has.
    #[cold]
    fn only_started(&self) -> bool {
        S::unstarted(self) == 0 && self.nothing_waits() && !self.order.is_watched()
    }
}

/// A queue with its driver.
pub struct QueueLane<S: Store, D: Driver = Box<dyn Driver>> {
    // Drops first: dropping a driver waits until the device uses no memory, and the queue owns the memory.
    driver: D,
    /// The queue.
    pub queue: Queue<S>,
    completions: Vec<Completion>,
    broken: u64,
    /// See [`Driver::is_prompt`].
    prompt: bool,
    reopen: Option<Reopen<D>>,
}

/// The queue of one lane with its driver.
pub type DirectLane<D = Box<dyn Driver>> = QueueLane<Backlog, D>;

/// The queue that all lanes of a device share with its driver.
pub type SchedLane<D = Box<dyn Driver>> = QueueLane<Scheduler, D>;

/// Opens a driver to replace one that is dead; `None`: impossible at the moment.
pub type Reopen<D> = Box<dyn FnMut() -> Option<D> + Send>;

impl<S: Store, D: Driver> QueueLane<S, D> {
    /// Puts a queue on a driver.
    pub fn new(queue: Queue<S>, driver: D) -> QueueLane<S, D> {
        let completions = Vec::with_capacity(queue.settings().depth as usize);
        let prompt = driver.is_prompt();
        QueueLane { queue, driver, completions, broken: 0, prompt, reopen: None }
    }

    /// Sets the function that replaces a [dead](Driver::is_dead) driver.
    pub fn set_reopen(&mut self, reopen: Reopen<D>) {
        self.reopen = Some(reopen);
    }

    /// Replaces the driver if it is dead and has returned all requests. Returns whether it did.
    #[cold]
    fn replace_dead(&mut self) -> bool {
        if self.queue.in_flight() > 0 || !self.driver.is_dead() {
            return false;
        }
        let driver = self.reopen.as_mut().and_then(|reopen| reopen());
        let replaced = driver.is_some();
        if let Some(driver) = driver {
            self.prompt = driver.is_prompt();
            self.driver = driver;
        }
        replaced
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The driver, mutably.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// The queue's counters.
    pub fn counters(&self) -> &Arc<Counters> {
        self.queue.counters()
    }

    /// Completions for requests that the driver did not have (a broken contract).
    pub fn broken_completions(&self) -> u64 {
        self.broken
    }

    /// Takes back the bios that match, see [`Lane::cancel`]. Those that no driver has end with `why`, which is
    /// [`Kind::Cancelled`] or [`Kind::TimedOut`].
    pub fn cancel_where(&mut self, now: Time, which: &dyn Fn(&Bio) -> bool, why: Kind) {
        let driver = &mut self.driver;
        self.queue.cancel(now, which, why, &mut |tag| {
            driver.cancel(now, tag);
        });
    }

    #[inline(always)]
    fn run_timers(&mut self, now: Time) {
        if self.queue.is_due(now) {
            self.run_due_timers(now);
        }
    }

    #[cold]
    fn run_due_timers(&mut self, now: Time) {
        // What the device has completed is not overdue, however long the lane was not run.
        if self.queue.in_flight() > 0 {
            self.collect(now);
        }
        self.queue.tick(now);
        while let Some(tag) = self.queue.next_overdue() {
            self.driver.given_up(now, tag);
        }
    }

    /// The first half of a round: runs timers that are due and collects completions, which free depth and requests for
    /// the batch that follows. Returns whether nothing was in flight.
    #[inline(always)]
    pub fn begin(&mut self, now: Time) -> bool {
        self.run_timers(now);
        let idle = self.queue.in_flight() == 0;
        if !idle {
            self.collect(now);
        }
        idle
    }

    /// The second half of a round: gives the driver what else may start, and rings the doorbell if the driver took
    /// anything; `started` requests were given to it before. A prompt driver that `was_idle` has completed them.
    #[inline(always)]
    pub fn end(&mut self, now: Time, started: u32, was_idle: bool) {
        if started + self.fill(now) > 0 {
            self.driver.submit(now);
            if was_idle && self.prompt {
                self.collect(now);
            }
        }
    }

    /// Gives the driver what waits in the queue and may start. Returns how many requests the driver took.
    #[inline]
    pub fn fill(&mut self, now: Time) -> u32 {
        if self.queue.has_work() { self.fill_driver(now) } else { 0 }
    }

    #[inline(never)]
    fn fill_driver(&mut self, now: Time) -> u32 {
        let mut taken = 0;
        loop {
            let before = self.queue.in_flight();
            let refused = self.fill_until_refused(now);
            let after = self.queue.in_flight();
            self.queue.counters().dispatched_in_a_row(before, after - before);
            taken += after - before;
            let Some(tag) = refused else { return taken };
            self.queue.refused(now, tag);
            taken -= 1;
            if !self.replace_dead() {
                return taken;
            }
        }
    }

    /// Returns the request that the driver had no room for.
    #[inline]
    fn fill_until_refused(&mut self, now: Time) -> Option<u32> {
        while let Some(tag) = S::next(&mut self.queue, now) {
            let request = S::request(&self.queue, tag);
            if !request.is_some_and(|request| self.driver.queue(now, &request)) {
                return Some(tag);
            }
        }
        None
    }

    // Out of line: both halves of a round call it, so that neither needs registers for it when there is nothing to collect.
    #[inline(never)]
    fn collect(&mut self, now: Time) {
        self.driver.reap(now, &mut self.completions);
        self.broken += S::complete(&mut self.queue, now, &mut self.completions);
        if self.queue.take_error() {
            self.replace_dead();
        }
    }

    /// Blocks like [`Lane::wait`] after everything that may start has been given to the driver.
    #[inline]
    pub fn wait_started(&mut self, now: Time, timeout: Option<Span>) {
        if self.queue.in_flight() > 0 && !self.queue.has_done() {
            // The queue may have set a timer.
            let timer = self.next_wakeup().map(|at| at.since(now));
            self.driver.wait(now, timeout.into_iter().chain(timer).min());
        } else if self.queue.has_work() && !self.queue.has_done() && self.driver.next_event().is_some() {
            // A simulated disk may be full of requests of other channels: only waiting advances its time.
            self.driver.wait(now, timeout);
        } else {
            self.driver.submit(now);
        }
    }
}

impl<D: Driver> DirectLane<D> {
    /// Gives the driver the common bios at the front of a batch, see [`Queue::start_common`]; returns how many.
    #[inline(always)]
    pub fn start(&mut self, now: Time, batch: &mut VecDeque<Bio>) -> u32 {
        self.queue.start_common(now, batch, &mut self.driver)
    }
}

impl<S: Store, D: Driver> Lane for QueueLane<S, D> {
    #[inline]
    fn submit(&mut self, now: Time, bio: Bio) {
        self.queue.submit(now, bio);
    }

    #[inline]
    fn run(&mut self, now: Time) {
        // Completions come first: they free slots for waiting requests, and the batch goes out with one doorbell.
        let was_idle = self.begin(now);
        self.end(now, 0, was_idle);
    }

    #[inline]
    fn take_done(&mut self, out: &mut Vec<Bio>) {
        self.queue.take_done(out);
    }

    #[inline]
    fn has_done(&self) -> bool {
        self.queue.has_done()
    }

    fn next_wakeup(&self) -> Option<Time> {
        Time::earliest(self.queue.next_wakeup(), self.driver.next_event())
    }

    fn unplug(&mut self, now: Time) {
        S::unplug(&mut self.queue, now);
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.fill_driver(now);
        self.wait_started(now, timeout);
    }

    fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        let handle = self.driver.wait_handle();
        out.extend(handle);
        handle.is_some()
    }

    #[inline]
    fn in_flight(&self) -> u32 {
        self.queue.in_flight()
    }

    fn cancel(&mut self, now: Time, which: &Cancel) {
        self.cancel_where(now, &|bio| which.matches(bio), which.kind());
    }

    fn is_idle(&self) -> bool {
        self.queue.is_idle()
    }

    fn register(&mut self, region: &Region) {
        self.driver.register(region);
    }

    fn unregister(&mut self, region: RegionId) {
        self.driver.unregister(region);
    }
}
