//! Requests that the driver has had for too long, and devices that have failed.
//!
//! A request that has started ends when the driver returns it, however long that takes. When its time with the driver is
//! over, the driver is asked once to abort it. If it is not back when its grace is over as well, the queue is
//! [silent](Queue::is_silent) until the driver has returned everything. The owner of the device then counts it as failed,
//! in all its queues ([`Queue::set_failed`]).
//!
//! One timer serves all requests, so that a start costs a comparison. It may be early, because the request that set it may be
//! back; when it is due, the queue looks at all requests that the driver has.

use super::{Queue, Store};
use crate::bio::{Flags, Op};
use crate::driver::Completion;
use crate::fault::{Fault, Kind};
use crate::queue::Settings;
use crate::queue::pause::{ENODEV, ETIMEDOUT, NEVER, fault_of, queue_fault};
use crate::request::Marks;
use crate::time::{Span, Time};
use alloc::vec::Vec;

/// The fault of what has not started on a device that has failed.
pub(in crate::queue) const GONE: Fault = queue_fault(Kind::Gone);

/// A request whose time with the driver is over.
struct Overdue {
    tag: u32,
    /// When its grace is over.
    until: Time,
}

/// The timer of the requests that the driver has, and those whose time is over.
pub(in crate::queue) struct Silence {
    /// The timer. No request becomes overdue, and no grace ends, before it.
    due: Time,
    overdue: Vec<Overdue>,
    /// Those that the driver has not been asked to abort yet.
    to_ask: Vec<u32>,
    silent: bool,
    /// Requests that the driver had when the device failed, and still has.
    failed: u32,
}

impl Silence {
    pub(in crate::queue) const NONE: Silence =
        Silence { due: NEVER, overdue: Vec::new(), to_ask: Vec::new(), silent: false, failed: 0 };

    /// Whether completions must be looked at.
    pub(in crate::queue) fn is_watched(&self) -> bool {
        self.silent || !self.overdue.is_empty() || self.failed > 0
    }
}

impl Settings {
    /// Whether the time with the driver is limited for any request.
    pub(in crate::queue) fn limit_time(&self) -> bool {
        self.timeout.is_some() || self.slow_timeout.is_some()
    }

    /// How long the driver may have a request for an operation.
    fn limit_of(&self, op: Op) -> Option<Span> {
        match op {
            Op::Read | Op::Write => self.timeout,
            Op::Flush | Op::Discard | Op::WriteZeroes | Op::Command => self.slow_timeout,
        }
    }
}

impl<S: Store> Queue<S> {
    /// A request has started: sets the timer if its time is limited.
    #[cold]
    pub(in crate::queue) fn watch_start(&mut self, now: Time, op: Op) {
        let Some(limit) = self.settings.limit_of(op) else { return };
        self.silence.due = self.silence.due.min(now + limit);
        self.arm(self.silence.due);
    }

    /// When the timer is due; the timer of an empty queue belongs to a request that is back.
    #[inline]
    pub(in crate::queue) fn silence_timer(&self) -> Time {
        if self.in_flight > 0 { self.silence.due } else { NEVER }
    }

    /// Looks for requests whose time or grace is over if the timer is due.
    pub(in crate::queue) fn run_silence_timer(&mut self, now: Time) {
        if self.in_flight == 0 {
            self.silence.due = NEVER;
        } else if self.silence.due <= now {
            self.look_for_overdue(now);
            self.note_attention();
        }
    }

    #[cold]
    fn look_for_overdue(&mut self, now: Time) {
        let mut next = NEVER;
        for tag in self.store.tags() {
            let (op, started) = self.store.started_at(tag);
            let Some(limit) = self.settings.limit_of(op) else { continue };
            if self.store.marks(tag).contains(Marks::OVERDUE) {
                continue;
            }
            match started + limit {
                at if at > now => next = next.min(at),
                _ => self.is_overdue(tag, now + self.settings.abort_grace.unwrap_or(limit)),
            }
        }
        for overdue in &self.silence.overdue {
            match overdue.until > now {
                true => next = next.min(overdue.until),
                false => self.silence.silent = true,
            }
        }
        self.silence.due = next;
    }

    /// The time of a request is over: it is not retried, and the driver is to be asked to abort it, unless what the device
    /// has behind an ordered tag relies on its place.
    fn is_overdue(&mut self, tag: u32, until: Time) {
        let mut is_tagged = false;
        self.store.visit(tag, |bio| is_tagged |= bio.flags().contains(Flags::TAGGED));
        self.store.marks(tag).add(Marks::OVERDUE);
        self.silence.overdue.push(Overdue { tag, until });
        if is_tagged {
            return;
        }
        self.store.visit(tag, |bio| bio.add_flags(Flags::LAST));
        self.store.marks(tag).add(Marks::ASKED);
        self.silence.to_ask.push(tag);
        self.counters.aborts.add(1);
    }

    /// The tag of a request whose time is over and that was not returned by this call before: the driver is asked to abort
    /// it, see [`Driver::given_up`](crate::driver::Driver::given_up).
    pub fn next_overdue(&mut self) -> Option<u32> {
        self.silence.to_ask.pop()
    }

    /// Whether the driver has not returned a request although the time and the grace of it were over. It stays so until the
    /// driver has returned everything.
    #[inline]
    pub fn is_silent(&self) -> bool {
        self.silence.silent
    }

    /// The driver has returned a request with these marks, which is not counted as in flight any more. Returns the result that
    /// counts: an error that passes is not one of the device, nor is that of a request of `several` bios one of each, and what is
    /// not retried because its time is over, or because the device has failed, ends with that.
    ///
    /// Example: reads of a good and of a bad sector share a request that ends with `EIO`. They would be retried one by one, and the first
    /// would succeed. If the request is overdue they are not, and `EIO` would be wrong for the first.
    pub(in crate::queue) fn take_back(&mut self, tag: u32, marks: Marks, several: bool, result: i64) -> i64 {
        self.silence.silent &= self.in_flight > 0;
        if marks.contains(Marks::OVERDUE) {
            self.silence.overdue.retain(|overdue| overdue.tag != tag);
            self.silence.to_ask.retain(|&other| other != tag);
        }
        self.silence.failed -= u32::from(marks.contains(Marks::FAILED));
        let passes = || several || result == Completion::ABORTED || fault_of(Op::Read, result).is_transient();
        match marks {
            _ if result >= 0 || !passes() => result,
            asked if asked.contains(Marks::ASKED) => ETIMEDOUT,
            // Also if the device works again by now: the request has lost its retries.
            failed if failed.contains(Marks::FAILED) => ENODEV,
            _ => result,
        }
    }

    /// Sets whether the device has failed. While it has, everything that has not started ends with [`Kind::Gone`], and so does
    /// every new bio. What the driver has ends when the driver returns it, and is not retried.
    pub fn set_failed(&mut self, now: Time, failed: bool) {
        if failed == self.failed {
            return;
        }
        self.failed = failed;
        if failed {
            self.flag_started(Flags::LAST);
            for tag in self.store.tags() {
                self.silence.failed += u32::from(!self.store.marks(tag).contains(Marks::FAILED));
                self.store.marks(tag).add(Marks::FAILED);
            }
            self.withdraw(now, &|_| true, Kind::Gone);
        }
        self.attend(now);
    }

    /// The device works again after it has failed. Completed writes that were in its cache may be lost, so the next flush fails,
    /// once, with [`Kind::FlushFailed`].
    pub fn recovered(&mut self) {
        self.order.lost = true;
    }
}
