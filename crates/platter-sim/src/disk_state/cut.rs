//! The effects of a power cut on one disk.

use super::DiskState;
use super::trouble::Trouble;
use crate::fault::Fate;
use crate::power::{CutReport, Judge};
use platter_block::bio::Op;
use platter_block::time::Time;

impl DiskState {
    /// Checks whether power was cut since the last check, until `now`.
    pub(super) fn notice_cut(&mut self, trouble: &mut Trouble, now: Time) {
        let Some(supply) = trouble.supply.clone() else { return };
        let Some(cut) = supply.missed(trouble.cuts, now) else { return };
        trouble.cuts = cut.number;
        let mut report = CutReport { disk: trouble.number, ..CutReport::default() };
        report.volatile = trouble.volatile.len() as u64;
        self.keep_in_flight(trouble, &mut report);
        if let Some(medium) = &mut self.medium {
            let mut judge = Judge::new(&cut.survivors, trouble.number);
            trouble.volatile.cut(medium, &mut judge, &mut report);
        }
        self.fail_all(trouble);
        supply.report(report);
    }

    /// Any part of the data in flight may survive.
    fn keep_in_flight(&mut self, trouble: &mut Trouble, report: &mut CutReport) {
        let begun = self.first_order(trouble);
        for index in self.inside(trouble) {
            let slot = &self.slots[index as usize];
            let (command, note) = (slot.command, trouble.notes[index as usize]);
            match command.op {
                Op::Read => report.reads += 1,
                Op::Flush => report.flushes += 1,
                Op::Write | Op::Discard | Op::WriteZeroes => {
                    report.writes += 1;
                    if note.fate == Fate::Good
                        && !note.landed
                        && command.order <= begun
                        && let Some(medium) = &mut self.medium
                    {
                        let count = u64::from(command.sectors);
                        if note.atomic {
                            trouble.volatile.keep_whole(note.number);
                        }
                        trouble.volatile.record(medium, note.number, command.sector, count, &slot.data);
                    }
                }
            }
        }
    }
}
