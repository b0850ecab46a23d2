//! Which commands a handle may send: Linux's filter for programs without privileges, and a rule for handles that are open
//! for reading only.
//!
//! Linux looks only at the operation code (`scsi_cmd_allowed` of 5.15 to 6.x, in 2.6 and later `blk_verify_command`). The list is
//! for disks and for CD and DVD drives alike, so it has gaps: operation code 42h is READ SUB-CHANNEL of a CD drive and UNMAP
//! of a disk, and passes on a handle that is open for reading only. [`read_only`] has none: it goes by the
//! effect of the command.

use crate::effect::{self, Reach};
use core::fmt;

/// Who sends, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The device is open for writing.
    pub writable: bool,
    /// The program has the capability `CAP_SYS_RAWIO`, as root has.
    pub privileged: bool,
}

/// What an operation code needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// A handle that is open for reading.
    Reading,
    /// A handle that is open for writing.
    Writing,
}

/// The rule that refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// There are no bytes.
    Empty,
    /// The operation code is not in [`TABLE`].
    Unlisted {
        /// Byte 0.
        opcode: u8,
    },
    /// The operation code needs a handle that is open for writing.
    Writing {
        /// Byte 0.
        opcode: u8,
        /// Its name in [`TABLE`].
        name: &'static str,
    },
    /// The command may change what the device holds, and the handle is open for reading only.
    Changes {
        /// Byte 0.
        opcode: u8,
        /// What it may change.
        reach: Reach,
    },
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rule::Empty => f.write_str("a command of no bytes"),
            Rule::Unlisted { opcode } => write!(
                f,
                "operation code {opcode:02x}h is not among those that a program without CAP_SYS_RAWIO may send"
            ),
            Rule::Writing { opcode, name } => write!(
                f,
                "operation code {opcode:02x}h ({name}) needs a device that is open for writing, or CAP_SYS_RAWIO"
            ),
            Rule::Changes { opcode, reach: Reach::Blocks(blocks) } => write!(
                f,
                "operation code {opcode:02x}h may change blocks from {} on, and the device is open for reading only",
                blocks.from
            ),
            Rule::Changes { opcode, .. } => write!(
                f,
                "operation code {opcode:02x}h may change anything, and the device is open for reading only"
            ),
        }
    }
}

impl core::error::Error for Rule {}

