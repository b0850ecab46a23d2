//! The translation layer: where units are, which blocks are free, which is collected next.

use super::map::{Entry, Map};
use super::moved::Moved;
use super::params::{RESERVE, Shape};
use super::start::{Initial, Lying};
use std::collections::VecDeque;

/// No unit: a place with invalid data, or not filled yet.
const NO_UNIT: u32 = u32::MAX;

/// A block.
#[derive(Debug)]
enum Block {
    /// Erased.
    Free,
    /// In its initial state.
    Initial,
    /// Written: the unit at each place.
    Written(Box<[u32]>),
}

/// The purpose of filling a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Host,
    Collection,
    /// The host, in the cache.
    Cache,
}

/// A block that is being filled, row by row.
#[derive(Clone, Copy, Debug)]
struct Open {
    block: u32,
    rows: u32,
}

#[derive(Debug)]
struct Die {
    blocks: Vec<Block>,
    /// Valid units of each block.
    valid: Vec<u32>,
    /// Valid units of all of them.
    all: u32,
    free: VecDeque<u32>,
    /// One for the host, one for garbage collection and one of the cache.
    open: [Option<Open>; 3],
    /// Erased blocks of the cache, and those that are not, oldest first.
    slc_free: VecDeque<u32>,
    slc_used: VecDeque<u32>,
}

impl Die {
    fn new(shape: Shape, initial: &Initial, die: u32) -> Die {
        let valid: Vec<u32> = (0..shape.all_blocks()).map(|block| initial.valid(die, block)).collect();
        let written = initial.blocks();
        let cache = shape.blocks..shape.all_blocks();
        let used = written > 0;
        let block = |block| match block < written || used && cache.contains(&block) {
            true => Block::Initial,
            false => Block::Free,
        };
        let (slc_used, slc_free) = if used { (cache.clone(), 0..0) } else { (0..0, cache.clone()) };
        Die {
            blocks: (0..shape.all_blocks()).map(block).collect(),
            all: valid.iter().sum(),
            valid,
            free: (written..shape.blocks).collect(),
            open: [None; 3],
            slc_free: slc_free.collect(),
            slc_used: slc_used.collect(),
        }
    }

    /// Begins a block.
    fn open(&mut self, who: For, shape: Shape) -> &mut Open {
        let free = if who == For::Cache { &mut self.slc_free } else { &mut self.free };
        let block = free.pop_front().expect("callers know of an erased block");
        if who == For::Cache {
            self.slc_used.push_back(block);
        }
        let rows = if who == For::Cache { shape.slc_rows } else { shape.rows };
        self.blocks[block as usize] = Block::Written(vec![NO_UNIT; (rows * shape.row_units) as usize].into());
        self.open[who as usize].insert(Open { block, rows: 0 })
    }
}

/// Page-mapped translation with greedy garbage collection, die by die.
#[derive(Debug)]
pub(super) struct Ftl {
    shape: Shape,
    initial: Initial,
    map: Map,
    /// Of units that [`Ftl::map`] has at their initial place.
    moved: Moved,
    dies: Vec<Die>,
}

impl Ftl {
    pub(super) fn new(shape: Shape, initial: Initial) -> Ftl {
        let dies = (0..shape.dies).map(|die| Die::new(shape, &initial, die)).collect();
        let moved = Moved::new(shape.dies * initial.blocks(), shape.block_units());
        Ftl { shape, map: Map::new(shape.units), moved, dies, initial }
    }

    /// The row of a unit: die, and number of the row in the die.
    pub(super) fn row_of(&self, unit: u32) -> Option<(u32, u32)> {
        self.place_of(unit)
            .map(|(die, block, place)| (die, block * self.shape.rows + place / self.shape.row_units))
    }

    fn place_of(&self, unit: u32) -> Option<(u32, u32, u32)> {
        match self.map.get(unit) {
            Entry::Nowhere => None,
            Entry::Initial => {
                let (die, block, place) = self.initial.place(unit)?;
                let moved = self.moved.get(self.initial.number(die, block), place);
                Some(moved.map_or((die, block, place), |at| self.parts(at)))
            }
            Entry::At(at) => Some(self.parts(at)),
        }
    }

    /// Die, block and place in the block of a place that is counted over the whole disk.
    fn parts(&self, at: u32) -> (u32, u32, u32) {
        let (size, blocks) = (self.shape.block_units(), self.shape.all_blocks());
        let block = at / size;
        (block / blocks, block % blocks, at % size)
    }

