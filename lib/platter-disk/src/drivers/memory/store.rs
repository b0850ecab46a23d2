//! The memory behind a memory disk: zero-filled on demand, shared by all channels.

use platter_block::allocation::Extent;
use platter_block::segment::Segment;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{PoisonError, RwLock};

/// Bytes under one lock.
const STRIPE: u64 = 128 << 10;
/// Locks; a power of two.
const LOCKS: usize = 256;
/// From this size on, zeroing frees pages instead of writing to them.
const GIVE_BACK: u64 = 64 << 10;

/// Entries of the page map that are read at a time.
const MAP_ENTRIES: usize = 8192;
/// Bits of the last byte of an entry of the page map.
const PRESENT: u8 = 1 << 7;
const SWAPPED: u8 = 1 << 6;

/// A lock on a cache line of its own, to avoid false sharing.
#[repr(align(64))]
#[derive(Default)]
struct Stripe(RwLock<()>);

/// A byte-addressed store. Overlapping transfers of different channels are serialised by locks over 128 KiB
/// each: within such a piece a read sees a write as a whole or not at all.
pub(super) struct Store {
    base: *mut u8,
    size: usize,
    page: u64,
    stripes: Box<[Stripe]>,
}

// SAFETY: the mapping belongs to the store alone, and all access goes through `with`, which holds the lock of
// the bytes that it passes on: shared for reading, exclusive for writing.
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

