//! The common part of devices that distribute their data over several members.
//!
//! A [`Map`] gives the member that holds a byte, and the number of bytes that follow there. A transfer that
//! lies on one member is passed on as it is: the bio is remapped to the member and mapped back when it
//! completes. A transfer over several members is done in parts, one per member, and more only where a member
//! takes fewer segments. Pieces that are contiguous on a member become one part, whose segments point into
//! the memory of the whole: nothing is copied.

use crate::barrier_gate::BarrierGate;
use crate::gated_lane::GatedLane;
use crate::kit::Board;
use crate::reports::Reports;
use lane::DistributedLane;
use platter_block::allocation;
use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::driver::Geometry;
use platter_block::event::Watcher;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::limits::{LimitSource, Limits};
use std::sync::{Arc, Weak};

mod lane;
mod parts;

/// A position on a member, and the number of bytes that are contiguous both there and on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its number, from 0.
    pub member: usize,
    /// First byte on the member.
    pub pos: u64,
    /// Length in bytes; at least one.
    pub len: u64,
}

/// Maps the bytes of a device to its members. Positions are below the device's size.
pub trait Map: LimitSource + 'static {
    /// The position of a byte on its member.
    fn find(&self, pos: u64) -> Extent;

    /// The byte of the device at this position of a member.
    fn whence(&self, member: usize, pos: u64) -> u64;

    /// The extents of a range, as few as possible for each member.
    fn ranges(&self, pos: u64, len: u64, each: &mut dyn FnMut(Extent));

    /// Facts to show to an operator.
    fn facts(&self) -> Vec<Fact>;

    /// The members are parts of one device: positions are the same on all of them, and they have one disk.
    ///
    /// Then flushes of a range reach the members as such, the members write out what they have and one of them flushes the disk
    /// ([`Flags::DATA_ONLY`](platter_block::bio::Flags::DATA_ONLY)), a command goes to the member that has all blocks that it reaches,
    /// and a soft barrier is carried out as a hard one: the members do not know the order of each other's writes.
    fn has_one_disk(&self) -> bool {
        false
    }

    /// What a member on the one disk publishes of its work: any lane may have to run it.
    fn board(&self, member: usize) -> Option<&Board> {
        let _ = member;
        None
    }

    /// Most bytes of an operation without data that the members get at a time.
    fn most_without_data(&self) -> u64 {
        u64::MAX
    }
}

/// A device over several members.
pub struct Distributed<M> {
    /// Its name.
    pub name: Arc<str>,
    /// The members.
    pub members: Vec<Arc<dyn Backend>>,
    /// Where its bytes are.
    pub map: Arc<M>,
    /// Size, limits and features.
    pub geometry: Geometry,
    /// Keeps barriers across the members.
    pub gate: Arc<BarrierGate>,
    /// Passes events of the members on.
    pub reports: Reports,
}

impl<M: Map> LimitSource for Distributed<M> {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        self.map.limits_at(pos)
    }
}

impl<M: Map> Backend for Distributed<M> {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let lane = DistributedLane::open(self, lane_use)?;
        // A single member keeps the order itself.
        Ok(Box::new(GatedLane::new(lane, &self.gate, self.members.len() > 1)))
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        let extent = (pos < self.geometry.size).then(|| self.map.find(pos))?;
        Some((extent.member, extent.pos))
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<allocation::Extent, Error> {
        let piece = |pos: u64, most: u64| {
            let extent = self.map.find(pos);
            let most = most.min(extent.len);
            let status = self.members[extent.member].allocation(extent.pos, most)?;
            Ok((status.moved(pos, most), most))
        };
        let (mut found, mut whole) = piece(pos, len)?;
        for _ in 0..MOST_JOINED {
            // A shorter extent than was asked for ends within the piece.
            if found.len == len || found.len < whole {
                break;
            }
            let (next, most) = piece(found.end(), len - found.len)?;
            if next.allocation != found.allocation {
                break;
            }
            (found.len, whole) = (found.len + next.len, whole + most);
        }
        Ok(found)
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        self.members.clone()
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.reports.watch(watcher);
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        // The layer fails barriers of its own with the same fault as the disks below.
        let own =
            (self.gate.blame()).filter(|_| fault.kind == Kind::Unsettled && fault.stage == Stage::Layer);
        own.or_else(|| self.below().iter().find_map(|below| below.explain(fault)))
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = self.map.facts();
        facts.push(("members", self.members.len().to_string()));
        let of_members = self.members.iter().take(FACTS_OF).flat_map(|member| {
            let name = [("member", member.name().to_string())];
            name.into_iter().chain(member.facts())
        });
        let of_members: Vec<Fact> = of_members.collect();
        // With a single member nothing has to be kept in order across members.
        facts.extend(crate::order::drains(&of_members).filter(|_| self.members.len() > 1));
        facts.extend(of_members);
        facts
    }
}

/// Most pieces of members that are joined to one extent of the allocation status, which bounds the time of a call.
const MOST_JOINED: u32 = 1024;

/// Most members whose facts are shown.
const FACTS_OF: usize = 16;

/// Most members that a name lists.
const NAMED: usize = 8;

/// A name that looks like the spec of the device. With many members it has only their number.
pub(crate) fn name_of(layer: &str, params: &str, members: &[Arc<dyn Backend>]) -> Arc<str> {
    let below = match members {
        few if few.len() <= NAMED => few.iter().map(|m| m.name().to_string()).collect::<Vec<_>>().join(", "),
        many => format!("{} devices", many.len()),
    };
    let comma = if params.is_empty() { "" } else { ", " };
    Arc::from(format!("{layer}({params}{comma}{below})"))
}
