//! `extents`: a device made of extents of other devices, by a table as that of Linux' dm-linear.
//!
//! Each row maps a range of the device to a range of a device below. What no row maps is a gap: I/O there fails, as on
//! dm-error. `concat` is a table with one row for each member.

use crate::LayerError;
use crate::barrier_gate::BarrierGate;
use crate::distributed::{Distributed, Extent, Map, name_of};
use crate::members;
use crate::reports::Reports;
use gap::Gap;
use platter_block::backend::{Backend, Fact};
use platter_block::limits::{LimitSource, Limits};
use platter_block::params::ParamError;
use std::sync::Arc;

mod gap;
mod text;

pub use text::parse;

/// Most rows of a table.
pub const MAX_ROWS: usize = 1 << 20;

/// A row of a table. Positions and lengths are in bytes, multiples of the logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First byte on the device.
    pub start: u64,
    /// Length.
    pub len: u64,
    /// Number of the device below, from 0.
    pub device: usize,
    /// First byte there.
    pub offset: u64,
}

impl Mapping {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }
}

impl std::fmt::Display for Mapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Mapping { start, len, device, offset } = self;
        write!(f, "\"{start} {len} {device} {offset}\"")
    }
}

/// A device of these rows, in any order. It ends where the last one ends.
///
/// # Errors
/// No rows, or too many; rows that overlap on the device or on a device below; rows that are empty, not aligned to logical
/// blocks or outside their device; a device that no row uses; members on the same disk.
pub fn new(mut rows: Vec<Mapping>, members: Vec<Arc<dyn Backend>>) -> Result<Arc<dyn Backend>, LayerError> {
    rows.sort_unstable_by_key(|row| row.start);
    check(&rows, &members).map_err(|wrong| LayerError::Unfit(ParamError(format!("extents: {wrong}"))))?;
    build("extents", rows, members)
}

/// Checks rows, which are sorted by their beginnings.
fn check(rows: &[Mapping], members: &[Arc<dyn Backend>]) -> Result<(), String> {
    if rows.is_empty() || rows.len() > MAX_ROWS {
        return Err(format!("the table has {} rows; it takes 1 to {MAX_ROWS}", rows.len()));
    }
    let block =
        members.iter().map(|member| u64::from(member.geometry().limits.logical_block)).max().unwrap_or(1);
    for row in rows {
        let Mapping { start, len, device, offset } = *row;
        let Some(member) = members.get(device) else {
            let last = members.len().saturating_sub(1);
            return Err(format!(
                "row {row} names device {device}; the devices are numbered from 0 to {last}"
            ));
        };
        if len == 0 || [start, len, offset].iter().any(|value| !value.is_multiple_of(block)) {
            return Err(format!(
                "row {row} is empty, or not all of it are multiples of the logical block, {block} bytes"
            ));
        }
        let size = member.geometry().size;
        if offset.checked_add(len).is_none_or(|end| end > size) || row.end() >= 1 << 63 {
            return Err(format!(
                "row {row} ends past the end of device {device} ({}, {size} bytes)",
                member.name()
            ));
        }
    }
    if let Some([one, other]) = rows.windows(2).find(|pair| pair[0].end() > pair[1].start) {
        return Err(format!("rows {one} and {other} overlap on the device"));
    }
    let mut below: Vec<&Mapping> = rows.iter().collect();
    below.sort_unstable_by_key(|row| (row.device, row.offset));
    let overlaps = |pair: &&[&Mapping]| {
        pair[0].device == pair[1].device && pair[0].offset + pair[0].len > pair[1].offset
    };
    if let Some([one, other]) = below.windows(2).find(overlaps) {
        return Err(format!("rows {one} and {other} overlap on device {}", one.device));
    }
    let is_used = |device: usize| below.binary_search_by(|row| (row.device, 1).cmp(&(device, 1))).is_ok();
    match (0..members.len()).find(|&device| !is_used(device)) {
        Some(device) => {
            Err(format!("no row uses device {device} ({}); leave it out", members[device].name()))
        }
        None => Ok(()),
    }
}

