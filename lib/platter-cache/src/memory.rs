//! Memory from the system: zeroed, given on first use, in large pages where there are any.

use platter_block::bio::Bio;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;

/// The size of a large page. Smaller mappings are in small pages.
pub(super) const LARGE_PAGE: usize = 2 << 20;

/// The size of a small page, at most.
const SMALL_PAGE: usize = 4096;

/// What the system has refused, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Refused {
    /// Addresses.
    Addresses(usize),
    /// Memory that was to be there at once.
    Memory(usize),
}

/// Zeroed memory of which the system gives a part on the first access to it.
pub(super) struct Mapping {
    /// The start of the mapping and its length; `start` may lie behind it.
    base: NonNull<u8>,
    mapped: usize,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: only addresses and lengths; who accesses the memory is up to the owner.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps memory. It may be more than the machine has: the system promises none of it, unless it counts every address
    /// (`vm.overcommit_memory=2`). `None`: the system refuses it.
    pub(super) fn new(bytes: usize) -> Option<Mapping> {
        // Large pages have addresses that are multiples of their size, which kernels before 6.7 do not choose.
        let is_large = bytes >= LARGE_PAGE;
        let mapped = if is_large { bytes.checked_add(LARGE_PAGE)? } else { bytes.max(1) };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the system chooses.
        let base = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, access, flags) }.ok()?;
        let base = NonNull::new(base.cast::<u8>())?;
        let skip = if is_large { base.as_ptr().align_offset(LARGE_PAGE) } else { 0 };
        let start = NonNull::new(base.as_ptr().wrapping_add(skip))?;
        if is_large {
            // SAFETY: lies in the mapping just made, because `skip` is at most LARGE_PAGE; the advice changes no
            // contents. A system without large pages refuses it.
            let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        Some(Mapping { base, mapped, start, bytes })
    }

    /// The first byte, at a multiple of [`LARGE_PAGE`] if there are as many bytes.
    #[inline]
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Has the system give the memory of a range of bytes now. Contents do not change, and other threads may access
    /// them meanwhile.
    ///
    /// # Errors
    /// There is not enough memory, or the kernel is older than 5.14 (`Errno::INVAL`).
    pub(super) fn populate(&self, range: Range<usize>) -> Result<(), Errno> {
        let end = range.end.min(self.bytes);
        let first = (range.start / SMALL_PAGE * SMALL_PAGE).min(end);
        let from = self.start.as_ptr().wrapping_add(first);
        // SAFETY: lies in the mapping; the advice changes no contents.
        unsafe { madvise(from.cast(), end - first, Advice::LinuxPopulateWrite) }
    }

    /// Gives the memory of a range of bytes back to the system, in whole small pages. The bytes are zero afterwards.
    pub(super) fn give_back(&self, range: Range<usize>) {
        let end = range.end.min(self.bytes) / SMALL_PAGE * SMALL_PAGE;
        let first = range.start.next_multiple_of(SMALL_PAGE).min(end);
        let from = self.start.as_ptr().wrapping_add(first);
        // SAFETY: lies in the mapping, which is private and anonymous: what is read there next is zero. That nothing needs
        // the contents is up to the owner, and no reference is made to them here. A system that refuses keeps them.
        let _ = unsafe { madvise(from.cast(), end - first, Advice::LinuxDontNeed) };
    }

    /// Has the system give the memory of the first bytes now.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(super) fn populate_first(&mut self, bytes: usize) -> Result<(), Errno> {
        match self.populate(0..bytes) {
            Err(Errno::INVAL) => self.touch(bytes),
            result => result?,
        }
        Ok(())
    }

    /// Writes to each page of the first bytes.
    fn touch(&mut self, bytes: usize) {
        for at in (0..bytes.min(self.bytes)).step_by(SMALL_PAGE) {
            // SAFETY: lies in the mapping, which only the caller accesses, as `&mut` shows; it is zero before, too.
            unsafe { self.start.as_ptr().add(at).write_volatile(0) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `new`; only the owner gives out addresses in it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.mapped) };
    }
}

/// Types of which memory that is all zero is a valid value, and whose values need not be dropped.
///
/// # Safety
/// Both must be so.
pub(super) unsafe trait Zeroed {}

// SAFETY: integers.
unsafe impl Zeroed for std::sync::atomic::AtomicU16 {}
// SAFETY: integers.
unsafe impl Zeroed for std::sync::atomic::AtomicU32 {}
// SAFETY: integers.
unsafe impl Zeroed for u32 {}

/// A table whose entries are zero at first. It takes memory only where it was accessed, so a large one costs nothing
/// when it is made.
pub(super) struct Table<T> {
    mapping: Mapping,
    len: usize,
    entries: PhantomData<Box<[T]>>,
}

