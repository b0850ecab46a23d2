//! The bio: one I/O as its submitter sees it.
//!
//! A bio names an operation, a place on the device and a vector of segments, and knows how far it has
//! got. Splitting and cloning adjust where a bio starts and ends in its segment list; no data is copied.
//! The shape is that of the 2.5 kernel's `struct bio` (OLS 2002, section 9.1).

use crate::deferred::{self, Deferred};
use crate::fault::{Fault, Kind, Stage, Status};
use crate::handle::HandleId;
pub use crate::op::Op;
use crate::owner::Owner;
use crate::segment::Segment;
use alloc::boxed::Box;
use core::fmt;

mod deadline;
mod fields;
mod flags;
mod parts;
mod segments;

use deadline::Deadline;
pub use flags::{Class, Context, Flags, IoPrio};
use segments::SegmentList;
pub use segments::{MAX_SEGMENTS, Segments};

struct Body {
    list: SegmentList,
    owner: Owner,
    /// Offset of the first byte that is not done, in bytes.
    pos: u64,
    /// Bytes that are not done.
    len: u64,
    /// Bytes that are done.
    done: u64,
    token: u64,
    op: Op,
    status: Status,
    deadline: Deadline,
    flags: Flags,
    /// How often it was started again after an error that says nothing about the disk.
    attempts: u8,
    ioprio: IoPrio,
    context: Context,
    /// Parent of a split, by its number in the queue that split it.
    parent: u32,
    route: u32,
    /// The lane of a layer that made the bio as a part of another; 0: none.
    maker: u32,
    /// The open handle that the bio came through.
    handle: HandleId,
}

/// One I/O. A `Bio` has the size of a pointer; reuse it with [`Bio::reset`] to submit again without an allocation.
pub struct Bio(Box<Body>);

impl Bio {
    /// Bytes of the descriptor that a `Bio` points to, including room for four segments.
    pub const DESCRIPTOR_BYTES: usize = size_of::<Body>();

    /// A bio of `len` bytes (0 for a flush) at byte offset `pos`, without segments.
    pub fn new(op: Op, pos: u64, len: u64) -> Bio {
        Bio(Box::new(Body {
            list: SegmentList::new(),
            owner: Owner::NONE,
            pos,
            len,
            done: 0,
            token: 0,
            op,
            status: Ok(()),
            deadline: Deadline::NONE,
            flags: Flags::NONE,
            attempts: 0,
            ioprio: IoPrio::NONE,
            context: Context::default(),
            parent: u32::MAX,
            route: 0,
            maker: 0,
            handle: HandleId::DEVICE,
        }))
    }

    /// A flush: everything that completed before it is durable when it completes.
    pub fn flush() -> Bio {
        Bio::new(Op::Flush, 0, 0)
    }

    /// A discard of the `len` bytes at byte offset `pos`: their contents are no longer needed.
    pub fn discard(pos: u64, len: u64) -> Bio {
        Bio::new(Op::Discard, pos, len)
    }

    /// Makes the `len` bytes at byte offset `pos` read as zeroes.
    pub fn write_zeroes(pos: u64, len: u64) -> Bio {
        Bio::new(Op::WriteZeroes, pos, len)
    }

    /// Resets the bio to a new one, keeping the memory of a long segment list. Drops the owner if it was not taken.
    #[inline]
    pub fn reset(&mut self, op: Op, pos: u64, len: u64) {
        let b = &mut *self.0;
        b.list.clear();
        b.owner.clear();
        b.token = 0;
        b.deadline = Deadline::NONE;
        b.flags = Flags::NONE;
        b.ioprio = IoPrio::NONE;
        b.context = Context::default();
        b.parent = u32::MAX;
        b.maker = 0;
        b.handle = HandleId::DEVICE;
        b.op = op;
        self.rewind(pos, len);
    }

    /// Empties the bio for its next use, like [`reset`](Bio::reset), for queues and layers that keep bios. An owner
    /// that was not taken is dropped through [`deferred`](crate::deferred::later): not while a lock is held, and a
    /// panic of its destructor does not propagate. A buffer that belongs to a layer is dropped at once.
    pub fn recycle(&mut self) {
        let owner = core::mem::take(&mut self.0.owner);
        if owner.is_foreign() {
            deferred::later(Deferred::Drop(owner));
        }
        self.reset(Op::Flush, 0, 0);
    }

    /// Aims the bio at another range and keeps its segments, owner, token and flags: the cheapest way to submit
    /// again. A range that is longer than its memory is refused when it is submitted ([`Kind::BadSegments`]).
    #[inline]
    pub fn rewind(&mut self, pos: u64, len: u64) {
        let b = &mut *self.0;
        b.pos = pos;
        b.len = len;
        b.done = 0;
        b.attempts = 0;
        (b.list.first, b.list.skip) = (0, 0);
        b.status = Ok(());
    }

    /// See [`Bio::push_segment`].
    #[inline]
    pub(crate) fn add_segment(&mut self, segment: Segment) -> Result<(), Fault> {
        if self.0.list.push(segment) { Ok(()) } else { Err(Fault::new(Kind::BadSegments, Stage::Handle)) }
    }

    /// See [`Bio::extend`].
    #[inline]
    pub(crate) fn lengthen(&mut self, segment: Segment) -> Result<(), Fault> {
        self.add_segment(segment)?;
        self.grow(u64::from(segment.len()));
        Ok(())
    }

    /// Gives the bio the owner of its memory; it comes back with the completed bio.
    #[inline]
    pub(crate) fn set_owner(&mut self, owner: Owner) {
        self.0.owner = owner;
    }

    /// Takes the owner out if it is a `T`, and removes the segments over its memory.
    pub(crate) fn take_owner<T: Send + 'static>(&mut self) -> Option<T> {
        let owner = self.0.owner.take()?;
        self.0.list.clear_segments();
        Some(owner)
    }

    /// The owner of its memory.
    pub(crate) fn owner(&self) -> &Owner {
        &self.0.owner
    }

    /// A number that no other live bio has. It does not change when the `Bio` is moved.
    #[inline]
    pub fn identity(&self) -> usize {
        (&raw const *self.0).addr()
    }

    /// The only segment, if one segment covers everything that is not done.
    #[inline]
    pub fn single_segment(&self) -> Option<Segment> {
        let list = &self.0.list;
        let segment = list.as_slice().get(usize::from(list.first))?;
        let rest = segment.len() - list.skip;
        if u64::from(rest) < self.0.len {
            return None;
        }
        Some(segment.slice(list.skip, self.0.len as u32))
    }

    /// Records that the bio's children have done all of it.
    pub(crate) fn finish(&mut self) {
        self.0.done += self.0.len;
        self.0.pos += self.0.len;
        self.0.len = 0;
    }
}

impl fmt::Debug for Bio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = &*self.0;
        write!(f, "{} {}+{} (done {}) {:?} {:?}", b.op, b.pos, b.len, b.done, b.flags, b.status)
    }
}

#[cfg(test)]
mod tests;
