//! The state that the lanes and handles of a cache share.

use super::engine::{Engine, PeerRead};
use super::frames::Frames;
use super::inbox::Inbox;
use super::late::Late;
use super::placement::ShardPlace;
use super::plan::Outlook;
use super::policy::{Manners, Policies};
use super::task::{Spare, Task};
use super::tuning::Tuning;
use crate::readahead::PAGE;
use crate::sync::{AtomicU64, Mutex, lock, lock_unbroken};
use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::deferred::Depth;
use platter_block::driver::Geometry;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::handle::HandleCounters;
use platter_block::lane::Holder;
use platter_block::time::Time;
use platter_stack::barrier_gate::BarrierGate;
use platter_stack::kit::host::PATIENCE;
use platter_stack::kit::lanes::LaneEntry;
use platter_stack::kit::{Board, EngineLock, Host, Port, Turns};
use platter_stack::reports::Reports;
use rustix::io::Errno;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// The state that the lanes and handles of a cache share.
pub(super) struct Shared {
    // Dropped before the engine, which has the other share of it.
    /// The shared lane, which is run without the engine's lock.
    pub(super) port: Arc<Port>,
    pub(super) engine: Mutex<Engine>,
    /// Taken before the engine.
    pub(super) tuning: Mutex<Tuning>,
    /// How often memory pressure has made the cache smaller.
    pub(super) squeezes: AtomicU64,
    pub(super) frames: Arc<Frames>,
    /// Memory that comes in with a larger size is populated at once.
    pub(super) populates: bool,
    /// Bios that have ended without the engine.
    pub(super) late: Arc<Inbox<Late>>,
    pub(super) gate: Arc<BarrierGate>,
    pub(super) below: Arc<dyn Backend>,
    pub(super) reports: Reports,
    pub(super) geometry: Geometry,
    pub(super) simulated: bool,
    pub(super) through: bool,
    /// A lane whose caller sleeps carries reads and flushes out on its own lane below.
    pub(super) own: bool,
    /// How the readahead of new handles is made.
    pub(super) policies: Policies,
    /// All shards by number, if there are several. A lane has a share of each, so none of them ends with what is taken here.
    pub(super) peers: OnceLock<Vec<Weak<Shared>>>,
    /// How policies are called; if without the lock, reads of cached pages are answered without it, too.
    pub(super) manners: Manners,
    /// I/Os of readahead that may begin before there are too many.
    pub(super) ahead_left: Arc<AtomicU32>,
    /// The place of this shard among all; `None`: it has all pages.
    pub(super) place: Option<Arc<ShardPlace>>,
    pub(super) board: Arc<Board>,
    /// A panic may have left the engine inconsistent.
    pub(super) broken: AtomicBool,
}

impl Shared {
    /// Writes back all dirty pages once and flushes the device, for a cache that is dropped. Gives up when
    /// nothing completes for [`PATIENCE`].
    fn flush_at_end(&self) {
        let Ok(mut engine) = self.engine() else { return };
        engine.jobs.stop_reading();
        let is_clean = engine.pages.dirty.count == 0 && engine.shared_out == 0 && engine.jobs.is_empty();
        if is_clean || !self.flush_once(&mut engine) {
            return;
        }
        // Once more for pages of which a write-back that was in flight has failed now.
        if engine.pages.dirty.count > 0 {
            self.flush_once(&mut engine);
        }
    }

    /// Returns whether the flush has ended, with or without success.
    fn flush_once(&self, engine: &mut EngineLock<'_, Engine>) -> bool {
        let mut bio = Bio::flush();
        bio.set_token(0);
        let number = engine.lanes.join(&LaneEntry::new(None));
        let mut task = Task::new(bio, number, false, Spare::default());
        let is_over = self.run_until(engine, PATIENCE, |engine, now| {
            engine.run(now);
            engine.run_jobs();
            let is_over = task.is_ready(engine) && engine.step(now, &mut task, false);
            engine.submit_shared();
            is_over
        });
        if !is_over {
            engine.finish(self.now(), &mut task);
        }
        engine.lanes.leave(number);
        is_over
    }
}

impl Shared {
    /// Populates the memory that comes in with these values, if memory is populated at opening.
    ///
    /// # Errors
    /// There is not enough memory, or the engine is broken.
    fn populate(&self, tuning: &Tuning) -> Result<(), String> {
        self.populate_by(tuning, |frames| self.frames.populate(frames))
    }

