//! `limit`: a device with limited bandwidth and I/O rate and with added latency: a model of a slow disk.
//!
//! All lanes share one pipe. An I/O occupies it for its bytes at the bandwidth or for one period of the I/O
//! rate, whichever is longer. After the pipe the latency is added, to all I/Os in parallel (as in Linux'
//! dm-delay), and then the I/O completes, but not before the device below has completed it. Idle time of the
//! pipe is lost, except for up to `burst`, which can be caught up on: this is the generic cell rate algorithm
//! (ITU-T I.371) with that tolerance. `depth` limits the number of I/Os in the device at a time, including
//! those in their latency: a disk without a queue has `depth=1`. Without it I/Os go to the device below at once, which then
//! keeps the order of barriers. An I/O whose caller got `TimedOut` while the device below had it gives its place to others at once,
//! since the lane of that caller may not be run again; so while such an I/O is late, the device below can have more than `depth`.
//!
//! In real time a completion is always late: a timer wakes a thread about 50 µs after the set time. A
//! submitter that waits for each completion would lose that time with each I/O, 2 to 12 % of a usual rate. So
//! the pipe is credited with the lateness of completions, up to 10 ms: for each late completion one later I/O
//! is treated as if it had arrived that much earlier, and completes that much earlier. In virtual time no
//! completion is late, and the rate is exact.

use crate::LayerType;
use crate::filter::{BioView, CommandRule, Filter, Filtered, only};
use platter_block::backend::Backend;
use platter_block::fault::Fault;
use platter_block::params::{Param, Unit};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const MOST: i64 = 1 << 50;

/// Most lateness that is credited. Time lost because the program was not run for longer than this is not made
/// up for.
const MOST_CREDIT: Span = Span::from_millis(10);

/// Late completions that are recorded.
const MOST_LATES: usize = 1024;

pub(crate) const TYPE: LayerType = LayerType {
    name: "limit",
    summary: "limits bandwidth and I/O rate, adds latency",
    params: &[
        Param::number("bw", Unit::Bytes, 0, (0, MOST), "most bytes per second; 0: no limit"),
        Param::number("iops", Unit::Count, 0, (0, 1_000_000_000), "most I/Os per second; 0: no limit"),
        Param::number("latency", Unit::Micros, 0, (0, 3_600_000_000), "added to each I/O, in parallel"),
        Param::number("burst", Unit::Micros, 0, (0, 3_600_000_000), "idle time that it may catch up on"),
        Param::number(
            "depth",
            Unit::Requests,
            0,
            (0, 65_536),
            "most I/Os at a time, those in their latency included; 0: no limit",
        ),
    ],
    members: 1..=1,
    build: |values, below| {
        let number = |at: usize| values[at].unsigned_abs();
        Ok(new(
            only("limit", below)?,
            Rate {
                bandwidth: number(0),
                iops: number(1),
                latency: Span::from_micros(number(2)),
                burst: Span::from_micros(number(3)),
                depth: number(4) as u32,
            },
        ))
    },
};

/// Limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bytes per second; 0: no limit.
    pub bandwidth: u64,
    /// I/Os per second; 0: no limit.
    pub iops: u64,
    /// Latency added to each I/O after the pipe.
    pub latency: Span,
    /// Idle time that may be caught up on.
    pub burst: Span,
    /// Most I/Os at a time, those in their latency included; 0: no limit.
    pub depth: u32,
}

/// A device that all users together cannot drive faster than `rate`.
pub fn new(below: Arc<dyn Backend>, rate: Rate) -> Arc<dyn Backend> {
    let Rate { bandwidth, iops, latency, burst, depth } = rate;
    let params = [
        (bandwidth > 0).then(|| format!("bw={bandwidth}")),
        (iops > 0).then(|| format!("iops={iops}")),
        (latency > Span::ZERO).then(|| format!("latency={}us", latency.0 / 1000)),
        (burst > Span::ZERO).then(|| format!("burst={}us", burst.0 / 1000)),
        (depth > 0).then(|| format!("depth={depth}")),
    ];
    let params: Vec<String> = params.into_iter().flatten().collect();
    let pipe = Arc::new(Mutex::new(Pipe::default()));
    let throttle = Throttle { rate, pipe, refused: false, held: 0 };
    Arc::new(Filtered::new("limit", &params.join(", "), below, throttle))
}

