//! Maps the bytes of a striped array to its members.

use crate::distributed::{Extent, Map};
use platter_block::backend::Fact;
use platter_block::bio::MAX_SEGMENTS;
use platter_block::limits::{LimitSource, Limits};

/// A part of the array that is striped over the same members.
#[derive(Clone, Debug)]
struct Zone {
    /// Range of chunks on the array; the end is exclusive.
    begin: u64,
    end: u64,
    /// First chunk of the zone on each of its members.
    below: u64,
    /// Numbers of the members in stripe order; empty: all members.
    members: Vec<u32>,
    /// By member: its index in `members`. Empty if `members` is.
    turns: Vec<u32>,
    width: u64,
    /// Base-2 logarithm of the width if that is a power of two.
    shift: Option<u32>,
    limits: Limits,
}

/// The map from chunks to members.
pub(super) struct Stripes {
    chunk_shift: u32,
    chunk_mask: u64,
    zones: Vec<Zone>,
}

impl Zone {
    /// Maps a chunk of the zone to a member and a chunk of that member.
    #[inline(always)]
    fn split(&self, chunk: u64) -> (usize, u64) {
        let chunk = chunk - self.begin;
        let (stripe, turn) = match self.shift {
            Some(shift) => (chunk >> shift, chunk & (self.width - 1)),
            None => (chunk / self.width, chunk % self.width),
        };
        let member = match self.members.get(turn as usize) {
            Some(&member) => member as usize,
            None => turn as usize,
        };
        (member, self.below + stripe)
    }

    fn turn_of(&self, member: usize) -> u64 {
        self.turns.get(member).map_or(member as u64, |&turn| u64::from(turn))
    }

    /// Number of chunks on each member of the zone.
    fn height(&self) -> u64 {
        (self.end - self.begin) / self.width
    }
}

impl Stripes {
    /// Stripes with chunks of `1 << chunk_shift` bytes. `members` has the number of chunks and the limits of
    /// each member. The first zone extends over all members and is as high as the smallest member; the next
    /// extends over the members that are larger, and so on. This is what Linux' md calls the alternate
    /// layout. In its original layout (`original`) the member of a chunk follows from the chunk's number on
    /// the array, even in zones that then do not begin with their first member.
    pub(super) fn new(chunk_shift: u32, members: &[(u64, Limits)], original: bool) -> Stripes {
        let chunk = 1u64 << chunk_shift;
        let mut heights: Vec<u64> = members.iter().map(|&(chunks, _)| chunks).collect();
        heights.sort_unstable();
        heights.dedup();
        let (mut zones, mut begin, mut below) = (Vec::new(), 0, 0);
        for height in heights {
            let in_zone = |&at: &usize| members[at].0 >= height;
            let mut list: Vec<usize> = (0..members.len()).filter(in_zone).collect();
            let width = list.len() as u64;
            if original && width > 0 {
                list.rotate_left((begin % width) as usize);
            }
            let limits = list.iter().map(|&at| members[at].1).reduce(|a, b| a.stack(&b));
            let Some(limits) = limits else { continue };
            let end = begin + (height - below) * width;
            let mut zone = Zone {
                begin,
                end,
                below,
                members: Vec::new(),
                turns: Vec::new(),
                width,
                shift: width.is_power_of_two().then(|| width.trailing_zeros()),
                limits: array_limits(&limits, chunk, width),
            };
            if list.len() < members.len() {
                zone.turns = vec![u32::MAX; members.len()];
                for (turn, &member) in list.iter().enumerate() {
                    zone.turns[member] = turn as u32;
                    zone.members.push(member as u32);
                }
            }
            zones.push(zone);
            (begin, below) = (end, height);
        }
        Stripes { chunk_shift, chunk_mask: chunk - 1, zones }
    }

    /// Size of the array in bytes.
    pub(super) fn size(&self) -> u64 {
        self.zones.last().map_or(0, |zone| zone.end << self.chunk_shift)
    }

    /// Limits that hold on the whole array.
    pub(super) fn limits(&self) -> Option<Limits> {
        let optimal = self.zones.first()?.limits.optimal_io;
        let all = self.zones.iter().map(|zone| zone.limits).reduce(|a, b| a.stack(&b))?;
        Some(all.with_optimal_io(optimal))
    }

    #[inline]
    fn zone_of(&self, chunk: u64) -> &Zone {
        match &self.zones[..] {
            [zone] => zone,
            zones => &zones[zones.partition_point(|zone| zone.end <= chunk).min(zones.len() - 1)],
        }
    }

