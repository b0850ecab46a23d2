//! Unit tests of the lane of synchronous calls.

use super::SyncLane;
use crate::clock::Clock;
use platter_block::bio::Bio;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::time::Time;
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
    fn is_idle(&self) -> bool {
        false
    }
}

#[test]
fn a_call_waits_for_its_own_bio() {
    let mut lane = SyncLane::new(Box::<Liar>::default(), Clock::Host, Arc::default());
    let status = lane.run(Bio::flush(), None);
    assert_eq!(status.map_err(|fault| fault.kind), Err(Kind::Io));
}
