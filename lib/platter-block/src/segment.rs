//! Segments: the pieces of memory of an I/O.
//!
//! This module holds raw addresses, so it is one of the few with `unsafe` code. The code that makes a [`Segment`]
//! promises that its memory outlives the bio that carries it; all other code only passes segments on.
//!
//! # Why the memory of an I/O is safe
//!
//! 1. `Segment::new` is unsafe: its caller guarantees that the memory stays valid, and is not used otherwise, until the
//!    bio has completed. A copy of a segment is only an address: unsafe functions alone use its memory, or add it to a
//!    bio (`Bio::extend`, `Builder::add`, `IoBuf::add_segments`). Parts of a bio get its memory from `Whole::source`,
//!    if they own a share of the whole.
//! 2. `IoBuf` is an unsafe trait: a type that implements it guarantees that its memory does not move when its handle
//!    does. The buffer is stored in the bio's `Owner` next to the segments and leaves it only with `Bio::take_buffer`,
//!    which removes the segments too.
//! 3. The bio is owned by exactly one place at a time: plug, inbox, queue, request table, done list, mailbox. It is
//!    never freed while the driver has its request, because the queue keeps it until the driver has completed the
//!    request.
//! 4. A `QueueLane` drops the driver before the queue, and dropping a driver waits until the kernel no longer uses any
//!    memory. So lanes, channels and devices can be dropped at any time.
//! 5. A dropped future leaves its bio in the queue (`AsyncLane::abandon`); the buffer is freed when the bio completes.
//! 6. Synchronous calls borrow. They return when that very bio is back (`SyncLane::run`), and filters get a `BioView`,
//!    from which it cannot be taken. A panic (of a trace sink or an elevator) aborts the process, because the device
//!    may still write to that memory.
//! 7. Registered regions are withdrawn from a lane's driver before their memory is freed; the kernel holds references
//!    to the pages.
//!
//! **Invariant:** `unsafe` is only in the modules that the test `tidy` lists with their reason, and each block has a
//! safety argument.

use core::fmt;

/// A registered memory region, or none. Drivers may know a cheaper way to use the memory of such a region (an
/// io_uring registered buffer), so the id travels with each segment through splits and merges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

impl RegionId {
    /// Memory that belongs to no registered region.
    pub const NONE: RegionId = RegionId(0);
}

/// A span of memory that drivers may register: the memory of one buffer pool.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// Unique in the process; never [`RegionId::NONE`].
    pub id: RegionId,
    /// The whole region. Stays valid until the [`Region`]'s owner has withdrawn it from every driver.
    pub memory: Segment,
}

/// A piece of memory of an I/O: address, length in bytes, region. 16 bytes on 64-bit machines.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Segment {
    addr: *mut u8,
    len: u32,
    region: RegionId,
}

/// Zeroes, with the strictest alignment that devices require.
#[repr(align(4096))]
struct Zeroes([u8; Segment::ZEROES as usize]);

static ZEROES: Zeroes = Zeroes([0; Segment::ZEROES as usize]);

/// Alignment of segments of zeroes in memory.
pub(crate) const ZEROES_ALIGN: u32 = align_of::<Zeroes>() as u32;

// SAFETY: a segment is an address and a length; it gives no access by itself. The maker promised in `Segment::new`
// that the memory may be used from any thread that completes the I/O.
unsafe impl Send for Segment {}
// SAFETY: as above; a shared segment offers nothing but its numbers.
unsafe impl Sync for Segment {}

impl Segment {
    /// A segment of no memory.
    pub const EMPTY: Segment = Segment { addr: core::ptr::null_mut(), len: 0, region: RegionId::NONE };

    /// A segment over `len` bytes at `addr`.
    ///
    /// # Safety
    /// Until the bio that carries the segment (or any bio split or cloned from it) has completed, the memory must
    /// stay valid, from any thread, for reads (bios that write to the device) or for writes (bios that read from
    /// it), and no other code may write to it or, for reads from the device, look at it.
    pub const unsafe fn new(addr: *mut u8, len: u32, region: RegionId) -> Segment {
        Segment { addr, len, region }
    }

    /// A segment of `len` zeroes, at most [`ZEROES`](Segment::ZEROES), for bios that write to the device.
    pub(crate) fn zeroes(len: u32) -> Segment {
        let addr = (&raw const ZEROES.0).cast::<u8>().cast_mut();
        // SAFETY: a static is always valid and nothing writes to it: a bio that writes to the device only reads its
        // memory. The length is limited to that of the static.
        unsafe { Segment::new(addr, len.min(Segment::ZEROES), RegionId::NONE) }
    }

    /// Length of the longest segment of zeroes.
    pub(crate) const ZEROES: u32 = 64 << 10;

    /// Address of the first byte.
    #[inline]
    pub const fn addr(&self) -> *mut u8 {
        self.addr
    }

    /// Length in bytes.
    #[inline]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether the segment covers no byte.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The registered region the memory belongs to.
    #[inline]
    pub const fn region(&self) -> RegionId {
        self.region
    }

    /// The sub-range `[skip, skip + len)`, cut at the segment's end.
    #[inline]
    pub fn slice(&self, skip: u32, len: u32) -> Segment {
        let skip = skip.min(self.len);
        Segment {
            addr: self.addr.wrapping_add(skip as usize),
            len: len.min(self.len - skip),
            region: self.region,
        }
    }

    /// Whether `next` begins in memory where this one ends, in the same region.
    #[inline]
    pub fn touches(&self, next: &Segment) -> bool {
        self.region == next.region && self.addr.wrapping_add(self.len as usize) == next.addr
    }

    /// Both segments as one, if they touch and the length still fits.
    #[inline]
    pub fn join(&self, next: &Segment) -> Option<Segment> {
        let len = self.len.checked_add(next.len)?;
        self.touches(next).then_some(Segment { addr: self.addr, len, region: self.region })
    }

    /// Copies `data` into the segment; both must have the same length.
    ///
    /// # Safety
    /// The bio that carries the segment reads from the device and is in flight with the caller.
    pub unsafe fn copy_from(&self, data: &[u8]) {
        assert_eq!(data.len(), self.len as usize);
        // SAFETY: the maker of the segment promised that its memory is valid for writes while the bio is in flight;
        // `data` is a live slice, and no other code may use the segment's memory during that time.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), self.addr, data.len()) }
    }

    /// Copies the segment into `data`; both must have the same length.
    ///
    /// # Safety
    /// The bio that carries the segment is in flight with the caller.
    pub unsafe fn copy_to(&self, data: &mut [u8]) {
        assert_eq!(data.len(), self.len as usize);
        // SAFETY: the maker of the segment promised that its memory is valid for reads while the bio is
        // in flight; `data` is a live exclusive slice, so the two cannot overlap.
        unsafe { core::ptr::copy_nonoverlapping(self.addr, data.as_mut_ptr(), data.len()) }
    }

    /// Sets every byte of the segment.
    ///
    /// # Safety
    /// As for [`Segment::copy_from`].
    pub unsafe fn fill(&self, byte: u8) {
        // SAFETY: as in `copy_from`.
        unsafe { core::ptr::write_bytes(self.addr, byte, self.len as usize) }
    }
}

/// A segment over a slice, for tests that never transfer anything.
#[cfg(test)]
pub(crate) fn of_slice(memory: &mut [u8]) -> Segment {
    Segment { addr: memory.as_mut_ptr(), len: memory.len() as u32, region: RegionId::NONE }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:p}+{}", self.addr, self.len)?;
        if self.region != RegionId::NONE {
            write!(f, "@{}", self.region.0)?;
        }
        Ok(())
    }
}
