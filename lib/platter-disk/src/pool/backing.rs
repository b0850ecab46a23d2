//! The memory of a pool: from the allocator, or in huge pages.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::null_mut;

/// Size of a huge page on x86-64, and on aarch64 with base pages of 4 KiB.
const HUGE: usize = 2 << 20;

/// The pages that the memory of a [`Pool`](super::Pool) is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pages {
    /// The pages that the allocator uses.
    Ordinary,
    /// Huge pages requested with `MADV_HUGEPAGE`. The kernel may have used ordinary ones for some of the memory.
    Transparent,
    /// Huge pages reserved by the administrator (`MAP_HUGETLB`).
    Reserved,
}

/// Memory of zeroes, freed on drop.
pub(super) struct Backing {
    pub(super) base: *mut u8,
    pub(super) pages: Pages,
    layout: Layout,
    is_mapped: bool,
}

impl Backing {
    /// Memory from the allocator.
    pub(super) fn ordinary(layout: Layout) -> Backing {
        // SAFETY: a pool's layout is not of size zero.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Backing { base, pages: Pages::Ordinary, layout, is_mapped: false }
    }

    /// Memory in huge pages if the system has them, else from the allocator. All of it is allocated now.
    pub(super) fn huge(layout: Layout) -> Backing {
        let whole = layout.size().checked_next_multiple_of(HUGE).filter(|_| layout.align() <= HUGE);
        let mapped = whole.and_then(|bytes| Backing::reserved(bytes).or_else(|| Backing::transparent(bytes)));
        mapped.unwrap_or_else(|| Backing::ordinary(layout))
    }

    fn of_mapping(base: *mut u8, bytes: usize, pages: Pages) -> Option<Backing> {
        let layout = Layout::from_size_align(bytes, HUGE).ok()?;
        Some(Backing { base, pages, layout, is_mapped: true })
    }

    fn reserved(bytes: usize) -> Option<Backing> {
        let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::HUGE_2MB | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let base = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
        Backing::of_mapping(base.ok()?.cast(), bytes, Pages::Reserved)
    }

    fn transparent(bytes: usize) -> Option<Backing> {
        let (all, access) = (bytes.checked_add(HUGE)?, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let begin = unsafe { mmap_anonymous(null_mut(), all, access, MapFlags::PRIVATE) }.ok()?.cast::<u8>();
        let skip = begin.addr().next_multiple_of(HUGE) - begin.addr();
        let base = begin.wrapping_add(skip);
        // Unmap the unaligned parts at both ends.
        for (at, len) in [(begin, skip), (base.wrapping_add(bytes), all - skip - bytes)] {
            if len > 0 {
                // SAFETY: a part of the new mapping that nothing uses.
                let _ = unsafe { munmap(at.cast(), len) };
            }
        }
        // SAFETY: the new mapping; advice changes no contents.
        let advised = unsafe { madvise(base.cast(), bytes, Advice::LinuxHugepage) };
        // Populated after the advice, which does not affect pages that exist already. Kernels before 5.14 lack this
        // call; there the memory is allocated at its first use.
        // SAFETY: as above.
        let _ = unsafe { madvise(base.cast(), bytes, Advice::LinuxPopulateWrite) };
        Backing::of_mapping(base, bytes, if advised.is_ok() { Pages::Transparent } else { Pages::Ordinary })
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        if self.is_mapped {
            // SAFETY: mapped with this size; each buffer holds a reference to it, so none is in use.
            let _ = unsafe { munmap(self.base.cast(), self.layout.size()) };
        } else {
            // SAFETY: allocated with this layout; each buffer holds a reference to it, so none is in use.
            unsafe { dealloc(self.base, self.layout) }
        }
    }
}
