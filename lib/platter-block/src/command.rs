//! Commands that a bio carries to a disk as they are ([`Op::Command`](crate::op::Op::Command)): SCSI command descriptor
//! blocks and NVMe submission queue entries.
//!
//! A command travels like any other bio: through plug, gate, queue and driver, with depth, deadline, barriers, trace and
//! counters. It is never merged, split or repeated, because only its submitter knows what that would do. As in the kernel
//! (2.6's `REQ_BLOCK_PC`), an elevator does not sort it: it goes to the head of the dispatch list, or to its end, behind
//! everything that the elevator held.
//!
//! # Commands
//!
//! A bio of `Op::Command` carries a `Command` of the disk's own set, SCSI or NVMe, to disks whose `Features::commands`
//! names it. The queue does not sort, merge, split or repeat it; what it may read or change is its `Bio::reach`. Its
//! page (docs/commands.md) has the rules.
//!
//! **Invariant:** a driver stores the outcome of a command before it reports the completion.

use crate::time::Span;
use core::fmt;

mod outcome;
mod sets;

use outcome::OutcomeCell;
pub use outcome::{Outcome, SENSE_BYTES, Sense};
pub use sets::{CommandSet, CommandSets};

/// Most bytes of a command: a submission queue entry of NVMe. SCSI commands of variable length may have up to 260 bytes;
/// those beyond 64 are not supported.
pub const MAX_BYTES: usize = 64;

/// Direction of a command's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// The command has no data.
    #[default]
    None,
    /// Device to memory.
    FromDevice,
    /// Memory to device.
    ToDevice,
}

/// The bytes of the device that a command may read or change. Positions and lengths are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reach {
    /// It reads and changes no block: an inquiry, for example.
    Nothing,
    /// It reads a range and changes no block.
    Reads {
        /// First byte.
        pos: u64,
        /// Length.
        len: u64,
    },
    /// It changes a range, and may read it.
    Changes {
        /// First byte.
        pos: u64,
        /// Length.
        len: u64,
    },
    /// It may change anything. The default, because it is true of every command.
    #[default]
    Everything,
}

impl Reach {
    /// It concerns the whole device and changes no block, as a command that flushes a cache.
    pub const READS_ALL: Reach = Reach::Reads { pos: 0, len: u64::MAX };

    /// Whether the command may change blocks.
    #[inline]
    pub const fn changes(self) -> bool {
        matches!(self, Reach::Changes { .. } | Reach::Everything)
    }

    /// First byte, and byte past the last, of what the command may read or change; equal if there is nothing.
    #[inline]
    pub const fn range(self) -> (u64, u64) {
        match self {
            Reach::Nothing => (0, 0),
            Reach::Reads { pos, len } | Reach::Changes { pos, len } => (pos, pos.saturating_add(len)),
            Reach::Everything => (0, u64::MAX),
        }
    }
}

/// How the device gets at the memory of a command's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MemoryUse {
    /// Directly if addresses and lengths have the device's alignment, else through a copy, as `blk_rq_map_user` of Linux 2.6
    /// chooses.
    #[default]
    Auto,
    /// Directly; misaligned memory is an error.
    Mapped,
    /// Through a copy in aligned memory, whatever the alignment.
    Copied,
}

/// Why a command cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandError {
    /// The command has another length than its set allows: the length in bytes, and the least and the most allowed.
    Length {
        /// The length given.
        len: usize,
        /// The least allowed.
        least: usize,
        /// The most allowed.
        most: usize,
    },
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CommandError::Length { len, least, most } = *self;
        write!(f, "a command of {len} bytes; expected {least}")?;
        if most > least { write!(f, " to {most}") } else { Ok(()) }
    }
}

impl core::error::Error for CommandError {}

/// A command and, once the device has answered it, its [`Outcome`].
///
/// ```
/// use platter_block::command::{Command, CommandSet, Reach, Transfer};
/// let inquiry = Command::new(CommandSet::Scsi, &[0x12, 0, 0, 0, 96, 0])?
///     .with_transfer(Transfer::FromDevice)
///     .with_reach(Reach::Nothing);
/// assert!(inquiry.outcome().is_none());
/// # Ok::<(), platter_block::command::CommandError>(())
/// ```
#[derive(Debug)]
pub struct Command {
    bytes: [u8; MAX_BYTES],
    len: u8,
    set: CommandSet,
    transfer: Transfer,
    reach: Reach,
    at_head: bool,
    memory: MemoryUse,
    timeout: Option<Span>,
    outcome: OutcomeCell,
}

