//! The cache as a device.

use super::ahead::Prefault;
use super::answers;
use super::engine::Engine;
use super::handles::Handles;
use super::lane::Tasks;
use super::memory::Refused;
use super::pages::PageTable;
use super::placement::ShardPlace;
use super::policy::{Policies, Policy};
use super::pressure::{self, Watched};
use super::shared::Shared;
use super::tuning::Tuning;
use super::{Settings, Write};
use crate::readahead::{self, Hint, PAGE};
use crate::sync::{AtomicU64, Mutex};
use platter_block::allocation::Extent;
use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::bio::Op;
use platter_block::capability::{Cached, Managed, Worker};
use platter_block::driver::Geometry;
use platter_block::event::Watcher;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::handle::{HandleCounters, HandleId};
use platter_block::lane::{Bell, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::params::ParamError;
use platter_block::resident::Resident;
use platter_block::status::Item;
use platter_block::text::short_size;
use platter_stack::LayerError;
use platter_stack::barrier_gate::BarrierGate;
use platter_stack::kit::{Host, HostLane, Port};
use platter_stack::reports::Reports;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};

/// Assumed optimal I/O size of a device that reports none: on most devices larger transfers are hardly
/// cheaper.
const UNKNOWN_OPTIMUM: u64 = 1 << 20;

/// The size, limits and features of a cache with these settings over a device.
pub(super) fn geometry(settings: &Settings, below: Geometry) -> Geometry {
    let limits = below
        .limits
        .with_memory_align(1)
        .with_max_transfer(1 << 30)
        .with_max_segments(platter_block::bio::MAX_SEGMENTS as u16)
        .with_max_segment_size(1 << 30)
        .with_segment_boundary(0)
        .with_chunk(0)
        // Pages are written back individually, so no larger write is atomic.
        .with_atomic_write(0);
    // A power cut loses dirty pages that no flush has covered.
    let write_cache = below.features.write_cache || settings.write == Write::Back;
    let features = below.features.with_write_cache(write_cache).with_fua(true);
    below.with_limits(limits).with_features(features)
}

/// How the readahead of its handles is made.
pub(super) fn policies(settings: &Settings, below: &Geometry) -> Policies {
    let optimal = match below.limits.optimal_io {
        0 => UNKNOWN_OPTIMUM,
        bytes => u64::from(bytes),
    };
    let (optimal, count) = ((optimal / PAGE) as u32, (settings.size / PAGE) as u32);
    let asked = readahead::Settings {
        max: (settings.window / PAGE) as u32,
        optimal: optimal.min(count / 8),
        values: settings.values.clone(),
    };
    Policies { row: settings.readahead, settings: asked }
}

/// Why a cache with these settings cannot be opened on this machine.
fn no_memory(settings: &Settings, refused: Refused) -> LayerError {
    let part = if settings.shards > 1 { " for one of its shards" } else { "" };
    let amount = |bytes: usize| short_size(bytes as u64);
    LayerError::Machine(ParamError(match refused {
        Refused::Memory(bytes) => format!(
            "cache size={}: the machine has no memory for {}{part}; make it smaller, or leave out prefault=open",
            settings.size,
            amount(bytes)
        ),
        Refused::Addresses(bytes) => {
            let name = if settings.most() > settings.size { "max_size" } else { "size" };
            format!(
                "cache {name}={}: the system refuses {} of addresses{part} (it limits them: `ulimit -v`, or \
                 vm.overcommit_memory=2); make it smaller",
                settings.most(),
                amount(bytes)
            )
        }
    }))
}

/// A device with a page cache over it, which may be watched for memory pressure.
pub(super) struct Cache {
    // Dropped first: the thread that watches does not drop the state.
    _watched: Option<Watched>,
    shared: Arc<Shared>,
}

impl Cache {
    pub(super) fn new(below: Arc<dyn Backend>, settings: &Settings) -> Result<Cache, LayerError> {
        let geometry = below.geometry();
        settings.check(&below.name(), &geometry).map_err(|wrong| LayerError::Param(ParamError(wrong)))?;
        let policies = policies(settings, &geometry);
        let policy = policies.make();
        Cache::build(below, settings, Tuning::new(settings), (policies, policy, None))
    }

