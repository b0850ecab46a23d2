//! Reads the memory of bios that a layer has.

#![allow(unsafe_code)]

use platter_block::bio::Bio;

/// Bytes that are copied at a time.
const STEP: usize = 4096;

/// Appends the CRC32C of each whole `unit` of the first `len` bytes of a bio's memory, starting with its
/// first segment.
///
/// # Safety
/// The bio has been submitted and has not completed, the caller has it, and no driver has it.
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
            // SAFETY: the memory is valid until the bio completes. Only a driver may write to it, and by this
            // function's contract no driver has the bio.
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
