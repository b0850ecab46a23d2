//! The requests of a channel that have not been reported.

#![allow(unsafe_code)]

use platter_block::bio::Op;
use platter_block::command::Command;
use platter_block::driver::Started;
use platter_block::time::Time;
use std::sync::Arc;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The slot is free.
    Free,
    /// It waits to be sent; no byte of it has been.
    Staged,
    /// The server has it, or a part of it.
    Sent,
    /// A change that was sent over a connection that was lost, and that the server may still carry out. Until when that is borne.
    Unanswered(Time),
}

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
    pub(crate) state: State,
    /// The queue's tag; `None`: the channel made the request itself.
    pub(crate) tag: Option<u32>,
    pub(crate) op: Op,
    pub(crate) pos: u64,
    pub(crate) len: u64,
    pub(crate) fua: bool,
    /// What a program sends as it is.
    pub(crate) command: Option<Arc<Command>>,
    /// How often its connection was lost before the answer came.
    pub(crate) attempts: u8,
    /// It was cancelled; the server has until then to answer that.
    pub(crate) cancelled: Option<Time>,
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
    /// Reads among the requests.
    reads: usize,
}

impl<K: Kept> Slots<K> {
    pub(crate) fn new() -> Slots<K> {
        Slots { all: Vec::new(), free: Vec::new(), reads: 0 }
    }

    /// Takes a slot for a request of the queue.
    pub(crate) fn take(&mut self, request: &Started<'_>) -> u32 {
        let index = self.take_own(request.op, request.pos, request.len);
        let slot = &mut self.all[index as usize];
        (slot.tag, slot.fua) = (Some(request.tag), request.fua);
        slot.command = request.command().cloned();
        if request.op.has_data() {
            // SAFETY: the queue keeps the request in flight until its completion is reported, which `put`, which clears
            // the memory, comes before. A slot is not put while its memory is in use.
            unsafe { slot.kept.lend(request) };
        }
        index
    }

    /// Takes a slot for a request that the channel makes.
    pub(crate) fn take_own(&mut self, op: Op, pos: u64, len: u64) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Slot {
                state: State::Free,
                tag: None,
                op,
                pos,
                len,
                fua: false,
                command: None,
                attempts: 0,
                cancelled: None,
                covers: 0,
                kept: K::default(),
            });
            self.all.len() as u32 - 1
        });
        let slot = &mut self.all[index as usize];
        (slot.state, slot.op, slot.pos, slot.len) = (State::Staged, op, pos, len);
        (slot.tag, slot.fua, slot.attempts) = (None, false, 0);
        (slot.cancelled, slot.covers) = (None, 0);
        self.reads += usize::from(op == Op::Read);
        index
    }

    /// Frees a slot.
    pub(crate) fn put(&mut self, index: u32) {
        let slot = &mut self.all[index as usize];
        slot.state = State::Free;
        self.reads -= usize::from(slot.op == Op::Read);
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

    pub(crate) fn at(&self, index: u32) -> &Slot<K> {
        &self.all[index as usize]
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Slot<K>> {
        self.all.get(index as usize)
    }

    pub(crate) fn reads(&self) -> usize {
        self.reads
    }

    /// The index of the queue's request with a tag.
    pub(crate) fn with_tag(&self, tag: u32) -> Option<u32> {
        self.live().find(|(_, slot)| slot.tag == Some(tag)).map(|(index, _)| index)
    }

    /// The slots that are not free.
    pub(crate) fn live(&self) -> impl Iterator<Item = (u32, &Slot<K>)> {
        (0..).zip(&self.all).filter(|(_, slot)| slot.state != State::Free)
    }

    /// The indices of the slots that a function selects.
    pub(crate) fn select(&self, which: impl Fn(&Slot<K>) -> bool) -> Vec<u32> {
        self.live().filter(|(_, slot)| which(slot)).map(|(index, _)| index).collect()
    }
}
