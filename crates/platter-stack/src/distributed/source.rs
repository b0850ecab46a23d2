//! The memory of a bio from front to back, in pieces of any length.

use platter_block::bio::Segments;
use platter_block::segment::Segment;

/// The remaining segments of a bio.
#[derive(Clone)]
pub(super) struct Source<'a> {
    current: Segment,
    rest: Segments<'a>,
}

impl<'a> Source<'a> {
    pub(super) fn new(segments: Segments<'a>) -> Source<'a> {
        Source { current: Segment::EMPTY, rest: segments }
    }

    /// Passes over the next bytes.
    pub(super) fn skip(&mut self, mut bytes: u64) {
        while bytes > 0
            && let Some(piece) = self.next(bytes)
        {
            bytes -= u64::from(piece.len());
        }
    }

    /// The next piece, of at most `most` bytes; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self, most: u64) -> Option<Segment> {
        while self.current.is_empty() {
            self.current = self.rest.next()?;
        }
        let len = u32::try_from(most).unwrap_or(u32::MAX).min(self.current.len());
        let piece = self.current.slice(0, len);
        self.current = self.current.slice(len, u32::MAX);
        Some(piece)
    }

    /// The number of pieces in the next `bytes` bytes.
    #[inline]
    pub(super) fn pieces(&self, bytes: u64) -> usize {
        if u64::from(self.current.len()) >= bytes {
            return 1;
        }
        let (mut ahead, mut left, mut count) = (self.clone(), bytes, 0);
        while left > 0
            && let Some(piece) = ahead.next(left)
        {
            left -= u64::from(piece.len());
            count += 1;
        }
        count
    }
}
