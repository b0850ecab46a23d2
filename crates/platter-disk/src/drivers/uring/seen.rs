//! How many requests a ring still has, for threads that do not own it.

use super::ring::Ring;
use io_uring::Parameters;
use platter_block::driver::Outstanding;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kernel's `struct io_uring_params` in 32-bit words, and of these the offset of the completion ring's tail.
const PARAMETER_WORDS: usize = 30;
const TAIL_WORD: usize = 21;
/// Where the kernel has the rings for `mmap(2)` (`IORING_OFF_SQ_RING`, which is both in one).
const RINGS: u64 = 0;
/// Of the rings only the head is looked at.
const MAPPED: usize = 4096;

/// The tail of a ring's completions beside the number of entries that were put on the ring. Every entry has one completion,
/// so the difference is what the kernel still has (or has not been given). The mapping keeps the ring's memory, not its
/// requests, alive.
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
    /// Looks at a ring on which `pushed` entries have been put so far. `None` where its completions cannot be seen.
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
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let mapping =
            unsafe { rustix::mm::mmap(at, MAPPED, ProtFlags::READ, MapFlags::SHARED, ring.as_fd(), RINGS) };
        let mapping = mapping.ok()?.cast();
        Some(Seen { mapping, tail_at, pushed: AtomicU32::new(pushed), beside })
    }

    /// So many entries have been put on the ring. To be told before the kernel can see the last of them.
    #[inline]
    pub(super) fn set_pushed(&self, pushed: u32) {
        self.pushed.store(pushed, Ordering::Release);
    }

    fn completed(&self) -> u32 {
        // SAFETY: an aligned word of the mapping, which lives as long as this does and which the kernel writes atomically.
        let tail = unsafe { &*self.mapping.wrapping_add(self.tail_at).cast::<AtomicU32>() };
        tail.load(Ordering::Acquire)
    }
}

impl Outstanding for Seen {
    fn outstanding(&self) -> u32 {
        // The tail first: what is pushed meanwhile makes the difference too large, never too small.
        let completed = self.completed();
        let ring = self.pushed.load(Ordering::Acquire).wrapping_sub(completed);
        ring + self.beside.outstanding()
    }
}

impl Drop for Seen {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing can reach any more.
        let _ = unsafe { rustix::mm::munmap(self.mapping.cast(), MAPPED) };
    }
}
