//! The table from units of the host to places on the flash; only changed parts are in memory.

/// Entries that are allocated together.
const CHUNK: usize = 1024;

/// As initially.
const INITIAL: u32 = 0;
/// Not mapped.
const NOWHERE: u32 = u32::MAX;

/// The entry of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// At its initial place.
    Initial,
    /// Not mapped.
    Nowhere,
    /// At this place, counted over the whole disk.
    At(u32),
}

/// Four bytes for each unit of a chunk in which one was changed.
#[derive(Debug)]
pub(super) struct Map {
    /// A bit for each chunk: whether it is in memory. Collection asks for units all over a disk; these few bytes stay in the
    /// processor's cache, and what follows does not.
    present: Vec<u64>,
    /// Where each chunk that is in memory lies in `chunks`.
    index: Vec<u32>,
    chunks: Vec<Box<[u32; CHUNK]>>,
}

impl Map {
    pub(super) fn new(units: u32) -> Map {
        let count = (units as usize).div_ceil(CHUNK);
        Map { present: vec![0; count.div_ceil(64)], index: vec![0; count], chunks: Vec::new() }
    }

    #[inline]
    fn is_present(&self, chunk: usize) -> bool {
        self.present[chunk / 64] >> (chunk % 64) & 1 != 0
    }

    #[inline]
    pub(super) fn get(&self, unit: u32) -> Entry {
        let (chunk, at) = (unit as usize / CHUNK, unit as usize % CHUNK);
        if !self.is_present(chunk) {
            return Entry::Initial;
        }
        match self.chunks[self.index[chunk] as usize][at] {
            INITIAL => Entry::Initial,
            NOWHERE => Entry::Nowhere,
            place => Entry::At(place - 1),
        }
    }

    #[inline]
    pub(super) fn set(&mut self, unit: u32, place: Option<u32>) {
        let (chunk, at) = (unit as usize / CHUNK, unit as usize % CHUNK);
        if !self.is_present(chunk) {
            self.present[chunk / 64] |= 1 << (chunk % 64);
            self.index[chunk] = self.chunks.len() as u32;
            self.chunks.push(Box::new([INITIAL; CHUNK]));
        }
        self.chunks[self.index[chunk] as usize][at] = place.map_or(NOWHERE, |place| place + 1);
    }

    /// Number of units from this one on that are in their initial state because no entry near them was ever
    /// changed.
    pub(super) fn untouched(&self, unit: u32) -> u32 {
        if self.is_present(unit as usize / CHUNK) { 0 } else { (CHUNK - unit as usize % CHUNK) as u32 }
    }
}
