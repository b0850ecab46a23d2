//! The requests of a channel that have not been reported.

#![allow(unsafe_code)]

use platter_block::bio::Op;
use platter_block::command::Command;
use platter_block::driver::Started;
use std::sync::Arc;

/// What a protocol keeps of a request, its memory above all.
pub(crate) trait Kept: Default {
    /// Takes the segments of a request that has data.
    ///
    /// # Safety
    /// Until [`Kept::clear`] the request is in flight with the caller, so that its memory may be used as its operation says:
    /// read for a write, written for a read.
    unsafe fn lend(&mut self, request: &Started<'_>);

    /// The request ends: its memory is not used any more.
    fn clear(&mut self);
}

/// A request.
pub(crate) struct Slot<K> {
    pub(crate) is_free: bool,
    pub(crate) tag: u32,
    pub(crate) op: Op,
    pub(crate) pos: u64,
    pub(crate) len: u64,
    pub(crate) fua: bool,
    /// What a program sends as it is.
    pub(crate) command: Option<Arc<Command>>,
    /// How often it was sent in vain.
    pub(crate) attempts: u8,
    /// For a flush: the count of changes that it covers.
    pub(crate) covers: u64,
    pub(crate) kept: K,
}

impl<K> Slot<K> {
    /// Whether it may change blocks.
    pub(crate) fn changes(&self) -> bool {
        match &self.command {
            Some(command) => command.reach().changes(),
            None => self.op.changes(),
        }
    }
}

/// The slots of a channel.
pub(crate) struct Slots<K> {
    all: Vec<Slot<K>>,
    free: Vec<u32>,
}

impl<K: Kept> Slots<K> {
    pub(crate) fn new() -> Slots<K> {
        Slots { all: Vec::new(), free: Vec::new() }
    }

    /// Takes a slot for a request of the queue.
    pub(crate) fn take(&mut self, request: &Started<'_>) -> u32 {
        let index = self.next();
        let slot = &mut self.all[index as usize];
        (slot.tag, slot.op) = (request.tag, request.op);
        (slot.pos, slot.len, slot.fua) = (request.pos, request.len, request.fua);
        slot.command = request.command().cloned();
        if request.op.has_data() {
            // SAFETY: the queue keeps the request in flight until its completion is reported, which `put`, which clears
            // the memory, comes before. A slot is not put while its memory is in use.
            unsafe { slot.kept.lend(request) };
        }
        index
    }

    fn next(&mut self) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Slot {
                is_free: true,
                tag: 0,
                op: Op::Read,
                pos: 0,
                len: 0,
                fua: false,
                command: None,
                attempts: 0,
                covers: 0,
                kept: K::default(),
            });
            self.all.len() as u32 - 1
        });
        let slot = &mut self.all[index as usize];
        (slot.is_free, slot.attempts, slot.covers) = (false, 0, 0);
        index
    }

    /// Frees a slot.
    pub(crate) fn put(&mut self, index: u32) {
        let slot = &mut self.all[index as usize];
        slot.is_free = true;
        slot.kept.clear();
        slot.command = None;
        self.free.push(index);
    }

    pub(crate) fn at_mut(&mut self, index: u32) -> &mut Slot<K> {
        &mut self.all[index as usize]
    }

    /// Requests that have not been reported.
    pub(crate) fn taken(&self) -> usize {
        self.all.len() - self.free.len()
    }
}
