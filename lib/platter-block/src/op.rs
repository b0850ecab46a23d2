//! The operations. Errors and bios both name them.

use core::fmt;

/// The operation of a bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Device to memory.
    Read,
    /// Memory to device.
    Write,
    /// Make everything that has completed durable. No data. A length, if given, says that the submitter needs only
    /// that range to be durable: a cache then writes back and flushes no more than that; a disk flushes everything. A
    /// cache that could not write a range back fails the flush, with the bio aimed at ([`Bio::rewind`](crate::bio::Bio::rewind)) that range.
    Flush,
    /// The contents of a range are no longer needed.
    Discard,
    /// A range reads as zeroes afterwards.
    WriteZeroes,
    /// A [command](crate::command::Command) of the disk's own set, carried out as it is.
    Command,
}

impl Op {
    /// All operations, in the order of their numbers.
    pub const ALL: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes, Op::Command];

    /// Whether the operation may transfer data.
    #[inline]
    pub const fn has_data(self) -> bool {
        matches!(self, Op::Read | Op::Write | Op::Command)
    }

    /// Whether the operation changes the device. A command may; [`Bio::changes`](crate::bio::Bio::changes) knows.
    #[inline]
    pub const fn changes(self) -> bool {
        matches!(self, Op::Write | Op::Discard | Op::WriteZeroes | Op::Command)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Discard => "discard",
            Op::WriteZeroes => "write-zeroes",
            Op::Command => "command",
        })
    }
}
