//! What was written since the last flush, and what becomes of it when a connection is lost.
//!
//! A server that died may have lost what it had answered and not made durable. The client cannot know whether it has, so
//! after a lost connection either everything since the last flush is written again, if it was kept, or the next flush
//! fails once.

use platter_block::bio::Op;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a range costs besides its data, in bytes, so that the number of ranges is bounded too.
const RANGE_BYTES: u64 = 128;

/// A range to write again.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) pos: u64,
    pub(crate) len: u64,
    /// The data; `None`: zeroes.
    pub(crate) data: Option<Arc<Vec<u8>>>,
    /// The count of changes with this one.
    serial: u64,
}

impl Kept {
    fn end(&self) -> u64 {
        self.pos + self.len
    }

    /// What it counts towards the bound.
    fn bytes(&self) -> u64 {
        RANGE_BYTES + self.data.as_ref().map_or(0, |data| data.len() as u64)
    }

    /// A copy of the part from `begin` to `end`. It does not share the memory, so that little data never keeps much.
    fn part(&self, begin: u64, end: u64) -> Kept {
        let (from, to) = ((begin - self.pos) as usize, (end - self.pos) as usize);
        let data = self.data.as_ref().map(|data| Arc::new(data[from..to].to_vec()));
        Kept { pos: begin, len: end - begin, data, serial: self.serial }
    }
}

/// Ranges that do not overlap, by position: the newest contents of each byte.
#[derive(Debug, Default)]
struct Log {
    ranges: BTreeMap<u64, Kept>,
    /// What all ranges count.
    bytes: u64,
    /// Data did not fit since the last flush.
    overflown: bool,
}

impl Log {
    fn insert(&mut self, kept: Kept) {
        self.bytes += kept.bytes();
        self.ranges.insert(kept.pos, kept);
    }

    /// Removes a range.
    fn cut(&mut self, begin: u64, end: u64) {
        let first = self.ranges.range(..begin).next_back().filter(|(_, kept)| kept.end() > begin);
        let first = first.map_or(begin, |(pos, _)| *pos);
        let found: Vec<u64> = self.ranges.range(first..end).map(|(pos, _)| *pos).collect();
        for pos in found {
            let Some(kept) = self.ranges.remove(&pos) else { continue };
            self.bytes -= kept.bytes();
            if kept.pos < begin {
                self.insert(kept.part(kept.pos, begin));
            }
            if kept.end() > end {
                self.insert(kept.part(end, kept.end()));
            }
        }
    }
}

/// A change that the server has answered.
pub(crate) struct Change<'a> {
    pub(crate) op: Op,
    pub(crate) pos: u64,
    pub(crate) len: u64,
    /// It is durable already.
    pub(crate) fua: bool,
    /// Copies its data.
    pub(crate) copy: &'a dyn Fn() -> Vec<u8>,
}

/// The changes of a disk since its last flush.
pub(crate) struct Unflushed {
    /// Changes that were answered.
    completed: AtomicU64,
    /// How many of those are durable.
    flushed: AtomicU64,
    /// Some may be lost: the next flush fails.
    suspect: AtomicBool,
    /// Most bytes to keep; 0: nothing is kept.
    most: u64,
    log: Mutex<Log>,
}

