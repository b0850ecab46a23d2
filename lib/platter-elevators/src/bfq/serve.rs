//! Serves the queues one after the other: budgets, timeouts, waiting for the next request.

use super::Bfq;
use super::params::{LOW_LATENCY, SLICE_IDLE, STRICT_GUARANTEES, TIMEOUT_SYNC, WR_MAX_SOFTRT_RATE};
use super::record::{IDLE, Why};
use super::service::CLASSES;
use platter_block::elevator::RequestId;
use platter_block::time::{Span, Time};

/// Interval in which the idle class is chosen at least once.
const IDLE_TURN: Span = Span::from_millis(200);
/// Shortest wait for the next request, for seeky queues.
const SHORT_WAIT: Span = Span::from_millis(2);
/// Wait for queues with a raised weight.
const RAISED_WAIT: Span = Span::from_millis(20);
/// What a service of less than a millisecond counts on a disk that seeks, in milliseconds.
const LEAST_CHARGE: u64 = 8;
/// Factor by which asynchronous sectors are charged.
const ASYNC_CHARGE: u64 = 3;
/// Longer services are used to judge the rate of a queue.
const LONG_SERVICE: Span = Span::from_millis(20);
/// The elevator idles for a raised queue if the device has at least this many requests of other queues.
const OTHERS: u32 = 4;

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

impl Bfq {
    /// What a request costs its queue, in sectors.
    #[inline]
    pub(super) fn charge(&self, record: u32, id: Option<RequestId>) -> u64 {
        let sectors = id.and_then(|id| self.requests.get(id)).map_or(0, |entry| entry.sectors());
        let it = &self.procs[record];
        let plain = it.sync || it.is_raised() || self.busy.differ(it);
        if plain { sectors } else { ASYNC_CHARGE * sectors }
    }

    /// The queue to dispatch from, which then has a request; `None` to wait.
    pub(super) fn select(&mut self, now: Time, force: bool) -> Option<u32> {
        loop {
            let Some(record) = self.in_service else {
                self.start_next(now)?;
                continue;
            };
            let it = &self.procs[record];
            let stays = it.queued == 0 && !force && self.better_to_wait(record);
            if self.may_time_out(now, record) && !stays {
                self.expire(now, false, Reason::Timeout);
            } else if it.queued > 0 {
                if self.charge(record, it.next) <= it.left() {
                    self.wait = None;
                    return Some(record);
                }
                self.expire(now, false, Reason::Exhausted);
            } else if self.wait.is_some_and(|wait| force || now >= wait.until) {
                self.end_wait(now);
            } else if self.wait.is_some() || it.dispatched > 0 && stays {
                return self.injected(record);
            } else {
                self.expire(now, false, Reason::NoMore);
            }
        }
    }

    /// Whether the queue in service may end it because it has lasted too long: not while it is waited for, unless it has used
    /// little of its budget.
    pub(super) fn may_time_out(&self, now: Time, record: u32) -> bool {
        let it = &self.procs[record];
        (self.wait.is_none() || it.left() >= it.budget / 3) && it.is_over(now)
    }

    /// Starts to serve the next queue.
    fn start_next(&mut self, now: Time) -> Option<()> {
        let mut classes = 0..CLASSES;
        if now.since(self.idle_turn) > IDLE_TURN {
            self.idle_turn = now;
            if self.service.has_waiting(IDLE) {
                classes = IDLE..CLASSES;
            }
        }
        let class = classes.into_iter().find(|&class| self.service.has_waiting(class))?;
        let record = self.service.start_next(class)?;
        self.procs.unlist(record);
        self.budgets_assigned = (self.budgets_assigned * 7 + 256) / 8;
        self.extend_soft_rt(now, record);
        let factor = if self.procs[record].raise.why == Why::Interactive { self.factor(record) } else { 1 };
        let timeout = Span(self.span(TIMEOUT_SYNC).0.saturating_mul(factor));
        let it = &mut self.procs[record];
        it.fifo_checked = false;
        it.budget_end = Some(now + timeout);
        self.in_service = Some(record);
        self.service_start = now;
        self.wait = None;
        Some(())
    }

    /// The wait has ended, or has to end.
    pub(super) fn end_wait(&mut self, now: Time) {
        let (Some(wait), Some(record)) = (self.wait, self.in_service) else { return };
        // The elevator may not have been asked for a while.
        let now = now.min(wait.until);
        if self.procs[record].is_over(now) {
            self.expire(now, true, Reason::Timeout);
        } else if self.procs[record].queued == 0 {
            self.expire(now, true, Reason::TooIdle);
        }
        self.wait = None;
    }

    /// Ends the current service. `waited`: at the end of a wait, which does not count as service.
    pub(super) fn expire(&mut self, now: Time, waited: bool, reason: Reason) {
        let Some(record) = self.in_service else { return };
        let until = self.wait.filter(|_| waited).map_or(now, |wait| wait.since);
        self.charge_time(until, record, reason);
        if self.is_on(LOW_LATENCY) {
            let soft_rt = self.is_on(WR_MAX_SOFTRT_RATE) && self.procs[record].queued == 0;
            let it = &mut self.procs[record];
            if !it.is_raised() {
                it.raise.since = now;
            }
            it.soft_rt_due |= soft_rt && it.dispatched > 0;
            if soft_rt && it.dispatched == 0 {
                self.expect_soft_rt(now, record);
            }
        }
        self.trial = super::inject::Trial::default();
        self.adapt_budget(record, reason);
        let keep = reason == Reason::Preempted && self.needs_wait(record);
        self.in_service = None;
        self.wait = None;
        let (weight, budget) = (self.weight(record), self.procs[record].budget);
        let it = &mut self.procs[record];
        if it.queued > 0 || keep {
            self.service.requeue(record, it.service, weight, budget);
            it.service = 0;
            self.procs.list(record);
            return;
        }
        if it.dispatched == 0 {
            it.budget_end = Some(now);
        }
        self.service.retire(record, it.service);
        it.busy = false;
        self.busy.update(it);
        if matches!(reason, Reason::Timeout | Reason::Exhausted) {
            it.service = 0;
        } else {
            it.expected = true;
        }
        self.settle(record);
    }

