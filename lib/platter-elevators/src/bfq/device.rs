//! Observed properties of the device: its rate, whether it queues, whether its head has to move.
//!
//! Source of the estimation of the rate, its constants and its filter: `bfq_update_peak_rate` and
//! `bfq_update_rate_reset` of Linux.

use super::record::is_seek;
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
/// A completion that comes later than the largest recent request takes at this rate ends a measurement: a million sectors
/// per second.
const LOWEST_RATE: u64 = 1 << (RATE_SHIFT - 10);

/// Fractional bits of rates, which are in sectors per microsecond.
pub(super) const RATE_SHIFT: u32 = 16;
/// Reference rates of disks that rotate and of disks that do not, and how long a large program takes to start on
/// them.
const REFERENCE: [(u64, Span); 2] = [(14_000, Span::from_millis(7000)), (33_000, Span::from_millis(2500))];

/// A device queues if it was seen with more requests than this
const QUEUEING: u32 = 3;
/// in this many completions and one more, with more requests available.
const QUEUE_SAMPLES: u32 = 32;

/// If reads after a seek take less than this on average, the device has no moving head.
const FAST_SEEK: Span = Span::from_millis(1);
/// Number of seeks needed to say so.
const SEEKS: u32 = 16;

/// Requests dispatched since the measurement began.
#[derive(Clone, Copy, Debug, Default)]
struct Observed {
    since: Time,
    /// Until the last dispatch.
    time: Span,
    requests: u64,
    sectors: u64,
    /// Requests that followed the one before.
    sequential: u64,
}

/// What is known of the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Device {
    /// The highest rate, once it is known.
    rate: Option<u64>,
    observed: Observed,
    last_start: Time,
    last_end: u64,
    pub(super) last_done: Time,
    /// Size of the largest of about the last 32 requests.
    largest: u64,
    /// The most requests that it had at once, in the current sample.
    pub(super) most_in_driver: u32,
    queue_samples: u32,
    queues: Option<bool>,
    seeks: u32,
    /// Mean time of a seek and a read: 7/8 of the old mean and 1/8 of the new sample.
    seek_time: u64,
}

/// The rate until one was measured: two thirds of the reference.
fn first_rate(rotational: bool) -> u64 {
    REFERENCE[usize::from(!rotational)].0 * 2 / 3
}

impl Device {
    /// Whether the device takes several requests at once, once that is known.
    pub(super) fn queues(&self) -> Option<bool> {
        self.queues
    }

    /// Whether seeks take too little time to be worth avoiding.
    pub(super) fn seeks_fast(&self) -> bool {
        self.seeks >= SEEKS && self.seek_time < FAST_SEEK.0
    }

    /// How long it takes to start a large program.
    pub(super) fn start_time(&self, rotational: bool) -> Span {
        let (reference, time) = REFERENCE[usize::from(!rotational)];
        let rate = self.rate.unwrap_or(first_rate(rotational));
        Span(time.0 / 1000 * reference / rate * 1000)
    }

    /// Sectors that the device transfers in `time` at its peak rate, if that was measured.
    pub(super) fn sectors_in(&self, time: Span) -> Option<u64> {
        self.rate.map(|rate| rate.saturating_mul(time.0 / 1000) >> RATE_SHIFT)
    }

    /// A request goes to the device, which has `in_driver` others.
    #[inline]
    pub(super) fn started(&mut self, now: Time, pos: u64, sectors: u64, in_driver: u32, rotational: bool) {
        if self.observed.requests == 0 {
            self.begin(now, sectors);
        } else if in_driver == 0 && now.since(self.last_start) > PAUSE {
            self.measure(rotational);
            self.begin(now, sectors);
        } else {
            let busy = in_driver > 0 || now.since(self.last_done) < SOON;
            let sequential = busy && !is_seek(self.last_end, pos, sectors, rotational);
            let seen = &mut self.observed;
            seen.requests += 1;
            seen.sequential += u64::from(sequential);
            seen.sectors += sectors;
            seen.time = now.since(seen.since);
            let renew = seen.requests.is_multiple_of(32);
            self.largest = if renew { sectors } else { sectors.max(self.largest) };
            if self.observed.time >= INTERVAL {
                self.measure(rotational);
                self.begin(now, sectors);
            }
        }
        self.last_end = pos + sectors * 512;
        self.last_start = now;
    }

    /// A measurement begins with this request.
    fn begin(&mut self, now: Time, sectors: u64) {
        self.observed = Observed { since: now, requests: 1, sectors, ..Observed::default() };
        self.largest = sectors;
    }

    /// A request has completed. `seek`: the duration of a read that found the device empty and its head elsewhere.
    #[inline]
    pub(super) fn completed(&mut self, now: Time, seek: Option<Span>, rotational: bool) {
        let micros = now.since(self.last_done).0 / 1000;
        if micros > SOON.0 / 1000 && (self.largest << RATE_SHIFT) / micros < LOWEST_RATE {
            self.measure(rotational);
            self.observed.requests = 0;
        }
        self.last_done = now;
        if let Some(time) = seek {
            self.seeks = self.seeks.saturating_add(1);
            self.seek_time = if self.seeks == 1 { time.0 } else { (7 * self.seek_time + time.0) / 8 };
        }
    }

    /// Looks at the number of requests in the device, before one of them completes. `few`: the queue in service is the
    /// reason if there are few.
    pub(super) fn look_at_queue(&mut self, in_driver: u32, waiting: usize, few: bool) {
        self.most_in_driver = self.most_in_driver.max(in_driver);
        let enough = in_driver as usize + waiting > QUEUEING as usize;
        if self.queues == Some(true) || !enough || few && in_driver < QUEUEING {
            return;
        }
        if self.queue_samples < QUEUE_SAMPLES {
            self.queue_samples += 1;
            return;
        }
        self.queues = Some(self.most_in_driver > QUEUEING);
        (self.most_in_driver, self.queue_samples) = (0, 0);
    }

    /// Adds the observed rate to the estimate: the more of it was sequential and the longer it lasted, the more it
    /// weighs. If less than three quarters of the requests were sequential, it can only raise the estimate.
    #[cold]
    fn measure(&mut self, rotational: bool) {
        let seen = &self.observed;
        if seen.requests < LEAST_SAMPLES || seen.time < LEAST_INTERVAL {
            return;
        }
        let time = seen.time.0.max(self.last_done.since(seen.since).0);
        let new = (seen.sectors << RATE_SHIFT) / (time / 1000).max(1);
        let old = self.rate.unwrap_or(first_rate(rotational));
        if seen.sequential < 3 * seen.requests / 4 && new <= old || new > HIGHEST_RATE {
            return;
        }
        let weight = (9 * seen.sequential / seen.requests * time / INTERVAL.0).min(8);
        let divisor = 10 - weight;
        self.rate = Some((old * (divisor - 1) / divisor + new / divisor).max(1));
    }
}
