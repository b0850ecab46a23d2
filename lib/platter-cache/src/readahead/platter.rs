//! `platter`: a bounded table of streams, found by position.
//!
//! A handle remembers the positions of its last reads. A missing page that continues one of them makes it a stream
//! with its own windows: sequential and backward reads from the second read on, reads at a fixed distance (strided)
//! from the third. Streams that alternate on one handle, from one thread or many, therefore do not disturb each
//! other, and neither do random reads between them. A read that continues nothing is one I/O of exactly its pages.
//!
//! Each window has a marker on its first page; touching it reads the next window. Between markers the policy is not
//! called, so cached pages cost nothing. Windows double up to `max`, and grow on to the device's optimum once the
//! stream is long enough for it. How much a new stream reads ahead depends on the fate of earlier new streams:
//! `trust` rises with each stream that uses all of its first window and falls with each that is forgotten before. A
//! page that was evicted before use halves the windows of its stream. While the device is congested nothing is read
//! ahead. While most pages read ahead are evicted unused, all windows are halved; if that does not help, all streams are
//! forgotten, and for some time only a read that continues one of the last few, which continued another of them, begins
//! a stream.
//!
//! Source: the marker is that of Linux 2.6.23 (F. Wu); a table of streams by position was proposed by a reader of the
//! report on the regressions of May 2004; reading about as much at once as a change of position costs is the rule of
//! competitive prefetching (Li, Papathanasiou, Shen, 2007).

use super::common::Common;
use super::{Access, Call, Counters, Fate, Hint, Pages, Readahead, ReadaheadType, Settings};
use platter_block::params::{Param, Unit};

mod care;
mod forward;
mod grid;
mod keys;
mod recency;
mod seen;
mod steps;
mod table;

use care::Care;
use forward::Forward;
use seen::{Match, Seen};
use steps::Steps;
use table::{Kind, Table};

const STREAMS: usize = 0;
const GAP: usize = 1;

static PARAMS: [Param; 2] = [
    Param::number("streams", Unit::Count, 72, (1, 1024), "streams of a handle that are told apart"),
    Param::number(
        "gap",
        Unit::Count,
        0,
        (0, 1024),
        "pages between reads a fixed distance apart that are read too rather than left out; 0: an eighth of what the \
         device's optimum exceeds the largest window by, at least 2",
    ),
];

pub(super) const TYPE: ReadaheadType = ReadaheadType {
    name: "platter",
    summary: "a table of streams by position: sequential, interleaved, strided, backward; other reads are exact",
    source: "Platter",
    params: &PARAMS,
    make: |settings| Box::new(Streams::new(settings)),
};

/// Most pages of one I/O of a random read: 16 MiB.
const LARGEST: u32 = 4096;
/// Largest and initial trust.
const TRUSTED: u32 = 5;
const TRUST: u32 = 4;

/// Sizes that are the same for all streams of a handle.
struct Bounds {
    /// Largest window of a young stream, in pages.
    max: u32,
    /// Largest window of any stream, in pages.
    optimal: u32,
    /// Largest request for which a window as large as itself is read.
    request: u32,
    /// First window of a new stream, in pages.
    first: u32,
    /// Largest gap between reads that is read too, in pages.
    gap: u32,
}

/// The stream table policy.
#[derive(Clone, Debug)]
pub struct Streams {
    common: Common,
    gap: u32,
    trust: u32,
    care: Care,
    seen: Seen,
    table: Table,
}

impl Streams {
    /// The state of a new handle. No allocations follow.
    pub fn new(settings: &Settings) -> Streams {
        let common = Common::new(settings);
        let streams = usize::try_from(settings.value(&TYPE, STREAMS)).unwrap_or(1).clamp(1, 1024);
        let gap = u32::try_from(settings.value(&TYPE, GAP)).unwrap_or(0);
        // As many other reads may come between two reads of a stream.
        let (seen, table) = (Seen::new(2 * streams), Table::new(streams));
        Streams { common, gap, trust: TRUST, care: Care::new(), seen, table }
    }

    fn bounds(&self) -> Bounds {
        let level = self.care.level();
        let (max, optimal) = ((self.common.max() >> level).max(1), (self.common.optimal() >> level).max(1));
        let first = if self.trust == 0 { 0 } else { max >> (TRUSTED - self.trust) };
        let gap = if self.gap > 0 { self.gap } else { ((optimal - max) / 8).max(2) };
        Bounds { max, optimal, request: self.common.optimal(), first, gap }
    }

    /// Judges the fate of what was read ahead.
    fn look(&mut self, fate: Fate) {
        if self.care.look(fate) {
            self.table.clear();
        }
    }

