//! What a snapshot knows of its store: which chunks are there, and which blocks of the table are not durable yet.

use super::format::{self, Header, PER_GROUP, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A chunk that is in the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) slot: u64,
    /// The table says so, durably.
    pub(super) durable: bool,
}

/// Whether the snapshot can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Good,
    /// It is invalid, for this reason, and the header is being written that says so.
    Failing(String),
    /// It is invalid. `false`: the store could not be told yet.
    Failed(String, bool),
}

pub(super) struct State {
    pub(super) header: Header,
    pub(super) kept: BTreeMap<u64, Kept>,
    /// By slot: the entry of the table; 0: free.
    pub(super) table: Vec<u64>,
    /// Slots before it are not free.
    next: u64,
    /// Slots that are taken and not kept yet.
    taken: BTreeSet<u64>,
    /// Groups of the table with entries that are not durable.
    pub(super) dirty: BTreeSet<u64>,
    /// Counts the entries that were changed, and those of them that are durable.
    pub(super) changes: u64,
    pub(super) durable: u64,
    pub(super) committing: bool,
    pub(super) health: Health,
    pub(super) refusal: Option<String>,
}

impl State {
    pub(super) fn new(header: Header) -> State {
        let table = vec![0; header.slots as usize];
        let health = match header.status {
            Status::Invalid => {
                Health::Failed("its store was full, or failed, when the origin changed".into(), true)
            }
            _ => Health::Good,
        };
        let (kept, dirty, taken) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        let (next, changes, durable, committing, refusal) = (0, 0, 0, false, None);
        State { header, kept, table, next, taken, dirty, changes, durable, committing, health, refusal }
    }

    /// Takes the entries of a group of the table that was read.
    pub(super) fn load(&mut self, index: u64, entries: &[u64]) -> Result<(), String> {
        let first = index * PER_GROUP;
        for (slot, &entry) in (first..self.header.slots).zip(entries) {
            let Some((chunk, _)) = format::of_entry(entry) else { continue };
            let known = self.kept.insert(chunk, Kept { slot, durable: true });
            if known.is_some() || chunk >= self.header.size.div_ceil(self.header.chunk) {
                return Err(format!("slot {slot} of its table names chunk {chunk}, which cannot be"));
            }
            self.table[slot as usize] = entry;
        }
        Ok(())
    }

    pub(super) fn is_good(&self) -> bool {
        self.health == Health::Good
    }

    /// Chunks of a range of bytes.
    pub(super) fn chunks(&self, pos: u64, len: u64) -> Range<u64> {
        pos / self.header.chunk..(pos + len).div_ceil(self.header.chunk)
    }

    /// Bytes of a chunk on the origin.
    pub(super) fn bytes(&self, chunk: u64) -> Range<u64> {
        let start = chunk * self.header.chunk;
        start..(start + self.header.chunk).min(self.header.size)
    }

    /// Takes a free slot, to be [kept](State::keep) or given back.
    pub(super) fn take_slot(&mut self) -> Option<u64> {
        let is_free = |slot: &u64| self.table[*slot as usize] == 0 && !self.taken.contains(slot);
        let free = (self.next..self.header.slots).find(is_free)?;
        self.next = free + 1;
        self.taken.insert(free);
        Some(free)
    }

    /// Gives back a slot whose chunk could not be written.
    pub(super) fn free_slot(&mut self, slot: u64) {
        self.taken.remove(&slot);
        self.next = self.next.min(slot);
    }

    pub(super) fn keep(&mut self, chunk: u64, slot: u64, written: bool) {
        self.taken.remove(&slot);
        self.kept.insert(chunk, Kept { slot, durable: false });
        self.set(slot, format::entry(chunk, written));
    }

    /// Marks a chunk that holds a sample as written through the view. Returns whether the table changes by that.
    pub(super) fn set_written(&mut self, chunk: u64) -> bool {
        let Some(&Kept { slot, .. }) = self.kept.get(&chunk) else { return false };
        let entry = format::entry(chunk, true);
        let bytes = self.bytes(chunk);
        let changes = self.table[slot as usize] != entry && self.header.samples_in(bytes);
        if changes {
            self.set(slot, entry);
        }
        changes
    }

    /// Changes the table's entry of a slot.
    pub(super) fn set(&mut self, slot: u64, entry: u64) {
        self.table[slot as usize] = entry;
        self.dirty.insert(slot / PER_GROUP);
        self.changes += 1;
    }

    /// The entries of a group of the table.
    pub(super) fn entries(&self, index: u64) -> &[u64] {
        let first = (index * PER_GROUP) as usize;
        &self.table[first..self.table.len().min(first + PER_GROUP as usize)]
    }

    /// The slots of a group of the table that are not free.
    pub(super) fn slots(&self, index: u64) -> Vec<u64> {
        let first = index * PER_GROUP;
        (first..).zip(self.entries(index)).filter(|(_, entry)| **entry != 0).map(|(slot, _)| slot).collect()
    }

    /// Records that this number of changes is durable, among them the entries of these slots.
    pub(super) fn committed(&mut self, changes: u64, slots: &[u64]) {
        self.durable = self.durable.max(changes);
        for &slot in slots {
            let entry = self.table.get(slot as usize).copied().and_then(format::of_entry);
            let kept = entry.and_then(|(chunk, _)| self.kept.get_mut(&chunk));
            kept.into_iter().for_each(|kept| kept.durable = true);
        }
    }

    /// Where bytes of the snapshot's view are: on the origin or in the store, and how many follow there.
    pub(super) fn find(&self, pos: u64) -> (usize, u64, u64) {
        let (chunk, skip) = (pos / self.header.chunk, pos % self.header.chunk);
        let place = |kept: &Kept| self.header.data_pos(kept.slot) + skip;
        let rest = self.bytes(chunk).end - pos;
        self.kept.get(&chunk).map_or((super::ORIGIN, pos, rest), |kept| (super::STORE, place(kept), rest))
    }

    /// The contiguous runs of a range of the view: offset in the range, device, position there, length.
    pub(super) fn runs(&self, pos: u64, len: u64) -> Vec<(u64, usize, u64, u64)> {
        let mut runs: Vec<(u64, usize, u64, u64)> = Vec::new();
        let mut at = 0;
        while at < len {
            let (device, place, rest) = self.find(pos + at);
            let rest = rest.min(len - at);
            match runs.last_mut() {
                Some((_, same, start, run)) if *same == device && *start + *run == place => *run += rest,
                _ => runs.push((at, device, place, rest)),
            }
            at += rest;
        }
        runs
    }
}
