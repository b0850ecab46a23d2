//! Dirty pages of a process: when they are written back, and when the writer has to wait.

use std::collections::VecDeque;

/// The behaviour of buffered writes, as in Linux 2.6.0 on a machine of 256 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// Bytes that are dirty or on their way to the disk above which a writer waits (dirty_ratio, 40 %).
    pub limit: u64,
    /// Dirty bytes above which writing back begins (dirty_background_ratio, 10 %).
    pub background: u64,
    /// Most bytes of a write.
    pub batch: u64,
    /// Most writes out at once: where a queue of 128 requests counts as congested.
    pub writes: u32,
}

impl Default for CacheSettings {
    fn default() -> CacheSettings {
        CacheSettings { limit: 102 << 20, background: 25 << 20, batch: 128 << 10, writes: 112 }
    }
}

/// The dirty pages of a process, in the order in which they were dirtied.
pub(super) struct Cache {
    settings: CacheSettings,
    dirty: VecDeque<(u64, u64)>,
    dirty_bytes: u64,
    /// Bytes on their way to the disk, and writes.
    under_way: u64,
    writes: u32,
    /// Everything is to be written, however little it is.
    syncing: bool,
    /// The background limit was exceeded, and write-back continues down to half of it.
    writing: bool,
}

impl Cache {
    pub(super) fn new(settings: CacheSettings) -> Cache {
        let dirty = VecDeque::new();
        Cache { settings, dirty, dirty_bytes: 0, under_way: 0, writes: 0, syncing: false, writing: false }
    }

    /// Records a write into the cache; adjacent pieces are merged.
    pub(super) fn dirty(&mut self, offset: u64, len: u64) {
        self.dirty_bytes += len;
        self.writing |= self.dirty_bytes > self.settings.background;
        match self.dirty.back_mut() {
            Some((start, bytes)) if *start + *bytes == offset => *bytes += len,
            _ => self.dirty.push_back((offset, len)),
        }
    }

    /// Whether a writer has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.dirty_bytes + self.under_way >= self.settings.limit
    }

    /// Whether nothing is dirty or under way.
    pub(super) fn is_clean(&self) -> bool {
        self.dirty_bytes + self.under_way == 0
    }

    /// From now on everything is written, until it is clean.
    pub(super) fn sync(&mut self) {
        self.syncing = !self.is_clean();
    }

    /// The next piece to write, if one is due.
    pub(super) fn next_write(&mut self) -> Option<(u64, u64)> {
        if self.writes >= self.settings.writes || !(self.writing || self.syncing) {
            return None;
        }
        let (offset, bytes) = self.dirty.front_mut()?;
        let piece = (*offset, (*bytes).min(self.settings.batch));
        (*offset, *bytes) = (*offset + piece.1, *bytes - piece.1);
        if *bytes == 0 {
            self.dirty.pop_front();
        }
        self.dirty_bytes -= piece.1;
        self.writing &= self.dirty_bytes > self.settings.background / 2;
        self.under_way += piece.1;
        self.writes += 1;
        Some(piece)
    }

    /// A piece is on the disk.
    pub(super) fn written(&mut self, len: u64) {
        self.under_way -= len;
        self.writes -= 1;
        self.syncing &= !self.is_clean();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: CacheSettings = CacheSettings { limit: 1000, background: 400, batch: 100, writes: 2 };

    #[test]
    fn writing_begins_above_one_limit_and_writers_wait_above_another() {
        let mut cache = Cache::new(SMALL);
        cache.dirty(0, 150);
        cache.dirty(150, 250);
        assert_eq!(cache.next_write(), None);
        cache.dirty(5000, 100);
        assert_eq!((cache.next_write(), cache.next_write()), (Some((0, 100)), Some((100, 100))));
        assert_eq!(cache.next_write(), None, "two are out");
        cache.dirty(5100, 500);
        assert!(cache.is_full());
        cache.written(100);
        assert!(!cache.is_full());
        assert_eq!(cache.next_write(), Some((200, 100)));
    }

    #[test]
    fn a_sync_writes_the_rest() {
        let mut cache = Cache::new(SMALL);
        cache.dirty(0, 50);
        cache.dirty(512, 10);
        assert_eq!(cache.next_write(), None);
        cache.sync();
        assert_eq!((cache.next_write(), cache.next_write()), (Some((0, 50)), Some((512, 10))));
        cache.written(50);
        assert!(!cache.is_clean());
        cache.written(10);
        assert!(cache.is_clean());
        cache.dirty(1024, 10);
        assert_eq!(cache.next_write(), None, "the sync is over");
    }
}
