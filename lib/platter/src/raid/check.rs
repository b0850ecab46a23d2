//! Whether the mirrors and the parity of an array of Linux' md agree.

use super::RaidError;
use platter_disk::device::Device;
use platter_md::assembly::Array;
use platter_md::geometry::Spot;
use platter_md::gf::{self, Block};
use platter_md::rows::Row;
use platter_md::superblock::Level;
use std::collections::BTreeMap;

/// Bytes of each member that are compared at a time.
const WINDOW: u64 = 1 << 20;
/// What is compared, and reported, as one.
const UNIT: usize = 512;
/// Most ranges that are kept; the rest is counted.
const MAX_RANGES: usize = 10_000;

/// Which member is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Culprit {
    /// This one: all others agree without it.
    Member(u32),
    /// One of those that differ; the array does not have what would tell which.
    Unknown,
}

/// A range in which members do not agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// First byte: of the data of each member for arrays with parity and mirrors, of the array for raid10.
    pub start: u64,
    /// Byte past the last.
    pub end: u64,
    /// Which member is wrong.
    pub culprit: Culprit,
    /// Whether a write or resync that was interrupted explains it.
    pub is_expected: bool,
}

/// A range of a member that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Its number.
    pub member: u32,
    /// First byte of its data.
    pub start: u64,
    /// Byte past the last.
    pub end: u64,
}

/// What a check has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Bytes that were compared: of each member, or of the array for raid10.
    pub compared: u64,
    /// Bytes that could not be compared, because too few members have them.
    pub skipped: u64,
    /// Bytes in which members differ.
    pub differing: u64,
    /// Where, in order; beyond 10000 ranges they are only counted in `differing`.
    pub mismatches: Vec<Mismatch>,
    /// What could not be read.
    pub unreadable: Vec<Unreadable>,
    /// Whether it was stopped before the end.
    pub is_stopped: bool,
}

/// Compares the mirrors or the parity of an array whose devices were given to
/// [`assemble_array`](super::assemble_array), in that order. `go_on` is told how many bytes are done and how many there are, and
/// returns whether to go on.
///
/// # Errors
/// The array has no redundancy.
pub fn check_array(
    array: &Array,
    devices: &[Device],
    go_on: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Checked, RaidError> {
    let level = array.geometry.level();
    if level.is_bare() {
        return Err(RaidError::Refused(format!(
            "the array is a {level}: each byte is on one member only, and there is nothing to compare"
        )));
    }
    let mut check = Check { array, devices, found: Checked::default() };
    let by_member = level != Level::Raid10;
    let total = if by_member { array.geometry.component() } else { array.geometry.size() };
    let mut pos = 0;
    while pos < total {
        if !go_on(pos, total) {
            check.found.is_stopped = true;
            break;
        }
        let len = WINDOW.min(total - pos);
        if level.has_parity() {
            check.rows(pos, len);
        } else {
            check.copies(pos, len);
        }
        pos += len;
    }
    Ok(check.found)
}

struct Check<'a> {
    array: &'a Array,
    devices: &'a [Device],
    found: Checked,
}

/// What was read of a member: bytes, and by unit whether they are there.
struct Window {
    bytes: Vec<u8>,
    there: Vec<bool>,
}