impl Command {
    /// A command of a set: for SCSI a command descriptor block of 6 to 64 bytes; for NVMe a submission queue entry of 64
    /// bytes, in which the driver sets the command identifier and the pointers.
    ///
    /// # Errors
    /// The length is not one of the set.
    pub fn new(set: CommandSet, bytes: &[u8]) -> Result<Command, CommandError> {
        let (least, most) = set.lengths();
        let len = bytes.len();
        let mut all = [0; MAX_BYTES];
        match all.get_mut(..len) {
            Some(place) if (least..=most).contains(&len) => place.copy_from_slice(bytes),
            _ => return Err(CommandError::Length { len, least, most }),
        }
        Ok(Command {
            bytes: all,
            len: len as u8,
            set,
            transfer: Transfer::None,
            reach: Reach::Everything,
            at_head: false,
            memory: MemoryUse::Auto,
            timeout: None,
            outcome: OutcomeCell::default(),
        })
    }

    /// Sets the direction of the data.
    pub fn with_transfer(self, transfer: Transfer) -> Command {
        Command { transfer, ..self }
    }

    /// Sets what the command may read or change. A wrong value breaks the promises about late changes and about caches
    /// above, so it should be decoded from the command.
    pub fn with_reach(self, reach: Reach) -> Command {
        Command { reach, ..self }
    }

    /// Sets whether the command goes before everything that has not started. The default is its place in the order.
    pub fn with_at_head(self, at_head: bool) -> Command {
        Command { at_head, ..self }
    }

    /// Sets how the device gets at the data.
    pub fn with_memory(self, memory: MemoryUse) -> Command {
        Command { memory, ..self }
    }

    /// Sets the time after which the transport aborts the command, for transports that can. It counts from the start of the
    /// command, unlike [`Bio::deadline`](crate::bio::Bio::deadline), at which the handle stops waiting wherever the command is.
    pub fn with_timeout(self, timeout: Option<Span>) -> Command {
        Command { timeout, ..self }
    }

    /// The bytes of the command.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    /// The set that the command belongs to.
    #[inline]
    pub fn set(&self) -> CommandSet {
        self.set
    }

    /// Direction of the data.
    #[inline]
    pub fn transfer(&self) -> Transfer {
        self.transfer
    }

    /// What the command may read or change.
    #[inline]
    pub fn reach(&self) -> Reach {
        self.reach
    }

    /// Whether the command goes before everything that has not started.
    #[inline]
    pub fn is_at_head(&self) -> bool {
        self.at_head
    }

    /// How the device gets at the data.
    #[inline]
    pub fn memory(&self) -> MemoryUse {
        self.memory
    }

    /// The time after which the transport aborts the command.
    pub fn timeout(&self) -> Option<Span> {
        self.timeout
    }

    /// The device's answer; `None` if it has not answered: the command has not completed, or failed on the way.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.get()
    }

    /// Stores the device's answer. For drivers, before they report the completion.
    pub fn set_outcome(&self, outcome: &Outcome) {
        self.outcome.set(outcome);
    }

    /// Forgets the answer of an earlier submission.
    pub(crate) fn clear_outcome(&self) {
        self.outcome.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_those_of_the_set() {
        let length = |set, len| Command::new(set, &[0u8; 100][..len]).map(|command| command.bytes().len());
        assert_eq!(length(CommandSet::Scsi, 6), Ok(6));
        assert_eq!(length(CommandSet::Scsi, 64), Ok(64));
        assert_eq!(length(CommandSet::Nvme, 64), Ok(64));
        let wrong = |len, least, most| Err(CommandError::Length { len, least, most });
        assert_eq!(length(CommandSet::Scsi, 5), wrong(5, 6, 64));
        assert_eq!(length(CommandSet::Scsi, 65), wrong(65, 6, 64));
        assert_eq!(length(CommandSet::NvmeAdmin, 63), wrong(63, 64, 64));
        let error = Command::new(CommandSet::Nvme, &[]).unwrap_err();
        assert_eq!(alloc::format!("{error}"), "a command of 0 bytes; expected 64");
    }

    #[test]
    fn a_reach_is_a_range() {
        assert_eq!(Reach::Nothing.range(), (0, 0));
        assert_eq!(Reach::Changes { pos: 512, len: 1024 }.range(), (512, 1536));
        assert_eq!(Reach::Changes { pos: u64::MAX, len: 2 }.range(), (u64::MAX, u64::MAX));
        assert_eq!(Reach::READS_ALL.range(), Reach::Everything.range());
        assert!(!Reach::READS_ALL.changes() && Reach::Everything.changes());
    }
}
