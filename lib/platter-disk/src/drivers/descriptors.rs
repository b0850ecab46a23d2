//! Calls on descriptors that the program has opened itself: a channel for any number of descriptors of any kind.
//!
//! A disk has one size, one alignment and one way to each of its blocks, and its queue completes short transfers. A
//! program that brings its own descriptors expects what the system calls give: any kind of file, any position, a short
//! count at the end of a file. So these calls do not pass a queue, and each result is that of the kernel. The ring and
//! the threads are those of the drivers of disks.

use platter_block::bio::IoPrio;
use platter_block::driver::Completion;
use platter_block::segment::Segment;
use platter_block::time::{Span, Time};
use std::os::fd::RawFd;

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOp {
    /// `pread`, or `read` if the descriptor has no position (a pipe, a socket, a terminal).
    Read,
    /// `pwrite`, or `write` likewise.
    Write,
    /// `fsync`.
    Sync,
    /// `fdatasync`.
    DataSync,
}

/// One call on a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorCall {
    pub(super) fd: RawFd,
    pub(super) op: CallOp,
    pub(super) pos: u64,
    pub(super) memory: Segment,
    pub(super) ioprio: IoPrio,
}

impl DescriptorCall {
    /// A call on `fd`, which is looked up when the call starts. `pos` is ignored where the descriptor has no position, and by
    /// writes with `O_APPEND`. `memory` is to be filled or written; it is empty for the syncs.
    ///
    /// ```compile_fail,E0133
    /// use platter_block::bio::{Bio, IoPrio};
    /// use platter_disk::drivers::descriptors::{CallOp, DescriptorCall};
    /// let bio = Bio::read(0, vec![0u8; 4096])?;
    /// let Some(segment) = bio.single_segment() else { return Ok(()) };
    /// drop(bio); // with the vector
    /// let call = DescriptorCall::new(0, CallOp::Read, 0, segment, IoPrio::NONE);
    /// # Ok::<(), platter_block::fault::Fault>(())
    /// ```
    ///
    /// # Safety
    /// The memory stays valid, for writes if the call reads, and is not used otherwise, from each time that the call or a copy
    /// of it is [queued](Descriptors::queue) until its completion has been reported.
    pub const unsafe fn new(
        fd: RawFd,
        op: CallOp,
        pos: u64,
        memory: Segment,
        ioprio: IoPrio,
    ) -> DescriptorCall {
        DescriptorCall { fd, op, pos, memory, ioprio }
    }

    /// The descriptor.
    pub const fn fd(&self) -> RawFd {
        self.fd
    }

    /// The operation.
    pub const fn op(&self) -> CallOp {
        self.op
    }
}

/// A channel for calls on descriptors. It belongs to one thread, which submits, waits and reaps.
///
/// The contract is that of a [`Driver`](platter_block::driver::Driver), for tags below the depth: the channel may touch
/// the memory of a call from `queue` until it has reported the completion.
pub trait Descriptors: Send {
    /// Takes a call. `false`: no room now; offer it again after the next completion.
    fn queue(&mut self, tag: u32, call: &DescriptorCall) -> bool;

    /// Starts everything queued since the last call.
    fn submit(&mut self, now: Time);

    /// Appends completions: bytes transferred, or a negative errno. Does not block.
    fn reap(&mut self, now: Time, done: &mut Vec<Completion>);

    /// Starts what is queued and blocks until something can be reaped, `timeout` has passed, or the channel's waker
    /// is called; not at all if `has_work` returns `true`. May return early.
    fn wait(&mut self, now: Time, timeout: Option<Span>, has_work: &dyn Fn() -> bool);

    /// Asks for the end of a call. Its outcome is a completion with the tag `tag | CANCELLED`: `0` if the call was
    /// stopped and completes with `ECANCELED`; `-EALREADY` if it has started and runs to its end; `-ENOENT` if it has
    /// ended. No tag may be used again before the outcome was reported. `false`: no room, ask again.
    fn cancel(&mut self, tag: u32) -> bool;
}

/// Marks the completion of a cancellation.
pub const CANCELLED: u32 = 1 << 31;
