//! The oracle that threads share, and the failures that are expected.

use crate::soak::stamp;
use platter_block::bio::{Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_sim::fault::TRANSIENT;
use platter_sim::oracle::{Oracle, Outcome, Submission};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One I/O in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) op: Op,
    pub(super) sector: u64,
    pub(super) count: u64,
    pub(super) flags: Flags,
}

impl Live {
    fn sectors(&self) -> Range<u64> {
        self.sector..self.sector + self.count
    }

    fn is_barrier(&self) -> bool {
        self.flags.intersects(Flags::HARD_BARRIER | Flags::SOFT_BARRIER)
    }

    /// Whether it promises something about what was before it.
    fn is_ordered(&self) -> bool {
        self.op == Op::Flush || self.is_barrier() || self.flags.contains(Flags::PREFLUSH)
    }
}

/// An I/O in flight, and what else was in flight at the same time.
struct Flight {
    live: Live,
    /// Of a read: sectors of changes.
    changed: Vec<Range<u64>>,
    /// A barrier.
    beside_barrier: bool,
    /// A change that may take effect although it is over for its submitter.
    beside_late: bool,
}

struct JudgeState {
    oracle: Oracle,
    live: BTreeMap<u64, Flight>,
    /// Sectors of changes that may take effect although they are over for their submitter.
    loose: Vec<Range<u64>>,
    /// A barrier may take effect although its submitter will not see its completion.
    barrier_lost: bool,
    /// The first failed check.
    found: Option<String>,
}

/// The state of all I/Os, shared by all threads.
pub(super) struct Judge {
    state: Mutex<JudgeState>,
    /// Disks may be failed because they do not answer.
    fails: bool,
    next: AtomicU64,
    pub(super) ios: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) sectors_checked: AtomicU64,
    pub(super) left: AtomicU64,
}

impl Judge {
    pub(super) fn new(write_cache: bool, remembers: bool, fails: bool) -> Judge {
        let oracle = Oracle::new(write_cache).that_remembers(remembers);
        let zero = || AtomicU64::new(0);
        Judge {
            state: Mutex::new(JudgeState {
                oracle,
                live: BTreeMap::new(),
                loose: Vec::new(),
                barrier_lost: false,
                found: None,
            }),
            fails,
            next: AtomicU64::new(1),
            ios: zero(),
            failed: zero(),
            sectors_checked: zero(),
            left: zero(),
        }
    }

    fn state(&self) -> MutexGuard<'_, JudgeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number for the next I/O.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Records an I/O that is about to be submitted. The order in which threads reach the device is unknown, so the
    /// effect of barriers cannot be checked here.
    pub(super) fn submit(&self, number: u64, live: Live) {
        let contents = vec![number; if live.op == Op::Write { live.count as usize } else { 0 }];
        let state = &mut *self.state();
        let submission =
            Submission { contents: &contents, ..Submission::new(live.op, live.sector, live.count) };
        state.oracle.submit(number, &submission);
        state.begin(number, live);
    }

    /// Records a completion; `memory` is the data of a read, or shows that the memory was returned.
    pub(super) fn complete(&self, number: u64, status: Result<(), Fault>, memory: Option<&[u8]>) {
        let state = &mut *self.state();
        self.ios.fetch_add(1, Ordering::Relaxed);
        let Some(flight) = state.live.remove(&number) else {
            return state.find(format!("I/O {number} completed twice, or never was submitted"));
        };
        let live = &flight.live;
        match status {
            Err(fault) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                match judge(&flight, fault, memory.is_some(), self.fails) {
                    Some(outcome) => state.fail(number, live, outcome),
                    None => state.find(format!("{live:?} failed for no reason: {fault} ({fault:?})")),
                }
            }
            Ok(()) if live.op == Op::Read => {
                self.sectors_checked.fetch_add(live.count, Ordering::Relaxed);
                state.read(number, &flight, &stamp::versions(memory.unwrap_or_default(), live.sector));
            }
            Ok(()) => state.oracle.complete(number, Outcome::Done),
        }
    }

    /// Records that the completion of an I/O will not be seen.
    pub(super) fn lose(&self, number: u64) {
        let state = &mut *self.state();
        if let Some(Flight { live, .. }) = state.live.remove(&number) {
            state.barrier_lost |= live.is_barrier();
            state.fail(number, &live, Outcome::Abandoned);
        }
    }

    /// Records a failed check.
    pub(super) fn find(&self, what: String) {
        self.state().find(what);
    }

    pub(super) fn found(&self) -> Option<String> {
        self.state().found.clone()
    }

    /// The number of I/Os in flight, and one of them.
    pub(super) fn under_way(&self) -> (usize, Option<Live>) {
        let state = self.state();
        (state.live.len(), state.live.values().next().map(|flight| flight.live))
    }
}

