//! A lane of a filter is dropped: the others are woken when they can find what its filter has given back.

use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::Bio;
use platter_block::driver::Geometry;
use platter_block::fault::Error;
use platter_block::lane::{Bell, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::time::Time;
use platter_disk::device::Device;
use platter_stack::filter::{Filter, Filtered};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Each lane holds a unit of what lanes share until it is dropped, as a lane of `limit` holds depth.
struct Holds {
    held: Arc<AtomicU32>,
    is_lane: bool,
}

impl Clone for Holds {
    fn clone(&self) -> Holds {
        self.held.fetch_add(1, Ordering::SeqCst);
        Holds { held: Arc::clone(&self.held), is_lane: true }
    }
}

impl Filter for Holds {}

impl Drop for Holds {
    fn drop(&mut self) {
        if self.is_lane {
            self.held.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Records how many units are held whenever it is rung.
struct Looks {
    held: Arc<AtomicU32>,
    seen: Mutex<Vec<u32>>,
}

impl Bell for Looks {
    fn ring(&self) {
        self.seen.lock().unwrap().push(self.held.load(Ordering::SeqCst));
    }
}

/// A device whose lanes have this bell.
struct Belled {
    below: Arc<dyn Backend>,
    bell: Arc<Looks>,
}

impl LimitSource for Belled {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        self.below.limits_at(pos)
    }
}

impl Backend for Belled {
    fn name(&self) -> Arc<str> {
        Arc::from("belled")
    }

    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let lane = self.below.open_lane(lane_use)?;
        Ok(Box::new(BelledLane { lane, bell: Arc::clone(&self.bell) }))
    }
}

struct BelledLane {
    lane: Box<dyn Lane>,
    bell: Arc<Looks>,
}

impl Lane for BelledLane {
    fn below(&self) -> Option<&dyn Lane> {
        Some(&*self.lane)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Lane> {
        Some(&mut *self.lane)
    }

    fn submit(&mut self, now: Time, bio: Bio) {
        self.lane.submit(now, bio);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        self.lane.take_done(out);
    }

    fn has_done(&self) -> bool {
        self.lane.has_done()
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        let bell: Arc<Looks> = Arc::clone(&self.bell);
        Some(bell)
    }
}

#[test]
fn lanes_are_woken_after_the_filter_of_a_dropped_lane_has_gone() {
    let held = Arc::new(AtomicU32::new(0));
    let bell = Arc::new(Looks { held: Arc::clone(&held), seen: Mutex::default() });
    let ram = Device::ram(1 << 20).unwrap();
    let below = Arc::new(Belled { below: Arc::clone(ram.backend()), bell: Arc::clone(&bell) });
    let layer = Filtered::new("holds", "", below, Holds { held: Arc::clone(&held), is_lane: false });
    let [one, other] = [0, 1].map(|_| layer.open_lane(LaneUse::Exclusive).unwrap());
    assert_eq!(held.load(Ordering::SeqCst), 2);
    bell.seen.lock().unwrap().clear();
    drop(one);
    assert_eq!(*bell.seen.lock().unwrap(), [1], "the other lane is woken once, and finds the unit");
    drop(other);
}
