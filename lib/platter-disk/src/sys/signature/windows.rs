//! Reads of a disk for signatures: its first and last mebibyte once, anything else by the block.

use super::{FindError, ReadAt};

const WINDOW: u64 = 1 << 20;
const BLOCK: u64 = 4096;

/// Cached parts of a disk.
pub(super) struct Windows<'a, D: ReadAt + ?Sized> {
    disk: &'a D,
    size: u64,
    head: Part,
    tail: Part,
    other: Part,
}

/// Bytes read from `start` on.
#[derive(Default)]
struct Part {
    start: u64,
    bytes: Vec<u8>,
}

impl Part {
    fn get(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }
}

impl<'a, D: ReadAt + ?Sized> Windows<'a, D> {
    pub(super) fn new(disk: &'a D) -> Result<Self, FindError> {
        let size = disk.size();
        let mut windows =
            Windows { disk, size, head: Part::default(), tail: Part::default(), other: Part::default() };
        windows.head = windows.read(0, WINDOW.min(size))?;
        let tail = size.saturating_sub(WINDOW) / BLOCK * BLOCK;
        windows.tail = windows.read(tail, size - tail)?;
        Ok(windows)
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// `len` bytes at `offset`; `None` if the disk is too small.
    pub(super) fn get(&mut self, offset: u64, len: usize) -> Result<Option<&[u8]>, FindError> {
        let Some(end) = offset.checked_add(len as u64).filter(|end| *end <= self.size) else {
            return Ok(None);
        };
        let cached = [&self.head, &self.tail, &self.other].iter().any(|p| p.get(offset, len).is_some());
        if !cached {
            let start = offset / BLOCK * BLOCK;
            let end = end.next_multiple_of(BLOCK).min(self.size);
            self.other = self.read(start, end - start)?;
        }
        Ok([&self.head, &self.tail, &self.other].into_iter().find_map(|part| part.get(offset, len)))
    }

    /// Whether the bytes at `offset` are `magic`.
    pub(super) fn is(&mut self, offset: u64, magic: &[u8]) -> Result<bool, FindError> {
        Ok(self.get(offset, magic.len())? == Some(magic))
    }

    fn read(&self, start: u64, len: u64) -> Result<Part, FindError> {
        let mut bytes = vec![0; len as usize];
        let read = self.disk.read_exact_at(&mut bytes, start);
        read.map_err(|source| FindError { offset: start, source })?;
        Ok(Part { start, bytes })
    }
}