    /// A place, counted over the whole disk.
    fn whole(&self, die: u32, block: u32, place: u32) -> u32 {
        (die * self.shape.all_blocks() + block) * self.shape.block_units() + place
    }

    /// Removes the mapping of a unit. `false`: there was none.
    pub(super) fn unmap(&mut self, unit: u32) -> bool {
        let lay = self.invalidate(unit);
        if lay {
            self.map.set(unit, None);
        }
        lay
    }

    fn invalidate(&mut self, unit: u32) -> bool {
        let (die, block) = match self.map.get(unit) {
            Entry::Nowhere => return false,
            Entry::At(at) => {
                let (die, block, _) = self.parts(at);
                (die, block)
            }
            Entry::Initial => {
                let Some((die, block, place)) = self.initial.place(unit) else { return false };
                let number = self.initial.number(die, block);
                match self.moved.get(number, place) {
                    None => (die, block),
                    Some(at) => {
                        self.moved.forget(number, place);
                        let (die, block, _) = self.parts(at);
                        (die, block)
                    }
                }
            }
        };
        let die = &mut self.dies[die as usize];
        die.valid[block as usize] -= 1;
        die.all -= 1;
        true
    }

    /// Valid units of a block.
    pub(super) fn valid(&self, die: u32, block: u32) -> u32 {
        self.dies[die as usize].valid[block as usize]
    }

    /// The block of each die that is being collected at first, if there is one.
    pub(super) fn first_victim(&self) -> Option<u32> {
        self.initial.blocks().checked_sub(1)
    }

    /// The block of a row.
    pub(super) fn block_of(&self, row: u32) -> u32 {
        row / self.shape.rows
    }

    /// Whether a block is of the cache.
    pub(super) fn is_cache(&self, block: u32) -> bool {
        block >= self.shape.blocks
    }

    /// Number of units from this one on that are not mapped because nothing near them was ever written.
    pub(super) fn never_written(&self, unit: u32) -> u32 {
        if self.initial.blocks() == 0 { self.map.untouched(unit) } else { 0 }
    }

    /// Places of a die that can be filled before another block is erased, without the cache.
    pub(super) fn unfilled(&self, die: u32) -> u32 {
        let die = &self.dies[die as usize];
        let left = |who: For| die.open[who as usize].map_or(0, |open| self.shape.rows - open.rows);
        let rows = die.free.len() as u32 * self.shape.rows + left(For::Host) + left(For::Collection);
        rows * self.shape.row_units
    }

    /// Whether a die can take another row of the host without the risk that all of its units become valid.
    pub(super) fn has_room(&self, die: u32) -> bool {
        let most = (self.shape.blocks - RESERVE as u32 + 1) * self.shape.block_units();
        self.dies[die as usize].all + self.shape.row_units <= most
    }

    /// Whether [`Ftl::take_row`] has a row for the host.
    pub(super) fn can_take(&self, die: u32) -> bool {
        let die = &self.dies[die as usize];
        die.free.len() > 1 || die.open[For::Host as usize].is_some_and(|open| open.rows < self.shape.rows)
    }

    /// Whether the cache of a die has a row for the host.
    pub(super) fn can_cache(&self, die: u32) -> bool {
        let die = &self.dies[die as usize];
        let open = die.open[For::Cache as usize];
        !die.slc_free.is_empty() || open.is_some_and(|open| open.rows < self.shape.slc_rows)
    }

    /// Takes the next row of a die; `None` while no block is free. The last free block is for collection.
    pub(super) fn take_row(&mut self, die: u32, who: For) -> Option<u32> {
        let shape = self.shape;
        let die = &mut self.dies[die as usize];
        let (rows, left) = match who {
            For::Host => (shape.rows, die.free.len().saturating_sub(1)),
            For::Collection => (shape.rows, die.free.len()),
            For::Cache => (shape.slc_rows, die.slc_free.len()),
        };
        let open = match die.open[who as usize] {
            Some(open) if open.rows < rows => die.open[who as usize].insert(open),
            _ if left == 0 => return None,
            _ => die.open(who, shape),
        };
        open.rows += 1;
        Some(open.block * shape.rows + open.rows - 1)
    }

    /// Puts a unit at a place of a row that was taken.
    pub(super) fn put(&mut self, die: u32, row: u32, within: u32, unit: u32) {
        self.invalidate(unit);
        let at = self.lay(die, row, within, unit);
        self.map.set(unit, Some(at));
    }