/// What the lanes of a device share.
#[derive(Default)]
struct Pipe {
    /// When the pipe has passed all I/Os that it was given.
    free_at: Time,
    /// Lateness of completions that has not been credited to an I/O yet, oldest first.
    lates: VecDeque<Span>,
    /// Their sum, at most [`MOST_CREDIT`].
    credit: Span,
    running: u32,
    /// Lanes that found the depth used up.
    waiting: u32,
}

impl Pipe {
    /// Records the lateness of a completion, at most [`MOST_CREDIT`]. The oldest records are dropped to make
    /// room.
    fn add_late(&mut self, by: Span) {
        while self.lates.len() == MOST_LATES || self.credit.0 + by.0 > MOST_CREDIT.0 {
            self.take_late();
        }
        if by > Span::ZERO {
            self.lates.push_back(by);
            self.credit = Span(self.credit.0 + by.0);
        }
    }

    /// Lateness to credit to the next I/O.
    fn take_late(&mut self) -> Span {
        let late = self.lates.pop_front().unwrap_or(Span::ZERO);
        self.credit = Span(self.credit.0 - late.0);
        late
    }
}

impl Rate {
    /// Time in the pipe, rounded up to nanoseconds.
    fn cost(&self, bytes: u64) -> Span {
        let over = |amount: u64, rate: u64| match rate {
            0 => 0,
            _ => (u128::from(amount) * 1_000_000_000).div_ceil(u128::from(rate)),
        };
        let longest = over(bytes, self.bandwidth).max(over(1, self.iops));
        Span(u64::try_from(longest).unwrap_or(u64::MAX))
    }
}

/// The prototype has no bios, and so has a copy of it.
#[derive(Clone)]
struct Throttle {
    rate: Rate,
    pipe: Arc<Mutex<Pipe>>,
    /// The lane is counted in `Pipe::waiting`.
    refused: bool,
    /// Bios of this lane in flight.
    held: u32,
}

impl Throttle {
    fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filter for Throttle {
    fn commands(&self) -> CommandRule {
        CommandRule::All
    }

    /// Only a bound on the depth makes bios wait before they start.
    fn keeps_places(&self) -> bool {
        self.rate.depth == 0
    }

    fn admits(&mut self) -> bool {
        let mut pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let admits = self.rate.depth == 0 || pipe.running < self.rate.depth;
        match (admits, self.refused) {
            (true, true) => pipe.waiting -= 1,
            (false, false) => pipe.waiting += 1,
            _ => {}
        }
        self.refused = !admits;
        if admits {
            pipe.running += 1;
            self.held += 1;
        }
        admits
    }

    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        let bytes = if bio.op().has_data() { bio.len() } else { 0 };
        let (cost, rate) = (self.rate.cost(bytes), self.rate);
        let mut pipe = self.pipe();
        // Each I/O makes up for one completion: completions that were late together delayed as many I/Os by
        // the same time.
        let late = pipe.take_late();
        // Idle time counts only up to the lateness of a completion plus the burst.
        let catches_up = Span(late.0.saturating_add(rate.burst.0));
        let begin = pipe.free_at.max(Time(now.0.saturating_sub(catches_up.0)));
        pipe.free_at = begin + cost;
        let due = pipe.free_at + rate.latency;
        // Lateness that this I/O could not use stays recorded; lateness that a busy pipe did not need is
        // dropped.
        let behind = Span(now.since(due).0.saturating_sub(rate.burst.0)).min(late);
        if behind > Span::ZERO {
            pipe.lates.push_front(behind);
            pipe.credit = Span(pipe.credit.0 + behind.0);
        }
        Ok(due)
    }

    fn late(&mut self, by: Span) {
        self.pipe().add_late(by.min(MOST_CREDIT));
    }

    fn release(&mut self) -> bool {
        self.held -= 1;
        let mut pipe = self.pipe();
        pipe.running -= 1;
        pipe.waiting > u32::from(self.refused)
    }
}

impl Drop for Throttle {
    /// Bios that the lane still has complete below without it.
    fn drop(&mut self) {
        let mut pipe = self.pipe();
        pipe.running -= self.held;
        pipe.waiting -= u32::from(self.refused);
    }
}
