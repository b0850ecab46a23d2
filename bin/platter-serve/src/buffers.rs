//! Memory for the data of requests that one thread works on.

use platter_disk::pool::{PAGE, Pool, PoolBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sizes of buffers are powers of two from a page on.
const SMALLEST_BITS: u32 = PAGE.trailing_zeros();
const CLASSES: usize = 16;

/// Memory for the data of all clients of a server.
#[derive(Debug)]
pub(crate) struct Budget {
    most_bytes: usize,
    used_bytes: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(most_bytes: usize) -> Arc<Budget> {
        Arc::new(Budget { most_bytes, used_bytes: AtomicUsize::new(0) })
    }

    /// The most that there may be.
    #[cfg(feature = "daemon")]
    pub(crate) fn most_bytes(&self) -> usize {
        self.most_bytes
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// Takes a part, if there is that much. `in_any_case`: also if there is not.
    fn take(&self, bytes: usize, in_any_case: bool) -> bool {
        let most = if in_any_case { usize::MAX } else { self.most_bytes };
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= most);
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Buffers of several sizes that are kept for the next request, at most `limit` bytes with those in use,
/// out of a budget that several threads share. When that is used up, a thread has one buffer at a time: so each goes on, and the
/// return of that buffer is what it waits for.
///
/// They are aligned to pages, so drivers transfer to and from them without a copy.
pub(crate) struct Buffers {
    free: [Vec<PoolBuf>; CLASSES],
    held_bytes: usize,
    limit_bytes: usize,
    budget: Arc<Budget>,
    /// The memory counts, but does not wait for that of others.
    is_first: bool,
}

fn class_of(bytes: usize) -> usize {
    let bits = bytes.max(1).next_power_of_two().trailing_zeros();
    bits.saturating_sub(SMALLEST_BITS) as usize
}

fn class_bytes(class: usize) -> usize {
    PAGE << class
}

impl Buffers {
    pub(crate) fn new(limit_bytes: usize, budget: &Arc<Budget>) -> Buffers {
        Buffers {
            free: Default::default(),
            held_bytes: 0,
            limit_bytes,
            budget: Arc::clone(budget),
            is_first: false,
        }
    }

    /// For a thread that holds a buffer also while it does nothing, and so cannot wait for its return.
    pub(crate) fn first(limit_bytes: usize, budget: &Arc<Budget>) -> Buffers {
        let mut buffers = Buffers::new(limit_bytes, budget);
        buffers.is_first = true;
        buffers
    }

    /// A buffer of `bytes` bytes. `None`: the limit is reached until others come back, or `bytes`, rounded up to a power of two,
    /// is more than the limit or the largest size (128 MiB).
    #[inline]
    pub(crate) fn take(&mut self, bytes: usize) -> Option<PoolBuf> {
        let class = class_of(bytes);
        let mut buffer = match self.free.get_mut(class)?.pop() {
            Some(buffer) => buffer,
            None => self.make(class)?,
        };
        buffer.truncate(bytes);
        Some(buffer)
    }

    #[cold]
    fn make(&mut self, class: usize) -> Option<PoolBuf> {
        let bytes = class_bytes(class);
        while self.held_bytes + bytes > self.limit_bytes {
            if !self.drop_one() {
                return None;
            }
        }
        while !self.budget.take(bytes, self.is_first || self.held_bytes == 0) {
            if !self.drop_one() {
                return None;
            }
        }
        // Of these sizes it is not refused. Without memory in the system the process ends, as for any allocation.
        let Some(buffer) = Pool::new(1, bytes, PAGE).ok().and_then(|pool| pool.take()) else {
            self.budget.give(bytes);
            return None;
        };
        self.held_bytes += bytes;
        Some(buffer)
    }

    /// Returns the memory of one free buffer, a large one first. `false`: there is none.
    fn drop_one(&mut self) -> bool {
        let Some(buffer) = self.free.iter_mut().rev().find_map(Vec::pop) else { return false };
        self.release(whole(buffer));
        true
    }

    fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held_bytes);
        self.held_bytes -= bytes;
        self.budget.give(bytes);
    }

    /// Gives a buffer back.
    #[inline]
    pub(crate) fn put(&mut self, mut buffer: PoolBuf) {
        buffer.restore_len();
        if let Some(free) = self.free.get_mut(class_of(buffer.len())) {
            free.push(buffer);
        }
    }

    /// A buffer does not come back: a layer has ended its bio while a part of it still has the memory. `capacity`: that of the
    /// buffer, which may be more than its request has transferred.
    pub(crate) fn lost(&mut self, capacity: usize) {
        self.release(capacity);
    }

    /// Whether there are free buffers, whose memory [`trim`](Buffers::trim) would return.
    pub(crate) fn has_free(&self) -> bool {
        self.free.iter().any(|free| !free.is_empty())
    }

    /// Returns the memory of all free buffers to the system.
    pub(crate) fn trim(&mut self) {
        while self.drop_one() {}
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.release(self.held_bytes);
    }
}

/// Bytes of a buffer, which is dropped.
fn whole(mut buffer: PoolBuf) -> usize {
    buffer.restore_len();
    buffer.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let mut buffers = Buffers::new(64 << 10, &Budget::new(usize::MAX));
        let all: Vec<PoolBuf> = std::iter::from_fn(|| buffers.take(4096)).collect();
        assert_eq!(all.len(), 16);
        assert!(
            all.iter().all(|buffer| buffer.len() == 4096 && (buffer.as_ptr() as usize).is_multiple_of(PAGE))
        );
        assert!(buffers.take(512).is_none());
        all.into_iter().for_each(|buffer| buffers.put(buffer));
        // Free buffers of another size make room.
        let large = buffers.take(33 << 10).expect("room");
        assert_eq!((large.len(), buffers.held_bytes), (33 << 10, 64 << 10));
        assert!(buffers.take(1).is_none());
        assert!(!buffers.has_free());
        buffers.put(large);
        assert!(buffers.has_free());
        buffers.trim();
        assert_eq!(buffers.held_bytes, 0);
        assert!(buffers.take(128 << 10).is_none(), "above the limit");
        assert!(buffers.take(usize::MAX / 2).is_none());
    }

    #[test]
    fn a_budget_is_shared_and_leaves_each_one_buffer() {
        let budget = Budget::new(64 << 10);
        let [mut greedy, mut other] = [(); 2].map(|()| Buffers::new(1 << 20, &budget));
        let all: Vec<PoolBuf> = std::iter::from_fn(|| greedy.take(4096)).collect();
        assert_eq!((all.len(), budget.used_bytes()), (16, 64 << 10));
        // The other one goes on, with one buffer at a time of whatever size.
        let one = other.take(32 << 10).unwrap();
        assert!(other.take(1).is_none());
        other.put(one);
        let one = other.take(8192).expect("its own free buffer makes room");
        assert_eq!(budget.used_bytes(), 72 << 10);
        assert!(other.take(1).is_none() && greedy.take(1).is_none());
        other.put(one);
        all.into_iter().for_each(|buffer| greedy.put(buffer));
        greedy.trim();
        assert!(other.take(4096).is_some() && other.take(4096).is_some());
        drop((greedy, other));
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn a_lost_buffer_no_longer_counts() {
        let mut buffers = Buffers::new(8192, &Budget::new(usize::MAX));
        let mut buffer = buffers.take(5000).unwrap();
        // As for the last piece of a request that is carried out in pieces.
        buffer.truncate(512);
        let capacity = buffer.capacity();
        drop(buffer);
        assert!(buffers.take(1).is_none());
        buffers.lost(capacity);
        assert_eq!(buffers.held_bytes, 0);
        assert!(buffers.take(8192).is_some());
    }
}
