//! Serves the queues one after the other: budgets, timeouts, waiting for the next request.

use super::Bfq;
use super::params::{LOW_LATENCY, SLICE_IDLE, STRICT_GUARANTEES, TIMEOUT_SYNC};
use super::procs::{IDLE, Proc, Why};
use super::service::CLASSES;
use platter_block::elevator::RequestId;
use platter_block::time::{Span, Time};

/// Interval in which the idle class is served at least once.
const IDLE_TURN: Span = Span::from_millis(200);
/// Shortest wait for the next request, for seeky queues.
const SHORT_WAIT: Span = Span::from_millis(2);
/// Wait for queues with a raised weight.
const RAISED_WAIT: Span = Span::from_millis(20);
/// Factor by which asynchronous sectors are charged.
const ASYNC_CHARGE: u64 = 3;
/// Shorter services are not used to judge the rate of a queue.
const SHORT_SERVICE: Span = Span::from_millis(1);
/// Longer services are.
const LONG_SERVICE: Span = Span::from_millis(20);

/// Why a service ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// The next request did not arrive in time.
    TooIdle,
    /// The service lasted too long.
    Timeout,
    /// The next request exceeds the rest of the budget.
    Exhausted,
    /// There are no more requests, and no reason to wait for one.
    NoMore,
    /// Another queue must go first.
    Preempted,
}

/// The budget of a synchronous queue after a service that used `used` sectors of `old`; `outstanding`: it still
/// has requests in the device.
pub(super) fn next_budget(
    reason: Reason,
    old: u64,
    used: u64,
    outstanding: bool,
    (least, most): (u64, u64),
) -> u64 {
    match reason {
        // It may have been slow rather than idle.
        Reason::TooIdle if outstanding => (2 * old).min(most),
        Reason::TooIdle if old > 5 * least => old - 4 * least,
        Reason::TooIdle => least,
        Reason::Timeout => (2 * old).min(most),
        Reason::Exhausted => (4 * old).min(most),
        Reason::NoMore => used.max(least),
        Reason::Preempted => old,
    }
}

/// Queues that have requests or are being served: their number, and whether their weights and classes are equal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    count: u64,
    weights: u64,
    squares: u128,
    classes: [u32; CLASSES],
    raised: u64,
}

impl Busy {
    pub(super) fn add(&mut self, it: &mut Proc, weight: u64) {
        self.remove(it);
        it.counted = weight;
        it.counted_raised = it.is_raised();
        self.count += 1;
        self.weights += weight;
        self.squares += u128::from(weight) * u128::from(weight);
        self.classes[it.class] += 1;
        self.raised += u64::from(it.counted_raised);
    }

    pub(super) fn remove(&mut self, it: &mut Proc) {
        let weight = core::mem::take(&mut it.counted);
        if weight > 0 {
            self.count -= 1;
            self.weights -= weight;
            self.squares -= u128::from(weight) * u128::from(weight);
            self.classes[it.class] -= 1;
            self.raised -= u64::from(it.counted_raised);
        }
    }

    /// Whether there are different weights or classes: the sum of n squares is the square of the sum divided by
    /// n only if all are equal.
    fn differ(&self) -> bool {
        u128::from(self.count) * self.squares != u128::from(self.weights) * u128::from(self.weights)
            || self.classes.iter().filter(|&&n| n > 0).count() > 1
    }

    /// Whether there is more than one.
    pub(super) fn several(&self) -> bool {
        self.count > 1
    }
}

impl Bfq {
    /// What a request costs its queue, in sectors.
    #[inline]
    pub(super) fn charge(&self, record: u32, id: Option<RequestId>) -> u64 {
        let sectors = id.and_then(|id| self.requests.get(id)).map_or(0, |entry| entry.sectors());
        self.charge_of(record, sectors)
    }

    #[inline]
    pub(super) fn charge_of(&self, record: u32, sectors: u64) -> u64 {
        let it = &self.procs[record];
        if it.sync || it.is_raised() { sectors } else { ASYNC_CHARGE * sectors }
    }

    /// The queue to dispatch from, which then has a request; `None` to wait.
    pub(super) fn select(&mut self, now: Time, force: bool) -> Option<u32> {
        loop {
            let Some(record) = self.in_service else {
                self.start_next(now)?;
                continue;
            };
            self.end_raising(now, record);
            let it = &self.procs[record];
            if it.class != IDLE && self.idle_class_is_due(now) {
                self.expire(now, Reason::Preempted);
            } else if it.queued > 0 {
                // Every service gets at least one request.
                if it.service > 0 && now >= self.budget_end {
                    self.expire(now, Reason::Timeout);
                } else if it.service > 0 && it.service + self.charge(record, it.next) > it.budget {
                    self.expire(now, Reason::Exhausted);
                } else {
                    self.wait = None;
                    return Some(record);
                }
            } else if let Some(wait) = self.wait {
                if now < wait.until && !force {
                    return None;
                }
                self.end_wait(now);
            } else if it.dispatched > 0 && !force && self.better_to_wait(record) {
                return None;
            } else {
                self.expire(now, Reason::NoMore);
            }
        }
    }

    /// Whether the turn of the idle class has come.
    fn idle_class_is_due(&self, now: Time) -> bool {
        self.service.has_waiting(IDLE) && now.since(self.idle_turn) >= IDLE_TURN
    }

