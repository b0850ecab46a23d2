//! Which sets of commands there are, and which of them a disk takes.

use super::MAX_BYTES;
use core::fmt;

/// A set of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum CommandSet {
    /// SCSI command descriptor blocks.
    Scsi = 1,
    /// I/O commands of NVMe.
    Nvme = 2,
    /// Admin commands of NVMe.
    NvmeAdmin = 4,
}

impl CommandSet {
    /// Least and most bytes of a command.
    pub(super) const fn lengths(self) -> (usize, usize) {
        match self {
            CommandSet::Scsi => (6, MAX_BYTES),
            CommandSet::Nvme | CommandSet::NvmeAdmin => (64, 64),
        }
    }
}

impl fmt::Display for CommandSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CommandSet::Scsi => "SCSI",
            CommandSet::Nvme => "NVMe",
            CommandSet::NvmeAdmin => "NVMe admin",
        })
    }
}

/// The sets of commands that a disk takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandSets(u8);

impl CommandSets {
    /// None: the disk takes no commands.
    pub const NONE: CommandSets = CommandSets(0);

    /// These sets and one more.
    #[must_use]
    pub const fn with(self, set: CommandSet) -> CommandSets {
        CommandSets(self.0 | set as u8)
    }

    /// The sets that both take.
    #[must_use]
    pub const fn and(self, other: CommandSets) -> CommandSets {
        CommandSets(self.0 & other.0)
    }

    /// Whether a set is one of them.
    #[inline]
    pub const fn contains(self, set: CommandSet) -> bool {
        self.0 & set as u8 != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}
