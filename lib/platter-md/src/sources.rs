//! Which members can be read where, and what logs have instead.

use crate::bad_blocks::{self, BadRange};
use crate::geometry::{Geometry, Place, Spot};
use crate::gf::{self, Block};
use crate::journal::Overlay;
use crate::ppl::{Covered, PartialParity, Range};
use crate::rows::Row;

/// A device that has the data of a member, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Number of the device among those that were given.
    pub device: usize,
    /// Where the data begins on the device, in bytes.
    pub data_offset: u64,
    /// The data is in sync below this byte of it.
    pub until: u64,
    /// Places of the device that cannot be used.
    pub bad: Vec<BadRange>,
    /// To be used only if there is nothing else.
    pub write_mostly: bool,
}

impl Source {
    /// Whether it can be used at `pos` of the data, and how far from there that does not change.
    pub fn at(&self, pos: u64) -> (bool, u64) {
        if pos >= self.until {
            return (false, u64::MAX - pos);
        }
        let (is_bad, len) = bad_blocks::at(&self.bad, self.data_offset + pos);
        (!is_bad, len.min(self.until - pos))
    }
}

/// A range of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Number of the device among those that were given.
    pub device: usize,
    /// First byte on the device.
    pub pos: u64,
    /// The member whose data this is.
    pub member: u32,
}

/// The sources of all members, by number. A member that is missing has none; one that is being replaced has two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// By number of the member, the member itself before its replacement.
    pub members: Vec<Vec<Source>>,
    /// From this place of the members on, parity is not known to be that of the data, and mirrors are not known to be equal.
    pub in_sync: InSync,
    /// What the logs of partial parity say of rows that were being written.
    pub partial: Option<PartialParity>,
    /// What a journal has in place of the members.
    pub journal: Option<Overlay>,
}

/// Where parity can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InSync {
    /// In sync below this place of the members.
    pub until: u64,
    /// Beyond it, the chunks of the bitmap that may differ, if it is up to date: size of a chunk in bytes, and one bit for each.
    pub chunks: Option<(u64, Vec<bool>)>,
}

impl Default for InSync {
    fn default() -> InSync {
        InSync { until: u64::MAX, chunks: None }
    }
}

impl InSync {
    /// Whether it holds at a place of the members, and how far from there that does not change.
    pub fn at(&self, pos: u64) -> (bool, u64) {
        if pos < self.until {
            return (true, self.until - pos);
        }
        let Some((chunk, differs)) = &self.chunks else { return (false, u64::MAX - pos) };
        let number = pos / chunk;
        let is_clean =
            usize::try_from(number).ok().and_then(|at| differs.get(at)).is_some_and(|differs| !differs);
        (is_clean, chunk - pos % chunk)
    }
}

/// How to read a range that lies on one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// From any of these, best first.
    Any(Vec<Extent>),
    /// As a sum of multiples.
    Sum(Vec<(Extent, u8)>),
    /// It cannot be read: the members without which it cannot.
    Lost(Vec<u32>),
    /// It could be computed from parity only, and parity is not known to be that of the data there.
    Doubtful,
}

impl Sources {
    /// What has the block of a member at `pos` that belongs to the parity of its row, and how far from there the answer does not change.
    pub fn member(&self, member: u32, pos: u64) -> (Option<Extent>, u64) {
        self.member_without(member, pos, &[])
    }

    /// How to read the array at `pos` without these extents, which have failed: the way, and how many bytes it goes, at most
    /// `most`.
    pub fn way(&self, geometry: &Geometry, pos: u64, most: u64, failed: &[Extent]) -> (Way, u64) {
        let (spot, len) = geometry.find(pos);
        let len = len.min(most);
        match spot {
            Spot::Copies(places) => self.any_of(&places, len, failed),
            Spot::Row { row, data, pos } => self.of_row(&row, Block::Data(data), pos, len, failed),
        }
    }

