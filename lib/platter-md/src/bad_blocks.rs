//! The list of bad blocks of a member: places that could not be written, so that what is there is not the array's.
//!
//! Source: `struct md_rdev`'s list in Linux 6.12 (`md_p.h`, `md.c`).

use crate::bytes::u64_at;
use crate::superblock::SECTOR;

/// A range of a device, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BadRange {
    /// First byte, counted from the start of the device.
    pub start: u64,
    /// Byte past the last.
    pub end: u64,
}

/// Parses the sectors of a list. `shift` is the unit of its entries, as a power of two of sectors. The ranges are sorted and
/// do not touch.
///
/// # Errors
/// An entry without length or with an end beyond 2^63 bytes; a unit that is too large.
pub fn parse(bytes: &[u8], shift: u8) -> Result<Vec<BadRange>, String> {
    if shift > 32 {
        return Err(format!(
            "the unit of the bad-block list is 2^{shift} sectors; at most 2^32 are possible"
        ));
    }
    let mut ranges: Vec<BadRange> = Vec::new();
    for at in (0..bytes.len() / 8 * 8).step_by(8) {
        let entry = u64_at(bytes, at);
        if entry == u64::MAX {
            break;
        }
        let (start, len) = (entry >> 10, entry & 0x3ff);
        if len == 0 {
            return Err(format!(
                "entry {} of the bad-block list has no length; 1 to 1023 are possible",
                at / 8
            ));
        }
        let in_bytes = |units: u64| (u128::from(units) << shift) * u128::from(SECTOR);
        let (start, end) = (in_bytes(start), in_bytes(start + len));
        if end > 1 << 63 {
            return Err(format!(
                "entry {} of the bad-block list ends at byte {end}; at most 2^63 is possible",
                at / 8
            ));
        }
        ranges.push(BadRange { start: start as u64, end: end as u64 });
    }
    Ok(merge(ranges))
}

/// Sorted, without ranges that overlap or touch.
fn merge(mut ranges: Vec<BadRange>) -> Vec<BadRange> {
    ranges.sort_unstable();
    let mut merged: Vec<BadRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Whether `pos` is in one of the ranges, and how far from there that does not change.
pub fn at(ranges: &[BadRange], pos: u64) -> (bool, u64) {
    let next = ranges.partition_point(|range| range.end <= pos);
    match ranges.get(next) {
        None => (false, u64::MAX - pos),
        Some(range) if range.start > pos => (false, range.start - pos),
        Some(range) => (true, range.end - pos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[u64]) -> Vec<u8> {
        entries.iter().flat_map(|entry| entry.to_le_bytes()).collect()
    }

    #[test]
    fn entries_are_sectors_of_the_device_up_to_the_first_of_all_ones() {
        let bytes = list(&[100 << 10 | 8, 16 << 10 | 2, 18 << 10 | 1, u64::MAX, 5 << 10 | 1]);
        let sectors = |start: u64, end: u64| BadRange { start: start * 512, end: end * 512 };
        let ranges = parse(&bytes, 0).unwrap();
        assert_eq!(ranges, [sectors(16, 19), sectors(100, 108)]);
        assert_eq!(parse(&bytes, 3).unwrap(), [sectors(128, 152), sectors(800, 864)]);
        assert_eq!(at(&ranges, 0), (false, 16 * 512));
        assert_eq!(at(&ranges, 16 * 512), (true, 3 * 512));
        assert_eq!(at(&ranges, 19 * 512 - 1), (true, 1));
        assert_eq!(at(&ranges, 19 * 512), (false, 81 * 512));
        assert_eq!(at(&ranges, 108 * 512), (false, u64::MAX - 108 * 512));
    }

    #[test]
    fn impossible_entries_are_named() {
        let said = parse(&list(&[1 << 10 | 1, 7 << 10]), 0).unwrap_err();
        assert!(said.contains("entry 1") && said.contains("no length"), "{said}");
        let said = parse(&list(&[u64::MAX - 1]), 9).unwrap_err();
        assert!(said.contains("entry 0") && said.contains("2^63"), "{said}");
        assert!(parse(&[], 33).unwrap_err().contains("2^33"));
        assert_eq!(parse(&[], 0), Ok(Vec::new()));
    }
}