    fn populate_by(
        &self,
        tuning: &Tuning,
        populate: impl FnOnce(Range<u32>) -> Result<(), Errno>,
    ) -> Result<(), String> {
        let pages = tuning.tuned().pages;
        let before = self.engine().map_err(|fault| fault.to_string())?.pages.most();
        if !self.populates || pages <= before {
            return Ok(());
        }
        match populate(before..pages) {
            // A kernel that cannot gives it on first use.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => {
                // What has come in until then.
                if let Ok(mut engine) = self.engine() {
                    engine.enter();
                    engine.pages.give_back(pages);
                    self.leave(self.now(), &mut engine);
                }
                Err(format!("no memory for {} more bytes: {error}", u64::from(pages - before) * PAGE))
            }
        }
    }

    /// Has the engine work by these values.
    ///
    /// # Errors
    /// The engine is broken.
    pub(super) fn apply(&self, tuning: &Tuning) -> Result<(), Fault> {
        let tuned = tuning.tuned();
        let mut engine = self.engine()?;
        let now = self.below.now();
        engine.enter();
        let before = engine.pages.most();
        engine.set_congestion(tuned.congestion);
        engine.pages.dirty.rules = tuned.rules;
        engine.pages.dirty.next_look = engine.pages.dirty.next_look.min(now + tuned.rules.interval);
        if tuned.pages != before {
            engine.pages.set_most(tuned.pages);
        }
        // Writers that wait may continue, or pages have become due.
        self.leave(now, &mut engine);
        Ok(())
    }

    /// Has the engine work by the values that `new` makes of those that it has.
    ///
    /// # Errors
    /// Those of `new`; there is not enough memory, or the engine is broken. The old values stay.
    pub(super) fn tune(&self, new: impl FnOnce(&Tuning) -> Result<Tuning, String>) -> Result<(), String> {
        let mut tuning = lock(&self.tuning);
        let new = new(&tuning)?;
        self.populate(&new)?;
        self.apply(&new).map_err(|fault| format!("the cache cannot be used: {fault}"))?;
        *tuning = new;
        Ok(())
    }

    /// The counts of all handles, with reads that took no lock, which are counted for none.
    pub(super) fn counters(&self) -> Option<HandleCounters> {
        let mut sum = self.engine().ok()?.handles.sum();
        sum.hits += self.frames.hits.sum();
        Some(sum)
    }

    /// Adapts the size to memory pressure, or to none for a while.
    pub(super) fn adapt(&self, is_under: bool) {
        let mut tuning = lock(&self.tuning);
        if tuning.adapt(is_under) && self.apply(&tuning).is_ok() && is_under {
            self.squeezes.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The memory of frames has been given back to the system.
    pub(super) fn gave(&self) {
        if let Ok(mut engine) = self.engine() {
            engine.enter();
            engine.pages.gave();
            self.leave(self.now(), &mut engine);
        }
    }
}

impl Outlook for Shared {
    fn has(&self, page: u64) -> bool {
        match &self.place {
            None => self.frames.has(page),
            Some(place) => place.placement.is_cached(place.placement.shard_of(page), page),
        }
    }

    fn end(&self) -> u64 {
        self.geometry.size.div_ceil(PAGE)
    }

    fn ahead_left(&self) -> u32 {
        self.ahead_left.load(Ordering::Relaxed)
    }
}

impl Shared {
    /// Has other shards read the pages that were noted. The caller has no lock.
    pub(super) fn send_peer_reads(&self, peer_reads: &mut Vec<PeerRead>) {
        for read in peer_reads.drain(..) {
            let peer = self.peers.get().and_then(|peers| peers.get(read.shard as usize));
            if let Some(peer) = peer.and_then(Weak::upgrade) {
                peer.read_ahead(read);
            }
        }
    }

    fn read_ahead(&self, PeerRead { mut ask, window, .. }: PeerRead) {
        // Code of the program that is deferred may wait for what is submitted here.
        let _depth = Depth::enter();
        // A shard that is broken reads nothing.
        let Ok(mut engine) = self.engine() else { return };
        let now = self.below.now();
        engine.enter();
        // Shards may have the handle at different places.
        ask.handle = engine.handles.place(ask.id);
        engine.read_window(&ask, window);
        engine.submit_shared();
        self.leave(now, &mut engine);
        drop(engine);
        self.deliver(now);
    }
}

impl Holder for Shared {
    fn run(&self, now: Time) {
        self.take_turn(now);
    }
}

impl Host for Shared {
    type Engine = Engine;

    fn engine(&self) -> Result<EngineLock<'_, Engine>, Fault> {
        if let Some(engine) = lock_unbroken(&self.engine).filter(|_| !self.port.is_broken()) {
            let mut engine = EngineLock::new(engine);
            engine.totals.locks += 1;
            engine.catch_up();
            return Ok(engine);
        }
        if !self.broken.load(Ordering::SeqCst) {
            // Cached pages can no longer be trusted.
            self.frames.shut();
            // No thread has the lock or gets it any more, so nothing would be published.
            self.port.break_off();
            self.board.clear();
            // Stored last: a caller that is refused finds all of this done.
            self.broken.store(true, Ordering::SeqCst);
        }
        Err(Fault::new(Kind::Broken, Stage::Layer))
    }

    fn board(&self) -> &Board {
        &self.board
    }

    fn port(&self) -> Option<&Port> {
        Some(&self.port)
    }

    fn is_simulated(&self) -> bool {
        self.simulated
    }

    fn now(&self) -> Time {
        self.below.now()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.flush_at_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Cache;
    use crate::{Prefault, Settings};
    use platter_block::backend::LaneUse;
    use platter_disk::device::Device;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const MIB: u64 = 1 << 20;

    /// A larger size for which there is not enough memory: all that had come in goes back, and a thread is to do that now.
    #[test]
    fn memory_of_a_size_that_failed_goes_back() {
        let below = Device::null(1 << 30).unwrap();
        let (size, max_size) = (16 * MIB, 64 * MIB);
        let settings = Settings { size, max_size, prefault: Prefault::Open, ..Settings::default() };
        let cache = Cache::new(Arc::clone(below.backend()), &settings).unwrap();
        let shared = cache.shared();
        assert!(!shared.board.has_work());
        let mut tuning = *lock(&shared.tuning);
        tuning.set("size", 48 << 20).unwrap();
        let mut asked = None;
        let failed = shared.populate_by(&tuning, |frames| {
            asked = Some(frames);
            Err(Errno::NOMEM)
        });
        assert!(failed.unwrap_err().contains("no memory for 33554432 more bytes"));
        let frames = asked.unwrap();
        assert_eq!(frames, 4096..12288);
        assert!(shared.board.is_due(shared.now()) && shared.board.has_work());
        let mut engine = shared.engine().unwrap();
        let mut end = frames.end;
        while let Some(gone) = engine.pages.take_gone() {
            assert_eq!(gone.end, end);
            end = gone.start;
            engine.pages.gave();
        }
        assert_eq!((end, engine.pages.most()), (frames.start, 4096));
        // A size that there is memory for keeps all of it.
        engine.pages.set_most(12288);
        assert_eq!(engine.pages.take_gone(), None);
    }

    /// Takes the lock when it is dropped.
    struct Takes<'a>(&'a Shared);

    impl Drop for Takes<'_> {
        fn drop(&mut self) {
            drop(self.0.engine());
        }
    }

    /// They end at the panic, not when the lock is tried next. A thread that was panicking before breaks nothing.
    #[test]
    fn reads_without_the_lock_end_at_a_panic_with_it() {
        let below = Device::null(1 << 30).unwrap();
        let settings = Settings { size: 4 * MIB, ..Settings::default() };
        let cache = Cache::new(Arc::clone(below.backend()), &settings).unwrap();
        let mut lane = cache.open_lane(LaneUse::Exclusive).unwrap();
        let (shared, now, mut done) = (cache.shared(), cache.now(), Vec::new());
        lane.submit(now, Bio::write(0, vec![1u8; 4096]).unwrap());
        (0..64).for_each(|_| lane.turn(now, &mut done));
        assert_eq!(done.len(), 1);
        let is_read = || shared.frames.read(0, &mut [0; 4096]);
        let panics = |hold: &dyn Fn()| catch_unwind(AssertUnwindSafe(hold)).is_err();
        assert!(is_read());
        assert!(panics(&|| {
            let _takes = Takes(shared);
            assert!(!is_read(), "a panic before the lock is taken");
        }));
        assert!(is_read());
        assert!(panics(&|| {
            let engine = shared.engine().unwrap();
            assert!(engine.is_out(), "a panic with the lock held");
        }));
        assert!(!is_read());
    }
}
