//! Weight raising: queues that a user may be waiting for get a larger share for a while.

use super::Bfq;
use super::params::{
    LOW_LATENCY, SLICE_IDLE, WR_COEFF, WR_MAX_SOFTRT_RATE, WR_MAX_TIME, WR_MIN_IDLE_TIME,
    WR_MIN_INTER_ARR_ASYNC, WR_RT_MAX_TIME,
};
use super::procs::Procs;
use super::record::{DEFAULT_WEIGHT, Why};
use platter_block::time::{Span, Time};

/// Factor by which soft real time is raised more than interactive.
const SOFT_RT_FACTOR: u64 = 100;
/// Sectors after which a queue no longer counts as interactive.
const MOST_INTERACTIVE: u64 = 120_000;
/// Bounds of how long a program takes to start.
const START_TIMES: (Span, Span) = (Span::from_millis(3000), Span::from_millis(25_000));
/// A soft real-time process pauses longer than `slice_idle` and this (four ticks of a millisecond).
const SOFT_RT_PAUSE: Span = Span::from_millis(4);

/// Queues that are created within this time of each other form a burst.
const BURST_INTERVAL: Span = Span::from_millis(180);
/// A burst of as many queues is large.
const LARGE_BURST: u32 = 8;
/// A queue that rests for longer has left its burst.
const BURST_OVER: Span = Span::from_secs(10);

/// The current burst of queue creations, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    last: Option<Time>,
    size: u32,
    large: bool,
}

impl Burst {
    /// A queue was created, beside `busy` others that have requests. Beside others no burst begins: its queues need
    /// protection from them.
    pub(super) fn join(&mut self, now: Time, procs: &mut Procs, record: u32, busy: bool) {
        if busy && self.size == 0 {
            return;
        }
        if self.last.replace(now).is_none_or(|last| now.since(last) > BURST_INTERVAL) {
            procs.numbers().for_each(|record| procs[record].in_burst = false);
            (self.large, self.size) = (false, u32::from(!busy));
            procs[record].in_burst = !busy;
        } else if self.large {
            procs[record].in_large_burst = true;
        } else {
            self.size += 1;
            procs[record].in_burst = true;
            if self.size == LARGE_BURST {
                self.large = true;
                procs.numbers().for_each(|record| {
                    procs[record].in_large_burst |= core::mem::take(&mut procs[record].in_burst);
                });
            }
        }
    }

    /// A process of the burst has exited.
    pub(super) fn leave(&mut self, procs: &mut Procs, record: u32) {
        if core::mem::take(&mut procs[record].in_burst) {
            self.size = self.size.saturating_sub(1);
        }
    }
}

/// What a queue that becomes busy shows of its process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs {
    /// It was idle for long.
    pub(super) interactive: bool,
    soft_rt: bool,
    in_burst: bool,
}

impl Bfq {
    /// The weight of a queue, including any raising.
    pub(super) fn weight(&self, record: u32) -> u64 {
        self.procs[record].weight * self.factor(record)
    }

    /// The factor by which the weight of a queue is raised.
    pub(super) fn factor(&self, record: u32) -> u64 {
        let factor = self.settings.unsigned(WR_COEFF);
        match self.procs[record].raise.why {
            Why::Not => 1,
            Why::Interactive => factor,
            Why::SoftRealTime => factor * SOFT_RT_FACTOR,
        }
    }

    /// How long an interactive process stays raised.
    pub(super) fn raise_time(&self) -> Span {
        match self.span(WR_MAX_TIME) {
            Span::ZERO => self.device.start_time(self.is_rotational()).clamp(START_TIMES.0, START_TIMES.1),
            time => time,
        }
    }

    /// A queue becomes busy: what its process seems to be.
    pub(super) fn signs(&mut self, now: Time, record: u32) -> Signs {
        let min_idle = self.span(WR_MIN_IDLE_TIME);
        let any_soft_rt = self.is_on(WR_MAX_SOFTRT_RATE);
        let it = &mut self.procs[record];
        let rested = |time: Span| it.budget_end.is_none_or(|since| now > since + time);
        let long_idle = it.dispatched == 0 && rested(min_idle);
        let in_burst = it.in_large_burst;
        let own_weight = it.weight != DEFAULT_WEIGHT;
        // Random requests are slow and regular, too.
        let regular = it.seeks != u32::MAX && now > it.soft_rt_from && it.dispatched == 0;
        let over = !it.new && long_idle && rested(BURST_OVER);
        if over {
            (it.in_burst, it.in_large_burst) = (false, false);
        }
        it.new = false;
        Signs {
            interactive: !in_burst && long_idle && !own_weight,
            soft_rt: any_soft_rt && regular && !in_burst && !own_weight,
            in_burst,
        }
    }

