//! Devices that spread what they hold over several others: the part that is the same whatever the rule.
//!
//! A rule is a [`Map`]: which member holds a byte, and how many bytes from there on. What lies on one member
//! is passed on as it is: the bio is aimed at its place there and aimed back when it completes. What lies on
//! several is done in parts, one for each member and more only where a member takes fewer segments. A
//! member's pieces that follow each other there become one part, whose segments point into the memory of the
//! whole: nothing is copied.

use crate::gate::Gate;
use crate::reports::Reports;
use lane::SpreadLane;
use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::driver::Geometry;
use platter_block::event::Watcher;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::limits::{LimitSource, Limits};
use std::sync::{Arc, Weak};

mod lane;
mod parts;
mod source;

/// A place on a member, and how far the bytes that follow on the device follow there too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) member: usize,
    /// First byte on the member.
    pub(crate) pos: u64,
    /// Bytes; at least one.
    pub(crate) len: u64,
}

/// Where the bytes of a device are. Positions are below the device's size.
pub(crate) trait Map: LimitSource + 'static {
    /// The place of a byte.
    fn find(&self, pos: u64) -> Extent;

    /// The byte whose place this is.
    fn whence(&self, member: usize, pos: u64) -> u64;

    /// The places of a range, each member's in as few as possible.
    fn ranges(&self, pos: u64, len: u64, each: &mut dyn FnMut(Extent));

    /// What to tell an operator.
    fn facts(&self) -> Vec<Fact>;
}

/// A device over several members.
pub(crate) struct Spread<M> {
    pub(crate) name: Arc<str>,
    pub(crate) members: Vec<Arc<dyn Backend>>,
    pub(crate) map: Arc<M>,
    pub(crate) geometry: Geometry,
    pub(crate) gate: Arc<Gate>,
    pub(crate) reports: Reports,
}

impl<M: Map> LimitSource for Spread<M> {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        self.map.limits_at(pos)
    }
}

impl<M: Map> Backend for Spread<M> {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        Ok(Box::new(SpreadLane::open(self, lane_use)?))
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        let extent = (pos < self.geometry.size).then(|| self.map.find(pos))?;
        Some((extent.member, extent.pos))
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        self.members.clone()
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.reports.watch(watcher);
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        // The layer's own barriers are given up at the same fault as those of the disks below.
        let own =
            (self.gate.blame()).filter(|_| fault.kind == Kind::LaneStalled && fault.stage == Stage::Layer);
        own.or_else(|| self.below().iter().find_map(|below| below.explain(fault)))
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = self.map.facts();
        facts.push(("members", self.members.len().to_string()));
        facts.extend(self.members.iter().take(FACTS_OF).flat_map(|member| {
            let name = [("member", member.name().to_string())];
            name.into_iter().chain(member.facts())
        }));
        facts
    }
}

/// Members whose facts are told.
const FACTS_OF: usize = 16;

/// Members that a name lists.
const NAMED: usize = 8;

/// A name like the spec that it could have been made of; of many members only their number.
pub(crate) fn name_of(layer: &str, params: &str, members: &[Arc<dyn Backend>]) -> Arc<str> {
    let below = match members {
        few if few.len() <= NAMED => few.iter().map(|m| m.name().to_string()).collect::<Vec<_>>().join(", "),
        many => format!("{} devices", many.len()),
    };
    let comma = if params.is_empty() { "" } else { ", " };
    Arc::from(format!("{layer}({params}{comma}{below})"))
}
