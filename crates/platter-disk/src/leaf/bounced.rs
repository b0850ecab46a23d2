//! Misaligned memory: copied through aligned memory, and counted.

#![allow(unsafe_code)]

use crate::aligned::{Aligned, Buffers};
use crate::bounce::ALIGN;
use platter_block::bio::{Bio, Op};
use platter_block::buf::IoBuf;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::limits::Limits;

/// Owner of a bounced bio's memory: the bio it stands for, and the memory that the device uses.
struct Bounce {
    original: Bio,
    memory: Aligned,
}

// SAFETY: `Aligned` keeps its allocation in place while the handle moves; it is exclusively owned.
unsafe impl IoBuf for Bounce {
    fn byte_len(&self) -> usize {
        self.original.len() as usize
    }

    fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        let len = self.byte_len();
        // SAFETY: the memory goes into the bio's owner next to the segments.
        unsafe { self.memory.add_to(bio, len) }
    }
}

/// Number of bios that a lane keeps for reuse.
const KEEP_BIOS: usize = 128;

/// The bounce memory and bios of one lane, kept for reuse.
#[derive(Default)]
pub(super) struct Bouncer {
    bios: Vec<Bio>,
    buffers: Buffers,
    /// Bounced bios in flight. One that timed out is counted until the lane is idle.
    pub(super) out: usize,
}

impl Bouncer {
    /// Makes a bio over aligned memory that stands for a misaligned one. An error returns the bio, failed.
    pub(super) fn wrap(&mut self, limits: &Limits, mut original: Bio) -> Result<Bio, Bio> {
        let len = original.len() as usize;
        let Some(memory) = self.buffers.take(original.op(), len, (limits.memory_align as usize).max(ALIGN))
        else {
            original.fail(Fault::new(Kind::NoMemory, Stage::Queue));
            return Err(original);
        };
        if original.op() == Op::Write {
            memory.exchange(&original, 0, len);
        }
        let (op, pos, flags, deadline) =
            (original.op(), original.pos(), original.flags(), original.deadline());
        let (token, context, ioprio) = (original.token(), original.context(), original.ioprio());
        let (maker, handle) = (original.maker(), original.handle());
        let mut bio = self.bios.pop().unwrap_or_else(Bio::flush);
        // SAFETY: the aligned memory is exclusively ours and writable.
        if unsafe { bio.reset_with(op, pos, Bounce { original, memory }) }.is_err() {
            // The memory is one segment, or a few if it has gigabytes.
            unreachable!("bounce memory fits a bio");
        }
        bio.add_flags(flags);
        bio.set_token(token);
        bio.set_context(context);
        bio.set_ioprio(ioprio);
        bio.set_maker(maker);
        bio.set_handle(handle);
        bio.set_deadline(deadline);
        self.out += 1;
        Ok(bio)
    }

    /// Replaces a completed bounced bio with its original, with data and status, and returns the number of bytes
    /// copied. Leaves other bios unchanged.
    pub(super) fn unwrap(&mut self, bio: &mut Bio) -> Option<u64> {
        let status = bio.status();
        let Bounce { mut original, memory } = bio.take_buffer::<Bounce>()?;
        self.out -= 1;
        let bytes = original.len();
        match status {
            Ok(()) => {
                if original.op() == Op::Read {
                    memory.exchange(&original, 0, bytes as usize);
                }
                original.advance(bytes);
            }
            Err(fault) => original.fail(fault),
        }
        self.buffers.keep(memory);
        let stand_in = std::mem::replace(bio, original);
        if self.bios.len() < KEEP_BIOS {
            self.bios.push(stand_in);
        }
        Some(bytes)
    }
}