/// The operation codes that Linux lets a program without privileges send, in their order, with what each needs. Names are
/// those of disks where a disk has a command of this code, else those of MMC and ZBC.
pub static TABLE: &[(u8, Needs, &str)] = &[
    (0x00, Needs::Reading, "TEST UNIT READY"),
    (0x03, Needs::Reading, "REQUEST SENSE"),
    (0x04, Needs::Writing, "FORMAT UNIT"),
    (0x08, Needs::Reading, "READ (6)"),
    (0x0a, Needs::Writing, "WRITE (6)"),
    // The number of the service action of WRITE SAME (32), whose operation code is 7Fh.
    (0x0d, Needs::Writing, "WRITE SAME (32)"),
    (0x12, Needs::Reading, "INQUIRY"),
    (0x15, Needs::Writing, "MODE SELECT (6)"),
    (0x19, Needs::Writing, "ERASE"),
    (0x1a, Needs::Reading, "MODE SENSE (6)"),
    (0x1b, Needs::Reading, "START STOP UNIT"),
    (0x1c, Needs::Reading, "RECEIVE DIAGNOSTIC RESULTS"),
    (0x1e, Needs::Writing, "PREVENT ALLOW MEDIUM REMOVAL"),
    (0x23, Needs::Reading, "READ FORMAT CAPACITIES"),
    (0x25, Needs::Reading, "READ CAPACITY (10)"),
    (0x28, Needs::Reading, "READ (10)"),
    (0x2a, Needs::Writing, "WRITE (10)"),
    (0x2b, Needs::Reading, "SEEK (10)"),
    (0x2e, Needs::Writing, "WRITE AND VERIFY (10)"),
    (0x2f, Needs::Reading, "VERIFY (10)"),
    (0x35, Needs::Writing, "SYNCHRONIZE CACHE (10)"),
    (0x37, Needs::Reading, "READ DEFECT DATA (10)"),
    (0x3c, Needs::Reading, "READ BUFFER"),
    (0x3e, Needs::Reading, "READ LONG (10)"),
    (0x3f, Needs::Writing, "WRITE LONG (10)"),
    (0x41, Needs::Writing, "WRITE SAME (10)"),
    (0x42, Needs::Reading, "UNMAP, or READ SUB-CHANNEL"),
    (0x43, Needs::Reading, "READ TOC/PMA/ATIP"),
    (0x44, Needs::Reading, "READ HEADER"),
    (0x45, Needs::Reading, "PLAY AUDIO (10)"),
    (0x46, Needs::Reading, "GET CONFIGURATION"),
    (0x47, Needs::Reading, "PLAY AUDIO MSF"),
    (0x48, Needs::Reading, "PLAY AUDIO TRACK INDEX"),
    (0x4a, Needs::Reading, "GET EVENT STATUS NOTIFICATION"),
    (0x4b, Needs::Reading, "PAUSE/RESUME"),
    (0x4c, Needs::Writing, "LOG SELECT"),
    (0x4d, Needs::Reading, "LOG SENSE"),
    (0x4e, Needs::Reading, "STOP PLAY/SCAN"),
    (0x51, Needs::Reading, "READ DISC INFORMATION"),
    (0x52, Needs::Reading, "READ TRACK INFORMATION"),
    (0x53, Needs::Writing, "RESERVE TRACK"),
    (0x54, Needs::Writing, "SEND OPC INFORMATION"),
    (0x55, Needs::Writing, "MODE SELECT (10)"),
    (0x58, Needs::Writing, "REPAIR TRACK"),
    (0x5a, Needs::Reading, "MODE SENSE (10)"),
    (0x5b, Needs::Writing, "CLOSE TRACK/SESSION"),
    (0x5c, Needs::Reading, "READ BUFFER CAPACITY"),
    (0x5d, Needs::Writing, "SEND CUE SHEET"),
    (0x88, Needs::Reading, "READ (16)"),
    (0x8a, Needs::Writing, "WRITE (16)"),
    (0x8f, Needs::Reading, "VERIFY (16)"),
    (0x93, Needs::Writing, "WRITE SAME (16)"),
    (0x94, Needs::Writing, "ZBC OUT"),
    (0x95, Needs::Reading, "ZBC IN"),
    (0x9e, Needs::Reading, "SERVICE ACTION IN (16)"),
    (0xa0, Needs::Reading, "REPORT LUNS"),
    (0xa1, Needs::Writing, "BLANK"),
    (0xa2, Needs::Writing, "SEND EVENT"),
    (0xa3, Needs::Reading, "MAINTENANCE IN"),
    (0xa4, Needs::Reading, "REPORT KEY"),
    (0xa6, Needs::Writing, "LOAD/UNLOAD MEDIUM"),
    (0xa7, Needs::Writing, "SET READ AHEAD"),
    (0xa8, Needs::Reading, "READ (12)"),
    (0xaa, Needs::Writing, "WRITE (12)"),
    (0xac, Needs::Reading, "GET PERFORMANCE"),
    (0xad, Needs::Reading, "READ DISC STRUCTURE"),
    (0xae, Needs::Writing, "WRITE AND VERIFY (12)"),
    (0xb6, Needs::Writing, "SET STREAMING"),
    (0xb9, Needs::Reading, "READ CD MSF"),
    (0xba, Needs::Reading, "SCAN"),
    (0xbb, Needs::Writing, "SET CD SPEED"),
    (0xbc, Needs::Reading, "PLAY CD"),
    (0xbe, Needs::Reading, "READ CD"),
    (0xbf, Needs::Writing, "SEND DISC STRUCTURE"),
    (0xea, Needs::Writing, "WRITE LONG (16), or SERVICE ACTION OUT (16)"),
];