    /// Continues a stream at a missing page.
    fn resume(&mut self, index: usize, call: &Call, page: u64, pages: &mut dyn Pages) {
        self.common.counters.contiguous += 1;
        let bounds = self.bounds();
        let rest = call.access.rest(page).clamp(1, LARGEST);
        self.table.touch(index, |entry| {
            if entry.prove() {
                self.trust = (self.trust + 1).min(TRUSTED);
            }
            match &mut entry.kind {
                Kind::Forward(stream) => {
                    if stream.lost(page) {
                        self.common.counters.shrunk += 1;
                    }
                    stream.resume(page, rest, &bounds, pages, &mut self.common);
                }
                Kind::Steps(stream) => stream.resume(call.access, page, &bounds, pages, &mut self.common),
            }
        });
    }

    /// Handles a missing page that belongs to no stream: it may start one.
    fn begin_stream(&mut self, call: &Call, page: u64, before: u32, pages: &mut dyn Pages) {
        let access = call.access;
        let rest = access.rest(page).clamp(1, LARGEST);
        let bounds = self.bounds();
        let follows = if self.care.is_strict() { self.seen.follows(page) } else { None };
        let found = match self.care.is_strict() {
            true => follows.filter(|&is_second| is_second).map(|_| Match::Forward),
            false => self.seen.find(&access, page, before),
        };
        let found = found.or_else(|| self.table.goes_on(&access).then_some(Match::Forward));
        let kind = match found {
            Some(Match::Forward) => {
                Some(Forward::begin(page, rest, bounds.first, pages, &mut self.common).into())
            }
            Some(Match::Steps(step)) => {
                Some(Steps::begin(access, page, step, &bounds, pages, &mut self.common).into())
            }
            // A sequential hint replaces the second read.
            None if self.common.is_sequential() => {
                let ahead = bounds.max.saturating_sub(rest).max(1);
                Some(Forward::begin(page, rest, ahead, pages, &mut self.common).into())
            }
            None => None,
        };
        let Some(kind) = kind else {
            self.common.counters.random += 1;
            self.common.read(pages, (page, rest), None, true);
            self.seen.remember(&access, follows.is_some());
            return;
        };
        self.common.counters.contiguous += 1;
        if let Some(forgotten) = self.table.insert(kind)
            && !forgotten.proven
        {
            // Trust falls to zero only if there was no third read.
            let least = u32::from(forgotten.windows > 0);
            let less = self.trust.saturating_sub(1).max(least);
            self.common.counters.closed_by_miss += u64::from(less == 0 && self.trust > 0);
            self.trust = less;
        }
    }
}

impl Readahead for Streams {
    fn every_page(&self) -> bool {
        false
    }

    fn ends(&self) -> bool {
        false
    }

    fn found(&mut self, call: &mut Call, page: u64, _busy: bool, marked: bool, pages: &mut dyn Pages) {
        if !marked || self.common.is_exact() {
            return;
        }
        self.common.counters.lookups += 1;
        self.look(pages.fate());
        let bounds = self.bounds();
        let rest = call.access.rest(page).clamp(1, LARGEST);
        call.note = 1;
        let Some(index) = self.table.marked(page) else {
            // The stream was forgotten, but its pages are still cached.
            if !pages.is_congested()
                && !self.care.is_strict()
                && let Some(stream) = Forward::found(page, rest, &bounds, pages, &mut self.common)
            {
                self.table.insert(stream.into());
            }
            return;
        };
        self.common.counters.contiguous += 1;
        self.table.touch(index, |entry| {
            // The first marker only proves that there was a third read.
            if entry.windows > 0 && entry.prove() {
                self.trust = (self.trust + 1).min(TRUSTED);
            }
            entry.windows += 1;
            if pages.is_congested() {
                return;
            }
            match &mut entry.kind {
                Kind::Forward(stream) => stream.advance(page, rest, &bounds, pages, &mut self.common),
                Kind::Steps(stream) => stream.advance(&bounds, pages, &mut self.common),
            }
        });
    }

    fn missing(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        if self.common.is_exact() {
            self.common.exact(call, page, pages);
            return;
        }
        self.common.counters.lookups += 1;
        self.look(pages.fate());
        let again = call.note != 0;
        call.note = 1;
        let before = pages.cached_before(page, self.common.max());
        if let Some(index) = self.table.find(&call.access, page, before, self.care.is_strict()) {
            self.resume(index, call, page, pages);
        } else if again {
            // The call has been handled already; the rest of it is missing for reasons of the cache.
            self.common.read(pages, (page, call.access.rest(page).clamp(1, LARGEST)), None, true);
        } else {
            self.begin_stream(call, page, before, pages);
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

/// Offset of an access in bytes.
fn pos_of(access: &Access) -> u64 {
    access.first.saturating_mul(super::PAGE).saturating_add(u64::from(access.offset))
}
