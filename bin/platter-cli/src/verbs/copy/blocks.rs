//! The blocks in flight, by the numbers that their bios carry.

/// A range in flight, with its data.
pub(super) struct Block<T> {
    pub(super) pos: u64,
    pub(super) len: u64,
    pub(super) state: T,
}

/// Ranges in flight.
pub(super) struct Blocks<T> {
    slots: Vec<Option<Block<T>>>,
    free: Vec<usize>,
}

impl<T> Blocks<T> {
    /// Room for `count`.
    pub(super) fn new(count: usize) -> Blocks<T> {
        Blocks { slots: (0..count).map(|_| None).collect(), free: (0..count).rev().collect() }
    }

    /// How many are in flight.
    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Adds a range and returns its number; `None` when full.
    pub(super) fn add(&mut self, pos: u64, len: u64, state: T) -> Option<u64> {
        let index = self.free.pop()?;
        self.slots[index] = Some(Block { pos, len, state });
        Some(index as u64)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Block<T>> {
        self.slots.get_mut(usize::try_from(number).ok()?)?.as_mut()
    }

    /// Takes a range out.
    pub(super) fn remove(&mut self, number: u64) -> Option<Block<T>> {
        let index = usize::try_from(number).ok()?;
        let block = self.slots.get_mut(index)?.take()?;
        self.free.push(index);
        Some(block)
    }
}
