//! Where ext3 puts the files of the test, and which blocks say so.

/// Bytes of a block.
pub(super) const BLOCK: u64 = 4096;
/// Blocks that the inode itself names.
const DIRECT: u64 = 12;
/// Blocks that an indirect block names.
const INDIRECT: u64 = BLOCK / 4;
/// Inodes of 128 bytes in a block.
const INODES: u32 = (BLOCK / 128) as u32;
/// Number of blocks of the journal: the size that `mke2fs` gives it on a large file system.
pub(super) const JOURNAL: u64 = (32 << 20) / BLOCK;

/// Files of one size that were written one after the other on an empty file system: blocks follow each other, each
/// indirect block in front of the data that it names, and the journal in front of all.
pub(super) struct Layout {
    /// Data blocks of a file.
    blocks: u64,
    /// Blocks of a file with the indirect ones.
    span: u64,
}

impl Layout {
    pub(super) fn new(file_size: u64) -> Layout {
        let blocks = file_size / BLOCK;
        Layout { blocks, span: blocks + indirect_before(blocks.saturating_sub(1)) }
    }

    /// Where block `block` of a file is on the disk, in blocks.
    pub(super) fn data(&self, file: u32, block: u64) -> u64 {
        self.first(file) + block + indirect_before(block)
    }

    /// The first block of a file.
    pub(super) fn first(&self, file: u32) -> u64 {
        JOURNAL + u64::from(file) * self.span
    }

    /// Blocks from the first of a file to its last.
    pub(super) fn span(&self) -> u64 {
        self.span
    }

    /// The indirect blocks that have to be read before block `block` of a file is known, on the disk.
    pub(super) fn index(&self, file: u32, block: u64) -> impl Iterator<Item = u64> {
        let (first, own) = (self.first(file), indirect_before(block));
        let double = (own > 1).then(|| first + DIRECT + 1 + INDIRECT);
        let nearest =
            block.checked_sub(DIRECT).map(|past| first + DIRECT + past / INDIRECT * INDIRECT + own - 1);
        double.into_iter().chain(nearest)
    }

    /// The block of inodes that has a file's.
    pub(super) fn inode_block(file: u32) -> u32 {
        file / INODES
    }

    /// Data blocks of a file.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }
}

/// Indirect blocks in front of block `block` of a file.
fn indirect_before(block: u64) -> u64 {
    match block.checked_sub(DIRECT) {
        None => 0,
        Some(past) if past < INDIRECT => 1,
        // And the double indirect block.
        Some(past) => 2 + past / INDIRECT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_of_the_files_has_one_place() {
        let layout = Layout::new(24 << 20);
        assert_eq!((layout.blocks(), layout.span()), (6144, 6144 + 7));
        let mut taken = std::collections::HashSet::new();
        let mut index = std::collections::HashSet::new();
        for file in 0..3 {
            for block in 0..layout.blocks() {
                assert!(taken.insert(layout.data(file, block)));
                index.extend(layout.index(file, block));
            }
        }
        assert_eq!(index.len(), 3 * 7);
        assert!(taken.is_disjoint(&index));
        taken.extend(index);
        let all = JOURNAL..JOURNAL + 3 * layout.span();
        assert_eq!(taken.len() as u64, all.end - all.start);
        assert!(taken.iter().all(|block| all.contains(block)));
    }
}
