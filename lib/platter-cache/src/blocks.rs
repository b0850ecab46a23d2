//! Sets of the eight blocks of a page.

use super::frames::FRAME;
use std::ops::Range;

/// The blocks that a range of a page's bytes touches.
pub(super) fn blocks(range: Range<usize>) -> u8 {
    if range.is_empty() {
        return 0;
    }
    let (first, last) = (range.start / 512, (range.end - 1) / 512);
    let upto = |block: usize| (0xffu16 >> (7 - block)) as u8;
    upto(last) & !(if first == 0 { 0 } else { upto(first - 1) })
}

/// The byte ranges of runs of blocks in a page.
pub(super) fn runs(blocks: u8) -> impl Iterator<Item = Range<usize>> {
    let mut left = u32::from(blocks);
    let mut at = 0;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let skip = left.trailing_zeros();
        let len = (left >> skip).trailing_ones();
        let start = at + skip as usize * (FRAME / 8);
        at = start + len as usize * (FRAME / 8);
        left = left.checked_shr(skip + len).unwrap_or(0);
        Some(start..at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_runs_are_each_others_inverse() {
        assert_eq!(blocks(0..4096), 0xff);
        assert_eq!(blocks(512..1024), 0b10);
        assert_eq!(blocks(100..600), 0b11);
        assert_eq!(blocks(0..0), 0);
        for set in 0..=255u8 {
            let back = runs(set).fold(0, |all, run| all | blocks(run));
            assert_eq!(back, set);
        }
        assert_eq!(runs(0b1100_0101).collect::<Vec<_>>(), [0..512, 1024..1536, 3072..4096]);
    }
}
