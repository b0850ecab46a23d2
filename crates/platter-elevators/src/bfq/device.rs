//! Observed properties of the device: its rate, whether it queues, whether its head has to move.
//!
//! Source of the estimation of the rate, its constants and its filter: BFQ in Linux 4.12 and later.

use super::procs::SEEK_SECTORS;
use platter_block::time::{Span, Time};

/// A rate is measured over at least this time.
const INTERVAL: Span = Span::from_secs(1);
/// A measurement that ends early needs at least this time,
const LEAST_INTERVAL: Span = Span::from_millis(300);
/// and at least this many requests.
const LEAST_SAMPLES: u64 = 32;
/// A pause as long as this ends a measurement.
const PAUSE: Span = Span::from_millis(100);
/// A request that arrives within this time after the last completion finds the device practically busy.
const SOON: Span = Span::from_millis(2);
/// Higher rates are taken as errors.
const HIGHEST_RATE: u64 = 20 << RATE_SHIFT;

/// Fractional bits of rates, which are in sectors per microsecond.
pub(super) const RATE_SHIFT: u32 = 16;
/// Reference rates of disks that rotate and of disks that do not, and how long a large program takes to start on
/// them.
const REFERENCE: [(u64, Span); 2] = [(14_000, Span::from_millis(7000)), (33_000, Span::from_millis(2500))];

/// A device queues if it was seen with more requests than this
const QUEUEING: u32 = 3;
/// in this many dispatches for which as many requests were available.
const QUEUE_SAMPLES: u32 = 32;

/// If reads after a seek take less than this on average, the device has no moving head.
const FAST_SEEK: Span = Span::from_millis(1);
/// Number of seeks needed to say so.
const SEEKS: u32 = 16;

/// Requests dispatched since the measurement began.
#[derive(Clone, Copy, Debug, Default)]
struct Observed {
    since: Time,
    requests: u64,
    sectors: u64,
    /// Requests that followed the one before, their sectors, and how long they kept the device busy.
    sequential: u64,
    sequential_sectors: u64,
    sequential_time: u64,
}

/// The last request dispatched.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    time: Time,
    end: u64,
    sectors: u64,
    sequential: bool,
}

/// What is known of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    rate: u64,
    observed: Observed,
    last: Last,
    last_done: Option<Time>,
    most_in_driver: u32,
    queue_samples: u32,
    queues: bool,
    seeks: u32,
    /// Mean time of a seek and a read: 7/8 of the old mean and 1/8 of the new sample.
    seek_time: u64,
}

impl Default for Device {
    fn default() -> Device {
        Device {
            rate: REFERENCE[0].0 * 2 / 3,
            observed: Observed::default(),
            last: Last::default(),
            last_done: None,
            most_in_driver: 0,
            queue_samples: 0,
            queues: false,
            seeks: 0,
            seek_time: 0,
        }
    }
}

impl Device {
    /// Whether the device takes several requests at once.
    pub(super) fn queues(&self) -> bool {
        self.queues
    }

    /// Whether seeks take too little time to be worth avoiding.
    pub(super) fn seeks_fast(&self) -> bool {
        self.seeks >= SEEKS && self.seek_time < FAST_SEEK.0
    }

    /// How long it takes to start a large program.
    pub(super) fn start_time(&self, rotational: bool) -> Span {
        let (rate, time) = REFERENCE[usize::from(!rotational)];
        Span(time.0 / 1000 * rate / self.rate * 1000)
    }

    /// Sectors that the device transfers in `time` at its peak rate.
    pub(super) fn sectors_in(&self, time: Span) -> u64 {
        self.rate.saturating_mul(time.0 / 1000) >> RATE_SHIFT
    }

    /// A request goes to the device, which has `in_driver` others; `waiting` more are queued.
    #[inline]
    pub(super) fn started(&mut self, now: Time, pos: u64, sectors: u64, in_driver: u32, waiting: usize) {
        if in_driver as usize + waiting >= QUEUEING as usize {
            self.look_at_queue(in_driver + 1);
        }
        let (idle, pause) = (in_driver == 0, now.since(self.last.time));
        let over = idle && pause > PAUSE || now.since(self.observed.since) >= INTERVAL;
        let done = self.last_done.filter(|_| idle).unwrap_or(now);
        if self.last.sequential {
            self.observed.sequential_sectors += self.last.sectors;
            self.observed.sequential_time += done.since(self.last.time).0;
        }
        if over || self.observed.requests == 0 {
            self.measure(done.max(self.last.time));
            self.observed = Observed { since: now, ..Observed::default() };
        }
        let busy = !idle || self.last_done.is_some_and(|done| now.since(done) < SOON);
        let sequential = busy && !over && pos.abs_diff(self.last.end) < SEEK_SECTORS * 512;
        self.observed.requests += 1;
        self.observed.sectors += sectors;
        self.observed.sequential += u64::from(sequential);
        self.last = Last { time: now, end: pos + sectors * 512, sectors, sequential };
    }

    /// A request has completed. `seek`: the duration of a read that found the device empty and its head elsewhere.
    #[inline]
    pub(super) fn completed(&mut self, now: Time, seek: Option<Span>) {
        self.last_done = Some(now);
        if let Some(time) = seek {
            self.seeks = self.seeks.saturating_add(1);
            self.seek_time = if self.seeks == 1 { time.0 } else { (7 * self.seek_time + time.0) / 8 };
        }
    }

    fn look_at_queue(&mut self, in_driver: u32) {
        self.most_in_driver = self.most_in_driver.max(in_driver);
        self.queue_samples += 1;
        if self.queue_samples >= QUEUE_SAMPLES {
            self.queues = self.most_in_driver > QUEUEING;
            (self.most_in_driver, self.queue_samples) = (0, 0);
        }
    }

    /// Adds the observed rate to the estimate: the more of it was sequential and the longer it lasted, the more it
    /// weighs. Non-sequential requests can only raise the estimate.
    #[cold]
    fn measure(&mut self, until: Time) {
        let seen = &self.observed;
        let time = until.since(seen.since);
        if seen.requests < LEAST_SAMPLES || time < LEAST_INTERVAL {
            return;
        }
        let rate = |sectors: u64, nanos: u64| (sectors << RATE_SHIFT) / (nanos / 1000).max(1);
        let mut rate_seen = rate(seen.sectors, time.0);
        if seen.sequential >= LEAST_SAMPLES {
            rate_seen = rate_seen.max(rate(seen.sequential_sectors, seen.sequential_time));
        } else if rate_seen <= self.rate {
            return;
        }
        if rate_seen > HIGHEST_RATE {
            return;
        }
        let weight = (9 * seen.sequential / seen.requests).min(8) * seen.sequential_time / INTERVAL.0;
        let divisor = 10 - weight.min(8);
        self.rate = (self.rate * (divisor - 1) / divisor + rate_seen / divisor).max(1);
    }
}
