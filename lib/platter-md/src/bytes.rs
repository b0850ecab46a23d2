//! Numbers in structures. The caller has checked the length.

/// The bytes from `at` on. Zeroes where there are none.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    if let Some(source) = bytes.get(at..at + N) {
        field.copy_from_slice(source);
    }
    field
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Puts a number at `at`, if there is room for it.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(room) = bytes.get_mut(at..at + N) {
        room.copy_from_slice(&field);
    }
}
