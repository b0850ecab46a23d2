//! An index of the slots of a ring by a key.

/// No slot.
const NONE: u16 = u16::MAX;

/// Slots in chains by the hash of their key. The keys are kept by the caller. Finding the slots of a key takes constant time
/// as long as few of them have the same key. Nothing is allocated after the start.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    heads: Box<[u16]>,
    next: Box<[u16]>,
}

impl Keys {
    /// For slots `0..slots`, at most 65,535.
    pub(super) fn new(slots: usize) -> Keys {
        let heads = (2 * slots).next_power_of_two();
        Keys { heads: vec![NONE; heads].into(), next: vec![NONE; slots].into() }
    }

    fn head(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.heads.len() - 1)
    }

    /// Adds a slot that is not in the index.
    pub(super) fn insert(&mut self, slot: usize, key: u64) {
        let head = self.head(key);
        self.next[slot] = std::mem::replace(&mut self.heads[head], slot as u16);
    }

    /// Takes a slot out that was added with this key.
    pub(super) fn remove(&mut self, slot: usize, key: u64) {
        let (head, after) = (self.head(key), self.next[slot]);
        let mut at = self.heads[head];
        if usize::from(at) == slot {
            self.heads[head] = after;
            return;
        }
        while at != NONE {
            let next = self.next[usize::from(at)];
            if usize::from(next) == slot {
                self.next[usize::from(at)] = after;
                return;
            }
            at = next;
        }
    }

    /// The slots that may have a key: all that have it, and some others.
    pub(super) fn slots(&self, key: u64) -> impl Iterator<Item = usize> {
        let mut at = self.heads[self.head(key)];
        std::iter::from_fn(move || {
            let slot = Some(usize::from(at)).filter(|_| at != NONE)?;
            at = self.next[slot];
            Some(slot)
        })
    }
}
