//! A queue that grows without moving its entries: a lock is not held while a million entries are copied.

use std::collections::VecDeque;

/// Entries that are allocated together.
const CHUNK: usize = 512;

/// First in, first out; entries may also be put back at the front.
pub(super) struct Places<T> {
    /// None of them is empty.
    chunks: VecDeque<VecDeque<T>>,
    spare: Option<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Places<T> {
    fn default() -> Places<T> {
        Places { chunks: VecDeque::new(), spare: None, len: 0 }
    }
}

impl<T> Places<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn new_chunk(&mut self) -> VecDeque<T> {
        self.spare.take().unwrap_or_else(|| VecDeque::with_capacity(CHUNK))
    }

    pub(super) fn push_back(&mut self, entry: T) {
        self.len += 1;
        if let Some(last) = self.chunks.back_mut().filter(|last| last.len() < CHUNK) {
            return last.push_back(entry);
        }
        let mut chunk = self.new_chunk();
        chunk.push_back(entry);
        self.chunks.push_back(chunk);
    }

    pub(super) fn push_front(&mut self, entry: T) {
        self.len += 1;
        if let Some(first) = self.chunks.front_mut().filter(|first| first.len() < CHUNK) {
            return first.push_front(entry);
        }
        let mut chunk = self.new_chunk();
        chunk.push_front(entry);
        self.chunks.push_front(chunk);
    }

    pub(super) fn front(&self) -> Option<&T> {
        self.chunks.front()?.front()
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let first = self.chunks.front_mut()?;
        let entry = first.pop_front();
        self.len -= 1;
        if first.is_empty() {
            self.spare = self.chunks.pop_front();
        }
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec(0..5u8, 1..4000)) {
            let (mut places, mut model) = (Places::default(), VecDeque::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    0 => {
                        places.push_front(number);
                        model.push_front(number);
                    }
                    1..=3 => {
                        places.push_back(number);
                        model.push_back(number);
                    }
                    _ => prop_assert_eq!(places.pop_front(), model.pop_front()),
                }
                prop_assert_eq!((places.front(), places.len()), (model.front(), model.len()));
            }
            let rest: Vec<usize> = std::iter::from_fn(|| places.pop_front()).collect();
            prop_assert_eq!(rest, model.into_iter().collect::<Vec<_>>());
            prop_assert!(places.is_empty());
        }
    }
}
