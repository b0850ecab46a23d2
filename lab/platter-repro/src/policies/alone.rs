//! Linux 2.6 up to 2.6.10 with the size of readahead set to 0 (`blockdev --setra 0`): `page_cache_readahead` returns at
//! once, so that every missing page of a call is read alone. Only experiments use it: it is not registered.

use platter_cache::readahead::{Call, Common, Counters, Hint, Pages, Readahead, ReadaheadType};

pub(super) static TYPE: ReadaheadType = ReadaheadType {
    name: "2.6.5-off",
    summary: "every missing page is read alone",
    source: "Linux 2.6.5, mm/readahead.c and mm/filemap.c",
    params: &[],
    make: |settings| Box::new(Alone(Common::new(settings))),
};

struct Alone(Common);

impl Readahead for Alone {
    fn every_page(&self) -> bool {
        false
    }

    /// The cache reads the page alone if the policy does not.
    fn missing(&mut self, _: &mut Call, _: u64, _: &mut dyn Pages) {
        self.0.counters.lookups += 1;
    }

    fn advise(&mut self, hint: Hint) {
        self.0.advise(hint);
    }

    fn counters(&self) -> Counters {
        self.0.counters
    }

    fn window(&self) -> Option<(u64, u32)> {
        self.0.window
    }
}
