//! What a device can take in one request, by position, and how limits of stacked devices combine.

use crate::bio::{Bio, Op};
use crate::fault::{Fault, Kind, Stage};
use crate::segment::Segment;

/// Limits of a device for one request. Bytes unless said otherwise; powers of two where marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Smallest addressable unit (power of two): offsets and lengths are multiples of it.
    pub logical_block: u32,
    /// Unit the medium writes without read-modify-write (power of two).
    pub physical_block: u32,
    /// Alignment of memory addresses (power of two; statx(2)'s `dio_mem_align`).
    pub memory_align: u32,
    /// Alignment of the lengths of segments (power of two; statx(2)'s `dio_offset_align`). The last segment of a
    /// transfer that ends with the partial block at the end of the device ([`Limits::is_tail`]) may have any length.
    pub length_align: u32,
    /// Largest transfer of one request.
    pub max_transfer: u32,
    /// Most segments of one request.
    pub max_segments: u16,
    /// Largest segment.
    pub max_segment_size: u32,
    /// A segment may not cross a multiple of this in memory (power of two; 0: no boundary).
    pub segment_boundary: u64,
    /// A request may not cross a multiple of this on the device (a stripe's chunk; 0: no boundary).
    pub chunk: u64,
    /// Size at which transfers become efficient (0: unknown).
    pub optimal_io: u32,
    /// Unit of discards (0: discard not supported).
    pub discard_granularity: u32,
    /// Largest discard or write-zeroes.
    pub max_discard: u64,
    /// Whether write-zeroes is supported.
    pub write_zeroes: bool,
    /// Largest write that is never torn by a power cut (power of two; 0: no more than a logical block, and writes
    /// with [`Flags::ATOMIC`](crate::bio::Flags::ATOMIC) fail).
    pub atomic_write: u32,
}

crate::setters! {
    const Limits {
        logical_block, with_logical_block: u32;
        physical_block, with_physical_block: u32;
        memory_align, with_memory_align: u32;
        length_align, with_length_align: u32;
        max_transfer, with_max_transfer: u32;
        max_segments, with_max_segments: u16;
        max_segment_size, with_max_segment_size: u32;
        segment_boundary, with_segment_boundary: u64;
        chunk, with_chunk: u64;
        optimal_io, with_optimal_io: u32;
        discard_granularity, with_discard_granularity: u32;
        max_discard, with_max_discard: u64;
        write_zeroes, with_write_zeroes: bool;
        atomic_write, with_atomic_write: u32;
    }
}

impl Limits {
    /// Limits of memory, which has almost none.
    pub const fn unlimited(logical_block: u32) -> Limits {
        Limits {
            logical_block,
            physical_block: logical_block,
            memory_align: 1,
            length_align: 1,
            max_transfer: 1 << 30,
            max_segments: 1024,
            max_segment_size: 1 << 30,
            segment_boundary: 0,
            chunk: 0,
            optimal_io: 0,
            discard_granularity: logical_block,
            max_discard: 1 << 40,
            write_zeroes: true,
            atomic_write: 0,
        }
    }

    /// Limits of a layer over two devices that both get parts of its requests: the stricter of each (the larger block
    /// size). Fact: the kernel's `blk_stack_limits` combines the same way.
    pub fn stack(&self, below: &Limits) -> Limits {
        let nonzero_min = |a: u64, b: u64| if a == 0 || b == 0 { a.max(b) } else { a.min(b) };
        let chunk = nonzero_min(self.chunk, below.chunk);
        // An atomic write starts at a multiple of its length, so it does not cross a chunk border that is also such a
        // multiple.
        let uncut = if chunk == 0 { u32::MAX } else { 1 << chunk.trailing_zeros().min(31) };
        Limits {
            logical_block: self.logical_block.max(below.logical_block),
            physical_block: self.physical_block.max(below.physical_block),
            memory_align: self.memory_align.max(below.memory_align),
            length_align: self.length_align.max(below.length_align),
            max_transfer: self.max_transfer.min(below.max_transfer),
            max_segments: self.max_segments.min(below.max_segments),
            max_segment_size: self.max_segment_size.min(below.max_segment_size),
            segment_boundary: nonzero_min(self.segment_boundary, below.segment_boundary),
            chunk,
            optimal_io: self.optimal_io.max(below.optimal_io),
            discard_granularity: if self.discard_granularity == 0 || below.discard_granularity == 0 {
                0
            } else {
                self.discard_granularity.max(below.discard_granularity)
            },
            max_discard: self.max_discard.min(below.max_discard),
            write_zeroes: self.write_zeroes && below.write_zeroes,
            atomic_write: self.atomic_write.min(below.atomic_write).min(uncut),
        }
    }

    /// Checks offset and length of an operation against block size and device size. If the device ends inside a
    /// block, the last transfer may end there too.
    ///
    /// # Errors
    /// [`Kind::ZeroLength`], [`Kind::OutOfRange`] (also on overflow) or [`Kind::Misaligned`].
    #[inline]
    pub fn check_range(&self, pos: u64, len: u64, size: u64) -> Result<(), Fault> {
        let kind = if len == 0 {
            Kind::ZeroLength
        } else if pos.checked_add(len).is_none_or(|end| end > size) {
            Kind::OutOfRange
        } else if self.is_misplaced(pos, len, size) {
            Kind::Misaligned
        } else {
            return Ok(());
        };
        Err(Fault::new(kind, Stage::Queue))
    }

