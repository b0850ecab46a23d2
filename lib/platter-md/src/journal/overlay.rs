//! What a journal has in place of what the members have.
//!
//! A row whose data was logged with its parity is one state: data and parity of the journal in place of those of the members, and what is
//! missing is computed from that state. Data that was logged alone (the journal as a write-back cache) lies over it: the parity
//! that is there is of the state without that data.

use super::{BLOCK_BYTES, End, Kind, Log, Step};
use crate::geometry::{Geometry, Spot};
use crate::gf::Block;
use crate::superblock::SECTOR;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a block.
const BLOCK: u64 = BLOCK_BYTES as u64;

/// What the journal has of 4 KiB of each member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Blocks of members, by their numbers, and where they are in the journal in sectors: with their parity.
    state: Vec<(u32, u64)>,
    /// Data that was logged without parity.
    alone: Vec<(u32, u64)>,
}

/// What became of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Blocks of data that are used.
    pub data: u64,
    /// Blocks of parity that are used.
    pub parity: u64,
    /// Blocks of data that were logged without their parity.
    pub alone: u64,
    /// Why the journal is not applied to its end.
    pub damage: Option<String>,
    /// Meta blocks behind the damage that are whole, and are not applied.
    pub followers: u64,
}

/// What a journal has, by the place of it on the members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overlay {
    /// The device with the journal.
    pub device: usize,
    /// Where the ring begins on it, in bytes.
    pub begin: u64,
    rows: BTreeMap<u64, Row>,
    /// Rows that were being written and of which the journal is damaged.
    doubtful: BTreeSet<u64>,
}

fn put(places: &mut Vec<(u32, u64)>, member: u32, at: u64) {
    match places.iter_mut().find(|(own, _)| *own == member) {
        Some(place) => place.1 = at,
        None => places.push((member, at)),
    }
}

fn find(places: &[(u32, u64)], member: u32) -> Option<u64> {
    places.iter().find(|(own, _)| *own == member).map(|&(_, at)| at)
}

/// The row of a step, its member, and whether it is on the array.
fn place(geometry: &Geometry, step: &Step) -> Option<(u64, u32)> {
    let pos = step.sector.checked_mul(SECTOR).filter(|pos| pos.is_multiple_of(BLOCK))?;
    if step.kind == Kind::Data {
        let inside = pos < geometry.size();
        let (Spot::Row { row, data, pos }, _) = inside.then(|| geometry.find(pos))? else { return None };
        return Some((pos / BLOCK, row.member(Block::Data(data))?));
    }
    let row = (pos < geometry.component()).then(|| geometry.row(pos))??;
    let block = if step.kind == Kind::Q { Block::Q } else { Block::P };
    Some((pos / BLOCK, row.member(block)?))
}

impl Overlay {
    /// Applies a journal to an array. `begin` is where the ring begins on the device, in bytes. It is applied up to the first meta
    /// block that is damaged or impossible, as the kernel does.
    pub fn new(log: &Log, geometry: &Geometry, device: usize, begin: u64) -> (Overlay, Applied) {
        let mut overlay = Overlay { device, begin, ..Overlay::default() };
        let mut applied = Applied { followers: log.followers, ..Applied::default() };
        if let End::Damaged(why) = &log.end {
            applied.damage = Some(why.clone());
        }
        let mut rest = &log.steps[..];
        for &(sequence, count) in &log.metas {
            let (steps, after) = rest.split_at(count.min(rest.len()));
            let places: Option<Vec<_>> = steps.iter().map(|step| place(geometry, step)).collect();
            let Some(places) = places else {
                applied.damage = Some(format!(
                    "meta block {sequence} of the journal has a block that is not on the array"
                ));
                overlay.doubt(rest, geometry);
                break;
            };
            steps.iter().zip(places).for_each(|(step, place)| overlay.apply(step, place));
            rest = after;
        }
        overlay.doubt(&log.lost, geometry);
        overlay.rows.retain(|_, row| !row.state.is_empty() || !row.alone.is_empty());
        overlay.count(geometry, &mut applied);
        (overlay, applied)
    }

    fn apply(&mut self, step: &Step, (number, member): (u64, u32)) {
        let row = self.rows.entry(number).or_default();
        match step.kind {
            Kind::Flush => *row = Row::default(),
            Kind::Data => put(&mut row.alone, member, step.at),
            Kind::P | Kind::Q => {
                for (member, at) in row.alone.split_off(0) {
                    put(&mut row.state, member, at);
                }
                // Parity without data is of a row that had reached the members before.
                if !row.state.is_empty() {
                    put(&mut row.state, member, step.at);
                }
            }
        }
    }

    fn doubt(&mut self, steps: &[Step], geometry: &Geometry) {
        let rows = steps.iter().filter_map(|step| place(geometry, step));
        self.doubtful.extend(rows.map(|(row, _)| row));
    }

    fn count(&self, geometry: &Geometry, applied: &mut Applied) {
        for (number, row) in &self.rows {
            let Some(of) = geometry.row(number * BLOCK) else { continue };
            let is_data = |&&(member, _): &&(u32, u64)| matches!(of.block(member), Block::Data(_));
            let data = row.state.iter().filter(is_data).count() as u64;
            applied.parity += row.state.len() as u64 - data;
            applied.alone += row.alone.len() as u64;
            applied.data += data + row.alone.len() as u64;
        }
    }

    /// What the journal has at a place of the members, and how far from there that does not change.
    pub fn at(&self, pos: u64) -> (Option<&Row>, u64) {
        let number = pos / BLOCK;
        match self.rows.range(number..).next() {
            Some((&found, row)) if found == number => (Some(row), BLOCK - pos % BLOCK),
            Some((&found, _)) => (None, found * BLOCK - pos),
            None => (None, u64::MAX - pos),
        }
    }

    /// Whether the parity of the state at a place of the members is right, and how far from there that does not change.
    pub fn is_sure(&self, pos: u64) -> (bool, u64) {
        let number = pos / BLOCK;
        match self.doubtful.range(number..).next() {
            Some(&found) if found == number => (false, BLOCK - pos % BLOCK),
            Some(&found) => (true, found * BLOCK - pos),
            None => (true, u64::MAX - pos),
        }
    }

    /// Where a byte of a block in the ring is on the device: `at` is that of the block, in sectors.
    fn on_device(&self, at: u64, pos: u64) -> u64 {
        self.begin + at * SECTOR + pos % BLOCK
    }

    /// Where the block of a member at `pos` is on the device, with its parity.
    pub fn state(&self, member: u32, pos: u64) -> Option<u64> {
        find(&self.at(pos).0?.state, member).map(|at| self.on_device(at, pos))
    }

    /// Where data of a member at `pos` is on the device that was logged without its parity.
    pub fn alone(&self, member: u32, pos: u64) -> Option<u64> {
        find(&self.at(pos).0?.alone, member).map(|at| self.on_device(at, pos))
    }

    /// As a forced start takes it: parity is believed.
    pub fn forced(self) -> Overlay {
        Overlay { doubtful: BTreeSet::new(), ..self }
    }
}
