//! The part of a device that is cached in memory, from which reads are answered without a lane.

use crate::bio::Bio;
use core::ptr::NonNull;

/// Bytes of a page of a cache.
pub const PAGE: u64 = 4096;

/// The part of a device that is cached in memory.
///
/// Devices and handles ask here first: a call that can be answered at once never becomes a bio, and a future needs no lane. Any
/// number of threads may ask at the same time; no call blocks on I/O. Positions are bytes from the start of the device.
///
/// # Safety
/// An implementation promises that
/// - [`read`](Resident::read) writes to no memory but `out`, and [`read_bio`](Resident::read_bio) to none but that of a bio whose
///   operation is a read;
/// - the bytes that [`pin`](Resident::pin) returns are valid for reads and nothing writes to them, from when it
///   returns until [`unpin`](Resident::unpin) has been called as often for that frame as `pin` returned it, or
///   until the `Resident` is dropped if that comes first. Writes to the device during that time must wait or go to
///   another frame.
pub unsafe trait Resident: Send + Sync {
    /// Copies the bytes at `pos` to all of `out` if all are cached, with the result of a read bio that is
    /// submitted now and completes at once. `false`: they are not cached and a bio is needed; `out` may have been
    /// partly written. The range lies within the device.
    fn read(&self, pos: u64, out: &mut [u8]) -> bool;

    /// Copies all that a bio asks for to its memory, with the result of a bio that completes at once, if all is cached and no barrier
    /// is under way. `false`: a lane has to carry the bio out, or it is no read; it is as it was, but for its memory, which
    /// may have been partly written. The caller has checked the bio, of which nothing has been done, and which is no barrier and
    /// flushes nothing.
    fn read_bio(&self, bio: &mut Bio) -> bool {
        let _ = bio;
        false
    }

    /// Pins the page with the byte at `pos`, if it is cached.
    fn pin(&self, pos: u64) -> Option<Pinned>;

    /// Unpins a page that [`pin`](Resident::pin) returned, by its frame.
    ///
    /// # Safety
    /// `pin` returned that frame to the caller, which has not unpinned it since and uses its bytes no more.
    unsafe fn unpin(&self, frame: u32);
}

/// A page that keeps its address and contents while it is pinned.
#[derive(Clone, Copy, Debug)]
pub struct Pinned {
    /// The first byte of the page.
    pub data: NonNull<u8>,
    /// Bytes of the page. The last one of a device may be short.
    pub len: u32,
    /// The cache's frame that holds it, for [`Resident::unpin`].
    pub frame: u32,
}