impl<T: Zeroed> Table<T> {
    /// A table of `len` entries. `None`: the system refuses the memory.
    pub(super) fn new(len: usize) -> Option<Table<T>> {
        const { assert!(align_of::<T>() <= SMALL_PAGE, "mappings begin at a multiple of a page") };
        let mapping = Mapping::new(len.checked_mul(size_of::<T>())?)?;
        Some(Table { mapping, len, entries: PhantomData })
    }
}

impl<T: Zeroed> Deref for Table<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has room for `len` entries, begins at a multiple of a page, is only accessed through
        // this slice, and was zero at first, which is a valid value of each.
        unsafe { std::slice::from_raw_parts(self.mapping.start.as_ptr().cast(), self.len) }
    }
}

impl<T: Zeroed> DerefMut for Table<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; and no other slice of it is there, as `&mut` shows.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start.as_ptr().cast(), self.len) }
    }
}

/// A list that has addresses for as many entries as it can ever have. It takes memory for those that it has or had, so a
/// long one costs nothing when it is made, and entries never move.
pub(super) struct Rows<T> {
    mapping: Mapping,
    len: usize,
    most: usize,
    entries: PhantomData<Box<[T]>>,
}

impl<T: Copy> Rows<T> {
    /// An empty list with room for `most` entries. `None`: the system refuses the addresses.
    pub(super) fn new(most: usize) -> Option<Rows<T>> {
        const { assert!(align_of::<T>() <= SMALL_PAGE, "mappings begin at a multiple of a page") };
        let mapping = Mapping::new(most.checked_mul(size_of::<T>())?)?;
        Some(Rows { mapping, len: 0, most, entries: PhantomData })
    }

    /// Adds an entry.
    ///
    /// # Panics
    /// If there are as many as there is room for.
    pub(super) fn push(&mut self, entry: T) {
        assert!(self.len < self.most, "a list of at most {} entries was full", self.most);
        // SAFETY: the mapping has room for `most` entries, begins at a multiple of a page and belongs to the list alone,
        // whose slices do not reach this entry yet.
        unsafe { self.mapping.start.as_ptr().cast::<T>().add(self.len).write(entry) };
        self.len += 1;
    }

    /// Removes the last entry, if there is one.
    pub(super) fn pop(&mut self) {
        self.len = self.len.saturating_sub(1);
    }

    /// Adds copies of `entry` until there are `len`.
    pub(super) fn grow(&mut self, len: usize, entry: T) {
        (self.len..len).for_each(|_| self.push(entry));
    }
}

impl<T: Copy> Deref for Rows<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping begins at a multiple of a page, the first `len` entries were written by `push`, and they are
        // only accessed through slices of the list.
        unsafe { std::slice::from_raw_parts(self.mapping.start.as_ptr().cast(), self.len) }
    }
}

impl<T: Copy> DerefMut for Rows<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; and no other slice of it is there, as `&mut` shows.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start.as_ptr().cast(), self.len) }
    }
}

