//! Contents of sectors that show which write they are from.

/// Bytes of a sector.
pub(crate) const SECTOR: usize = 512;

/// The version of contents that are not from any write.
const SPOILT: u64 = u64::MAX;

fn word(version: u64, sector: u64, index: u64) -> u64 {
    match index {
        0 => version,
        1 => sector,
        _ => (version ^ sector.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index),
    }
}

/// The contents of sectors from `first` on as written by one write.
pub(crate) fn sectors(version: u64, first: u64, count: u64) -> Vec<u8> {
    let mut data = vec![0; count as usize * SECTOR];
    for (sector, piece) in (first..).zip(data.chunks_exact_mut(SECTOR)) {
        for (index, place) in (0..).zip(piece.chunks_exact_mut(8)) {
            place.copy_from_slice(&word(version, sector, index).to_le_bytes());
        }
    }
    data
}

/// The version in a sector: 0 for zeroes, [`SPOILT`] for contents that are not from any write of that sector.
pub(crate) fn version_of(data: &[u8], sector: u64) -> u64 {
    let words = || data.chunks_exact(8).map(|piece| u64::from_le_bytes(piece.try_into().unwrap()));
    let version = words().next().unwrap_or(SPOILT);
    let is_from = |version| (0..).zip(words()).all(|(index, found)| found == word(version, sector, index));
    match version {
        0 if words().all(|word| word == 0) => 0,
        1.. if is_from(version) => version,
        _ => SPOILT,
    }
}

/// The versions of sectors from `first` on.
pub(crate) fn versions(data: &[u8], first: u64) -> Vec<u64> {
    (first..).zip(data.chunks(SECTOR)).map(|(at, piece)| version_of(piece, at)).collect()
}
