//! The write buffer: its contents, and the batches in which they are written to the flash.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// Units that are programmed together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Batches count up.
    pub(super) number: u64,
    /// Units of the host, none of them twice.
    pub(super) units: Vec<u32>,
    /// Commands that end when they are programmed.
    pub(super) waiters: Vec<u32>,
    /// The row (of a die) if it is one of copies by garbage collection. They are not in `units`.
    pub(super) copies: Option<(u32, u32)>,
}

/// Data that waits for the flash.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// Bytes, including those in transfer from the host.
    pub(super) used: u64,
    /// The batch with the newest data of each unit.
    newest: HashMap<u32, u64>,
    /// Rows (of a die) of copies that are not programmed yet: valid units there are in memory.
    copying: HashSet<(u32, u32)>,
    batches: Vec<Batch>,
    free: Vec<u32>,
    numbers: u64,
    /// Numbers of the host's batches that are not programmed yet.
    outstanding: BTreeSet<u64>,
    /// The host's batch that is being filled, if one is.
    pub(super) open: Option<u32>,
    /// The host's batches that have no place on the flash yet.
    pub(super) homeless: VecDeque<u32>,
}

impl Store {
    /// Begins a batch of the host.
    fn begin(&mut self) -> u32 {
        let index = self.take(None);
        self.outstanding.insert(self.numbers);
        index
    }

    /// Begins a batch of copies to a row of a die.
    pub(super) fn begin_copies(&mut self, die: u32, row: u32) -> u32 {
        self.copying.insert((die, row));
        self.take(Some((die, row)))
    }

    fn take(&mut self, copies: Option<(u32, u32)>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.batches.push(Batch::default());
            self.batches.len() as u32 - 1
        });
        self.numbers += 1;
        let batch = &mut self.batches[index as usize];
        (batch.number, batch.copies) = (self.numbers, copies);
        index
    }

    /// The host's batch that is being filled.
    pub(super) fn filling(&mut self) -> u32 {
        self.open.unwrap_or_else(|| {
            let batch = self.begin();
            self.open = Some(batch);
            batch
        })
    }

    pub(super) fn batch(&mut self, index: u32) -> &mut Batch {
        &mut self.batches[index as usize]
    }

    /// Adds a unit to a batch. `false`: the batch already has it.
    pub(super) fn add(&mut self, index: u32, unit: u32) -> bool {
        let batch = &mut self.batches[index as usize];
        if self.newest.insert(unit, batch.number) == Some(batch.number) {
            return false;
        }
        batch.units.push(unit);
        true
    }

    /// Whether the host's data of a unit is in memory.
    pub(super) fn holds(&self, unit: u32) -> bool {
        self.newest.contains_key(&unit)
    }

    /// Whether the units of a row of a die are copies that are in memory.
    pub(super) fn copies(&self, row: (u32, u32)) -> bool {
        self.copying.contains(&row)
    }

    /// Whether the buffer has no data of the host.
    pub(super) fn is_empty(&self) -> bool {
        self.newest.is_empty()
    }

    /// Whether a batch has the newest data of a unit.
    pub(super) fn is_newest(&self, unit: u32, number: u64) -> bool {
        self.newest.get(&unit) == Some(&number)
    }

    /// The data of a unit in memory is no longer valid.
    pub(super) fn forget(&mut self, unit: u32) -> bool {
        self.newest.remove(&unit).is_some()
    }

    /// A batch has been programmed. Returns its number of units of the host and appends its waiters.
    pub(super) fn end(&mut self, index: u32, waiters: &mut Vec<u32>) -> u32 {
        let batch = &mut self.batches[index as usize];
        let units = batch.units.len() as u32;
        for unit in batch.units.drain(..) {
            if self.newest.get(&unit) == Some(&batch.number) {
                self.newest.remove(&unit);
            }
        }
        waiters.append(&mut batch.waiters);
        self.outstanding.remove(&batch.number);
        if let Some(row) = batch.copies.take() {
            self.copying.remove(&row);
        }
        self.free.push(index);
        units
    }

    /// The number of the newest batch.
    pub(super) fn newest_number(&self) -> u64 {
        self.numbers
    }

    /// Whether all batches of the host up to this number are on the flash.
    pub(super) fn is_durable(&self, number: u64) -> bool {
        self.outstanding.first().is_none_or(|&first| first > number)
    }
}
