//! `verify`: a device that remembers what was written and checks what is read.
//!
//! In memory it keeps a CRC32C of each logical block that was written through it, and nothing of the others. A
//! read whose bytes have another one fails with [`Kind::Corrupt`] and names the first such block; its memory
//! holds what was read. Checked is only what is certain: not blocks that were being written while they were
//! read, that two writes raced for, whose write failed, or that were discarded. After a write that timed out its
//! blocks are never checked again, since the device may still write them at any time.

use crate::filter::{Filter, Filtered};
use crate::{LayerError, Row};
use platter_block::backend::Backend;
use platter_block::bio::{Bio, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::time::Time;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

mod memory;

pub(crate) const ROW: Row = Row {
    name: "verify",
    summary: "a device that remembers checksums of what was written and checks what is read",
    params: &[],
    members: 1..=1,
    build: |_, mut members| {
        let Some(below) = members.pop() else {
            return Err(LayerError::Members("verify needs a device".to_string()));
        };
        Ok(new(below))
    },
};

/// A device on which reads fail that do not give what was written last. It takes some 40 bytes of memory for each
/// logical block that is written, and its lanes know of each other.
pub fn new(below: Arc<dyn Backend>) -> Arc<dyn Backend> {
    let unit = below.geometry().limits.logical_block as usize;
    let zero = crc32c::crc32c(&vec![0; unit]);
    let known = Arc::new(Mutex::new(Known::default()));
    let make = move || -> Box<dyn Filter> {
        Box::new(Verifier { unit, zero, known: Arc::clone(&known), tasks: Vec::new(), read: Vec::new() })
    };
    Arc::new(Filtered::new("verify", "", below, Box::new(make)))
}

/// A block that was written.
#[derive(Default)]
struct Block {
    /// `None`: it may be anything.
    crc: Option<u32>,
    /// Writes of it that are under way.
    writers: u32,
    /// Two of them met.
    raced: bool,
    /// When the last one began or ended.
    changed: u64,
}

/// What all lanes know.
#[derive(Default)]
struct Known {
    blocks: HashMap<u64, Block>,
    /// Counts what begins and ends.
    moment: u64,
}

/// An I/O that is under way.
#[derive(Default)]
struct Task {
    op: Option<Op>,
    pos: u64,
    len: u64,
    began: u64,
    /// Of a write, by block.
    crcs: Vec<u32>,
}

struct Verifier {
    unit: usize,
    zero: u32,
    known: Arc<Mutex<Known>>,
    /// By slot.
    tasks: Vec<Task>,
    read: Vec<u32>,
}

impl Known {
    fn tick(&mut self) -> u64 {
        self.moment += 1;
        self.moment
    }

    fn begin(&mut self, numbers: impl Iterator<Item = u64>) {
        let now = self.tick();
        for number in numbers {
            let block = self.blocks.entry(number).or_default();
            block.writers += 1;
            block.raced |= block.writers > 1;
            block.changed = now;
        }
    }

    /// A change of blocks has ended, and these are their checksums now, if that is known.
    fn end(&mut self, numbers: impl Iterator<Item = u64>, crc: impl Fn(usize) -> Option<u32>) {
        let now = self.tick();
        for (at, number) in numbers.enumerate() {
            let block = self.blocks.entry(number).or_default();
            block.crc = if block.raced { None } else { crc(at) };
            block.writers = block.writers.saturating_sub(1);
            block.raced &= block.writers > 0;
            block.changed = now;
        }
    }

    /// Whether a block that was read, beginning at a moment, cannot have this checksum.
    fn differs(&self, number: u64, crc: u32, began: u64) -> bool {
        self.blocks.get(&number).is_some_and(|block| {
            block.writers == 0 && block.changed < began && block.crc.is_some_and(|known| known != crc)
        })
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Task {
    /// Numbers of the blocks, without the piece of one that a device may end with.
    fn numbers(&self, unit: usize) -> std::ops::Range<u64> {
        let unit = unit as u64;
        self.pos / unit..(self.pos + self.len) / unit
    }
}

impl Filter for Verifier {
    fn start(&mut self, now: Time, slot: usize, bio: &mut Bio) -> Result<Time, Fault> {
        if slot >= self.tasks.len() {
            self.tasks.resize_with(slot + 1, Task::default);
        }
        let task = &mut self.tasks[slot];
        // What has been done in part already does not begin with its first segment.
        task.op = (bio.done() == 0).then_some(bio.op());
        (task.pos, task.len) = (bio.pos(), bio.len());
        task.crcs.clear();
        if bio.op() == Op::Write && task.op.is_some() {
            // SAFETY: the bio was submitted and has not been handed down yet.
            unsafe { memory::checksums(bio, self.unit, task.len, &mut task.crcs) };
        }
        let mut known = lock(&self.known);
        if bio.op().changes() {
            known.begin(task.numbers(self.unit));
        }
        task.began = known.tick();
        Ok(now)
    }

    fn end(&mut self, slot: usize, bio: &mut Bio) {
        let Some(task) = self.tasks.get_mut(slot) else { return };
        let (op, status) = (bio.op(), bio.status());
        let numbers = task.numbers(self.unit);
        if op.changes() {
            if status.is_err_and(|fault| fault.kind == Kind::TimedOut) {
                return;
            }
            let crc = |at: usize| match op {
                Op::Write => task.crcs.get(at).copied(),
                Op::WriteZeroes => Some(self.zero),
                _ => None,
            };
            return lock(&self.known).end(numbers, |at| if status.is_ok() { crc(at) } else { None });
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
            bio.rewind(task.pos, task.len);
            bio.advance(number * self.unit as u64 - task.pos);
            bio.fail(Fault::new(Kind::Corrupt, Stage::Disk));
        }
    }
}
