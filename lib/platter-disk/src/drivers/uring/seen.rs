//! Counts the requests that a ring still has, for threads that do not own it.

use super::ring::Ring;
use io_uring::Parameters;
use platter_block::driver::Outstanding;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of the kernel's `struct io_uring_params` in 32-bit words, and the word with the offset of the completion
/// ring's tail.
const PARAMETER_WORDS: usize = 30;
const TAIL_WORD: usize = 21;
/// Offset of the rings for `mmap(2)` (`IORING_OFF_SQ_RING`, which maps both).
const RINGS: u64 = 0;
/// Only the head of the rings is read.
const MAPPED: usize = 4096;

/// The tail of a ring's completions, compared with the number of entries put on the ring. Every entry has one
/// completion, so the difference is the number that the kernel still has (or has not got yet). The mapping keeps the
/// ring's memory alive, not its requests.
pub(super) struct Seen {
    mapping: *mut u8,
    tail_at: usize,
    pushed: AtomicU32,
    beside: Arc<dyn Outstanding>,
}

// SAFETY: the mapping is read-only, and only read as an atomic number.
unsafe impl Send for Seen {}
// SAFETY: as above.
unsafe impl Sync for Seen {}

impl Seen {
    /// Maps a ring on which `pushed` entries have been put so far. `None` if its completions cannot be seen.
    pub(super) fn new(ring: &Ring, pushed: u32, beside: Arc<dyn Outstanding>) -> Option<Seen> {
        const { assert!(size_of::<Parameters>() == PARAMETER_WORDS * 4) };
        if ring.deferred || !ring.described().params().is_feature_single_mmap() {
            return None;
        }
        let words = std::ptr::from_ref(ring.described().params()).cast::<u32>();
        // SAFETY: the parameters are a transparent wrapper of the kernel's structure, which has that many words.
        let tail_at = unsafe { words.add(TAIL_WORD).read() } as usize;
        if !tail_at.is_multiple_of(4) || tail_at + 4 > MAPPED {
            return None;
        }
        let at = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses replaces nothing.
        let mapping =
            unsafe { rustix::mm::mmap(at, MAPPED, ProtFlags::READ, MapFlags::SHARED, ring.as_fd(), RINGS) };
        let mapping = mapping.ok()?.cast();
        Some(Seen { mapping, tail_at, pushed: AtomicU32::new(pushed), beside })
    }

    /// Records how many entries have been put on the ring. Must be called before the kernel can see the last of them.
    #[inline]
    pub(super) fn set_pushed(&self, pushed: u32) {
        self.pushed.store(pushed, Ordering::Release);
    }

    fn completed(&self) -> u32 {
        // SAFETY: an aligned word of the mapping, which lives as long as `self` and which the kernel writes atomically.
        let tail = unsafe { &*self.mapping.wrapping_add(self.tail_at).cast::<AtomicU32>() };
        tail.load(Ordering::Acquire)
    }
}

impl Outstanding for Seen {
    fn outstanding(&self) -> u32 {
        // The tail first: entries pushed during the call make the difference too large, never too small.
        let completed = self.completed();
        let ring = self.pushed.load(Ordering::Acquire).wrapping_sub(completed);
        ring + self.beside.outstanding()
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing uses any more.
        let _ = unsafe { rustix::mm::munmap(self.mapping.cast(), MAPPED) };
    }
}
