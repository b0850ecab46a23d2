//! Reads and writes that end without the lock.
//!
//! A caller that sleeps until its read completes gets the data from the frames that its own I/O has filled: no other
//! lane accesses them before the engine has taken the completion. The completion is left in an [`Inbox`] for the next
//! thread that takes the lock. So a cold read takes the lock once, to begin. So does a write: what is left is to mark the pages
//! that its lane has filled as dirty, and they cannot be written back, changed or evicted before that is done.

use super::holds::HoldId;
use super::inbox::Inbox;
use super::ios::IoKey;
use super::writers::WriterId;
use platter_block::bio::Bio;
use platter_block::time::Time;
use std::ops::Range;
use std::sync::Arc;

/// What a task needs to end without the lock.
#[derive(Default)]
pub(super) struct Early {
    /// The I/O that fills all pages that it still needs; `None`: it cannot end so.
    pub(super) key: Option<IoKey>,
    /// Their frames.
    pub(super) frames: Vec<u32>,
}

impl Early {
    /// Resets to the initial state and keeps allocated memory.
    pub(super) fn reset(&mut self) {
        self.key = None;
        self.frames.clear();
    }
}

/// A bio that has ended before the engine was told.
pub(super) enum Late {
    Read(LateRead),
    Write(LateWrite),
}

/// A read that has ended.
pub(super) struct LateRead {
    /// The bio of the cache that has come back.
    pub(super) bio: Bio,
    pub(super) hold: Option<HoldId>,
    pub(super) handle: u16,
    /// The pages that it got from the I/O.
    pub(super) pages: Range<u64>,
}

/// A write whose data is in its pages.
pub(super) struct LateWrite {
    /// The I/O of the copy.
    pub(super) key: IoKey,
    pub(super) writer: Option<WriterId>,
    /// When its pages were chosen.
    pub(super) since: Time,
}

/// What has ended early, from all lanes, and the reads that the engine has taken and not processed yet.
pub(super) struct Lates {
    pub(super) inbox: Arc<Inbox<Late>>,
    pub(super) taken: Vec<Late>,
    /// Work done for them since the last turn began, and whether there was any.
    pub(super) work: u32,
    pub(super) any: bool,
}

impl Lates {
    pub(super) fn new(inbox: &Arc<Inbox<Late>>) -> Lates {
        Lates { inbox: Arc::clone(inbox), taken: Vec::new(), work: 0, any: false }
    }

    /// Whether some are left for another turn.
    pub(super) fn is_behind(&self) -> bool {
        !self.taken.is_empty()
    }

    /// A turn begins: returns the work that was done for them before it, and whether there was any.
    pub(super) fn begin_turn(&mut self) -> (u32, bool) {
        (std::mem::take(&mut self.work), std::mem::take(&mut self.any))
    }
}
