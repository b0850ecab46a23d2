//! Streams of reads at a fixed distance (strided), forwards or backwards.

use super::{Bounds, pos_of};
use crate::readahead::common::Common;
use crate::readahead::{Access, PAGE, Pages};

/// Most reads ahead that are separate I/Os.
const MOST: u32 = 32;

/// A stream of reads at a fixed distance.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    /// First byte of the read at which it was found.
    origin: u64,
    /// First byte of the first read that is not read ahead.
    next: u64,
    /// Distance from one read to the next, in bytes; negative: backwards.
    step: i64,
    /// Bytes of each read.
    len: u64,
    /// Number of reads in the last window.
    reads: u32,
    /// The page with the marker.
    pub(super) mark: Option<u64>,
}

impl Steps {
    /// Starts a stream at the missing `page` of a read.
    pub(super) fn begin(
        access: Access,
        page: u64,
        step: i64,
        bounds: &Bounds,
        pages: &mut dyn Pages,
        common: &mut Common,
    ) -> Steps {
        let origin = pos_of(&access);
        let mut stream = Steps { origin, next: origin, step, len: access.len, reads: 1, mark: None };
        if stream.is_dense(bounds) {
            stream.reads = stream.reads_in(bounds.first / 2, bounds);
        }
        stream.resume(access, page, bounds, pages, common);
        stream
    }

    /// Whether a read is the next of this stream.
    pub(super) fn takes(&self, access: &Access) -> bool {
        pos_of(access) == self.next
    }

    /// First and last page at which a read begins that it [takes](Steps::takes) or that [goes on](Steps::goes_on).
    pub(super) fn range(&self) -> (u64, u64) {
        let (low, high) = (self.origin.min(self.next), self.origin.max(self.next));
        (low / PAGE, high.saturating_add(self.len) / PAGE)
    }

    /// Whether a read continues where a read of this stream that was read ahead ended.
    pub(super) fn goes_on(&self, access: &Access) -> bool {
        let (Some(end), size) = (pos_of(access).checked_sub(self.len), self.step.unsigned_abs()) else {
            return false;
        };
        // Most reads are elsewhere, and need no division.
        let (way, total) = match self.step > 0 {
            true => (end.checked_sub(self.origin), self.next.saturating_sub(self.origin)),
            false => (self.origin.checked_sub(end), self.origin.saturating_sub(self.next)),
        };
        way.is_some_and(|way| way < total && way % size == 0 && way / size < total / size)
    }

    /// Reads that it takes or that go on, for tests.
    #[cfg(test)]
    pub(super) fn expected(&self) -> [(u64, u64); 3] {
        [
            (self.next, self.len),
            (self.origin + self.len, self.len),
            (self.next.saturating_sub(self.step.unsigned_abs()) + self.len, 512),
        ]
    }

    /// Whether the pages between reads are read too.
    fn is_dense(&self, bounds: &Bounds) -> bool {
        self.step.unsigned_abs().saturating_sub(self.len) / PAGE <= u64::from(bounds.gap)
    }

    /// Number of reads in a window of `pages`, at least 1.
    fn reads_in(&self, pages: u32, bounds: &Bounds) -> u32 {
        let bytes = match self.is_dense(bounds) {
            true => self.step.unsigned_abs(),
            false => self.len.div_ceil(PAGE).saturating_mul(PAGE),
        };
        u32::try_from(u64::from(pages) * PAGE / bytes.max(1)).unwrap_or(u32::MAX).max(1)
    }

    /// A read of the stream is missing from `page` on: reads it, and a window behind it.
    pub(super) fn resume(
        &mut self,
        access: Access,
        page: u64,
        bounds: &Bounds,
        pages: &mut dyn Pages,
        common: &mut Common,
    ) {
        common.read(pages, (page, access.rest(page).clamp(1, super::LARGEST)), None, true);
        self.len = access.len;
        self.next = pos_of(&access);
        match self.next.checked_add_signed(self.step) {
            Some(next) => self.next = next,
            None => return,
        }
        if !pages.is_congested() {
            self.advance(bounds, pages, common);
        }
    }

    /// Reads the next window, after the marker was touched or a read of the stream was missing.
    pub(super) fn advance(&mut self, bounds: &Bounds, pages: &mut dyn Pages, common: &mut Common) {
        let dense = self.is_dense(bounds);
        let largest = if dense { bounds.optimal } else { bounds.max };
        let most = self.reads_in(largest, bounds).min(if dense { u32::MAX } else { MOST });
        self.reads = self.reads.saturating_mul(2).min(most);
        self.mark = None;
        let end = pages.end();
        let (mut low, mut high) = (u64::MAX, 0);
        for _ in 0..self.reads {
            let access = Access::new(self.next, self.len);
            if access.first >= end || access.pages > super::LARGEST {
                break;
            }
            if self.mark.is_none() {
                self.mark = pages.first_missing(access.first, access.pages);
            }
            if dense {
                (low, high) = (low.min(access.first), high.max(access.end()));
            } else {
                common.read(pages, (access.first, access.pages), self.mark, false);
            }
            match self.next.checked_add_signed(self.step) {
                Some(next) => self.next = next,
                None => break,
            }
        }
        if low < high && self.mark.is_some() {
            let count = u32::try_from(high - low).unwrap_or(u32::MAX);
            common.read(pages, (low, count), self.mark, false);
        }
    }
}
