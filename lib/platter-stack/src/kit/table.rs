//! A table that a layer keeps on a device below, and that survives a power cut at any time.
//!
//! An entry is a number other than 0; 0 is a free entry. Blocks of 512 bytes, which a power cut leaves old or new, are written
//! again in place when entries in them change. Each block carries the number of its table, its index and a checksum. All
//! blocks are written when the table is made, so one that is not sound is damaged. They are read and written in groups of
//! 4096 bytes, the largest logical block.
//!
//! A [commit](Table::commit) flushes the device before it writes the blocks, so an entry never names data that is not
//! durable. Commits that are asked for while one is under way share the next one.

use super::core::Below;
use super::memory::Buffer;
use super::wait::Event;
use crate::sync::{Mutex, MutexGuard, lock};
use platter_block::bio::Flags;
use platter_block::fault::{Fault, Status};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of a group of blocks: the unit in which the table is read and written.
pub const GROUP: u64 = 4096;

const BLOCK: usize = 512;
/// Bytes of a block after its entries: number of the table, index, CRC32C.
const FOOTER: usize = 16;
const PER_BLOCK: usize = (BLOCK - FOOTER) / 8;
const PER_GROUP: u64 = PER_BLOCK as u64 * GROUP / BLOCK as u64;
/// Groups that are read or made at a time.
const STEP: u64 = 256;

/// Why a table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// It cannot be read.
    Io(Fault),
    /// A block is not sound; its number.
    Damaged(u64),
}

/// See the module.
pub struct Table {
    below: Below,
    device: usize,
    pos: u64,
    id: u64,
    state: Mutex<Entries>,
    /// A commit has ended.
    ended: Arc<Event>,
}

#[derive(Default)]
struct Entries {
    entries: Vec<u64>,
    /// Entries before it are not free.
    next: u64,
    /// Entries that are taken and not set yet.
    taken: BTreeSet<u64>,
    /// Groups with entries that are not durable.
    dirty: BTreeSet<u64>,
    /// Counts the changes, and those of them that are durable.
    changes: u64,
    durable: u64,
    /// Entries whose last change is not durable, with the number of that change.
    pending: BTreeMap<u64, u64>,
    committing: bool,
}

impl Table {
    /// A table of `count` free entries at a multiple of [`GROUP`] of a device. `id` tells it from other tables that were at
    /// the same place. Nothing is written or read.
    pub fn new(below: &Below, device: usize, pos: u64, id: u64, count: u64) -> Arc<Table> {
        let state = Entries { entries: vec![0; count as usize], ..Entries::default() };
        let (below, ended) = (below.clone(), Event::new(below));
        Arc::new(Table { below, device, pos, id, state: Mutex::new(state), ended })
    }

    /// Bytes that a table of `count` entries takes on its device.
    pub fn bytes(count: u64) -> u64 {
        count.div_ceil(PER_GROUP) * GROUP
    }

