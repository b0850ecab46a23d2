//! Blocks of a device that are being changed: locked where parts of blocks are, by reading and writing back.

use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};

/// Ranges of a device that are being changed. Changes of whole blocks exclude those of parts, and these each other.
#[derive(Default)]
pub(crate) struct Changes {
    /// Each with whether it changes parts of blocks.
    busy: Mutex<Vec<(Range<u64>, bool)>>,
    freed: Condvar,
}

fn conflicts(busy: &[(Range<u64>, bool)], blocks: &Range<u64>, partial: bool) -> bool {
    let overlaps = |other: &Range<u64>| other.start < blocks.end && blocks.start < other.end;
    busy.iter().any(|(other, theirs)| (partial || *theirs) && overlaps(other))
}

impl Changes {
    /// Locks a range, unless it would have to wait.
    pub(crate) fn try_lock(&self, blocks: &Range<u64>, partial: bool) -> bool {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = !conflicts(&busy, blocks, partial);
        if is_free {
            busy.push((blocks.clone(), partial));
        }
        is_free
    }

    /// Locks a range. The caller must have locked no other.
    pub(crate) fn lock(&self, blocks: &Range<u64>, partial: bool) {
        let busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.freed.wait_while(busy, |busy| conflicts(busy, blocks, partial));
        wait.unwrap_or_else(PoisonError::into_inner).push((blocks.clone(), partial));
    }

    /// Unlocks a range that was locked.
    pub(crate) fn unlock(&self, blocks: &Range<u64>, partial: bool) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = busy.iter().position(|(range, theirs)| range == blocks && *theirs == partial) {
            busy.swap_remove(at);
        }
        self.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn parts_of_blocks_exclude_all_others_and_whole_blocks_only_them() {
        let changes = Changes::default();
        assert!(changes.try_lock(&(0..1024), false));
        assert!(changes.try_lock(&(512..1024), false));
        assert!(!changes.try_lock(&(512..1024), true));
        assert!(changes.try_lock(&(1024..1536), true));
        assert!(!changes.try_lock(&(1024..1536), true));
        assert!(!changes.try_lock(&(0..2048), false));
        changes.unlock(&(0..1024), false);
        assert!(!changes.try_lock(&(512..1024), true), "the other is still there");
        changes.unlock(&(512..1024), false);
        assert!(changes.try_lock(&(512..1024), true));
    }

    #[test]
    fn a_lock_that_is_waited_for_comes_when_it_is_free() {
        let changes = Arc::new(Changes::default());
        changes.lock(&(0..512), true);
        let other = Arc::clone(&changes);
        let waiting = std::thread::spawn(move || other.lock(&(0..512), true));
        changes.unlock(&(0..512), true);
        waiting.join().unwrap();
        assert!(!changes.try_lock(&(0..512), false));
    }
}
