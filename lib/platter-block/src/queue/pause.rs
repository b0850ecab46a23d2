//! Retries after errors that say nothing about the disk: an interruption, a shortage of memory in the system.

use crate::bio::{Bio, Flags, Op};
use crate::driver::Completion;
use crate::fault::{EAGAIN, Fault, Kind, Stage};
use crate::time::{Span, Time};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Due time of a timer that is not set.
pub(super) const NEVER: Time = Time(u64::MAX);

/// How often a bio is retried after an error that says nothing about the disk (an interruption, a shortage of memory
/// in the system).
pub const RETRIES: u8 = 12;

/// Pause before the first retry. Each further pause is twice as long: 4.1 s in all.
pub const FIRST_PAUSE: Span = Span::from_millis(1);

/// How many of the longest pauses a barrier timeout has, for bios that the device does not begin before another queue
/// of it is run.
const PAUSES_OF_BARRIER: u64 = 100;

const ABORTED: u64 = Completion::ABORTED.unsigned_abs();

/// Result of a request that the device does not support: `-EOPNOTSUPP`.
pub(super) const UNSUPPORTED: i64 = -95;

/// Results that say that a request took too long, and that the device is gone.
pub(super) const ETIMEDOUT: i64 = -110;
pub(super) const ENODEV: i64 = -19;

/// The fault of a request for `op` that failed with this result.
pub(super) fn fault_of(op: Op, result: i64) -> Fault {
    if result == Completion::ABORTED {
        return Fault::new(Kind::Cancelled, Stage::Driver);
    }
    Fault::of_op(op, i32::try_from(result.unsigned_abs()).unwrap_or(i32::MAX))
}

/// The fault that a queue itself gives a bio.
pub(super) const fn queue_fault(kind: Kind) -> Fault {
    Fault::new(kind, Stage::Queue)
}

/// The fault of a request's result after all retries. What the device has not begun follows a request that failed on a
/// queue that does not know yet: as a barrier, it has waited for a channel that is not polled.
pub(super) fn fault_after_retries(op: Op, result: i64) -> Fault {
    match result {
        Completion::ABORTED => queue_fault(Kind::Unsettled),
        _ => fault_of(op, result),
    }
}

/// Whether a bio whose request failed with `result` is to be retried although it was alone in the request. A command is
/// not, unless the device says that it did nothing: what repeating it would do is not known.
pub(super) fn may_pass(bio: &Bio, result: i64) -> bool {
    let errno = result.unsigned_abs();
    let passes = errno == ABORTED || (bio.op() != Op::Command && fault_of(bio.op(), result).is_transient());
    passes
        && !bio.flags().contains(Flags::LAST)
        // Readahead must fail rather than wait.
        && !(errno == u64::from(EAGAIN.unsigned_abs()) && bio.flags().contains(Flags::READAHEAD))
}

/// Whether a request's result says that the disk fails, at this position at least: not that it lacks an operation, nor that
/// another attempt may succeed.
#[cold]
pub(super) fn is_lasting(op: Op, result: i64) -> bool {
    result != UNSUPPORTED && result != Completion::ABORTED && !fault_of(op, result).is_transient()
}

/// A bio that waits for its retry.
struct Paused {
    at: Time,
    bio: Bio,
}

/// Bios that failed for a reason that may pass; they are retried after a pause.
#[derive(Default)]
pub(super) struct Pauses(Vec<Paused>);

impl Pauses {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Until when a bio waits whose request failed with `result`; `None` if it has used up its attempts. One that the device
    /// did not begin is retried for the time that a barrier has.
    pub(super) fn until(now: Time, bio: &mut Bio, result: i64, barrier_timeout: Span) -> Option<Time> {
        let attempts = bio.count_attempt();
        let pause = match result {
            Completion::ABORTED => pause_of_order(attempts, barrier_timeout),
            _ => (attempts < RETRIES).then(|| Span(FIRST_PAUSE.0 << attempts)),
        };
        Some(now + pause?)
    }

    /// Has a bio wait.
    pub(super) fn push(&mut self, at: Time, bio: Bio) {
        self.0.push(Paused { at, bio });
    }

    /// When the first pause ends.
    pub(super) fn next(&self) -> Time {
        self.0.iter().map(|paused| paused.at).min().unwrap_or(NEVER)
    }

    /// Moves the bios whose pause is over to `out`, in order.
    pub(super) fn end(&mut self, now: Time, out: &mut VecDeque<Bio>) {
        let all = core::mem::take(&mut self.0);
        let (over, rest): (Vec<Paused>, Vec<Paused>) = all.into_iter().partition(|paused| paused.at <= now);
        self.0 = rest;
        out.extend(over.into_iter().map(|paused| paused.bio));
    }

    /// Moves the bios that match to `out`.
    pub(super) fn withdraw(&mut self, which: &dyn Fn(&Bio) -> bool, out: &mut Vec<Bio>) {
        let mut at = 0;
        while at < self.0.len() {
            if which(&self.0[at].bio) {
                out.push(self.0.swap_remove(at).bio);
            } else {
                at += 1;
            }
        }
    }
}

/// The pause before a retry of a bio that the device has not begun. They double up to a part of `whole`, so that the bio
/// continues soon after the other queue has been run. `None`: all before it were as long as `whole`.
fn pause_of_order(attempts: u8, whole: Span) -> Option<Span> {
    let longest = (whole.0 / PAUSES_OF_BARRIER).max(FIRST_PAUSE.0);
    let pause = |attempt: u8| (FIRST_PAUSE.0 << attempt.min(32)).min(longest);
    let before: u64 = (0..attempts).map(pause).sum();
    (before < whole.0).then(|| Span(pause(attempts)))
}

/// Moves the bios that match from one list to another; the rest keep their order.
pub(super) fn take_matching(list: &mut VecDeque<Bio>, which: &dyn Fn(&Bio) -> bool, out: &mut Vec<Bio>) {
    for _ in 0..list.len() {
        let Some(bio) = list.pop_front() else { return };
        if which(&bio) {
            out.push(bio);
        } else {
            list.push_back(bio);
        }
    }
}
