//! What a queue asks the rest of the device, and tells it.

use super::Shared;
use super::flushes::Ended;
use super::lanes::LaneCell;
use platter_block::fault::{Kind, Stage, Status};
use platter_block::queue::Watch;
use std::sync::{Arc, Weak};

/// The device as one of its queues sees it.
pub(super) struct Others {
    shared: Weak<Shared>,
    /// The lane that the queue belongs to; the shared queue has none.
    cell: Option<Arc<LaneCell>>,
}

impl Others {
    pub(super) fn new(shared: &Arc<Shared>, cell: Option<Arc<LaneCell>>) -> Box<Others> {
        Box::new(Others { shared: Arc::downgrade(shared), cell })
    }
}

impl Watch for Others {
    fn may_flush(&mut self) -> bool {
        self.shared.upgrade().is_none_or(|shared| shared.flushes.begin_in_queue())
    }

    fn flushed(&mut self, status: Status) {
        if let Some(shared) = self.shared.upgrade() {
            shared.flushes.end_in_queue(match status {
                Ok(()) => Ended::Succeeded,
                // The disk is failed, and did not get it.
                Err(fault) if (fault.kind, fault.stage) == (Kind::Gone, Stage::Queue) => Ended::Undone,
                Err(_) => Ended::Failed,
            });
        }
    }

    fn may_restart(&mut self) -> bool {
        self.cell.as_ref().is_none_or(|cell| !cell.busy.go_on())
    }
}
