//! The streams of a handle.

use super::forward::Forward;
use super::steps::Steps;
use crate::readahead::Access;
use alloc::vec::Vec;

/// A stream that was not among so many touched last may not leave out pages: nearby reads are not its own.
const RECENT: u64 = 16;

/// How a stream goes on.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Forward(Forward),
    Steps(Steps),
}

impl From<Forward> for Kind {
    fn from(stream: Forward) -> Kind {
        Kind::Forward(stream)
    }
}

impl From<Steps> for Kind {
    fn from(stream: Steps) -> Kind {
        Kind::Steps(stream)
    }
}

/// A stream in the table.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    /// Whether it used all of its first window.
    pub(super) proven: bool,
    /// Markers that were touched.
    pub(super) windows: u64,
    /// When it was touched last.
    stamp: u64,
}

impl Entry {
    /// The stream has used its first window; whether that is new.
    pub(super) fn prove(&mut self) -> bool {
        !core::mem::replace(&mut self.proven, true)
    }
}

/// The streams; the one that was touched least recently goes first.
#[derive(Clone, Debug)]
pub(super) struct Table {
    entries: Vec<Entry>,
    capacity: usize,
    stamps: u64,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Table {
        Table { entries: Vec::with_capacity(capacity), capacity, stamps: 0 }
    }

    /// The stream that a read goes on with, of which `page` is missing, with `before` cached pages before that.
    pub(super) fn find(&self, access: &Access, page: u64, before: u32) -> Option<usize> {
        self.entries.iter().position(|entry| match &entry.kind {
            Kind::Forward(stream) => {
                let is_recent = self.stamps - entry.stamp < RECENT;
                stream.takes(page, before, entry.proven && is_recent)
            }
            Kind::Steps(stream) => stream.takes(access),
        })
    }

    /// Whether a read goes on where one of a stream of reads a fixed distance apart ended.
    pub(super) fn goes_on(&self, access: &Access) -> bool {
        self.entries.iter().any(|entry| matches!(&entry.kind, Kind::Steps(stream) if stream.goes_on(access)))
    }

    /// The stream whose marker is on a page.
    pub(super) fn marked(&self, page: u64) -> Option<usize> {
        self.entries.iter().position(|entry| match &entry.kind {
            Kind::Forward(stream) => stream.mark == Some(page),
            Kind::Steps(stream) => stream.mark == Some(page),
        })
    }

    /// A stream, which is now the one touched last.
    pub(super) fn touch(&mut self, index: usize) -> &mut Entry {
        self.stamps += 1;
        let entry = &mut self.entries[index];
        entry.stamp = self.stamps;
        entry
    }

    /// Takes a stream in, and gives the one that had to go for it.
    pub(super) fn insert(&mut self, kind: Kind) -> Option<Entry> {
        self.stamps += 1;
        let entry = Entry { kind, proven: false, windows: 0, stamp: self.stamps };
        if self.entries.len() < self.capacity {
            self.entries.push(entry);
            return None;
        }
        let oldest = self.entries.iter_mut().min_by_key(|entry| entry.stamp)?;
        Some(core::mem::replace(oldest, entry))
    }
}
