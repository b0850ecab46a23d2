//! Unit tests of the lane of synchronous calls.

use super::SyncLane;
use crate::clock::Clock;
use crate::device::Device;
use platter_block::bio::{Bio, Flags, Op};
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

/// A lane that gives back another bio with the token of the submitted one, and this one later.
#[derive(Default)]
struct Swapper {
    kept: Option<Bio>,
    other: Option<Bio>,
}

impl Lane for Swapper {
    fn submit(&mut self, _now: Time, bio: Bio) {
        let mut other = Bio::read(bio.pos(), vec![0u8; 512]).unwrap();
        other.set_token(bio.token());
        other.add_flags(bio.flags());
        (self.kept, self.other) = (Some(bio), Some(other));
    }
    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.extend(self.other.take().or_else(|| self.kept.take()));
    }
    fn has_done(&self) -> bool {
        true
    }
    fn is_idle(&self) -> bool {
        false
    }
}

fn over(lane: Box<dyn Lane>) -> SyncLane {
    let device = Device::null(1 << 20).unwrap();
    SyncLane::new(lane, Clock::Host, Arc::clone(&device.inner.background))
}

/// What a call lends its memory to is that very bio: another one with its token does not end the call.
#[test]
fn a_call_that_lends_memory_waits_for_the_very_bio() {
    let mut lane = over(Box::<Swapper>::default());
    let mut bio = Bio::new(Op::Read, 0, 512);
    bio.add_flags(Flags::BORROWED);
    let identity = bio.identity();
    let back = lane.wait_for(bio, None);
    assert_eq!((back.identity(), back.segment_bytes()), (identity, 0));
    // A bio that owns its memory may be replaced.
    let bio = Bio::read(0, vec![0u8; 512]).unwrap();
    let identity = bio.identity();
    assert_ne!(lane.wait_for(bio, None).identity(), identity);
}

#[test]
fn a_call_waits_for_its_own_bio() {
    let mut lane = over(Box::<Liar>::default());
    let status = lane.run(Bio::flush(), None);
    assert_eq!(status.map_err(|fault| fault.kind), Err(Kind::Io));
}
