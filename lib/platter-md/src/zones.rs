//! raid0 and linear: members of any size.
//!
//! Source: `raid0.c` of Linux 6.12. Numbers are chunks.

/// A part of a raid0 that is striped over the same members.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Zone {
    /// First chunk of the array, and the one past the last.
    begin: u64,
    end: u64,
    /// First chunk of each member.
    below: u64,
    members: Vec<u32>,
}

/// Where each chunk is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zones {
    zones: Vec<Zone>,
    /// Whether the member follows from the number of the chunk on the array.
    is_original: bool,
    /// Whether members follow each other, so that more than one chunk is contiguous.
    is_linear: bool,
}

impl Zones {
    /// A raid0 of members with this many chunks. In its `original` layout the member of a chunk follows from the number of the
    /// chunk on the array, in the alternate one from its number in the zone.
    pub fn striped(chunks: &[u64], original: bool) -> Zones {
        let mut heights = chunks.to_vec();
        heights.sort_unstable();
        heights.dedup();
        let (mut zones, mut begin, mut below) = (Vec::new(), 0u64, 0);
        for height in heights.into_iter().filter(|&height| height > 0) {
            let members: Vec<u32> =
                (0..chunks.len()).filter(|&at| chunks[at] >= height).map(|at| at as u32).collect();
            let end = begin.saturating_add((height - below).saturating_mul(members.len() as u64));
            zones.push(Zone { begin, end, below, members });
            (begin, below) = (end, height);
        }
        Zones { zones, is_original: original, is_linear: false }
    }

    /// Members one after the other.
    pub fn linear(chunks: &[u64]) -> Zones {
        let mut begin = 0u64;
        let mut zones = Vec::new();
        for (member, &len) in (0..).zip(chunks) {
            let end = begin.saturating_add(len);
            zones.push(Zone { begin, end, below: 0, members: vec![member] });
            begin = end;
        }
        Zones { zones, is_original: false, is_linear: true }
    }

    /// Whether it makes a difference which layout of raid0 this is.
    pub fn is_ambiguous(chunks: &[u64]) -> bool {
        let alternate = Zones::striped(chunks, false);
        let shifts = |zone: &Zone| !zone.begin.is_multiple_of(zone.members.len() as u64);
        alternate.zones.iter().skip(1).any(shifts)
    }

    /// Chunks of the array.
    pub fn size(&self) -> u64 {
        self.zones.last().map_or(0, |zone| zone.end)
    }

    /// The member of a chunk that is on the array, its chunk there, and how many chunks are contiguous from it on.
    pub fn find(&self, chunk: u64) -> (u32, u64, u64) {
        let at = self.zones.partition_point(|zone| zone.end <= chunk).min(self.zones.len() - 1);
        let zone = &self.zones[at];
        let (within, width) = (chunk - zone.begin, zone.members.len() as u64);
        let turn = if self.is_original { chunk % width } else { within % width };
        let contiguous = if width == 1 { zone.end - chunk } else { 1 };
        debug_assert!(width == 1 || !self.is_linear, "members of a linear array follow each other");
        (zone.members[turn as usize], zone.below + within / width, contiguous)
    }
}
