//! What was accessed: counts and bytes by kind, sizes, seeks and sequential runs.

use super::spread::{Counter, Spread};
use crate::event::{Device, Direction, Event, Flags, Kind};
use std::collections::HashMap;

/// Blocks in which reuse and working sets are counted, in bytes.
pub(super) const BLOCK: u64 = 4096;
/// Blocks of an I/O that are counted at most.
const MOST_BLOCKS: u64 = 1 << 14;

/// The blocks of an I/O.
pub(super) fn blocks(event: &Event) -> impl Iterator<Item = u64> {
    let first = event.offset / BLOCK;
    let end = if event.length == 0 { first } else { event.end().div_ceil(BLOCK) };
    first..end.min(first + MOST_BLOCKS)
}

/// A hash of a block of a device.
pub(super) fn hash(device: u64, block: u64) -> u64 {
    // The mixing function of SplitMix64.
    let mut z =
        block.wrapping_add(device.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// I/Os and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// I/Os.
    pub ios: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Counted {
    fn add(&mut self, event: &Event) {
        self.ios += 1;
        self.bytes = self.bytes.saturating_add(event.length);
    }
}

/// The kinds: key, and the words for it.
pub const KINDS: [(&str, &str); 10] = [
    ("read", "reads"),
    ("write", "writes"),
    ("discard", "discards"),
    ("flush", "flushes without data"),
    ("other", "others"),
    ("preflush", "writes behind a flush"),
    ("fua", "forced unit access"),
    ("sync", "synchronous"),
    ("meta", "metadata"),
    ("ahead", "readahead"),
];

/// Sizes of I/Os: reads, writes and discards of at least this many bytes, and less than twice as many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The least size; 0 for none.
    pub from_bytes: u64,
    /// Reads, writes, discards.
    pub ios: [u64; 3],
}

/// Where I/Os go after the one before them on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seeks {
    /// Behind it.
    pub sequential: u64,
    /// To a later place.
    pub forward: u64,
    /// To an earlier one.
    pub backward: u64,
    /// How far, in bytes, of those that are not sequential.
    pub distance: Option<Spread>,
    /// I/Os of one direction behind each other: how many in a run.
    pub run_ios: Option<Spread>,
    /// How many bytes in a run.
    pub run_bytes: Option<Spread>,
}

#[derive(Default)]
struct Place {
    end: Option<u64>,
    direction: Direction,
    run_ios: u64,
    run_bytes: u64,
}

/// What was accessed.
#[derive(Default)]
pub(super) struct Accesses {
    pub(super) kinds: [Counted; 10],
    sizes: Vec<Sizes>,
    lengths: [Counter; 3],
    seeks: Seeks,
    distance: Counter,
    runs: [Counter; 2],
    places: HashMap<Device, Place>,
}

impl Accesses {
    pub(super) fn add(&mut self, event: &Event) {
        let kind = event.kind() as usize;
        self.kinds[kind].add(event);
        let is_flush = event.kind() == Kind::Flush;
        let marks = [Flags::PREFLUSH, Flags::FUA, Flags::SYNC, Flags::META, Flags::AHEAD];
        for (mark, counted) in marks.iter().zip(&mut self.kinds[5..]) {
            if event.flags.has(*mark) && !(is_flush && *mark == Flags::PREFLUSH) {
                counted.add(event);
            }
        }
        if kind > Kind::Discard as usize {
            return;
        }
        let bucket = (u64::BITS - event.length.leading_zeros()) as usize;
        if self.sizes.len() <= bucket {
            self.sizes.resize(bucket + 1, Sizes::default());
        }
        self.sizes[bucket].ios[kind] += 1;
        self.lengths[kind].add(event.length);
        if event.kind() != Kind::Discard {
            self.place(event);
        }
    }

    fn place(&mut self, event: &Event) {
        if !self.places.contains_key(&event.device) {
            self.places.insert(event.device.clone(), Place::default());
        }
        let Some(place) = self.places.get_mut(&event.device) else { return };
        let before = place.end.replace(event.end());
        let behind = before == Some(event.offset);
        match before {
            Some(end) if end < event.offset => self.seeks.forward += 1,
            Some(end) if end > event.offset => self.seeks.backward += 1,
            Some(_) => self.seeks.sequential += 1,
            None => {}
        }
        if let Some(end) = before.filter(|_| !behind) {
            self.distance.add(end.abs_diff(event.offset));
        }
        if !(behind && place.direction == event.direction) {
            Self::end_run(&mut self.runs, place);
            place.direction = event.direction;
        }
        place.run_ios += 1;
        place.run_bytes += event.length;
    }

    fn end_run(runs: &mut [Counter; 2], place: &mut Place) {
        let (ios, bytes) = (std::mem::take(&mut place.run_ios), std::mem::take(&mut place.run_bytes));
        if ios > 0 {
            runs[0].add(ios);
            runs[1].add(bytes);
        }
    }

    pub(super) fn seeks(&self) -> Seeks {
        let mut runs = self.runs.clone();
        for place in self.places.values() {
            let mut last = Place { run_ios: place.run_ios, run_bytes: place.run_bytes, ..Place::default() };
            Self::end_run(&mut runs, &mut last);
        }
        let [run_ios, run_bytes] = runs.map(|run| run.spread());
        Seeks { distance: self.distance.spread(), run_ios, run_bytes, ..self.seeks }
    }

    /// The sizes that there are.
    pub(super) fn sizes(&self) -> Vec<Sizes> {
        let from = |at: usize| if at == 0 { 0 } else { 1u64 << (at - 1) };
        let rows = self.sizes.iter().enumerate();
        rows.filter(|(_, row)| row.ios != [0; 3])
            .map(|(at, row)| Sizes { from_bytes: from(at), ..*row })
            .collect()
    }

    /// The lengths of reads, writes and discards.
    pub(super) fn lengths(&self) -> [Option<Spread>; 3] {
        [0, 1, 2].map(|at| self.lengths[at].spread())
    }
}
