//! `none`: only requested pages are read.

use super::common::Common;
use super::{Call, Counters, Hint, Pages, Readahead, ReadaheadType, Settings};

pub(super) const TYPE: ReadaheadType = ReadaheadType {
    name: "none",
    summary: "reads only requested pages, at once",
    source: "",
    params: &[],
    make: |settings| Box::new(Exact::new(settings)),
};

/// No readahead. The first missing page of a call starts a read of the rest of the call.
#[derive(Clone, Debug)]
pub struct Exact {
    common: Common,
}

impl Exact {
    /// The state of a new handle.
    pub fn new(settings: &Settings) -> Exact {
        Exact { common: Common::new(settings) }
    }
}

impl Readahead for Exact {
    fn every_page(&self) -> bool {
        false
    }

    fn ends(&self) -> bool {
        false
    }

    fn missing(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        self.common.exact(call, page, pages);
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
