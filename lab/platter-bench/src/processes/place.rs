//! The positions of files: block groups as in ext2, without a file system.

use super::ProcessError;
use crate::stats::Seeded;

/// Bytes of a block group: 32768 blocks of 4 KiB.
pub const GROUP_BYTES: u64 = 128 << 20;
/// Bytes of a block.
const BLOCK: u64 = 4096;
/// Where the inodes of a group begin, behind the bitmaps, and how much room they have.
const INODES_AT: u64 = 4 * BLOCK;
const INODE_BYTES: u64 = 2 << 20;
/// Inodes in a block: 128 bytes each.
const INODES_PER_BLOCK: u64 = BLOCK / 128;
/// Data of small files in a group before the next one is taken.
const FILL: u64 = GROUP_BYTES / 2;

/// A file in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// First byte on the device.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// A small file of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeFile {
    /// The block of its directory.
    pub directory: u64,
    /// The block of its inode.
    pub inode: u64,
    /// Its contents.
    pub data: File,
}

/// A tree of small files, in the order in which they were made and are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The files.
    pub files: Vec<TreeFile>,
}

impl Tree {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.data.len).sum()
    }
}

/// Gives files their places on a device, from its start on. The same calls give the same places.
#[derive(Clone, Debug)]
pub struct Placement {
    size: u64,
    /// The first free byte.
    next: u64,
}

impl Placement {
    /// A device of `size` bytes without files.
    pub fn new(size: u64) -> Placement {
        Placement { size, next: 0 }
    }

    fn take(&mut self, bytes: u64) -> Result<u64, ProcessError> {
        let needed = self.next.saturating_add(bytes);
        if needed > self.size {
            return Err(ProcessError::TooSmall { needed, size: self.size });
        }
        Ok(std::mem::replace(&mut self.next, needed))
    }

    /// A large file, in one piece behind everything before it. (ext2 interrupts it every 128 MiB by the bitmaps
    /// and inodes of a group.)
    ///
    /// # Errors
    /// The device is too small.
    pub fn file(&mut self, len: u64) -> Result<File, ProcessError> {
        let len = len.next_multiple_of(BLOCK);
        Ok(File { offset: self.take(len)?, len })
    }

    /// Leaves a gap, so that later files are further inside.
    ///
    /// # Errors
    /// The device is too small.
    pub fn skip(&mut self, bytes: u64) -> Result<(), ProcessError> {
        self.take(bytes.next_multiple_of(BLOCK)).map(|_| ())
    }

    /// A tree of `files` small files, `per_directory` in each directory, with random sizes between 4 KiB and
    /// 64 KiB, 17 KiB on average, as in the source of a kernel.
    ///
    /// Directories fill one block group after the other, as in ext2 since 2.5.46 for directories with a
    /// common parent; a file has its inode and its data in the group of its directory.
    ///
    /// # Errors
    /// The device is too small.
    pub fn tree(&mut self, files: u64, per_directory: u64, seed: u64) -> Result<Tree, ProcessError> {
        let mut rng = Seeded::new(seed);
        let mut group = Group::open(self)?;
        let mut found = Vec::with_capacity(files as usize);
        let mut directory = 0;
        for number in 0..files {
            if number.is_multiple_of(per_directory.max(1)) {
                if group.is_full() {
                    group = Group::open(self)?;
                }
                directory = group.data(BLOCK);
            }
            let shift = rng.below(6);
            let len = ((1024 << shift) + rng.below(1024 << shift)).next_multiple_of(BLOCK);
            let (inode, offset) = (group.inode(), group.data(len));
            found.push(TreeFile { directory, inode, data: File { offset, len } });
        }
        Ok(Tree { files: found })
    }

    /// A tree of `files` small files in as many groups, `apart` bytes from each other: the files that a
    /// starting program reads.
    ///
    /// # Errors
    /// The device is too small.
    pub fn scattered(&mut self, files: u64, apart: u64, seed: u64) -> Result<Tree, ProcessError> {
        let mut all = Tree { files: Vec::new() };
        for number in 0..files {
            let mut one = self.tree(1, 1, seed.wrapping_add(number))?;
            all.files.append(&mut one.files);
            self.skip(apart.saturating_sub(GROUP_BYTES))?;
        }
        Ok(all)
    }
}

/// A block group that is being filled with small files.
struct Group {
    start: u64,
    inodes: u64,
    data: u64,
}

impl Group {
    fn open(placement: &mut Placement) -> Result<Group, ProcessError> {
        Ok(Group { start: placement.take(GROUP_BYTES)?, inodes: 0, data: INODES_AT + INODE_BYTES })
    }

    fn is_full(&self) -> bool {
        self.data - INODES_AT - INODE_BYTES > FILL || self.inodes * 128 > INODE_BYTES / 2
    }

    /// The block of the next inode.
    fn inode(&mut self) -> u64 {
        let block = self.inodes / INODES_PER_BLOCK;
        self.inodes += 1;
        self.start + INODES_AT + block * BLOCK
    }

    fn data(&mut self, len: u64) -> u64 {
        let at = self.start + self.data;
        self.data += len;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn large_files_follow_each_other_and_the_device_ends() {
        let mut place = Placement::new(10 << 20);
        assert_eq!(place.file(5000).unwrap(), File { offset: 0, len: 8192 });
        assert_eq!(place.file(1 << 20).unwrap(), File { offset: 8192, len: 1 << 20 });
        let error = place.file(10 << 20).unwrap_err().to_string();
        assert!(error.contains("the device has 10 MiB; give a larger one"), "{error}");
    }

    #[test]
    fn small_files_lie_behind_their_inodes_and_nowhere_twice() {
        let mut place = Placement::new(1 << 40);
        let tree = place.tree(20_000, 25, 7).unwrap();
        assert_eq!(tree, Placement::new(1 << 40).tree(20_000, 25, 7).unwrap());
        let mean = tree.bytes() / 20_000;
        assert!((15 << 10..20 << 10).contains(&mean), "{mean}");
        let mut ends = BTreeSet::new();
        let mut last = 0;
        for file in &tree.files {
            let group = file.data.offset / GROUP_BYTES;
            assert_eq!((file.inode / GROUP_BYTES, file.directory / GROUP_BYTES), (group, group));
            assert!(file.data.offset >= last && file.data.len.is_multiple_of(BLOCK));
            assert!((file.data.offset + file.data.len - 1) / GROUP_BYTES == group);
            last = file.data.offset + file.data.len;
            assert!(ends.insert(last));
        }
        assert!(tree.files.last().unwrap().data.offset / GROUP_BYTES >= 3);
        let next = place.file(BLOCK).unwrap();
        assert!(next.offset >= last);
    }

    #[test]
    fn scattered_files_are_apart() {
        let tree = Placement::new(1 << 40).scattered(10, 1 << 30, 1).unwrap();
        let gaps = tree.files.windows(2).map(|pair| pair[1].inode - pair[0].inode);
        assert!(gaps.into_iter().all(|gap| gap == 1 << 30));
    }
}
