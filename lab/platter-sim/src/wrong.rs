//! Disks that misbehave on purpose, to verify that tests and checkers detect it.
//!
//! A [`Wrong`] is a possible bug of a driver or a disk; unlike a [fault](crate::fault) it is neither counted
//! nor reported. [`SimDisk::set_wrong`](crate::SimDisk::set_wrong) applies one to a disk.

use crate::model::Command;
use platter_block::bio::Op;
use std::collections::VecDeque;

/// The misbehaviour. "Some" means every fifth command to which it can apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Flushes end without making anything durable.
    FlushCoversNothing,
    /// Flushes do not cover the write that ended last.
    FlushMissesTheLast,
    /// FUA is ignored.
    IgnoresFua,
    /// Some writes are acknowledged and not stored.
    DropsWrite,
    /// Some commands complete a second time when the next command does.
    CompletesTwice,
    /// Some writes of several sectors are stored with their halves swapped.
    SwapsHalves,
    /// Some reads of several sectors fill half of the memory.
    ShortRead,
    /// A retried write is stored in part.
    TornOnRetry,
    /// Some reads return the contents before the last write.
    StaleRead,
    /// Some commands never complete.
    LosesCompletion,
    /// Some writes go to the next sector.
    OffByOne,
    /// Some reads fail without reason.
    InventsError,
}

/// Misbehaviours of the "some" kind happen every this many times.
const SOME: u64 = 5;

/// Old contents that are kept for stale reads.
const OLD: usize = 64;

/// The state of a misbehaving disk.
pub(crate) struct Mistakes {
    pub(crate) wrong: Wrong,
    chances: u64,
    /// Position of the last failed write.
    failed: Option<u64>,
    /// The contents that sectors had before they were last overwritten.
    old: VecDeque<(u64, Vec<u8>)>,
    /// A completion that will be reported a second time.
    pub(crate) again: Option<(u32, u32, i64)>,
}

impl Mistakes {
    pub(crate) fn new(wrong: Wrong) -> Mistakes {
        Mistakes { wrong, chances: 0, failed: None, old: VecDeque::new(), again: None }
    }

    /// Whether the disk misbehaves in this way now.
    pub(crate) fn makes(&mut self, wrong: Wrong) -> bool {
        if self.wrong != wrong {
            return false;
        }
        self.chances += 1;
        self.chances.is_multiple_of(SOME)
    }

    /// Whether the disk always misbehaves in this way.
    pub(crate) fn is(&self, wrong: Wrong) -> bool {
        self.wrong == wrong
    }

    /// The effect of a write: the command and its data, or nothing.
    pub(crate) fn write(&mut self, command: &Command, data: &mut Vec<u8>) -> Option<Command> {
        if command.op != Op::Write {
            return Some(*command);
        }
        if self.makes(Wrong::DropsWrite) {
            return None;
        }
        if self.makes(Wrong::OffByOne) {
            return Some(Command { sector: command.sector + 1, ..*command });
        }
        if command.sectors > 1 && self.makes(Wrong::SwapsHalves) {
            data.rotate_left(command.sectors as usize / 2 * 512);
        }
        let again = self.failed == Some(command.sector) && command.sectors > 1;
        if again && self.is(Wrong::TornOnRetry) {
            self.failed = None;
            data.truncate(512);
            return Some(Command { sectors: 1, ..*command });
        }
        Some(*command)
    }

    pub(crate) fn write_failed(&mut self, command: &Command) {
        if command.op == Op::Write {
            self.failed = Some(command.sector);
        }
    }

    /// Records the contents of a sector before it is overwritten.
    pub(crate) fn remember(&mut self, sector: u64, contents: Vec<u8>) {
        self.old.retain(|(known, _)| *known != sector);
        if self.old.len() == OLD {
            self.old.pop_front();
        }
        self.old.push_back((sector, contents));
    }

    /// Changes data that was read correctly; returns how many bytes of it arrive.
    pub(crate) fn read(&mut self, sector: u64, data: &mut [u8]) -> usize {
        let several = data.len() > 512;
        if several && self.makes(Wrong::ShortRead) {
            return data.len() / 1024 * 512;
        }
        let mut old = None;
        for (at, piece) in (sector..).zip(data.chunks_mut(512)) {
            if old.is_none()
                && let Some((_, before)) = self.old.iter().find(|(known, _)| *known == at)
            {
                old = Some((piece, before.clone()));
            }
        }
        if let Some((piece, before)) = old
            && self.makes(Wrong::StaleRead)
        {
            piece.copy_from_slice(&before);
        }
        data.len()
    }
}
