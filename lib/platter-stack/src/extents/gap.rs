//! A device on which all I/O fails: what lies between extents.

use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::{Bio, Op};
use platter_block::command::CommandSets;
use platter_block::driver::Geometry;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::limits::{LimitSource, Limits};
use platter_block::time::{Span, Time, VirtualClock};
use std::sync::Arc;

pub(super) struct Gap {
    geometry: Geometry,
    clock: Option<Arc<VirtualClock>>,
    opened: Time,
}

impl Gap {
    pub(super) fn new(geometry: Geometry, clock: Option<Arc<VirtualClock>>, opened: Time) -> Gap {
        Gap { geometry, clock, opened }
    }
}

impl LimitSource for Gap {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (self.geometry.limits, u64::MAX)
    }
}

impl Backend for Gap {
    fn name(&self) -> Arc<str> {
        Arc::from("gap")
    }

    fn geometry(&self) -> Geometry {
        let features = self.geometry.features.with_write_cache(false).with_commands(CommandSets::NONE);
        self.geometry.with_features(features)
    }

    fn open_lane(&self, _lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        Ok(Box::new(GapLane::default()))
    }

    /// Nothing waits for a gap, so it does not lengthen the waits of the disks beside it.
    fn barrier_timeout(&self) -> Span {
        Span::default()
    }

    fn clock(&self) -> Option<Arc<VirtualClock>> {
        self.clock.clone()
    }

    fn now(&self) -> Time {
        self.clock.as_ref().map_or(self.opened, |clock| clock.now())
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        let own = fault.kind == Kind::Io && fault.stage == Stage::Layer;
        own.then(|| "no extent of the table covers this place".to_string())
    }
}

#[derive(Default)]
struct GapLane(Vec<Bio>);

impl Lane for GapLane {
    fn submit(&mut self, _now: Time, mut bio: Bio) {
        if bio.op() != Op::Flush {
            bio.fail(Fault::new(Kind::Io, Stage::Layer));
        }
        self.0.push(bio);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.0);
    }

    fn has_done(&self) -> bool {
        !self.0.is_empty()
    }
}
