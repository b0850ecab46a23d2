use super::*;
use crate::readahead::common::Common;
use crate::readahead::platter::Bounds;
use crate::readahead::{PAGE, Pages, Settings, Window};
use proptest::prelude::*;

/// A device of which some pages are cached, and whose reads are only counted.
struct Some64(u64);

impl Pages for Some64 {
    fn is_cached(&self, page: u64) -> bool {
        self.0 >> (page % 64) & 1 != 0
    }

    fn end(&self) -> u64 {
        4000
    }

    fn is_congested(&self) -> bool {
        self.0.is_multiple_of(8)
    }

    fn read(&mut self, window: Window) -> u32 {
        window.count
    }
}

/// What the indexes are compared with: a search through all streams.
impl Table {
    fn search(&self, access: &Access, page: u64, before: u32, exact: bool) -> Option<usize> {
        self.entries.iter().position(|entry| match &entry.kind {
            Kind::Forward(stream) if exact => stream.ends_at(page),
            Kind::Forward(stream) => {
                stream.takes(page, before, entry.proven && self.stamps - entry.stamp < RECENT)
            }
            Kind::Steps(stream) => stream.takes(access),
        })
    }

    fn search_goes_on(&self, access: &Access) -> bool {
        self.entries.iter().any(|entry| matches!(&entry.kind, Kind::Steps(stream) if stream.goes_on(access)))
    }

    fn search_mark(&self, page: u64) -> Option<usize> {
        self.entries.iter().position(|entry| entry.kind.mark() == Some(page))
    }

    fn oldest(&self) -> Option<usize> {
        (0..self.entries.len()).min_by_key(|&slot| self.entries[slot].stamp)
    }
}

const BOUNDS: Bounds = Bounds { max: 32, optimal: 128, request: 128, first: 8, gap: 12 };

/// Adds a stream at a page, or continues one.
fn change(table: &mut Table, common: &mut Common, (kind, at, len, step): (u8, u64, u64, i64), cached: u64) {
    let (access, mut pages) = (Access::new(at, len), Some64(cached));
    let (page, rest) = (access.first, access.pages.max(1));
    let new = match kind {
        0 => Some(Forward::begin(page, rest, BOUNDS.first, &mut pages, common).into()),
        1 => Some(Steps::begin(access, page, step, &BOUNDS, &mut pages, common).into()),
        _ => None,
    };
    let full = table.entries.len() == table.capacity;
    match new {
        Some(kind) => {
            let stamp = table.oldest().map(|slot| table.entries[slot].stamp);
            let replaced = table.insert(kind);
            assert_eq!(replaced.map(|entry| entry.stamp), stamp.filter(|_| full), "the oldest is replaced");
        }
        None if table.entries.is_empty() => {}
        None => table.touch(at as usize % table.entries.len(), |entry| {
            entry.prove();
            match &mut entry.kind {
                Kind::Forward(stream) if kind == 2 => {
                    stream.lost(page);
                    stream.resume(page, rest, &BOUNDS, &mut pages, common);
                }
                Kind::Forward(stream) => stream.advance(page, rest, &BOUNDS, &mut pages, common),
                Kind::Steps(stream) if kind == 2 => {
                    stream.resume(access, page, &BOUNDS, &mut pages, common);
                }
                Kind::Steps(stream) => stream.advance(&BOUNDS, &mut pages, common),
            }
        }),
    }
}

proptest! {
    #[test]
    fn what_the_indexes_find_is_what_a_search_finds(
        capacity in 1..40usize,
        steps in prop::collection::vec(
            ((0..5u8, 0..4000 * PAGE, 0..12 * PAGE, -9..9i64), any::<u64>(), 0..60u32, any::<bool>()),
            1..200,
        ),
    ) {
        let mut table = Table::new(capacity);
        let mut common = Common::new(&Settings::default());
        for (number, ((kind, at, len, step), cached, before, exact)) in steps.into_iter().enumerate() {
            let step = if step == 0 { 5 } else { step };
            change(&mut table, &mut common, (kind, at, len.max(1), step * 3072), cached);
            if number % 70 == 69 {
                table.clear();
            }
            // Places near the streams, and any others.
            let near: Vec<u64> = table.entries.iter().flat_map(|entry| {
                let (first, last) = entry.kind.range();
                [first, last, last + 1, entry.kind.mark().unwrap_or(0)]
            }).collect();
            for page in near.into_iter().chain([at / PAGE]) {
                for access in [Access::new(page * PAGE + at % 1024, len), Access::new(page.saturating_sub(9) * PAGE, len)] {
                    for (missing, before) in [(page, before), (page, 0), (access.first, 0)] {
                        prop_assert_eq!(
                            table.find(&access, missing, before, exact),
                            table.search(&access, missing, before, exact)
                        );
                    }
                    prop_assert_eq!(table.goes_on(&access), table.search_goes_on(&access));
                }
                prop_assert_eq!(table.marked(page), table.search_mark(page));
            }
            // And exactly where strided streams expect reads.
            for entry in table.entries.clone() {
                let Kind::Steps(stream) = &entry.kind else { continue };
                for (pos, len) in stream.expected() {
                    let access = Access::new(pos, len);
                    prop_assert_eq!(
                        table.find(&access, access.first, before, exact),
                        table.search(&access, access.first, before, exact)
                    );
                    prop_assert_eq!(table.goes_on(&access), table.search_goes_on(&access));
                }
            }
        }
    }
}
