//! A cache of several [shards](super::placement) as one device.
//!
//! Its lanes are those of a device with distributed data, whose members are the shards: a transfer within an extent goes to
//! its shard as it is, and what concerns several of them in parts.

use super::Settings;
use super::device::{self, Cache};
use super::placement::{Peer, Placement, ShardPlace};
use super::policy::{Manners, Policies};
use super::resident::InShards;
use super::shared::Shared;
use super::status::Figures;
use super::tuning::Tuning;
use crate::readahead::Hint;
use crate::sync::{Mutex, lock};
use platter_block::allocation::Extent;
use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::bio::Op;
use platter_block::capability::{Cached, Managed, Worker};
use platter_block::driver::Geometry;
use platter_block::event::Watcher;
use platter_block::fault::{Error, Fault};
use platter_block::handle::{HandleCounters, HandleId};
use platter_block::lane::{Bell, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::params::{Param, ParamError};
use platter_block::resident::Resident;
use platter_block::status::Item;
use platter_stack::LayerError;
use platter_stack::barrier_gate::BarrierGate;
use platter_stack::distributed::Distributed;
use platter_stack::kit::Host;
use platter_stack::reports::Reports;
use std::sync::{Arc, Weak};

/// Lanes that callers get even if that makes more below than the disk has requests.
const LEAST_LANES: u32 = 32;

/// A device with a cache of several shards over it.
pub(super) struct Sharded {
    inner: Distributed<Placement>,
    shards: Vec<Arc<Shared>>,
    policies: Policies,
    /// Taken before those of the shards.
    tuning: Mutex<Tuning>,
    below: Arc<dyn Backend>,
}

impl Sharded {
    pub(super) fn new(below: Arc<dyn Backend>, settings: &Settings) -> Result<Sharded, LayerError> {
        let wrong = |message: String| LayerError::Param(ParamError(message));
        let under = below.geometry();
        settings.check(&below.name(), &under).map_err(wrong)?;
        let policies = device::policies(settings, &under);
        let policy = policies.make();
        if Manners::of(&policy).exclusive {
            return Err(wrong(format!(
                "cache shards={}: the policy readahead={} takes one read of a handle at a time, which needs shards=1",
                settings.shards, settings.readahead.name
            )));
        }
        let geometry = device::geometry(settings, under);
        let placement = Placement::new(settings.shards, settings.extent, geometry.size, geometry.limits);
        let placement = Arc::new(placement);
        let tuning = Tuning::new(settings);
        let (mut members, mut shards) = (Vec::<Arc<dyn Backend>>::new(), Vec::new());
        for index in 0..settings.shards {
            let place = ShardPlace { index, placement: Arc::clone(&placement) };
            let part = (policies.clone(), Arc::clone(&policy), Some(Arc::new(place)));
            let cache = Cache::build(Arc::clone(&below), settings, tuning.part(), part)?;
            shards.push(Arc::clone(cache.shared()));
            members.push(Arc::new(cache));
        }
        let weak: Vec<Weak<Shared>> = shards.iter().map(Arc::downgrade).collect();
        shards.iter().for_each(|shard| drop(shard.peers.set(weak.clone())));
        let peer =
            |shard: &Arc<Shared>| Peer { frames: Arc::clone(&shard.frames), board: Arc::clone(&shard.board) };
        placement.set_peers(shards.iter().map(peer).collect());
        let inner = Distributed {
            name: Arc::from(format!("cache({})", below.name())),
            members,
            map: placement,
            geometry,
            gate: BarrierGate::over(std::slice::from_ref(&below)),
            reports: Reports::on(std::slice::from_ref(&below)),
        };
        Ok(Sharded { inner, shards, policies, tuning: Mutex::new(tuning), below })
    }

    fn error(&self, fault: Fault, op: Op) -> Error {
        Error { fault, op, device: self.name(), offset: 0, len: 0, detail: String::new() }
    }

    fn figures(&self) -> Result<Figures, Fault> {
        let mut sum = Figures::default();
        for shard in &self.shards {
            sum.add(&shard.figures()?);
        }
        Ok(sum)
    }

    /// Gives every shard its part. If one cannot have it, all keep what they had.
    fn tune(&self, old: &Tuning, new: &Tuning) -> Result<(), String> {
        for (at, shard) in self.shards.iter().enumerate() {
            // What memory pressure has taken from it stays taken.
            let part = |of: &Tuning| of.part();
            if let Err(why) = shard.tune(|before| Ok(part(new).squeezed_as(before))) {
                // What was before fits.
                let back = |shard: &Arc<Shared>| shard.tune(|before| Ok(part(old).squeezed_as(before)));
                self.shards[..at].iter().for_each(|shard| drop(back(shard)));
                return Err(why);
            }
        }
        Ok(())
    }
}

impl LimitSource for Sharded {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (self.inner.geometry.limits, u64::MAX)
    }
}

