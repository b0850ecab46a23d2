//! Unit tests of the lane of synchronous calls.

use super::SyncLane;
use crate::clock::Clock;
use platter_block::bio::Bio;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use std::sync::Arc;

/// A lane that returns other bios before the submitted one, which it fails.
#[derive(Default)]
struct Liar {
    given: Option<Bio>,
    asked: u32,
}

impl Lane for Liar {
    fn submit(&mut self, _now: Time, mut bio: Bio) {
        bio.fail(Fault::new(Kind::Io, Stage::Disk));
        self.given = Some(bio);
    }
    fn run(&mut self, _now: Time) {}
    fn take_done(&mut self, out: &mut Vec<Bio>) {
        self.asked += 1;
        out.push(Bio::flush());
        if self.asked > 3 {
            out.extend(self.given.take());
            out.push(Bio::flush());
        }
    }
    fn has_done(&self) -> bool {
        true
    }
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
    fn unplug(&mut self, _now: Time) {}
    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {}
    fn wait_handles(&self, _out: &mut Vec<i32>) -> bool {
        false
    }
    fn in_flight(&self) -> u32 {
        1
    }
    fn is_idle(&self) -> bool {
        false
    }
    fn register(&mut self, _region: &Region) {}
    fn unregister(&mut self, _region: RegionId) {}
}

#[test]
fn a_call_waits_for_its_own_bio() {
    let mut lane = SyncLane::new(Box::<Liar>::default(), Clock::Host, Arc::default());
    let status = lane.run(Bio::flush(), None);
    assert_eq!(status.map_err(|fault| fault.kind), Err(Kind::Io));
}
