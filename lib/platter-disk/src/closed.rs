//! The lane of a device that is closed: it replaces the real one.

use platter_block::bio::Bio;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::time::Time;

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

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.failed);
    }

    fn has_done(&self) -> bool {
        !self.failed.is_empty()
    }

    // No descriptor and no event: a thread that polls has nothing to wait for.
    fn wait_handles(&self, _out: &mut Vec<i32>) -> bool {
        true
    }
}
