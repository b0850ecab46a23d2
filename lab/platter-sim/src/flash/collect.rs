//! Garbage collection: copies the valid units of the block with the fewest of them, then erases the block.
//!
//! It goes on row by row, at the pace of the host. The *slack* of a die is what can be written before another block
//! has to be found: its unfilled places, and those of the block being collected that were looked at, since they
//! are gained when it is erased. A copied unit leaves the slack as it is, invalid places add to it, a row of the
//! host takes from it. A die whose slack is below its *target* collects, and takes no row of the host before the
//! slack is back. So each row of the host costs the copies that free a row, and no block is ever waited for: with a
//! target of three blocks or more there is an erased one for the host and one for the copies, however much of the
//! slack lies in the block being collected and in blocks half filled. The targets of dies are apart by parts of a
//! block, so that they begin to collect one after the other, and do not erase at the same time.
//!
//! When the disk is idle, the cache is emptied and a block of each die collected ahead of need, by the same steps.

use super::ftl::For;
use super::nand::Job;
use super::params::Shape;
use super::ssd::Ssd;
use super::start::Lying;
use platter_block::time::Time;

/// A row that copies go to.
#[derive(Clone, Copy, Debug)]
struct Filling {
    row: u32,
    within: u32,
    batch: u32,
}

/// A block being collected, or one of the cache being emptied.
#[derive(Clone, Copy, Debug)]
struct Victim {
    block: u32,
    /// Rows that were looked at.
    rows: u32,
    /// A row is being read, or the block is being erased.
    busy: bool,
}

/// Collection on one die.
#[derive(Clone, Copy, Debug)]
struct State {
    victim: Option<Victim>,
    filling: Option<Filling>,
    /// Slack, in units, below which the die collects.
    target: u32,
    /// Slack up to which it collects when the disk is idle.
    rest: u32,
}

/// The row of a die that is being read to be copied.
#[derive(Debug, Default)]
struct Looked {
    block: u32,
    row: u32,
    /// Its valid units when the read began.
    units: Vec<Lying>,
    /// Valid units of the whole block at that time. A block that is collected gets no more of them, so if there are as many
    /// when the read ends, they are the same.
    valid: u32,
}

/// Collection on all dies.
#[derive(Debug)]
pub(super) struct Collector {
    dies: Vec<State>,
    looked: Vec<Looked>,
    /// The die that the host's next row is tried on first.
    pub(super) next_die: u32,
}

impl Collector {
    /// At first the dies are collecting block `first`, if one is given, each at another row.
    pub(super) fn new(shape: Shape, first: Option<u32>) -> Collector {
        let state = |die| {
            let target = 3 * shape.block_units() + shape.stagger(die) * shape.row_units;
            let victim = first.map(|block| Victim { block, rows: shape.stagger(die), busy: false });
            State { victim, filling: None, target, rest: target + shape.block_units() }
        };
        let looked = (0..shape.dies).map(|_| Looked::default()).collect();
        Collector { dies: (0..shape.dies).map(state).collect(), looked, next_die: 0 }
    }
}

impl Ssd {
    fn state(&mut self, die: u32) -> &mut State {
        &mut self.collector.dies[die as usize]
    }

    pub(super) fn slack(&self, die: u32) -> u32 {
        let victim = self.collector.dies[die as usize].victim;
        let gained = victim.filter(|victim| !self.ftl.is_cache(victim.block)).map_or(0, |victim| victim.rows);
        self.ftl.unfilled(die) + gained * self.shape.row_units
    }

    fn is_short(&self, die: u32) -> bool {
        self.slack(die) < self.collector.dies[die as usize].target
    }

    /// Whether collection keeps up with the host on a die, or can do nothing there.
    pub(super) fn keeps_up(&self, die: u32) -> bool {
        self.collector.dies[die as usize].victim.is_none() || !self.is_short(die)
    }

    /// Collects on a die whose slack is below the target.
    pub(super) fn collect_if_short(&mut self, now: Time, die: u32) {
        if self.is_short(die) {
            self.collect(now, die, self.shape.block_units() - 1);
        }
    }

    /// The disk is idle: writes the buffer to the flash, empties the cache and collects garbage ahead of need.
    pub(super) fn rest(&mut self, now: Time) {
        self.idle = true;
        self.seal(now);
        for die in 0..self.shape.dies {
            self.go_on(now, die);
        }
    }

