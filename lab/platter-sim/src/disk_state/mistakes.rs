//! How commands end on a disk that misbehaves on purpose.

use super::DiskState;
use super::trouble::{EIO, Trouble};
use crate::wrong::{Mistakes, Wrong};
use platter_block::bio::Op;

impl DiskState {
    /// Sets or removes the misbehaviour.
    pub(super) fn set_mistakes(trouble: &mut Trouble, wrong: Option<Wrong>) {
        trouble.mistakes = wrong.map(Mistakes::new);
    }

    /// Ends a command successfully, as far as a misbehaving disk can do that.
    pub(super) fn finish_wrong(&mut self, trouble: &mut Trouble, index: u32, mut data: Vec<u8>) {
        let Some(mut mistakes) = trouble.mistakes.take() else { return };
        let slot = &self.slots[index as usize];
        let (port, tag, mut command) = (slot.port, slot.tag, slot.command);
        let note = trouble.notes[index as usize];
        let mut result = if command.op.has_data() { i64::from(command.sectors) * 512 } else { 0 };
        command.fua &= !mistakes.is(Wrong::IgnoresFua);
        if let Some(command) = mistakes.write(&command, &mut data) {
            self.remember_old(&mut mistakes, command.sector, command.op);
            self.store(trouble, &note, &command, &data);
        }
        if command.op == Op::Read && mistakes.makes(Wrong::InventsError) {
            result = -EIO;
        }
        let order = command.order;
        if let Some((port, tag, result)) = mistakes.again.take() {
            self.post(port, tag, result);
        }
        if mistakes.makes(Wrong::CompletesTwice) {
            mistakes.again = Some((port, tag, result));
        }
        if !mistakes.makes(Wrong::LosesCompletion) {
            self.post(port, tag, result);
        }
        self.release_slot(index, data);
        trouble.mistakes = Some(mistakes);
        if result < 0 {
            self.abort_behind(trouble, order);
        }
    }

    fn remember_old(&self, mistakes: &mut Mistakes, sector: u64, op: Op) {
        if op == Op::Write
            && mistakes.is(Wrong::StaleRead)
            && let Some(medium) = &self.medium
        {
            let mut before = vec![0; 512];
            medium.read(sector, &mut before);
            mistakes.remember(sector, before);
        }
    }

    /// Changes the data of a read; returns how many bytes of it arrive.
    pub(crate) fn spoil(&mut self, sector: u64, data: &mut [u8]) -> usize {
        match self.trouble.as_mut().and_then(|trouble| trouble.mistakes.as_mut()) {
            Some(mistakes) => mistakes.read(sector, data),
            None => data.len(),
        }
    }
}
