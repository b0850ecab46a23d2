//! The device around a filter: what it says about itself.

use super::dues::Dues;
use super::lane::{FilterLane, PassLane};
use super::shape::{Shape, Size};
use super::{CommandRule, Filter};
use crate::barrier_gate::BarrierGate;
use crate::gated_lane::GatedLane;
use crate::members::atomic_behind;
use crate::reports::Reports;
use crate::{LayerError, LayerType};
use platter_block::allocation;
use platter_block::backend::{Backend, DiskRange, Fact, LaneUse};
use platter_block::bio::Op;
use platter_block::command::CommandSets;
use platter_block::driver::Geometry;
use platter_block::event::Watcher;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::limits::{LimitSource, Limits};
use platter_block::params::{Param, ParamError, Unit};
use platter_block::time::Span;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The part of the device below that a layer of a fixed size covers.
struct Part {
    range: Range<u64>,
    reports: Reports,
}

/// A layer over one device: the device as a [`Filter`] changes it.
pub struct Filtered<F> {
    below: Arc<dyn Backend>,
    name: Arc<str>,
    facts: Vec<Fact>,
    filter: F,
    /// `None`: as large as the device below, and follows its size.
    part: Option<Part>,
    lanes: AtomicU64,
    gate: Arc<BarrierGate>,
    dues: Arc<Dues>,
    size: Arc<Size>,
}

impl<F: Filter> Filtered<F> {
    /// A layer as large as `below`. It is named `layer(params, below)` in messages.
    pub fn new(layer: &str, params: &str, below: Arc<dyn Backend>, filter: F) -> Filtered<F> {
        let name = crate::distributed::name_of(layer, params, std::slice::from_ref(&below));
        let facts = vec![("layer", layer.to_string())];
        let size = Arc::new(Size::new(below.geometry().size));
        below.watch(Arc::downgrade(&size) as Weak<dyn Watcher>);
        let gate = BarrierGate::over(std::slice::from_ref(&below));
        let (lanes, dues) = (AtomicU64::new(0), Arc::default());
        Filtered { below, name, facts, filter, part: None, lanes, gate, dues, size }
    }

    /// The layer over a range of bytes of the device below instead of all of it. It keeps its size, and reports events
    /// of the device below as [`DeviceEvent::Below`](platter_block::event::DeviceEvent::Below).
    ///
    /// # Errors
    /// A range that is empty, extends past the end or is not aligned to logical blocks.
    pub fn over_part(mut self, range: Range<u64>) -> Result<Filtered<F>, LayerError> {
        let geometry = self.below.geometry();
        let (block, size) = (u64::from(geometry.limits.logical_block), geometry.size);
        let Range { start, end } = range;
        let is_aligned = start.is_multiple_of(block) && end.is_multiple_of(block);
        if start >= end || end > size || !is_aligned {
            return Err(LayerError::Unfit(ParamError(format!(
                "{}: the range {start}..{end} is not a range of multiples of {block} up to {size}",
                self.name
            ))));
        }
        self.size = Arc::new(Size::new(end - start));
        self.part = Some(Part { range, reports: Reports::on(std::slice::from_ref(&self.below)) });
        Ok(self)
    }

    /// The layer with another name in messages and other fixed facts.
    pub(crate) fn with_name(mut self, name: Arc<str>, facts: Vec<Fact>) -> Filtered<F> {
        (self.name, self.facts) = (name, facts);
        self
    }

    /// Which commands the layer passes on.
    fn commands(&self) -> CommandRule {
        let rule = self.filter.commands();
        if self.part.is_some() { rule.of_part() } else { rule }
    }

    /// Where the layer begins on the device below.
    fn offset(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.range.start)
    }

    /// The limits of the layer. A chunk border of the device below is a chunk border of a part only if the part begins
    /// at such a border. (The queue below splits at its own borders in any case.) An atomic write is aligned to its
    /// length on both the part and the device only if the part begins at a multiple of that length.
    fn shift(&self, limits: Limits) -> Limits {
        let offset = self.offset();
        let aligned = limits.chunk != 0 && offset.is_multiple_of(limits.chunk);
        let chunk = if aligned { limits.chunk } else { 0 };
        let atomic_write = atomic_behind(limits.atomic_write, offset);
        self.filter.limits(limits.with_chunk(chunk).with_atomic_write(atomic_write))
    }
}

