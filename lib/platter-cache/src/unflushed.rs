//! What the disk below may have in its volatile cache: writes that no flush has covered yet.

use super::disk_writes::DiskWrites;
use super::ios::IoKey;
use std::sync::Arc;

/// What one shard knows of the writes to the disk and of flushes.
pub(super) struct Unflushed {
    disk: Arc<DiskWrites>,
    /// The number of its last write.
    last: u64,
    /// Its flushes of the disk in flight, with the last write that each covers.
    flushes: Vec<(IoKey, u64)>,
}

impl Unflushed {
    pub(super) fn new(disk: Arc<DiskWrites>) -> Unflushed {
        Unflushed { disk, last: 1, flushes: Vec::new() }
    }

    /// A write of the shard has completed, successfully or not.
    pub(super) fn wrote(&mut self) {
        self.last = self.disk.wrote();
    }

    /// The write that a flush has to cover: the last one of the shard, or of all.
    pub(super) fn to_cover(&self, of_all: bool) -> u64 {
        if of_all { self.disk.last() } else { self.last }
    }

    /// Whether flushes that have succeeded cover a write.
    pub(super) fn is_flushed(&self, write: u64) -> bool {
        self.disk.is_flushed(write)
    }

    /// A flush of this shard in flight that covers a write.
    pub(super) fn flush_of(&self, write: u64) -> Option<IoKey> {
        self.flushes.iter().find(|&&(_, covers)| covers >= write).map(|&(key, _)| key)
    }

    /// A flush begins. It covers what has completed.
    pub(super) fn begin_flush(&mut self, key: IoKey) {
        self.flushes.push((key, self.to_cover(true)));
    }

    /// An I/O that has no pages has ended. Returns whether it was a flush.
    pub(super) fn end_flush(&mut self, key: IoKey, well: bool) -> bool {
        let Some(at) = self.flushes.iter().position(|&(flush, _)| flush == key) else { return false };
        let (_, covers) = self.flushes.swap_remove(at);
        if well {
            self.disk.flushed(covers);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_stack::kit::ios::IoTable;

    #[test]
    fn a_flush_covers_the_writes_of_all_shards_that_have_completed() {
        let disk = Arc::new(DiskWrites::default());
        let mut ios = IoTable::default();
        let mut key = || ios.begin(|| ());
        let (mut one, mut other) = (Unflushed::new(Arc::clone(&disk)), Unflushed::new(disk));
        // What was written before is not flushed.
        assert!(!one.is_flushed(one.to_cover(false)));
        other.wrote();
        let (failed, first) = (key(), key());
        one.begin_flush(failed);
        assert!(one.end_flush(failed, false) && !one.end_flush(failed, true));
        assert!(!other.is_flushed(other.to_cover(false)));
        one.begin_flush(first);
        // Not this write, which completes while the flush is in flight.
        one.wrote();
        assert_eq!((one.flush_of(2), one.flush_of(one.to_cover(false))), (Some(first), None));
        assert!(one.end_flush(first, true));
        assert!(other.is_flushed(other.to_cover(false)) && !other.is_flushed(other.to_cover(true)));
        assert!(!one.is_flushed(one.to_cover(false)));
    }
}
