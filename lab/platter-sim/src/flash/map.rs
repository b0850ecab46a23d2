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
    chunks: Vec<Option<Box<[u32; CHUNK]>>>,
}

impl Map {
    pub(super) fn new(units: u32) -> Map {
        Map { chunks: (0..(units as usize).div_ceil(CHUNK)).map(|_| None).collect() }
    }

    #[inline]
    pub(super) fn get(&self, unit: u32) -> Entry {
        let chunk = &self.chunks[unit as usize / CHUNK];
        match chunk.as_ref().map_or(INITIAL, |chunk| chunk[unit as usize % CHUNK]) {
            INITIAL => Entry::Initial,
            NOWHERE => Entry::Nowhere,
            place => Entry::At(place - 1),
        }
    }

    #[inline]
    pub(super) fn set(&mut self, unit: u32, place: Option<u32>) {
        let chunk = self.chunks[unit as usize / CHUNK].get_or_insert_with(|| Box::new([INITIAL; CHUNK]));
        chunk[unit as usize % CHUNK] = place.map_or(NOWHERE, |place| place + 1);
    }

    /// Number of units from this one on that are in their initial state because no entry near them was ever
    /// changed.
    pub(super) fn untouched(&self, unit: u32) -> u32 {
        match self.chunks[unit as usize / CHUNK] {
            None => (CHUNK - unit as usize % CHUNK) as u32,
            Some(_) => 0,
        }
    }
}
