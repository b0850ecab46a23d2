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
use crate::time::Time;
use alloc::boxed::Box;
use core::fmt;

mod deadline;
mod flags;
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
    /// again.
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

    /// Adds a segment at the end.
    ///
    /// # Errors
    /// [`Kind::BadSegments`] when the list is full ([`MAX_SEGMENTS`]).
    #[inline]
    pub fn push_segment(&mut self, segment: Segment) -> Result<(), Fault> {
        if self.0.list.push(segment) { Ok(()) } else { Err(Fault::new(Kind::BadSegments, Stage::Handle)) }
    }

    /// Adds a segment at the end and lengthens the bio by the segment's length.
    ///
    /// # Errors
    /// As for [`Bio::push_segment`]; on an error the bio is unchanged.
    #[inline]
    pub fn extend(&mut self, segment: Segment) -> Result<(), Fault> {
        self.push_segment(segment)?;
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
        self.0.list.clear();
        Some(owner)
    }

    /// A number that no other live bio has. It does not change when the `Bio` is moved.
    #[inline]
    pub fn identity(&self) -> usize {
        (&raw const *self.0).addr()
    }

    /// The operation.
    #[inline]
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// Offset of the first byte that is not done.
    #[inline]
    pub fn pos(&self) -> u64 {
        self.0.pos
    }

    /// Bytes that are not done.
    #[inline]
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// Whether nothing is left to do.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Offset just past the bio.
    #[inline]
    pub fn end(&self) -> u64 {
        self.0.pos.saturating_add(self.0.len)
    }

    /// Bytes that are done.
    #[inline]
    pub fn done(&self) -> u64 {
        self.0.done
    }

    /// A number that the submitter chose.
    #[inline]
    pub fn token(&self) -> u64 {
        self.0.token
    }

    /// Sets the submitter's number.
    #[inline]
    pub fn set_token(&mut self, token: u64) {
        self.0.token = token;
    }

    /// Flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        self.0.flags
    }

    /// Adds flags.
    #[inline]
    pub fn add_flags(&mut self, flags: Flags) {
        self.0.flags = self.0.flags | flags;
    }

    /// Takes flags away.
    #[inline]
    pub fn remove_flags(&mut self, flags: Flags) {
        self.0.flags = self.0.flags.without(flags);
    }

    /// Priority of the I/O.
    #[inline]
    pub fn ioprio(&self) -> IoPrio {
        self.0.ioprio
    }

    /// Sets the priority of the I/O.
    pub fn set_ioprio(&mut self, ioprio: IoPrio) {
        self.0.ioprio = ioprio;
    }

    /// The process on whose behalf the I/O runs.
    #[inline]
    pub fn context(&self) -> Context {
        self.0.context
    }

    /// Sets the process on whose behalf the I/O runs.
    pub fn set_context(&mut self, context: Context) {
        self.0.context = context;
    }

    /// The open handle that the I/O came through; [`HandleId::DEVICE`]: no handle of its own.
    #[inline]
    pub fn handle(&self) -> HandleId {
        self.0.handle
    }

    /// Sets the open handle that the I/O came through.
    #[inline]
    pub fn set_handle(&mut self, handle: HandleId) {
        self.0.handle = handle;
    }

    /// The time at which the bio fails with [`Kind::TimedOut`] unless it has completed; `None`: no deadline, except
    /// for a timeout of the disk. Kept in steps of 1,024 ns, rounded up.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        self.0.deadline.time()
    }

    /// Sets the deadline, in the time of the device that the bio is submitted to.
    #[inline]
    pub fn set_deadline(&mut self, deadline: Option<Time>) {
        self.0.deadline = Deadline::new(deadline);
    }

    /// The outcome so far; `Ok` until something failed.
    #[inline]
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// Records a failure. A later failure does not replace the first.
    pub fn fail(&mut self, fault: Fault) {
        if self.0.status.is_ok() {
            self.0.status = Err(fault);
        }
    }

    /// Records the failure of a part of the bio. The first failure stays, with one exception: if the first failed
    /// part was not carried out, a timeout replaces it, because the part that timed out may still reach the disk.
    pub(crate) fn fail_in_part(&mut self, fault: Fault) {
        let refused = |first: Fault| matches!(first.kind, Kind::Cancelled | Kind::InDoubt | Kind::Stuck);
        if fault.kind == Kind::TimedOut && self.0.status.is_err_and(refused) {
            self.0.status = Ok(());
        }
        self.fail(fault);
    }

    /// The segments that are not done yet.
    #[inline]
    pub fn segments(&self) -> Segments<'_> {
        Segments::new(self.0.list.as_slice(), self.0.list.first, self.0.list.skip, self.0.len)
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

    /// The address of the memory, if one segment covers everything that is not done.
    #[inline]
    pub(crate) fn only_address(&self) -> Option<u64> {
        let list = &self.0.list;
        let segment = list.as_slice().get(usize::from(list.first))?;
        let covers = u64::from(segment.len() - list.skip) >= self.0.len;
        covers.then(|| segment.addr().addr() as u64 + u64::from(list.skip))
    }

    /// Number of segments that are not done (an upper bound after a split inside the list).
    #[inline]
    pub fn segment_count(&self) -> u16 {
        self.0.list.len() - self.0.list.first
    }

    /// All segments of the list, including those that are done.
    pub fn all_segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.0.list.as_slice().iter().copied()
    }

    /// Sum of the lengths of all segments of the list, in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.0.list.as_slice().iter().map(|s| u64::from(s.len())).sum()
    }

    /// Marks the next `bytes` as done: advances position, length and place in the list.
    #[inline]
    pub fn advance(&mut self, bytes: u64) {
        let b = &mut *self.0;
        let bytes = bytes.min(b.len);
        b.pos += bytes;
        b.done += bytes;
        b.len -= bytes;
        if b.len == 0 || !b.op.has_data() {
            return;
        }
        let (mut first, mut skip) = (b.list.first, b.list.skip);
        let mut left = bytes;
        while let Some(segment) = b.list.as_slice().get(usize::from(first)) {
            let rest = u64::from(segment.len() - skip);
            if left < rest {
                skip += left as u32;
                break;
            }
            left -= rest;
            first += 1;
            skip = 0;
        }
        (b.list.first, b.list.skip) = (first, skip);
    }

    /// See [`Bio::split_into`].
    pub(crate) fn split_front(&mut self, bytes: u64, front: &mut Bio) {
        front.share_window(self);
        front.0.len = bytes.min(self.0.len);
        self.advance(bytes);
    }

    /// See [`Bio::clone_window`].
    pub(crate) fn share_window(&mut self, other: &Bio) {
        let (to, from) = (&mut *self.0, &*other.0);
        to.list.share(&from.list);
        to.owner.clear();
        (to.pos, to.len, to.done) = (from.pos, from.len, 0);
        (to.list.first, to.list.skip) = (from.list.first, from.list.skip);
        (to.deadline, to.attempts, to.route) = (from.deadline, 0, from.route);
        (to.op, to.flags, to.ioprio, to.context) = (from.op, from.flags, from.ioprio, from.context);
        (to.status, to.token, to.parent) = (Ok(()), from.token, u32::MAX);
        (to.maker, to.handle) = (0, from.handle);
    }

    /// Moves the bio to another offset on the device (a layer's remapping) without touching its memory.
    #[inline]
    pub fn remap(&mut self, pos: u64) {
        self.0.pos = pos;
    }

    /// Takes the I/O back from its submitter's point of view without giving up its memory. The returned bio stands
    /// for it towards the submitter and has no segments and no owner; this one keeps the memory until the driver is
    /// done.
    pub(crate) fn abandon(&mut self) -> Bio {
        let face = self.stand_in();
        self.add_flags(Flags::ORPHAN);
        face
    }

    /// Takes the bio out and leaves a placeholder that has only its range.
    pub(crate) fn leave_placeholder(&mut self) -> Bio {
        let mut placeholder = self.stand_in();
        placeholder.add_flags(Flags::ORPHAN);
        placeholder.set_parent(u32::MAX);
        core::mem::replace(self, placeholder)
    }

    /// Turns the bio into a write of zeroes; flags, priority, deadline and the rest stay.
    pub(crate) fn reset_zeroes(&mut self, pos: u64, len: u64) {
        let b = &mut *self.0;
        b.op = Op::Write;
        b.list.clear();
        self.rewind(pos, 0);
        while self.len() < len {
            let piece = (len - self.len()).min(u64::from(Segment::ZEROES));
            if self.extend(Segment::zeroes(piece as u32)).is_err() {
                return;
            }
        }
    }

    /// A bio that stands for this one towards its submitter: a copy without segments, owner and status.
    pub(crate) fn stand_in(&self) -> Bio {
        let mut face = Bio::new(self.op(), self.pos(), self.len());
        let (to, from) = (&mut *face.0, &*self.0);
        (to.done, to.token, to.flags, to.deadline) = (from.done, from.token, from.flags, from.deadline);
        (to.context, to.ioprio, to.handle) = (from.context, from.ioprio, from.handle);
        (to.parent, to.route, to.maker) = (from.parent, from.route, from.maker);
        face
    }

    /// The number of the lane of a layer that made the bio as a part of another and gets it back; 0: none.
    #[inline]
    pub fn maker(&self) -> u32 {
        self.0.maker
    }

    /// Sets which lane of a layer gets the bio back. Also for bios that stand for others.
    #[inline]
    pub fn set_maker(&mut self, maker: u32) {
        self.0.maker = maker;
    }

    /// Which of several submitters to a shared queue gets this bio back. Set by the owner of the shared queue.
    #[inline]
    pub fn route(&self) -> u32 {
        self.0.route
    }

    /// Sets which submitter gets the bio back.
    #[inline]
    pub fn set_route(&mut self, route: u32) {
        self.0.route = route;
    }

    /// Counts one more attempt; returns the number of earlier ones.
    pub(crate) fn count_attempt(&mut self) -> u8 {
        let before = self.0.attempts;
        self.0.attempts = before.saturating_add(1);
        before
    }

    /// The bio has made progress: attempts are counted from zero again.
    pub(crate) fn forget_attempts(&mut self) {
        self.0.attempts = 0;
    }

    /// The family in the queue that this bio belongs to.
    #[inline]
    pub(crate) fn parent(&self) -> u32 {
        self.0.parent
    }

    /// Makes this bio a child of a family.
    pub(crate) fn set_parent(&mut self, parent: u32) {
        self.0.parent = parent;
    }

    /// Turns the bio into a flush; flags, priority, deadline and the rest stay.
    pub(crate) fn reset_flush(&mut self) {
        self.0.op = Op::Flush;
        self.0.list.clear();
        self.rewind(0, 0);
    }

    /// Lengthens the bio by a segment that was added.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.0.len += bytes;
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
