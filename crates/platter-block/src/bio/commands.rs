//! Bios that carry a command of the disk's own set.

use super::{Bio, Op};
use crate::command::{Command, Transfer};
use crate::fault::Status;
use alloc::sync::Arc;

impl Bio {
    /// Turns an emptied bio into one for `command`, without data so far.
    pub(crate) fn set_command(&mut self, command: Arc<Command>) {
        command.clear_outcome();
        let (pos, end) = command.reach().range();
        self.0.op = Op::Command;
        self.0.pos = if end > pos { pos } else { 0 };
        self.0.list.set_command(Some(command));
    }

    /// The command, with its outcome once the bio has completed; `None` for every other operation.
    #[inline]
    pub fn command(&self) -> Option<&Arc<Command>> {
        self.0.list.command()
    }

    /// Whether the bio changes the device.
    #[inline]
    pub fn changes(&self) -> bool {
        match self.0.op {
            Op::Command => self.command().is_none_or(|command| command.reach().changes()),
            op => op.changes(),
        }
    }

    /// First byte, and byte past the last, of what the bio may read or change. Not the same as position and length for a
    /// command, whose length is that of its data.
    #[inline]
    pub fn reach(&self) -> (u64, u64) {
        match self.0.op {
            Op::Command => self.command().map_or((0, u64::MAX), |command| command.reach().range()),
            _ => (self.pos(), self.end()),
        }
    }

    /// Whether the device gets data from the bio's memory.
    #[inline]
    pub fn is_to_device(&self) -> bool {
        self.0.op == Op::Write || self.transfers(Transfer::ToDevice)
    }

    /// Whether the device puts data into the bio's memory.
    #[inline]
    pub fn is_from_device(&self) -> bool {
        self.0.op == Op::Read || self.transfers(Transfer::FromDevice)
    }

    fn transfers(&self, direction: Transfer) -> bool {
        self.0.op == Op::Command && self.command().is_some_and(|command| command.transfer() == direction)
    }

    /// Records the outcome of a command that another bio has carried out in this one's place.
    pub fn answered(&mut self, bytes: u64, status: Status) {
        match status {
            Ok(()) => self.finish_command(bytes),
            Err(fault) => self.fail(fault),
        }
    }

    /// Records that the device has answered the bio's command and transferred `bytes` of its data.
    pub(crate) fn finish_command(&mut self, bytes: u64) {
        self.0.done += bytes;
        self.0.len = 0;
    }
}
