//! Where collection has put units that lay in their initial places.
//!
//! Units of a block that is collected lie all over the disk, so the [table](super::map) of all units would take a part of
//! its own for nearly each of them. Here they lie side by side, as in their block.

/// A place for each place of a block.
#[derive(Debug)]
struct Block {
    /// One more than where the unit of a place is; 0: it was not copied from there.
    places: Box<[u32]>,
    /// Units that are found through this block.
    count: u32,
}

/// The blocks, as they were initially, from which units were copied.
#[derive(Debug)]
pub(super) struct Moved {
    blocks: Vec<Option<Block>>,
    /// Places of a block.
    size: u32,
}

impl Moved {
    /// For this many initial blocks of `size` places.
    pub(super) fn new(blocks: u32, size: u32) -> Moved {
        Moved { blocks: (0..blocks).map(|_| None).collect(), size }
    }

    /// Where the unit is that lay at a place of a block, if it was copied from there.
    #[inline]
    pub(super) fn get(&self, block: u32, place: u32) -> Option<u32> {
        self.blocks[block as usize].as_ref()?.places[place as usize].checked_sub(1)
    }

    /// The unit at a place of a block was copied.
    pub(super) fn set(&mut self, block: u32, place: u32, to: u32) {
        let size = self.size as usize;
        let block = self.blocks[block as usize]
            .get_or_insert_with(|| Block { places: vec![0; size].into(), count: 0 });
        block.places[place as usize] = to + 1;
        block.count += 1;
    }

    /// A unit is elsewhere now. Memory of a block all of whose units are elsewhere is freed.
    pub(super) fn forget(&mut self, block: u32, place: u32) {
        let entry = &mut self.blocks[block as usize];
        let Some(known) = entry else { return };
        known.places[place as usize] = 0;
        known.count -= 1;
        if known.count == 0 {
            *entry = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_while_a_unit_is_found_there() {
        let mut moved = Moved::new(2, 4);
        assert_eq!(moved.get(1, 3), None);
        moved.set(1, 3, 0);
        moved.set(1, 2, 77);
        assert_eq!((moved.get(1, 3), moved.get(1, 2), moved.get(1, 1)), (Some(0), Some(77), None));
        moved.forget(1, 3);
        assert_eq!((moved.get(1, 3), moved.get(1, 2)), (None, Some(77)));
        moved.forget(1, 2);
        assert!(moved.blocks.iter().all(Option::is_none));
    }
}
