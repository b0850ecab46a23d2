//! A device that is given one bio at a time, as glibc's POSIX aio does: it has one thread for each file.

use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::Bio;
use platter_block::driver::Geometry;
use platter_block::fault::Error;
use platter_block::lane::{Bell, Lane};
use platter_block::limits::{LimitSource, Limits};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// A device, one bio at a time of each lane, in the order in which they come.
pub(super) struct Serial(pub(super) Arc<dyn Backend>);

impl LimitSource for Serial {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        self.0.limits_at(pos)
    }
}

impl Backend for Serial {
    fn name(&self) -> Arc<str> {
        self.0.name()
    }

    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        let below = self.0.open_lane(lane_use)?;
        Ok(Box::new(SerialLane { below, waiting: VecDeque::new(), busy: false, done: Vec::new() }))
    }

    fn locate(&self, pos: u64) -> Option<(usize, u64)> {
        Some((0, pos))
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        vec![Arc::clone(&self.0)]
    }
}

struct SerialLane {
    below: Box<dyn Lane>,
    waiting: VecDeque<Bio>,
    /// Whether the device has a bio.
    busy: bool,
    done: Vec<Bio>,
}

impl Lane for SerialLane {
    fn submit(&mut self, _now: Time, bio: Bio) {
        self.waiting.push_back(bio);
    }

    fn run(&mut self, now: Time) {
        loop {
            if !self.busy
                && let Some(bio) = self.waiting.pop_front()
            {
                self.busy = true;
                self.below.submit(now, bio);
            }
            self.below.run(now);
            if !self.below.has_done() {
                return;
            }
            self.below.take_done(&mut self.done);
            self.busy = false;
            if self.waiting.is_empty() {
                return;
            }
        }
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.below.next_wakeup()
    }

    fn unplug(&mut self, now: Time) {
        self.below.unplug(now);
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.run(now);
        if self.done.is_empty() {
            self.below.wait(now, timeout);
        }
    }

    fn sleep(&mut self, now: Time, timeout: Option<Span>, others: &[i32]) {
        if self.done.is_empty() {
            self.below.sleep(now, timeout, others);
        }
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        self.below.bell()
    }

    fn wait_handles(&self, out: &mut Vec<i32>) -> bool {
        self.below.wait_handles(out)
    }

    fn in_flight(&self) -> u32 {
        self.below.in_flight()
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.below.is_idle()
    }

    fn register(&mut self, region: &Region) {
        self.below.register(region);
    }

    fn unregister(&mut self, region: RegionId) {
        self.below.unregister(region);
    }
}
