//! The memory of reads and writes: bios use the guest's, and nothing is copied.
//!
//! The guest uses that memory for something else once it has the answer. So such a bio is flagged `BORROWED`: it completes when the
//! driver has returned the memory. A guest has no deadline, and waits for as long as the disk takes.

use super::Worker;
use crate::vhost::memory::Lent;
use crate::vhost::request::Range;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::Fault;

impl Worker {
    /// Begins a read or a write.
    pub(super) fn transfer(&mut self, slot: u16, op: Op, range: Range) {
        let mut bio = self.bios.spare();
        let entry = &mut self.slots[usize::from(slot)];
        let mut lent = entry.lent.take().unwrap_or_else(|| Lent::new(&self.memory));
        std::mem::swap(&mut lent.pieces, &mut entry.request.pieces);
        let set = match op {
            Op::Read => bio.reset_read(range.pos, lent),
            _ => bio.reset_write(range.pos, lent),
        };
        bio.add_flags(Flags::BORROWED);
        self.submit(slot, bio, set);
    }

    /// Takes the memory of a completed bio back. Returns the result of the bio.
    pub(super) fn take_back(&mut self, slot: u16, bio: &mut Bio) -> Result<(), Fault> {
        let entry = &mut self.slots[usize::from(slot)];
        if let Some(mut lent) = bio.take_buffer::<Lent>() {
            std::mem::swap(&mut lent.pieces, &mut entry.request.pieces);
            entry.lent = Some(lent);
        }
        bio.status()
    }
}
