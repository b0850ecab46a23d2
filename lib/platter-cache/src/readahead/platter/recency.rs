//! The order in which slots were last touched.

/// Slots in a list from the one touched last to the one touched first. All operations take constant time.
#[derive(Clone, Debug)]
pub(super) struct Recency {
    /// The slots before and behind each, with the list's end as one more slot.
    links: Box<[(u16, u16)]>,
}

impl Recency {
    /// For slots `0..slots`, at most 65,535, none of which is in the list.
    pub(super) fn new(slots: usize) -> Recency {
        Recency { links: (0..=slots).map(|slot| (slot as u16, slot as u16)).collect() }
    }

    fn end(&self) -> u16 {
        (self.links.len() - 1) as u16
    }

    /// Makes a slot the one touched last.
    pub(super) fn touch(&mut self, slot: usize) {
        let (before, behind) = self.links[slot];
        self.links[usize::from(before)].1 = behind;
        self.links[usize::from(behind)].0 = before;
        let end = self.end();
        let first = std::mem::replace(&mut self.links[usize::from(end)].1, slot as u16);
        self.links[slot] = (end, first);
        self.links[usize::from(first)].0 = slot as u16;
    }

    /// The slot touched first; `None` if there is none.
    pub(super) fn oldest(&self) -> Option<usize> {
        let last = self.links[usize::from(self.end())].0;
        (last != self.end()).then_some(usize::from(last))
    }

    /// Takes all slots out of the list.
    pub(super) fn clear(&mut self) {
        self.links.iter_mut().enumerate().for_each(|(slot, link)| *link = (slot as u16, slot as u16));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_the_one_not_touched_for_longest() {
        let mut recency = Recency::new(4);
        assert_eq!(recency.oldest(), None);
        (0..4).for_each(|slot| recency.touch(slot));
        assert_eq!(recency.oldest(), Some(0));
        recency.touch(0);
        recency.touch(2);
        recency.touch(2);
        assert_eq!(recency.oldest(), Some(1));
        recency.touch(1);
        assert_eq!(recency.oldest(), Some(3));
        recency.clear();
        assert_eq!(recency.oldest(), None);
        recency.touch(3);
        recency.touch(1);
        assert_eq!(recency.oldest(), Some(3));
    }
}
