//! Memory that the device cannot take: copied through an aligned buffer, and counted.

#![allow(unsafe_code)]

use crate::aligned::Aligned;
use platter_block::bio::{Bio, Op};
use platter_block::buf::{IoBuf, add_memory};
use platter_block::driver::Geometry;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::limits::Limits;
use platter_block::segment::RegionId;

/// What a bounced bio owns: the bio it stands for, and the memory that the device sees.
struct Bounce {
    original: Bio,
    memory: Aligned,
}

/// Boxed by the bio's owner; the memory does not move.
// SAFETY: `Aligned` keeps its allocation in place while the handle moves; it is exclusively owned.
unsafe impl IoBuf for Bounce {
    fn byte_len(&self) -> usize {
        self.original.len() as usize
    }

    fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the memory goes into the bio's owner next to the segments.
        unsafe { add_memory(bio, self.memory.as_ptr(), self.byte_len(), RegionId::NONE) }
    }
}

/// Whether a bio's memory lacks the device's alignment although its place on the device has it.
#[inline]
pub(super) fn is_misaligned(geometry: &Geometry, bio: &Bio) -> bool {
    let align = (geometry.limits.memory_align - 1) as usize;
    let bits = match bio.single_segment() {
        Some(segment) => segment.addr() as usize | segment.len() as usize,
        None if bio.op().has_data() => {
            bio.segments().fold(0, |bits, s| bits | s.addr() as usize | s.len() as usize)
        }
        None => 0,
    };
    bits & align != 0 && !is_aligned_tail(geometry, bio)
}

/// Whether a bio ends with the odd end of the device, and its memory is aligned up to that. The driver takes the end from
/// memory of any length.
#[cold]
fn is_aligned_tail(geometry: &Geometry, bio: &Bio) -> bool {
    let limits = &geometry.limits;
    if !limits.is_tail(bio.pos(), bio.len(), geometry.size) {
        return false;
    }
    let (mut bits, mut before) = (0, 0);
    for segment in bio.segments() {
        bits |= segment.addr() as usize | before;
        before = segment.len() as usize;
    }
    bits & (limits.memory_align - 1) as usize == 0
}

/// Bytes of buffers that a lane keeps for the next time, and how many bios.
const KEEP_BYTES: usize = 1 << 20;
const KEEP_BIOS: usize = 128;

/// What one lane bounces through, kept from one bio to the next.
#[derive(Default)]
pub(super) struct Bouncer {
    bios: Vec<Bio>,
    buffers: Vec<Aligned>,
    /// Bytes of `buffers`.
    kept: usize,
    /// Bios on their way that stand for misaligned ones.
    pub(super) out: usize,
}

impl Bouncer {
    /// A bio over aligned memory that stands for `original`. Gives the original back, failed, when there is
    /// no memory.
    pub(super) fn wrap(&mut self, limits: &Limits, mut original: Bio) -> Result<Bio, Bio> {
        let len = usize::try_from(original.len()).unwrap_or(usize::MAX);
        if original.segment_bytes() < original.len() {
            original.fail(Fault::new(Kind::BadSegments, Stage::Queue));
            return Err(original);
        }
        let Some(memory) = self.take(len, (limits.memory_align as usize).max(4096)) else {
            original.fail(Fault::new(Kind::NoMemory, Stage::Queue));
            return Err(original);
        };
        if original.op() == Op::Write {
            memory.exchange(&original, 0);
        }
        let (op, pos, flags) = (original.op(), original.pos(), original.flags());
        let (token, context, ioprio) = (original.token(), original.context(), original.ioprio());
        let maker = original.maker();
        let mut bio = self.bios.pop().unwrap_or_else(Bio::flush);
        // SAFETY: the aligned buffer is ours to write.
        if unsafe { bio.reset_with(op, pos, Bounce { original, memory }) }.is_err() {
            // A buffer is one segment, or a few where it has gigabytes.
            unreachable!("a bounce buffer fits a bio");
        }
        bio.add_flags(flags);
        bio.set_token(token);
        bio.set_context(context);
        bio.set_ioprio(ioprio);
        bio.set_maker(maker);
        self.out += 1;
        Ok(bio)
    }

    /// Replaces a bounced bio that has completed with its original, with data and status, and gives the number
    /// of bytes copied. Leaves other bios as they are.
    pub(super) fn unwrap(&mut self, bio: &mut Bio) -> Option<u64> {
        let status = bio.status();
        let Bounce { mut original, memory } = bio.take_buffer::<Bounce>()?;
        self.out -= 1;
        let bytes = original.len();
        match status {
            Ok(()) => {
                if original.op() == Op::Read {
                    memory.exchange(&original, 0);
                }
                original.advance(bytes);
            }
            Err(fault) => original.fail(fault),
        }
        self.keep(memory);
        let stand_in = std::mem::replace(bio, original);
        if self.bios.len() < KEEP_BIOS {
            self.bios.push(stand_in);
        }
        Some(bytes)
    }

    /// The smallest kept buffer that is large enough, or a new one.
    fn take(&mut self, len: usize, align: usize) -> Option<Aligned> {
        let fits = self.buffers.iter().enumerate().filter(|(_, buffer)| buffer.len() >= len);
        match fits.min_by_key(|(_, buffer)| buffer.len()).map(|(at, _)| at) {
            Some(at) => {
                let buffer = self.buffers.swap_remove(at);
                self.kept -= buffer.len();
                Some(buffer)
            }
            None => Aligned::new(len, align),
        }
    }

    fn keep(&mut self, buffer: Aligned) {
        if self.kept + buffer.len() <= KEEP_BYTES {
            self.kept += buffer.len();
            self.buffers.push(buffer);
        }
    }
}
