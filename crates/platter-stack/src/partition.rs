//! `partition`: a contiguous part of a device.

use crate::reader::Reader;
use crate::reports::Reports;
use crate::{LayerError, Row};
use platter_block::backend::{Backend, Fact, Ground, LaneUse};
use platter_block::bio::{Bio, Op};
use platter_block::driver::Geometry;
use platter_block::event::Watcher;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::limits::{LimitSource, Limits};
use platter_block::params::{Param, ParamError, Unit};
use platter_block::time::Time;
use std::sync::{Arc, Weak};

mod table;

pub(crate) const ROW: Row = Row {
    name: "partition",
    summary: "a contiguous part of a device",
    params: &[
        Param::number(
            "offset",
            Unit::Bytes,
            0,
            (0, i64::MAX),
            "where the part begins, a multiple of the logical block",
        ),
        Param::number(
            "length",
            Unit::Bytes,
            0,
            (0, i64::MAX),
            "size of the part, a multiple of the logical block; 0: to the end",
        ),
        Param::number(
            "number",
            Unit::Count,
            0,
            (0, 4096),
            "instead of these: the partition of this number in the disk's partition table (GPT or MBR)",
        ),
    ],
    members: 1..=1,
    build: |values, mut members| {
        let [offset, length, number] = [values[0], values[1], values[2]].map(i64::unsigned_abs);
        let Some(below) = members.pop() else {
            return Err(LayerError::Members("partition needs a device".to_string()));
        };
        if number == 0 {
            return Ok(Arc::new(Partition::new(below, offset, (length > 0).then_some(length))?));
        }
        if offset != 0 || length != 0 {
            let both = "partition: number= says where the part is; leave out offset= and length=";
            return Err(LayerError::Param(ParamError(both.to_string())));
        }
        Ok(Arc::new(Partition::numbered(below, number)?))
    },
};

/// A contiguous part of a device.
pub struct Partition {
    below: Arc<dyn Backend>,
    offset: u64,
    size: u64,
    reports: Reports,
}

impl Partition {
    /// The part of `below` from byte `offset`, `length` bytes long or to the end of the device.
    ///
    /// # Errors
    /// A part that is empty, extends past the end or is not aligned to logical blocks.
    pub fn new(below: Arc<dyn Backend>, offset: u64, length: Option<u64>) -> Result<Partition, LayerError> {
        let geometry = below.geometry();
        let block = u64::from(geometry.limits.logical_block);
        let refuse = |what: &str, value: u64, range: String| {
            Err(LayerError::Unfit(ParamError(format!(
                "partition of {}: {what}={value} is out of range: {range}",
                below.name()
            ))))
        };
        if offset >= geometry.size || !offset.is_multiple_of(block) {
            let range = format!("multiples of {block} below {}", geometry.size);
            return refuse("offset", offset, range);
        }
        let rest = (geometry.size - offset) / block * block;
        let size = length.unwrap_or(rest);
        if size == 0 || size > rest || !size.is_multiple_of(block) {
            return refuse("length", size, format!("multiples of {block} from {block} to {rest}"));
        }
        let reports = Reports::on(std::slice::from_ref(&below));
        Ok(Partition { below, offset, size, reports })
    }

    /// The partition of `below` with this number (from 1) in its partition table.
    ///
    /// A GUID partition table is checked by its CRCs; if the primary table is damaged, the backup at the end
    /// of the disk is used. In a master boot record, 1 to 4 are the primary partitions and the logical
    /// partitions begin at 5.
    ///
    /// # Errors
    /// No partition table, a damaged one, no such partition, or a disk that cannot be read.
    pub fn numbered(below: Arc<dyn Backend>, number: u64) -> Result<Partition, LayerError> {
        let geometry = below.geometry();
        let block = u64::from(geometry.limits.logical_block);
        let mut reader = Reader::open(&below)?;
        let blocks = geometry.size / block;
        let mut read = |what: &str, first: u64, count: u64| {
            if first.checked_add(count).is_none_or(|end| end > blocks) {
                return Err(format!("block {first} is past the end of the disk"));
            }
            reader.read(what, first * block, (count * block) as usize).map_err(|error| error.to_string())
        };
        let found = table::find(number, (block, blocks), &mut read);
        drop(reader);
        let (first, count) = found.map_err(|wrong| {
            LayerError::Unfit(ParamError(format!("partition of {}: number={number}: {wrong}", below.name())))
        })?;
        Partition::new(below, first * block, Some(count * block))
    }

