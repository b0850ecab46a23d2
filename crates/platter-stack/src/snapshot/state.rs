//! What a snapshot knows of its store: which chunks are there.

use super::format::{self, Header, Status, TABLE};
use crate::kit::{Below, Run, Table};
use platter_block::fault::{Fault, Kind};
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

/// When a copy began.
#[derive(Clone, Copy)]
pub(super) struct Since {
    failures: u64,
    doubts: u64,
}

pub(super) struct State {
    pub(super) header: Header,
    /// By chunk: its slot.
    pub(super) kept: BTreeMap<u64, u64>,
    /// By chunk, if no flush has covered its copy: what the view has written there since a flush of the store failed. The rest is
    /// on the origin, and may be lost in the store.
    written: BTreeMap<u64, Vec<Range<u64>>>,
    /// Counts the flushes of the store that failed.
    failures: u64,
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
        let (kept, written) = (BTreeMap::new(), BTreeMap::new());
        State { header, kept, written, failures: 0, table, health, refusal: None }
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

    pub(super) fn since(&self) -> Since {
        Since { failures: self.failures, doubts: self.table.doubts() }
    }

    /// Whether a flush of the store has failed since then.
    pub(super) fn has_failed_since(&self, since: Since) -> bool {
        since.failures != self.failures
    }

    /// A chunk was copied to a slot, with a part that the view has written, or without.
    pub(super) fn keep(&mut self, chunk: u64, slot: u64, part: Option<Range<u64>>, since: Since) {
        self.kept.insert(chunk, slot);
        self.table.name(slot, format::entry(chunk, part.is_some()), since.doubts);
        if let Some(part) = part.filter(|_| !self.has_failed_since(since)) {
            self.wrote(chunk, part);
        }
    }

    /// The view has written a part of a chunk in the store.
    pub(super) fn wrote(&mut self, chunk: u64, mut part: Range<u64>) {
        if !self.kept.get(&chunk).is_some_and(|&slot| self.table.is_fresh(slot)) {
            return;
        }
        let ranges = self.written.entry(chunk).or_default();
        ranges.retain(|known| {
            let touches = known.start <= part.end && part.start <= known.end;
            if touches {
                part = part.start.min(known.start)..part.end.max(known.end);
            }
            !touches
        });
        ranges.push(part);
    }

    /// A flush of the store has failed so, or writing what follows one: it may have lost what was written before.
    pub(super) fn flush_failed(&mut self, since: Since, fault: Fault) {
        if fault.kind == Kind::InDoubt {
            // No flush was made.
            return;
        }
        self.failures += 1;
        self.written.clear();
        // It was acknowledged before it was known here.
        if self.table.doubts() != since.doubts {
            self.table.doubt();
        }
    }

    /// Chunks of a range whose copies may be lost.
    pub(super) fn doubtful(&self, chunks: Range<u64>) -> Vec<u64> {
        let entries = self.table.doubtful().into_iter();
        let of = |(_, entry)| format::of_entry(entry).map(|(chunk, _)| chunk);
        entries.filter_map(of).filter(|chunk| chunks.contains(chunk)).collect()
    }

    /// What of a chunk may be lost in the store, from the origin.
    pub(super) fn lost(&self, chunk: u64) -> Vec<Run> {
        let Some(&slot) = self.kept.get(&chunk) else { return Vec::new() };
        let bytes = self.bytes(chunk);
        let mut written = self.written.get(&chunk).cloned().unwrap_or_default();
        written.sort_unstable_by_key(|range| range.start);
        written.push(bytes.end..bytes.end);
        let (mut runs, mut at) = (Vec::new(), bytes.start);
        for range in written {
            if at < range.start {
                let to = self.header.data_pos(slot) + at - bytes.start;
                runs.push(Run { from: at, to, len: range.start - at });
            }
            at = range.end;
        }
        runs
    }

    /// What may have been lost of a chunk was copied again.
    pub(super) fn renew(&mut self, chunk: u64, since: Since) {
        if let Some(&slot) = self.kept.get(&chunk) {
            self.table.name(slot, self.table.get(slot), since.doubts);
        }
    }

    /// A flush has covered copies.
    pub(super) fn forget_written(&mut self) {
        let (kept, table) = (&self.kept, &self.table);
        self.written.retain(|chunk, _| kept.get(chunk).is_some_and(|&slot| table.is_fresh(slot)));
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
