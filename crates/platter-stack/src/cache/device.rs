//! The cache as a device.

use super::dirty::WriteBack;
use super::engine::{Ask, Engine};
use super::frames::Frames;
use super::handles::Handles;
use super::lane::CacheLane;
use super::pages::PageTable;
use super::{Settings, Write};
use crate::LayerError;
use crate::gate::Gate;
use crate::sync::{Mutex, MutexGuard, lock};
use platter_block::backend::{Backend, Fact, LaneUse};
use platter_block::bio::{Bio, Context, IoPrio};
use platter_block::driver::{Features, Geometry};
use platter_block::fault::Error;
use platter_block::handle::{HandleCounters, HandleId};
use platter_block::lane::{Bell, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::params::ParamError;
use platter_block::readahead::{self, Hint, PAGE, Window};
use platter_block::resident::Resident;
use platter_block::time::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a device that does not say likes to be asked for at once: on most, more than this hardly makes transfers cheaper.
const UNKNOWN_OPTIMUM: u64 = 1 << 20;

/// Nothing to be woken for.
const NEVER: u64 = u64::MAX;

/// What the lanes and handles of a cache share.
pub(super) struct Shared {
    engine: Mutex<Engine>,
    pub(super) frames: Arc<Frames>,
    pub(super) gate: Arc<Gate>,
    pub(super) below: Arc<dyn Backend>,
    pub(super) geometry: Geometry,
    pub(super) simulated: bool,
    pub(super) through: bool,
    /// Reads of what is in memory are answered without asking the engine.
    pub(super) answers: bool,
    /// When the engine has something to do although nobody asks; [`NEVER`].
    due: AtomicU64,
    /// Bios are out on the shared lane, which anybody may run.
    busy: AtomicBool,
    /// Whom to tell that there is work to do.
    keepers: Mutex<Vec<Arc<dyn Bell>>>,
    /// The time at which they were told to look; [`NEVER`].
    told: AtomicU64,
}

impl Shared {
    pub(super) fn engine(&self) -> MutexGuard<'_, Engine> {
        lock(&self.engine)
    }

    /// Whether anybody who comes by should run the engine.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.busy.load(Ordering::SeqCst) || self.due.load(Ordering::SeqCst) <= now.0
    }

    /// When to come by although nothing completes.
    pub(super) fn wakeup(&self) -> Option<Time> {
        let at = self.due.load(Ordering::SeqCst);
        (at != NEVER).then_some(Time(at))
    }

    /// Whether there is something dirty or under way.
    pub(super) fn has_work(&self) -> bool {
        self.busy.load(Ordering::SeqCst) || self.due.load(Ordering::SeqCst) != NEVER
    }

    /// Says what is left to do, to those who do not hold the engine.
    pub(super) fn publish(&self, now: Time, engine: &Engine) {
        let at = engine.wakeup(now).map_or(NEVER, |at| at.0);
        self.busy.store(engine.shared_out > 0, Ordering::SeqCst);
        self.due.store(at, Ordering::SeqCst);
        // Reads that nobody waits for are taken in by whoever comes next; what is dirty needs somebody in its time.
        let told = self.told.load(Ordering::SeqCst);
        if engine.pages.dirty.count == 0 {
            self.told.store(NEVER, Ordering::SeqCst);
        } else if at < told {
            self.told.store(at, Ordering::SeqCst);
            let keepers = lock(&self.keepers);
            keepers.iter().for_each(|keeper| keeper.ring());
        } else if told <= now.0 {
            // Then somebody looked, and knows what time is next.
            self.told.store(at, Ordering::SeqCst);
        }
    }

    /// Writes back all that is dirty, once, and flushes the device: for a cache that goes.
    fn settle(&self) {
        let mut bio = Bio::flush();
        bio.set_token(0);
        let mut engine = self.engine();
        if engine.pages.dirty.count == 0 && engine.shared_out == 0 {
            return;
        }
        let cell = super::engine::LaneCell::new(None);
        let number = engine.join(&cell);
        let mut task = super::task::Task::new(bio, number, false, super::task::Flushing::default());
        loop {
            let now = self.below.now();
            engine.run(now);
            if task.is_ready(&engine) && engine.step(now, &mut task, false) {
                break;
            }
            engine.submit_shared(now);
            engine.lane.unplug(now);
            engine.run(now);
            engine.wait(now, None);
        }
        engine.leave(number);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.settle();
    }
}

/// A device with a page cache over it.
pub(super) struct Cache(Arc<Shared>);