    /// The next step on a die, if there is need for one or the disk is idle.
    fn go_on(&mut self, now: Time, die: u32) {
        self.collect_if_short(now, die);
        let victim = self.state(die).victim;
        if !self.idle || victim.is_some_and(|victim| victim.busy) {
            return;
        }
        match (victim, self.ftl.oldest_cached(die)) {
            (Some(_), Some(_)) => self.collect_row(now, die),
            (None, Some(block)) => {
                self.state(die).victim = Some(Victim { block, rows: 0, busy: false });
                self.collect_row(now, die);
            }
            // Copying more than fifteen sixteenths of a block wears more than it helps.
            (_, None) if self.slack(die) < self.state(die).rest => {
                self.collect(now, die, self.shape.block_units() / 16 * 15);
            }
            (_, None) => {}
        }
    }

    /// Goes on with the block being collected, or begins with the one with the fewest valid units if they are at most
    /// `most`.
    fn collect(&mut self, now: Time, die: u32, most: u32) {
        let filling = self.state(die).filling.map(|filling| self.ftl.block_of(filling.row));
        match self.state(die).victim {
            Some(victim) if victim.busy => {}
            Some(_) => self.collect_row(now, die),
            None => {
                let victim = self.ftl.victim(die, filling).filter(|&(_, valid)| valid <= most);
                let Some((block, _)) = victim else { return };
                self.state(die).victim = Some(Victim { block, rows: 0, busy: false });
                self.collect_row(now, die);
            }
        }
    }

    /// Reads the next row with valid units, or erases the block.
    fn collect_row(&mut self, now: Time, die: u32) {
        let Some(mut victim) = self.state(die).victim else { return };
        let block = victim.block;
        let looked = &mut self.collector.looked[die as usize];
        let next = self.ftl.next_valid(die, block, victim.rows, &mut looked.units);
        let job = match next {
            Some(row) => {
                self.meter.count_read();
                (looked.block, looked.row, looked.valid) = (block, row, self.ftl.valid(die, block));
                Job::Collect { block, row, units: looked.units.len() as u32 }
            }
            None => Job::Erase { block },
        };
        victim.rows = next.unwrap_or(self.shape.rows);
        victim.busy = true;
        self.state(die).victim = Some(victim);
        self.nand.push(now, die, (job, self.ftl.is_cache(block)), &mut self.events);
    }

    /// A row was read: its valid units get new places.
    pub(super) fn copy_row(&mut self, now: Time, die: u32, block: u32, row: u32) {
        let looked = &mut self.collector.looked[die as usize];
        let mut units = std::mem::take(&mut looked.units);
        if (looked.block, looked.row, looked.valid) != (block, row, self.ftl.valid(die, block)) {
            self.ftl.valid_in(die, block, row, &mut units);
        }
        self.meter.count_copied(units.len() as u64);
        for &Lying { place, unit } in &units {
            let Some(mut to) = self.state(die).filling.or_else(|| self.next_filling(die)) else {
                debug_assert!(false, "the last erased block is kept for copies");
                break;
            };
            self.ftl.copy(die, (block, place), (to.row, to.within), unit);
            to.within += 1;
            let full = to.within == self.shape.row_units;
            self.state(die).filling = Some(to).filter(|_| !full);
            if full {
                self.nand.push(now, die, (Job::Program { batch: to.batch }, false), &mut self.events);
            }
        }
        self.collector.looked[die as usize].units = units;
        let cached = self.ftl.is_cache(block);
        if let Some(victim) = &mut self.state(die).victim {
            (victim.rows, victim.busy) = (row + 1, false);
        }
        if cached && (!self.idle || self.is_short(die)) {
            // It is begun anew when the disk is idle; the rows that were copied have no valid units any more.
            self.state(die).victim = None;
        }
        self.go_on(now, die);
        if !self.store.homeless.is_empty() && self.keeps_up(die) {
            self.house(now);
        }
    }

    fn next_filling(&mut self, die: u32) -> Option<Filling> {
        let row = self.ftl.take_row(die, For::Collection)?;
        Some(Filling { row, within: 0, batch: self.store.begin_copies(die, row) })
    }

    /// A block is erased.
    pub(super) fn erased(&mut self, now: Time, die: u32, block: u32) {
        self.ftl.release(die, block);
        self.meter.count_erased();
        self.state(die).victim = None;
        self.go_on(now, die);
        self.house(now);
    }
}
