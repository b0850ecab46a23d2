//! Blocks that writes cover only in part: locked while they are read and written back.

use crate::sync::{Condvar, Mutex, lock};
use std::time::Duration;

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
