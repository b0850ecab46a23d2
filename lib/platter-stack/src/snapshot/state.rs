//! What a snapshot knows of its store: which chunks are there.

use super::format::{self, Header, Status, TABLE};
use crate::kit::{Below, Run, Table};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

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
    /// By chunk: its slot.
    pub(super) kept: BTreeMap<u64, u64>,
    pub(super) table: Arc<Table>,
    pub(super) health: Health,
    pub(super) refusal: Option<String>,
}

impl State {
    pub(super) fn new(header: Header, below: &Below) -> State {
        let table = Table::new(below, super::STORE, TABLE, header.id, header.slots);
        let health = match header.status {
            Status::Invalid => {
                Health::Failed("its store was full, or failed, when the origin changed".into(), true)
            }
            _ => Health::Good,
        };
        State { header, kept: BTreeMap::new(), table, health, refusal: None }
    }

    /// Takes the entries of the table that was read.
    pub(super) fn load(&mut self, entries: Vec<(u64, u64)>) -> Result<(), String> {
        for (slot, entry) in entries {
            let Some((chunk, _)) = format::of_entry(entry) else { continue };
            let known = self.kept.insert(chunk, slot);
            if known.is_some() || chunk >= self.header.size.div_ceil(self.header.chunk) {
                return Err(format!("slot {slot} of its table names chunk {chunk}, which cannot be"));
            }
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

    /// The copy of a chunk from the origin to a slot.
    pub(super) fn run(&self, chunk: u64, slot: u64) -> Run {
        let bytes = self.bytes(chunk);
        Run { from: bytes.start, to: self.header.data_pos(slot), len: bytes.end - bytes.start }
    }

    /// Whether the store has a chunk, durably.
    pub(super) fn has_durably(&self, chunk: u64) -> bool {
        self.kept.get(&chunk).is_some_and(|&slot| self.table.is_durable(slot))
    }

    pub(super) fn keep(&mut self, chunk: u64, slot: u64, written: bool) {
        self.kept.insert(chunk, slot);
        self.table.set(slot, format::entry(chunk, written));
    }

    /// Whether a chunk in the store was written through the view.
    pub(super) fn is_written(&self, chunk: u64) -> bool {
        let entry = self.kept.get(&chunk).and_then(|&slot| format::of_entry(self.table.get(slot)));
        entry.is_some_and(|(_, written)| written)
    }

    /// Marks a chunk that holds a sample as written through the view. Returns whether the table changes by that.
    pub(super) fn set_written(&mut self, chunk: u64) -> bool {
        let Some(&slot) = self.kept.get(&chunk) else { return false };
        let changes = !self.is_written(chunk) && self.header.samples_in(self.bytes(chunk));
        if changes {
            self.table.set(slot, format::entry(chunk, true));
        }
        changes
    }

    /// Where bytes of the snapshot's view are: on the origin or in the store, and how many follow there.
    pub(super) fn find(&self, pos: u64) -> (usize, u64, u64) {
        let (chunk, skip) = (pos / self.header.chunk, pos % self.header.chunk);
        let place = |slot: u64| self.header.data_pos(slot) + skip;
        let rest = self.bytes(chunk).end - pos;
        self.kept.get(&chunk).map_or((super::ORIGIN, pos, rest), |&slot| (super::STORE, place(slot), rest))
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