/// Whether Linux lets this handle send a command.
///
/// # Errors
/// The rule that refuses it; the kernel's error is `EPERM`.
pub fn linux(bytes: &[u8], handle: Handle) -> Result<(), Rule> {
    let &opcode = bytes.first().ok_or(Rule::Empty)?;
    if handle.privileged {
        return Ok(());
    }
    let found = TABLE.binary_search_by_key(&opcode, |(code, ..)| *code);
    let (_, needs, name) = TABLE[found.map_err(|_| Rule::Unlisted { opcode })?];
    if needs == Needs::Writing && !handle.writable {
        return Err(Rule::Writing { opcode, name });
    }
    Ok(())
}

/// Whether a handle that is open for reading only may send a command: whatever the privileges, none that may change
/// anything, as far as its bytes tell.
///
/// # Errors
/// The rule that refuses it.
pub fn read_only(bytes: &[u8]) -> Result<(), Rule> {
    let &opcode = bytes.first().ok_or(Rule::Empty)?;
    match effect::of(bytes, None).changes {
        Reach::Nothing => Ok(()),
        reach => Err(Rule::Changes { opcode, reach }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdb::{self, Cdb};
    use alloc::string::ToString;

    const READER: Handle = Handle { writable: false, privileged: false };
    const WRITER: Handle = Handle { writable: true, privileged: false };
    const ROOT: Handle = Handle { writable: false, privileged: true };

    #[test]
    fn the_list_is_in_order_and_names_commands_as_their_rows_do() {
        assert!(TABLE.is_sorted_by(|(a, ..), (b, ..)| a < b));
        assert_eq!(TABLE.len(), 75);
        for command in cdb::TABLE.iter().filter(|command| command.service_action.is_none()) {
            if let Some((_, _, name)) = TABLE.iter().find(|(opcode, ..)| *opcode == command.opcode) {
                assert!(name.starts_with(command.name), "{name} is {}", command.name);
            }
        }
    }

    #[test]
    fn a_refused_command_names_its_rule() {
        let write = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];
        let reserve = [0x5f, 1, 0, 0, 0, 0, 0, 0, 24, 0];
        assert_eq!(linux(&[0x12, 0, 0, 0, 36, 0], READER), Ok(()));
        assert_eq!(linux(&write, WRITER), Ok(()));
        let refused = linux(&write, READER).unwrap_err();
        assert_eq!(refused, Rule::Writing { opcode: 0x2a, name: "WRITE (10)" });
        assert!(refused.to_string().contains("2ah (WRITE (10)) needs a device that is open for writing"));
        assert_eq!(linux(&reserve, WRITER), Err(Rule::Unlisted { opcode: 0x5f }));
        assert_eq!(linux(&reserve, ROOT), Ok(()));
        assert_eq!(linux(&[], ROOT), Err(Rule::Empty));
    }

    /// Whatever a unit may change is refused, and what only tells or reads is not.
    #[test]
    fn a_read_only_handle_changes_nothing() {
        for command in cdb::TABLE {
            let mut cdb = Cdb::new(command);
            for name in ["TRANSFER LENGTH", "NUMBER OF LOGICAL BLOCKS", "PARAMETER LIST LENGTH"] {
                let _ = cdb.set(name, 1);
            }
            let tells = command.direction == cdb::Direction::In
                || command.name.starts_with("VERIFY")
                || command.name.starts_with("SYNCHRONIZE")
                || **command == cdb::TEST_UNIT_READY;
            assert_eq!(read_only(cdb.bytes()).is_ok(), tells, "{}", command.name);
        }
        assert_eq!(
            read_only(&[0x04, 0, 0, 0, 0, 0]),
            Err(Rule::Changes { opcode: 4, reach: Reach::Anything })
        );
        // Linux lets this one pass.
        let unmap = Cdb::new(&cdb::UNMAP).with("PARAMETER LIST LENGTH", 24);
        assert!(linux(unmap.bytes(), READER).is_ok() && read_only(unmap.bytes()).is_err());
        let blocks = Cdb::new(&cdb::WRITE_SAME_16).with("LOGICAL BLOCK ADDRESS", 77);
        assert!(read_only(blocks.bytes()).unwrap_err().to_string().contains("blocks from 77 on"));
    }
}