    /// A queue becomes busy: decides whether its weight is raised.
    pub(super) fn consider_raising(&mut self, now: Time, record: u32, signs: Signs) {
        if !self.is_on(LOW_LATENCY) {
            return;
        }
        let (long, short) = (self.raise_time(), self.span(WR_RT_MAX_TIME));
        let small = 2 * self.first_least_budget();
        let it = &mut self.procs[record];
        let raise = &mut it.raise;
        if raise.why == Why::Not {
            if !it.sync || !(signs.interactive || signs.soft_rt) {
                return;
            }
            if signs.interactive {
                (raise.why, raise.limit, raise.service) = (Why::Interactive, long, 0);
            } else {
                (raise.why, raise.limit, raise.interactive_since) = (Why::SoftRealTime, short, None);
            }
            it.budget = it.budget.min(small);
        } else if signs.interactive {
            (raise.why, raise.limit) = (Why::Interactive, long);
        } else if signs.in_burst {
            raise.why = Why::Not;
        } else if signs.soft_rt {
            if raise.why != Why::SoftRealTime {
                raise.interactive_since = Some(raise.since);
                (raise.why, raise.limit) = (Why::SoftRealTime, short);
            }
            raise.since = now;
        }
    }

    /// A request has arrived for a busy queue: asynchronous writes are raised after a pause.
    pub(super) fn consider_raising_async(&mut self, now: Time, record: u32) {
        let pause = self.span(WR_MIN_INTER_ARR_ASYNC);
        let it = &self.procs[record];
        if !it.sync && !it.is_raised() && self.is_on(LOW_LATENCY) && now > it.raise.since + pause {
            let limit = self.raise_time();
            let it = &mut self.procs[record];
            (it.raise.why, it.raise.limit) = (Why::Interactive, limit);
            self.busy.update(it);
        }
    }

    /// Ends the raising of a queue.
    pub(super) fn lower(&mut self, now: Time, record: u32) {
        let it = &mut self.procs[record];
        (it.raise.why, it.raise.limit, it.raise.since) = (Why::Not, Span::ZERO, now);
        self.busy.update(it);
    }

    /// Ends the raising for soft real time, or goes back to the interactive one that has not ended yet.
    pub(super) fn lower_soft_rt(&mut self, now: Time, record: u32) {
        let limit = self.raise_time();
        match self.procs[record].raise.interactive_since.filter(|&since| now <= since + limit) {
            Some(since) => {
                let raise = &mut self.procs[record].raise;
                (raise.why, raise.limit, raise.since) = (Why::Interactive, limit, since);
            }
            None => self.lower(now, record),
        }
    }

    /// A request of the queue in service has started: ends its raising when its time or its sectors are used up.
    pub(super) fn end_raising(&mut self, now: Time, record: u32) {
        let it = &self.procs[record];
        if !it.is_raised() {
            return;
        }
        if it.in_large_burst {
            self.lower(now, record);
        } else if now > it.raise.since + it.raise.limit {
            match it.raise.why {
                Why::SoftRealTime => self.lower_soft_rt(now, record),
                Why::Not | Why::Interactive => self.lower(now, record),
            }
        }
        let it = &self.procs[record];
        if it.raise.why == Why::Interactive && it.raise.service > MOST_INTERACTIVE {
            self.lower(now, record);
        }
        // The service as a whole counts with the lower weight.
        let weight = self.weight(record);
        self.service.reweigh(record, weight);
    }

    /// A queue has nothing queued or in the device any more. Its next request counts as soft real time if it
    /// arrives no sooner than at the highest rate for that class, and is not late merely because the device was
    /// slow. A fast stretch counts against a slow one that follows.
    pub(super) fn expect_soft_rt(&mut self, now: Time, record: u32) {
        let rate = self.settings.unsigned(WR_MAX_SOFTRT_RATE);
        let soonest = now + self.span(SLICE_IDLE) + SOFT_RT_PAUSE;
        let it = &mut self.procs[record];
        if let Some(paced) = (it.backlogged_service * 1_000_000_000).checked_div(rate) {
            let paced = it.backlogged_since + Span(paced);
            it.soft_rt_from = it.soft_rt_from.max(paced).max(soonest);
        }
    }

    /// A soft real-time queue begins its service: what it has waited for does not count as raised.
    pub(super) fn extend_soft_rt(&mut self, now: Time, record: u32) {
        let it = &mut self.procs[record];
        let rested = it.budget_end.filter(|&since| now > since);
        if let Some(since) = rested.filter(|_| it.raise.why == Why::SoftRealTime && now > it.raise.since) {
            let waited = now.since(since);
            it.raise.since = if since > it.raise.since { it.raise.since + waited } else { now };
        }
    }
}