impl JudgeState {
    /// Records that an I/O begins, and what is in flight at the same time.
    fn begin(&mut self, number: u64, live: Live) {
        let (mut changed, sectors) = (Vec::new(), live.sectors());
        let mut beside_barrier = self.barrier_lost;
        for other in self.live.values_mut() {
            other.beside_barrier |= live.is_barrier();
            beside_barrier |= other.live.is_barrier();
            if live.op.changes() && other.live.op == Op::Read {
                other.changed.push(sectors.clone());
            } else if live.op == Op::Read && other.live.op.changes() {
                changed.push(other.live.sectors());
            }
        }
        if live.op == Op::Read {
            changed.extend_from_slice(&self.loose);
        }
        let beside_late = !self.loose.is_empty();
        self.live.insert(number, Flight { live, changed, beside_barrier, beside_late });
    }

    /// Records the failure of an I/O, or that its completion will not be seen.
    fn fail(&mut self, number: u64, live: &Live, outcome: Outcome) {
        if live.op.changes() && matches!(outcome, Outcome::Late | Outcome::Abandoned) {
            self.loose.push(live.sectors());
            self.live.values_mut().for_each(|other| other.beside_late = true);
        }
        self.oracle.complete(number, outcome);
    }

    /// Records the data of a read.
    fn read(&mut self, number: u64, flight: &Flight, found: &[u64]) {
        let live = &flight.live;
        if found.len() as u64 != live.count {
            return self.find(format!("a read of {} sectors brought {}", live.count, found.len()));
        }
        let is_mixed = |sector: u64| flight.changed.iter().any(|changed| changed.contains(&sector));
        let spoilt = || (live.sector..).zip(found).filter(|&(_, &version)| version == stamp::SPOILT);
        // A read beside a write may bring a mixture of old and new bytes, also inside a sector; it then says nothing
        // about the order of the writes.
        if spoilt().count() > 0 && spoilt().all(|(sector, _)| is_mixed(sector)) {
            return self.oracle.complete(number, Outcome::Failed);
        }
        if let Err(wrong) = self.oracle.complete_read(number, found) {
            self.find(format!("read {number} of {live:?}: {wrong}"));
        }
    }

    fn find(&mut self, what: String) {
        self.found.get_or_insert(what);
    }
}