    /// A cache, or a shard of one with its part of what can be tuned, with these policies of readahead and that of the device
    /// itself.
    pub(super) fn build(
        below: Arc<dyn Backend>,
        settings: &Settings,
        tuning: Tuning,
        (policies, policy, place): (Policies, Policy, Option<Arc<ShardPlace>>),
    ) -> Result<Cache, LayerError> {
        let under = below.geometry();
        let (most, tuned) = ((tuning.most() / PAGE) as u32, tuning.tuned());
        // The time of a simulated device does not pass while a thread works.
        let prefault = match (settings.prefault, below.clock()) {
            (Prefault::Ahead, Some(_)) => Prefault::Off,
            (prefault, _) => prefault,
        };
        let pages = PageTable::new((most, tuned.pages), under.size, tuned.rules, prefault)
            .map_err(|refused| no_memory(settings, refused))?;
        let has_policies = place.as_ref().is_none_or(|place| place.index == 0);
        let handles = Handles::new(policy, has_policies);
        let manners = handles.manners();
        let frames = Arc::clone(pages.store.frames());
        let lane = below.open_lane(LaneUse::Shared).map_err(LayerError::Device)?;
        let late = Arc::default();
        let simulated = below.clock().is_some();
        let port = Arc::new(Port::new(lane, simulated));
        let mut engine = Engine::new(Arc::clone(&port), pages, handles, under.limits, &late, place.clone());
        engine.set_congestion(tuned.congestion);
        let ahead_left = Arc::clone(&engine.ahead_left);
        let shared = Arc::new(Shared {
            port,
            engine: Mutex::new(engine),
            tuning: Mutex::new(tuning),
            squeezes: AtomicU64::new(0),
            frames,
            populates: prefault == Prefault::Open,
            late,
            gate: BarrierGate::over(std::slice::from_ref(&below)),
            geometry: geometry(settings, under),
            simulated,
            through: settings.write == Write::Through,
            own: !simulated,
            policies,
            peers: OnceLock::new(),
            manners,
            ahead_left,
            place,
            board: Arc::default(),
            broken: AtomicBool::new(false),
            reports: Reports::on(std::slice::from_ref(&below)),
            below,
        });
        Cache::watched(shared, settings.min_size)
    }

    /// Its state.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The device, or a shard of it, watched for memory pressure if the whole cache has a least size.
    fn watched(shared: Arc<Shared>, min_size: u64) -> Result<Cache, LayerError> {
        if min_size == 0 || shared.simulated {
            return Ok(Cache { _watched: None, shared });
        }
        match pressure::watch(&shared) {
            Ok(watched) => Ok(Cache { _watched: Some(watched), shared }),
            Err(why) => Err(LayerError::Machine(ParamError(format!("cache min_size={min_size}: {why}")))),
        }
    }

    fn error(&self, fault: Fault, op: Op) -> Error {
        let (device, detail) = (self.name(), String::new());
        Error { fault, op, device, offset: 0, len: 0, detail }
    }
}

impl LimitSource for Cache {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (self.shared.geometry.limits, u64::MAX)
    }
}

impl Backend for Cache {
    fn name(&self) -> Arc<str> {
        Arc::from(format!("cache({})", self.shared.below.name()))
    }

    fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let own = self.shared.below.open_lane(lane_use)?;
        let device = (self.shared.geometry, &self.shared.gate);
        match HostLane::open(&self.shared, own, device, lane_use, Tasks::default()) {
            Ok(lane) => Ok(Box::new(lane)),
            Err(fault) => Err(self.error(fault, Op::Read)),
        }
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        Some((0, pos))
    }

    fn allocation(&self, pos: u64, len: u64) -> Result<Extent, Error> {
        let fault = |fault| self.error(fault, Op::Read);
        // Asked before the device below: a page that becomes clean in between has reached it by then.
        let (first, end) = (pos / PAGE, (pos + len).div_ceil(PAGE));
        let dirty = self.shared.engine().map_err(fault)?.pages.dirty.extents.next(first, end);
        match dirty {
            Some(page) if page == first => Ok(Extent::data(pos, ((page + 1) * PAGE - pos).min(len))),
            Some(page) => self.shared.below.allocation(pos, page * PAGE - pos),
            None => self.shared.below.allocation(pos, len),
        }
    }

    fn holds_unflushed(&self) -> bool {
        !self.shared.through || self.shared.below.holds_unflushed()
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        vec![Arc::clone(&self.shared.below)]
    }

    fn watch(&self, watcher: Weak<dyn Watcher>) {
        self.shared.reports.watch(watcher);
    }

    fn explain(&self, fault: Fault) -> Option<String> {
        // The layer fails barriers of its own with the same fault as the disks below.
        let own =
            self.shared.gate.blame().filter(|_| fault.kind == Kind::Unsettled && fault.stage == Stage::Layer);
        let refused = || self.shared.engine().ok()?.jobs.answers.refused.take();
        let own = own.or_else(|| if fault == answers::DIRTY { refused() } else { None });
        own.or_else(|| self.below().iter().find_map(|below| below.explain(fault)))
    }

    fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![("layer", "cache".to_string())];
        facts.extend(self.shared.status().iter().map(Item::fact));
        facts.extend(self.shared.below.facts());
        facts
    }

    fn cached(&self) -> Option<&dyn Cached> {
        Some(self)
    }

    fn managed(&self) -> Option<&dyn Managed> {
        Some(&*self.shared)
    }

    fn worker(&self) -> Option<&dyn Worker> {
        Some(self)
    }
}

impl Cached for Cache {
    fn handle_opened(&self, id: HandleId) {
        self.shared.open_handle(id, self.shared.policies.make());
        self.shared.below.handle_opened(id);
    }

    fn handle_closed(&self, id: HandleId) {
        self.shared.close_handle(id);
        self.shared.below.handle_closed(id);
    }

    fn advise(&self, id: HandleId, hint: Hint, pos: u64, len: u64) -> Result<(), Error> {
        self.shared.take_hint(id, hint, (pos, len), true).map_err(|fault| self.error(fault, Op::Read))
    }

    fn handle_counters(&self, id: HandleId) -> Option<HandleCounters> {
        self.shared.engine().ok()?.handles.counters(id)
    }

    fn cache_counters(&self) -> Option<HandleCounters> {
        self.shared.counters()
    }

    fn resident(&self) -> Option<Arc<dyn Resident>> {
        self.shared
            .manners
            .are_free()
            .then(|| Arc::new(super::resident::InMemory::new(&self.shared)) as Arc<dyn Resident>)
    }
}

impl Worker for Cache {
    fn keep(&self, keeper: Arc<dyn Bell>) {
        self.shared.board.keep(std::slice::from_ref(&self.shared.below), keeper);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the machine does not provide is no wrong usage, and is told by the parameter that asks for it.
    #[test]
    fn what_the_machine_refuses_is_named_by_its_parameter() {
        let (size, max_size) = (64 << 20, 1 << 40);
        let settings = Settings { size, max_size, shards: 2, ..Settings::default() };
        let told = |settings: &Settings, refused| match no_memory(settings, refused) {
            LayerError::Machine(ParamError(told)) => told,
            other => panic!("{other:?}"),
        };
        let addresses = told(&settings, Refused::Addresses(1 << 39));
        assert!(addresses.contains("cache max_size=1099511627776: "), "{addresses}");
        assert!(addresses.contains("512G") && addresses.contains("one of its shards"), "{addresses}");
        let memory = told(&settings, Refused::Memory(32 << 20));
        assert!(memory.contains("cache size=67108864: ") && memory.contains("32M"), "{memory}");
        assert!(memory.contains("prefault=open"), "{memory}");
        let alone = told(&Settings { size, ..Settings::default() }, Refused::Addresses(64 << 20));
        assert!(alone.contains("cache size=67108864: ") && !alone.contains("shard"), "{alone}");
    }
}
