//! An order of dirty pages, oldest first, in which entries may be stale.

use super::places::Places;
use platter_block::time::Time;

/// Stale entries are removed from this many entries at a time.
const TIDY: usize = 256;

/// An entry: the page, its sequence number, and a time. It is stale as soon as no version of the page has that number.
pub(super) type Place = (u64, u32, Time);

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The caller gets it.
    Taken,
    /// It is dropped, because it is stale or the caller has put it elsewhere.
    Dropped,
    /// It stays, and so do those behind it.
    Stays,
}

/// An order of entries.
#[derive(Default)]
pub(super) struct Order {
    /// These come first, then those of `ring`. Stale entries are dropped when they move here from the front of `ring`.
    tidied: Places<Place>,
    ring: Places<Place>,
}

impl Order {
    /// The oldest entry, which may be stale.
    pub(super) fn front(&self) -> Option<Place> {
        self.tidied.front().or_else(|| self.ring.front()).copied()
    }

    pub(super) fn push_back(&mut self, place: Place) {
        self.ring.push_back(place);
    }

    /// Puts an entry that was taken back to the front.
    pub(super) fn put_back(&mut self, place: Place) {
        self.tidied.push_front(place);
    }

    /// Checks at most the oldest `looks` entries and moves those to `out` that are taken. Stops at the first that stays. Returns
    /// whether that many were checked.
    pub(super) fn take(
        &mut self,
        looks: usize,
        out: &mut Vec<Place>,
        mut judge: impl FnMut(Place) -> Fate,
    ) -> bool {
        for _ in 0..looks {
            let ring = if self.tidied.is_empty() { &mut self.ring } else { &mut self.tidied };
            let Some(&place) = ring.front() else { return false };
            match judge(place) {
                Fate::Stays => return false,
                Fate::Taken => out.push(place),
                Fate::Dropped => {}
            }
            ring.pop_front();
        }
        true
    }

    /// Drops some stale entries if they are the majority, with `live` entries that are not. Keeps the order.
    pub(super) fn tidy(&mut self, live: u32, is_live: impl Fn(u64, u32) -> bool) {
        if self.tidied.len() + self.ring.len() <= 64 + 2 * live as usize {
            return;
        }
        if self.ring.is_empty() {
            std::mem::swap(&mut self.tidied, &mut self.ring);
        }
        for _ in 0..TIDY {
            let Some(place) = self.ring.pop_front() else { break };
            if is_live(place.0, place.1) {
                self.tidied.push_back(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(out: &[Place]) -> Vec<u64> {
        out.iter().map(|&(page, ..)| page).collect()
    }

    #[test]
    fn entries_come_in_their_order() {
        let mut order = Order::default();
        (0..4).for_each(|page| order.push_back((page, 1, Time(page))));
        let mut out = Vec::new();
        let has_more =
            order.take(3, &mut out, |place| if place.0 == 1 { Fate::Dropped } else { Fate::Taken });
        assert_eq!((has_more, pages(&out)), (true, vec![0, 2]));
        // An entry that is put back is the next again.
        order.put_back(out[1]);
        out.clear();
        let has_more = order.take(8, &mut out, |place| if place.0 == 3 { Fate::Stays } else { Fate::Taken });
        assert_eq!((has_more, pages(&out), order.front()), (false, vec![2], Some((3, 1, Time(3)))));
    }

    /// Stale entries are dropped a few at a time, wherever they are; the others keep their order while more are added.
    #[test]
    fn stale_entries_go_and_the_order_stays() {
        let mut order = Order::default();
        (0..100).for_each(|page| order.push_back((page, 1, Time(0))));
        let mut rounds = 0;
        for page in 100..100_100 {
            // As with a page that is rewritten again and again.
            order.push_back((page, 2, Time(1)));
            let before = order.tidied.len() + order.ring.len();
            order.tidy(100, |_, seq| seq == 1);
            rounds += u32::from(order.tidied.len() + order.ring.len() < before);
        }
        assert!(rounds > 10 && order.tidied.len() + order.ring.len() <= 64 + 200 + TIDY);
        let mut out = Vec::new();
        let judge = |(_, seq, _): Place| if seq == 1 { Fate::Taken } else { Fate::Dropped };
        order.take(usize::MAX, &mut out, judge);
        assert_eq!(pages(&out), (0..100).collect::<Vec<_>>());
    }
}
