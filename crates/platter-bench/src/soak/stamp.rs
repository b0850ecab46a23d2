//! Contents of sectors that say which write brought them.

/// Bytes of a sector.
pub(super) const SECTOR: usize = 512;

/// Contents that no write brought.
pub(super) const SPOILT: u64 = u64::MAX;

const WORDS: usize = SECTOR / 8;

fn word(version: u64, sector: u64, index: usize) -> u64 {
    match index {
        0 => version,
        1 => sector,
        _ => {
            (version ^ sector.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64)
        }
    }
}

/// Fills one sector.
pub(super) fn fill(out: &mut [u8], version: u64, sector: u64) {
    for (index, piece) in out.chunks_exact_mut(8).take(WORDS).enumerate() {
        piece.copy_from_slice(&word(version, sector, index).to_le_bytes());
    }
}

/// Which version a sector holds: 0 for zeroes, [`SPOILT`] for what no write brought there.
pub(super) fn version_of(data: &[u8], sector: u64) -> u64 {
    let words = || data.chunks_exact(8).map(|piece| piece.try_into().map_or(0, u64::from_le_bytes));
    if words().all(|word| word == 0) {
        return 0;
    }
    let version = words().next().unwrap_or(0);
    let whole = words().enumerate().all(|(index, found)| found == word(version, sector, index));
    if whole && version != 0 { version } else { SPOILT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_tells_its_version_and_whether_it_is_whole_and_in_place() {
        let mut data = vec![0; SECTOR];
        assert_eq!(version_of(&data, 3), 0);
        fill(&mut data, 7, 3);
        assert_eq!((version_of(&data, 3), version_of(&data, 4)), (7, SPOILT));
        data[500] ^= 1;
        assert_eq!(version_of(&data, 3), SPOILT);
    }
}
