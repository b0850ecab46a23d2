//! Synchronous I/O whose offset or length is not aligned as the device requires.
//!
//! Such a read reads the blocks around it and copies out; such a write reads the blocks at its ends first
//! and writes them back, one at a time per device, so that two neighbours in one block do not undo each
//! other. The copies are counted. (Memory that is not aligned is bounced further down, for every interface.)

#![allow(unsafe_code)]

use crate::aligned::Aligned;
use crate::sync::{Mutex, lock};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::buf::add_memory;
use platter_block::driver::Geometry;
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::segment::RegionId;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest transfer that is bounced at once.
const MAX_BOUNCE: u64 = 64 << 20;
/// Buffers kept for the next time, and the largest that is.
const KEEP: usize = 8;
const KEEP_SIZE: usize = 1 << 20;

/// Decides what has to be bounced, and does it.
pub(crate) struct Bouncer {
    geometry: Geometry,
    allowed: bool,
    kept: Mutex<Vec<Aligned>>,
    /// Held while blocks that a write covers only partly are read and written back.
    edges: Mutex<()>,
    bytes: AtomicU64,
}

impl Bouncer {
    pub(crate) fn new(geometry: Geometry, allowed: bool) -> Bouncer {
        Bouncer {
            geometry,
            allowed,
            kept: Mutex::new(Vec::new()),
            edges: Mutex::new(()),
            bytes: AtomicU64::new(0),
        }
    }

    /// Bytes copied so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn block(&self) -> u64 {
        u64::from(self.geometry.limits.logical_block)
    }

    /// Whether the bio cannot go to the device as it is, but can through an aligned buffer.
    #[inline]
    pub(crate) fn needs(&self, bio: &Bio) -> bool {
        if !bio.op().has_data() || bio.is_empty() {
            return false;
        }
        let in_range = bio.pos().checked_add(bio.len()).is_some_and(|end| end <= self.geometry.size);
        self.allowed
            && in_range
            && self.geometry.limits.is_misplaced(bio.pos(), bio.len(), self.geometry.size)
    }

    /// Does the bio through an aligned buffer. `run` does one transfer of a part of it and waits for that.
    pub(crate) fn run(&self, bio: &Bio, mut run: impl FnMut(&Part<'_>) -> Status) -> Status {
        let block = self.block();
        let start = bio.pos() & !(block - 1);
        let end = bio.end().next_multiple_of(block).min(self.geometry.size);
        let size = end - start;
        if size > MAX_BOUNCE {
            return Err(Fault::new(Kind::Misaligned, Stage::Handle));
        }
        let buffer = self.take(size as usize).ok_or(Fault::new(Kind::NoMemory, Stage::Handle))?;
        let head = (bio.pos() - start) as usize;
        let whole = Part { like: bio, op: bio.op(), pos: start, buffer: &buffer, at: 0, len: size };
        let status = if bio.op() == Op::Read {
            run(&whole).inspect(|()| buffer.exchange(bio, head))
        } else {
            self.write(&whole, head, &mut run)
        };
        self.bytes.fetch_add(bio.len(), Ordering::Relaxed);
        self.keep(buffer);
        status
    }

    /// Reads the blocks at the ends of `whole` that the bio covers only partly, and writes all of it.
    fn write(&self, whole: &Part<'_>, head: usize, run: &mut impl FnMut(&Part<'_>) -> Status) -> Status {
        let block = self.block();
        let (start, end) = (whole.pos, whole.pos + whole.len);
        let partial_head = head != 0;
        let partial_tail = whole.like.end() != end;
        let _edges = (partial_head || partial_tail).then(|| lock(&self.edges));
        let last = (end - 1) & !(block - 1);
        if partial_head || (partial_tail && last == start) {
            run(&Part { op: Op::Read, len: block.min(whole.len), ..*whole })?;
        }
        if partial_tail && last > start {
            run(&Part { op: Op::Read, pos: last, at: last - start, len: end - last, ..*whole })?;
        }
        whole.buffer.exchange(whole.like, head);
        run(whole)
    }

    fn take(&self, size: usize) -> Option<Aligned> {
        let align = (self.geometry.limits.memory_align as usize).max(4096);
        let mut kept = lock(&self.kept);
        if let Some(at) = kept.iter().position(|b| b.len() >= size && b.align() >= align) {
            return Some(kept.swap_remove(at));
        }
        drop(kept);
        Aligned::new(size, align)
    }

    fn keep(&self, buffer: Aligned) {
        let mut kept = lock(&self.kept);
        if buffer.len() <= KEEP_SIZE && kept.len() < KEEP {
            kept.push(buffer);
        }
    }
}

/// A transfer of a part of the buffer that stands in for a bio's memory.
pub(crate) struct Part<'a> {
    like: &'a Bio,
    op: Op,
    pos: u64,
    buffer: &'a Aligned,
    at: u64,
    len: u64,
}

impl Part<'_> {
    /// Makes a bio this transfer. It must have completed before the part goes.
    pub(crate) fn fill(&self, bio: &mut Bio) -> Result<(), Fault> {
        bio.reset(self.op, self.pos, self.len);
        let flags = if self.op == self.like.op() { self.like.flags() } else { Flags::NONE };
        bio.add_flags(flags | Flags::BORROWED | Flags::SYNC);
        bio.set_ioprio(self.like.ioprio());
        bio.set_context(self.like.context());
        bio.set_handle(self.like.handle());
        let memory = self.buffer.as_ptr().wrapping_add(self.at as usize);
        // SAFETY: the buffer lives in `Bouncer::run`, which waits for the bio.
        unsafe { add_memory(bio, memory, self.len as usize, RegionId::NONE) }
    }
}
