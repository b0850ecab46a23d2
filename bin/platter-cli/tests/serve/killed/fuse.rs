//! Through the file of a FUSE mount. When the server is gone every call fails; the next server replaces the mount, and the
//! file is opened again.

use super::known::{BLOCK, BLOCKS, Block, Random, contents};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One program.
pub(crate) struct Writer {
    file: File,
    first: u64,
    blocks: Vec<Block>,
    random: Random,
    total: Arc<AtomicU64>,
}

impl Writer {
    pub(crate) fn new(
        file: &Path,
        client: u64,
        blocks: Vec<Block>,
        random: Random,
        total: Arc<AtomicU64>,
    ) -> Writer {
        let file = OpenOptions::new().read(true).write(true).open(file).unwrap();
        Writer { file, first: client * BLOCKS, blocks, random, total }
    }

    /// Writes a block, or up to four in one call.
    fn write(&mut self) -> io::Result<()> {
        let count = 1 + self.random.below(4);
        let block = self.random.below(BLOCKS - count + 1);
        let range = block as usize..(block + count) as usize;
        let mut data = Vec::new();
        for (at, entry) in (block..).zip(&mut self.blocks[range.clone()]) {
            entry.sent += 1;
            data.extend(contents(self.first + at, entry.sent));
        }
        self.file.write_all_at(&data, (self.first + block) * BLOCK as u64)?;
        self.blocks[range].iter_mut().for_each(|entry| entry.answered = entry.sent);
        self.total.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.blocks.iter_mut().for_each(|block| block.durable = block.answered);
        Ok(())
    }

    /// A block of its own that it has written, and that nothing else writes.
    fn read(&mut self) -> io::Result<()> {
        let block = self.random.below(BLOCKS);
        let entry = self.blocks[block as usize];
        let mut found = vec![0; BLOCK];
        self.file.read_exact_at(&mut found, (self.first + block) * BLOCK as u64)?;
        // What an earlier kill has torn or left unanswered is whatever was found then.
        if entry.sent == entry.answered && entry.sent > 0 {
            assert!(found == contents(self.first + block, entry.sent), "block {block}");
        }
        Ok(())
    }

    /// Writes until the server is gone. What is known of the blocks then.
    pub(crate) fn run(mut self) -> Vec<Block> {
        loop {
            let done = match self.random.below(50) {
                0 => self.flush(),
                1..=9 => self.read(),
                _ => self.write(),
            };
            if done.is_err() {
                return self.blocks;
            }
        }
    }
}
