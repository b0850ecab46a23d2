//! What a snapshot's store holds: a header in two copies, a table, and chunks.
//!
//! Slot `n` of the table names the chunk of the origin whose contents are in the `n`th chunk of the store. The table has
//! blocks of 512 bytes, which a power cut leaves old or new, so a block is written again in place when an entry is added.
//! Each block carries the number of its snapshot and a checksum. All blocks are written when a snapshot is made, so one that
//! is not sound is damaged. They are read and written in groups of 4096 bytes, the largest logical block.

use std::ops::Range;

const MAGIC: [u8; 8] = *b"PLTSNAP1";
/// Bytes of an encoded header.
pub(super) const HEADER: usize = 512;
/// Where the copies of the header are.
pub(super) const COPIES: [u64; 2] = [0, 4096];
const TABLE: u64 = 8192;
/// Bytes of a group of blocks.
pub(super) const GROUP: u64 = 4096;
const BLOCK: usize = 512;
/// Bytes of a block of the table after its entries: number of the snapshot, index, CRC32C.
const FOOTER: usize = 16;
/// Entries of a block and of a group.
const PER_BLOCK: usize = (BLOCK - FOOTER) / 8;
pub(super) const PER_GROUP: u64 = PER_BLOCK as u64 * GROUP / BLOCK as u64;
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

    /// Groups of the table.
    pub(super) fn groups(&self) -> u64 {
        self.slots.div_ceil(PER_GROUP)
    }

    /// Where a group of the table is.
    pub(super) fn group_pos(&self, index: u64) -> u64 {
        TABLE + index * GROUP
    }

    /// Where the chunk of a slot is.
    pub(super) fn data_pos(&self, slot: u64) -> u64 {
        self.group_pos(self.groups()) + slot * self.chunk
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

/// Writes the entries of a group of the table.
pub(super) fn encode_group(header: &Header, index: u64, entries: &[u64], out: &mut [u8]) {
    out.fill(0);
    for (nth, block) in out.chunks_exact_mut(BLOCK).enumerate() {
        let entries = entries.iter().skip(nth * PER_BLOCK).take(PER_BLOCK);
        for (place, entry) in block.chunks_exact_mut(8).zip(entries) {
            place.copy_from_slice(&entry.to_le_bytes());
        }
        let foot = BLOCK - FOOTER;
        block[foot..foot + 8].copy_from_slice(&header.id.to_le_bytes());
        let number = index * (GROUP / BLOCK as u64) + nth as u64;
        block[foot + 8..foot + 12].copy_from_slice(&(number as u32).to_le_bytes());
        let sum = crc32c::crc32c(&block[..foot + 12]);
        block[foot + 12..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Reads the entries of a group of the table.
pub(super) fn decode_group(header: &Header, index: u64, bytes: &[u8]) -> Result<Vec<u64>, String> {
    let mut entries = Vec::new();
    for (nth, block) in (0..).zip(bytes.chunks_exact(BLOCK)) {
        let foot = BLOCK - FOOTER;
        let number = index * (GROUP / BLOCK as u64) + nth;
        let tail = u64_at(block, foot + 8);
        let sum = crc32c::crc32c(&block[..foot + 12]);
        if u64_at(block, foot) != header.id || tail as u32 != number as u32 || (tail >> 32) as u32 != sum {
            return Err(format!("block {number} of its table is damaged"));
        }
        entries.extend(block[..foot].chunks_exact(8).map(|word| u64_at(word, 0)));
    }
    Ok(entries)
}
