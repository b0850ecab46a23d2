//! One bus: the transfer on it, the transfers that wait for it, and its idle times.

use super::BusParams;
use platter_block::time::{Span, Time};
use std::collections::VecDeque;

/// Idle times that are recorded.
const GAPS: usize = 64;

/// A burst on the bus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    pub(super) transfer: u32,
    /// Number of the bus on the transfer's way.
    pub(super) hop: usize,
    pub(super) bytes: u64,
    pub(super) end: Time,
}

#[derive(Debug)]
pub(super) struct Wire {
    pub(super) name: String,
    pub(super) params: BusParams,
    pub(super) disks: u32,
    pub(super) now: Option<Burst>,
    /// Transfers with a ready burst, in the order in which they became ready.
    pub(super) queue: VecDeque<(u32, usize)>,
    /// The command that occupies an exclusive bus (disk and tag), and those that wait for it.
    pub(super) holder: Option<(u32, u32)>,
    pub(super) claims: VecDeque<(u32, u32)>,
    idle_since: Time,
    /// Idle times before that, rising.
    gaps: VecDeque<(Time, Time)>,
}

impl Wire {
    pub(super) fn new(name: String, params: BusParams) -> Wire {
        Wire {
            name,
            params,
            disks: 0,
            now: None,
            queue: VecDeque::new(),
            holder: None,
            claims: VecDeque::new(),
            idle_since: Time(0),
            gaps: VecDeque::new(),
        }
    }

    /// Time to move bytes, rounded up.
    pub(super) fn time_of(&self, bytes: u64) -> Span {
        Span((u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.params.rate)) as u64)
    }

    pub(super) fn begin(&mut self, now: Time, burst: Burst) {
        self.close_gap(now);
        self.now = Some(burst);
    }

    pub(super) fn end(&mut self, now: Time) {
        self.now = None;
        self.idle_since = now;
    }

    fn close_gap(&mut self, now: Time) {
        if self.now.is_none() && self.idle_since < now {
            if self.gaps.len() == GAPS {
                self.gaps.pop_front();
            }
            self.gaps.push_back((self.idle_since, now));
            self.idle_since = now;
        }
    }

    /// Bytes that could have been moved, in bursts, in the idle time between `from` and `now`.
    pub(super) fn idle_bytes(&mut self, from: Time, now: Time) -> u64 {
        self.close_gap(now);
        let idle: u64 = self.gaps.iter().map(|gap| gap.1.since(gap.0.max(from)).0).sum();
        let burst = u64::from(self.params.burst);
        let each = self.time_of(burst).0 + self.params.arbitration.0;
        (u128::from(idle) * u128::from(burst) / u128::from(each.max(1))) as u64
    }

    /// Uses up the idle time for this many bytes, earliest first: reads that end later can use later idle
    /// time.
    pub(super) fn use_idle(&mut self, from: Time, bytes: u64) {
        let burst = u64::from(self.params.burst);
        let each = self.time_of(burst).0 + self.params.arbitration.0;
        let mut left = (u128::from(bytes) * u128::from(each)).div_ceil(u128::from(burst)) as u64;
        let mut kept = VecDeque::with_capacity(GAPS);
        for (start, end) in self.gaps.drain(..) {
            let usable = start.max(from);
            let taken = end.since(usable).0.min(left);
            left -= taken;
            for part in [(start, usable.min(end)), (Time(usable.0 + taken), end)] {
                if part.0 < part.1 {
                    kept.push_back(part);
                }
            }
        }
        while kept.len() > GAPS {
            kept.pop_front();
        }
        self.gaps = kept;
    }
}
