//! Pools of aligned buffers over memory that drivers can register.

#![allow(unsafe_code)]

use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::buf::{IoBuf, IoBufMut, add_memory};
use platter_block::fault::Fault;
use platter_block::segment::{Region, RegionId, Segment};
use std::alloc::Layout;
use std::error::Error;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

mod backing;
mod free;

use backing::Backing;
pub use backing::Pages;
use free::FreeList;

/// Alignment that is sufficient for every disk: a page.
pub const PAGE: usize = 4096;

/// A fixed number of buffers of one size, in one piece of memory that is one [`Region`]. A pool does not grow, so it
/// is also a limit. Clones share the buffers.
///
/// ```
/// use platter_disk::pool::{PAGE, Pool};
///
/// let pool = Pool::new(2, 4096, PAGE)?;
/// let (first, second) = (pool.take(), pool.take());
/// assert!(first.is_some() && second.is_some() && pool.take().is_none());
/// drop(first);
/// assert!(pool.take().is_some());
/// # Ok::<(), platter_disk::pool::BadPool>(())
/// ```
#[derive(Clone)]
pub struct Pool {
    memory: Arc<Memory>,
}

/// Why a pool cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadPool(String);

impl fmt::Display for BadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for BadPool {}

struct Memory {
    backing: Backing,
    /// Bytes of all buffers.
    total: u32,
    /// Bytes of a buffer, and distance from one buffer to the next.
    size: u32,
    stride: usize,
    id: RegionId,
    free: FreeList,
}

// SAFETY: the memory is owned; each buffer's part of it is only reached through the one `PoolBuf` that the free list
// handed out for it.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Pool {
    /// A pool of `count` buffers of `size` bytes, each aligned to `align` (a power of two) and zeroed once.
    ///
    /// # Errors
    /// The count or size is 0, the alignment is not a power of two, or the total is 4 GiB or more.
    pub fn new(count: usize, size: usize, align: usize) -> Result<Pool, BadPool> {
        Pool::made(count, size, align, Backing::ordinary)
    }

    /// A pool in huge pages of 2 MiB if the system has them, else in ordinary pages ([`Pool::pages`] tells which).
    /// All of the memory, rounded up to 2 MiB, is allocated and zeroed now, which takes about a second for 4 GiB.
    ///
    /// A large pool whose buffers are used in random order has fewer TLB misses in huge pages, and is registered
    /// faster; a small pool gains nothing.
    ///
    /// ```
    /// use platter_disk::pool::{PAGE, Pages, Pool};
    ///
    /// let pool = Pool::huge(1024, 4096, PAGE)?;
    /// if pool.pages() == Pages::Ordinary {
    ///     eprintln!("no huge pages: see /sys/kernel/mm/transparent_hugepage/enabled");
    /// }
    /// # Ok::<(), platter_disk::pool::BadPool>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Pool::new`].
    pub fn huge(count: usize, size: usize, align: usize) -> Result<Pool, BadPool> {
        Pool::made(count, size, align, Backing::huge)
    }

    fn made(
        count: usize,
        size: usize,
        align: usize,
        back: impl Fn(Layout) -> Backing,
    ) -> Result<Pool, BadPool> {
        if count == 0 || size == 0 {
            return Err(BadPool(format!("a pool of {count} buffers of {size} bytes holds nothing")));
        }
        if !align.is_power_of_two() {
            return Err(BadPool(format!("a buffer alignment of {align} is not a power of two")));
        }
        let stride = size.checked_next_multiple_of(align);
        let total = stride.and_then(|stride| stride.checked_mul(count)).filter(|t| u32::try_from(*t).is_ok());
        let layout = total.and_then(|total| Layout::from_size_align(total, align).ok());
        let (Some(stride), Some(layout)) = (stride, layout) else {
            let message = format!(
                "a pool of {count} buffers of {size} bytes, aligned to {align}, is too large: give it less than \
                 4 GiB in all, or use several"
            );
            return Err(BadPool(message));
        };
        // The conversions do not truncate, since the product fits.
        let (size, total, free) = (size as u32, layout.size() as u32, FreeList::new(count as u32));
        let memory = Memory { backing: back(layout), total, size, stride, id: next_id(), free };
        Ok(Pool { memory: Arc::new(memory) })
    }

    /// A free buffer, with the contents that its last user left; `None` if all are in use.
    #[inline]
    pub fn take(&self) -> Option<PoolBuf> {
        let index = self.memory.free.pop()?;
        Some(PoolBuf { memory: Arc::clone(&self.memory), index, len: self.memory.size })
    }

    /// The kind of pages that the memory is made of.
    pub fn pages(&self) -> Pages {
        self.memory.backing.pages
    }

    /// Bytes of a buffer.
    pub fn buffer_size(&self) -> usize {
        self.memory.size as usize
    }

    /// The pool's memory, for registration with drivers. It is valid as long as the pool or one of its buffers
    /// exists; [`Pool::register`] ensures that.
    ///
    /// I/O goes to buffers of the pool; the memory as a whole cannot be given to a bio without unsafe code:
    ///
    /// ```compile_fail,E0133
    /// use platter_block::bio::{Bio, Op};
    /// use platter_disk::pool::{PAGE, Pool};
    /// let pool = Pool::new(1, 4096, PAGE)?;
    /// let all = pool.region().memory;
    /// let mine = pool.take(); // as it seems
    /// Bio::new(Op::Read, 0, 4096).push_segment(all)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn region(&self) -> Region {
        let memory = &*self.memory;
        // SAFETY: no bio carries this segment; it only describes the memory.
        let all = unsafe { Segment::new(memory.backing.base, memory.total, memory.id) };
        Region { id: memory.id, memory: all }
    }

    /// Registers the memory with all lanes of a device, which may save the kernel from looking it up for each
    /// transfer. If it cannot be registered (a driver without registration, a limit on locked memory, more than 1 GiB
    /// with io_uring), its buffers are used as ordinary memory.
    pub fn register(&self, backend: &Arc<dyn Backend>) -> Registration {
        backend.register(&self.region());
        Registration { backend: Arc::clone(backend), memory: Arc::clone(&self.memory) }
    }
}