    fn any_of(&self, places: &[Place], len: u64, failed: &[Extent]) -> (Way, u64) {
        let (mut found, mut last, mut reach, mut lost) = (Vec::new(), Vec::new(), len, Vec::new());
        for place in places {
            let before = found.len() + last.len();
            // Of a member that is being replaced, both can be read.
            for source in self.members.get(place.member as usize).into_iter().flatten() {
                let (is_usable, len) = source.at(place.pos);
                reach = reach.min(len);
                let pos = source.data_offset + place.pos;
                let extent = Extent { device: source.device, pos, member: place.member };
                if is_usable && !failed.contains(&extent) {
                    if source.write_mostly { &mut last } else { &mut found }.push(extent);
                }
            }
            if before == found.len() + last.len() {
                lost.push(place.member);
            }
        }
        found.append(&mut last);
        if found.is_empty() { (Way::Lost(lost), reach) } else { (Way::Any(found), reach) }
    }

    /// How to read a block of a row at a position of the members.
    pub fn of_row(&self, row: &Row, block: Block, pos: u64, len: u64, failed: &[Extent]) -> (Way, u64) {
        let Some(member) = row.member(block) else { return (Way::Lost(Vec::new()), len) };
        let (direct, reach) = self.direct(member, pos, len, failed);
        match direct {
            Some(direct) if direct.is_empty() => return (Way::Lost(vec![member]), reach),
            Some(direct) => return (Way::Any(direct), reach),
            None => {}
        }
        let (is_sure, len) = self.in_sync.at(pos);
        let (is_logged, sure) = self.journal.as_ref().map_or((true, len), |journal| journal.is_sure(pos));
        let reach = reach.min(len).min(sure);
        if is_sure && is_logged {
            return self.computed(row, block, pos, reach, failed);
        }
        match self.recover(row, block, pos, reach, failed) {
            (Way::Sum(_), len) => (Way::Doubtful, len),
            way => way,
        }
    }

    /// What has a block of a member as it is: none of it if it is only in the journal, and that has failed. `None`: nothing has it.
    fn direct(&self, member: u32, pos: u64, len: u64, failed: &[Extent]) -> (Option<Vec<Extent>>, u64) {
        let (mut direct, mut reach) = (Vec::new(), len);
        if let Some(journal) = &self.journal {
            let only = |at: Option<u64>| at.map(|pos| Extent { device: journal.device, pos, member });
            reach = reach.min(journal.at(pos).1);
            if let Some(extent) = only(journal.alone(member, pos)) {
                // The members have what was there before.
                return (Some(if failed.contains(&extent) { Vec::new() } else { vec![extent] }), reach);
            }
            if let Some(extent) = only(journal.state(member, pos)) {
                return ((!failed.contains(&extent)).then(|| vec![extent]), reach);
            }
        }
        for source in self.members.get(member as usize).into_iter().flatten() {
            let (is_usable, len) = source.at(pos);
            reach = reach.min(len);
            let extent = Extent { device: source.device, pos: source.data_offset + pos, member };
            if is_usable && !failed.contains(&extent) {
                direct.push(extent);
            }
        }
        ((!direct.is_empty()).then_some(direct), reach)
    }

    /// How to compute a block where parity is right but for rows that the logs of partial parity name.
    fn computed(&self, row: &Row, block: Block, pos: u64, len: u64, failed: &[Extent]) -> (Way, u64) {
        let (Some(partial), Some(parity)) = (&self.partial, row.member(Block::P)) else {
            return self.recover(row, block, pos, len, failed);
        };
        let (covered, reach) = partial.at(parity, pos);
        let len = len.min(reach);
        match (covered, block) {
            (Covered::No, _) => self.recover(row, block, pos, len, failed),
            (Covered::By(device, range), Block::Data(data)) if !range.is_damaged => {
                let is_written = (range.first..range.first + range.count).contains(&data);
                match (is_written, range.partial) {
                    (true, _) if range.is_believed => self.recover(row, block, pos, len, failed),
                    (false, Some(at)) => {
                        let log = Extent { device, pos: at + (pos - range.start), member: parity };
                        self.of_partial(row, data, (&range, log), pos, len, failed)
                    }
                    _ => (Way::Doubtful, len),
                }
            }
            _ => (Way::Doubtful, len),
        }
    }

