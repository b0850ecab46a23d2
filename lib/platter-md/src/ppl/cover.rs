//! What the newest records of the members cover: where parity is not known to be that of the data, and what is known instead.

use super::{BLOCK, Entry, HEADER_BYTES, Log};
use crate::geometry::{Geometry, Spot};
use crate::gf::Block;
use crate::superblock::SECTOR;

/// Rows that were being written, at the same place of all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// First byte of the members' data.
    pub start: u64,
    /// Byte past the last.
    pub end: u64,
    /// Number of the first block of data of each row that was being written.
    pub first: u32,
    /// How many blocks of data of each row were being written.
    pub count: u32,
    /// Where on the device the partial parity of `start` is; `None` if all of the data was being written, or the entry is damaged.
    pub partial: Option<u64>,
    /// Whether nothing is to be computed here.
    pub is_damaged: bool,
    /// Whether blocks that were being written are computed from parity as it is: one alone is old or new, as its parity is.
    pub is_believed: bool,
}

/// The log of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OfMember {
    device: usize,
    /// In order, none over another.
    ranges: Vec<Range>,
}

/// The logs of the members of an array that was being written, by the member with the parity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartialParity {
    /// `None` if the log of a member is missing or damaged.
    members: Vec<Option<OfMember>>,
}

/// What the logs say of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Covered {
    /// It was not being written: its parity is right.
    No,
    /// The log that would say so is missing or damaged.
    Unknown,
    /// It was being written: the device with the log, and the range.
    By(usize, Range),
}

impl PartialParity {
    /// Logs that are not known, of this number of members.
    pub fn new(members: u32) -> PartialParity {
        PartialParity { members: vec![None; members as usize] }
    }

    /// Adds what the log of a member says. `begin` is where the log begins on the device.
    ///
    /// # Errors
    /// An entry cannot be of this array; nothing is known of the member then.
    pub fn add(
        &mut self,
        geometry: &Geometry,
        member: u32,
        device: usize,
        begin: u64,
        log: &Log,
    ) -> Result<(), String> {
        let mut at = begin + log.at + HEADER_BYTES as u64;
        let mut ranges = Vec::new();
        for (number, (entry, &is_sound)) in log.header.entries.iter().zip(&log.is_sound).enumerate() {
            let range = range(entry, geometry, member, at)
                .map_err(|what| format!("entry {number} of the parity log of member {member} {what}"))?;
            ranges.push(if is_sound { range } else { Range { is_damaged: true, partial: None, ..range } });
            at += u64::from(entry.pp_size);
        }
        if let Some(place) = self.members.get_mut(member as usize) {
            *place = Some(OfMember { device, ranges: apart(ranges) });
        }
        Ok(())
    }

    /// What is known of the row at `pos` of the members, whose parity a member has, and how far from there that does not change.
    pub fn at(&self, member: u32, pos: u64) -> (Covered, u64) {
        let Some(Some(log)) = self.members.get(member as usize) else {
            return (Covered::Unknown, u64::MAX - pos);
        };
        let next = log.ranges.partition_point(|range| range.end <= pos);
        match log.ranges.get(next) {
            Some(range) if range.start <= pos => (Covered::By(log.device, *range), range.end - pos),
            Some(range) => (Covered::No, range.start - pos),
            None => (Covered::No, u64::MAX - pos),
        }
    }

    /// The ranges of a member's log; `None` if nothing is known of it.
    pub fn of(&self, member: u32) -> Option<&[Range]> {
        self.members.get(member as usize)?.as_ref().map(|log| &log.ranges[..])
    }

    /// The device of each log, to be renumbered.
    pub fn devices_mut(&mut self) -> impl Iterator<Item = &mut usize> {
        self.members.iter_mut().flatten().map(|log| &mut log.device)
    }

    /// The devices with logs that are used, and where their partial parities are.
    pub fn places(&self) -> impl Iterator<Item = (usize, u64)> {
        let of = |log: &OfMember| {
            let device = log.device;
            log.ranges.iter().filter_map(move |range| Some((device, range.partial?))).collect::<Vec<_>>()
        };
        self.members.iter().flatten().flat_map(of)
    }

    /// As a forced start takes it: where nothing is known, parity is believed.
    pub fn forced(mut self, devices: impl Fn(u32) -> Option<usize>) -> PartialParity {
        for (member, log) in (0..).zip(&mut self.members) {
            match log {
                Some(log) => {
                    log.ranges.retain(|range| range.partial.is_some());
                    log.ranges.iter_mut().for_each(|range| range.is_believed = true);
                }
                None => {
                    *log = devices(member).map(|device| OfMember { device, ranges: Vec::new() });
                }
            }
        }
        self
    }
}

/// The rows of an entry.
fn range(entry: &Entry, geometry: &Geometry, member: u32, at: u64) -> Result<Range, String> {
    let begin = entry.data_sector.checked_mul(SECTOR).filter(|&begin| begin < geometry.size());
    let Some(begin) = begin else {
        return Err(format!("begins at sector {}, which is behind the end of the array", entry.data_sector));
    };
    let (Spot::Row { row, data: first, pos }, left) = geometry.find(begin) else {
        return Err("is of a level without parity".to_owned());
    };
    if row.member(Block::P) != Some(member) || entry.parity_disk != member {
        return Err(format!(
            "is of a row whose parity member {} has, and says member {}",
            row.member(Block::P).unwrap_or(0),
            entry.parity_disk
        ));
    }
    let of_row = row.exponents().len() as u64;
    let (partial, written) = (u64::from(entry.pp_size), u64::from(entry.data_size));
    // Rows of which all data was written have no partial parity, whether they were overwritten as a whole or in part.
    let has_partial = partial > 0 && written <= partial.saturating_mul(of_row);
    let (rows, count) = match has_partial {
        true => (partial, written / partial),
        false => (written / of_row, of_row),
    };
    let fits = rows > 0
        && rows.is_multiple_of(BLOCK)
        && pos.is_multiple_of(BLOCK)
        && count > 0
        && rows * count == written
        && u64::from(first) + count <= of_row
        && rows <= left;
    if !fits {
        return Err(format!(
            "writes {written} bytes with {partial} of partial parity from sector {} on, which no row has",
            entry.data_sector
        ));
    }
    let partial_at = (has_partial && count < of_row).then_some(at);
    Ok(Range {
        start: pos,
        end: pos + rows,
        first,
        count: count as u32,
        partial: partial_at,
        is_damaged: false,
        is_believed: count == 1,
    })
}

/// In order. What several entries cover is not known, because a row is in one entry of a record at most.
fn apart(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_by_key(|range| (range.start, range.end));
    let mut all: Vec<Range> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start < last.end => {
                last.end = last.end.max(range.end);
                (last.partial, last.is_damaged) = (None, true);
            }
            _ => all.push(range),
        }
    }
    all
}
