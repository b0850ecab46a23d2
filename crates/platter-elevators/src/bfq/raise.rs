//! Weight raising: queues that a user may be waiting for get a larger share for a while.

use super::Bfq;
use super::params::{
    LOW_LATENCY, SLICE_IDLE, WR_COEFF, WR_MAX_SOFTRT_RATE, WR_MAX_TIME, WR_MIN_IDLE_TIME,
    WR_MIN_INTER_ARR_ASYNC, WR_RT_MAX_TIME,
};
use super::procs::{Procs, Raise, Why};
use platter_block::time::{Span, Time};

/// Factor by which soft real time is raised more than interactive.
const SOFT_RT_FACTOR: u64 = 100;
/// Sectors after which a queue no longer counts as interactive.
const MOST_INTERACTIVE: u64 = 120_000;
/// Bounds of how long a program takes to start.
const START_TIMES: (Span, Span) = (Span::from_millis(3000), Span::from_millis(25_000));

/// Queues that are created within this time of each other form a burst.
const BURST_INTERVAL: Span = Span::from_millis(180);
/// A burst of more queues than this is large.
const LARGE_BURST: u32 = 8;

/// The current burst of queue creations, if there is one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Burst {
    last: Option<Time>,
    number: u32,
    size: u32,
    large: bool,
}

impl Burst {
    /// A queue was created.
    pub(super) fn join(&mut self, now: Time, procs: &mut Procs, record: u32) {
        let goes_on = self.last.replace(now).is_some_and(|last| now.since(last) < BURST_INTERVAL);
        if !goes_on {
            *self = Burst { last: Some(now), number: self.number.wrapping_add(1), size: 0, large: false };
        }
        self.size += 1;
        procs[record].burst = self.number;
        procs[record].in_large_burst = self.large;
        if !self.large && self.size > LARGE_BURST {
            self.large = true;
            for record in procs.numbers() {
                procs[record].in_large_burst |= procs[record].burst == self.number;
            }
        }
    }
}

impl Bfq {
    /// The weight of a queue, including any raising.
    pub(super) fn weight(&self, record: u32) -> u64 {
        let it = &self.procs[record];
        let coeff = self.settings.unsigned(WR_COEFF);
        match it.raise.why {
            Why::Not => it.weight,
            Why::Interactive | Why::Async => it.weight * coeff,
            Why::SoftRealTime => it.weight * coeff * SOFT_RT_FACTOR,
        }
    }

    /// How long an interactive process stays raised.
    pub(super) fn raise_time(&self) -> Span {
        match self.span(WR_MAX_TIME) {
            Span::ZERO => self.device.start_time(self.is_rotational()).clamp(START_TIMES.0, START_TIMES.1),
            time => time,
        }
    }

    fn raise(&mut self, now: Time, record: u32, why: Why, limit: Span) {
        self.procs[record].raise = Raise { why, since: Some(now), limit, service: 0 };
    }

    /// When a queue becomes backlogged: decides whether its weight is raised.
    pub(super) fn consider_raising(&mut self, now: Time, record: u32) {
        self.end_raising(now, record);
        let it = &self.procs[record];
        if !self.is_on(LOW_LATENCY) || !it.sync {
            return;
        }
        let rested = it.idle_since.is_none_or(|since| now.since(since) >= self.span(WR_MIN_IDLE_TIME));
        let in_burst = it.in_large_burst && (it.idle_since.is_none() || !rested);
        let moderate = self.is_on(WR_MAX_SOFTRT_RATE)
            && it.idle_since.is_some()
            && it.dispatched == 0
            && now >= it.soft_rt_from;
        let was_soft = it.raise.why == Why::SoftRealTime;
        self.procs[record].in_large_burst = in_burst;
        if in_burst {
            self.procs[record].raise.why = Why::Not;
        } else if rested {
            let limit = self.raise_time();
            self.raise(now, record, Why::Interactive, limit);
        } else if moderate && (was_soft || !self.procs[record].is_raised()) {
            let limit = self.span(WR_RT_MAX_TIME);
            self.raise(now, record, Why::SoftRealTime, limit);
        }
    }

    /// A request has arrived for a queue that was backlogged already: asynchronous writes are raised from time to
    /// time.
    pub(super) fn consider_raising_async(&mut self, now: Time, record: u32) {
        let it = &self.procs[record];
        let again = self.span(WR_MIN_INTER_ARR_ASYNC);
        let due = it.raise.since.is_none_or(|since| now.since(since) > again);
        if !it.sync && !it.is_raised() && due && self.is_on(LOW_LATENCY) {
            let limit = self.raise_time();
            self.raise(now, record, Why::Async, limit);
        }
    }

    /// Ends the raising of a queue when its time or its sectors are used up.
    pub(super) fn end_raising(&mut self, now: Time, record: u32) {
        let it = &self.procs[record];
        if !it.is_raised() {
            return;
        }
        let over = it.raise.since.is_none_or(|since| now.since(since) > it.raise.limit);
        let served = it.raise.why == Why::Interactive && it.raise.service > MOST_INTERACTIVE;
        if over || served || it.in_large_burst || !self.is_on(LOW_LATENCY) {
            self.raise(now, record, Why::Not, Span::ZERO);
        }
    }

    /// A queue has nothing queued or in the device any more. Its next request counts as soft real time if it
    /// arrives no sooner than at the highest rate for that class, and is not late merely because the device was
    /// slow.
    pub(super) fn expect_soft_rt(&mut self, now: Time, record: u32) {
        let rate = self.settings.unsigned(WR_MAX_SOFTRT_RATE);
        let soonest = now + self.span(SLICE_IDLE) + Span::from_millis(4);
        let it = &mut self.procs[record];
        if let Some(paced) = (it.backlogged_service * 1_000_000_000).checked_div(rate) {
            it.soft_rt_from = (it.backlogged_since + Span(paced)).max(soonest);
        }
    }
}
