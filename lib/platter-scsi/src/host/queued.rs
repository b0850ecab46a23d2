//! Commands as bios carry them ([`platter_block::command`]).

use crate::cdb::{Cdb, Direction};
use crate::effect::{self, Reach as Effects};
use platter_block::command::{Command, CommandError, CommandSet, Reach, Transfer};

/// Bytes of data that a command returns, on a unit with blocks of `block` bytes. `None`: the command alone does not say it.
pub fn data_in(cdb: &Cdb, block: u64) -> Option<u64> {
    let field = |name| cdb.get(name);
    match cdb.command() {
        command if command.direction != Direction::In => Some(0),
        command if *command == crate::cdb::READ_CAPACITY_10 => Some(8),
        // A length of 0 is 256 blocks.
        command if *command == crate::cdb::READ_6 => {
            field("TRANSFER LENGTH").map(|blocks| if blocks == 0 { 256 } else { blocks } * block)
        }
        _ => field("ALLOCATION LENGTH").or_else(|| field("TRANSFER LENGTH").map(|blocks| blocks * block)),
    }
}

/// What a command may read or change, in bytes. With its data, if that is known.
pub fn reach(cdb: &[u8], data_out: Option<&[u8]>, block: u32) -> Reach {
    let effect = effect::of(cdb, data_out);
    let joined = effect.reads.join(effect.changes).join(effect.durable);
    match (effect.changes, joined) {
        (_, Effects::Nothing) => Reach::Nothing,
        (Effects::Nothing, Effects::Blocks(blocks)) => {
            let (pos, end) = blocks.bytes(block);
            Reach::Reads { pos, len: end - pos }
        }
        (Effects::Nothing, Effects::Anything) => Reach::READS_ALL,
        (Effects::Blocks(_), Effects::Blocks(blocks)) => {
            let (pos, end) = blocks.bytes(block);
            Reach::Changes { pos, len: end - pos }
        }
        _ => Reach::Everything,
    }
}

/// A command as a bio carries it.
///
/// # Errors
/// It has more or fewer bytes than a command can have.
pub fn queued(
    cdb: &[u8],
    transfer: Transfer,
    data_out: Option<&[u8]>,
    block: u32,
) -> Result<Command, CommandError> {
    let command = Command::new(CommandSet::Scsi, cdb)?;
    Ok(command.with_transfer(transfer).with_reach(reach(cdb, data_out, block)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdb;

    #[test]
    fn the_data_of_a_command_has_the_length_that_it_says() {
        let new = Cdb::new;
        for (cdb, len) in [
            (new(&cdb::INQUIRY).with("ALLOCATION LENGTH", 96), Some(96)),
            (new(&cdb::READ_CAPACITY_10), Some(8)),
            (new(&cdb::READ_6), Some(256 * 4096)),
            (new(&cdb::READ_10).with("TRANSFER LENGTH", 3), Some(3 * 4096)),
            (new(&cdb::WRITE_10).with("TRANSFER LENGTH", 3), Some(0)),
            (new(&cdb::TEST_UNIT_READY), Some(0)),
        ] {
            assert_eq!(data_in(&cdb, 4096), len, "{}", cdb.command().name);
        }
    }

    #[test]
    fn a_reach_covers_what_the_command_does() {
        let at = |row| Cdb::new(row).with("LOGICAL BLOCK ADDRESS", 8);
        let read = at(&cdb::READ_10).with("TRANSFER LENGTH", 2);
        assert_eq!(reach(read.bytes(), None, 512), Reach::Reads { pos: 4096, len: 1024 });
        let write = at(&cdb::WRITE_16).with("TRANSFER LENGTH", 2);
        assert_eq!(reach(write.bytes(), None, 512), Reach::Changes { pos: 4096, len: 1024 });
        assert_eq!(reach(Cdb::new(&cdb::INQUIRY).bytes(), None, 512), Reach::Nothing);
        assert_eq!(reach(&[0xc1; 10], None, 512), Reach::Everything);
        assert!(!reach(Cdb::new(&cdb::SYNCHRONIZE_CACHE_10).bytes(), None, 512).changes());
        let unmap = Cdb::new(&cdb::UNMAP).with("PARAMETER LIST LENGTH", 24);
        assert!(reach(unmap.bytes(), None, 512).changes());
    }
}