impl Check<'_> {
    /// Reads a range of a member's data.
    fn read(&mut self, member: u32, pos: u64, len: u64) -> Window {
        let mut window =
            Window { bytes: vec![0; len as usize], there: vec![false; (len as usize).div_ceil(UNIT)] };
        let mut at = pos;
        while at < pos + len {
            let (extent, reach) = self.array.sources.member(member, at);
            let some = reach.min(pos + len - at);
            if let Some(extent) = extent {
                let begin = (at - pos) as usize;
                self.read_some((member, at), (extent.device, extent.pos), begin, some as usize, &mut window);
            }
            at += some;
        }
        window
    }

    /// Reads from a device, in smaller pieces where it fails.
    fn read_some(
        &mut self,
        (member, at): (u32, u64),
        (device, pos): (usize, u64),
        begin: usize,
        len: usize,
        window: &mut Window,
    ) {
        match self.devices[device].read_at(&mut window.bytes[begin..begin + len], pos) {
            Ok(()) => window.there[begin / UNIT..(begin + len).div_ceil(UNIT)].fill(true),
            Err(_) if len <= UNIT => self.cannot_read(Unreadable { member, start: at, end: at + len as u64 }),
            Err(_) => {
                // A small number of pieces, so that a member that is dead does not take an hour for each window.
                let piece = (len / 8).next_multiple_of(UNIT).max(UNIT);
                for from in (0..len).step_by(piece) {
                    let some = piece.min(len - from);
                    self.read_some(
                        (member, at + from as u64),
                        (device, pos + from as u64),
                        begin + from,
                        some,
                        window,
                    );
                }
            }
        }
    }

    /// Notes that a range could not be read.
    fn cannot_read(&mut self, range: Unreadable) {
        let room = self.found.unreadable.len() < MAX_RANGES;
        match self.found.unreadable.last_mut() {
            Some(last) if (last.member, last.end) == (range.member, range.start) => last.end = range.end,
            _ if !room => {}
            _ => self.found.unreadable.push(range),
        }
    }

    /// Notes that a unit differs.
    fn differs(&mut self, start: u64, len: u64, culprit: Culprit, member_pos: u64) {
        let row = self.array.geometry.row(member_pos);
        let is_expected = !self.array.sources.is_sure(row.as_ref(), member_pos);
        self.found.differing += len;
        let room = self.found.mismatches.len() < MAX_RANGES;
        match self.found.mismatches.last_mut() {
            Some(last) if (last.end, last.culprit, last.is_expected) == (start, culprit, is_expected) => {
                last.end += len;
            }
            _ if !room => {}
            _ => self.found.mismatches.push(Mismatch { start, end: start + len, culprit, is_expected }),
        }
    }

    /// Compares rows with parity.
    fn rows(&mut self, pos: u64, len: u64) {
        let members = self.array.geometry.members();
        let windows: Vec<Window> = (0..members).map(|member| self.read(member, pos, len)).collect();
        let mut at = 0;
        while at < len {
            let Some(row) = self.array.geometry.row(pos + at) else { return };
            let chunk = self.array.geometry.chunk();
            let some = (chunk - (pos + at) % chunk).min(len - at);
            let exponents = row.exponents();
            for unit in (at..at + some).step_by(UNIT) {
                self.unit_of_row(&row, &exponents, &windows, pos, unit as usize);
            }
            at += some;
        }
    }

    fn unit_of_row(&mut self, row: &Row, exponents: &[u32], windows: &[Window], pos: u64, at: usize) {
        let data = (0..exponents.len() as u32).map(Block::Data);
        let blocks: Vec<Block> = data.chain([Block::P]).chain(row.has_q().then_some(Block::Q)).collect();
        let place = |block: Block| row.member(block).unwrap_or(0) as usize;
        let is_there = |block: Block| windows[place(block)].there[at / UNIT];
        let lost: Vec<Block> = blocks.iter().copied().filter(|&block| !is_there(block)).collect();
        let unit = |block: Block| &windows[place(block)].bytes[at..at + UNIT];
        let syndrome = |of: Block| {
            let sum = gf::recover(of, &lost, exponents, row.has_q())?;
            let mut bytes = unit(of).to_vec();
            sum.0.iter().for_each(|&(block, factor)| gf::add_multiple(&mut bytes, factor, unit(block)));
            Some(bytes)
        };
        let parities =
            [Block::P, Block::Q].into_iter().filter(|&block| blocks.contains(&block) && is_there(block));
        let syndromes: Vec<(Block, Vec<u8>)> =
            parities.filter_map(|block| Some((block, syndrome(block)?))).collect();
        let start = pos + at as u64;
        if syndromes.is_empty() {
            self.found.skipped += UNIT as u64;
            return;
        }
        self.found.compared += UNIT as u64;
        if syndromes.iter().all(|(_, bytes)| bytes.iter().all(|&byte| byte == 0)) {
            return;
        }
        let culprit = match &syndromes[..] {
            [(Block::P, p), (Block::Q, q)] if lost.is_empty() => wrong(row, p, q, exponents),
            _ => Culprit::Unknown,
        };
        self.differs(start, UNIT as u64, culprit, start);
    }

    /// Compares copies.
    fn copies(&mut self, pos: u64, len: u64) {
        let mut at = pos;
        while at < pos + len {
            let (spot, reach) = self.array.geometry.find(at);
            let some = reach.min(pos + len - at);
            if let Spot::Copies(places) = spot {
                let windows: Vec<Window> =
                    places.iter().map(|place| self.read(place.member, place.pos, some)).collect();
                let members: Vec<u32> = places.iter().map(|place| place.member).collect();
                for unit in (0..some as usize).step_by(UNIT) {
                    let len = UNIT.min(some as usize - unit);
                    self.unit_of_copies((&members, &windows), at, unit, len, places[0].pos + unit as u64);
                }
            }
            at += some;
        }
    }

    fn unit_of_copies(
        &mut self,
        (members, windows): (&[u32], &[Window]),
        pos: u64,
        at: usize,
        len: usize,
        member_pos: u64,
    ) {
        let mut votes: BTreeMap<&[u8], Vec<u32>> = BTreeMap::new();
        for (&member, window) in members.iter().zip(windows) {
            if window.there[at / UNIT] {
                votes.entry(&window.bytes[at..at + len]).or_default().push(member);
            }
        }
        let count: usize = votes.values().map(Vec::len).sum();
        if count < 2 {
            self.found.skipped += len as u64;
            return;
        }
        self.found.compared += len as u64;
        if votes.len() == 1 {
            return;
        }
        // One against at least two that agree.
        let culprit = match votes.values().map(Vec::as_slice).collect::<Vec<_>>()[..] {
            [[one], [_, _, ..]] | [[_, _, ..], [one]] => Culprit::Member(*one),
            _ => Culprit::Unknown,
        };
        self.differs(pos + at as u64, len as u64, culprit, member_pos);
    }
}

/// The one member of a row that is wrong at every byte that differs.
fn wrong(row: &Row, p: &[u8], q: &[u8], exponents: &[u32]) -> Culprit {
    let mut found = None;
    for (&p, &q) in p.iter().zip(q).filter(|&(&p, &q)| (p, q) != (0, 0)) {
        match gf::wrong_block(p, q, exponents) {
            Some(block) if found.is_none_or(|before| before == block) => found = Some(block),
            _ => return Culprit::Unknown,
        }
    }
    found.and_then(|block| row.member(block)).map_or(Culprit::Unknown, Culprit::Member)
}
