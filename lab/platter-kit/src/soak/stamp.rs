//! Contents of sectors that identify the write that wrote them.

/// Bytes of a sector.
pub(super) const SECTOR: usize = 512;

/// Contents that no write wrote.
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

fn words(data: &[u8]) -> impl Iterator<Item = u64> {
    data.chunks_exact(8).map(|piece| piece.try_into().map_or(0, u64::from_le_bytes))
}

/// Fills one sector.
pub(super) fn fill(out: &mut [u8], version: u64, sector: u64) {
    for (index, piece) in out.chunks_exact_mut(8).take(WORDS).enumerate() {
        piece.copy_from_slice(&word(version, sector, index).to_le_bytes());
    }
}

/// The contents of `count` sectors that one write brings.
pub(super) fn contents(version: u64, sector: u64, count: u64) -> Vec<u8> {
    let mut data = vec![0; count as usize * SECTOR];
    (sector..).zip(data.chunks_mut(SECTOR)).for_each(|(at, piece)| fill(piece, version, at));
    data
}

/// The version and the place that the contents of a sector name, if they are whole.
pub(super) fn parse(data: &[u8]) -> Option<(u64, u64)> {
    let (version, sector) = (words(data).next()?, words(data).nth(1)?);
    let whole = words(data).enumerate().all(|(index, found)| found == word(version, sector, index));
    (whole && version != 0).then_some((version, sector))
}

/// Which version a sector holds: 0 for zeroes, [`SPOILT`] for what no write brought there.
pub(super) fn version_of(data: &[u8], sector: u64) -> u64 {
    match parse(data) {
        Some((version, at)) if at == sector => version,
        None if data.iter().all(|&byte| byte == 0) => 0,
        _ => SPOILT,
    }
}

/// The versions of the sectors from `sector` on.
pub(super) fn versions(data: &[u8], sector: u64) -> Vec<u64> {
    (sector..).zip(data.chunks(SECTOR)).map(|(at, piece)| version_of(piece, at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_tells_its_version_and_whether_it_is_whole_and_in_place() {
        let mut data = vec![0; SECTOR];
        assert_eq!((version_of(&data, 3), parse(&data)), (0, None));
        fill(&mut data, 7, 3);
        assert_eq!((version_of(&data, 3), version_of(&data, 4), parse(&data)), (7, SPOILT, Some((7, 3))));
        data[500] ^= 1;
        assert_eq!((version_of(&data, 3), parse(&data)), (SPOILT, None));
        assert_eq!(versions(&contents(9, 5, 3), 5), [9; 3]);
    }
}
