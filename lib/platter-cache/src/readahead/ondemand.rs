//! `ondemand` and `context`: readahead that is asked only when a page is missing or marked.
//!
//! Each window carries a marker; touching it reads the next window. Other cached pages cost nothing. A marker that
//! does not belong to the state was left by another stream on the same handle: the end of its window is found in the
//! cache, so streams that alternate keep their windows. `context` also examines the pages just before a missing one:
//! if they are cached, the read is part of a stream.
//!
//! Source: Linux 2.6.23 (F. Wu, "on-demand readahead"); Linux 2.6.31 (context readahead), with later rules as
//! parameters.

use super::common::Common;
use super::{Call, Counters, Hint, Pages, Readahead, ReadaheadType, Settings};
use platter_block::params::{Param, Unit};

const CONSERVATIVE: usize = 0;
const NEXT: usize = 1;
const LARGE: usize = 2;

static PARAMS: [Param; 3] = [
    Param::number(
        "conservative",
        Unit::Switch,
        0,
        (0, 1),
        "whether more pages have to be cached before a missing one than are asked for, and windows then begin small \
         (3.12)",
    ),
    Param::number("next", Unit::Switch, 0, (0, 1), "whether windows never more than double (6.x)"),
    Param::number(
        "large",
        Unit::Switch,
        0,
        (0, 1),
        "whether a request above the largest window gets a window of its size, up to the device's optimum (4.10)",
    ),
];

pub(super) const ONDEMAND: ReadaheadType = ReadaheadType {
    name: "ondemand",
    summary: "called only for missing or marked pages; the marker finds streams that alternate",
    source: "Linux 2.6.23 to 2.6.30",
    params: &[],
    make: |settings| Box::new(OnDemand::new(settings, Rules::default())),
};

pub(super) const CONTEXT: ReadaheadType = ReadaheadType {
    name: "context",
    summary: "as ondemand, and cached pages just before a missing one identify a stream",
    source: "Linux 2.6.31 and later",
    params: &PARAMS,
    make: |settings| {
        let is_on = |index| settings.value(&CONTEXT, index) != 0;
        let rules = Rules {
            context: true,
            conservative: is_on(CONSERVATIVE),
            next: is_on(NEXT),
            large: is_on(LARGE),
        };
        Box::new(OnDemand::new(settings, rules))
    },
};

/// The differences between versions; all off is 2.6.23.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules of 2.6.31: examine the pages cached before a missing page.
    pub context: bool,
    /// Require more cached pages than the request has (3.12).
    pub conservative: bool,
    /// Windows at most double (6.x).
    pub next: bool,
    /// Requests may exceed the largest window (4.10).
    pub large: bool,
}

/// On-demand readahead.
#[derive(Clone, Debug)]
pub struct OnDemand {
    common: Common,
    rules: Rules,
    start: u64,
    size: u32,
    async_size: u32,
    /// The last page of the last read; initially the page before the first.
    prev: u64,
}

/// Size of the first window of a sequence whose first request has `req` pages.
fn init_size(req: u32, max: u32) -> u32 {
    let size = req.checked_next_power_of_two().unwrap_or(max);
    if size <= max / 32 {
        4 * size
    } else if size <= max / 4 {
        2 * size
    } else {
        max
    }
}

impl OnDemand {
    /// The state of a new handle.
    pub fn new(settings: &Settings, rules: Rules) -> OnDemand {
        OnDemand { common: Common::new(settings), rules, start: 0, size: 0, async_size: 0, prev: u64::MAX }
    }

    /// Size of the window after one of `cur` pages.
    fn next_size(&self, cur: u32, max: u32) -> u32 {
        let size = if cur < max / 16 && !self.rules.next { cur * 4 } else { cur.saturating_mul(2) };
        size.min(max)
    }

    /// Largest window for a request of `req` pages.
    fn max(&self, req: u32) -> u32 {
        let max = self.common.max();
        if self.rules.large && req > max { req.min(self.common.optimal()) } else { max }
    }

    /// Reads the window in the state, for a call at `page`.
    fn submit(&mut self, page: u64, max: u32, sync: bool, pages: &mut dyn Pages) {
        if page == self.start && self.size == self.async_size {
            // The call would touch the marker at once: read the next window together with this one.
            let next = self.next_size(self.size, max);
            if self.size + next <= max {
                self.async_size = next;
                self.size += next;
            } else {
                self.size = max;
                self.async_size = max / 2;
            }
        }
        let mark = self.start + u64::from(self.size - self.async_size);
        self.common.read(pages, (self.start, self.size), Some(mark), sync);
    }

    fn initial(&mut self, page: u64, req: u32, max: u32) {
        self.start = page;
        self.size = init_size(req, max);
        self.async_size = if self.size > req { self.size - req } else { self.size };
    }

    /// Takes the cached pages before `page` as the history of the stream; `false` if there are too few.
    fn context(&mut self, page: u64, req: u32, max: u32, pages: &dyn Pages) -> bool {
        let before = pages.cached_before(page, max);
        if before <= if self.rules.conservative { req } else { 0 } {
            return false;
        }
        // A stream from the very beginning is expected to be long.
        let before = if u64::from(before) >= page { before * 2 } else { before };
        self.start = page;
        if self.rules.conservative {
            self.size = before.saturating_add(req).min(max);
            self.async_size = 1;
        } else {
            self.size = init_size(before.saturating_add(req), max);
            self.async_size = self.size;
        }
        true
    }

    /// Handles a missing (`!marked`) or marked page; `req` pages of the call remain.
    fn ask(&mut self, page: u64, req: u32, marked: bool, pages: &mut dyn Pages) {
        self.common.counters.lookups += 1;
        let max = self.max(req);
        let end = self.start + u64::from(self.size);
        let expected = self.size > 0 && (page == end || page == end - u64::from(self.async_size));
        if page == 0 && self.rules.context {
            self.initial(page, req, max);
        } else if expected {
            self.start = end;
            self.size = self.next_size(self.size, max);
            self.async_size = self.size;
        } else if marked {
            let Some(hole) = pages.first_missing(page + 1, max) else { return };
            let past = ((hole - page) as u32).saturating_add(if self.rules.context { req } else { 0 });
            self.start = hole;
            self.size = self.next_size(past, max);
            self.async_size = self.size;
        } else if req > max || page.wrapping_sub(self.prev) <= 1 {
            self.initial(page, req, max);
        } else if !self.rules.context || !self.context(page, req, max, pages) {
            self.common.counters.random += 1;
            self.common.read(pages, (page, req), None, true);
            return;
        }
        self.common.counters.contiguous += 1;
        self.submit(page, max, !marked, pages);
    }
}

impl Readahead for OnDemand {
    fn every_page(&self) -> bool {
        false
    }

    fn found(&mut self, call: &mut Call, page: u64, _busy: bool, marked: bool, pages: &mut dyn Pages) {
        if marked && !self.common.is_exact() && !pages.is_congested() {
            self.ask(page, call.access.rest(page).max(1), true, pages);
        }
    }

    fn missing(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        if self.common.is_exact() {
            self.common.exact(call, page, pages);
        } else {
            self.ask(page, call.access.rest(page).max(1), false, pages);
        }
    }

    fn end(&mut self, call: &mut Call) {
        if call.access.pages > 0 {
            self.prev = call.access.end() - 1;
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
