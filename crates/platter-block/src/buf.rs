//! Buffers that move into a bio and come back with its result.

use crate::bio::Bio;
use crate::fault::Fault;
use crate::segment::{RegionId, Segment};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Memory that a bio can own.
///
/// # Safety
/// The segments that `add_segments` adds must stay valid, at the same addresses, while the buffer is moved
/// around and until it is dropped or lent out again; nothing else may write to them meanwhile. For buffers
/// that are also [`IoBufMut`], they are valid for writes.
pub unsafe trait IoBuf: Send + 'static {
    /// Length in bytes.
    fn byte_len(&self) -> usize;

    /// Adds the buffer's memory to a bio.
    ///
    /// # Errors
    /// More segments than a bio can hold.
    fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault>;
}

/// Memory that can be read into.
///
/// # Safety
/// The segments of the buffer are valid for writes and its bytes may take any value.
pub unsafe trait IoBufMut: IoBuf {}

/// Largest single segment: a multiple of every block size that fits `u32`.
const MAX_SEGMENT: usize = 1 << 31;

/// Adds `len` bytes at `addr` to a bio, in as many segments as the length needs.
///
/// # Errors
/// More segments than a bio can hold.
///
/// # Safety
/// As for [`Segment::new`].
pub unsafe fn add_memory(bio: &mut Bio, addr: *mut u8, len: usize, region: RegionId) -> Result<(), Fault> {
    let mut at = 0;
    while at < len {
        let step = (len - at).min(MAX_SEGMENT);
        // SAFETY: a part of the memory that the caller vouches for.
        bio.push_segment(unsafe { Segment::new(addr.wrapping_add(at), step as u32, region) })?;
        at += step;
    }
    Ok(())
}

// SAFETY: a vector's heap memory stays where it is while the vector is moved; it is exclusively owned.
unsafe impl IoBuf for Vec<u8> {
    fn byte_len(&self) -> usize {
        self.len()
    }
    fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the vector goes into the bio's owner next to the segments and is not touched meanwhile.
        unsafe { add_memory(bio, self.as_mut_ptr(), self.len(), RegionId::NONE) }
    }
}

// SAFETY: `len()` bytes of a vector are initialised and writable; any byte is a valid `u8`.
unsafe impl IoBufMut for Vec<u8> {}

// SAFETY: as for `Vec<u8>`.
unsafe impl IoBuf for Box<[u8]> {
    fn byte_len(&self) -> usize {
        self.len()
    }
    fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: as for `Vec<u8>`.
        unsafe { add_memory(bio, self.as_mut_ptr(), self.len(), RegionId::NONE) }
    }
}

// SAFETY: as for `Vec<u8>`.
unsafe impl IoBufMut for Box<[u8]> {}

// SAFETY: static memory is valid for ever; it is only offered for writing to the device.
unsafe impl IoBuf for &'static [u8] {
    fn byte_len(&self) -> usize {
        self.len()
    }
    fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: only valid for reads, which is all that an `IoBuf` that is no `IoBufMut` promises.
        unsafe { add_memory(bio, self.as_ptr().cast_mut(), self.len(), RegionId::NONE) }
    }
}

/// Several buffers as one vectored transfer.
// SAFETY: each element keeps its own promise, and the elements' memory does not move with the vector.
unsafe impl<B: IoBuf> IoBuf for Vec<B> {
    fn byte_len(&self) -> usize {
        self.iter().map(IoBuf::byte_len).sum()
    }
    fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        self.iter_mut().try_for_each(|part| part.add_segments(bio))
    }
}

// SAFETY: as above.
unsafe impl<B: IoBufMut> IoBufMut for Vec<B> {}

#[cfg(feature = "bytes")]
mod of_bytes {
    use super::{IoBuf, IoBufMut, add_memory};
    use crate::bio::Bio;
    use crate::fault::Fault;
    use crate::segment::RegionId;
    use bytes::{Bytes, BytesMut};

    // SAFETY: the bytes are reference-counted and immutable; the handle in the bio keeps them alive.
    unsafe impl IoBuf for Bytes {
        fn byte_len(&self) -> usize {
            self.len()
        }
        fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
            // SAFETY: only valid for reads, which is all that an `IoBuf` that is no `IoBufMut` promises.
            unsafe { add_memory(bio, self.as_ptr().cast_mut(), self.len(), RegionId::NONE) }
        }
    }

    // SAFETY: the handle has exclusive use of its range of the shared memory.
    unsafe impl IoBuf for BytesMut {
        fn byte_len(&self) -> usize {
            self.len()
        }
        fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
            // SAFETY: the handle goes into the bio's owner next to the segments.
            unsafe { add_memory(bio, self.as_mut_ptr(), self.len(), RegionId::NONE) }
        }
    }

    // SAFETY: `len()` bytes are initialised and exclusively owned.
    unsafe impl IoBufMut for BytesMut {}
}
