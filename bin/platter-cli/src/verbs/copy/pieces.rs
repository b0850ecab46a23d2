//! The source cut into pieces: blocks to copy, and holes.

use platter_disk::device::Device;
use std::collections::VecDeque;

/// A part of the source, in whole units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// At most a block, to be read.
    Data { pos: u64, len: u64 },
    /// Reads as zeroes, of any length.
    Hole { pos: u64, len: u64 },
}

/// The pieces of some ranges of a source, in order.
pub(super) struct Pieces {
    /// Starts and ends of the ranges that have not been handed out, in order.
    ranges: VecDeque<(u64, u64)>,
    /// Where the last range ends.
    end: u64,
    block: u64,
    unit: u64,
    /// The device that is asked for its holes.
    sparse: Option<Device>,
    /// The next hole; empty at the end when there is none.
    hole: (u64, u64),
    /// Holes that have to be copied as if they were data.
    again: VecDeque<(u64, u64)>,
}

impl Pieces {
    /// The pieces of `ranges`, given by start and end, which are multiples of `unit` as `block` is.
    pub(super) fn new(ranges: Vec<(u64, u64)>, block: u64, unit: u64, sparse: Option<Device>) -> Pieces {
        let end = ranges.last().map_or(0, |range| range.1);
        let hole = (0, 0);
        Pieces { ranges: ranges.into(), end, block, unit, sparse, hole, again: VecDeque::new() }
    }

    /// Returns a hole once more, as data.
    pub(super) fn as_data(&mut self, pos: u64, len: u64) {
        self.again.push_back((pos, pos + len));
    }

    /// Leaves the next `bytes` out, in whole blocks.
    pub(super) fn leave_out(&mut self, bytes: u64) {
        let Some((pos, _)) = self.ranges.front() else { return };
        let to = pos.saturating_add(bytes) / self.block * self.block;
        self.ranges.retain_mut(|(start, end)| {
            *start = (*start).max(to);
            start < end
        });
    }

    /// Finds the first hole that ends behind `pos`.
    fn find_hole(&mut self, pos: u64) {
        let mut from = pos;
        self.hole = (self.end, self.end);
        let Some(device) = &self.sparse else { return };
        while from < self.end {
            // A device that shrank meanwhile: everything is treated as data, and reading it will show.
            let Ok(extent) = device.allocation(from, self.end - from) else { return };
            let hole = (extent.pos.next_multiple_of(self.unit), extent.end() / self.unit * self.unit);
            if extent.is_hole() && hole.0 < hole.1 {
                self.hole = hole;
                return;
            }
            from = extent.end();
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
        while self.ranges.front().is_some_and(|(pos, end)| pos >= end) {
            self.ranges.pop_front();
        }
        let (pos, end) = *self.ranges.front()?;
        if pos >= self.hole.1 {
            self.find_hole(pos);
        }
        let piece = match pos < self.hole.0 {
            true => self.first_block(pos, end.min(self.hole.0)),
            false => Piece::Hole { pos, len: end.min(self.hole.1) - pos },
        };
        let (Piece::Data { len, .. } | Piece::Hole { len, .. }) = piece;
        if let Some(front) = self.ranges.front_mut() {
            front.0 += len;
        }
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(pos: u64, len: u64) -> Piece {
        Piece::Data { pos, len }
    }

    #[test]
    fn without_holes_the_blocks_follow_each_other() {
        let pieces: Vec<Piece> = Pieces::new(vec![(0, 10 << 10)], 4096, 512, None).collect();
        assert_eq!(pieces, [data(0, 4096), data(4096, 4096), data(8192, 2048)]);
        assert_eq!(Pieces::new(vec![], 4096, 512, None).next(), None);
        assert_eq!(Pieces::new(vec![(0, 0)], 4096, 512, None).next(), None);
    }

    #[test]
    fn ranges_are_cut_at_blocks_of_the_whole() {
        let ranges = vec![(512, 5120), (8192, 9216)];
        let pieces: Vec<Piece> = Pieces::new(ranges, 4096, 512, None).collect();
        assert_eq!(pieces, [data(512, 3584), data(4096, 1024), data(8192, 1024)]);
    }

    #[test]
    fn a_part_can_be_left_out() {
        let mut pieces = Pieces::new(vec![(0, 16384), (20480, 28672)], 4096, 512, None);
        assert_eq!(pieces.next(), Some(data(0, 4096)));
        pieces.leave_out(5000);
        assert_eq!(pieces.next(), Some(data(8192, 4096)));
        pieces.leave_out(12000);
        assert_eq!(pieces.next(), Some(data(20480, 4096)));
        pieces.leave_out(1 << 20);
        assert_eq!(pieces.next(), None);
        pieces.leave_out(1);
    }

    #[test]
    fn a_hole_can_be_asked_for_as_data() {
        let mut pieces = Pieces::new(vec![(0, 16 << 10)], 4096, 512, None);
        pieces.next();
        pieces.as_data(1024, 6144);
        assert_eq!(pieces.next(), Some(data(1024, 3072)));
        assert_eq!(pieces.next(), Some(data(4096, 3072)));
        assert_eq!(pieces.next(), Some(data(4096, 4096)));
    }

    #[test]
    fn holes_and_data_cover_the_device_and_no_data_is_in_a_hole() {
        let size = 1 << 20;
        let device = Device::ram(size).unwrap();
        for at in [100_000u64, 700_000] {
            device.write_at(&[1; 5000], at).unwrap();
        }
        let ranges = vec![(0, 65536), (65536, 500_000 / 8192 * 8192), (500_000 / 8192 * 8192, size)];
        let mut at = 0;
        for piece in Pieces::new(ranges, 64 << 10, 8192, Some(device)) {
            let (Piece::Data { pos, len } | Piece::Hole { pos, len }) = piece;
            assert_eq!(pos, at);
            assert!(len > 0 && len.is_multiple_of(8192));
            let covers = |byte: u64| (pos..pos + len).contains(&byte);
            assert!(!matches!(piece, Piece::Hole { .. }) || !(covers(100_000) || covers(704_999)));
            at += len;
        }
        assert_eq!(at, size);
    }
}
