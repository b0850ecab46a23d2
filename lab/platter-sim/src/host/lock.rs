//! Spinning locks, and how they were used.

use super::Stage;
use crate::rng::Rng;
use platter_block::time::{Span, Time};
use std::collections::BTreeMap;

/// A lock of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockId(pub usize);

/// Which of the processors that spin for a lock gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// The one that has spun the longest.
    Fifo,
    /// Any, as with the locks of x86 before 2.6.25, which keep no order.
    Random,
}

/// What spinning for a lock costs beyond waiting for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contention {
    /// Which spinner gets the lock.
    pub grant: Grant,
    /// Time from the release of the lock to the next holder: its processor fetches the cache line of the lock.
    pub hand_over: Span,
    /// Added to it for each processor that goes on spinning, because these fetch the line, too.
    pub per_spinner: Span,
}

impl Contention {
    /// The next holder has the lock at the moment of its release.
    pub const fn free(grant: Grant) -> Contention {
        Contention { grant, hand_over: Span::ZERO, per_spinner: Span::ZERO }
    }
}

/// How a lock was used, by one caller or by all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockUse {
    /// How often it was taken.
    pub acquisitions: u64,
    /// How often it was not free at once.
    pub contended: u64,
    /// Time for which it was held.
    pub held: Span,
    /// Time for which processors spun for it.
    pub spun: Span,
}

impl LockUse {
    fn add(&mut self, other: &LockUse) {
        self.acquisitions += other.acquisitions;
        self.contended += other.contended;
        self.held.0 += other.held.0;
        self.spun.0 += other.spun.0;
    }
}

/// The use of a lock, by caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockReport {
    /// By the stage that was named when it was taken.
    pub callers: BTreeMap<Stage, LockUse>,
}

impl LockReport {
    /// The sum of the callers.
    pub fn total(&self) -> LockUse {
        let mut total = LockUse::default();
        self.callers.values().for_each(|each| total.add(each));
        total
    }
}

struct Spinner {
    processor: usize,
    caller: Stage,
    since: Time,
}

struct Holder {
    processor: usize,
    caller: Stage,
    /// How long it took to get the lock after its release.
    fetched: Span,
    since: Time,
}

/// A lock.
pub(super) struct Lock {
    holder: Option<Holder>,
    spinners: Vec<Spinner>,
    pub(super) report: LockReport,
}

impl Lock {
    pub(super) fn new() -> Lock {
        Lock { holder: None, spinners: Vec::new(), report: LockReport::default() }
    }

    /// Takes the lock if it is free; otherwise the processor spins for it.
    pub(super) fn take(&mut self, now: Time, processor: usize, caller: Stage) -> bool {
        let used = self.report.callers.entry(caller).or_default();
        used.acquisitions += 1;
        let is_free = self.holder.is_none();
        match is_free {
            true => self.holder = Some(Holder { processor, caller, fetched: Span::ZERO, since: now }),
            false => {
                used.contended += 1;
                self.spinners.push(Spinner { processor, caller, since: now });
            }
        }
        is_free
    }

    /// Gives the lock back. Returns the processor that has it next, and after how long: until then it spins.
    ///
    /// # Panics
    /// The processor does not have the lock: an error of the system.
    pub(super) fn give_back(
        &mut self,
        now: Time,
        processor: usize,
        contention: &Contention,
        rng: &mut Rng,
    ) -> Option<(usize, Span)> {
        let holder = self.holder.take().filter(|holder| holder.processor == processor);
        let Some(holder) = holder else {
            panic!("processor {processor} gives back a lock that it does not have")
        };
        let used = self.report.callers.entry(holder.caller).or_default();
        used.held.0 += now.since(holder.since).0;
        used.spun.0 += holder.fetched.0;
        if self.spinners.is_empty() {
            return None;
        }
        let next = match contention.grant {
            Grant::Fifo => 0,
            Grant::Random => rng.below(self.spinners.len() as u64) as usize,
        };
        let Spinner { processor, caller, since } = self.spinners.remove(next);
        let after = contention.hand_over.0 + contention.per_spinner.0 * self.spinners.len() as u64;
        let used = self.report.callers.entry(caller).or_default();
        used.spun.0 += now.since(since).0;
        self.holder = Some(Holder { processor, caller, fetched: Span(after), since: now + Span(after) });
        Some((processor, Span(after)))
    }

    /// Forgets what was counted, and counts from now on.
    pub(super) fn restart(&mut self, now: Time) {
        self.report = LockReport::default();
        if let Some(holder) = &mut self.holder {
            holder.fetched = Span(holder.fetched.0.min(holder.since.since(now).0));
            holder.since = holder.since.max(now);
        }
        self.spinners.iter_mut().for_each(|spinner| spinner.since = now);
    }
}
