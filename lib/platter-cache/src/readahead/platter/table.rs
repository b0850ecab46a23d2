//! The streams of a handle.

use super::forward::Forward;
use super::grid::Grid;
use super::keys::Keys;
use super::recency::Recency;
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

impl Kind {
    /// First and last of the pages at which a read may continue it.
    fn range(&self) -> (u64, u64) {
        match self {
            Kind::Forward(stream) => stream.range(),
            Kind::Steps(stream) => stream.range(),
        }
    }

    /// The page with the marker.
    fn mark(&self) -> Option<u64> {
        match self {
            Kind::Forward(stream) => stream.mark,
            Kind::Steps(stream) => stream.mark,
        }
    }
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

/// The streams, with indexes of what is looked up; the least recently touched one is replaced first.
#[derive(Clone, Debug)]
pub(super) struct Table {
    entries: Vec<Entry>,
    capacity: usize,
    stamps: u64,
    by_page: Grid,
    by_mark: Keys,
    recency: Recency,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Table {
        Table {
            entries: Vec::with_capacity(capacity),
            capacity,
            stamps: 0,
            by_page: Grid::new(capacity),
            by_mark: Keys::new(capacity),
            recency: Recency::new(capacity),
        }
    }

    /// The first stream that a read continues, whose `page` is missing with `before` cached pages before it; if `exact`, only
    /// where the stream ended.
    pub(super) fn find(&self, access: &Access, page: u64, before: u32, exact: bool) -> Option<usize> {
        let continues = |slot: usize| {
            let entry = &self.entries[slot];
            match &entry.kind {
                Kind::Forward(stream) if exact => stream.ends_at(page),
                Kind::Forward(stream) => {
                    let is_recent = self.stamps - entry.stamp < RECENT;
                    stream.takes(page, before, entry.proven && is_recent)
                }
                Kind::Steps(stream) => stream.takes(access),
            }
        };
        // Where a stream is expected: at the missing page, or for strided ones at the read's first.
        let (from, first) = (page.saturating_sub(u64::from(before)), access.first);
        let found = self.by_page.find((from, page), continues);
        if (from..=page).contains(&first) {
            return found;
        }
        let at_first = self.by_page.find((first, first), continues);
        found.into_iter().chain(at_first).min()
    }

    /// Whether a read continues where a read of a strided stream ended.
    pub(super) fn goes_on(&self, access: &Access) -> bool {
        let goes_on =
            |slot: usize| matches!(&self.entries[slot].kind, Kind::Steps(stream) if stream.goes_on(access));
        self.by_page.find((access.first, access.first), goes_on).is_some()
    }

    /// The first stream whose marker is on a page.
    pub(super) fn marked(&self, page: u64) -> Option<usize> {
        self.by_mark.slots(page).filter(|&slot| self.entries[slot].kind.mark() == Some(page)).min()
    }

    /// Forgets all streams.
    pub(super) fn clear(&mut self) {
        for (slot, entry) in self.entries.drain(..).enumerate() {
            if let Some(mark) = entry.kind.mark() {
                self.by_mark.remove(slot, mark);
            }
        }
        self.by_page.clear();
        self.recency.clear();
    }

    /// Changes a stream, and makes it the most recently touched.
    pub(super) fn touch(&mut self, slot: usize, change: impl FnOnce(&mut Entry)) {
        self.stamps += 1;
        self.recency.touch(slot);
        let entry = &mut self.entries[slot];
        entry.stamp = self.stamps;
        let mark = entry.kind.mark();
        change(entry);
        let (range, new_mark) = (entry.kind.range(), entry.kind.mark());
        self.by_page.set(slot, range.0, range.1);
        if mark != new_mark {
            self.index_mark(slot, mark, new_mark);
        }
    }

    fn index_mark(&mut self, slot: usize, old: Option<u64>, new: Option<u64>) {
        if let Some(old) = old {
            self.by_mark.remove(slot, old);
        }
        if let Some(new) = new {
            self.by_mark.insert(slot, new);
        }
    }

    /// Adds a stream, and returns the one that it replaced.
    pub(super) fn insert(&mut self, kind: Kind) -> Option<Entry> {
        self.stamps += 1;
        let entry = Entry { kind, proven: false, windows: 0, stamp: self.stamps };
        let (range, mark) = (entry.kind.range(), entry.kind.mark());
        let (slot, replaced) = if self.entries.len() < self.capacity {
            self.entries.push(entry);
            (self.entries.len() - 1, None)
        } else {
            let slot = self.recency.oldest()?;
            (slot, Some(std::mem::replace(&mut self.entries[slot], entry)))
        };
        self.recency.touch(slot);
        self.by_page.set(slot, range.0, range.1);
        self.index_mark(slot, replaced.as_ref().and_then(|entry| entry.kind.mark()), mark);
        replaced
    }
}

#[cfg(test)]
mod tests;