    /// The same for a [valid](Ftl::valid_in) unit at a place of a block of that die.
    pub(super) fn copy(&mut self, die: u32, (block, place): (u32, u32), to: (u32, u32), unit: u32) {
        let from = &mut self.dies[die as usize];
        if !matches!(from.blocks[block as usize], Block::Initial) {
            return self.put(die, to.0, to.1, unit);
        }
        from.valid[block as usize] -= 1;
        from.all -= 1;
        let at = self.lay(die, to.0, to.1, unit);
        self.moved.set(self.initial.number(die, block), place, at);
    }

    fn lay(&mut self, die: u32, row: u32, within: u32, unit: u32) -> u32 {
        let block = row / self.shape.rows;
        let place = row % self.shape.rows * self.shape.row_units + within;
        let to = &mut self.dies[die as usize];
        if let Block::Written(units) = &mut to.blocks[block as usize] {
            units[place as usize] = unit;
        }
        to.valid[block as usize] += 1;
        to.all += 1;
        self.whole(die, block, place)
    }

    /// The block of a die with the fewest valid units (the first of several), and their number: greedy
    /// collection. Excludes the cache, blocks that are being filled, and `except`.
    pub(super) fn victim(&self, die: u32, except: Option<u32>) -> Option<(u32, u32)> {
        let rows = self.shape.rows;
        let die = &self.dies[die as usize];
        let filling =
            |block: u32| die.open.iter().flatten().any(|open| open.block == block && open.rows < rows);
        (0..self.shape.blocks)
            .filter(|&block| !matches!(die.blocks[block as usize], Block::Free))
            .filter(|&block| !filling(block) && Some(block) != except)
            .map(|block| (die.valid[block as usize], block))
            .min()
            .filter(|&(valid, _)| valid < self.shape.block_units())
            .map(|(valid, block)| (block, valid))
    }

    /// The block of the cache that has been used longest. It is filled no further.
    pub(super) fn oldest_cached(&mut self, die: u32) -> Option<u32> {
        let die = &mut self.dies[die as usize];
        let block = *die.slc_used.front()?;
        let open = &mut die.open[For::Cache as usize];
        *open = open.filter(|open| open.block != block);
        Some(block)
    }

    /// The first row of a block, from `row` on, with valid units; appends them to `units`.
    pub(super) fn next_valid(&self, die: u32, block: u32, row: u32, units: &mut Vec<Lying>) -> Option<u32> {
        if self.dies[die as usize].valid[block as usize] == 0 {
            return None;
        }
        let rows = if self.is_cache(block) { self.shape.slc_rows } else { self.shape.rows };
        (row..rows).find(|&row| {
            self.valid_in(die, block, row, units);
            !units.is_empty()
        })
    }

    /// The valid units of a row.
    pub(super) fn valid_in(&self, die: u32, block: u32, row: u32, units: &mut Vec<Lying>) {
        units.clear();
        let places = row * self.shape.row_units..(row + 1) * self.shape.row_units;
        match &self.dies[die as usize].blocks[block as usize] {
            Block::Free => {}
            Block::Initial => {
                let number = self.initial.number(die, block);
                let stays = |lying: &Lying| {
                    self.map.get(lying.unit) == Entry::Initial
                        && self.moved.get(number, lying.place).is_none()
                };
                units.extend(self.initial.units_in(die, block, places).filter(stays));
            }
            Block::Written(written) => {
                let first = self.whole(die, block, 0);
                let lies = |lying: &Lying| match self.map.get(lying.unit) {
                    Entry::Nowhere => false,
                    Entry::At(at) => at == first + lying.place,
                    Entry::Initial => self.place_of(lying.unit) == Some((die, block, lying.place)),
                };
                let all = places.map(|place| Lying { place, unit: written[place as usize] });
                units.extend(all.filter(|lying| lying.unit != NO_UNIT).filter(lies));
            }
        }
    }

    /// A block was erased.
    pub(super) fn release(&mut self, die: u32, block: u32) {
        let cache = self.is_cache(block);
        let die = &mut self.dies[die as usize];
        debug_assert_eq!(die.valid[block as usize], 0, "what is erased was copied");
        for open in &mut die.open {
            if open.is_some_and(|open| open.block == block) {
                *open = None;
            }
        }
        die.blocks[block as usize] = Block::Free;
        if cache {
            die.slc_used.retain(|&used| used != block);
            die.slc_free.push_back(block);
        } else {
            die.free.push_back(block);
        }
    }
}
