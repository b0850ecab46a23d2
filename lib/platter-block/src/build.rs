//! Builds bios of the right size: the builder asks for the limits before it adds a segment, so that nothing
//! has to be split later.
//!
//! Limits depend on the position, and layers answer from the devices below them (OLS 2002, section 9.4:
//! `get_max_bytes`, cascaded down layered drivers).

use crate::bio::{Bio, Op};
use crate::fault::Fault;
use crate::limits::{LimitSource, Limits};
use crate::segment::Segment;

/// Collects segments into one bio as long as the device takes them as one request.
///
/// ```
/// use platter_block::{bio::Op, build::Builder, limits::Limits, segment::{RegionId, Segment}};
/// let limits = Limits::unlimited(512).with_chunk(65536);
/// let mut memory = vec![0u8; 16384];
/// // SAFETY: the bio is never submitted.
/// let segment = unsafe { Segment::new(memory.as_mut_ptr(), 16384, RegionId::NONE) };
/// // 48 KiB into a chunk of 64 KiB, one segment of 16 KiB fits and a second does not.
/// let mut builder = Builder::new(&limits, Op::Read, 49152);
/// // SAFETY: as above.
/// assert!(unsafe { builder.add(segment) }?);
/// // SAFETY: as above.
/// assert!(!unsafe { builder.add(segment) }?);
/// assert_eq!(builder.finish().len(), 16384);
/// # Ok::<(), platter_block::fault::Fault>(())
/// ```
pub struct Builder {
    limits: Limits,
    room: u64,
    pieces: u32,
    bio: Bio,
}

impl Builder {
    /// Starts a bio at `pos`, with the limits that hold there.
    pub fn new(source: &dyn LimitSource, op: Op, pos: u64) -> Builder {
        let (limits, until) = source.limits_at(pos);
        let room = limits.max_bytes_at(op, pos).min(until.saturating_sub(pos));
        Builder { limits, room, pieces: 0, bio: Bio::new(op, pos, 0) }
    }

    /// Bytes that still fit, if the segments do.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Adds a whole segment. `false`: it does not fit; finish this bio and begin the next one. A first
    /// segment of at most one logical block is always taken, as the kernel's `merge_bvec_fn` had to.
    ///
    /// # Errors
    /// More segments than a bio can hold.
    ///
    /// # Safety
    /// As for [`Bio::push_segment`](crate::bio::Bio::push_segment).
    ///
    /// ```compile_fail,E0133
    /// # use platter_block::{bio::{Bio, Op}, build::Builder, limits::Limits};
    /// let bio = Bio::read(0, vec![0u8; 4096])?;
    /// let Some(segment) = bio.single_segment() else { return Ok(()) };
    /// Builder::new(&Limits::unlimited(512), Op::Read, 0).add(segment)?;
    /// # Ok::<(), platter_block::fault::Fault>(())
    /// ```
    pub unsafe fn add(&mut self, segment: Segment) -> Result<bool, Fault> {
        let len = u64::from(segment.len());
        let mut pieces = 0;
        self.limits.for_each_piece(segment, |_| pieces += 1);
        let first = self.bio.is_empty() && len <= u64::from(self.limits.logical_block);
        let fits = len <= self.room && self.pieces + pieces <= u32::from(self.limits.max_segments);
        if !fits && !first {
            return Ok(false);
        }
        self.bio.lengthen(segment)?;
        self.pieces += pieces;
        self.room = self.room.saturating_sub(len);
        Ok(true)
    }

    /// Returns the bio.
    pub fn finish(self) -> Bio {
        self.bio
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::of_slice;
    use alloc::vec;

    #[test]
    fn the_number_of_pieces_is_limited_too() {
        let limits = Limits { max_segments: 3, max_segment_size: 1024, ..Limits::unlimited(512) };
        let mut memory = vec![0u8; 4096];
        let mut builder = Builder::new(&limits, Op::Write, 0);
        // SAFETY: the bio is never submitted.
        let mut add = |segment| unsafe { builder.add(segment) };
        assert_eq!(add(of_slice(&mut memory[..2048])), Ok(true));
        assert_eq!(add(of_slice(&mut memory[..2048])), Ok(false));
        assert_eq!(add(of_slice(&mut memory[..1024])), Ok(true));
        assert_eq!(add(of_slice(&mut memory[..512])), Ok(false));
        let bio = builder.finish();
        assert_eq!((bio.len(), bio.segment_count()), (3072, 2));
    }

    /// Limits that change at 1 MiB.
    struct Zones;

    impl LimitSource for Zones {
        fn limits_at(&self, pos: u64) -> (Limits, u64) {
            let first = pos < 1 << 20;
            let max_transfer = if first { 65536 } else { 4096 };
            (Limits { max_transfer, ..Limits::unlimited(512) }, if first { 1 << 20 } else { u64::MAX })
        }
    }

    #[test]
    fn limits_are_those_of_the_position() {
        assert_eq!(Builder::new(&Zones, Op::Read, 0).room(), 65536);
        assert_eq!(Builder::new(&Zones, Op::Read, (1 << 20) - 512).room(), 512);
        assert_eq!(Builder::new(&Zones, Op::Read, 1 << 20).room(), 4096);
    }
}
