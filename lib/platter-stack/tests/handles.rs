//! What layers must pass on from a cache below them, and what they must not.

#![allow(unsafe_code)]

#[path = "layers/mirrors.rs"]
mod mirrors;

use platter_block::backend::{Backend, LaneUse};
use platter_block::capability::{Cached, Worker};
use platter_block::driver::Geometry;
use platter_block::fault::Error;
use platter_block::handle::{HandleCounters, HandleId};
use platter_block::hint::Hint;
use platter_block::lane::{Bell, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::resident::{Pinned, Resident};
use platter_disk::device::Device;
use platter_stack::LayerType;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const SIZE: u64 = 1 << 20;
const OFFSET: u64 = 65536;

/// A memory disk that claims to be cached and records its calls.
struct Cache {
    below: Device,
    asked: Arc<Asked>,
    told: Mutex<Vec<String>>,
}

/// Counts lookups and has no pages.
#[derive(Default)]
struct Asked(AtomicU32);

// SAFETY: returns no page and writes to no memory.
unsafe impl Resident for Asked {
    fn read(&self, _pos: u64, _out: &mut [u8]) -> bool {
        self.0.fetch_add(1, SeqCst);
        false
    }

    fn pin(&self, _pos: u64) -> Option<Pinned> {
        self.0.fetch_add(1, SeqCst);
        None
    }

    // SAFETY: returns no page.
    unsafe fn unpin(&self, _frame: u32) {}
}

impl Cache {
    fn new() -> Arc<Cache> {
        Arc::new(Cache {
            below: Device::ram(SIZE + mirrors::FRONT).unwrap(),
            asked: Arc::default(),
            told: Mutex::default(),
        })
    }

    fn tell(&self, what: String) {
        self.told.lock().unwrap().push(what);
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

impl LimitSource for Cache {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        self.below.backend().limits_at(pos)
    }
}

impl Backend for Cache {
    fn name(&self) -> Arc<str> {
        Arc::from("cache")
    }

    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        self.below.backend().open_lane(lane_use)
    }

    fn cached(&self) -> Option<&dyn Cached> {
        Some(self)
    }

    fn worker(&self) -> Option<&dyn Worker> {
        Some(self)
    }
}

impl Cached for Cache {
    fn handle_opened(&self, id: HandleId) {
        self.tell(format!("opened {}", id.0));
    }

    fn handle_closed(&self, id: HandleId) {
        self.tell(format!("closed {}", id.0));
    }

    fn advise(&self, id: HandleId, hint: Hint, pos: u64, len: u64) -> Result<(), Error> {
        self.tell(format!("{hint:?} {} {pos} {len}", id.0));
        Ok(())
    }

    fn handle_counters(&self, id: HandleId) -> Option<HandleCounters> {
        Some(HandleCounters { hits: u64::from(id.0), ..HandleCounters::default() })
    }

    fn cache_counters(&self) -> Option<HandleCounters> {
        Some(HandleCounters { hits: 100, ..HandleCounters::default() })
    }

    fn resident(&self) -> Option<Arc<dyn Resident>> {
        Some(Arc::clone(&self.asked) as Arc<dyn Resident>)
    }
}

impl Worker for Cache {
    fn keep(&self, _keeper: Arc<dyn Bell>) {
        self.tell("keep".to_string());
    }
}

fn over(row: &LayerType, caches: &[Arc<Cache>]) -> Device {
    let below: Vec<_> = caches.iter().map(|cache| Arc::clone(cache) as Arc<dyn Backend>).collect();
    if row.name == "raid1" {
        mirrors::make(&below);
    }
    let named: &[(&str, i64)] = match row.name {
        "partition" => &[("offset", OFFSET as i64)],
        "error" => &[("chance", 0)],
        _ => &[],
    };
    Device::new(row.make(named, below).unwrap())
}

#[test]
fn no_layer_is_passed_by() {
    // (A merge needs a snapshot to begin with.)
    for row in platter_cache::layers().filter(|row| row.name != "snapshot-merge") {
        let cache = Cache::new();
        let others = (1..*row.members.start()).map(|_| Cache::new());
        let device = over(row, &[Arc::clone(&cache)].into_iter().chain(others).collect::<Vec<_>>());
        device.handle().read_at(&mut [0; 512], 0).unwrap();
        let _ = device.handle().page(0);
        assert_eq!(cache.asked.0.load(SeqCst), 0, "{} lets reads pass it by", row.name);
    }
    let cache = Cache::new();
    Device::new(Arc::clone(&cache) as Arc<dyn Backend>).read_at(&mut [0; 512], 0).unwrap();
    assert_eq!(cache.asked.0.load(SeqCst), 1);
}

#[test]
fn handles_advice_and_bells_reach_the_cache_below() {
    for name in ["partition", "delay", "limit", "error", "verify"] {
        let row = platter_cache::by_name(name).unwrap();
        let cache = Cache::new();
        let device = over(row, &[Arc::clone(&cache)]);
        assert_eq!(cache.told(), ["keep"], "{name}");
        let handle = device.handle();
        handle.advise(Hint::WillNeed, 4096, 8192).unwrap();
        let (id, at) = (handle.id().0, if name == "partition" { OFFSET } else { 0 } + 4096);
        assert_eq!(cache.told(), [format!("opened {id}"), format!("WillNeed {id} {at} 8192")], "{name}");
        assert_eq!(handle.counters().map(|counters| counters.hits), Some(u64::from(id)));
        drop(handle);
        assert_eq!(cache.told(), [format!("closed {id}")], "{name}");
    }
}

/// Where a range spans several caches, none of them alone answers for a handle or gets advice; counters are
/// summed.
#[test]
fn of_several_caches_all_are_told_and_summed() {
    let row = platter_cache::by_name("raid0").unwrap();
    let caches = [Cache::new(), Cache::new()];
    let device = over(row, &caches);
    let handle = device.handle();
    handle.advise(Hint::Random, 0, 0).unwrap();
    for cache in &caches {
        assert_eq!(cache.told(), ["keep".to_string(), format!("opened {}", handle.id().0)]);
    }
    assert!(handle.counters().is_none());
    assert_eq!(device.cache_counters().map(|counters| counters.hits), Some(200));
}
