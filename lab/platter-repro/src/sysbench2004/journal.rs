//! The journal of ext3 with `data=ordered`: when a transaction is written, and its I/Os.
//!
//! A transaction has the inode blocks that changed since the last one. To commit it, the data written to the
//! files meanwhile goes to the disk, then a descriptor and the blocks in one piece, then the commit block,
//! each waited for. An `fsync` of a file whose inode has changed always commits, if necessary a transaction
//! that consists only of its commit block (`ext3_force_commit`); those that arrive while one is being written
//! share the next. Times in inodes are whole seconds: an inode changes once a second.

use super::layout::{BLOCK, JOURNAL, Layout};
use platter_block::time::Time;
use std::collections::{BTreeSet, VecDeque};

/// Extents that are written at once (`wbuf` of `journal_commit_transaction`).
const BATCH: u32 = 64;

/// The position of written data on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) pos: u64,
    pub(super) len: u64,
}

/// The next action of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Writes an extent from the cache.
    Data(Extent),
    /// Writes blocks of the journal.
    Log(Extent),
    /// The commit is complete.
    Done,
}

/// A transaction that is being written.
struct Commit {
    data: VecDeque<Extent>,
    inodes: u64,
    /// Steps that were started and have not completed.
    out: u32,
    logged: bool,
    recorded: bool,
    /// Threads that wait for it.
    threads: Vec<u32>,
}

/// The journal.
pub(super) struct Journal {
    /// The next block of it.
    head: u64,
    commit: Option<Commit>,
    /// Threads that wait for the transaction after that.
    next: Vec<u32>,
    /// Of the running transaction: inode blocks, and data not yet written for sure.
    inodes: BTreeSet<u32>,
    data: VecDeque<Extent>,
    /// Of each file: the second of its last change, and whether it is to be written.
    changed: Vec<(Option<u64>, bool)>,
    pub(super) commits: u64,
    pub(super) blocks: u64,
}

impl Journal {
    pub(super) fn new(files: u32) -> Journal {
        Journal {
            head: 0,
            commit: None,
            next: Vec::new(),
            inodes: BTreeSet::new(),
            data: VecDeque::new(),
            changed: vec![(None, false); files as usize],
            commits: 0,
            blocks: 0,
        }
    }

    /// The file was read or written: its inode has another time.
    pub(super) fn touch(&mut self, file: u32, now: Time) {
        let second = Some(now.0 / 1_000_000_000);
        let (last, dirty) = &mut self.changed[file as usize];
        if *last != second {
            (*last, *dirty) = (second, true);
            self.inodes.insert(Layout::inode_block(file));
        }
    }

    /// Data was written to the cache.
    pub(super) fn wrote(&mut self, extent: Extent) {
        self.data.push_back(extent);
    }

    /// Whether an `fsync` of the file has to commit. It is about to.
    pub(super) fn take_dirty(&mut self, file: u32) -> bool {
        std::mem::take(&mut self.changed[file as usize].1)
    }

    /// A thread requests that all changes so far be committed. Returns whether a commit begins with that.
    pub(super) fn force(&mut self, thread: u32) -> bool {
        self.next.push(thread);
        self.begin()
    }

    fn begin(&mut self) -> bool {
        if self.commit.is_some() || self.next.is_empty() {
            return false;
        }
        self.commits += 1;
        self.commit = Some(Commit {
            data: std::mem::take(&mut self.data),
            inodes: std::mem::take(&mut self.inodes).len() as u64,
            out: 0,
            logged: false,
            recorded: false,
            threads: std::mem::take(&mut self.next),
        });
        true
    }

    /// The I/O to start now. `None`: an earlier one has to complete first.
    pub(super) fn step(&mut self) -> Option<Step> {
        let commit = self.commit.as_mut()?;
        if commit.out < BATCH
            && let Some(extent) = commit.data.pop_front()
        {
            commit.out += 1;
            return Some(Step::Data(extent));
        }
        if commit.out > 0 {
            return None;
        }
        if !commit.logged {
            commit.logged = true;
            if commit.inodes > 0 {
                let blocks = 1 + commit.inodes;
                commit.out += 1;
                return Some(Step::Log(self.log(blocks)));
            }
        }
        if !commit.recorded {
            commit.recorded = true;
            commit.out += 1;
            return Some(Step::Log(self.log(1)));
        }
        Some(Step::Done)
    }

    /// A step is back.
    pub(super) fn landed(&mut self) {
        if let Some(commit) = &mut self.commit {
            commit.out -= 1;
        }
    }

    /// The commit is complete. Returns the threads that waited for it, and whether the next one begins.
    pub(super) fn finish(&mut self) -> (Vec<u32>, bool) {
        let threads = self.commit.take().map(|commit| commit.threads).unwrap_or_default();
        (threads, self.begin())
    }

    /// The next blocks of the journal, in one piece.
    fn log(&mut self, blocks: u64) -> Extent {
        if self.head + blocks > JOURNAL {
            self.head = 0;
        }
        let pos = self.head * BLOCK;
        self.head += blocks;
        self.blocks += blocks;
        Extent { pos, len: blocks * BLOCK }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Runs a commit to its end. Returns its steps and the threads that waited.
    fn all(journal: &mut Journal) -> (Vec<Step>, Vec<u32>) {
        let mut steps = Vec::new();
        loop {
            match journal.step() {
                Some(Step::Done) => return (steps, journal.finish().0),
                Some(step) => steps.push(step),
                None => journal.landed(),
            }
        }
    }

    #[test]
    fn a_commit_writes_data_then_blocks_then_its_end() {
        let mut journal = Journal::new(64);
        let data = Extent { pos: 1 << 30, len: 16 << 10 };
        journal.wrote(data);
        // Inodes 0 and 1 share a block.
        [0, 1, 40].into_iter().for_each(|file| journal.touch(file, Time(SECOND)));
        assert!(journal.take_dirty(1) && !journal.take_dirty(1) && !journal.take_dirty(2));
        assert!(journal.force(7));
        assert_eq!(journal.step(), Some(Step::Data(data)));
        // Nothing is written to the journal before the data is on the disk.
        assert_eq!(journal.step(), None);
        // A process that commits now waits for the next.
        assert!(!journal.force(8));
        journal.landed();
        let log = |block, blocks| Step::Log(Extent { pos: block * BLOCK, len: blocks * BLOCK });
        assert_eq!(all(&mut journal), (vec![log(0, 3), log(3, 1)], vec![7]));
        assert_eq!(all(&mut journal), (vec![log(4, 1)], vec![8]));
        assert_eq!((journal.step(), journal.commits, journal.blocks), (None, 2, 5));
    }

    #[test]
    fn an_inode_changes_once_in_a_second_and_the_journal_goes_round() {
        let mut journal = Journal::new(1);
        let mut commits = 0;
        for half in 0..2 * JOURNAL {
            journal.touch(0, Time(half * SECOND / 2));
            if journal.take_dirty(0) {
                assert!(journal.force(0));
                let (steps, _) = all(&mut journal);
                for step in steps {
                    assert!(matches!(step, Step::Log(log) if log.pos + log.len <= JOURNAL * BLOCK));
                }
                commits += 1;
            }
        }
        assert_eq!(commits, JOURNAL);
    }
}