    /// Whether a range inside a device of `size` bytes begins or ends inside a block.
    #[inline]
    pub fn is_misplaced(&self, pos: u64, len: u64, size: u64) -> bool {
        let mask = u64::from(self.logical_block - 1);
        pos & mask != 0 || (len & mask != 0 && pos + len != size)
    }

    /// Checks the memory of a transfer: its segments add up to its length, and addresses and lengths have the
    /// device's alignment. Operations without data need no check.
    ///
    /// # Errors
    /// [`Kind::BadSegments`] or [`Kind::Misaligned`].
    #[inline]
    pub fn check_memory(&self, bio: &Bio, size: u64) -> Result<(), Fault> {
        if let Some(segment) = bio.single_segment()
            && self.is_aligned(&segment)
        {
            return Ok(());
        }
        self.check_segments(bio, size)
    }

    /// Whether address and length of a segment have the device's alignment.
    #[inline]
    pub fn is_aligned(&self, segment: &Segment) -> bool {
        let address = segment.addr() as usize & (self.memory_align - 1) as usize;
        address | (segment.len() & (self.length_align - 1)) as usize == 0
    }

    fn check_segments(&self, bio: &Bio, size: u64) -> Result<(), Fault> {
        if !bio.op().has_data() {
            return Ok(());
        }
        let (mut total, mut aligned) = (0, true);
        let tail = self.is_tail(bio.pos(), bio.len(), size);
        for segment in bio.segments() {
            total += u64::from(segment.len());
            let is_last = tail && total == bio.len();
            // The partial block at the end of the device is in the last segment; its length is exempt, but its
            // address is not.
            let segment = if is_last { segment.slice(0, 0) } else { segment };
            aligned &= self.is_aligned(&segment);
        }
        let kind = match (total == bio.len(), aligned) {
            (true, true) => return Ok(()),
            (true, false) => Kind::Misaligned,
            (false, _) => Kind::BadSegments,
        };
        Err(Fault::new(kind, Stage::Queue))
    }

    /// Whether a range ends with the partial block at the end of a device of `size` bytes.
    #[inline]
    pub fn is_tail(&self, pos: u64, len: u64, size: u64) -> bool {
        len & u64::from(self.logical_block - 1) != 0 && pos.checked_add(len) == Some(size)
    }

    /// Most bytes that one request of `op` may carry if it starts at `pos`: at least one logical block.
    #[inline]
    pub fn max_bytes_at(&self, op: Op, pos: u64) -> u64 {
        if op == Op::Command {
            // Its data is not a range of the device.
            return u64::from(self.max_transfer);
        }
        let most = if op.has_data() { u64::from(self.max_transfer) } else { self.max_discard };
        let most = if self.chunk == 0 { most } else { most.min(self.chunk - pos % self.chunk) };
        most.max(u64::from(self.logical_block))
    }

    /// Unit at which transfers can be cut so that offset, addresses and segment lengths stay aligned.
    #[inline]
    pub(crate) fn cut_unit(&self) -> u64 {
        u64::from(self.logical_block.max(self.memory_align).max(self.length_align))
    }

    /// Whether the device takes a segment as one piece.
    #[inline]
    pub(crate) fn is_one_piece(&self, segment: &Segment) -> bool {
        let (addr, len) = (segment.addr() as u64, u64::from(segment.len()));
        segment.len() <= self.max_segment_size
            && (self.segment_boundary == 0 || len <= self.segment_boundary - addr % self.segment_boundary)
    }

    /// Cuts a segment into pieces that the device takes.
    pub(crate) fn for_each_piece(&self, mut segment: Segment, mut each: impl FnMut(Segment)) {
        while !segment.is_empty() {
            let mut len = segment.len().min(self.max_segment_size.max(1));
            if self.segment_boundary != 0 {
                let left = self.segment_boundary - segment.addr() as u64 % self.segment_boundary;
                len = len.min(u32::try_from(left).unwrap_or(u32::MAX));
            }
            each(segment.slice(0, len));
            segment = segment.slice(len, u32::MAX);
        }
    }

    /// Whether a request of `bytes` in `segments` segments certainly has no more pieces than the device takes. A
    /// segment of n bytes is cut at most n / max_segment_size times for its size, and at most n / segment_boundary +
    /// 1 times for the boundary.
    #[inline]
    pub(crate) fn takes_segments(&self, segments: u32, bytes: u64) -> bool {
        let most = u64::from(self.max_segments);
        let count = u64::from(segments);
        if count == 0 {
            return true;
        }
        if self.segment_boundary == 0 && bytes <= u64::from(self.max_segment_size) {
            return count <= most;
        }
        let by_size = bytes / u64::from(self.max_segment_size.max(1));
        let by_boundary = bytes.checked_div(self.segment_boundary).map_or(0, |cuts| cuts + count);
        count + by_size + by_boundary <= most
    }
}