    fn zone_below(&self, chunk: u64) -> &Zone {
        match &self.zones[..] {
            [zone] => zone,
            zones => &zones[zones.partition_point(|zone| zone.below <= chunk).max(1) - 1],
        }
    }

    /// The range on each member of `zone` that holds the member's share of `[pos, end)`, which lies in the
    /// zone.
    fn zone_ranges(&self, zone: &Zone, pos: u64, end: u64, each: &mut dyn FnMut(Extent)) {
        let (first, last) = (pos >> self.chunk_shift, (end - 1) >> self.chunk_shift);
        let turns = zone.width.min(last - first + 1);
        for chunk in first..first + turns {
            // The first and the last chunk of the range on this member.
            let (member, place) = zone.split(chunk);
            let laps = (last - chunk) / zone.width;
            let begin = if chunk == first { pos & self.chunk_mask } else { 0 };
            let is_last = chunk + laps * zone.width == last;
            let stop = if is_last { ((end - 1) & self.chunk_mask) + 1 } else { self.chunk_mask + 1 };
            let begin = (place << self.chunk_shift) + begin;
            let stop = ((place + laps) << self.chunk_shift) + stop;
            each(Extent { member, pos: begin, len: stop - begin });
        }
    }
}

/// Limits of an array of `width` members. Requests of several stripes become one request per member.
fn array_limits(member: &Limits, chunk: u64, width: u64) -> Limits {
    let block = u64::from(member.logical_block);
    let largest = (1u64 << 31) / block * block;
    let times = |one: u64| one.saturating_mul(width).min(largest);
    let transfer = u64::from(member.max_transfer).min(chunk * u64::from(member.max_segments));
    let whole_chunks = transfer - transfer % chunk;
    let max_transfer =
        if whole_chunks == 0 || width == 1 { u64::from(member.max_transfer) } else { times(whole_chunks) };
    let by_chunk = width > 1 && chunk <= u64::from(member.max_segment_size);
    member
        .with_max_transfer(max_transfer as u32)
        .with_max_segments((u64::from(member.max_segments) * width).min(MAX_SEGMENTS as u64) as u16)
        .with_max_segment_size(if by_chunk { largest as u32 } else { member.max_segment_size })
        .with_chunk(if width == 1 { member.chunk } else { 0 })
        .with_optimal_io(u32::try_from(chunk * width).unwrap_or(u32::MAX))
        .with_max_discard(member.max_discard.saturating_mul(width))
        // A write within one chunk goes to one disk unchanged, with the same alignment: the chunk is a power
        // of two.
        .with_atomic_write(member.atomic_write.min(u32::try_from(chunk).unwrap_or(u32::MAX)))
}

impl LimitSource for Stripes {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        let chunk = pos >> self.chunk_shift;
        let zone = self.zone_of(chunk);
        let last = zone.end << self.chunk_shift >= self.size();
        (zone.limits, if last { u64::MAX } else { zone.end << self.chunk_shift })
    }
}

impl Map for Stripes {
    #[inline(always)]
    fn find(&self, pos: u64) -> Extent {
        let chunk = pos >> self.chunk_shift;
        let zone = self.zone_of(chunk);
        let (member, place) = zone.split(chunk);
        let within = pos & self.chunk_mask;
        let len = match zone.width {
            1 => (zone.end << self.chunk_shift) - pos,
            _ => self.chunk_mask + 1 - within,
        };
        Extent { member, pos: place << self.chunk_shift | within, len }
    }

    #[inline]
    fn whence(&self, member: usize, pos: u64) -> u64 {
        let place = pos >> self.chunk_shift;
        let zone = self.zone_below(place);
        let stripe = place - zone.below;
        let stripes = match zone.shift {
            Some(shift) => stripe << shift,
            None => stripe * zone.width,
        };
        let chunk = zone.begin + stripes + zone.turn_of(member);
        chunk << self.chunk_shift | pos & self.chunk_mask
    }

    fn ranges(&self, mut pos: u64, len: u64, each: &mut dyn FnMut(Extent)) {
        let end = pos + len;
        while pos < end {
            let zone = self.zone_of(pos >> self.chunk_shift);
            let stop = end.min(zone.end << self.chunk_shift);
            self.zone_ranges(zone, pos, stop, each);
            pos = stop;
        }
    }

    fn facts(&self) -> Vec<Fact> {
        let zone = |zone: &Zone| format!("{} chunks on each of {}", zone.height(), zone.width);
        let zones = self.zones.iter().map(zone).collect::<Vec<_>>().join(", ");
        vec![("chunk", (self.chunk_mask + 1).to_string()), ("zones", zones)]
    }
}