impl Cache {
    pub(super) fn new(below: Arc<dyn Backend>, settings: &Settings) -> Result<Cache, LayerError> {
        let geometry = below.geometry();
        let wrong = |message: String| LayerError::Param(ParamError(message));
        settings.check(&below.name(), &geometry).map_err(wrong)?;
        let count = (settings.size / PAGE) as u32;
        let share = |percent: u32| (u64::from(count) * u64::from(percent) / 100).max(1) as u32;
        let rules = WriteBack {
            background: share(settings.background),
            limit: share(settings.dirty).max(8),
            expire: settings.expire,
            interval: settings.interval,
            gather: settings.gather,
        };
        let pages = PageTable::new(count, geometry.size, rules)
            .map_err(|bytes| wrong(format!("cache size={}: no memory for {bytes} bytes", settings.size)))?;
        let optimal = match geometry.limits.optimal_io {
            0 => UNKNOWN_OPTIMUM,
            bytes => u64::from(bytes),
        };
        let optimal = (optimal / PAGE) as u32;
        let row = settings.readahead;
        let asked = readahead::Settings {
            max: (settings.window / PAGE) as u32,
            optimal: optimal.min(count / 8),
            values: settings.values.clone(),
        };
        let handles = Handles::new(row, asked);
        let (every_page, exclusive) = handles.manners();
        let frames = Arc::clone(pages.store.frames());
        let lane = below.open_lane(LaneUse::Shared).map_err(LayerError::Device)?;
        let engine = Engine::new(lane, pages, handles, geometry.limits, settings.congestion);
        let limits = Limits {
            memory_align: 1,
            max_transfer: 1 << 30,
            max_segments: platter_block::bio::MAX_SEGMENTS as u16,
            max_segment_size: 1 << 30,
            segment_boundary: 0,
            chunk: 0,
            ..geometry.limits
        };
        let features = Features {
            // What is dirty is lost at a power cut until a flush.
            write_cache: geometry.features.write_cache || settings.write == Write::Back,
            fua: true,
            ..geometry.features
        };
        Ok(Cache(Arc::new(Shared {
            engine: Mutex::new(engine),
            frames,
            gate: Arc::default(),
            geometry: Geometry { limits, features, ..geometry },
            simulated: below.clock().is_some(),
            through: settings.write == Write::Through,
            answers: !every_page && !exclusive,
            due: AtomicU64::new(NEVER),
            busy: AtomicBool::new(false),
            keepers: Mutex::new(Vec::new()),
            told: AtomicU64::new(NEVER),
            below,
        })))
    }

    /// Has a range read that will be needed.
    fn prefetch(&self, engine: &mut Engine, id: HandleId, pos: u64, len: u64) {
        let handle = engine.handles.place(id);
        let (demand, own) = (0..0, false);
        let ask =
            Ask { lane: 0, handle, demand, own, context: Context::default(), ioprio: IoPrio::default() };
        // No more than half of the cache, or the end would push out the beginning.
        let most = u64::from(engine.pages.store.count() / 2);
        let pages = pos / PAGE..pos.saturating_add(len).div_ceil(PAGE);
        let count = (pages.end - pages.start).min(most) as u32;
        if count > 0 {
            engine.fill(&ask, Window { first: pages.start, count, mark: None, sync: false });
        }
        let now = self.0.below.now();
        engine.submit_shared(now);
        engine.run(now);
        self.0.publish(now, engine);
    }
}

impl LimitSource for Cache {
    fn limits_at(&self, _pos: u64) -> (Limits, u64) {
        (self.0.geometry.limits, u64::MAX)
    }
}

impl Backend for Cache {
    fn name(&self) -> Arc<str> {
        Arc::from(format!("cache({})", self.0.below.name()))
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let own = self.0.below.open_lane(lane_use)?;
        Ok(Box::new(CacheLane::new(Arc::clone(&self.0), own, lane_use)))
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        Some((0, pos))
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        vec![Arc::clone(&self.0.below)]
    }

    fn facts(&self) -> Vec<Fact> {
        let engine = self.0.engine();
        let pages = &engine.pages;
        let count = pages.store.count();
        let per_page = PageTable::overhead(count as usize).div_ceil(count as usize);
        let mut facts = vec![
            ("layer", "cache".to_string()),
            ("cache pages", count.to_string()),
            ("cache bytes per page", per_page.to_string()),
            ("dirty pages", pages.dirty.count.to_string()),
            ("pages written back", engine.totals.pages_written.to_string()),
            ("pages evicted", pages.evictions.to_string()),
            ("write-back errors", engine.totals.write_errors.to_string()),
        ];
        if engine.totals.stranded > 0 {
            facts.push(("pages with the driver for good", engine.totals.stranded.to_string()));
        }
        drop(engine);
        facts.extend(self.0.below.facts());
        facts
    }

    fn handle_opened(&self, id: HandleId) {
        self.0.engine().handles.open(id);
        self.0.below.handle_opened(id);
    }

    fn handle_closed(&self, id: HandleId) {
        self.0.engine().handles.close(id);
        self.0.below.handle_closed(id);
    }

    fn advise(&self, id: HandleId, hint: Hint, pos: u64, len: u64) -> Result<(), Error> {
        let mut engine = self.0.engine();
        match hint {
            Hint::WillNeed => self.prefetch(&mut engine, id, pos, len),
            Hint::DontNeed => {
                let now = self.0.below.now();
                engine.let_go(now, pos, len);
                self.0.publish(now, &engine);
            }
            Hint::NoReuse | Hint::Normal | Hint::Sequential | Hint::Random => {
                let place = engine.handles.place(id);
                if let Some(handle) = engine.handles.at(place) {
                    handle.once = hint == Hint::NoReuse;
                    if let (Some(policy), false) = (&mut handle.policy, handle.once) {
                        policy.advise(hint);
                    }
                }
            }
        }
        Ok(())
    }

    fn handle_counters(&self, id: HandleId) -> Option<HandleCounters> {
        self.0.engine().handles.counters(id)
    }

    fn cache_counters(&self) -> Option<HandleCounters> {
        // What is read without the lock is of no handle in particular.
        let mut sum = self.0.engine().handles.sum();
        sum.hits += self.0.frames.hits.sum();
        Some(sum)
    }

    fn resident(&self) -> Option<Arc<dyn Resident>> {
        self.0.answers.then(|| Arc::new(super::resident::InMemory::new(&self.0)) as Arc<dyn Resident>)
    }

    fn keep(&self, keeper: Arc<dyn Bell>) {
        self.0.below.keep(Arc::clone(&keeper));
        let mut keepers = lock(&self.0.keepers);
        if self.0.told.load(Ordering::SeqCst) != NEVER {
            // Whoever was told may be gone.
            keeper.ring();
        }
        keepers.push(keeper);
    }
}