impl<F: Filter> LimitSource for Filtered<F> {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        let (limits, until) = self.below.limits_at(self.offset().saturating_add(pos));
        let until = if until == u64::MAX { until } else { until.saturating_sub(self.offset()) };
        (self.shift(limits), until)
    }
}

impl<F: Filter> Backend for Filtered<F> {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        let below = self.below.geometry();
        let size = self.part.as_ref().map_or(below.size, |part| part.range.end - part.range.start);
        let features = self.filter.features(below.features);
        let features = match self.commands() {
            CommandRule::None => features.with_commands(CommandSets::NONE),
            _ => features,
        };
        Geometry::new(size, self.shift(below.limits)).with_features(features)
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let below = self.below.open_lane(lane_use)?;
        let shape = Shape::new(
            self.geometry(),
            self.below.geometry(),
            &self.size,
            self.part.is_some(),
            self.offset(),
            self.commands(),
        );
        if F::PASSES_IO {
            return Ok(Box::new(PassLane::new(below, shape)));
        }
        let filter = self.filter.for_lane(self.lanes.fetch_add(1, Ordering::Relaxed));
        let keeps_barriers = !filter.keeps_places();
        let lane = FilterLane::new(below, filter, shape, &self.dues);
        Ok(Box::new(GatedLane::new(lane, &self.gate, keeps_barriers)))
    }

    fn timeout(&self, op: Op) -> Option<Span> {
        self.below.timeout(op)
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        Some((0, self.offset().checked_add(pos)?))
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<allocation::Extent, Error> {
        Ok(self.below.allocation(self.offset() + pos, len)?.moved(pos, len))
    }

    fn disk_ranges(&self) -> Vec<DiskRange> {
        let below = self.below.disk_ranges();
        match (&below[..], &self.part) {
            // The device below is a part itself, or a disk.
            ([disk], Some(part)) if disk.end - disk.begin == self.below.geometry().size => {
                let (begin, end) = (disk.begin + part.range.start, disk.begin + part.range.end);
                vec![DiskRange { begin, end, ..*disk }]
            }
            _ => below,
        }
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        vec![Arc::clone(&self.below)]
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) {
        match &self.part {
            Some(part) => part.reports.watch(watcher),
            None => self.below.watch(watcher),
        }
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        // The layer fails barriers of its own with the same fault as the disks below.
        let own = self.gate.blame().filter(|_| fault.kind == Kind::Unsettled && fault.stage == Stage::Layer);
        own.or_else(|| self.below.explain(fault))
    }

    fn facts(&self) -> Vec<Fact> {
        let below = self.below.facts();
        let order = crate::order::drains(&below).filter(|_| !(F::PASSES_IO || self.filter.keeps_places()));
        let own = self.facts.iter().cloned().chain(self.filter.facts());
        own.chain(order).chain(below).collect()
    }
}

/// The only device below a layer named `layer`.
///
/// # Errors
/// There is none, or there are several.
pub fn only(layer: &str, below: Vec<Arc<dyn Backend>>) -> Result<Arc<dyn Backend>, LayerError> {
    let count = below.len();
    let [only] = <[_; 1]>::try_from(below)
        .map_err(|_| LayerError::Members(format!("{layer} takes exactly 1 device, not {count}")))?;
    Ok(only)
}

/// Builds the layer of a row from a filter, as the end of its [`Build`](crate::Build) function. Messages name the
/// layer with those of its values that are not the default.
///
/// # Errors
/// See [`only`].
pub fn build<F: Filter>(
    row: &LayerType,
    values: &[i64],
    below: Vec<Arc<dyn Backend>>,
    filter: F,
) -> Result<Arc<dyn Backend>, LayerError> {
    let given = row.params.iter().zip(values).filter(|(param, value)| **value != param.default);
    let text = |(param, &value): (&Param, &i64)| match param.unit {
        Unit::Millis | Unit::Micros | Unit::Nanos => format!("{}={value}{}", param.name, param.unit),
        _ => format!("{}={}", param.name, param.show(value)),
    };
    let params: Vec<String> = given.map(text).collect();
    Ok(Arc::new(Filtered::new(row.name, &params.join(", "), only(row.name, below)?, filter)))
}
