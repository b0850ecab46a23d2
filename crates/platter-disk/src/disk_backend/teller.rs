//! Reports the requests that a queue gives up to the rest of the device.

use super::Shared;
use super::doubts::Owner;
use super::flushes::Ended;
use super::lanes::LaneCell;
use platter_block::fault::Status;
use platter_block::queue::Watch;
use std::sync::{Arc, Weak};

/// Tells the device which requests one of its queues gives up.
pub(super) struct Teller {
    shared: Weak<Shared>,
    owner: Owner,
    /// The lane that the queue belongs to.
    cell: Option<Arc<LaneCell>>,
}

impl Teller {
    pub(super) fn new(shared: &Arc<Shared>, owner: Owner, cell: Option<Arc<LaneCell>>) -> Box<Teller> {
        Box::new(Teller { shared: Arc::downgrade(shared), owner, cell })
    }
}

impl Watch for Teller {
    fn in_doubt(&mut self, tag: u32, pos: u64, len: u64) {
        if let Some(shared) = self.shared.upgrade() {
            self.cell.iter().for_each(|cell| cell.note_run(shared.clock.now()));
            shared.doubts.add_range(&shared.gate, self.owner, tag, pos, len);
            shared.lanes.ring_all();
        }
    }

    fn quarantined(&mut self, tag: u32) {
        if let Some(shared) = self.shared.upgrade() {
            shared.doubts.add_quarantined(&shared.gate, self.owner, tag);
            shared.lanes.ring_all();
        }
    }

    fn returned(&mut self, tag: u32) {
        if let Some(shared) = self.shared.upgrade() {
            shared.doubts.remove(&shared.gate, self.owner, tag);
            // Bios held in the shared queue may be able to start.
            shared.lanes.ring_all();
        }
    }

    fn may_flush(&mut self) -> bool {
        self.shared.upgrade().is_none_or(|shared| shared.flushes.begin_in_queue())
    }

    fn flushed(&mut self, status: Status) {
        if let Some(shared) = self.shared.upgrade() {
            shared.flushes.end_in_queue(if status.is_ok() { Ended::Succeeded } else { Ended::Failed });
        }
    }

    fn may_restart(&mut self) -> bool {
        self.cell.as_ref().is_none_or(|cell| !cell.busy.go_on())
    }
}
