//! Garbage collection: copies the valid units of the block with the fewest of them, then erases the block.

use super::ftl::For;
use super::nand::Job;
use super::ssd::Ssd;
use platter_block::time::Time;

/// A die with this many erased blocks or fewer collects.
const LOW: u32 = 2;

/// A row that copies go to.
#[derive(Clone, Copy, Debug)]
struct Filling {
    row: u32,
    within: u32,
    batch: u32,
}

/// The block being collected on each die.
#[derive(Debug)]
pub(super) struct Collector {
    victims: Vec<Option<u32>>,
    filling: Vec<Option<Filling>>,
    units: Vec<u32>,
    /// The die that the host's next row is tried on first.
    pub(super) next_die: u32,
}

impl Collector {
    pub(super) fn new(dies: u32) -> Collector {
        let dies = dies as usize;
        Collector { victims: vec![None; dies], filling: vec![None; dies], units: Vec::new(), next_die: 0 }
    }
}

impl Ssd {
    /// Begins to collect on a die with too few erased blocks.
    pub(super) fn collect_if_short(&mut self, now: Time, die: u32) {
        if self.ftl.free(die) <= LOW {
            self.collect(now, die, self.shape.block_units() - 1);
        }
    }

    /// The disk is idle: writes the buffer to the flash, and collects garbage ahead of need.
    pub(super) fn rest(&mut self, now: Time) {
        self.idle = true;
        self.seal(now);
        for die in 0..self.shape.dies {
            self.collect_at_rest(now, die);
        }
    }

    fn collect_at_rest(&mut self, now: Time, die: u32) {
        // Up to a thirty-second of all blocks; copying more than three quarters of one wears more than it helps.
        if self.ftl.free(die) < (self.shape.blocks / 32).max(2 * LOW) {
            self.collect(now, die, self.shape.block_units() / 4 * 3);
        }
    }

    /// Begins to collect the block with the fewest valid units, if they are at most `most`.
    fn collect(&mut self, now: Time, die: u32, most: u32) {
        if self.collector.victims[die as usize].is_some() {
            return;
        }
        let filling = self.collector.filling[die as usize].map(|filling| self.ftl.block_of(filling.row));
        let victim = self.ftl.victim(die, filling).filter(|&(_, valid)| valid <= most);
        let Some((block, _)) = victim else { return };
        self.collector.victims[die as usize] = Some(block);
        self.collect_row(now, die, block, 0);
    }

    /// Reads the next row with valid units, or erases the block.
    fn collect_row(&mut self, now: Time, die: u32, block: u32, from: u32) {
        let units = &mut self.collector.units;
        let job = match self.ftl.next_valid(die, block, from, units) {
            Some(row) => {
                self.meter.count_read();
                Job::Collect { block, row, units: units.len() as u32 }
            }
            None => Job::Erase { block },
        };
        self.nand.push(now, die, job, &mut self.events);
    }

    /// A row was read: its valid units get new places.
    pub(super) fn copy_row(&mut self, now: Time, die: u32, block: u32, row: u32) {
        let mut units = std::mem::take(&mut self.collector.units);
        self.ftl.valid_in(die, block, row, &mut units);
        self.meter.count_copied(units.len() as u64);
        for &unit in &units {
            let Some(mut to) = self.collector.filling[die as usize].or_else(|| self.next_filling(die)) else {
                debug_assert!(false, "the last erased block is kept for copies");
                break;
            };
            self.ftl.put(die, to.row, to.within, unit);
            // A write of the same unit in the buffer is newer than the copy.
            if !self.store.holds(unit) {
                self.store.add(to.batch, unit);
            }
            to.within += 1;
            let full = to.within == self.shape.row_units;
            self.collector.filling[die as usize] = Some(to).filter(|_| !full);
            if full {
                self.nand.push(now, die, Job::Program { batch: to.batch }, &mut self.events);
            }
        }
        self.collector.units = units;
        self.collect_row(now, die, block, row + 1);
    }

    fn next_filling(&mut self, die: u32) -> Option<Filling> {
        let row = self.ftl.take_row(die, For::Collection)?;
        Some(Filling { row, within: 0, batch: self.store.begin(true) })
    }

    /// A block is erased.
    pub(super) fn erased(&mut self, now: Time, die: u32, block: u32) {
        self.ftl.release(die, block);
        self.meter.count_erased();
        self.collector.victims[die as usize] = None;
        self.collect_if_short(now, die);
        if self.idle {
            self.collect_at_rest(now, die);
        }
        self.house(now);
    }
}
