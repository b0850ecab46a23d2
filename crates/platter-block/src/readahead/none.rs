//! `none`: nothing but what is asked for.

use super::{Call, Counters, Hint, Pages, Readahead, Row, Window};
use alloc::boxed::Box;

pub(super) const ROW: Row = Row {
    name: "none",
    summary: "reads what is asked for, at once, and nothing else",
    source: "",
    params: &[],
    make: |_| Box::new(Exact::default()),
};

/// No readahead. The first page of a call that is missing has the rest of the call read.
#[derive(Clone, Debug, Default)]
pub struct Exact {
    counters: Counters,
    window: Option<(u64, u32)>,
}

impl Readahead for Exact {
    fn every_page(&self) -> bool {
        false
    }

    fn missing(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        self.counters.lookups += 1;
        self.counters.random += 1;
        let count = call.access.rest(page).max(1);
        if pages.read(Window { first: page, count, mark: None, sync: true }) > 0 {
            self.counters.windows += 1;
            self.window = Some((page, count));
        }
    }

    fn advise(&mut self, _hint: Hint) {}

    fn counters(&self) -> Counters {
        self.counters
    }

    fn window(&self) -> Option<(u64, u32)> {
        self.window
    }
}