    /// The limits of the part. A chunk border of the device below is a chunk border of the part only if the
    /// part begins at such a border. (The queue below splits at its own borders in any case.) An atomic write
    /// is aligned to its length on both the part and the device only if the part begins at a multiple of that
    /// length.
    fn shift(&self, limits: Limits) -> Limits {
        let aligned = limits.chunk != 0 && self.offset.is_multiple_of(limits.chunk);
        let chunk = if aligned { limits.chunk } else { 0 };
        Limits { chunk, atomic_write: atomic_behind(limits.atomic_write, self.offset), ..limits }
    }
}

impl LimitSource for Partition {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        let (limits, until) = self.below.limits_at(self.offset.saturating_add(pos));
        let until = if until == u64::MAX { until } else { until.saturating_sub(self.offset) };
        (self.shift(limits), until)
    }
}

impl Backend for Partition {
    fn name(&self) -> Arc<str> {
        Arc::from(format!("partition({}, offset={}, length={})", self.below.name(), self.offset, self.size))
    }

    fn geometry(&self) -> Geometry {
        let below = self.below.geometry();
        Geometry { size: self.size, limits: self.shift(below.limits), features: below.features }
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let below = self.below.open_lane(lane_use)?;
        Ok(Box::new(PartitionLane { below, offset: self.offset, size: self.size, refused: Vec::new() }))
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        Some((0, self.offset.checked_add(pos)?))
    }

    fn ground(&self) -> Vec<Ground> {
        let below = self.below.ground();
        match &below[..] {
            // The device below is a partition itself, or a disk.
            [disk] if disk.end - disk.begin == self.below.geometry().size => {
                let begin = disk.begin + self.offset;
                vec![Ground { begin, end: begin + self.size, ..*disk }]
            }
            _ => below,
        }
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        vec![Arc::clone(&self.below)]
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.reports.watch(watcher);
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![("offset", self.offset.to_string()), ("length", self.size.to_string())];
        facts.extend(self.below.facts());
        facts
    }
}

/// The largest atomic write of a device that begins at byte `offset` of another one. Lengths are powers of
/// two, and positions are multiples of the length on both devices.
pub(crate) fn atomic_behind(most: u32, offset: u64) -> u32 {
    if offset == 0 { most } else { most.min(1 << offset.trailing_zeros().min(31)) }
}

/// Whether the range of a bio has a position. A flush may cover the whole device.
fn has_place(bio: &Bio) -> bool {
    bio.op() != Op::Flush || bio.len() + bio.done() > 0
}

struct PartitionLane {
    below: Box<dyn Lane>,
    offset: u64,
    size: u64,
    /// Bios outside the part.
    refused: Vec<Bio>,
}

impl Lane for PartitionLane {
    fn below(&self) -> Option<&dyn Lane> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Lane> {
        Some(&mut *self.below)
    }

    fn submit(&mut self, now: Time, mut bio: Bio) {
        if has_place(&bio) {
            let inside = bio.pos().checked_add(bio.len()).is_some_and(|end| end <= self.size);
            if !inside {
                bio.fail(Fault::new(Kind::OutOfRange, Stage::Layer));
                self.refused.push(bio);
                return;
            }
            bio.remap(bio.pos() + self.offset);
        }
        self.below.submit(now, bio);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.refused);
        let first = out.len();
        self.below.take_done(out);
        for bio in &mut out[first..] {
            if has_place(bio) {
                // A flush may report a write-back error at a position before the part.
                bio.remap(bio.pos().saturating_sub(self.offset));
            }
        }
    }

    fn has_done(&self) -> bool {
        !self.refused.is_empty() || self.below.has_done()
    }
}
