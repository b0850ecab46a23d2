//! What a snapshot's store holds: a header in two copies, a table, and chunks.
//!
//! Slot `n` of the table names the chunk of the origin whose contents are in the `n`th chunk of the store. The header is a
//! record in two copies and the table a [`Table`] of the kit, numbered as the snapshot.

use crate::kit::{COPIES_BYTES, Table};
use std::ops::Range;

const MAGIC: [u8; 8] = *b"PLTSNAP1";
/// Bytes of an encoded header.
pub(super) const HEADER: usize = 512;
/// Where the table is.
pub(super) const TABLE: u64 = COPIES_BYTES;
const SAMPLES: usize = 32;
/// Bytes of the origin that one sample covers.
pub(super) const SAMPLE: u64 = 4096;
/// Of an entry: the chunk was written through the snapshot's view, so it does not have the origin's old contents.
const WRITTEN: u64 = 1 << 63;

/// What a snapshot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Valid = 1,
    Invalid = 2,
    Merging = 3,
    Merged = 4,
}

/// The header of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) status: Status,
    /// Grows with each header that is written.
    pub(super) sequence: u64,
    pub(super) id: u64,
    pub(super) chunk: u64,
    /// Bytes of the origin.
    pub(super) size: u64,
    pub(super) slots: u64,
    /// Identifies the origin's file; 0: it is no file.
    pub(super) origin: u64,
    /// CRC32C of some parts of the origin.
    pub(super) samples: [u32; SAMPLES],
}

impl Header {
    /// As many slots as a store of `store` bytes has room for.
    pub(super) fn fit(mut self, store: u64) -> Header {
        let chunks = self.size.div_ceil(self.chunk);
        self.slots = (store / self.chunk).min(chunks);
        while self.slots > 0 && self.data_pos(self.slots) > store {
            // What is too much is the table, less than a chunk for every 64th; so this ends soon.
            self.slots -= 1 + (self.data_pos(self.slots) - store) / (2 * self.chunk);
        }
        self
    }

    /// Where the chunk of a slot is.
    pub(super) fn data_pos(&self, slot: u64) -> u64 {
        TABLE + Table::bytes(self.slots) + slot * self.chunk
    }

    /// The parts of the origin that are sampled: its beginning, its end, where most file systems differ, and some between.
    pub(super) fn sample_pos(&self, nth: usize) -> Range<u64> {
        let (last, nth) = ((self.size / SAMPLE).saturating_sub(1), nth as u64);
        let at = if nth < 18 { nth.min(last) } else { last * (nth - 17) / (SAMPLES as u64 - 18) };
        at * SAMPLE..((at + 1) * SAMPLE).min(self.size)
    }

    /// Whether a range of the origin holds a sample.
    pub(super) fn samples_in(&self, range: Range<u64>) -> bool {
        (0..SAMPLES).any(|nth| range.contains(&self.sample_pos(nth).start))
    }

    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut out = Vec::from(MAGIC);
        let words = [self.status as u64, self.sequence, self.id, self.chunk, self.size, self.slots, 0];
        words.iter().chain([&self.origin]).for_each(|word| out.extend(word.to_le_bytes()));
        self.samples.iter().for_each(|sample| out.extend(sample.to_le_bytes()));
        out.resize(HEADER - 4, 0);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        let mut bytes = [0; HEADER];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// `None`: there is no sound header.
    pub(super) fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes = bytes.get(..HEADER)?;
        let word = |at: usize| u64_at(bytes, 8 * at);
        let sum = bytes[HEADER - 4..].try_into().map(u32::from_le_bytes).ok()?;
        let kinds = [Status::Valid, Status::Invalid, Status::Merging, Status::Merged];
        let status = kinds.into_iter().find(|kind| *kind as u64 == word(1));
        if bytes[..8] != MAGIC || sum != crc32c::crc32c(&bytes[..HEADER - 4]) {
            return None;
        }
        let samples = std::array::from_fn(|nth| u64_at(bytes, 72 + 4 * nth) as u32);
        let [sequence, id, chunk, size, slots, origin] = [2, 3, 4, 5, 6, 8].map(word);
        let header = Header { status: status?, sequence, id, chunk, size, slots, origin, samples };
        let sound = chunk.is_power_of_two() && (4096..1 << 27).contains(&chunk);
        (sound && size < 1 << 63 && slots <= size.div_ceil(chunk)).then_some(header)
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// An entry of the table: 0, or a chunk and whether it was written through the view.
pub(super) fn entry(chunk: u64, written: bool) -> u64 {
    (chunk + 1) | if written { WRITTEN } else { 0 }
}

/// The chunk of an entry, and whether it was written through the view.
pub(super) fn of_entry(entry: u64) -> Option<(u64, bool)> {
    Some(((entry & !WRITTEN).checked_sub(1)?, entry & WRITTEN != 0))
}
