//! Looking at the memory of bios that a layer has in its hands.

#![allow(unsafe_code)]

use platter_block::bio::Bio;

/// Bytes that are copied at a time.
const STEP: usize = 4096;

/// Appends the CRC32C of each whole `unit` of the first `len` bytes of a bio's memory, from its first segment on.
///
/// # Safety
/// The bio is with the caller between its submission and its completion, and no driver has it.
pub(super) unsafe fn checksums(bio: &Bio, unit: usize, len: u64, out: &mut Vec<u32>) {
    let mut scratch = [0u8; STEP];
    let (mut crc, mut filled, mut left) = (0, 0, len);
    for segment in bio.all_segments() {
        let mut rest = segment.slice(0, u32::try_from(left).unwrap_or(u32::MAX));
        left -= u64::from(rest.len());
        while !rest.is_empty() {
            let step = (unit - filled).min(STEP) as u32;
            let piece = rest.slice(0, step);
            rest = rest.slice(step, u32::MAX);
            let copy = &mut scratch[..piece.len() as usize];
            // SAFETY: until the bio completes its memory is valid, and nobody but a driver may write to it, which
            // by this function's contract has it not.
            unsafe { piece.copy_to(copy) };
            crc = crc32c::crc32c_append(crc, copy);
            filled += copy.len();
            if filled == unit {
                out.push(crc);
                (crc, filled) = (0, 0);
            }
        }
    }
}