    /// How to compute data that was not being written: its log has the sum of all such data of the row.
    fn of_partial(
        &self,
        row: &Row,
        data: u32,
        (range, log): (&Range, Extent),
        pos: u64,
        len: u64,
        failed: &[Extent],
    ) -> (Way, u64) {
        let (mut terms, mut lost, mut reach) = (Vec::new(), Vec::new(), len);
        let kept = (0..row.exponents().len() as u32)
            .filter(|&other| other != data && !(range.first..range.first + range.count).contains(&other));
        for member in kept.filter_map(|other| row.member(Block::Data(other))) {
            let (extent, len) = self.member_without(member, pos, failed);
            reach = reach.min(len);
            match extent {
                Some(extent) => terms.push((extent, 1)),
                None => lost.push(member),
            }
        }
        if failed.contains(&log) {
            lost.push(log.member);
        }
        terms.push((log, 1));
        if lost.is_empty() { (Way::Sum(terms), reach) } else { (Way::Lost(lost), reach) }
    }

    /// Whether parity must be that of the data of a row at a position of the members.
    pub fn is_sure(&self, row: Option<&Row>, pos: u64) -> bool {
        let is_logged = self.journal.as_ref().is_none_or(|journal| journal.is_sure(pos).0);
        let is_written = match (&self.partial, row.and_then(|row| row.member(Block::P))) {
            (Some(partial), Some(parity)) => partial.at(parity, pos).0 != Covered::No,
            _ => false,
        };
        self.in_sync.at(pos).0 && is_logged && !is_written
    }

    /// How to compute a block of a row from the others.
    pub fn recover(&self, row: &Row, block: Block, pos: u64, len: u64, failed: &[Extent]) -> (Way, u64) {
        let exponents = row.exponents();
        let mut reach = len;
        let data = (0..exponents.len() as u32).map(Block::Data);
        let blocks = data.chain([Block::P]).chain(row.has_q().then_some(Block::Q));
        let (mut lost, mut missing, mut at) = (Vec::new(), Vec::new(), Vec::new());
        for other in blocks {
            let Some(member) = row.member(other) else { continue };
            let (extent, len) = self.member_without(member, pos, failed);
            reach = reach.min(len);
            match extent {
                Some(extent) if other != block => at.push((other, extent)),
                Some(_) => {}
                None => {
                    lost.push(other);
                    missing.push(member);
                }
            }
        }
        let Some(sum) = gf::recover(block, &lost, &exponents, row.has_q()) else {
            return (Way::Lost(missing), reach);
        };
        let extents = sum.0.iter().filter_map(|&(other, factor)| {
            let (_, extent) = at.iter().find(|(block, _)| *block == other)?;
            Some((*extent, factor))
        });
        (Way::Sum(extents.collect()), reach)
    }

    /// As [`member`](Sources::member), without what has failed.
    fn member_without(&self, member: u32, pos: u64, failed: &[Extent]) -> (Option<Extent>, u64) {
        let mut reach = u64::MAX - pos;
        if let Some(journal) = &self.journal {
            reach = reach.min(journal.at(pos).1);
            if let Some(at) = journal.state(member, pos) {
                let extent = Extent { device: journal.device, pos: at, member };
                return ((!failed.contains(&extent)).then_some(extent), reach);
            }
        }
        for source in self.members.get(member as usize).into_iter().flatten() {
            let (is_usable, len) = source.at(pos);
            reach = reach.min(len);
            let extent = Extent { device: source.device, pos: source.data_offset + pos, member };
            if is_usable && !failed.contains(&extent) {
                return (Some(extent), reach);
            }
        }
        (None, reach)
    }
}
