//! The oracle that threads share, and the failures that are expected.

use crate::soak::stamp;
use platter_block::bio::{Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_sim::oracle::{Oracle, Outcome, Submission};
use std::collections::BTreeMap;
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

struct JudgeState {
    oracle: Oracle,
    live: BTreeMap<u64, Live>,
    /// The first failed check.
    found: Option<String>,
}

/// The state of all I/Os, shared by all threads.
pub(super) struct Judge {
    state: Mutex<JudgeState>,
    next: AtomicU64,
    pub(super) ios: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) sectors_checked: AtomicU64,
    pub(super) left: AtomicU64,
}

impl Judge {
    pub(super) fn new(write_cache: bool, remembers: bool) -> Judge {
        let oracle = Oracle::new(write_cache).that_remembers(remembers);
        let zero = || AtomicU64::new(0);
        Judge {
            state: Mutex::new(JudgeState { oracle, live: BTreeMap::new(), found: None }),
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
        state.live.insert(number, live);
    }

    /// Records a completion; `memory` is the data of a read, or shows that the memory was returned.
    pub(super) fn complete(&self, number: u64, status: Result<(), Fault>, memory: Option<&[u8]>) {
        let state = &mut *self.state();
        self.ios.fetch_add(1, Ordering::Relaxed);
        let Some(live) = state.live.remove(&number) else {
            return state.find(format!("I/O {number} completed twice, or never was submitted"));
        };
        match status {
            Err(fault) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                match judge(&live, fault, memory.is_some()) {
                    Some(outcome) => state.oracle.complete(number, outcome),
                    None => state.find(format!("{live:?} failed for no reason: {fault} ({fault:?})")),
                }
            }
            Ok(()) if live.op == Op::Read => {
                let found = stamp::versions(memory.unwrap_or_default(), live.sector);
                self.sectors_checked.fetch_add(live.count, Ordering::Relaxed);
                if found.len() as u64 != live.count {
                    return state.find(format!("a read of {} sectors brought {}", live.count, found.len()));
                }
                if let Err(wrong) = state.oracle.complete_read(number, &found) {
                    state.find(format!("read {number} of {live:?}: {wrong}"));
                }
            }
            Ok(()) => state.oracle.complete(number, Outcome::Done),
        }
    }

    /// Records that the completion of an I/O will not be seen.
    pub(super) fn lose(&self, number: u64) {
        let state = &mut *self.state();
        if state.live.remove(&number).is_some() {
            state.oracle.complete(number, Outcome::Abandoned);
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
        (state.live.len(), state.live.values().next().copied())
    }

    /// From now on no abandoned I/O can reach the device.
    pub(super) fn quiesce(&self) {
        self.state().oracle.quiesce();
    }
}

impl JudgeState {
    fn find(&mut self, what: String) {
        self.found.get_or_insert(what);
    }
}

/// What a failure means for the data, if the script can cause it; `None`: the failure is unexpected.
fn judge(live: &Live, fault: Fault, memory: bool) -> Option<Outcome> {
    let transient = [4, 11, 12, 125].contains(&fault.errno);
    match fault.kind {
        Kind::TimedOut if memory && live.op == Op::Write => Some(Outcome::Failed),
        Kind::TimedOut => Some(Outcome::InDoubt),
        Kind::WouldBlock => live.flags.contains(Flags::READAHEAD).then_some(Outcome::Failed),
        Kind::Io if !transient => Some(Outcome::InDoubt),
        // Some threads block, and leave channels unpolled.
        Kind::LaneStalled => {
            live.flags.intersects(Flags::HARD_BARRIER | Flags::SOFT_BARRIER).then_some(Outcome::InDoubt)
        }
        Kind::FlushFailed | Kind::InDoubt | Kind::Stuck => Some(Outcome::InDoubt),
        Kind::Cancelled if fault.stage != Stage::Disk => Some(Outcome::Failed),
        Kind::Unsupported => matches!(live.op, Op::Discard | Op::WriteZeroes).then_some(Outcome::Failed),
        _ => None,
    }
}
