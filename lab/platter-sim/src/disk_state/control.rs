//! Control of a disk other than I/O: listing its commands, and cancelling one.

use super::trouble::{ECANCELED, Trouble};
use super::{DiskState, NO_PORT, SimDisk};
use crate::model::Command;
use platter_block::bio::Op;
use platter_block::driver::Outstanding;
use platter_block::time::Time;
use std::sync::Arc;

/// Called for each command that a disk takes, with the data of a write.
pub(super) type Observer = Box<dyn FnMut(&Command, &[u8]) + Send>;

/// A command that a disk has taken and not completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The operation.
    pub op: Op,
    /// First sector.
    pub sector: u64,
    /// Sectors; 0 for a flush.
    pub sectors: u64,
    /// When it was taken; `Time(0)` on a disk without faults.
    pub taken: Time,
    /// It has already taken effect, and only its completion is missing.
    pub landed: bool,
    /// The data of a write.
    pub data: Vec<u8>,
}

/// Number of commands that a channel has in its disk.
struct OfPort {
    disk: SimDisk,
    port: u32,
}

impl Outstanding for OfPort {
    fn outstanding(&self) -> u32 {
        let mut state = self.disk.lock();
        state.live(self.disk.world().clock().now());
        self.disk.publish(&state);
        let own = |slot: &&super::Slot| slot.busy && slot.port == self.port;
        state.slots.iter().filter(own).count() as u32
    }
}

impl SimDisk {
    /// Calls `observer` for each command that the disk takes from now on, in order. It must not call the
    /// disk.
    pub fn observe(&self, observer: impl FnMut(&Command, &[u8]) + Send + 'static) {
        self.lock().observer = Some(Box::new(observer));
    }

    /// Makes the disk's channels answer [`Driver::outstanding`](platter_block::driver::Driver::outstanding) with
    /// `None` from now on, as rings do that post completions only to their owner.
    pub fn set_owner_only(&self, owner_only: bool) {
        self.lock().owner_only = owner_only;
    }

    /// The commands that the disk has taken and not completed, in no particular order.
    pub fn inside(&self) -> Vec<Inside> {
        let mut state = self.lock();
        state.live(self.world().clock().now());
        self.publish(&state);
        let notes = state.trouble.as_ref().map_or(&[][..], |trouble| &trouble.notes);
        let busy = state.slots.iter().enumerate().filter(|(_, slot)| slot.busy);
        let inside = |(index, slot): (usize, &super::Slot)| {
            let note = notes.get(index).copied().unwrap_or_default();
            let (command, data) = (slot.command, slot.data.clone());
            let sectors = u64::from(command.sectors);
            let (taken, landed) = (note.taken, note.landed);
            Inside { op: command.op, sector: command.sector, sectors, taken, landed, data }
        };
        busy.map(inside).collect()
    }

    /// The contents of whole sectors from `sector` on, as a read that takes effect now finds them. A disk without a medium leaves
    /// `out` unchanged.
    pub fn contents(&self, sector: u64, out: &mut [u8]) {
        if let Some(medium) = self.lock().medium() {
            medium.read(sector, out);
        }
    }

    pub(crate) fn outstanding(&self, port: u32) -> Option<Arc<dyn Outstanding>> {
        let hidden = self.lock().owner_only;
        (!hidden).then(|| Arc::new(OfPort { disk: self.clone(), port }) as Arc<dyn Outstanding>)
    }

    /// Asks the disk to cancel a command. Returns whether the disk had it.
    pub(crate) fn cancel(&self, now: Time, port: u32, tag: u32) -> bool {
        let mut state = self.lock();
        state.live(now);
        self.trouble(&mut state);
        let Some(mut trouble) = state.trouble.take() else { return false };
        let has = state.cancel(&mut trouble, port, tag);
        state.trouble = Some(trouble);
        self.publish(&state);
        has
    }
}

impl DiskState {
    /// Cancels a command or not, as the seed decides: a disk may ignore such a request. Any part of the data
    /// of a cancelled write may have been stored.
    fn cancel(&mut self, trouble: &mut Trouble, port: u32, tag: u32) -> bool {
        let own = |slot: &super::Slot| slot.busy && slot.port == port && slot.tag == tag;
        let Some(index) = self.slots.iter().position(own) else { return false };
        let index = index as u32;
        let seed = match &mut trouble.injector {
            Some(injector) => injector.aborts(),
            None => Some(u64::from(tag)),
        };
        let Some(seed) = seed else { return true };
        let note = *trouble.note(index);
        let begun = self.first_order(trouble);
        let slot = &mut self.slots[index as usize];
        slot.late_read = false;
        let (command, data) = (slot.command, std::mem::take(&mut slot.data));
        if !note.landed && command.order <= begun {
            self.store_some(trouble, &note, &command, &data, seed);
        }
        trouble.count_abort(command.op);
        self.post(port, tag, -ECANCELED);
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
        true
    }
}