/// Prefetches four places of the page at once for reads of a whole page: memory access then does not wait for
/// the processor's prefetcher to detect the sequence.
#[inline]
pub(super) fn prefetch(from: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len == SMALL_PAGE {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in [0, 64, 1024, 1088, 2048, 2112, 3072, 3136] {
            // SAFETY: only a prefetch hint; the address is not accessed.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(line).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, len);
}

/// A copy of the data of a bio that the cache has, for a device that may need it longer. Memory that only the device fills
/// is not read: its copy is zeroes.
pub(super) fn copy_of(bio: &Bio) -> Vec<u8> {
    let mut data = vec![0; bio.segments().map(|segment| segment.len() as usize).sum()];
    if bio.is_to_device() {
        let mut at = 0;
        for segment in bio.segments() {
            let end = at + segment.len() as usize;
            // SAFETY: the cache has the bio, which has not completed: its memory is valid for reads.
            unsafe { segment.copy_to(&mut data[at..end]) };
            at = end;
        }
    }
    data
}

/// Copies data into the memory of a bio that the cache has, as much as there is room for.
pub(super) fn fill(bio: &mut Bio, data: &[u8]) {
    if !bio.is_from_device() {
        return;
    }
    let mut at = 0;
    for segment in bio.segments() {
        let piece = segment.slice(0, segment.len().min((data.len() - at) as u32));
        let end = at + piece.len() as usize;
        // SAFETY: the cache has the bio, which has not completed, and it takes data from the device: its memory is valid
        // for writes, and no device has it, because devices get copies of commands' data.
        unsafe { piece.copy_from(&data[at..end]) };
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Bytes of a mapping that the system has given.
    fn resident(mapping: &Mapping) -> usize {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (start, end) = (mapping.start.as_ptr() as usize, mapping.start.as_ptr() as usize + mapping.bytes);
        let (mut is_ours, mut kib) = (false, 0);
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            if let Some((from, to)) = range.filter(|(from, _)| !from.is_empty()) {
                let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
                is_ours = number(from) < end && start < number(to);
            } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| is_ours) {
                kib += size.trim().trim_end_matches(" kB").parse::<usize>().unwrap();
            }
        }
        kib << 10
    }

    #[test]
    fn a_table_takes_memory_where_it_was_accessed() {
        let table = Table::<AtomicU32>::new(64 << 20).unwrap();
        assert_eq!(table.len(), 64 << 20);
        assert_eq!(resident(&table.mapping), 0);
        table[5].store(7, Ordering::Relaxed);
        assert_eq!(table.last().unwrap().load(Ordering::Relaxed), 0);
        assert!((4096..=2 * LARGE_PAGE).contains(&resident(&table.mapping)));
        assert_eq!(table[5].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn populating_a_range_gives_its_memory_and_changes_nothing() {
        let mut mapping = Mapping::new(16 * LARGE_PAGE).unwrap();
        assert_eq!(mapping.start().as_ptr() as usize % LARGE_PAGE, 0);
        // SAFETY: in the mapping, which is the test's own.
        unsafe { mapping.start().as_ptr().add(LARGE_PAGE).write(9) };
        match mapping.populate(LARGE_PAGE..3 * LARGE_PAGE) {
            Ok(()) => assert!((2 * LARGE_PAGE..16 * LARGE_PAGE).contains(&resident(&mapping))),
            Err(error) => assert_eq!(error, Errno::INVAL),
        }
        // SAFETY: as above.
        assert_eq!(unsafe { mapping.start().as_ptr().add(LARGE_PAGE).read() }, 9);
        // A range behind the end is cut.
        let _ = mapping.populate(15 * LARGE_PAGE..99 * LARGE_PAGE);
        mapping.touch(16 * LARGE_PAGE);
        assert_eq!(resident(&mapping), 16 * LARGE_PAGE);
        assert_eq!(mapping.populate_first(16 * LARGE_PAGE), Ok(()));
    }

    #[test]
    fn memory_that_was_given_back_is_zero_and_the_rest_stays() {
        let mut mapping = Mapping::new(8 * LARGE_PAGE).unwrap();
        mapping.touch(8 * LARGE_PAGE);
        let at = |page: usize| mapping.start().as_ptr().wrapping_add(page * SMALL_PAGE);
        // SAFETY: in the mapping, which is the test's own.
        (0..4096).for_each(|page| unsafe { at(page).write(page as u8 | 1) });
        // A range that is not of whole pages: those that it has a part of stay.
        mapping.give_back(LARGE_PAGE - 1..3 * LARGE_PAGE + 1);
        assert_eq!(resident(&mapping), 6 * LARGE_PAGE);
        for page in 0..4096 {
            let expected = if (512..3 * 512).contains(&page) { 0 } else { page as u8 | 1 };
            // SAFETY: as above.
            assert_eq!(unsafe { at(page).read() }, expected, "page {page}");
        }
    }

    #[test]
    fn a_list_takes_memory_for_the_entries_that_it_had() {
        let mut rows = Rows::<[u32; 3]>::new(64 << 20).unwrap();
        assert!(rows.is_empty() && resident(&rows.mapping) == 0);
        rows.push([1, 2, 3]);
        rows.grow(3, [7; 3]);
        rows[1][2] = 8;
        assert_eq!(*rows, [[1, 2, 3], [7, 7, 8], [7; 3]]);
        rows.pop();
        rows.grow(1, [9; 3]);
        assert_eq!(*rows, [[1, 2, 3], [7, 7, 8]]);
        assert!((4096..=LARGE_PAGE).contains(&resident(&rows.mapping)));
        let mut none = Rows::<u32>::new(0).unwrap();
        none.pop();
        assert!(none.is_empty());
    }

    #[test]
    #[should_panic(expected = "at most 2 entries")]
    fn a_list_has_no_more_entries_than_room() {
        Rows::<u32>::new(2).unwrap().grow(3, 0);
    }

    /// Opening a cache with a large `max_size` must not need the memory.
    #[test]
    fn more_can_be_mapped_than_the_machine_has() {
        let mode = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap();
        if mode.trim() == "2" {
            // The system counts every address that is mapped.
            return;
        }
        let most = 8 << 40;
        assert!(Mapping::new(most).is_some());
        assert!(Rows::<[u64; 2]>::new(most / 16).is_some());
        assert!(Table::<u32>::new(most / 4).is_some());
    }

    #[test]
    fn a_mapping_that_cannot_be_is_refused() {
        assert!(Mapping::new(usize::MAX).is_none());
        assert!(Mapping::new(1 << 60).is_none());
        assert!(Table::<AtomicU32>::new(usize::MAX / 2).is_none());
        assert!(Table::<AtomicU32>::new(0).unwrap().is_empty());
    }
}
