//! The part of a bio that is not done, which the pieces of a split share; its outcome; and what takes its place, towards
//! its submitter or in its request.

use super::{Bio, Flags, Op, Segments};
use crate::command::Command;
use crate::fault::{Fault, Status};
use crate::segment::Segment;
use alloc::sync::Arc;

impl Bio {
    /// The segments that are not done yet.
    #[inline]
    pub fn segments(&self) -> Segments<'_> {
        Segments::new(self.0.list.as_slice(), self.0.list.first, self.0.list.skip, self.0.len)
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

    /// Records a failure in the place of another one.
    pub fn replace_fault(&mut self, fault: Fault) {
        self.0.status = Err(fault);
    }

    /// Names the command that the bio stands for. The bio has no memory, so none can be transferred.
    pub fn name_command(&mut self, command: Arc<Command>) {
        self.0.list.clear();
        self.0.owner.clear();
        self.0.op = Op::Command;
        self.0.list.set_command(Some(command));
    }

    /// Swaps everything but the [identities](Bio::identity) of two bios: each keeps its place in memory.
    pub fn swap_contents(&mut self, other: &mut Bio) {
        core::mem::swap(&mut *self.0, &mut *other.0);
    }

    /// Takes the bio out and leaves a placeholder that has only its range.
    pub(crate) fn leave_placeholder(&mut self) -> Bio {
        let mut placeholder = self.stand_in();
        placeholder.add_flags(Flags::ORPHAN);
        placeholder.set_parent(u32::MAX);
        core::mem::replace(self, placeholder)
    }

    /// A bio that stands for this one towards its submitter: a copy without memory and status, and without an identity in
    /// common.
    pub fn stand_in(&self) -> Bio {
        let mut copy = Bio::new(self.op(), self.pos(), self.len());
        let (to, from) = (&mut *copy.0, &*self.0);
        (to.done, to.token, to.flags, to.deadline) = (from.done, from.token, from.flags, from.deadline);
        (to.context, to.ioprio, to.handle) = (from.context, from.ioprio, from.handle);
        (to.parent, to.route, to.maker) = (from.parent, from.route, from.maker);
        if from.op == Op::Command {
            to.list.set_command(from.list.command().cloned());
        }
        copy
    }

    /// Turns the bio into a write of zeroes; flags, priority, deadline and the rest stay.
    pub(crate) fn reset_zeroes(&mut self, pos: u64, len: u64) {
        let b = &mut *self.0;
        b.op = Op::Write;
        b.list.clear();
        self.rewind(pos, 0);
        while self.len() < len {
            let piece = (len - self.len()).min(u64::from(Segment::ZEROES));
            if self.lengthen(Segment::zeroes(piece as u32)).is_err() {
                return;
            }
        }
    }

    /// Turns the bio into a flush; flags, priority, deadline and the rest stay.
    pub(crate) fn reset_flush(&mut self) {
        self.0.op = Op::Flush;
        self.0.list.clear();
        self.rewind(0, 0);
    }
}