impl Unflushed {
    pub(crate) fn new(most: u64) -> Unflushed {
        Unflushed {
            completed: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            suspect: AtomicBool::new(false),
            most,
            log: Mutex::default(),
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server has answered a change.
    pub(crate) fn changed(&self, change: &Change<'_>) {
        if self.most == 0 {
            if !change.fua {
                self.completed.fetch_add(1, Ordering::SeqCst);
            }
            return;
        }
        let mut log = self.log();
        log.cut(change.pos, change.pos + change.len);
        if change.fua {
            return;
        }
        let serial = self.completed.fetch_add(1, Ordering::SeqCst) + 1;
        let data = match change.op {
            Op::Write => change.len,
            Op::WriteZeroes => 0,
            // What is read after a discard is not specified.
            _ => return,
        };
        if log.overflown || log.bytes + RANGE_BYTES + data > self.most {
            // From here to the next flush nothing helps but that flush.
            *log = Log { overflown: true, ..Log::default() };
            return;
        }
        let data = (change.op == Op::Write).then(|| Arc::new((change.copy)()));
        log.insert(Kept { pos: change.pos, len: change.len, data, serial });
    }

    /// The count that a flush covers which begins now.
    pub(crate) fn begin_flush(&self) -> u64 {
        self.completed.load(Ordering::SeqCst)
    }

    /// The server has answered a flush that covers `count`. `false`: the flush fails.
    pub(crate) fn flushed(&self, count: u64) -> bool {
        self.flushed.fetch_max(count, Ordering::SeqCst);
        if self.most > 0 {
            let mut log = self.log();
            log.ranges.retain(|_, kept| kept.serial > count);
            log.bytes = log.ranges.values().map(Kept::bytes).sum();
            // Changes that came later may be among what did not fit.
            log.overflown &= count != self.completed.load(Ordering::SeqCst);
        }
        !self.suspect.swap(false, Ordering::SeqCst)
    }

    /// A connection was lost, or one cannot be known to have been kept.
    pub(crate) fn lost(&self) {
        let durable = self.flushed.load(Ordering::SeqCst) == self.completed.load(Ordering::SeqCst);
        let is_kept = self.most > 0 && !self.log().overflown;
        if !durable && !is_kept {
            self.suspect.store(true, Ordering::SeqCst);
        }
    }

    /// Writing something again failed.
    pub(crate) fn suspect(&self) {
        self.suspect.store(true, Ordering::SeqCst);
    }

    /// What a new connection must write again before anything else.
    pub(crate) fn to_replay(&self) -> VecDeque<Kept> {
        if self.most == 0 {
            return VecDeque::new();
        }
        self.log().ranges.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(log: &Unflushed, pos: u64, bytes: &[u8], fua: bool) {
        let copy = || bytes.to_vec();
        log.changed(&Change { op: Op::Write, pos, len: bytes.len() as u64, fua, copy: &copy });
    }

    fn contents(log: &Unflushed) -> Vec<(u64, Vec<u8>)> {
        let bytes = |kept: &Kept| match &kept.data {
            Some(data) => data.to_vec(),
            None => vec![0; kept.len as usize],
        };
        log.to_replay().iter().map(|kept| (kept.pos, bytes(kept))).collect()
    }

    #[test]
    fn without_a_log_a_loss_fails_one_flush() {
        let log = Unflushed::new(0);
        log.lost();
        assert!(log.flushed(log.begin_flush()), "nothing was written");
        write(&log, 0, &[1], true);
        log.lost();
        assert!(log.flushed(log.begin_flush()), "it was durable");
        write(&log, 0, &[1], false);
        let before = log.begin_flush();
        write(&log, 0, &[1], false);
        assert!(log.flushed(before));
        log.lost();
        assert!(!log.flushed(log.begin_flush()), "one was not covered");
        assert!(log.flushed(log.begin_flush()), "only once");
    }

    #[test]
    fn the_log_holds_the_newest_contents() {
        let log = Unflushed::new(2000);
        write(&log, 10, &[1; 10], false);
        write(&log, 12, &[2; 3], false);
        write(&log, 18, &[3; 4], true);
        write(&log, 19, &[4], false);
        let expected = vec![(10, vec![1; 2]), (12, vec![2; 3]), (15, vec![1; 3]), (19, vec![4])];
        assert_eq!(contents(&log), expected);
        let (op, copy) = (Op::WriteZeroes, Vec::new);
        log.changed(&Change { op, pos: 11, len: 1, fua: false, copy: &copy });
        log.changed(&Change { op: Op::Discard, pos: 12, len: 100, fua: false, copy: &copy });
        assert_eq!(contents(&log), [(10, vec![1]), (11, vec![0])]);
        log.lost();
        assert!(log.flushed(log.begin_flush()), "it is written again");
        assert_eq!(contents(&log), []);
    }

    #[test]
    fn a_flush_removes_what_it_covers() {
        let log = Unflushed::new(2000);
        write(&log, 0, &[1; 4], false);
        let covers = log.begin_flush();
        write(&log, 2, &[2; 4], false);
        assert!(log.flushed(covers));
        assert_eq!(contents(&log), [(2, vec![2; 4])]);
    }

    #[test]
    fn what_does_not_fit_fails_a_flush_after_a_loss() {
        let log = Unflushed::new(RANGE_BYTES + 10);
        write(&log, 0, &[1; 8], false);
        write(&log, 0, &[2; 10], false);
        assert_eq!(contents(&log), [(0, vec![2; 10])], "what is written over counts no more");
        write(&log, 50, &[1; 8], false);
        assert_eq!(contents(&log), []);
        assert!(log.flushed(log.begin_flush()), "nothing was lost");
        write(&log, 0, &[1; 8], false);
        write(&log, 100, &[1; 8], false);
        log.lost();
        assert!(!log.flushed(log.begin_flush()));
        write(&log, 0, &[5; 8], false);
        assert_eq!(contents(&log), [(0, vec![5; 8])]);
    }
}
