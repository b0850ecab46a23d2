//! Decides which synchronous transfers are copied through memory of the library, and counts the copied bytes.

use crate::sync::{Condvar, Mutex, lock};
use platter_block::bio::Bio;
use platter_block::limits::Limits;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Largest part of a call that is copied at once, in bytes.
pub(crate) const PIECE: u64 = 8 << 20;

/// The rules of one device, and the count.
pub(crate) struct CopyRules {
    pub(crate) limits: Limits,
    /// Whether misaligned transfers are copied; otherwise they fail.
    is_allowed: bool,
    /// Blocks that writes cover only in part, while they are read and written back.
    pub(crate) edges: Edges,
    bytes: AtomicU64,
}

impl CopyRules {
    pub(crate) fn new(limits: Limits, is_allowed: bool) -> CopyRules {
        CopyRules { limits, is_allowed, edges: Edges::default(), bytes: AtomicU64::new(0) }
    }

    /// Bytes copied so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether a bio of a synchronous call must be copied on a device of `size` bytes: because its offset or
    /// length is misaligned, because it is large and its memory would be copied anyway, or because the call may end
    /// (`has_deadline`) before the device has finished with the memory. A bio with another fault is passed down
    /// unchanged, to be refused there.
    ///
    /// Its memory is looked at only if the transfer is large; the lane of the disk checks that of all bios.
    #[inline]
    pub(crate) fn needs(&self, bio: &Bio, size: u64, has_deadline: bool) -> bool {
        let (pos, len) = (bio.pos(), bio.len());
        if !bio.op().has_data() || len == 0 || pos.checked_add(len).is_none_or(|end| end > size) {
            return false;
        }
        let is_misplaced = self.limits.is_misplaced(pos, len, size);
        let is_unsound = || self.limits.check_memory(bio, size).is_err();
        match (self.is_allowed, has_deadline) {
            (true, true) => true,
            (true, false) => is_misplaced || (len > PIECE && is_unsound()),
            (false, true) => !is_misplaced && !is_unsound(),
            (false, false) => false,
        }
    }
}

/// Blocks that are being changed in part, by the offset of their first byte.
#[derive(Default)]
pub(crate) struct Edges {
    busy: Mutex<Vec<u64>>,
    freed: Condvar,
}

/// The blocks at both ends of a write, by the offset of their first byte. They may be the same block.
#[derive(Clone, Copy)]
pub(crate) struct EndBlocks {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl EndBlocks {
    fn contains(self, block: u64) -> bool {
        block == self.first || block == self.last
    }
}

/// The locked blocks of one write.
pub(crate) struct Locked<'a> {
    edges: &'a Edges,
    blocks: EndBlocks,
}

impl Edges {
    /// Locks the blocks at both ends of a write. `None`: they did not become free in the time that is `left`.
    pub(crate) fn lock(&self, blocks: EndBlocks, left: impl Fn() -> Option<Duration>) -> Option<Locked<'_>> {
        let mut busy = lock(&self.busy);
        // Both at once, so that a holder of one block never waits for another.
        while busy.iter().any(|&block| blocks.contains(block)) {
            busy = match left() {
                Some(Duration::ZERO) => return None,
                Some(left) => self.freed.wait_for(busy, left),
                None => self.freed.wait(busy),
            };
        }
        busy.extend([blocks.first, blocks.last]);
        Some(Locked { edges: self, blocks })
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        lock(&self.edges.busy).retain(|&block| !self.blocks.contains(block));
        self.edges.freed.notify_all();
    }
}
