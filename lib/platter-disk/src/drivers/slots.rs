//! Slots for requests that are with a driver. A queue numbers its requests freely, so a driver that keeps
//! state for each of its `depth` requests uses numbers of its own.

/// Free slots, and the tags of the requests in the taken ones.
pub(super) struct Slots {
    free: Vec<u32>,
    /// Tag by slot; [`Slots::FREE`] if the slot is free.
    tags: Box<[u32]>,
}

impl Slots {
    const FREE: u32 = u32::MAX;

    /// `depth` free slots.
    pub(super) fn new(depth: u32) -> Slots {
        let tags = vec![Slots::FREE; depth as usize].into_boxed_slice();
        Slots { free: (0..depth).rev().collect(), tags }
    }

    /// Takes a slot for the request with this tag; `None` if all are taken.
    #[inline]
    pub(super) fn take(&mut self, tag: u32) -> Option<u32> {
        let slot = self.free.pop()?;
        self.tags[slot as usize] = tag;
        Some(slot)
    }

    /// Frees a slot and returns the tag; `None` if it was not taken.
    #[inline]
    pub(super) fn put(&mut self, slot: u32) -> Option<u32> {
        let place = self.tags.get_mut(slot as usize)?;
        let tag = std::mem::replace(place, Slots::FREE);
        if tag == Slots::FREE {
            return None;
        }
        self.free.push(slot);
        Some(tag)
    }

    /// The slot of the request with this tag. Searches all slots.
    #[cold]
    pub(super) fn find(&self, tag: u32) -> Option<u32> {
        let at = self.tags.iter().position(|taken| *taken == tag && tag != Slots::FREE)?;
        Some(at as u32)
    }

    /// Number of slots taken.
    #[inline]
    pub(super) fn taken(&self) -> usize {
        self.tags.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_given_once_and_come_back() {
        let mut slots = Slots::new(2);
        let (a, b) = (slots.take(70).unwrap(), slots.take(7).unwrap());
        assert_ne!(a, b);
        assert_eq!((slots.take(1), slots.taken()), (None, 2));
        assert_eq!((slots.find(70), slots.find(7), slots.find(1)), (Some(a), Some(b), None));
        assert_eq!((slots.put(a), slots.put(a), slots.put(9)), (Some(70), None, None));
        assert_eq!((slots.put(b), slots.taken()), (Some(7), 0));
    }
}
