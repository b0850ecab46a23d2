//! `2.6.0` to `2.6.7`: a current window and one ahead of it, updated for every page.
//!
//! The size of the next window grows by 2 pages for each lookup inside the current one and shrinks by 2 for each
//! lookup outside. At 0 readahead is off, and stays off until `max` consecutive pages in sequence were missing.
//! While it is off every page is read alone. Reads that overlap on one handle look like jumps and switch it off. The
//! versions differ in when the window ahead is read, in the effect of a jump on the size, and in the scope of the
//! state: the tables in `rows` list the differences.
//!
//! Source: Linux 2.6.0 to 2.6.10, and the thread "Random file I/O regressions in 2.6" of May 2004.

use platter_cache::readahead::{Call, Common, Counters, Hint, Pages, Readahead, Settings, Windows};

mod rows;
pub use rows::{Ahead, Jump, Rules, Runs};
pub(super) use rows::{L0, L1, L2, L5, L7, LOCK, PRIVATE, SIZE};

/// Smallest next window in pages after pages were lost (`VM_MIN_READAHEAD`).
const MIN: i64 = 4;
const OFF: u32 = Windows::OFF;

/// The readahead of 2.6.0 to 2.6.7.
#[derive(Clone, Debug)]
pub struct Linux26 {
    common: Common,
    rules: Rules,
    windows: Windows,
}

impl Linux26 {
    /// The state of a new handle.
    pub fn new(settings: &Settings, rules: Rules) -> Linux26 {
        let common = Common::new(settings);
        let average = common.max() / 2;
        Linux26 { common, rules, windows: Windows { average, ..Windows::NEW } }
    }

    /// Reads a window; `sync`: the call is inside it. Returns 0 pages while the device is congested.
    fn submit(&mut self, window: (u64, u32), sync: bool, pages: &mut dyn Pages) -> u32 {
        if pages.is_congested() {
            return 0;
        }
        self.common.read(pages, window, None, sync)
    }

    /// A window whose pages were all cached makes the next one smaller.
    fn check_success(&mut self, w: &mut Windows, read: u32, orig: u32) {
        if read > 0 {
            return;
        }
        if orig > 1 && orig != OFF {
            self.common.counters.shrunk += 1;
            w.next_size = orig - 1;
            if w.ahead_size > 0 {
                w.ahead_size = orig - 1;
            }
        } else {
            self.common.counters.closed_by_hit += 1;
            w.next_size = OFF;
            w.size = 0;
        }
    }

    /// Counts consecutive pages.
    fn count_run(&self, w: &mut Windows, page: u64) {
        if !matches!(self.rules.runs, Runs::Broken | Runs::Rounded | Runs::Resumed) {
            return;
        }
        if page == w.prev_page + 1 {
            if w.serial_cnt <= self.common.max() * 2 {
                w.serial_cnt += 1;
            }
        } else {
            let round = u32::from(self.rules.runs != Runs::Broken && w.average < w.serial_cnt);
            w.average = (w.average + w.serial_cnt + round) / 2;
            w.serial_cnt = 1;
        }
    }

    /// The expected length of the run.
    fn expected(&self, w: &Windows) -> u32 {
        if w.serial_cnt > w.average { (w.serial_cnt + w.average) / 2 } else { w.average }
    }

    /// Opens a window at the first page looked up, or in 2.6.0 at the first page of the device.
    fn open(&mut self, w: &mut Windows, page: u64, pages: &mut dyn Pages) {
        w.next_size = (self.common.max() / 2).max(1);
        w.prev_page = page;
        w.serial_cnt += 1;
        (w.start, w.size, w.ahead_start, w.ahead_size) = (page, w.next_size, 0, 0);
        let read = self.submit((w.start, w.size), true, pages);
        if !self.rules.first_anywhere {
            self.check_success(w, read, 0);
        }
    }

    /// The size of a window after a jump away from page `from`.
    fn jump(&self, w: &mut Windows, from: u64) -> u32 {
        let used = match from.checked_sub(w.start) {
            Some(before) if before < u64::from(w.size) => Some(before as u32 + 1),
            _ => None,
        };
        match (self.rules.jump, used) {
            (Jump::Used(extra), Some(used)) => used + extra,
            (Jump::Used(_), None) | (Jump::Keep, _) => w.next_size,
            (Jump::Average, _) => {
                let size = match self.rules.runs {
                    Runs::Resumed if w.serial_cnt > w.average => (w.serial_cnt + w.average).div_ceil(2),
                    Runs::Window => {
                        let hits = w.serial_cnt;
                        let size = if hits > w.average { (hits + w.average).div_ceil(2) } else { w.average };
                        w.average = (w.average + hits + u32::from(w.average < hits)) / 2;
                        w.serial_cnt = 1;
                        size
                    }
                    _ => w.average,
                };
                size.min(self.common.max()).max(1)
            }
        }
    }

