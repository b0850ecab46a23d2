//! `verify`: a device that records what is written and checks what is read.
//!
//! It keeps in memory a CRC32C of each logical block that was written through it, and nothing of other
//! blocks. A read whose data has a different checksum fails with [`Kind::Corrupt`] and reports the first such
//! block; its memory then holds the data that was read. A block is checked only if its contents are certain:
//! not if it was written during the read, if two writes of it overlapped in time, if its write failed, or if
//! it was discarded. The layer only sees I/O that goes through it.
//!
//! Discards and write-zeroes are recorded as ranges, so that their size does not matter.

use crate::LayerType;
use crate::filter::{BioView, CommandRule, Filter, Filtered, only};
use known::{Change, Known};
use platter_block::backend::Backend;
use platter_block::bio::Op;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::time::Time;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod known;
mod memory;

pub(crate) const TYPE: LayerType = LayerType {
    name: "verify",
    summary: "records checksums of written blocks and checks reads against them",
    params: &[],
    members: 1..=1,
    build: |_, below| Ok(new(only("verify", below)?)),
};

/// A device on which a read fails that does not return what was written last. It takes about 40 bytes of
/// memory for each logical block written and about 50 for each range of zeroes. All lanes share this state.
pub fn new(below: Arc<dyn Backend>) -> Arc<dyn Backend> {
    let unit = below.geometry().limits.logical_block as usize;
    let zero = crc32c::crc32c(&vec![0; unit]);
    let known = Arc::new(Mutex::new(Known::new(zero)));
    let verifier = Verifier { unit, known, tasks: Vec::new(), read: Vec::new() };
    Arc::new(Filtered::new("verify", "", below, verifier))
}

/// An I/O in flight.
#[derive(Clone, Default)]
struct Task {
    op: Option<Op>,
    pos: u64,
    len: u64,
    began: u64,
    /// The change that a write, discard or write-zeroes makes.
    change: Change,
    /// Checksums of the blocks of a write.
    crcs: Vec<u32>,
}

#[derive(Clone)]
struct Verifier {
    unit: usize,
    known: Arc<Mutex<Known>>,
    /// Indexed by slot.
    tasks: Vec<Task>,
    read: Vec<u32>,
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Task {
    /// Numbers of the blocks, without the incomplete one at the end of some devices.
    fn numbers(&self, unit: usize) -> std::ops::Range<u64> {
        let unit = unit as u64;
        self.pos / unit..(self.pos + self.len) / unit
    }
}

impl Filter for Verifier {
    fn commands(&self) -> CommandRule {
        // What a command writes has no checksum here.
        CommandRule::Reads
    }

    fn start(&mut self, now: Time, slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        if slot >= self.tasks.len() {
            self.tasks.resize_with(slot + 1, Task::default);
        }
        let task = &mut self.tasks[slot];
        // Of a bio that is partly done, the rest does not begin with the first segment.
        task.op = (bio.done() == 0).then_some(bio.op());
        (task.pos, task.len) = (bio.pos(), bio.len());
        task.crcs.clear();
        if bio.op() == Op::Write && task.op.is_some() {
            // SAFETY: the bio was submitted and has not been handed down yet.
            unsafe { memory::checksums(bio, self.unit, task.len, &mut task.crcs) };
        }
        let mut known = lock(&self.known);
        let numbers = task.numbers(self.unit);
        match bio.op() {
            Op::Write => task.change = known.begin_write(numbers),
            Op::Discard | Op::WriteZeroes => task.change = known.begin_sweep(numbers),
            Op::Read | Op::Flush | Op::Command => {}
        }
        task.began = known.tick();
        Ok(now)
    }

    fn end(&mut self, slot: usize, bio: &mut BioView<'_>) {
        let Some(task) = self.tasks.get_mut(slot) else { return };
        let (op, status) = (bio.op(), bio.status());
        let numbers = task.numbers(self.unit);
        if op.changes() {
            let mut known = lock(&self.known);
            let change = std::mem::take(&mut task.change);
            return match (op, status) {
                (Op::Write, Ok(())) => known.end_write(change, numbers, |at| task.crcs.get(at).copied()),
                (Op::Write, Err(_)) => known.end_write(change, numbers, |_| None),
                (_, status) => known.end_sweep(change, op == Op::WriteZeroes && status.is_ok()),
            };
        }
        if status.is_err() || task.op != Some(Op::Read) {
            return;
        }
        self.read.clear();
        // SAFETY: the device has done the bio, and it has not been given back yet.
        unsafe { memory::checksums(bio, self.unit, task.len, &mut self.read) };
        let known = lock(&self.known);
        let bad = numbers.zip(&self.read).find(|&(number, &crc)| known.differs(number, crc, task.began));
        if let Some((number, _)) = bad {
            bio.fail_at(number * self.unit as u64, Fault::new(Kind::Corrupt, Stage::Disk));
        }
    }
}
