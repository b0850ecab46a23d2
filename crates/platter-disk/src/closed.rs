//! The lane of a device that is closed: it replaces the real one.

use platter_block::bio::Bio;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};

/// Fails every bio; nothing is ever outstanding.
#[derive(Default)]
pub(crate) struct Closed {
    failed: Vec<Bio>,
}

impl Lane for Closed {
    fn submit(&mut self, _now: Time, mut bio: Bio) {
        bio.fail(Fault::new(Kind::Gone, Stage::Handle));
        self.failed.push(bio);
    }

    fn run(&mut self, _now: Time) {}

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.failed);
    }

    fn has_done(&self) -> bool {
        !self.failed.is_empty()
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }

    fn unplug(&mut self, _now: Time) {}

    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {}

    fn wait_handles(&self, _out: &mut Vec<i32>) -> bool {
        true
    }

    fn in_flight(&self) -> u32 {
        0
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn register(&mut self, _region: &Region) {}

    fn unregister(&mut self, _region: RegionId) {}
}
