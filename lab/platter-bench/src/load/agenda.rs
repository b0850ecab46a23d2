//! The next events: a heap of times in which each entry can be moved.

use platter_block::time::Time;

/// Where an entry is that is not in the heap.
const ABSENT: u32 = u32::MAX;

/// Times by number, the earliest first; of equal times the lowest number first. Setting a time and taking the
/// earliest are O(log n) in the number of times that are set; memory for all numbers used is kept.
///
/// A binary heap of (time, number) with the position of each number stored separately, so that an entry can
/// be moved and no stale entries remain.
pub(super) struct Agenda {
    heap: Vec<(Time, u32)>,
    places: Vec<u32>,
}

impl Agenda {
    /// An agenda for the numbers `0..entries`, none of which has a time.
    pub(super) fn new(entries: usize) -> Agenda {
        Agenda { heap: Vec::with_capacity(entries), places: vec![ABSENT; entries] }
    }

    /// The earliest time and its number.
    #[inline]
    pub(super) fn first(&self) -> Option<(Time, u32)> {
        self.heap.first().copied()
    }

    /// Gives `number` another time, or none.
    #[inline]
    pub(super) fn set(&mut self, number: u32, at: Option<Time>) {
        let place = self.places[number as usize];
        match (at, place) {
            (None, ABSENT) => {}
            (None, place) => self.remove(place as usize),
            (Some(at), ABSENT) => {
                self.heap.push((at, number));
                self.rise(self.heap.len() - 1);
            }
            (Some(at), place) => {
                let place = place as usize;
                let before = self.heap[place].0;
                self.heap[place].0 = at;
                if at < before {
                    self.rise(place);
                } else if at > before {
                    self.sink(place);
                }
            }
        }
    }

    fn remove(&mut self, place: usize) {
        let (_, number) = self.heap.swap_remove(place);
        self.places[number as usize] = ABSENT;
        if place < self.heap.len() {
            self.places[self.heap[place].1 as usize] = place as u32;
            // One of the two does nothing.
            self.rise(place);
            self.sink(place);
        }
    }

    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent] <= entry {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let mut child = 2 * place + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if self.heap[child] >= entry {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: (Time, u32)) {
        self.heap[place] = entry;
        self.places[entry.1 as usize] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compared with looking at all of them.
        #[test]
        fn the_earliest_comes_first(steps in proptest::collection::vec((0u32..12, proptest::option::of(0u64..20)), 0..200)) {
            let mut agenda = Agenda::new(12);
            let mut plain: [Option<Time>; 12] = [None; 12];
            for (number, at) in steps {
                let at = at.map(Time);
                agenda.set(number, at);
                plain[number as usize] = at;
                let first = (0u32..12).filter_map(|n| Some((plain[n as usize]?, n))).min();
                prop_assert_eq!(agenda.first(), first);
            }
            while let Some((at, number)) = agenda.first() {
                let first = (0u32..12).filter_map(|n| Some((plain[n as usize]?, n))).min();
                prop_assert_eq!(Some((at, number)), first);
                agenda.set(number, None);
                plain[number as usize] = None;
            }
            prop_assert!(plain.iter().all(Option::is_none));
        }
    }
}