/// The registration of a region with a device. Dropping it withdraws the region.
pub struct Registration {
    backend: Arc<dyn Backend>,
    memory: Arc<Memory>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.backend.unregister(self.memory.id);
    }
}

/// A number that no other region of the process has.
fn next_id() -> RegionId {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    RegionId(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A buffer of a [`Pool`]. Dropping it returns it to the pool.
pub struct PoolBuf {
    memory: Arc<Memory>,
    index: u32,
    len: u32,
}

impl PoolBuf {
    #[inline]
    fn addr(&self) -> *mut u8 {
        self.memory.backing.base.wrapping_add(self.index as usize * self.memory.stride)
    }

    /// Shortens the buffer; a length above the present one has no effect.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u32::try_from(len).unwrap_or(u32::MAX));
    }

    /// Gives a shortened buffer its whole length back.
    pub fn restore_len(&mut self) {
        self.len = self.memory.size;
    }

    /// Its whole length in bytes, also when it was shortened.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.memory.size as usize
    }

    /// The region that its memory belongs to.
    pub fn region(&self) -> RegionId {
        self.memory.id
    }
}

impl Deref for PoolBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes of the pool's memory, initialised when it was allocated, and exclusively this buffer's.
        unsafe { std::slice::from_raw_parts(self.addr(), self.len as usize) }
    }
}

impl DerefMut for PoolBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.addr(), self.len as usize) }
    }
}

impl Drop for PoolBuf {
    #[inline]
    fn drop(&mut self) {
        self.memory.free.push(self.index);
    }
}

impl fmt::Debug for PoolBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {} of {} bytes of region {}", self.index, self.len, self.memory.id.0)
    }
}

