//! Memory for the data of requests that one thread works on.

use platter_disk::pool::{PAGE, Pool, PoolBuf};

/// Sizes of buffers are powers of two from a page on.
const SMALLEST_BITS: u32 = PAGE.trailing_zeros();
const CLASSES: usize = 16;

/// Buffers of several sizes that are kept for the next request, at most `limit` bytes with those in use.
///
/// They are aligned to pages, so drivers transfer to and from them without a copy.
pub(crate) struct Buffers {
    free: [Vec<PoolBuf>; CLASSES],
    held_bytes: usize,
    limit_bytes: usize,
}

fn class_of(bytes: usize) -> usize {
    let bits = bytes.max(1).next_power_of_two().trailing_zeros();
    bits.saturating_sub(SMALLEST_BITS) as usize
}

fn class_bytes(class: usize) -> usize {
    PAGE << class
}

impl Buffers {
    pub(crate) fn new(limit_bytes: usize) -> Buffers {
        Buffers { free: Default::default(), held_bytes: 0, limit_bytes }
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
        for free in self.free.iter_mut().rev() {
            while self.held_bytes + bytes > self.limit_bytes {
                let Some(buffer) = free.pop() else { break };
                self.held_bytes -= whole(buffer);
            }
        }
        if self.held_bytes + bytes > self.limit_bytes {
            return None;
        }
        // Of these sizes it is not refused. Without memory in the system the process ends, as for any allocation.
        let buffer = Pool::new(1, bytes, PAGE).ok()?.take()?;
        self.held_bytes += bytes;
        Some(buffer)
    }

    /// Gives a buffer back.
    #[inline]
    pub(crate) fn put(&mut self, mut buffer: PoolBuf) {
        buffer.restore_len();
        if let Some(free) = self.free.get_mut(class_of(buffer.len())) {
            free.push(buffer);
        }
    }

    /// A buffer does not come back: the driver keeps it until its request, which timed out, is complete. `capacity`: that of
    /// the buffer, which may be more than its request has transferred.
    pub(crate) fn lost(&mut self, capacity: usize) {
        self.held_bytes = self.held_bytes.saturating_sub(capacity);
    }

    /// Whether there are free buffers, whose memory [`trim`](Buffers::trim) would return.
    pub(crate) fn has_free(&self) -> bool {
        self.free.iter().any(|free| !free.is_empty())
    }

    /// Returns the memory of all free buffers to the system.
    pub(crate) fn trim(&mut self) {
        for free in &mut self.free {
            for buffer in std::mem::take(free) {
                self.held_bytes -= whole(buffer);
            }
        }
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
        let mut buffers = Buffers::new(64 << 10);
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
    fn a_lost_buffer_no_longer_counts() {
        let mut buffers = Buffers::new(8192);
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
