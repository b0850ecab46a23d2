//! Copies transfers whose memory the device cannot use, through aligned memory of the library.
//!
//! There are two reasons. Memory whose addresses or lengths are misaligned is copied by the lane of the disk, for every
//! way to call (`Bouncer::wrap`). A synchronous call may also begin and end inside a block, end at a deadline, or be so
//! large that it is copied in pieces; `CopyRules::needs` decides that and `sync_io/copied.rs` does it, before the lane.
//! Both take their memory from a `Bouncer`, and both are counted (`bytes_bounced`).

#![allow(unsafe_code)]

use crate::aligned::Aligned;
use platter_block::bio::{Bio, Op};
use platter_block::buf::IoBuf;
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::limits::Limits;

/// Smallest alignment of the memory: a page, which the kernel handles best.
const ALIGN: usize = 4096;

/// Owner of a bounced bio's memory: the bio it stands for, and the memory that the device uses.
struct StandIn {
    original: Bio,
    memory: Aligned,
}

// SAFETY: `Aligned` keeps its allocation in place while the handle moves; it is exclusively owned.
unsafe impl IoBuf for StandIn {
    fn byte_len(&self) -> usize {
        self.original.len() as usize
    }

    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        let len = self.byte_len();
        // SAFETY: the memory goes into the bio's owner next to the segments.
        unsafe { self.memory.add_to(bio, len) }
    }
}

/// Completes a transfer that was carried out over copied memory.
fn finish(original: &mut Bio, memory: &Aligned, status: Status) {
    let bytes = original.len();
    match status {
        Ok(()) => {
            if original.op() == Op::Read {
                memory.exchange(original, 0, bytes as usize);
            }
            original.advance(bytes);
        }
        Err(fault) => original.fail(fault),
    }
}

/// Number of bios kept for reuse.
const KEEP_BIOS: usize = 128;

/// Most bytes of memory kept for reuse.
const KEEP_BYTES: usize = 1 << 20;

/// The memory for copies and the bios over it of one lane, kept for reuse.
#[derive(Default)]
pub(crate) struct Bouncer {
    bios: Vec<Bio>,
    memory: Vec<Aligned>,
    /// Bytes of `memory`.
    kept: usize,
    /// Wrapped bios in flight. One that timed out is counted until the lane is idle.
    pub(crate) out: usize,
}

impl Bouncer {
    /// The alignment of memory that a device with these limits can use.
    pub(crate) fn align_for(limits: &Limits) -> usize {
        (limits.memory_align as usize).max(ALIGN)
    }

    /// The smallest kept memory that is large enough, or new memory; `None` if the system has none. For a read its first
    /// `len` bytes are zeroed: a driver may complete a read without touching memory (`null`), and data of an earlier
    /// I/O must not be seen. Data to be written is copied over them in any case.
    pub(crate) fn memory(&mut self, op: Op, len: usize, align: usize) -> Option<Aligned> {
        let fits = |memory: &Aligned| memory.len() >= len && memory.align() >= align;
        let all = self.memory.iter().enumerate().filter(|(_, memory)| fits(memory));
        let Some((at, _)) = all.min_by_key(|(_, memory)| memory.len()) else {
            return Aligned::new(len, align);
        };
        let mut memory = self.memory.swap_remove(at);
        self.kept -= memory.len();
        if op != Op::Write {
            memory.zero(len);
        }
        Some(memory)
    }

    /// Keeps memory for reuse, if there is room.
    pub(crate) fn keep(&mut self, memory: Aligned) {
        if self.kept + memory.len() <= KEEP_BYTES {
            self.kept += memory.len();
            self.memory.push(memory);
        }
    }

    /// Makes a bio over aligned memory that stands for a misaligned one. An error returns the bio, failed.
    pub(crate) fn wrap(&mut self, limits: &Limits, mut original: Bio) -> Result<Bio, Bio> {
        let len = original.len() as usize;
        let Some(memory) = self.memory(original.op(), len, Bouncer::align_for(limits)) else {
            original.fail(Fault::new(Kind::NoMemory, Stage::Queue));
            return Err(original);
        };
        if original.is_to_device() {
            memory.exchange(&original, 0, len);
        }
        let (op, pos, flags) = (original.op(), original.pos(), original.flags());
        let (token, context, ioprio) = (original.token(), original.context(), original.ioprio());
        let (maker, handle) = (original.maker(), original.handle());
        let command = original.command().cloned();
        // The bio on its way to the device keeps the identity by which its submitter knows it.
        let mut bio = original;
        let mut original = self.bios.pop().unwrap_or_else(Bio::flush);
        bio.swap_contents(&mut original);
        // SAFETY: the aligned memory is exclusively ours and writable.
        if unsafe { bio.reset_with(op, pos, StandIn { original, memory }) }.is_err() {
            // The memory is one segment, or a few if it has gigabytes.
            unreachable!("bounce memory fits a bio");
        }
        if let Some(command) = command {
            // SAFETY: as above.
            unsafe { bio.attach_command(command) };
        }
        bio.add_flags(flags);
        bio.set_token(token);
        bio.set_context(context);
        bio.set_ioprio(ioprio);
        bio.set_maker(maker);
        bio.set_handle(handle);
        self.out += 1;
        Ok(bio)
    }

    /// Replaces a completed bio that was wrapped with its original, with data and status, and returns the number of bytes
    /// copied. Leaves other bios unchanged.
    pub(crate) fn unwrap(&mut self, bio: &mut Bio) -> Option<u64> {
        let (status, done) = (bio.status(), bio.done());
        let StandIn { mut original, memory } = bio.take_buffer::<StandIn>()?;
        self.out -= 1;
        let bytes = original.len();
        if original.op() == Op::Command {
            // Also where the device reports an error, which may concern only a part of the data.
            if original.is_from_device() {
                memory.exchange(&original, 0, bytes as usize);
            }
            original.answered(done, status);
        } else {
            finish(&mut original, &memory, status);
        }
        self.keep(memory);
        bio.swap_contents(&mut original);
        if self.bios.len() < KEEP_BIOS {
            self.bios.push(original);
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_used_again_shows_nothing_of_its_last_use() {
        let mut bouncer = Bouncer::default();
        let memory = bouncer.memory(Op::Write, 4096, 512).unwrap();
        let data = Bio::write(0, vec![0x53u8; 4096]).unwrap();
        memory.exchange(&data, 0, 4096);
        let address = memory.as_ptr();
        bouncer.keep(memory);
        let memory = bouncer.memory(Op::Read, 1000, 512).unwrap();
        assert_eq!(memory.as_ptr(), address, "it is the same memory");
        let mut back = Bio::read(0, vec![1u8; 1000]).unwrap();
        memory.exchange(&back, 0, 1000);
        assert_eq!(back.take_buffer(), Some(vec![0u8; 1000]));
    }

    #[test]
    fn only_so_much_is_kept_and_alignment_counts() {
        let mut bouncer = Bouncer::default();
        for _ in 0..3 {
            bouncer.keep(Aligned::new(KEEP_BYTES / 2, 512).unwrap());
        }
        assert_eq!((bouncer.memory.len(), bouncer.kept), (2, KEEP_BYTES));
        assert_eq!(
            bouncer.memory(Op::Read, 100, 4096).unwrap().len(),
            100,
            "those that are kept are aligned to 512"
        );
        assert_eq!(bouncer.memory(Op::Read, 100, 512).unwrap().len(), KEEP_BYTES / 2);
    }
}
