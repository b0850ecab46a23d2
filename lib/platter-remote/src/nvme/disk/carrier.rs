//! What brings commands to the kernel: a ring, or threads.

#![allow(unsafe_code)]

use platter_block::command::MAX_BYTES;
use platter_block::segment::{Region, RegionId};
use platter_block::time::Span;

/// A command to send. Its memory stays until its answer was collected.
pub(super) struct Message<'a> {
    /// Which answer is its own.
    pub(super) index: u32,
    pub(super) entry: &'a [u8; MAX_BYTES],
    pub(super) is_admin: bool,
    pub(super) pieces: &'a [libc::iovec],
    /// The region that the only piece lies in.
    pub(super) region: RegionId,
    pub(super) timeout_ms: u32,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) index: u32,
    /// A negative errno, or the status of the completion.
    pub(super) result: i32,
    /// Double words 0 and 1 of the completion.
    pub(super) value: u64,
}

/// Brings commands to the kernel and answers back. Dropping it waits until the kernel uses no memory of any command.
pub(super) trait Carrier: Send {
    /// Most commands at once.
    fn room(&self) -> usize;

    /// Takes a command.
    ///
    /// # Safety
    /// The memory of its pieces, and their list, may be used as the command says until its answer was collected.
    unsafe fn start(&mut self, message: &Message<'_>) -> bool;

    /// Hands over what was taken.
    fn submit(&mut self);

    /// Takes the answers that have come.
    fn collect(&mut self, answers: &mut Vec<Answer>);

    /// Hands over, and waits for an answer.
    fn wait(&mut self, timeout: Option<Span>);

    /// A descriptor that is readable while there are answers.
    fn descriptor(&self) -> i32;

    /// Makes the descriptor readable.
    fn ring(&mut self);

    fn register(&mut self, _region: &Region) -> bool {
        false
    }

    fn unregister(&mut self, _region: RegionId) {}
}
