//! State that all policies have.

use super::{Call, Counters, Hint, Pages, Settings, Window};

/// Largest `max` and optimum, in pages: 256 MiB.
const MOST: u32 = 1 << 16;

/// Sizes, the program's hint, counters, and the last window read.
#[derive(Clone, Debug)]
pub struct Common {
    max: u32,
    optimal: u32,
    hint: Hint,
    /// What the policy counts.
    pub counters: Counters,
    /// The last window read: first page and number of pages.
    pub window: Option<(u64, u32)>,
}

impl Common {
    /// The state of a new handle.
    pub fn new(settings: &Settings) -> Common {
        let max = settings.max.min(MOST);
        Common {
            max,
            optimal: settings.optimal.clamp(max, MOST),
            hint: Hint::Normal,
            counters: Counters::default(),
            window: None,
        }
    }

    /// Largest window in pages; doubled if the program has announced sequential reads.
    pub fn max(&self) -> u32 {
        self.max << u32::from(self.hint == Hint::Sequential)
    }

    /// The device's optimal I/O size in pages, at least [`max`](Self::max).
    pub fn optimal(&self) -> u32 {
        self.optimal.max(self.max())
    }

    /// Whether readahead is off, so that only requested pages are read.
    pub fn is_exact(&self) -> bool {
        self.hint == Hint::Random || self.max == 0
    }

    /// Whether the program has announced sequential reads.
    pub fn is_sequential(&self) -> bool {
        self.hint == Hint::Sequential
    }

    /// Applies a hint; hints about a range change nothing.
    pub fn advise(&mut self, hint: Hint) {
        if matches!(hint, Hint::Normal | Hint::Sequential | Hint::Random) {
            self.hint = hint;
        }
    }

    /// Has a window read, unless it is empty.
    pub fn read(
        &mut self,
        pages: &mut dyn Pages,
        (first, count): (u64, u32),
        mark: Option<u64>,
        sync: bool,
    ) -> u32 {
        let count = pages.end().saturating_sub(first).min(u64::from(count)) as u32;
        if count == 0 {
            return 0;
        }
        let mark = mark.filter(|page| (first..first + u64::from(count)).contains(page));
        let read = pages.read(Window { first, count, mark, sync });
        if read > 0 {
            self.counters.windows += 1;
            self.window = Some((first, count));
        }
        read
    }

    /// Reads the rest of a call from `page` on.
    pub fn exact(&mut self, call: &Call, page: u64, pages: &mut dyn Pages) -> u32 {
        self.counters.lookups += 1;
        self.counters.random += 1;
        self.read(pages, (page, call.access.rest(page).max(1)), None, true)
    }
}
