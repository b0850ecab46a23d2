//! What is kept of a request to an NBD server: its header, its memory, and what of its answer has come.

use super::memory::Memory;
use super::ranges::Ranges;
use crate::nbd::wire::{Request, command, command_flag};
use crate::slots::{Kept, Slot};
use platter_block::bio::Op;
use platter_block::driver::Started;
use std::sync::Arc;

/// What is kept of a request.
pub(super) struct Parcel {
    pub(super) memory: Memory,
    /// The memory of a request that the channel made.
    keeps: Option<Arc<Vec<u8>>>,
    pub(super) header: [u8; Request::BYTES],
    /// The ranges of a read that have arrived.
    pub(super) arrived: Ranges,
    /// The first error of a structured reply.
    pub(super) error: u32,
    /// Chunks of the reply that brought nothing.
    pub(super) empty: u32,
    /// All of its bytes were sent.
    pub(super) whole: bool,
    /// The result, if the server has answered before all bytes were sent. It is reported once they are: until then the
    /// memory is needed.
    pub(super) early: Option<i64>,
    /// Distinguishes the users of the slot, and the connections.
    pub(super) generation: u32,
}

impl Default for Parcel {
    fn default() -> Parcel {
        Parcel {
            memory: Memory::default(),
            keeps: None,
            header: [0; Request::BYTES],
            arrived: Ranges::default(),
            error: 0,
            empty: 0,
            whole: false,
            early: None,
            generation: 0,
        }
    }
}

#[allow(unsafe_code)]
impl Kept for Parcel {
    // SAFETY: as the trait says.
    unsafe fn lend(&mut self, request: &Started<'_>) {
        // SAFETY: the same promise.
        unsafe { self.memory.fill(request) };
    }

    fn clear(&mut self) {
        self.memory.clear();
        self.keeps = None;
    }
}

impl Parcel {
    /// Takes the bytes of a write that the channel makes.
    #[allow(unsafe_code)]
    pub(super) fn keep(&mut self, bytes: Arc<Vec<u8>>) {
        // SAFETY: `keeps` holds the bytes, which nothing changes behind an `Arc`, until `clear` has cleared the memory.
        unsafe { self.memory.fill_with(&bytes) };
        self.keeps = Some(bytes);
    }
}

/// Bytes of data that follow the header.
pub(super) fn payload(slot: &Slot<Parcel>) -> usize {
    if slot.op == Op::Write { slot.len as usize } else { 0 }
}

/// Makes a request ready to be sent.
pub(super) fn prepare(slot: &mut Slot<Parcel>, index: u32) {
    let kept = &mut slot.kept;
    kept.generation = kept.generation.wrapping_add(1);
    kept.arrived.clear();
    (kept.error, kept.empty) = (0, 0);
    (kept.whole, kept.early) = (false, None);
    let kind = match slot.op {
        Op::Read => command::READ,
        Op::Write => command::WRITE,
        Op::Flush => command::FLUSH,
        Op::Discard => command::TRIM,
        Op::WriteZeroes => command::WRITE_ZEROES,
        Op::Command => unreachable!("an NBD server takes no commands, and the geometry says so"),
    };
    let flags = if slot.fua { command_flag::FUA } else { 0 };
    let cookie = u64::from(kept.generation) << 32 | u64::from(index);
    let flush = slot.op == Op::Flush;
    let (offset, length) = if flush { (0, 0) } else { (slot.pos, slot.len as u32) };
    kept.header = Request { flags, kind, cookie, offset, length }.to_bytes();
}
