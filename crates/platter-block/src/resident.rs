//! What a device holds in memory, for handles that answer from it without a bio.

use core::ptr::NonNull;

/// The part of a device that is in memory.
///
/// A program that has a handle on the device asks here first: what can be answered at once never becomes a
/// bio. Any number of threads ask at the same time; neither call blocks on I/O. Positions are bytes from the
/// start of the device.
///
/// # Safety
/// Whoever implements it promises that
/// - [`read`](Resident::read) writes to no memory but `out`;
/// - the bytes that [`pin`](Resident::pin) gives are valid for reads and nobody writes to them, from when it
///   returns until [`unpin`](Resident::unpin) has been called as often for that frame as `pin` gave it, or
///   until the `Resident` is dropped if that comes first. A write to the device meanwhile must wait, or go to
///   another frame.
pub unsafe trait Resident: Send + Sync {
    /// Copies the bytes at `pos` to all of `out` if all are there: what a read bio would give that is submitted
    /// now and completes at once. `false`: they are not, a bio has to go; some of `out` may have been written. The
    /// range lies within the device.
    fn read(&self, pos: u64, out: &mut [u8]) -> bool;

    /// Holds on to the page with the byte at `pos`, if it is there.
    fn pin(&self, pos: u64) -> Option<Pinned>;

    /// Lets a page go that [`pin`](Resident::pin) gave, by its frame.
    ///
    /// # Safety
    /// `pin` gave the caller that frame, the caller has not let it go since, and uses its bytes no more.
    unsafe fn unpin(&self, frame: u32);
}

/// A page that stays where it is and as it is.
#[derive(Clone, Copy, Debug)]
pub struct Pinned {
    /// The first byte of the page.
    pub data: NonNull<u8>,
    /// Bytes of the page. The last one of a device may be short.
    pub len: u32,
    /// Which frame of the cache holds it, for [`Resident::unpin`].
    pub frame: u32,
}
