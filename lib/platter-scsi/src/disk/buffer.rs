//! Memory of a command's data, and copies between it and the memory of requests.

#![allow(unsafe_code)]

use platter_block::bio::Bio;
use platter_block::buf::{IoBuf, IoBufMut, add_memory};
use platter_block::driver::Started;
use platter_block::fault::Fault;
use platter_block::segment::{RegionId, Segment};
use std::ops::Range;
use std::vec;
use std::vec::Vec;

/// Alignment of buffers in bytes, the strictest that devices require.
const ALIGN: usize = 4096;

/// Aligned memory, of which a bio transfers a part. The bio owns it until it has completed.
#[derive(Default)]
pub(super) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
    part: Range<usize>,
}

impl Buffer {
    /// Gives it `len` bytes; those that it has are kept, others are zeroes.
    pub(super) fn resize(&mut self, len: usize) {
        if len <= self.len || self.start + len <= self.memory.len() {
            self.len = len;
            return;
        }
        let mut memory = vec![0; len + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        if let Some(place) = memory.get_mut(start..start + self.len) {
            place.copy_from_slice(self.bytes());
        }
        (self.memory, self.start, self.len) = (memory, start, len);
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.get(self.start..self.start + self.len).unwrap_or_default()
    }

    /// Its bytes, to be changed.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.get_mut(self.start..self.start + self.len).unwrap_or_default()
    }

    /// Chooses the part that the next bio transfers. It is made to lie inside.
    pub(super) fn choose(&mut self, part: Range<usize>) {
        let end = part.end.min(self.len);
        self.part = part.start.min(end)..end;
    }
}

// SAFETY: the vector's memory stays where it is while the buffer is moved, is exclusively owned, and does not grow
// while a bio owns the buffer.
unsafe impl IoBuf for Buffer {
    const IS_FOREIGN: bool = false;

    fn byte_len(&self) -> usize {
        self.part.len()
    }

    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        let part = self.part.clone();
        let Some(memory) = self.bytes_mut().get_mut(part) else { return Ok(()) };
        // SAFETY: the buffer goes into the bio's owner next to the segments and is not touched meanwhile.
        unsafe { add_memory(bio, memory.as_mut_ptr(), memory.len(), RegionId::NONE) }
    }
}

// SAFETY: all bytes of the vector are initialised, and any byte is a valid `u8`.
unsafe impl IoBufMut for Buffer {}

/// Copies the data of a request that writes.
pub(super) fn gather(request: &Started<'_>, data: &mut [u8]) {
    let mut at = 0;
    request.for_each_segment(|segment| {
        let end = at + segment.len() as usize;
        if let Some(part) = data.get_mut(at..end) {
            // SAFETY: a driver may touch a request's memory from `queue` until it reports the completion, and this runs
            // inside `queue`; `part` is as long as the segment.
            unsafe { segment.copy_to(part) };
        }
        at = end;
    });
}

/// Copies as much of the data of a read as there is to its memory.
///
/// # Safety
/// The request that has the segments has been taken and its completion has not been reported.
pub(super) unsafe fn scatter(segments: &[Segment], data: &[u8]) {
    let mut rest = data;
    for segment in segments {
        let len = rest.len().min(segment.len() as usize);
        let (part, after) = rest.split_at(len);
        // SAFETY: by this function's contract; the slice of the segment is as long as `part`.
        unsafe { segment.slice(0, len as u32).copy_from(part) };
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_keeps_its_bytes_when_it_grows_and_lends_a_part() {
        let mut buffer = Buffer::default();
        buffer.resize(600);
        assert_eq!((buffer.bytes().len(), buffer.bytes().as_ptr().addr() % ALIGN), (600, 0));
        buffer.bytes_mut().fill(7);
        buffer.resize(10_000);
        assert!(buffer.bytes()[..600] == [7; 600] && buffer.bytes()[600..] == [0; 9400]);
        buffer.choose(512..1024);
        let mut bio = Bio::write(0, buffer).unwrap();
        assert_eq!(bio.len(), 512);
        let mut buffer = bio.take_buffer::<Buffer>().unwrap();
        buffer.resize(512);
        buffer.choose(500..9000);
        assert_eq!(buffer.byte_len(), 12);
    }

    #[test]
    fn data_is_scattered_as_far_as_it_goes() {
        let (mut one, mut two) = ([0u8; 3], [0u8; 4]);
        // SAFETY: the arrays outlive the segments, which nothing else uses.
        let segments = unsafe {
            [
                Segment::new(one.as_mut_ptr(), 3, RegionId::NONE),
                Segment::new(two.as_mut_ptr(), 4, RegionId::NONE),
            ]
        };
        // SAFETY: as above.
        unsafe { scatter(&segments, &[1, 2, 3, 4, 5]) };
        assert_eq!((one, two), ([1, 2, 3], [4, 5, 0, 0]));
    }
}
