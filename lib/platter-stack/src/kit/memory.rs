//! Memory of a layer's own I/Os, and copies between it and the memory of bios.

#![allow(unsafe_code)]

use platter_block::bio::{Bio, Op};
use platter_block::buf::{IoBuf, IoBufMut, add_memory};
use platter_block::fault::Fault;
use platter_block::segment::RegionId;
use std::sync::Arc;

/// Alignment of buffers in bytes, the strictest that devices require.
const ALIGN: usize = 4096;

/// Zeroed memory for one I/O, aligned as every device accepts it. The I/O owns it until it has completed; it is lost to
/// the layer if the I/O times out, and is freed when the device returns it.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` bytes.
    pub fn new(len: usize) -> Buffer {
        let memory = vec![0u8; len + ALIGN];
        let start = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Buffer { memory, start, len }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }

    /// Its bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }
}

// SAFETY: the vector's memory stays where it is while the buffer is moved, is exclusively owned and never grows.
unsafe impl IoBuf for Buffer {
    const IS_FOREIGN: bool = false;

    fn byte_len(&self) -> usize {
        self.len
    }

    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        let len = self.len;
        // SAFETY: the buffer goes into the bio's owner next to the segments and is not touched meanwhile.
        unsafe { add_memory(bio, self.bytes_mut().as_mut_ptr(), len, RegionId::NONE) }
    }
}

// SAFETY: all bytes of the vector are initialised, and any byte is a valid `u8`.
unsafe impl IoBufMut for Buffer {}

/// Memory that several I/Os write to devices, each with a share of it. It does not change any more, and is freed when the last
/// of them has come back, also if their task is long over.
#[derive(Clone)]
pub struct Shared(Arc<Buffer>);

impl From<Buffer> for Shared {
    fn from(buffer: Buffer) -> Shared {
        Shared(Arc::new(buffer))
    }
}

impl Shared {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

// SAFETY: the memory stays where it is as long as there is a share of it, and no share lets it be changed.
unsafe impl IoBuf for Shared {
    const IS_FOREIGN: bool = false;

    fn byte_len(&self) -> usize {
        self.0.len
    }

    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        let bytes = self.0.bytes();
        // SAFETY: the share goes into the bio's owner next to the segments. It is not `IoBufMut`, so it is only read.
        unsafe { add_memory(bio, bytes.as_ptr().cast_mut(), bytes.len(), RegionId::NONE) }
    }
}

/// Calls `each` with the parts of a bio's remaining memory from byte `skip` on, each with its place in the range of `len`
/// bytes. Returns whether the bio has that much memory.
fn each_piece(
    bio: &Bio,
    skip: u64,
    len: usize,
    mut each: impl FnMut(platter_block::segment::Segment, usize),
) -> bool {
    let (mut skip, mut at) = (skip, 0);
    for segment in bio.segments() {
        let past = skip.min(u64::from(segment.len()));
        skip -= past;
        let piece = segment.slice(past as u32, u32::try_from(len - at).unwrap_or(u32::MAX));
        if !piece.is_empty() {
            each(piece, at);
            at += piece.len() as usize;
        }
        if at == len {
            return true;
        }
    }
    len == 0
}

/// Copies from the memory of a bio that writes, from its byte `skip` on. Returns whether it has that much memory.
///
/// # Safety
/// The bio has been submitted to a layer and has not completed, and the layer has it.
pub(super) unsafe fn copy_out(bio: &Bio, skip: u64, out: &mut [u8]) -> bool {
    debug_assert!(bio.op() == Op::Write);
    // SAFETY: the memory is valid for reads until the bio completes; drivers too only read the memory of a write.
    each_piece(bio, skip, out.len(), |piece, at| unsafe {
        piece.copy_to(&mut out[at..][..piece.len() as usize])
    })
}

/// Copies to the memory of a bio that reads, from its byte `skip` on. Returns whether it has that much memory.
///
/// # Safety
/// As for `copy_out`, and no driver has a part of the bio.
pub(super) unsafe fn copy_in(bio: &Bio, skip: u64, data: &[u8]) -> bool {
    debug_assert!(bio.op() == Op::Read);
    // SAFETY: the memory is valid for writes until the bio completes, and no driver uses it.
    each_piece(bio, skip, data.len(), |piece, at| unsafe {
        piece.copy_from(&data[at..][..piece.len() as usize])
    })
}

/// Sets `into` to the exclusive or of itself and `from`, as parity does.
///
/// # Panics
/// If the lengths differ.
pub fn xor(into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len(), "xor of buffers of different lengths");
    into.iter_mut().zip(from).for_each(|(to, from)| *to ^= from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_between_a_vector_and_a_buffer() {
        let mut buffer = Buffer::new(1000);
        assert_eq!((buffer.bytes().as_ptr().addr() % ALIGN, buffer.bytes().len()), (0, 1000));
        let parts: Vec<Vec<u8>> = vec![vec![1; 300], vec![2; 500], vec![3; 224]];
        let bio = Bio::write(0, parts).unwrap();
        // SAFETY: the bio owns its memory, and no driver has it.
        assert!(unsafe { copy_out(&bio, 24, buffer.bytes_mut()) });
        let expected = [vec![1; 276], vec![2; 500], vec![3; 224]].concat();
        assert_eq!(buffer.bytes(), &expected[..]);
        // SAFETY: as above.
        assert!(!unsafe { copy_out(&bio, 25, buffer.bytes_mut()) }, "one byte too many");
        let mut bio = Bio::read(0, vec![vec![0u8; 3], vec![0u8; 4]]).unwrap();
        // SAFETY: as above.
        assert!(unsafe { copy_in(&bio, 2, &[7, 8, 9]) });
        assert_eq!(bio.take_buffer::<Vec<Vec<u8>>>().unwrap(), [vec![0, 0, 7], vec![8, 9, 0, 0]]);
    }

    #[test]
    fn xor_twice_is_the_first_again() {
        let mut sum = [0b1010u8, 3];
        xor(&mut sum, &[0b0110, 3]);
        assert_eq!(sum, [0b1100, 0]);
    }
}
