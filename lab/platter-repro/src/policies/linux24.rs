//! `linux-2.4`: one window behind and one ahead, counted in pages tried.
//!
//! The size of a read sets how far it reads ahead, so a random read is one batch of its pages and one more
//! (`generic_file_readahead`, `do_generic_file_read`). A page that the call must wait for starts reads of the pages
//! behind it; a cached page inside the last chunk starts a read of the next window. Nothing ever switches it off.
//!
//! Source: Linux 2.4.18 to 2.4.32.

use platter_cache::readahead::{
    Call, Common, Counters, Hint, PAGE, Pages, Readahead, ReadaheadType, Settings,
};

pub(super) const TYPE: ReadaheadType = ReadaheadType {
    name: "linux-2.4",
    summary: "windows that begin with the size of the request, double, and are never dropped",
    source: "Linux 2.4",
    params: &[],
    make: |settings| Box::new(Linux24::new(settings)),
};

/// Smallest number of pages to read ahead for a read that follows another (`MIN_READAHEAD`).
const MIN: u32 = 3;
/// Reads of at most this many bytes at the beginning of the device do not read ahead.
const TINY: u64 = 2048;

/// The readahead of 2.4.
#[derive(Clone, Debug)]
pub struct Linux24 {
    common: Common,
    /// The page after the last one tried.
    raend: u64,
    /// Pages to read ahead.
    ramax: u32,
    /// Pages of the last chunk read.
    ralen: u64,
    /// Pages of the window.
    rawin: u64,
}

impl Linux24 {
    /// The state of a new handle.
    pub fn new(settings: &Settings) -> Linux24 {
        Linux24 { common: Common::new(settings), raend: 0, ramax: 0, ralen: 0, rawin: 0 }
    }

    /// Most pages to read ahead: with the page itself they form a window.
    fn most(&self) -> u32 {
        self.common.max() - 1
    }

    /// Whether `page` lies outside the last chunk read.
    fn is_outside(&self, page: u64) -> bool {
        page > self.raend || page + self.rawin < self.raend
    }

    /// Starts a new window at `page`, which the call waits for, if it is outside the old one; returns the number of
    /// pages to read ahead.
    fn restart(&mut self, page: u64) -> u32 {
        if self.ralen != 0 && page < self.raend && page + self.rawin >= self.raend {
            return 0;
        }
        self.raend = page;
        self.rawin = 0;
        self.ralen = 1;
        if self.ramax == 0 {
            self.raend = page + 1;
            self.rawin = 1;
        }
        self.ramax
    }

    /// Records that the `ahead` pages after `raend` have been tried.
    fn tried(&mut self, ahead: u32) {
        if ahead > 0 {
            self.ralen += u64::from(ahead);
            self.rawin += self.ralen;
            self.raend += u64::from(ahead) + 1;
            self.ramax = (2 * self.ramax).min(self.most());
        }
    }

    /// How many of `most` pages after `raend` are on the device.
    fn on_device(&self, most: u32, pages: &dyn Pages) -> u32 {
        pages.end().saturating_sub(self.raend + 1).min(u64::from(most)) as u32
    }
}

impl Readahead for Linux24 {
    fn every_page(&self) -> bool {
        true
    }

    fn begin(&mut self, call: &mut Call, _pages: &mut dyn Pages) {
        if self.common.is_exact() {
            return;
        }
        let access = call.access;
        let follows = !self.is_outside(access.first);
        if !follows {
            (self.raend, self.ralen, self.ramax, self.rawin) = (0, 0, 0, 0);
        }
        let bytes = u64::from(access.offset).saturating_add(access.len);
        if access.first == 0 && bytes <= TINY {
            self.ramax = 0;
        } else {
            let needed = u32::try_from(bytes / PAGE + 1).unwrap_or(u32::MAX);
            let least = if follows { MIN } else { 0 };
            self.ramax = self.ramax.max(needed).max(least).min(self.most());
        }
        match follows {
            true => self.common.counters.contiguous += 1,
            false => self.common.counters.random += 1,
        }
        call.note = u64::from(follows);
    }

    fn found(&mut self, call: &mut Call, page: u64, busy: bool, _marked: bool, pages: &mut dyn Pages) {
        if self.common.is_exact() {
            return;
        }
        self.common.counters.lookups += 1;
        let ahead = if busy {
            self.restart(page)
        } else if call.note != 0
            && self.ramax > 0
            && self.raend >= 1
            && page <= self.raend
            && page + self.ralen >= self.raend
        {
            self.raend -= 1;
            self.rawin = self.ralen;
            self.ralen = 0;
            self.ramax + 1
        } else {
            0
        };
        let ahead = self.on_device(ahead, pages);
        self.common.read(pages, (self.raend + 1, ahead), None, false);
        self.tried(ahead);
    }

    fn missing(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        if self.common.is_exact() {
            self.common.exact(call, page, pages);
            return;
        }
        self.common.counters.lookups += 1;
        // The page and those after it are submitted before the call waits, so that they merge.
        let ahead = self.restart(page);
        let ahead = self.on_device(ahead, pages);
        self.common.read(pages, (page, 1 + ahead), None, true);
        self.tried(ahead);
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
