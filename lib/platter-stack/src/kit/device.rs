//! The devices that show a stateful layer.

use super::frame::Frame;
use super::host_lane::HostLane;
use super::lane::Tasks;
use super::layer::Layer;
use crate::barrier_gate::BarrierGate;
use crate::reports::Reports;
use platter_block::allocation;
use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::bio::Op;
use platter_block::capability::{Managed, Worker};
use platter_block::driver::Geometry;
use platter_block::event::Watcher;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::{Bell, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::params::{Param, ParamError};
use platter_block::status::Item;
use std::sync::{Arc, Weak};

/// A device of a stateful layer. A layer has one for each of its ports, for example one for each view of a snapshot.
pub struct Stateful<L: Layer> {
    frame: Arc<Frame<L>>,
    port: usize,
    name: Arc<str>,
    geometry: Geometry,
    gate: Arc<BarrierGate>,
    reports: Reports,
}

impl<L: Layer> Stateful<L> {
    /// The device of a port, numbered from 0. It keeps its size.
    pub fn new(frame: &Arc<Frame<L>>, port: usize, name: Arc<str>, geometry: Geometry) -> Stateful<L> {
        let (gate, reports) = (BarrierGate::over(&frame.devices), Reports::on(&frame.devices));
        Stateful { frame: Arc::clone(frame), port, name, geometry, gate, reports }
    }
}

impl<L: Layer> LimitSource for Stateful<L> {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (self.geometry.limits, u64::MAX)
    }
}

impl<L: Layer> Backend for Stateful<L> {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    fn geometry(&self) -> Geometry {
        let commands = self.frame.layer.commands(self.port);
        self.geometry.with_features(self.geometry.features.with_commands(commands))
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let Some(first) = self.frame.devices.first() else { return Err(self.broken()) };
        let own = first.open_lane(lane_use)?;
        let tasks = Tasks::new(self.port);
        let lane = HostLane::open(&self.frame, own, (self.geometry(), &self.gate), lane_use, tasks);
        lane.map(|lane| Box::new(lane) as Box<dyn Lane>).map_err(|_| self.broken())
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        let (device, place, _) = self.place(pos)?;
        Some((device, place))
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<allocation::Extent, Error> {
        let Some(place @ (device, start, rest)) = self.place(pos) else {
            return Ok(allocation::Extent::data(pos, len));
        };
        let len = len.min(rest);
        let found = self.frame.devices[device].allocation(start, len)?;
        // A layer moves data before it frees the old place. So what is a hole may have been data that has moved.
        let has_moved = self.place(pos) != Some(place);
        Ok(if has_moved { allocation::Extent::data(pos, len) } else { found.moved(pos, len) })
    }

    fn holds_unflushed(&self) -> bool {
        let below = self.frame.devices.iter().any(|device| device.holds_unflushed());
        below || self.frame.layer.holds_unflushed(self.port)
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        self.frame.devices.clone()
    }

    fn acknowledge_flush_failure(&self) {
        self.frame.devices.iter().for_each(|device| device.acknowledge_flush_failure());
        // Last: a flush that a device still refuses meanwhile must not have the layer keep that in mind again.
        self.frame.layer.acknowledge_flush_failure();
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) {
        if let Some(notices) = self.frame.layer.notices() {
            notices.watch(Weak::clone(&watcher));
        }
        self.reports.watch(watcher);
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        if fault.kind == Kind::Broken
            && let Some(cause) = self.frame.panic()
        {
            return Some(format!("the layer {} has panicked: {cause}", self.name));
        }
        // The layer fails barriers of its own with the same fault as the disks below.
        let stalled = fault.kind == Kind::Unsettled && fault.stage == Stage::Layer;
        let own = self.gate.blame().filter(|_| stalled);
        let own = own.or_else(|| self.frame.layer.explain(self.port, fault).filter(|_| !stalled));
        own.or_else(|| self.below().iter().find_map(|below| below.explain(fault)))
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts: Vec<Fact> = self.status().iter().map(Item::fact).collect();
        facts.extend(self.frame.devices.iter().flat_map(|device| {
            let name = [("member", device.name().to_string())];
            name.into_iter().chain(device.facts())
        }));
        facts
    }

    fn managed(&self) -> Option<&dyn Managed> {
        Some(self)
    }

    fn worker(&self) -> Option<&dyn Worker> {
        Some(self)
    }
}

impl<L: Layer> Stateful<L> {
    fn place(&self, pos: u64) -> Option<(usize, u64, u64)> {
        (pos < self.geometry.size).then(|| self.frame.layer.locate(self.port, pos))?
    }

    fn broken(&self) -> Error {
        let fault = Fault::new(Kind::Broken, Stage::Layer);
        Error {
            fault,
            op: Op::Read,
            device: self.name(),
            offset: 0,
            len: 0,
            detail: self.explain(fault).unwrap_or_default(),
        }
    }
}

impl<L: Layer> Managed for Stateful<L> {
    fn status(&self) -> Vec<Item> {
        let help = "what the panic of the layer said, since which its I/O fails";
        let failure = self.frame.panic().map(|cause| Item::text("layer failure", cause.to_owned(), help));
        failure.into_iter().chain(self.frame.layer.status(self.port)).collect()
    }

    fn params(&self) -> Vec<(Param, i64)> {
        self.frame.layer.params(self.port)
    }

    fn set_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        self.frame.layer.set_param(self.port, name, value)?;
        // Background work may have been resumed, and no lane may be run.
        self.frame.announce();
        Ok(())
    }
}

impl<L: Layer> Worker for Stateful<L> {
    fn keep(&self, keeper: Arc<dyn Bell>) {
        self.frame.keep(keeper);
    }
}
