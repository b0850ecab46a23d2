//! The streams of a handle.

use super::forward::Forward;
use super::steps::Steps;
use crate::readahead::Access;

/// A stream that is not among this many touched last may not skip pages: nearby reads are not part of it.
const RECENT: u64 = 16;

/// The kind of a stream.
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
    /// Number of markers touched.
    pub(super) windows: u64,
    /// Time of the last touch.
    stamp: u64,
}

impl Entry {
    /// Marks the first window as used; returns whether it was not marked before.
    pub(super) fn prove(&mut self) -> bool {
        !core::mem::replace(&mut self.proven, true)
    }
}

/// The streams; the least recently touched one is replaced first.
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

    /// The stream that a read continues, whose `page` is missing with `before` cached pages before it; if `exact`, only where
    /// the stream ended.
    pub(super) fn find(&self, access: &Access, page: u64, before: u32, exact: bool) -> Option<usize> {
        self.entries.iter().position(|entry| match &entry.kind {
            Kind::Forward(stream) if exact => stream.ends_at(page),
            Kind::Forward(stream) => {
                let is_recent = self.stamps - entry.stamp < RECENT;
                stream.takes(page, before, entry.proven && is_recent)
            }
            Kind::Steps(stream) => stream.takes(access),
        })
    }

    /// Whether a read continues where a read of a strided stream ended.
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

    /// Forgets all streams.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// Returns a stream and makes it the most recently touched.
    pub(super) fn touch(&mut self, index: usize) -> &mut Entry {
        self.stamps += 1;
        let entry = &mut self.entries[index];
        entry.stamp = self.stamps;
        entry
    }

    /// Adds a stream, and returns the one that it replaced.
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
