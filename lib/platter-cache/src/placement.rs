//! Shards: parts of a cache with a lock, frames, an index and I/Os of their own, which have the pages of the device in turn,
//! an extent each.
//!
//! A shard is an [engine](super::engine) that knows which pages are its own. What concerns several of them is done above
//! ([`Sharded`](super::sharded)), without the lock of any, but for readahead: a policy that is called under the lock of one
//! shard may want pages of others. These are noted as [reads of peers](super::engine::PeerRead), and asked for when the lock is
//! released. So no thread has the locks of two shards at a time.

use super::disk_writes::DiskWrites;
use super::frames::Frames;
use crate::readahead::PAGE;
use platter_block::backend::Fact;
use platter_block::limits::{LimitSource, Limits};
use platter_stack::distributed::{Extent, Map};
use platter_stack::kit::Board;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Extents of an operation without data that the shards get at a time.
const SECTION: u64 = 256;

/// Which shard has which pages.
pub(super) struct Placement {
    count: u64,
    /// Base-2 logarithm of the pages of an extent.
    shift: u32,
    limits: Limits,
    size: u64,
    disk_writes: Arc<DiskWrites>,
    /// All shards by number, once there are all.
    peers: OnceLock<Vec<Peer>>,
}

impl Placement {
    /// For `count` shards that have extents of `extent` bytes, a power of two, of a device of `size` bytes.
    pub(super) fn new(count: u32, extent: u64, size: u64, limits: Limits) -> Placement {
        Placement {
            count: count.into(),
            shift: (extent / PAGE).trailing_zeros(),
            limits,
            size,
            disk_writes: Arc::default(),
            peers: OnceLock::new(),
        }
    }

    /// Makes all shards known to each other.
    pub(super) fn set_peers(&self, shards: Vec<Peer>) {
        self.peers.get_or_init(|| shards);
    }

    /// Whether a page of another shard is cached or being read, which may just change.
    pub(super) fn is_cached(&self, shard: u32, page: u64) -> bool {
        self.peer(shard as usize).is_some_and(|peer| peer.frames.has(page))
    }

    fn peer(&self, shard: usize) -> Option<&Peer> {
        self.peers.get()?.get(shard)
    }

    /// What all shards have written to their disk.
    pub(super) fn disk_writes(&self) -> &Arc<DiskWrites> {
        &self.disk_writes
    }

    /// The number of shards.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The shard of a page. Each has one extent of every row of as many as there are shards, and which one differs from row
    /// to row: contiguous data is spread evenly, and so are most accesses with a stride.
    #[inline]
    pub(super) fn shard_of(&self, page: u64) -> u32 {
        let extent = page >> self.shift;
        let row = extent / self.count;
        let turn = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        ((extent + turn) % self.count) as u32
    }

    /// The first page after the extent of a page.
    #[inline]
    pub(super) fn end_of(&self, page: u64) -> u64 {
        ((page >> self.shift) + 1) << self.shift
    }

    /// The first pages from `page` on that a shard has, up to the end of their extent or to `end`; empty at `end` if there are
    /// none.
    pub(super) fn own_run(&self, shard: u32, mut page: u64, end: u64) -> Range<u64> {
        while page < end && self.shard_of(page) != shard {
            page = self.end_of(page);
        }
        page.min(end)..self.end_of(page).min(end)
    }

    /// Calls `each` with the pieces of a range of bytes and their shards.
    pub(super) fn pieces(&self, range: Range<u64>, mut each: impl FnMut(u32, Range<u64>)) {
        let mut pos = range.start;
        while pos < range.end {
            let end = (self.end_of(pos / PAGE) * PAGE).min(range.end);
            each(self.shard_of(pos / PAGE), pos..end);
            pos = end;
        }
    }
}

impl LimitSource for Placement {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (self.limits, u64::MAX)
    }
}

impl Map for Placement {
    fn find(&self, pos: u64) -> Extent {
        let end = (self.end_of(pos / PAGE) * PAGE).min(self.size);
        Extent { member: self.shard_of(pos / PAGE) as usize, pos, len: end - pos }
    }

    fn whence(&self, _member: usize, pos: u64) -> u64 {
        pos
    }

    fn ranges(&self, pos: u64, len: u64, each: &mut dyn FnMut(Extent)) {
        self.pieces(pos..pos + len, |member, range| {
            each(Extent { member: member as usize, pos: range.start, len: range.end - range.start });
        });
    }

    fn facts(&self) -> Vec<Fact> {
        Vec::new()
    }

    fn has_one_disk(&self) -> bool {
        true
    }

    fn board(&self, member: usize) -> Option<&Board> {
        self.peer(member).map(|peer| &*peer.board)
    }

    fn most_without_data(&self) -> u64 {
        SECTION << self.shift << PAGE.trailing_zeros()
    }
}

/// A shard, as the others see it.
pub(super) struct Peer {
    pub(super) frames: Arc<Frames>,
    pub(super) board: Arc<Board>,
}

/// The place of a shard among all.
pub(super) struct ShardPlace {
    pub(super) index: u32,
    pub(super) placement: Arc<Placement>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn placement(count: u32, extent: u64) -> Placement {
        Placement::new(count, extent, 1 << 40, Limits::unlimited(512))
    }

    proptest! {
        #[test]
        fn each_row_of_extents_is_spread_over_all_shards(count in 1..70u32, row in 0..1u64 << 20, shift in 12..24u32) {
            let placement = placement(count, 1 << shift);
            let pages = (1 << shift) / PAGE;
            let first = row * u64::from(count) * pages;
            let mut shards: Vec<u32> =
                (0..u64::from(count)).map(|turn| placement.shard_of(first + turn * pages)).collect();
            shards.sort_unstable();
            prop_assert_eq!(shards, (0..count).collect::<Vec<_>>());
        }

        #[test]
        fn the_pieces_of_a_range_are_the_range(count in 1..9u32, start in 0..1u64 << 30, len in 0..1u64 << 26) {
            let placement = placement(count, 1 << 20);
            let mut at = start;
            placement.pieces(start..start + len, |shard, piece| {
                assert_eq!(piece.start, at);
                assert!(piece.end > piece.start && (piece.start >> 20) == ((piece.end - 1) >> 20));
                let found = placement.find(piece.start);
                assert_eq!((found.member, found.pos), (shard as usize, piece.start));
                assert!(found.len >= piece.end - piece.start);
                at = piece.end;
            });
            prop_assert_eq!(at, start + len);
        }

        #[test]
        fn own_pages_are_found(count in 1..9u32, from in 0..100u64, end in 0..200u64) {
            let placement = placement(count, 4 * PAGE);
            for shard in 0..count {
                let own = (from..end).find(|&page| placement.shard_of(page) == shard);
                let found = placement.own_run(shard, from, end);
                prop_assert_eq!(own, (!found.is_empty()).then_some(found.start));
                prop_assert!(found.clone().all(|page| placement.shard_of(page) == shard));
                prop_assert!(found.end == end || found.end.is_multiple_of(4));
            }
        }
    }

    /// With a stride of a power of two no shard has more than twice its part.
    #[test]
    fn strides_are_spread() {
        let placement = placement(8, 1 << 20);
        for stride in [2, 4, 8, 16, 64] {
            let mut found = [0; 8];
            (0..4096u64).for_each(|step| found[placement.shard_of(step * stride * 256) as usize] += 1);
            assert!(found.iter().all(|&count| (256..1024).contains(&count)), "stride {stride}: {found:?}");
        }
    }
}
