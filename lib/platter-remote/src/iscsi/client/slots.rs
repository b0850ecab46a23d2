//! The requests of a channel that have not been reported.

#![allow(unsafe_code)]

use crate::buffers::Buffers;
use crate::slots::Kept;
use platter_block::bio::Op;
use platter_block::command::Command;
use platter_block::driver::Started;
use platter_block::time::Time;
use std::sync::Arc;

/// How often a request is sent at most, if each time the session ends or the target asks for it again: it may be what the
/// target dies of.
const ATTEMPTS: u8 = 6;

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The slot is free.
    Free,
    /// It waits to be sent.
    Staged,
    /// The session has it.
    Sent,
    /// A change that was sent over a session that ended, and that the target may still carry out. Until when that is borne.
    Unanswered(Time),
}

/// A request.
pub(super) struct Slot {
    pub(super) state: State,
    /// The queue's tag.
    pub(super) tag: u32,
    pub(super) op: Op,
    pub(super) pos: u64,
    pub(super) len: u64,
    pub(super) fua: bool,
    /// What a program sends as it is.
    pub(super) command: Option<Arc<Command>>,
    /// Its memory, unless the session has it.
    pub(super) buffers: Buffers,
    /// How often it was sent in vain.
    pub(super) attempts: u8,
    /// It was cancelled; the target has until then to answer the abort.
    pub(super) cancelled: Option<Time>,
    /// For a flush: the count of changes that it covers.
    pub(super) covers: u64,
}

impl Slot {
    /// Whether it is not sent again: a program's command, a request that was cancelled, or one that was sent in vain too
    /// often.
    pub(super) fn is_over(&self) -> bool {
        self.command.is_some() || self.cancelled.is_some() || self.attempts >= ATTEMPTS
    }

    /// Whether it may change blocks.
    pub(super) fn changes(&self) -> bool {
        match &self.command {
            Some(command) => command.reach().changes(),
            None => self.op.changes(),
        }
    }
}

/// The slots of a channel.
#[derive(Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// Takes a slot for a request of the queue.
    pub(super) fn take(&mut self, request: &Started<'_>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.all.push(Slot {
                state: State::Free,
                tag: 0,
                op: Op::Read,
                pos: 0,
                len: 0,
                fua: false,
                command: None,
                buffers: Buffers::default(),
                attempts: 0,
                cancelled: None,
                covers: 0,
            });
            self.all.len() as u32 - 1
        });
        let slot = &mut self.all[index as usize];
        (slot.state, slot.tag, slot.op) = (State::Staged, request.tag, request.op);
        (slot.pos, slot.len, slot.fua) = (request.pos, request.len, request.fua);
        (slot.attempts, slot.covers, slot.cancelled) = (0, 0, None);
        slot.command = request.command().cloned();
        if request.op.has_data() {
            // SAFETY: the queue keeps the request in flight until its completion is reported, which `put`, which clears
            // the memory, comes before. While the session has the memory the slot is not put.
            unsafe { slot.buffers.lend(request) };
        }
        index
    }

    /// Frees a slot.
    pub(super) fn put(&mut self, index: u32) {
        let slot = &mut self.all[index as usize];
        slot.state = State::Free;
        slot.buffers.clear();
        slot.command = None;
        self.free.push(index);
    }

    /// The index of the request with a tag.
    pub(super) fn with_tag(&self, tag: u32) -> Option<u32> {
        self.live().find(|(_, slot)| slot.tag == tag).map(|(index, _)| index)
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

    /// The slots that are not free.
    pub(super) fn live(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..).zip(&self.all).filter(|(_, slot)| slot.state != State::Free)
    }

    /// The indices of the slots that a function selects.
    pub(super) fn select(&self, which: impl Fn(&Slot) -> bool) -> Vec<u32> {
        self.live().filter(|(_, slot)| which(slot)).map(|(index, _)| index).collect()
    }
}