    fn state(&self) -> MutexGuard<'_, Entries> {
        lock(&self.state)
    }

    /// An entry.
    pub fn get(&self, index: u64) -> u64 {
        self.state().entries[index as usize]
    }

    /// Changes an entry; 0 makes it free. The change is durable when a [commit](Table::commit) that begins after it has ended.
    pub fn set(&self, index: u64, entry: u64) {
        let mut state = self.state();
        state.taken.remove(&index);
        state.entries[index as usize] = entry;
        state.dirty.insert(index / PER_GROUP);
        state.changes += 1;
        let change = state.changes;
        state.pending.insert(index, change);
    }

    /// Whether the device has an entry as it is, durably.
    pub fn is_durable(&self, index: u64) -> bool {
        !self.state().pending.contains_key(&index)
    }

    /// Takes a free entry, to be [set](Table::set) or [given back](Table::give_back). An entry that was made free can be taken
    /// when that is durable: what it named may be used again only then.
    pub fn take(&self) -> Option<u64> {
        let mut state = self.state();
        let is_free = |index: &u64| {
            state.entries[*index as usize] == 0
                && !state.taken.contains(index)
                && !state.pending.contains_key(index)
        };
        let free = (state.next..state.entries.len() as u64).find(is_free)?;
        // What is free and cannot be taken yet is found again when it is durable.
        state.next = free + 1;
        state.taken.insert(free);
        Some(free)
    }

    /// Gives back an entry that was taken.
    pub fn give_back(&self, index: u64) {
        let mut state = self.state();
        state.taken.remove(&index);
        state.next = state.next.min(index);
    }

    /// Writes a table of free entries. It is durable after a flush of the device.
    ///
    /// # Errors
    /// That of a write.
    pub async fn make(&self) -> Status {
        let groups = Table::bytes(self.state().entries.len() as u64) / GROUP;
        for first in (0..groups).step_by(STEP as usize) {
            let mut empty = Buffer::new((STEP.min(groups - first) * GROUP) as usize);
            for (group, bytes) in (first..).zip(empty.bytes_mut().chunks_exact_mut(GROUP as usize)) {
                self.encode(group, &[], bytes);
            }
            self.below.write(self.device, self.pos + first * GROUP, empty, Flags::NONE).await?;
        }
        Ok(())
    }

    /// Reads the table. Returns the entries that are not free, with their indexes. All entries then count as durable: the caller
    /// flushes the device before, because it may still have them in a volatile cache.
    ///
    /// # Errors
    /// An I/O error, or a damaged block.
    pub async fn load(&self) -> Result<Vec<(u64, u64)>, TableError> {
        let count = self.state().entries.len();
        let groups = Table::bytes(count as u64) / GROUP;
        let mut entries = Vec::new();
        for first in (0..groups).step_by(STEP as usize) {
            let buffer = Buffer::new((STEP.min(groups - first) * GROUP) as usize);
            let read = self.below.read(self.device, self.pos + first * GROUP, buffer).await;
            let buffer = read.map_err(TableError::Io)?;
            for (group, bytes) in (first..).zip(buffer.bytes().chunks_exact(GROUP as usize)) {
                self.decode(group, bytes, &mut entries).map_err(TableError::Damaged)?;
            }
        }
        entries.truncate(count);
        let used =
            (0..).zip(&entries).filter(|(_, entry)| **entry != 0).map(|(at, &entry)| (at, entry)).collect();
        self.state().entries = entries;
        Ok(used)
    }

    /// Makes all changes durable that were made before this call, and the data that they name. Returns whether the device was
    /// flushed after the call; otherwise a commit that had begun was enough.
    ///
    /// # Errors
    /// That of the flush or of a write. The changes stay to be made durable.
    pub async fn commit(&self) -> Result<bool, Fault> {
        let wanted = self.state().changes;
        let mut flushed = false;
        loop {
            let (waits, is_done) = {
                let state = self.state();
                (state.committing, state.durable >= wanted)
            };
            match (is_done, waits) {
                (true, _) => return Ok(flushed),
                (false, true) => self.ended.wait().await,
                (false, false) => {
                    let status = self.write().await;
                    self.state().committing = false;
                    self.ended.happen();
                    status?;
                    flushed = true;
                }
            }
        }
    }

    async fn write(&self) -> Status {
        let (dirty, changes, blocks) = {
            let mut state = self.state();
            state.committing = true;
            let dirty = std::mem::take(&mut state.dirty);
            let block = |&group: &u64| {
                let mut buffer = Buffer::new(GROUP as usize);
                let entries = state.entries.iter().skip((group * PER_GROUP) as usize);
                let entries: Vec<u64> = entries.take(PER_GROUP as usize).copied().collect();
                self.encode(group, &entries, buffer.bytes_mut());
                (self.pos + group * GROUP, buffer)
            };
            let blocks: Vec<(u64, Buffer)> = dirty.iter().map(block).collect();
            (dirty, state.changes, blocks)
        };
        let mut status = self.below.flush(self.device).await;
        if status.is_ok() {
            let write = |(pos, buffer)| self.below.write(self.device, pos, buffer, Flags::FUA);
            let writes: Vec<_> = blocks.into_iter().map(write).collect();
            for write in writes {
                status = status.and(write.await.map(|_| ()));
            }
        }
        let mut state = self.state();
        match status {
            Ok(()) => state.committed(changes),
            Err(_) => state.dirty.extend(dirty),
        }
        status
    }

    /// Writes the entries of a group.
    fn encode(&self, group: u64, entries: &[u64], out: &mut [u8]) {
        out.fill(0);
        for (nth, block) in out.chunks_exact_mut(BLOCK).enumerate() {
            let entries = entries.iter().skip(nth * PER_BLOCK).take(PER_BLOCK);
            for (place, entry) in block.chunks_exact_mut(8).zip(entries) {
                place.copy_from_slice(&entry.to_le_bytes());
            }
            let foot = BLOCK - FOOTER;
            block[foot..foot + 8].copy_from_slice(&self.id.to_le_bytes());
            let number = group * (GROUP / BLOCK as u64) + nth as u64;
            block[foot + 8..foot + 12].copy_from_slice(&(number as u32).to_le_bytes());
            let sum = crc32c::crc32c(&block[..foot + 12]);
            block[foot + 12..].copy_from_slice(&sum.to_le_bytes());
        }
    }

    /// Appends the entries of a group. `Err`: the number of a damaged block.
    fn decode(&self, group: u64, bytes: &[u8], entries: &mut Vec<u64>) -> Result<(), u64> {
        for (nth, block) in (0..).zip(bytes.chunks_exact(BLOCK)) {
            let foot = BLOCK - FOOTER;
            let number = group * (GROUP / BLOCK as u64) + nth;
            let tail = u64_at(block, foot + 8);
            let sum = crc32c::crc32c(&block[..foot + 12]);
            if u64_at(block, foot) != self.id || tail as u32 != number as u32 || (tail >> 32) as u32 != sum {
                return Err(number);
            }
            entries.extend(block[..foot].chunks_exact(8).map(|word| u64_at(word, 0)));
        }
        Ok(())
    }
}

impl Entries {
    /// Records that this number of changes is durable.
    fn committed(&mut self, changes: u64) {
        self.durable = self.durable.max(changes);
        let (entries, next) = (&self.entries, &mut self.next);
        self.pending.retain(|&index, change| {
            let is_over = *change <= changes;
            if is_over && entries[index as usize] == 0 {
                *next = (*next).min(index);
            }
            !is_over
        });
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}