    /// Starts to serve the next queue.
    fn start_next(&mut self, now: Time) -> Option<()> {
        let class = match self.idle_class_is_due(now) {
            true => IDLE,
            false => (0..CLASSES).find(|&class| self.service.has_waiting(class))?,
        };
        if class == IDLE {
            self.idle_turn = now;
        }
        let record = self.service.start_next(class)?;
        self.count_budget();
        let next = self.charge(record, self.procs[record].next);
        let mut timeout = self.span(TIMEOUT_SYNC);
        let it = &mut self.procs[record];
        if matches!(it.raise.why, Why::Interactive | Why::Async) {
            timeout = Span(timeout.0.saturating_mul(it.counted / it.weight.max(1)));
        }
        it.budget = it.budget.max(next);
        it.service = 0;
        it.fifo_checked = false;
        self.in_service = Some(record);
        self.service_start = now;
        self.budget_end = now + timeout;
        self.wait = None;
        Some(())
    }

    /// The wait has ended without a request.
    pub(super) fn end_wait(&mut self, now: Time) {
        let Some(wait) = self.wait else { return };
        let reason = match now {
            _ if now < wait.until => Reason::Preempted,
            _ if wait.until >= self.budget_end => Reason::Timeout,
            _ => Reason::TooIdle,
        };
        // The elevator may not have been asked for a while.
        self.expire(now.min(wait.until), reason);
    }

    /// Ends the current service.
    pub(super) fn expire(&mut self, now: Time, reason: Reason) {
        let Some(record) = self.in_service.take() else { return };
        self.charge_time(now, record, reason);
        self.wait = None;
        let bounds = (self.least_budget(), self.largest_budget());
        let it = &mut self.procs[record];
        it.max_budget = match (it.is_raised(), it.sync) {
            (true, _) => 2 * bounds.0,
            (false, false) => bounds.1,
            (false, true) => {
                next_budget(reason, it.max_budget, it.service, it.dispatched > 0, bounds).min(bounds.1)
            }
        };
        let used = core::mem::take(&mut it.service);
        if it.queued > 0 {
            let (weight, budget) = (self.weight(record), self.first_budget(record));
            self.procs[record].budget = budget;
            self.service.requeue(record, used, weight, budget);
            self.busy.add(&mut self.procs[record], weight);
        } else {
            it.idle_since = Some(now);
            self.service.retire(record, used);
            self.busy.remove(&mut self.procs[record]);
            self.settle(record);
        }
    }

    /// The budget of a queue that is about to request service: at least the cost of its next request.
    pub(super) fn first_budget(&self, record: u32) -> u64 {
        let it = &self.procs[record];
        it.max_budget.max(self.charge(record, it.next))
    }

    /// Charges a slow queue for the time it had the device, as if it had been fast. Otherwise a seeky queue
    /// would take more than its share of time from all others.
    fn charge_time(&mut self, now: Time, record: u32, reason: Reason) {
        let (largest, timeout) = (self.largest_budget(), self.span(TIMEOUT_SYNC));
        let it = &self.procs[record];
        let until = self.wait.filter(|_| reason == Reason::TooIdle).map_or(now, |wait| wait.since);
        let mut time = until.since(self.service_start);
        let mut slow = it.sync && it.is_seeky();
        if time < SHORT_SERVICE {
            time = if self.is_rotational() { self.span(SLICE_IDLE) } else { SHORT_WAIT };
        } else if it.sync && time > LONG_SERVICE {
            slow = it.service < largest / 2;
        }
        let unused = reason == Reason::Timeout && it.budget.saturating_sub(it.service) >= it.budget / 3;
        if it.is_raised() || !(slow || unused) {
            return;
        }
        let time = time.min(timeout).0 / 1000;
        let for_time = largest.saturating_mul(time) / (timeout.0 / 1000).max(1);
        let extra = for_time.saturating_sub(it.service);
        self.procs[record].service += extra;
        self.service.serve(record, extra);
    }

    /// Whether to leave the device idle rather than serve other queues when this queue is empty. That improves
    /// throughput on disks that seek or do not queue; on others it may still be necessary to keep the shares
    /// right.
    pub(super) fn better_to_wait(&self, record: u32) -> bool {
        let (it, window) = (&self.procs[record], self.window(record));
        if self.is_on(STRICT_GUARANTEES) {
            return window > Span::ZERO && !it.exited;
        }
        // Waiting makes sense only if the next request can be expected in time.
        let comes_back = it.sync && it.class != IDLE && !it.in_large_burst && it.thinks_within(window);
        if window == Span::ZERO || !comes_back {
            return false;
        }
        let (seeks, queues) = (self.is_rotational(), self.device.queues());
        let pays = (seeks && !queues || (seeks || !queues) && !it.is_seeky()) && self.busy.raised == 0;
        let raised_among_others = it.is_raised() && self.busy.raised < self.busy.count;
        pays || raised_among_others || self.busy.differ() || !self.busy.several()
    }

    /// Longest time to wait for the next request of a queue.
    fn window(&self, record: u32) -> Span {
        let (it, idle) = (&self.procs[record], self.span(SLICE_IDLE));
        match idle {
            Span::ZERO => idle,
            _ if it.is_raised() && self.is_on(LOW_LATENCY) => idle.max(RAISED_WAIT),
            _ if it.is_seeky() && !self.busy.differ() => idle.min(SHORT_WAIT),
            _ => idle,
        }
    }

    /// The queue in service has nothing queued and nothing in the device any more.
    pub(super) fn start_wait(&mut self, now: Time, record: u32) {
        self.wait = Some(super::Wait { since: now, until: now + self.window(record) });
    }
}
