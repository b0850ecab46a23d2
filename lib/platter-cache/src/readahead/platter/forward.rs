//! Streams that continue where they ended.

use super::Bounds;
use crate::readahead::Pages;
use crate::readahead::common::Common;

/// Smallest window ahead in pages, however many pages are lost.
const MIN: u32 = 1;
/// A window larger than `max` requires a stream this many times as long.
const LONG: u64 = 32;

/// Windows without a lost page before the next may be a page larger than the one with a loss.
const PATIENCE: u32 = 16;
/// Number of windows of cached pages after which the search for a missing page ends.
const FAR: u32 = 8;

/// A sequential stream.
#[derive(Clone, Debug)]
pub(super) struct Forward {
    /// Page at which it was found.
    begin: u64,
    /// The first page of the window before the last.
    start: u64,
    /// The page after the pages read ahead.
    end: u64,
    /// Size of the last window in pages.
    size: u32,
    /// Largest window that does not lose pages, in pages.
    cap: u32,
    /// Windows since a page was last lost.
    kept: u32,
    /// The page with the marker.
    pub(super) mark: Option<u64>,
}

impl Forward {
    /// Starts a stream at a missing page: reads the `rest` pages left of the call and `ahead` more.
    pub(super) fn begin(
        page: u64,
        rest: u32,
        ahead: u32,
        pages: &mut dyn Pages,
        common: &mut Common,
    ) -> Forward {
        let mut stream =
            Forward { begin: page, start: page, end: page, size: ahead, cap: u32::MAX, kept: 0, mark: None };
        // Large requests need as much read ahead as their size, or each of them waits.
        if ahead > 0 {
            stream.size = ahead.max(rest.min(common.optimal()));
        }
        stream.wait(page, rest, pages, common);
        stream
    }

    /// Recovers a stream from its marker on `page`; `None` if the cached pages are no window.
    pub(super) fn found(
        page: u64,
        rest: u32,
        bounds: &Bounds,
        pages: &mut dyn Pages,
        common: &mut Common,
    ) -> Option<Forward> {
        let hole = pages.first_missing(page + 1, bounds.optimal)?;
        let cached = u32::try_from(hole - page).unwrap_or(u32::MAX);
        if cached <= rest {
            return None;
        }
        let size = cached.min(bounds.max);
        let mut stream =
            Forward { begin: page, start: page, end: hole, size, cap: u32::MAX, kept: 0, mark: None };
        stream.advance(page, rest, bounds, pages, common);
        Some(stream)
    }

    /// Whether a missing page, with `before` cached pages before it, is the next of this stream, or one that it lost,
    /// or, if the stream may skip pages, near the next.
    pub(super) fn takes(&self, page: u64, before: u32, skips: bool) -> bool {
        let skip = if skips { u64::from(self.size) } else { 0 };
        page >= self.start && page.saturating_sub(skip.max(u64::from(before))) <= self.end
    }

    /// First and last page that it [takes](Forward::takes) if no cached pages are before it.
    pub(super) fn range(&self) -> (u64, u64) {
        (self.start, self.end.saturating_add(u64::from(self.size)))
    }

    /// Whether a missing page is the first that was not read ahead.
    pub(super) fn ends_at(&self, page: u64) -> bool {
        page == self.end
    }

    /// Records the loss if a missing page had been read before; returns whether it had.
    pub(super) fn lost(&mut self, page: u64) -> bool {
        let lost = page < self.end;
        if lost {
            self.cap = (self.size / 2).max(MIN);
            self.kept = 0;
            self.begin = page;
        }
        lost
    }

    /// Updates the size of the next window.
    fn grow(&mut self, bounds: &Bounds) {
        let run = self.end.saturating_sub(self.begin) / LONG;
        let long = u32::try_from(run).unwrap_or(u32::MAX).min(bounds.optimal);
        // Sizes that suit the device: powers of two times the largest window.
        let limit = if long < 2 * bounds.max {
            bounds.max
        } else {
            bounds.max * prev_power_of_two(long / bounds.max)
        };
        self.size = self.size.saturating_mul(2).max(1).min(limit).min(self.cap);
        self.kept = self.kept.saturating_add(1);
        if self.kept.is_multiple_of(PATIENCE) {
            self.cap = self.cap.saturating_add(1);
        }
    }

    /// Continues the stream at a missing page.
    pub(super) fn resume(
        &mut self,
        page: u64,
        rest: u32,
        bounds: &Bounds,
        pages: &mut dyn Pages,
        common: &mut Common,
    ) {
        self.grow(bounds);
        self.size = self.size.max(rest.min(bounds.request));
        self.wait(page, rest, pages, common);
    }

    /// Reads the pages that the call waits for, and a window behind them.
    fn wait(&mut self, page: u64, rest: u32, pages: &mut dyn Pages, common: &mut Common) {
        let after = page.saturating_add(u64::from(rest));
        let ahead = if pages.is_congested() { 0 } else { self.size };
        self.mark = self.missing(after, ahead, pages);
        self.start = page;
        match self.mark {
            Some(hole) if hole < after.saturating_add(u64::from(ahead)) => {
                common.read(pages, (page, rest.saturating_add(ahead)), self.mark, true);
                self.end = after.saturating_add(u64::from(ahead));
            }
            Some(hole) => {
                common.read(pages, (page, rest), None, true);
                common.read(pages, (hole, ahead), self.mark, false);
                self.end = hole.saturating_add(u64::from(ahead));
            }
            None => {
                common.read(pages, (page, rest), None, true);
                self.end = after;
            }
        }
    }

    /// The page for the marker of a window of `size` pages: the next missing page, if it is not too far away.
    fn missing(&self, from: u64, size: u32, pages: &dyn Pages) -> Option<u64> {
        if size == 0 {
            return None;
        }
        pages.first_missing(from, size.saturating_mul(FAR)).filter(|&hole| hole < pages.end())
    }

    /// The marker was touched: reads the window behind the one that begins at it.
    pub(super) fn advance(
        &mut self,
        page: u64,
        rest: u32,
        bounds: &Bounds,
        pages: &mut dyn Pages,
        common: &mut Common,
    ) {
        self.grow(bounds);
        // The rest of the call, if that is more than was read.
        let needs = page.saturating_add(u64::from(rest)).saturating_sub(self.end);
        let size = self.size.max(u32::try_from(needs).unwrap_or(u32::MAX)).max(rest.min(bounds.request));
        self.mark = self.missing(self.end, size, pages);
        let first = self.mark.unwrap_or(self.end);
        if self.mark.is_some() {
            common.read(pages, (first, size), self.mark, false);
        }
        self.start = page;
        self.end = first.saturating_add(u64::from(size));
        self.size = size;
    }
}

fn prev_power_of_two(n: u32) -> u32 {
    1 << (u32::BITS - 1 - n.max(1).leading_zeros())
}