impl Store {
    /// A store of `size` zero bytes. It takes only address space; memory is allocated by the first writes.
    pub(super) fn new(size: u64) -> io::Result<Store> {
        let size = usize::try_from(size).ok().filter(|size| *size > 0).ok_or(io::ErrorKind::InvalidInput)?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: an anonymous mapping at an address that the kernel chooses replaces nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), size, prot, flags)? };
        let stripes = (0..LOCKS).map(|_| Stripe::default()).collect();
        Ok(Store { base: base.cast(), size, page: rustix::param::page_size() as u64, stripes })
    }

    /// Bytes.
    pub(super) fn size(&self) -> u64 {
        self.size as u64
    }

    /// Copies from the store at `pos` to a segment of a bio that is in flight with the caller. The range
    /// must lie in the store.
    pub(super) fn read(&self, pos: u64, to: Segment) {
        self.with(pos, u64::from(to.len()), false, |at, len, done| {
            // SAFETY: `at` has `len` bytes in the mapping, which no thread writes to while the lock is held.
            // The segment's maker promised memory valid for writes, which is not part of the mapping.
            unsafe { std::ptr::copy_nonoverlapping(at, to.addr().wrapping_add(done), len) }
        });
    }

    /// Copies a segment of a bio that is in flight with the caller to the store at `pos`. The range must
    /// lie in the store.
    pub(super) fn write(&self, pos: u64, from: Segment) {
        self.with(pos, u64::from(from.len()), true, |at, len, done| {
            // SAFETY: `at` has `len` bytes in the mapping, which are ours alone while the lock is held. The
            // segment's maker promised memory valid for reads, which is not part of the mapping.
            unsafe { std::ptr::copy_nonoverlapping(from.addr().wrapping_add(done), at, len) }
        });
    }

    /// Zeroes a range, which must lie in the store. Whole pages of large ranges are freed.
    pub(super) fn zero(&self, pos: u64, len: u64) {
        self.with(pos, len, true, |at, len, done| {
            let start = pos + done as u64;
            let (first, last) = (start.next_multiple_of(self.page), start + len as u64);
            let last = last - last % self.page;
            let give_back = last.saturating_sub(first) >= GIVE_BACK;
            if give_back {
                let whole = at.wrapping_add((first - start) as usize);
                // SAFETY: whole pages of our private anonymous mapping, ours alone while the lock is held;
                // they read as zeroes afterwards.
                let given = unsafe {
                    rustix::mm::madvise(whole.cast(), (last - first) as usize, Advice::LinuxDontNeed)
                };
                if given.is_ok() {
                    fill(at, (first - start) as usize);
                    fill(at.wrapping_add((last - start) as usize), (start + len as u64 - last) as usize);
                    return;
                }
            }
            fill(at, len);
        });

        /// Zeroes bytes whose lock the closure above holds.
        fn fill(at: *mut u8, len: usize) {
            // SAFETY: only called with parts of the range that `with` handed out for writing.
            unsafe { std::ptr::write_bytes(at, 0, len) }
        }
    }

    /// The allocation status of the bytes from `pos` on, at most `len`, by the page map of the process (proc(5)): a page
    /// that is neither present nor swapped out was never written. The range must lie in the store. Data, if the map
    /// cannot be read.
    pub(super) fn allocation(&self, pos: u64, len: u64) -> Extent {
        let begin = self.base.addr() as u64 + pos;
        let (first, end) = (begin / self.page, (begin + len).div_ceil(self.page));
        let Ok(map) = File::open("/proc/self/pagemap") else { return Extent::data(pos, len) };
        let (mut entries, mut status) = (vec![0; MAP_ENTRIES * 8], None);
        let mut at = first;
        while at < end {
            let wanted = ((end - at) as usize).min(MAP_ENTRIES) * 8;
            if map.read_exact_at(&mut entries[..wanted], at * 8).is_err() {
                return Extent::data(pos, len);
            }
            for entry in entries[..wanted].chunks_exact(8) {
                let has_page = entry[7] & (PRESENT | SWAPPED) != 0;
                if *status.get_or_insert(has_page) != has_page {
                    let found = at * self.page - begin;
                    return if has_page { Extent::hole(pos, found) } else { Extent::data(pos, found) };
                }
                at += 1;
            }
        }
        if status == Some(false) { Extent::hole(pos, len) } else { Extent::data(pos, len) }
    }

    /// Visits a range piece by piece (address, bytes, bytes before it), each under its lock.
    fn with(&self, pos: u64, len: u64, write: bool, mut each: impl FnMut(*mut u8, usize, usize)) {
        assert!(pos.checked_add(len).is_some_and(|end| end <= self.size()), "range outside the store");
        let mut done = 0;
        while done < len {
            let at = pos + done;
            let piece = (STRIPE - at % STRIPE).min(len - done) as usize;
            let lock = &self.stripes[(at / STRIPE) as usize % LOCKS].0;
            let memory = self.base.wrapping_add(at as usize);
            // A lock guards no invariant of its own, so poisoning by a panic does not matter.
            if write {
                let _held = lock.write().unwrap_or_else(PoisonError::into_inner);
                each(memory, piece, done as usize);
            } else {
                let _held = lock.read().unwrap_or_else(PoisonError::into_inner);
                each(memory, piece, done as usize);
            }
            done += piece as u64;
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing can reach any more. Unmapping a whole mapping cannot fail.
        let _ = unsafe { rustix::mm::munmap(self.base.cast(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_block::segment::RegionId;

    fn segment(memory: &mut [u8]) -> Segment {
        // SAFETY: used within the borrow only.
        unsafe { Segment::new(memory.as_mut_ptr(), memory.len() as u32, RegionId::NONE) }
    }

    #[test]
    fn zeroing_covers_exactly_its_range_also_across_stripes_and_pages() {
        let store = Store::new(4 * STRIPE).unwrap();
        let mut ones = vec![1u8; 4 * STRIPE as usize];
        for (pos, len) in [(0, 1), (513, 4096), (5000, 3 * STRIPE), (STRIPE - 1, 2), (STRIPE, 2 * STRIPE)] {
            store.write(0, segment(&mut ones));
            store.zero(pos, len);
            let mut back = vec![7u8; 4 * STRIPE as usize];
            store.read(0, segment(&mut back));
            let wrong = back.iter().enumerate().find(|(i, b)| {
                let inside = (pos..pos + len).contains(&(*i as u64));
                **b != u8::from(!inside)
            });
            assert_eq!(wrong, None, "{pos}+{len}");
        }
    }

    #[test]
    fn a_store_of_no_bytes_is_refused() {
        assert!(Store::new(0).is_err());
    }

    #[test]
    fn a_read_sees_a_concurrent_write_whole() {
        const LEN: usize = 4096;
        let store = Store::new(STRIPE).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..2000u32 {
                    store.write(0, segment(&mut [round as u8; LEN]));
                }
            });
            let mut back = [0u8; LEN];
            for _ in 0..2000 {
                store.read(0, segment(&mut back));
                assert!(back.iter().all(|b| *b == back[0]));
            }
        });
    }
}
