//! The source cut into pieces: blocks to copy, and holes.

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::File;

/// A part of the source, in whole units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// At most a block, to be read.
    Data { pos: u64, len: u64 },
    /// Reads as zeroes, of any length.
    Hole { pos: u64, len: u64 },
}

/// The pieces of a source in order.
pub(super) struct Pieces {
    pos: u64,
    end: u64,
    block: u64,
    unit: u64,
    file: Option<File>,
    /// The next hole; empty at the end when there is none.
    hole: (u64, u64),
    /// Holes that have to be copied as if they were data.
    again: VecDeque<(u64, u64)>,
}

impl Pieces {
    /// The pieces of the first `end` bytes, which are a multiple of `unit` as `block` is.
    pub(super) fn new(end: u64, block: u64, unit: u64, file: Option<File>) -> Pieces {
        Pieces { pos: 0, end, block, unit, file, hole: (0, 0), again: VecDeque::new() }
    }

    /// The lowest offset that has not been handed out.
    pub(super) fn position(&self) -> u64 {
        self.again.iter().map(|(pos, _)| *pos).min().unwrap_or(self.end).min(self.pos)
    }

    /// Has a hole handed out once more, as data.
    pub(super) fn as_data(&mut self, pos: u64, len: u64) {
        self.again.push_back((pos, pos + len));
    }

    /// Moves on to the hole that ends behind `pos`.
    fn find_hole(&mut self) {
        let mut from = self.pos;
        self.hole = (self.end, self.end);
        let Some(file) = &self.file else { return };
        while from < self.end {
            // A file system without holes, or a file cut short meanwhile: all is data, and reading it will tell.
            let Ok(start) = seek(file, SeekFrom::Hole(from)) else { return };
            let end = match seek(file, SeekFrom::Data(start)) {
                Ok(end) => end.min(self.end),
                Err(Errno::NXIO) => self.end,
                Err(_) => return,
            };
            let hole = (start.next_multiple_of(self.unit), end / self.unit * self.unit);
            if hole.0 < hole.1 {
                self.hole = hole;
                return;
            }
            from = end.max(from + 1);
        }
    }

    /// The first block of a range.
    fn first_block(&self, pos: u64, end: u64) -> Piece {
        let border = (pos + 1).next_multiple_of(self.block);
        Piece::Data { pos, len: border.min(end) - pos }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if let Some((pos, end)) = self.again.pop_front() {
            let piece = self.first_block(pos, end);
            if let Piece::Data { len, .. } = piece
                && pos + len < end
            {
                self.again.push_front((pos + len, end));
            }
            return Some(piece);
        }
        if self.pos >= self.end {
            return None;
        }
        if self.pos >= self.hole.1 {
            self.find_hole();
        }
        let piece = match self.pos < self.hole.0 {
            true => self.first_block(self.pos, self.hole.0),
            false => Piece::Hole { pos: self.pos, len: self.hole.1 - self.pos },
        };
        let (Piece::Data { len, .. } | Piece::Hole { len, .. }) = piece;
        self.pos += len;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    fn data(pos: u64, len: u64) -> Piece {
        Piece::Data { pos, len }
    }

    #[test]
    fn without_holes_the_blocks_follow_each_other() {
        let pieces: Vec<Piece> = Pieces::new(10 << 10, 4096, 512, None).collect();
        assert_eq!(pieces, [data(0, 4096), data(4096, 4096), data(8192, 2048)]);
        assert_eq!(Pieces::new(0, 4096, 512, None).next(), None);
    }

    #[test]
    fn a_hole_can_be_asked_for_as_data() {
        let mut pieces = Pieces::new(16 << 10, 4096, 512, None);
        pieces.next();
        pieces.as_data(1024, 6144);
        assert_eq!(pieces.position(), 1024);
        assert_eq!(pieces.next(), Some(data(1024, 3072)));
        assert_eq!(pieces.next(), Some(data(4096, 3072)));
        assert_eq!((pieces.next(), pieces.position()), (Some(data(4096, 4096)), 8192));
    }

    #[test]
    fn pieces_cover_a_sparse_file_once_and_data_is_never_a_hole() {
        let mut file = tempfile::tempfile().unwrap();
        let size = 1 << 20;
        file.set_len(size).unwrap();
        for at in [100_000u64, 700_000] {
            file.seek(io_start(at)).unwrap();
            file.write_all(&[1; 5000]).unwrap();
        }
        let mut at = 0;
        for piece in Pieces::new(size, 64 << 10, 8192, Some(file)) {
            let (Piece::Data { pos, len } | Piece::Hole { pos, len }) = piece;
            assert_eq!(pos, at);
            assert!(len > 0 && len.is_multiple_of(8192));
            let covers = |byte: u64| (pos..pos + len).contains(&byte);
            assert!(!matches!(piece, Piece::Hole { .. }) || !(covers(100_000) || covers(704_999)));
            at += len;
        }
        assert_eq!(at, size);
    }

    fn io_start(at: u64) -> std::io::SeekFrom {
        std::io::SeekFrom::Start(at)
    }
}