    /// Adapts the budget of a queue to how it has used the last one.
    fn adapt_budget(&mut self, record: u32, reason: Reason) {
        let (least, most) = (self.first_least_budget(), self.largest_budget());
        let assigned = self.knows_budgets();
        let it = &mut self.procs[record];
        let old = if it.is_raised() { 2 * least } else { it.max_budget };
        let new = match (it.sync, it.is_raised()) {
            (true, false) if reason == Reason::Preempted => return,
            (true, false) => next_budget(reason, old, it.service, it.dispatched > 0, (least, most)),
            (true, true) => old,
            (false, _) => most,
        };
        it.max_budget = if assigned { new.min(most) } else { new };
        if it.queued > 0 {
            self.procs[record].budget = self.first_budget(record);
        }
    }

    /// The budget of a queue that is about to request service: at least the cost of its next request.
    pub(super) fn first_budget(&self, record: u32) -> u64 {
        let it = &self.procs[record];
        it.max_budget.max(self.charge(record, it.next))
    }

    /// The next request of a queue has changed. If it waits for service, its budget has to be enough for it.
    pub(super) fn next_changed(&mut self, record: u32) {
        if self.in_service == Some(record) || self.procs[record].next.is_none() {
            return;
        }
        let budget = self.first_budget(record).max(self.procs[record].service);
        if self.procs[record].budget != budget {
            self.procs[record].budget = budget;
            self.service.rebudget(record, self.weight(record), budget);
            self.procs.list(record);
        }
    }

    /// Charges a slow queue for the time it had the device, as if it had been fast. Otherwise a seeky queue
    /// would take more than its share of time from all others.
    fn charge_time(&mut self, until: Time, record: u32, reason: Reason) {
        let (largest, timeout) = (self.largest_budget(), self.span(TIMEOUT_SYNC).as_millis());
        let it = &self.procs[record];
        let time = until.since(self.service_start);
        let (mut slow, mut millis) = (it.sync && it.is_seeky(), 0);
        if it.sync && time.as_millis() == 0 {
            millis = if self.is_rotational() { LEAST_CHARGE } else { SHORT_WAIT.as_millis() };
        } else if it.sync {
            millis = time.as_millis();
            if time > LONG_SERVICE {
                slow = it.service < largest / 2;
            }
        }
        let unused = reason == Reason::Timeout && it.left() >= it.budget / 3;
        if it.is_raised() || !(slow || unused) {
            return;
        }
        let for_time = largest.saturating_mul(millis.min(timeout)) / timeout.max(1);
        self.procs[record].budget = self.procs[record].budget.max(for_time);
        self.receive(record, for_time.saturating_sub(self.procs[record].service));
    }

    /// A queue receives service.
    #[inline]
    pub(super) fn receive(&mut self, record: u32, service: u64) {
        let it = &mut self.procs[record];
        if it.is_raised() {
            it.raise.service += service;
        }
        it.service += service;
        it.backlogged_service += service;
        self.service.serve(record, service);
    }

    /// Whether to leave the device idle rather than serve other queues when this queue is empty.
    pub(super) fn better_to_wait(&self, record: u32) -> bool {
        let it = &self.procs[record];
        if it.exited || self.is_on(STRICT_GUARANTEES) {
            return !it.exited;
        }
        let may = self.is_on(SLICE_IDLE) && it.sync && it.class != IDLE;
        may && (self.wait_pays(record) || self.needs_wait(record))
    }

    /// Whether waiting for this queue improves throughput, and does no harm to raised queues: on disks that seek or do
    /// not queue.
    pub(super) fn wait_pays(&self, record: u32) -> bool {
        let it = &self.procs[record];
        let (seeks, one_by_one) = (self.is_rotational(), self.device.queues() == Some(false));
        let streams = !it.is_seeky() && it.io_bound && it.short_think;
        let pays = seeks && one_by_one || (seeks || one_by_one) && streams;
        pays && !it.exited && self.busy.raised == 0
    }

    /// Whether waiting for this queue is necessary to keep the shares right.
    fn needs_wait(&self, record: u32) -> bool {
        let it = &self.procs[record];
        let behind = self.busy.raised < self.busy.count || self.in_driver >= it.dispatched + OTHERS;
        let needs = it.is_raised() && behind || self.busy.differ(it) || !self.busy.several();
        needs && !it.exited
    }

    /// The queue in service has nothing queued and nothing in the device any more.
    pub(super) fn start_wait(&mut self, now: Time, record: u32) {
        let (it, idle) = (&self.procs[record], self.span(SLICE_IDLE));
        let window = match it.is_raised() {
            false if it.is_seeky() && !self.busy.differ(it) => idle.min(SHORT_WAIT),
            false => idle,
            true => idle.max(RAISED_WAIT),
        };
        self.wait = Some(super::Wait { since: now, until: now + window });
    }
}