    /// Whether a lookup of `page` in the current window starts the read of the window ahead.
    fn is_time(&self, w: &Windows, page: u64) -> bool {
        let max = self.common.max();
        let is_last = page == w.start + u64::from(w.size) - 1;
        match self.rules.ahead {
            Ahead::Any => true,
            Ahead::Last => is_last,
            Ahead::Adaptive => is_last || self.expected(w) >= max,
            // With `Runs::Window` no run is longer than a window, so runs count from the largest window on.
            Ahead::Long if self.rules.runs == Runs::Window => self.expected(w) >= max,
            Ahead::Long => self.expected(w) > max,
        }
    }

    fn look(&mut self, w: &mut Windows, page: u64, pages: &mut dyn Pages) {
        if (page == w.prev_page && w.next_size != 0) || w.next_size == OFF || self.common.is_exact() {
            return;
        }
        self.common.counters.lookups += 1;
        if w.next_size == 0 && (page == 0 || self.rules.first_anywhere) {
            self.open(w, page, pages);
            return;
        }
        let orig = w.next_size;
        self.count_run(w, page);
        let from = w.prev_page;
        w.prev_page = page;
        let inside = (w.start..=w.start + u64::from(w.size)).contains(&page);
        match inside {
            true => self.common.counters.contiguous += 1,
            false => self.common.counters.random += 1,
        }
        let next = (i64::from(w.next_size) + if inside { 2 } else { -2 }).min(i64::from(self.common.max()));
        if next <= 0 {
            self.common.counters.closed_by_miss += 1;
            w.next_size = OFF;
            w.size = 0;
            return;
        }
        w.next_size = next as u32;
        if !(w.start..w.start + u64::from(w.size)).contains(&page) {
            if page == w.ahead_start {
                (w.start, w.size) = (w.ahead_start, w.ahead_size);
                (w.ahead_start, w.ahead_size) = (0, 0);
                return;
            }
            w.next_size = self.jump(w, from);
            (w.start, w.size, w.ahead_start, w.ahead_size) = (page, w.next_size, 0, 0);
            let read = self.submit((w.start, w.size), true, pages);
            self.check_success(w, read, orig);
        } else {
            if self.rules.runs == Runs::Window && w.serial_cnt <= self.common.max() * 2 {
                w.serial_cnt += 1;
            }
            if w.ahead_start == 0 && self.is_time(w, page) {
                (w.ahead_start, w.ahead_size) = (w.start + u64::from(w.size), w.next_size);
                let read = self.submit((w.ahead_start, w.ahead_size), false, pages);
                self.check_success(w, read, orig);
            }
        }
    }

    fn lost(&mut self, w: &mut Windows, page: u64) {
        let max = self.common.max();
        if w.next_size != OFF {
            w.next_size = (i64::from(w.next_size) - 3).max(MIN) as u32;
            return;
        }
        if page != w.prev_page + 1 {
            w.size = if self.rules.first_anywhere { w.size.saturating_sub(1) } else { 0 };
        } else {
            w.size += 1;
            if w.size >= max {
                w.start = page.saturating_sub(u64::from(max));
                (w.size, w.next_size, w.ahead_start, w.ahead_size) = (max, max, 0, 0);
                if self.rules.runs == Runs::Window {
                    w.average = max / 2;
                }
            }
        }
        w.prev_page = page;
    }

    /// Calls `work` with the windows that apply to a call: its own or the handle's.
    fn with(&mut self, call: &mut Call, work: impl FnOnce(&mut Linux26, &mut Windows)) {
        let mut windows = if self.rules.private { call.windows } else { self.windows };
        work(self, &mut windows);
        match self.rules.private {
            true => call.windows = windows,
            false => self.windows = windows,
        }
    }
}

impl Readahead for Linux26 {
    fn every_page(&self) -> bool {
        true
    }

    fn exclusive(&self) -> bool {
        self.rules.exclusive
    }

    fn begin(&mut self, call: &mut Call, pages: &mut dyn Pages) {
        if self.rules.private {
            call.windows = self.windows;
        }
        if self.rules.size_first && !self.common.is_exact() {
            self.common.counters.lookups += 1;
            self.common.read(pages, (call.access.first, call.access.pages), None, true);
        }
    }

    fn page(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        self.with(call, |this, windows| this.look(windows, page, pages));
    }

    fn missing(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        if self.common.is_exact() {
            self.common.exact(call, page, pages);
            return;
        }
        self.common.counters.lookups += 1;
        self.with(call, |this, windows| this.lost(windows, page));
    }

    fn end(&mut self, call: &mut Call) {
        if self.rules.private {
            self.windows = call.windows;
        }
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
