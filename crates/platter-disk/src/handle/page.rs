//! Pages by reference: what a cache holds, read where it is.

use super::Handle;
use platter_block::bio::Op;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::readahead::PAGE;
use platter_block::resident::{Pinned, Resident};
use std::ops::Deref;

/// How often a page is read that is gone again before it could be held.
const TRIES: u32 = 16;

/// A page of the device's cache, held where it is: a read without a copy. Its bytes stay as they are until it is
/// dropped, and the cache keeps a frame for it as long, so hold few of them and not for long. A write to the page may
/// have to wait for that: do not write to a page through the device while the same thread holds it.
pub struct PageRef<'a> {
    resident: &'a dyn Resident,
    pinned: Pinned,
    pos: u64,
}

impl PageRef<'_> {
    /// Where on the device the page begins, in bytes.
    pub fn pos(&self) -> u64 {
        self.pos
    }
}

impl Deref for PageRef<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `Resident::pin` gave this page; its bytes are valid and unchanging until `unpin`, which the drop of
        // this reference calls, and as long as the cache lives, which the handle that is borrowed keeps.
        unsafe { std::slice::from_raw_parts(self.pinned.data.as_ptr(), self.pinned.len as usize) }
    }
}

impl Drop for PageRef<'_> {
    fn drop(&mut self) {
        // SAFETY: the page was pinned for this reference, which is not used any more.
        unsafe { self.resident.unpin(self.pinned.frame) }
    }
}

impl std::fmt::Debug for PageRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PageRef({} bytes at {})", self.pinned.len, self.pos)
    }
}

/// Memory for a page that has to be read first. The cache keeps its own copy; that is the one that counts.
#[repr(align(4096))]
struct Scratch([u8; PAGE as usize]);

impl Handle {
    /// The page of the device's cache that has the byte at `pos`, by reference. One that is not there is read first.
    ///
    /// ```
    /// # use platter_disk::device::Device;
    /// let handle = Device::ram(1 << 20)?.handle();
    /// let error = handle.page(0).expect_err("a disk in memory has no cache");
    /// assert!(error.to_string().contains("put cache(…) over it"));
    /// # Ok::<(), platter_block::fault::Error>(())
    /// ```
    ///
    /// # Errors
    /// A device without a cache on top ([`Kind::Unsupported`]), a position past the end, whatever the device says when
    /// the page is read; [`Kind::NoMemory`] when other pages drive it out again and again before it can be held.
    pub fn page(&self, pos: u64) -> Result<PageRef<'_>, Error> {
        let device = &self.device;
        let start = pos - pos % PAGE;
        let fail = |kind, detail: &str| {
            Err(device.error(Fault::new(kind, Stage::Handle), Op::Read, start, PAGE, detail.to_string()))
        };
        let Some(resident) = device.inner.resident.as_deref() else {
            return fail(Kind::Unsupported, "pages by reference are those of a cache; put cache(…) over it");
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
        fail(Kind::NoMemory, "the page is driven out before it can be held; give the cache a larger size")
    }
}
