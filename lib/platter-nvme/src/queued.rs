//! Entries as commands that bios carry ([`platter_block::command`]).

use crate::command::{self, Command, Direction, Effect, Entry, Queue};
use platter_block::command::{self as block, CommandSet, Reach, Transfer};

impl Entry {
    /// The bytes of the device that the command may read or change, in a namespace with blocks of `block` bytes, without their
    /// metadata. Ranges in a command's data are not looked at.
    pub fn reach(&self, block: u64) -> Reach {
        let is = |rows: &[&Command]| rows.iter().any(|row| core::ptr::eq(*row, self.command()));
        let range = || {
            self.blocks().map(|(first, blocks)| (first.saturating_mul(block), blocks.saturating_mul(block)))
        };
        if is(&[&command::READ, &command::COMPARE, &command::VERIFY]) {
            range().map_or(Reach::Everything, |(pos, len)| Reach::Reads { pos, len })
        } else if is(&[&command::WRITE, &command::WRITE_ZEROES, &command::WRITE_UNCORRECTABLE]) {
            range().map_or(Reach::Everything, |(pos, len)| Reach::Changes { pos, len })
        } else if is(&[&command::FLUSH]) {
            Reach::READS_ALL
        } else if self.command().effect == Effect::None {
            Reach::Nothing
        } else {
            Reach::Everything
        }
    }

    /// The command as a bio carries it. An operation code for both directions counts as one to the device, as the kernel takes
    /// it.
    ///
    /// # Errors
    /// None for an entry: it has the length of its set. The type is that of [`block::Command::new`].
    pub fn to_queued(&self, block: u64) -> Result<block::Command, block::CommandError> {
        let set = match self.command().queue {
            Queue::Admin => CommandSet::NvmeAdmin,
            Queue::Io => CommandSet::Nvme,
        };
        let transfer = match self.direction() {
            Direction::None => Transfer::None,
            Direction::In => Transfer::FromDevice,
            Direction::Out | Direction::Both => Transfer::ToDevice,
        };
        Ok(block::Command::new(set, self.bytes())?.with_transfer(transfer).with_reach(self.reach(block)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_reaches_is_decoded() {
        let on = |row| Entry::new(row).with("nsid", 1).with("slba", 8).with("nlb", 3);
        assert_eq!(on(&command::READ).reach(512), Reach::Reads { pos: 4096, len: 2048 });
        assert_eq!(on(&command::WRITE_ZEROES).reach(4096), Reach::Changes { pos: 32768, len: 16384 });
        assert_eq!(Entry::new(&command::FLUSH).reach(512), Reach::READS_ALL);
        assert_eq!(Entry::new(&command::IDENTIFY).reach(512), Reach::Nothing);
        for row in
            [&command::DATASET_MANAGEMENT, &command::COPY, &command::FORMAT_NVM, &command::SET_FEATURES]
        {
            assert_eq!(Entry::new(row).reach(512), Reach::Everything, "{}", row.name);
        }
        assert_eq!(Entry::of_code(Queue::Io, 0xc2).reach(512), Reach::Everything);
        let last = Entry::new(&command::READ).with("slba", u64::MAX).reach(4096);
        assert_eq!(last, Reach::Reads { pos: u64::MAX, len: 4096 });
    }

    #[test]
    fn an_entry_is_carried_with_its_direction() {
        for (row, set, transfer) in [
            (&command::WRITE, CommandSet::Nvme, Transfer::ToDevice),
            (&command::IDENTIFY, CommandSet::NvmeAdmin, Transfer::FromDevice),
            (&command::FLUSH, CommandSet::Nvme, Transfer::None),
        ] {
            let entry = Entry::new(row).with("nsid", 1);
            let queued = entry.to_queued(512).unwrap();
            assert_eq!(
                (queued.bytes(), queued.set(), queued.transfer()),
                (&entry.bytes()[..], set, transfer)
            );
        }
    }
}
