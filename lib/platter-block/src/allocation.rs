//! The allocation status of a device: which ranges hold data, and which are holes.

/// What is known of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// It may hold data and take space.
    Data,
    /// It takes no space below and reads as zeroes.
    Hole,
}

/// A range of a device with one allocation status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub pos: u64,
    /// Length in bytes, at least one.
    pub len: u64,
    /// Its status.
    pub allocation: Allocation,
}

impl Extent {
    /// A range that may hold data. What does not know holes reports this.
    pub const fn data(pos: u64, len: u64) -> Extent {
        Extent { pos, len, allocation: Allocation::Data }
    }

    /// A hole.
    pub const fn hole(pos: u64, len: u64) -> Extent {
        Extent { pos, len, allocation: Allocation::Hole }
    }

    /// Whether it is a hole.
    pub fn is_hole(&self) -> bool {
        self.allocation == Allocation::Hole
    }

    /// The first byte after it.
    pub fn end(&self) -> u64 {
        self.pos + self.len
    }

    /// The same extent of a device on which its bytes begin at `pos`, and of which only `most` bytes are asked for.
    #[must_use]
    pub fn moved(self, pos: u64, most: u64) -> Extent {
        Extent { pos, len: self.len.min(most), allocation: self.allocation }
    }
}