/// Builds a device of rows that are sorted and sound.
pub(crate) fn build(
    layer: &str,
    rows: Vec<Mapping>,
    mut members: Vec<Arc<dyn Backend>>,
) -> Result<Arc<dyn Backend>, LayerError> {
    members::check(layer, &members)?;
    let Some(stacked) = members::stack(&members) else {
        return Err(LayerError::Members(format!("{layer} needs at least one device")));
    };
    let (name, count) = (name_of(layer, "", &members), rows.len());
    let block = stacked.limits.logical_block;
    let limits = members.iter().map(|member| member.geometry().limits.with_logical_block(block));
    let mut limits: Vec<Limits> = limits.collect();
    let size = rows.last().map_or(0, Mapping::end);
    let rows = fill_gaps(rows, members.len());
    let reports = Reports::on(&members);
    if rows.iter().any(|row| row.device == members.len()) {
        let geometry = stacked.with_size(size);
        limits.push(geometry.limits);
        members.push(Arc::new(Gap::new(geometry, members[0].clock(), members[0].now())));
    }
    let mut below: Vec<u32> = (0..rows.len() as u32).collect();
    below.sort_unstable_by_key(|&at| (rows[at as usize].device, rows[at as usize].offset));
    let map = Table { rows, below, limits, count };
    let atomic_write = (0..map.rows.len()).map(|at| map.atomic_write(at)).min().unwrap_or(0);
    Ok(Arc::new(Distributed {
        name,
        geometry: stacked.with_size(size).with_limits(stacked.limits.with_atomic_write(atomic_write)),
        map: Arc::new(map),
        reports,
        gate: BarrierGate::over(&members),
        members,
    }))
}

/// The rows with one more for each gap between them, on device `gap`.
fn fill_gaps(rows: Vec<Mapping>, gap: usize) -> Vec<Mapping> {
    let mut filled = Vec::with_capacity(rows.len());
    let mut end = 0;
    for row in rows {
        if row.start > end {
            filled.push(Mapping { start: end, len: row.start - end, device: gap, offset: end });
        }
        end = row.end();
        filled.push(row);
    }
    filled
}

/// Rows without gaps, sorted by their beginnings.
struct Table {
    rows: Vec<Mapping>,
    /// The same by device and position there.
    below: Vec<u32>,
    /// By device.
    limits: Vec<Limits>,
    /// Rows that were given.
    count: usize,
}

impl Table {
    fn at(&self, pos: u64) -> usize {
        self.rows.partition_point(|row| row.end() <= pos).min(self.rows.len() - 1)
    }

    /// The largest atomic write in a row. It must be aligned both on the device and on the device below.
    fn atomic_write(&self, at: usize) -> u32 {
        let row = &self.rows[at];
        members::atomic_behind(self.limits[row.device].atomic_write, row.start.wrapping_sub(row.offset))
    }
}

impl LimitSource for Table {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        let at = self.at(pos);
        let row = &self.rows[at];
        let limits = self.limits[row.device];
        // Chunk borders of a device below are chunk borders of the device only if both count from the same place.
        let aligned = limits.chunk != 0 && row.start.abs_diff(row.offset).is_multiple_of(limits.chunk);
        let chunk = if aligned { limits.chunk } else { 0 };
        let until = if at + 1 == self.rows.len() { u64::MAX } else { row.end() };
        (limits.with_chunk(chunk).with_atomic_write(self.atomic_write(at)), until)
    }
}

impl Map for Table {
    #[inline]
    fn find(&self, pos: u64) -> Extent {
        let row = &self.rows[self.at(pos)];
        Extent { member: row.device, pos: pos - row.start + row.offset, len: row.end().saturating_sub(pos) }
    }

    #[inline]
    fn whence(&self, member: usize, pos: u64) -> u64 {
        let place = |at: &u32| {
            let row = &self.rows[*at as usize];
            (row.device, row.offset) <= (member, pos)
        };
        let after = self.below.partition_point(place).max(1);
        let row = &self.rows[self.below[after - 1] as usize];
        pos.wrapping_sub(row.offset).wrapping_add(row.start)
    }

    fn ranges(&self, mut pos: u64, len: u64, each: &mut dyn FnMut(Extent)) {
        let end = pos + len;
        while pos < end {
            let place = self.find(pos);
            let len = place.len.min(end - pos);
            each(Extent { len, ..place });
            pos += len;
        }
    }

    fn facts(&self) -> Vec<Fact> {
        let gaps = self.rows.len() - self.count;
        let mut facts = vec![("extents", self.count.to_string())];
        if gaps > 0 {
            facts.push(("gaps", gaps.to_string()));
        }
        facts
    }
}
