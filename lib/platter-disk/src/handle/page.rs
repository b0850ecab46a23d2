//! Pages by reference: data in a cache, read in place.

use super::Handle;
use platter_block::bio::Op;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::resident::PAGE;
use platter_block::resident::{Pinned, Resident};
use std::ops::Deref;

/// How often a page is read again if it is evicted before it could be pinned.
const TRIES: u32 = 16;

/// A pinned page of the device's cache: a read without a copy. Its bytes do not change until it is dropped, and until
/// then the cache keeps a frame for it, so hold only a few pages and not for long. A write to the page may have to
/// wait for the drop: do not write to a page through the device while the same thread holds it. It may be sent to other
/// threads, so that a future can hold it across an await.
///
/// ```
/// fn can_be_sent<T: Send + Sync>() {}
/// can_be_sent::<platter_disk::handle::PageRef<'static>>();
/// ```
pub struct PageRef<'a> {
    resident: &'a dyn Resident,
    pinned: Pinned,
    pos: u64,
}

// SAFETY: a pinned page is read from any thread, and unpinned once, by the drop, from any thread: a `Resident` is `Sync`, and
// what it promises of a pinned page names no thread.
unsafe impl Send for PageRef<'_> {}
// SAFETY: as above; a shared reference gives nothing but the bytes, which do not change.
unsafe impl Sync for PageRef<'_> {}

impl PageRef<'_> {
    /// Offset of the page on the device, in bytes.
    pub fn pos(&self) -> u64 {
        self.pos
    }
}

impl Deref for PageRef<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `Resident::pin` returned this page; its bytes are valid and unchanging until `unpin`, which the
        // drop of this reference calls, and while the cache lives, which the borrowed handle keeps alive.
        unsafe { std::slice::from_raw_parts(self.pinned.data.as_ptr(), self.pinned.len as usize) }
    }
}

impl Drop for PageRef<'_> {
    fn drop(&mut self) {
        // SAFETY: the page was pinned for this reference, which is not used after this.
        unsafe { self.resident.unpin(self.pinned.frame) }
    }
}

impl std::fmt::Debug for PageRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageRef({} bytes at {})", self.pinned.len, self.pos)
    }
}

/// Memory for a page that has to be read first. Its contents are not used: the cache keeps its own copy.
#[repr(align(4096))]
struct Scratch([u8; PAGE as usize]);

impl Handle {
    /// The page of the device's cache that contains the byte at `pos`, by reference. If it is not cached, it is read
    /// first.
    ///
    /// ```
    /// # use platter_disk::device::Device;
    /// let handle = Device::ram(1 << 20)?.handle();
    /// let error = handle.page(0).expect_err("a disk in memory has no cache");
    /// assert!(error.to_string().contains("put cache(…) on top"));
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device has no cache on top, or one whose readahead policy follows every page ([`Kind::Unsupported`]); the
    /// position lies past the end, the read of the page fails, or the page is evicted again and again before it can be
    /// pinned ([`Kind::NoMemory`]).
    pub fn page(&self, pos: u64) -> Result<PageRef<'_>, Error> {
        let device = &self.device;
        let start = pos - pos % PAGE;
        let fail = |kind, detail: &str| {
            Err(device.error(Fault::new(kind, Stage::Handle), Op::Read, start, PAGE, detail.to_string()))
        };
        let Some(resident) = device.inner.resident.as_deref() else {
            return fail(Kind::Unsupported, "only a cache has pages to reference; put cache(…) on top");
        };
        if pos >= device.size() {
            return fail(Kind::OutOfRange, "");
        }
        for _ in 0..TRIES {
            if let Some(pinned) = resident.pin(pos) {
                return Ok(PageRef { resident, pinned, pos: start });
            }
            let mut scratch = Scratch([0; PAGE as usize]);
            let len = (device.size() - start).min(PAGE) as usize;
            device.read_by_bio(&mut scratch.0[..len], start)?;
        }
        fail(Kind::NoMemory, "the page is evicted before it can be held; give the cache a larger size")
    }
}
