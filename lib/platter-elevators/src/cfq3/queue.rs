//! The record of a queue: the synchronous requests of a process, or the asynchronous requests of a priority.

use platter_block::bio::{Class, IoPrio};
use platter_block::elevator::{RequestId, RequestInfo};
use platter_block::time::{Span, Time};

/// Class and level of a priority. No priority means level 4 of best effort; the idle class has no level.
pub(super) fn class_and_level(ioprio: IoPrio) -> (Class, u8) {
    match ioprio.class() {
        Class::None => (Class::BestEffort, 4),
        Class::Idle => (Class::Idle, 7),
        class => (class, ioprio.level()),
    }
}

/// A decaying mean: each sample counts an eighth. Fixed point, 256 is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mean {
    samples: u64,
    total: u64,
    pub(super) mean: u64,
}

/// Sample weight above which a mean is used: from the third sample on.
const BELIEVED: u64 = 80;

impl Mean {
    pub(super) fn add(&mut self, sample: u64) {
        self.samples = (7 * self.samples + 256) / 8;
        self.total = (7 * self.total + 256 * sample) / 8;
        self.mean = (self.total + 128) / self.samples;
    }

    /// Adds a distance in sectors, limited so that one long seek does not count as many short ones.
    pub(super) fn add_seek(&mut self, sectors: u64) {
        let cut = if self.samples <= 60 { 2 << 20 } else { 128 << 10 };
        self.add(sectors.min(4 * self.mean + cut));
    }

    pub(super) fn is_believed(&self) -> bool {
        self.samples > BELIEVED
    }
}

/// A mean distance above this many sectors (64 MiB) is seeky.
const SEEKY: u64 = 128 << 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) sync: bool,
    pub(super) class: Class,
    pub(super) level: u8,
    /// It has never had a slice.
    pub(super) new: bool,
    /// The record is assigned to its process, which has not exited.
    pub(super) alive: bool,
    /// Whether to wait for its next request.
    pub(super) idle_window: bool,
    /// The disk waited for it, and it has not been served since.
    pub(super) waited: bool,
    /// It may send a round even after the end of its slice.
    pub(super) must_dispatch: bool,
    /// The oldest request has been checked in this slice.
    pub(super) fifo_checked: bool,
    pub(super) queued: u32,
    /// Requests that were chosen and have not completed.
    pub(super) in_flight: u32,
    /// Requests queued or in flight, per direction.
    pub(super) allocated: [u32; 2],
    /// The request to choose next.
    pub(super) next: Option<RequestId>,
    pub(super) slice_end: Option<Time>,
    /// Unused part of the last slice.
    pub(super) slice_left: Span,
    /// Its key in the tree.
    pub(super) in_tree: Option<(u64, RequestId)>,
    last_completion: Option<Time>,
    last_end: Option<u64>,
    /// Think time in microseconds; kernels counted ticks.
    think: Mean,
    seek: Mean,
}

impl Default for Queue {
    fn default() -> Self {
        Queue {
            sync: true,
            class: Class::BestEffort,
            level: 4,
            new: true,
            alive: false,
            idle_window: true,
            waited: false,
            must_dispatch: false,
            fifo_checked: false,
            queued: 0,
            in_flight: 0,
            allocated: [0; 2],
            next: None,
            slice_end: None,
            slice_left: Span::ZERO,
            in_tree: None,
            last_completion: None,
            last_end: None,
            think: Mean::default(),
            seek: Mean::default(),
        }
    }
}

impl Queue {
    #[inline]
    pub(super) fn is_idle_class(&self) -> bool {
        self.class == Class::Idle
    }

    /// Outstanding requests, during which the process is not thinking.
    #[inline]
    fn outstanding(&self) -> u32 {
        self.queued + self.in_flight
    }

    /// Called for the first request of a process, or the first after the exit of another process with its
    /// number.
    pub(super) fn begin(&mut self, sync: bool) {
        self.alive = true;
        self.new = true;
        if self.outstanding() == 0 {
            self.sync = sync;
        }
        self.idle_window = !self.is_idle_class();
        self.last_completion = None;
        self.last_end = None;
        self.think = Mean::default();
        self.seek = Mean::default();
    }

    /// Updates think time and seek distance from a synchronous request, before it is counted, and decides
    /// from them whether to wait for the process.
    pub(super) fn learn(&mut self, now: Time, info: &RequestInfo, slice_idle: Span, device_queues: bool) {
        if let Some(last) = self.last_end {
            let since = self.last_completion.filter(|_| self.outstanding() == 0);
            let think =
                since.map_or(Span::ZERO, |then| now.since(then)).0.min(slice_idle.0.saturating_mul(2));
            self.think.add(think / 1000);
            self.seek.add_seek(last.abs_diff(info.pos) / 512);
        }
        self.last_end = Some(info.end());
        if self.is_idle_class() || slice_idle == Span::ZERO || (device_queues && self.is_seeky()) {
            self.idle_window = false;
        } else if self.think.is_believed() {
            self.idle_window = self.think.mean <= slice_idle.0 / 1000;
        }
    }

    #[inline]
    pub(super) fn completed(&mut self, now: Time) {
        self.in_flight -= 1;
        self.last_completion = Some(now);
    }

    #[inline]
    fn is_seeky(&self) -> bool {
        self.seek.mean > SEEKY
    }

    /// The same, once there are enough samples.
    #[inline]
    pub(super) fn is_known_to_be_seeky(&self) -> bool {
        self.seek.is_believed() && self.is_seeky()
    }

    /// Whether the slice is over and the queue has nothing left that it may send.
    #[inline]
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.slice_end.is_some_and(|end| now > end) && !self.must_dispatch
    }
}