impl Backend for Sharded {
    fn name(&self) -> Arc<str> {
        Arc::clone(&self.inner.name)
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        self.inner.open_lane(lane_use)
    }

    /// Each lane opens one below for every shard, so there are fewer; but enough for callers not to wait for each other.
    fn max_lanes(&self) -> Option<u32> {
        let shards = self.shards.len() as u32;
        self.below.max_lanes().map(|lanes| (lanes / shards).max(lanes.min(LEAST_LANES)))
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        Some((0, pos))
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<Extent, Error> {
        self.inner.allocation(pos, len)
    }

    fn holds_unflushed(&self) -> bool {
        self.shards.iter().any(|shard| !shard.through) || self.below.holds_unflushed()
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        vec![Arc::clone(&self.below)]
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.inner.watch(watcher);
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        self.inner.explain(fault)
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![("layer", "cache".to_string())];
        facts.extend(self.status().iter().map(Item::fact));
        facts.extend(self.below.facts());
        facts
    }

    fn cached(&self) -> Option<&dyn Cached> {
        Some(self)
    }

    fn managed(&self) -> Option<&dyn Managed> {
        Some(self)
    }

    fn worker(&self) -> Option<&dyn Worker> {
        Some(self)
    }
}

impl Cached for Sharded {
    fn handle_opened(&self, id: HandleId) {
        let policy = self.policies.make();
        self.shards.iter().for_each(|shard| shard.open_handle(id, Arc::clone(&policy)));
        self.below.handle_opened(id);
    }

    fn handle_closed(&self, id: HandleId) {
        self.shards.iter().for_each(|shard| shard.close_handle(id));
        self.below.handle_closed(id);
    }

    fn advise(&self, id: HandleId, hint: Hint, pos: u64, len: u64) -> Result<(), Error> {
        for (at, shard) in self.shards.iter().enumerate() {
            shard.take_hint(id, hint, (pos, len), at == 0).map_err(|fault| self.error(fault, Op::Read))?;
        }
        Ok(())
    }

    fn handle_counters(&self, id: HandleId) -> Option<HandleCounters> {
        let mut sum = HandleCounters::default();
        for shard in &self.shards {
            sum.merge(&shard.engine().ok()?.handles.counters(id)?);
        }
        Some(sum)
    }

    fn cache_counters(&self) -> Option<HandleCounters> {
        let mut sum = HandleCounters::default();
        for shard in &self.shards {
            sum.merge(&shard.counters()?);
        }
        Some(sum)
    }

    fn resident(&self) -> Option<Arc<dyn Resident>> {
        let answers = self.shards.iter().all(|shard| shard.manners.are_free());
        let (map, gate) = (&self.inner.map, &self.inner.gate);
        let shards = || InShards::new(Arc::clone(map), self.shards.clone(), Arc::clone(gate));
        answers.then(|| Arc::new(shards()) as Arc<dyn Resident>)
    }
}

impl Worker for Sharded {
    fn keep(&self, keeper: Arc<dyn Bell>) {
        for (at, shard) in self.shards.iter().enumerate() {
            let below = if at == 0 { std::slice::from_ref(&self.below) } else { &[] };
            shard.board.keep(below, Arc::clone(&keeper));
        }
    }
}

impl Managed for Sharded {
    fn status(&self) -> Vec<Item> {
        let opened = lock(&self.tuning).opened();
        Figures::status(self.figures(), opened)
    }

    fn params(&self) -> Vec<(Param, i64)> {
        lock(&self.tuning).params()
    }

    fn set_param(&self, name: &str, value: i64) -> Result<(), ParamError> {
        let mut tuning = lock(&self.tuning);
        let mut new = *tuning;
        new.set(name, value)?;
        self.tune(&tuning, &new).map_err(|why| ParamError(format!("cache: {name}={value}: {why}")))?;
        *tuning = new;
        Ok(())
    }
}
