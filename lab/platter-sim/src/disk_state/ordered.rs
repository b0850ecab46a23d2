//! Ordered tags: the order numbers of commands, and what a failure and a power cut do to the commands that follow.
//!
//! A disk with faults ends commands later than its model, so the order is kept here too: a command does not take effect
//! before those that it must follow have ended. A command that fails ends all that must follow it, which have had no
//! effect (SCSI: QErr=01b). In a power cut only the commands that may have begun leave traces.

use super::trouble::Trouble;
use super::{DiskState, NO_PORT};
use crate::model::Command;
use platter_block::bio::Op;
use platter_block::driver::Completion;
use platter_block::time::{Span, Time};

/// The data of a read that its channel collects with the completion.
pub(super) struct LateData {
    port: u32,
    tag: u32,
    data: Vec<u8>,
}

impl Command {
    /// Whether it is an ordered tag: these have the odd numbers.
    pub(super) fn is_ordered(&self) -> bool {
        self.order % 2 == 1
    }
}

impl DiskState {
    /// The number of the next command in the order, see [`Command::order`].
    #[inline]
    pub(super) fn next_order(&self, ordered: bool) -> u64 {
        let after_ordered = self.order % 2;
        if ordered { self.order + 1 + after_ordered } else { self.order + after_ordered }
    }

    /// A read was taken. Returns whether its data is there only when it ends, because a command that it must follow has
    /// not ended.
    #[inline]
    pub(super) fn note_late_read(&mut self, index: u32) -> bool {
        let order = self.slots[index as usize].command.order;
        let is_before = |slot: &super::Slot| slot.busy && slot.command.order < order;
        let late = order > 0 && self.medium.is_some() && self.slots.iter().any(is_before);
        self.slots[index as usize].late_read = late;
        late
    }

    /// A late read ends: keeps the data for its channel.
    pub(super) fn fetch_late(&mut self, index: u32, trouble: Option<&mut Trouble>) {
        let slot = &mut self.slots[index as usize];
        let (port, tag, command) = (slot.port, slot.tag, slot.command);
        if !std::mem::take(&mut slot.late_read) || port == NO_PORT {
            return;
        }
        let Some(medium) = &self.medium else { return };
        let mut data = vec![0; command.sectors as usize * 512];
        medium.read(command.sector, &mut data);
        if let Some(mistakes) = trouble.and_then(|trouble| trouble.mistakes.as_mut()) {
            let arrived = mistakes.read(command.sector, &mut data);
            data.truncate(arrived);
        }
        self.late_data.push(LateData { port, tag, data });
    }

    /// The data of a late read whose completion was collected.
    pub(crate) fn take_late(&mut self, port: u32, tag: u32) -> Option<Vec<u8>> {
        let at = self.late_data.iter().position(|late| (late.port, late.tag) == (port, tag))?;
        Some(self.late_data.swap_remove(at).data)
    }

    /// A channel was dropped.
    pub(super) fn forget_late(&mut self, port: u32) {
        self.late_data.retain(|late| late.port != port);
    }

    /// The first number in the order of the commands that have not ended.
    pub(super) fn first_order(&self, trouble: &Trouble) -> u64 {
        let inside = self.inside(trouble).into_iter();
        inside.map(|index| self.slots[index as usize].command.order).min().unwrap_or(0)
    }

    /// The earliest time at which a command of this number may end, because of commands that end late.
    pub(super) fn not_before(&self, trouble: &Trouble, order: u64) -> Option<Time> {
        if order == 0 {
            return None;
        }
        let before = |&&(_, index): &&(Time, u32)| self.slots[index as usize].command.order < order;
        let last = trouble.late.iter().rfind(before)?;
        Some(last.0 + Span(1))
    }

    /// A command has failed: ends all commands that must follow it.
    pub(super) fn abort_behind(&mut self, trouble: &mut Trouble, order: u64) {
        for index in self.inside(trouble) {
            let slot = &mut self.slots[index as usize];
            if !slot.busy || slot.command.order <= order {
                continue;
            }
            let (port, tag, op) = (slot.port, slot.tag, slot.command.op);
            slot.late_read = false;
            let data = std::mem::take(&mut slot.data);
            trouble.count_abort(op);
            self.post(port, tag, Completion::ABORTED);
            let waits = trouble.late.iter().find(|&&(_, late)| late == index).copied();
            let parked = trouble.parked.iter().position(|&parked| parked == index);
            if let Some(entry) = waits {
                trouble.late.remove(&entry);
                self.release_slot(index, data);
            } else if let Some(at) = parked {
                trouble.parked.remove(at);
                self.release_slot(index, data);
            } else {
                // The model still has it.
                let slot = &mut self.slots[index as usize];
                (slot.port, slot.busy) = (NO_PORT, false);
                trouble.note(index).ghost = true;
                trouble.ghosts += 1;
            }
        }
    }

    /// The writes that a flush which ends now covers: an ordered one covers all that it follows.
    pub(super) fn covered(&self, trouble: &Trouble, command: &Command, mark: u64) -> u64 {
        let precise = command.op == Op::Flush && command.is_ordered() && trouble.mistakes.is_none();
        if precise { trouble.volatile.mark() } else { mark }
    }
}