/// What a failure means for the data, if the script can cause it; `None`: the failure is unexpected. `fails`: a disk may be failed
/// because it does not answer.
fn judge(flight: &Flight, fault: Fault, memory: bool, fails: bool) -> Option<Outcome> {
    let live = &flight.live;
    let transient = TRANSIENT.contains(&i32::from(fault.errno));
    match fault.kind {
        // A barrier of another thread that has passed the I/O, because the disk had completed it, forbids to continue a
        // short transfer and to try a failed one again: that would take effect behind the barrier.
        Kind::Short => flight.beside_barrier.then_some(Outcome::Late),
        Kind::Io if transient && flight.beside_barrier => Some(Outcome::Late),
        Kind::TimedOut if (memory && live.op == Op::Write) || fault.stage == Stage::Disk => {
            Some(Outcome::Failed)
        }
        Kind::TimedOut => Some(Outcome::Late),
        Kind::WouldBlock => live.flags.contains(Flags::READAHEAD).then_some(Outcome::Failed),
        Kind::Io if !transient => Some(Outcome::Late),
        // Another thread may not have told yet that its change is late. Some threads block, and leave channels unpolled.
        Kind::Unsettled => (live.is_ordered() || flight.beside_late).then_some(Outcome::Failed),
        Kind::FlushFailed => Some(Outcome::Failed),
        // A disk that does not answer is failed as a whole.
        Kind::Gone => (fails && fault.stage == Stage::Queue).then_some(Outcome::Failed),
        Kind::Cancelled if fault.stage != Stage::Disk => Some(Outcome::Failed),
        Kind::Unsupported => matches!(live.op, Op::Discard | Op::WriteZeroes).then_some(Outcome::Failed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::stamp::contents;

    const SHORT: Fault = Fault::new(Kind::Short, Stage::Queue);

    fn io(op: Op, sector: u64, flags: Flags) -> Live {
        Live { op, sector, count: 2, flags }
    }

    fn judge() -> Judge {
        Judge::new(true, false, false)
    }

    #[test]
    fn a_short_transfer_is_excused_only_beside_a_barrier() {
        let (write, barrier) = (io(Op::Write, 0, Flags::NONE), io(Op::Write, 8, Flags::SOFT_BARRIER));
        let interrupted = Fault { errno: 4, ..Fault::new(Kind::Io, Stage::Disk) };
        for fault in [SHORT, interrupted] {
            let alone = judge();
            alone.submit(1, barrier);
            alone.complete(1, Ok(()), None);
            alone.submit(2, write);
            alone.complete(2, Err(fault), None);
            assert!(alone.found().is_some_and(|what| what.contains("for no reason")));
            // In either order.
            for (first, second) in [(write, barrier), (barrier, write)] {
                let beside = judge();
                beside.submit(1, first);
                beside.submit(2, second);
                let number = if first.is_barrier() { 2 } else { 1 };
                beside.complete(3 - number, Ok(()), None);
                beside.complete(number, Err(fault), None);
                assert_eq!(beside.found(), None);
            }
            // A barrier that nothing waits for may still pass.
            let lost = judge();
            lost.submit(1, barrier);
            lost.lose(1);
            lost.submit(2, write);
            lost.complete(2, Err(fault), None);
            assert_eq!(lost.found(), None);
        }
    }

    #[test]
    fn what_waits_for_an_unpolled_channel_is_excused_only_beside_a_late_change() {
        let stalled = Fault::new(Kind::Unsettled, Stage::Handle);
        let (write, read) = (io(Op::Write, 0, Flags::NONE), io(Op::Read, 0, Flags::NONE));
        for (end, excused) in [(Ok(()), false), (Err(Fault::new(Kind::TimedOut, Stage::Handle)), true)] {
            let before = judge();
            before.submit(1, write);
            before.complete(1, end, None);
            before.submit(2, read);
            before.complete(2, Err(stalled), None);
            assert_eq!(before.found().is_none(), excused, "{end:?}");

            let meanwhile = judge();
            meanwhile.submit(1, read);
            meanwhile.submit(2, write);
            meanwhile.complete(2, end, None);
            meanwhile.complete(1, Err(stalled), None);
            assert_eq!(meanwhile.found().is_none(), excused, "{end:?}");
        }
    }

    #[test]
    fn a_mixture_inside_a_sector_is_excused_only_beside_a_write_of_it() {
        let mixed = || {
            let mut data = contents(1, 0, 2);
            data[512 + 256..].fill(0);
            data
        };
        let (read, write) = (io(Op::Read, 0, Flags::NONE), io(Op::Write, 0, Flags::NONE));
        let beside = judge();
        beside.submit(1, write);
        beside.submit(2, read);
        beside.complete(1, Ok(()), None);
        beside.complete(2, Ok(()), Some(&mixed()));
        assert_eq!(beside.found(), None);

        let behind = judge();
        behind.submit(1, write);
        behind.complete(1, Ok(()), None);
        behind.submit(2, read);
        behind.complete(2, Ok(()), Some(&mixed()));
        assert!(behind.found().is_some_and(|what| what.contains("sector 1")));

        // The write is over for its submitter, but may still reach the disk.
        let lost = judge();
        lost.submit(1, write);
        lost.lose(1);
        lost.submit(2, read);
        lost.complete(2, Ok(()), Some(&mixed()));
        assert_eq!(lost.found(), None);

        let elsewhere = judge();
        elsewhere.submit(1, write);
        elsewhere.complete(1, Ok(()), None);
        elsewhere.submit(2, io(Op::Write, 2, Flags::NONE));
        elsewhere.submit(3, read);
        elsewhere.complete(3, Ok(()), Some(&mixed()));
        assert!(elsewhere.found().is_some());
    }
}