/// Limits that may depend on position and state, such as the end of a stripe's chunk, a zone or a slower member.
///
/// Builders ask before they add a segment; the queue asks before it splits. Layers answer from the devices below
/// them, so the answer cascades.
pub trait LimitSource: Send + Sync {
    /// The limits that hold at `pos`, and the offset at which to ask again (`u64::MAX`: everywhere).
    fn limits_at(&self, pos: u64) -> (Limits, u64);
}

impl LimitSource for Limits {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (*self, u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::of_slice;

    #[test]
    fn stacking_takes_the_stricter() {
        let a = Limits { max_transfer: 1 << 20, chunk: 65536, ..Limits::unlimited(512) };
        let b = Limits { memory_align: 512, ..Limits::unlimited(4096) };
        let s = a.stack(&b);
        assert_eq!((s.logical_block, s.memory_align, s.max_transfer, s.chunk), (4096, 512, 1 << 20, 65536));
        assert_eq!(s, b.stack(&a));
    }

    #[test]
    fn atomic_writes_cross_no_border_of_a_chunk() {
        let atomic = Limits { atomic_write: 16384, ..Limits::unlimited(512) };
        for (chunk, largest) in [(0, 16384), (65536, 16384), (24576, 8192), (4096, 4096), (1 << 40, 16384)] {
            let chunked = Limits { chunk, atomic_write: u32::MAX, ..atomic };
            assert_eq!(atomic.stack(&chunked).atomic_write, largest, "{chunk}");
        }
    }

    #[test]
    fn a_chunk_border_ends_a_request() {
        let l = Limits { chunk: 65536, max_transfer: 1 << 20, ..Limits::unlimited(512) };
        assert_eq!(l.max_bytes_at(Op::Read, 0), 65536);
        assert_eq!(l.max_bytes_at(Op::Read, 65024), 512);
    }

    #[test]
    fn addresses_and_lengths_have_alignments_of_their_own() {
        let limits = Limits { memory_align: 4, length_align: 512, ..Limits::unlimited(512) };
        let mut memory = alloc::vec![0u8; 8192];
        let start = memory.as_ptr().align_offset(4096);
        let mut check = |pos, size, parts: &[(usize, usize)]| {
            let len = parts.iter().map(|(_, len)| *len as u64).sum();
            let mut bio = Bio::new(Op::Read, pos, len);
            for &(at, len) in parts {
                bio.add_segment(of_slice(&mut memory[start + at..][..len])).unwrap();
            }
            limits.check_memory(&bio, size).map_err(|fault| fault.kind)
        };
        assert_eq!(check(0, 8192, &[(0, 512)]), Ok(()));
        assert_eq!(check(0, 8192, &[(4, 512), (1024, 1024)]), Ok(()), "an address off the block");
        assert_eq!(check(0, 8192, &[(2, 512)]), Err(Kind::Misaligned));
        assert_eq!(check(0, 8192, &[(0, 100), (200, 412)]), Err(Kind::Misaligned), "lengths off the block");
        // The last 100 bytes of a device of 1,124.
        assert_eq!(check(512, 1124, &[(0, 612)]), Ok(()));
        assert_eq!(check(512, 1124, &[(0, 512), (2048, 100)]), Ok(()));
        assert_eq!(check(512, 1124, &[(0, 500), (2048, 112)]), Err(Kind::Misaligned));
        assert_eq!(check(512, 1124, &[(0, 512), (2050, 100)]), Err(Kind::Misaligned), "its address counts");
        assert_eq!(check(512, 8192, &[(0, 612)]), Err(Kind::Misaligned), "not the end of the device");
        let missing = Bio::new(Op::Write, 0, 512);
        assert_eq!(limits.check_memory(&missing, 8192).map_err(|fault| fault.kind), Err(Kind::BadSegments));
        assert_eq!(limits.check_memory(&Bio::new(Op::Discard, 0, 512), 8192), Ok(()));
    }

    #[test]
    fn ranges_are_checked() {
        let l = Limits::unlimited(512);
        let kind = |pos, len| l.check_range(pos, len, 1 << 20).err().map(|f| f.kind);
        assert_eq!(kind(0, 512), None);
        assert_eq!(kind(0, 0), Some(Kind::ZeroLength));
        assert_eq!(kind(1 << 20, 512), Some(Kind::OutOfRange));
        assert_eq!(kind(u64::MAX - 511, 512), Some(Kind::OutOfRange));
        assert_eq!(kind(100, 512), Some(Kind::Misaligned));
        assert_eq!(kind(512, 100), Some(Kind::Misaligned));
        let odd = |pos, len| l.check_range(pos, len, 1000).err().map(|f| f.kind);
        assert_eq!(odd(512, 488), None);
        assert_eq!(odd(0, 1000), None);
        assert_eq!(odd(512, 487), Some(Kind::Misaligned));
        assert_eq!(odd(700, 300), Some(Kind::Misaligned));
        assert_eq!(odd(512, 512), Some(Kind::OutOfRange));
    }
}
