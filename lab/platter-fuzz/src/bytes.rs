//! Mutations of bytes that do not depend on the format.

use crate::rng::Rng;

/// Most bytes of a mutated input.
pub const MAX_LEN: usize = 1 << 18;

/// Applies a random mutation. `other` is an input to copy a piece from.
pub fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    if bytes.is_empty() {
        bytes.extend(other.iter().take(MAX_LEN));
        return;
    }
    let at = rng.index(bytes.len());
    let len = (1 + rng.extreme(12) as usize).min(bytes.len() - at);
    match rng.below(9) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = rng.any() as u8,
        2 | 3 => set_number(rng, bytes),
        4 => bytes.truncate(at),
        5 => drop(bytes.drain(at..at + len)),
        6 => {
            let value = *rng.pick(&[0, 0xff, b' ', b'0', 0x80]);
            bytes[at..at + len].fill(value);
        }
        7 => {
            let piece = bytes[at..at + len].to_vec();
            insert(bytes, at, &piece);
        }
        _ if !other.is_empty() => {
            let from = rng.index(other.len());
            let piece = &other[from..(from + len).min(other.len())];
            if rng.one_in(2) {
                insert(bytes, at, piece);
            } else {
                overwrite(bytes, at, piece);
            }
        }
        _ => {}
    }
}

/// Sets a number of 1, 2, 4 or 8 bytes, mostly at a multiple of its size, to an extreme one.
pub fn set_number(rng: &mut Rng, bytes: &mut [u8]) {
    if bytes.is_empty() {
        return;
    }
    let size = *rng.pick(&[1usize, 2, 4, 4, 8, 8]);
    let align = if rng.one_in(8) { 1 } else { size };
    let at = rng.index(bytes.len()) / align * align;
    let number = rng.extreme(size as u32 * 8);
    let number = if rng.one_in(8) { number.to_be_bytes() } else { number.to_le_bytes() };
    overwrite(bytes, at, &number[..size]);
}

/// Overwrites the bytes at `at` with `piece`, up to the end of `bytes`.
pub fn overwrite(bytes: &mut [u8], at: usize, piece: &[u8]) {
    let end = bytes.len().min(at + piece.len());
    if at < end {
        bytes[at..end].copy_from_slice(&piece[..end - at]);
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    if bytes.len() + piece.len() <= MAX_LEN {
        bytes.splice(at..at, piece.iter().copied());
    }
}

/// The number of four bytes at `at`; 0 past the end.
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |field| u32::from_le_bytes([field[0], field[1], field[2], field[3]]))
}

/// The number of eight bytes at `at`; 0 past the end.
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_keep_within_bounds_and_change_something() {
        let mut rng = Rng::of(3, "bytes", 0);
        let other: Vec<u8> = (0..=255).collect();
        let mut changed = 0;
        for _ in 0..5000 {
            let before: Vec<u8> = other[..rng.index(200)].to_vec();
            let mut bytes = before.clone();
            mutate(&mut rng, &mut bytes, &other);
            assert!(bytes.len() <= MAX_LEN);
            changed += usize::from(bytes != before);
        }
        assert!(changed > 4000, "{changed}");
    }
}
