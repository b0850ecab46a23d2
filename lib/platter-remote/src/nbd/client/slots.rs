//! The requests of a channel that have not been reported.

use super::memory::Memory;
use super::ranges::Ranges;
use crate::nbd::wire::{Request, command, command_flag};
use platter_block::bio::Op;
use platter_block::driver::Started;
use platter_block::time::Time;
use std::sync::Arc;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The slot is free.
    Free,
    /// It waits to be sent; no byte of it has been.
    Staged,
    /// The server has it, or a part of it.
    Sent,
    /// A change that was sent over a connection that was lost, and that the server may still carry out. Until when that is borne.
    Unanswered(Time),
}

/// A request.
pub(super) struct Slot {
    pub(super) state: State,
    /// The queue's tag; `None`: the channel made the request itself.
    pub(super) tag: Option<u32>,
    pub(super) op: Op,
    pub(super) pos: u64,
    pub(super) len: u64,
    pub(super) fua: bool,
    pub(super) memory: Memory,
    /// The memory of a request that the channel made.
    pub(super) keeps: Option<Arc<Vec<u8>>>,
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
    /// How often it was sent over a connection that was lost then.
    pub(super) attempts: u8,
    /// For a flush: the count of changes that it covers.
    pub(super) covers: u64,
    /// Distinguishes the users of the slot, and the connections.
    generation: u32,
}

impl Slot {
    fn new() -> Slot {
        Slot {
            state: State::Free,
            tag: None,
            op: Op::Read,
            pos: 0,
            len: 0,
            fua: false,
            memory: Memory::default(),
            keeps: None,
            header: [0; Request::BYTES],
            arrived: Ranges::default(),
            error: 0,
            empty: 0,
            whole: false,
            early: None,
            attempts: 0,
            covers: 0,
            generation: 0,
        }
    }

    /// Bytes of data that follow the header.
    pub(super) fn payload(&self) -> usize {
        if self.op == Op::Write { self.len as usize } else { 0 }
    }

    fn prepare(&mut self, index: u32) {
        self.generation = self.generation.wrapping_add(1);
        self.arrived.clear();
        (self.error, self.empty) = (0, 0);
        (self.whole, self.early) = (false, None);
        let kind = match self.op {
            Op::Read => command::READ,
            Op::Write => command::WRITE,
            Op::Flush => command::FLUSH,
            Op::Discard => command::TRIM,
            Op::WriteZeroes => command::WRITE_ZEROES,
            Op::Command => unreachable!("an NBD server takes no commands, and the geometry says so"),
        };
        let flags = if self.fua { command_flag::FUA } else { 0 };
        let cookie = u64::from(self.generation) << 32 | u64::from(index);
        let flush = self.op == Op::Flush;
        let (offset, length) = if flush { (0, 0) } else { (self.pos, self.len as u32) };
        self.header = Request { flags, kind, cookie, offset, length }.to_bytes();
    }
}

/// The slots of a channel.
#[derive(Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    free: Vec<u32>,
    /// Reads among the requests.
    reads: usize,
}

impl Slots {
    /// Takes a slot for a request of the queue.
    #[allow(unsafe_code)]
    pub(super) fn take(&mut self, request: &Started<'_>) -> u32 {
        let index = self.next();
        let slot = &mut self.all[index as usize];
        (slot.tag, slot.op, slot.pos, slot.len) = (Some(request.tag), request.op, request.pos, request.len);
        slot.fua = request.fua;
        self.reads += usize::from(request.op == Op::Read);
        if request.op.has_data() {
            // SAFETY: the queue keeps the request in flight until its completion is reported, which `put`, which clears
            // the memory, comes before.
            unsafe { slot.memory.fill(request) };
        }
        slot.prepare(index);
        index
    }

    /// Takes a slot for a write that the channel makes: of these bytes, or of `len` zeroes.
    #[allow(unsafe_code)]
    pub(super) fn take_own(&mut self, pos: u64, len: u64, bytes: Option<Arc<Vec<u8>>>) -> u32 {
        let index = self.next();
        let slot = &mut self.all[index as usize];
        (slot.tag, slot.pos, slot.len, slot.fua) = (None, pos, len, false);
        slot.op = if bytes.is_some() { Op::Write } else { Op::WriteZeroes };
        if let Some(bytes) = bytes {
            // SAFETY: `keeps` holds the bytes, which nothing changes behind an `Arc`, until `put` has cleared the memory.
            unsafe { slot.memory.fill_with(&bytes) };
            slot.keeps = Some(bytes);
        }
        slot.prepare(index);
        index
    }

    /// Takes a slot for a flush that the channel makes.
    pub(super) fn take_own_flush(&mut self) -> u32 {
        let index = self.next();
        let slot = &mut self.all[index as usize];
        (slot.tag, slot.op, slot.pos, slot.len, slot.fua) = (None, Op::Flush, 0, 0, false);
        slot.prepare(index);
        index
    }

    fn next(&mut self) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Slot::new());
            self.all.len() as u32 - 1
        });
        let slot = &mut self.all[index as usize];
        slot.state = State::Staged;
        (slot.attempts, slot.covers) = (0, 0);
        index
    }

    /// Makes a request that was sent ready to be sent again.
    pub(super) fn stage_again(&mut self, index: u32) {
        let slot = &mut self.all[index as usize];
        slot.state = State::Staged;
        slot.prepare(index);
    }

    /// Frees a slot.
    pub(super) fn put(&mut self, index: u32) {
        let slot = &mut self.all[index as usize];
        slot.state = State::Free;
        self.reads -= usize::from(slot.op == Op::Read);
        slot.memory.clear();
        slot.keeps = None;
        self.free.push(index);
    }

    /// The index of the request that a reply answers.
    pub(super) fn find(&self, cookie: u64) -> Option<u32> {
        let index = cookie as u32;
        let slot = self.all.get(index as usize)?;
        let is_awaited = slot.state == State::Sent && slot.early.is_none();
        (is_awaited && slot.generation == (cookie >> 32) as u32).then_some(index)
    }

    /// The index of the queue's request with a tag.
    pub(super) fn with_tag(&self, tag: u32) -> Option<u32> {
        self.live().find(|(_, slot)| slot.tag == Some(tag)).map(|(index, _)| index)
    }

    pub(super) fn at(&self, index: u32) -> &Slot {
        &self.all[index as usize]
    }

    pub(super) fn at_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.all[index as usize]
    }

    /// Requests that have not been reported.
    pub(super) fn taken(&self) -> usize {
        self.all.len() - self.free.len()
    }

    pub(super) fn reads(&self) -> usize {
        self.reads
    }

    /// The slots that are not free.
    pub(super) fn live(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..).zip(&self.all).filter(|(_, slot)| slot.state != State::Free)
    }

    /// The indices of the slots in a state that a function selects.
    pub(super) fn select(&self, which: impl Fn(&Slot) -> bool) -> Vec<u32> {
        self.live().filter(|(_, slot)| which(slot)).map(|(index, _)| index).collect()
    }
}
