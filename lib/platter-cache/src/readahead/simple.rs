//! `2.6.11`: the rewrite of January 2005, in which the policy knows the size of the read.
//!
//! A read that follows the last one opens a window and then reads one ahead; any other is read exactly. After 256
//! cached pages in a row the policy does nothing until a page is missing. Each call has its own state until it ends.
//!
//! Source: Linux 2.6.11 (Pratt and Pai, "simplified readahead"), with the rule of 2.6.12 as a parameter.

use super::common::Common;
use super::{Call, Counters, Hint, Pages, Readahead, ReadaheadType, Settings, Windows};
use platter_block::params::{Param, Unit};

const SAME_PAGE: usize = 0;

static PARAMS: [Param; 1] = [Param::number(
    "same_page",
    Unit::Switch,
    0,
    (0, 1),
    "whether a read that begins on the page where the last one ended continues it (2.6.12)",
)];

pub(super) const TYPE: ReadaheadType = ReadaheadType {
    name: "2.6.11",
    summary: "reads exactly the request unless it continues the last one, which opens two windows",
    source: "Linux 2.6.11 to 2.6.22",
    params: &PARAMS,
    make: |settings| Box::new(Simple::new(settings)),
};

/// Number of cached pages in a row after which the policy pauses (`VM_MAX_CACHE_HIT`).
const MAX_CACHE_HIT: u32 = 256;
/// Smallest window in pages after pages were lost.
const MIN: u32 = 4;

/// The readahead of 2.6.11.
#[derive(Clone, Debug)]
pub struct Simple {
    common: Common,
    windows: Windows,
    same_page: bool,
}

impl Simple {
    /// The state of a new handle.
    pub fn new(settings: &Settings) -> Simple {
        Simple {
            common: Common::new(settings),
            windows: Windows { prev_page: u64::MAX, ..Windows::NEW },
            same_page: settings.value(&TYPE, SAME_PAGE) != 0,
        }
    }

    /// Size of the first window of a sequence whose first request has `req` pages.
    fn init_size(&self, req: u32) -> u32 {
        let max = self.common.max();
        let size = req.next_power_of_two();
        let size = if size <= max / 64 {
            size * size
        } else if size <= max / 4 {
            max / 4
        } else {
            max
        };
        size.max(1)
    }

    fn next_size(&self, w: &mut Windows) -> u32 {
        let max = self.common.max();
        let (cur, missed) = (w.size, w.missed);
        w.missed = false;
        let size = if missed {
            cur.saturating_sub(2).max(MIN)
        } else if cur < max / 16 {
            4 * cur
        } else {
            cur.saturating_mul(2)
        };
        size.min(max)
    }

    fn off(w: &mut Windows) {
        *w = Windows { start: 0, size: Windows::OFF, ahead_start: 0, ahead_size: 0, missed: false, ..*w };
    }

    /// Reads pages; returns `false` if none had to be read or (unless `block`) none could be.
    fn submit(&mut self, w: &mut Windows, window: (u64, u32), block: bool, pages: &mut dyn Pages) -> bool {
        if !block && pages.is_congested() {
            return false;
        }
        if self.common.read(pages, window, None, block) > 0 {
            w.cache_hit = 0;
            return true;
        }
        w.cache_hit = w.cache_hit.saturating_add(window.1);
        if w.cache_hit >= MAX_CACHE_HIT {
            self.common.counters.closed_by_hit += 1;
            Simple::off(w);
            w.in_cache = true;
        }
        false
    }

    /// Reads the window after the current one.
    fn ahead(&mut self, w: &mut Windows, last: u64, force: bool, pages: &mut dyn Pages) -> bool {
        w.ahead_size = self.next_size(w);
        w.ahead_start = w.start + u64::from(w.size);
        let window = (w.ahead_start, w.ahead_size);
        let read = self.submit(w, window, force || last >= window.0, pages);
        if !read && !force {
            (w.ahead_start, w.ahead_size) = (0, 0);
        }
        read
    }

    /// Handles a read of `req` pages at `page`, or the rest of one; returns how many pages are handled.
    fn request(&mut self, w: &mut Windows, mut page: u64, mut req: u32, pages: &mut dyn Pages) -> u32 {
        let before = page;
        if page == w.prev_page {
            if req == 1 && w.size != 0 {
                return 1;
            }
            if self.same_page && req > 1 {
                (page, req) = (page + 1, req - 1);
            }
        }
        let follows = page == w.prev_page.wrapping_add(1);
        let n = req.min(self.common.max());
        if n == 0 || w.in_cache {
            w.prev_page = page;
            return 1;
        }
        self.common.counters.lookups += 1;
        let last = page + u64::from(n) - 1;
        w.prev_page = last;
        if follows && (w.size == Windows::OFF || (w.size == 0 && page == 0)) {
            self.common.counters.contiguous += 1;
            (w.start, w.size) = (page, self.init_size(n));
            let window = (w.start, w.size);
            if self.submit(w, window, true, pages) && req >= self.common.max() {
                self.ahead(w, last, true, pages);
            }
        } else if !follows || w.size == 0 {
            self.common.counters.random += 1;
            if w.size != Windows::OFF {
                self.common.counters.closed_by_miss += u64::from(w.size != 0);
                Simple::off(w);
            }
            self.submit(w, (page, n), true, pages);
        } else {
            self.common.counters.contiguous += 1;
            self.continues(w, last, pages);
        }
        (w.prev_page + 1).saturating_sub(before).max(1) as u32
    }

    /// Handles a read up to `last` that follows the last one, with a window open.
    fn continues(&mut self, w: &mut Windows, last: u64, pages: &mut dyn Pages) {
        if w.ahead_start == 0 && !self.ahead(w, last, false, pages) {
            return;
        }
        if last >= w.ahead_start {
            (w.start, w.size) = (w.ahead_start, w.ahead_size);
            self.ahead(w, last, false, pages);
            if w.ahead_start != 0 {
                // So that the next window is requested when this one is entered.
                w.prev_page = last.min(w.ahead_start + u64::from(w.ahead_size) - 1);
            }
        }
    }
}

impl Readahead for Simple {
    fn every_page(&self) -> bool {
        true
    }

    fn begin(&mut self, call: &mut Call, _pages: &mut dyn Pages) {
        call.windows = self.windows;
        // The page at which the policy must be asked again.
        call.note = call.access.first;
    }

    fn page(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        if page != call.note || self.common.is_exact() {
            return;
        }
        let mut windows = call.windows;
        let done = self.request(&mut windows, page, call.access.rest(page), pages);
        call.windows = windows;
        call.note = page + u64::from(done);
    }

    fn missing(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        if self.common.is_exact() {
            self.common.exact(call, page, pages);
            return;
        }
        call.windows.missed = true;
        call.windows.in_cache = false;
        call.windows.cache_hit = 0;
    }

    fn end(&mut self, call: &mut Call) {
        self.windows = call.windows;
    }

    fn advise(&mut self, hint: Hint) {
        self.common.advise(hint);
    }

    fn counters(&self) -> Counters {
        self.common.counters
    }

    fn window(&self) -> Option<(u64, u32)> {
        self.common.window
    }
}
