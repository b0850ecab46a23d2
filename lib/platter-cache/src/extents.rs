//! The dirty pages by position, for flushes of a range: their cost does not depend on dirty pages elsewhere.
//!
//! The set contains a page while any version of it is dirty. Pages are grouped in extents of 1 MiB. Only
//! extents with dirty pages are stored, at about 50 bytes each.

use std::collections::BTreeMap;

/// Pages of an extent.
const PAGES: u64 = 256;
const WORDS: usize = PAGES as usize / 64;

/// A set of pages.
#[derive(Default)]
pub(super) struct Extents(BTreeMap<u64, [u64; WORDS]>);

fn place(page: u64) -> (u64, usize, u64) {
    let within = page % PAGES;
    (page / PAGES, (within / 64) as usize, 1 << (within % 64))
}

impl Extents {
    /// Adds a page.
    pub(super) fn insert(&mut self, page: u64) {
        let (extent, word, bit) = place(page);
        self.0.entry(extent).or_default()[word] |= bit;
    }

    /// Takes a page out.
    pub(super) fn remove(&mut self, page: u64) {
        let (extent, word, bit) = place(page);
        if let Some(words) = self.0.get_mut(&extent) {
            words[word] &= !bit;
            if *words == [0; WORDS] {
                self.0.remove(&extent);
            }
        }
    }

    /// The first page from `from` on, below `end`.
    pub(super) fn next(&self, from: u64, end: u64) -> Option<u64> {
        if from >= end {
            return None;
        }
        let (first, word, bit) = place(from);
        for (&extent, words) in self.0.range(first..=(end - 1) / PAGES) {
            let skip = if extent == first { word } else { 0 };
            for (at, &bits) in words.iter().enumerate().skip(skip) {
                let bits = if extent == first && at == word { bits & !(bit - 1) } else { bits };
                if bits != 0 {
                    let page = extent * PAGES + at as u64 * 64 + u64::from(bits.trailing_zeros());
                    return (page < end).then_some(page);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn they_are_a_set(steps in prop::collection::vec((0..3u8, 0..1000u64, 0..1000u64), 1..300)) {
            let (mut extents, mut model) = (Extents::default(), BTreeSet::new());
            for (step, page, end) in steps {
                // Also tests pages that are far apart, up to the last possible page.
                let far = |page: u64| if page > 900 { (u64::MAX >> 12) - 1000 + page } else { page };
                let (page, end) = (far(page), far(end));
                match step {
                    0 => {
                        extents.insert(page);
                        model.insert(page);
                    }
                    1 => {
                        extents.remove(page);
                        model.remove(&page);
                    }
                    _ => {
                        let next = if page < end { model.range(page..end).next() } else { None };
                        prop_assert_eq!(extents.next(page, end), next.copied());
                    }
                }
            }
            let mut from = 0;
            let all: Vec<u64> = std::iter::from_fn(|| {
                let page = extents.next(from, u64::MAX)?;
                from = page + 1;
                Some(page)
            }).collect();
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_extent_without_pages_takes_no_memory() {
        let mut extents = Extents::default();
        (0..100).for_each(|page| extents.insert(page * 1000));
        (0..100).for_each(|page| extents.remove(page * 1000));
        assert!(extents.0.is_empty());
    }
}