// SAFETY: the memory stays in place while the handle is moved, and belongs to the handle alone until it is dropped.
unsafe impl IoBuf for PoolBuf {
    fn byte_len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the handle goes into the bio next to the segments.
        unsafe { add_memory(bio, self.addr(), self.len as usize, self.memory.id) }
    }
}

// SAFETY: writable, and any byte is a valid value.
unsafe impl IoBufMut for PoolBuf {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_apart_and_fit_into_a_bio_in_place() {
        let pool = Pool::new(3, 5000, 4096).unwrap();
        let mut all: Vec<PoolBuf> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((all.len(), pool.buffer_size()), (3, 5000));
        for (i, buf) in all.iter_mut().enumerate() {
            assert_eq!((buf.as_ptr() as usize % 4096, buf.len()), (0, 5000));
            buf.fill(i as u8 + 1);
        }
        assert!(all.iter().enumerate().all(|(i, buf)| buf.iter().all(|b| *b == i as u8 + 1)));
        assert!(size_of::<PoolBuf>() <= 32);
    }

    #[test]
    fn segments_carry_the_region() {
        let pool = Pool::new(2, 4096, PAGE).unwrap();
        let other = Pool::new(1, 4096, PAGE).unwrap();
        assert_ne!(pool.region().id, other.region().id);
        let mut buf = pool.take().unwrap();
        buf.truncate(512);
        let mut bio = Bio::read(0, buf).unwrap();
        let segment = bio.single_segment().unwrap();
        assert_eq!((segment.region(), segment.len(), bio.len()), (pool.region().id, 512, 512));
        let base = pool.region().memory.addr() as usize;
        assert!((base..base + 8192).contains(&(segment.addr() as usize)));
        let mut buf = bio.take_buffer::<PoolBuf>().unwrap();
        assert_eq!((buf.len(), buf.capacity()), (512, 4096));
        buf.restore_len();
        assert_eq!(buf.len(), 4096);
        buf.truncate(512);
        drop(buf);
        // The buffer was returned at full length.
        assert_eq!(pool.take().unwrap().len(), 4096);
    }

    #[test]
    fn huge_pools_are_pools_whatever_pages_they_got() {
        for (count, size, align) in [(3, 5000, 4096), (600, 4096, 4096), (1, 1, 1), (2, 100, 4 << 20)] {
            let pool = Pool::huge(count, size, align).unwrap();
            let mut all: Vec<PoolBuf> = std::iter::from_fn(|| pool.take()).collect();
            assert_eq!(all.len(), count);
            for (i, buf) in all.iter_mut().enumerate() {
                assert_eq!((buf.as_ptr() as usize % align, buf.len()), (0, size));
                assert!(buf.iter().all(|byte| *byte == 0));
                buf.fill((i % 251) as u8 + 1);
            }
            assert!(all.iter().enumerate().all(|(i, buf)| buf.iter().all(|b| *b == (i % 251) as u8 + 1)));
            let region = pool.region().memory;
            assert!(region.len() as usize >= count * size && region.addr() == all[0].addr());
        }
        let odd = Pool::huge(2, 100, 4 << 20).unwrap();
        assert_eq!(odd.pages(), Pages::Ordinary, "an alignment above that of huge pages");
        assert!(Pool::huge(0, 1, 1).is_err());
    }

    #[test]
    fn a_buffer_outlives_its_pool() {
        let mut buf = Pool::new(1, 4096, PAGE).unwrap().take().unwrap();
        buf.fill(9);
        assert_eq!(buf[4095], 9);
    }

    #[test]
    fn pools_that_cannot_be_are_refused_with_numbers() {
        for (count, size, align, says) in [
            (0, 4096, 4096, "holds nothing"),
            (1, 0, 4096, "holds nothing"),
            (1, 1, 3, "alignment of 3"),
            (1, 1, 0, "alignment of 0"),
            (1 << 20, 1 << 20, 4096, "less than 4 GiB"),
            (usize::MAX, usize::MAX, 4096, "less than 4 GiB"),
            (1, 1, 1 << 62, "less than 4 GiB"),
        ] {
            let error = Pool::new(count, size, align).map(|_| ()).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
