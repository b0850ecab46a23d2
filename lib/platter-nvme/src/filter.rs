//! Which commands a handle may send: Linux's filter for programs without privileges.
//!
//! Until Linux 6.1 every command needs the capability `CAP_SYS_ADMIN`. Since 6.2 `nvme_cmd_allowed` (`drivers/nvme/host/ioctl.c`)
//! lets a program without it send some commands through a node that it could open. Unlike the SCSI filter it takes what the
//! controller says about the effects of each I/O command (log page 05h) into account.

use crate::command::{self, Entry, Queue};
use core::fmt;

/// Who sends, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// The node is a partition of a namespace.
    pub of_partition: bool,
    /// The node is open for writing.
    pub writable: bool,
    /// The program has the capability `CAP_SYS_ADMIN`, as root has.
    pub privileged: bool,
}

/// Bit 0 (CSUPP) of a command's effects: it is supported.
pub const CSUPP: u32 = 1 << 0;
/// Bit 1 (LBCC): it may change the contents of logical blocks.
pub const LBCC: u32 = 1 << 1;
/// The effects that a command may have which a program without privileges sends: CSUPP, LBCC, and bits 19 to 31, which say
/// how a UUID is chosen and what the command concerns. All others are of the controller or a namespace as a whole, unknown, or
/// let nothing run beside the command (CSE).
pub const HARMLESS: u32 = CSUPP | LBCC | 0xfff8_0000;

/// The values of `cns` with which a program without privileges may send Identify, in their order (`nvme_cmd_allowed`).
pub static IDENTIFY_CNS: &[(u8, &str)] = &[
    (0x00, "namespace"),
    (0x01, "controller"),
    (0x05, "namespace of a command set"),
    (0x06, "controller of a command set"),
    (0x08, "namespace, independent of the command set"),
];

/// The first operation code that belongs to vendors (`nvme_cmd_vendor_start`).
pub const VENDOR: u8 = 0x80;

/// The rule that refuses a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Any command through a partition: it would reach all of the namespace.
    Partition,
    /// An admin command that is not Identify.
    Admin {
        /// Byte 0.
        opcode: u8,
    },
    /// Identify with a value of `cns` that is not in [`IDENTIFY_CNS`].
    Cns {
        /// The value.
        cns: u64,
    },
    /// An operation code that belongs to vendors, or to fabrics.
    Vendor {
        /// Byte 0.
        opcode: u8,
    },
    /// The controller does not say that it supports the command.
    Unsupported {
        /// Byte 0.
        opcode: u8,
    },
    /// The controller says that the command has effects that are not [`HARMLESS`].
    Effects {
        /// Byte 0.
        opcode: u8,
        /// Its effects.
        effects: u32,
    },
    /// The command may change something, and the node is open for reading only.
    Writing {
        /// Byte 0.
        opcode: u8,
    },
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WITHOUT: &str = "a program without CAP_SYS_ADMIN";
        match *self {
            Rule::Partition => write!(f, "a partition, through which {WITHOUT} may send no command"),
            Rule::Admin { opcode } => {
                write!(f, "admin operation code {opcode:02x}h: {WITHOUT} may send Identify only")
            }
            Rule::Cns { cns } => {
                write!(f, "Identify with cns {cns:02x}h: {WITHOUT} may ask for ")?;
                IDENTIFY_CNS.iter().enumerate().try_for_each(|(n, (cns, name))| {
                    write!(f, "{}{cns:02x}h ({name})", if n == 0 { "" } else { ", " })
                })
            }
            Rule::Vendor { opcode } => write!(
                f,
                "operation code {opcode:02x}h belongs to vendors (from {VENDOR:02x}h on) or to fabrics ({FABRICS:02x}h), so \
                 {WITHOUT} may not send it"
            ),
            Rule::Unsupported { opcode } => write!(
                f,
                "operation code {opcode:02x}h: the controller's log page 05h does not say that it is supported (CSUPP)"
            ),
            Rule::Effects { opcode, effects } => write!(
                f,
                "operation code {opcode:02x}h: by the controller's log page 05h its effects are {effects:08x}h, and {WITHOUT} \
                 may send only what has none but {HARMLESS:08x}h"
            ),
            Rule::Writing { opcode } => write!(
                f,
                "operation code {opcode:02x}h may write, and needs a node that is open for writing, or CAP_SYS_ADMIN"
            ),
        }
    }
}

impl core::error::Error for Rule {}

/// Whether Linux 6.2 and later lets a handle send a command, whose `effects` are the double word of log page 05h for it
/// (the kernel takes 0 where the controller has no such page).
///
/// # Errors
/// The rule that refuses it.
pub fn linux(entry: &Entry, effects: u32, handle: Handle) -> Result<(), Rule> {
    let opcode = entry.bytes()[0];
    if handle.privileged {
        return Ok(());
    }
    if handle.of_partition {
        return Err(Rule::Partition);
    }
    if opcode >= VENDOR || opcode == FABRICS {
        return Err(Rule::Vendor { opcode });
    }
    if entry.command().queue == Queue::Admin {
        return admin(entry, opcode);
    }
    if effects & CSUPP == 0 {
        return Err(Rule::Unsupported { opcode });
    }
    if effects & !HARMLESS != 0 {
        return Err(Rule::Effects { opcode, effects });
    }
    // By the direction of the data, which the low bits of the operation code tell, or by the effects.
    let writes = opcode & 1 == 1 || effects & LBCC != 0;
    if writes && !handle.writable { Err(Rule::Writing { opcode }) } else { Ok(()) }
}

/// The effects of an I/O command in the log page Commands Supported and Effects (05h): 0 if the page is too short.
pub fn effects_of(entry: &Entry, page: &[u8]) -> u32 {
    // Entries of four bytes for 256 admin commands come first.
    let at = 1024 + 4 * usize::from(entry.bytes()[0]);
    let bytes = page.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    bytes.map_or(0, u32::from_le_bytes)
}

/// The operation code of fabrics commands (`nvme_fabrics_command`).
const FABRICS: u8 = 0x7f;

fn admin(entry: &Entry, opcode: u8) -> Result<(), Rule> {
    if *entry.command() != command::IDENTIFY {
        return Err(Rule::Admin { opcode });
    }
    let cns = entry.get("cns").unwrap_or_default();
    let is_listed = IDENTIFY_CNS.iter().any(|(listed, _)| u64::from(*listed) == cns);
    if is_listed { Ok(()) } else { Err(Rule::Cns { cns }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const READER: Handle = Handle { of_partition: false, writable: false, privileged: false };
    const WRITER: Handle = Handle { writable: true, ..READER };

    #[test]
    fn each_rule_refuses_what_it_names() {
        let new = Entry::new;
        let other = |queue, opcode| Entry::of_code(queue, opcode);
        let identify = |cns| new(&command::IDENTIFY).with("cns", cns);
        let partition = Handle { of_partition: true, ..WRITER };
        for (entry, effects, handle, refused) in [
            (new(&command::READ), CSUPP, READER, None),
            (new(&command::FLUSH), CSUPP, READER, None),
            (new(&command::FLUSH), CSUPP | LBCC, READER, Some("needs a node that is open for writing")),
            (new(&command::WRITE), CSUPP | LBCC, WRITER, None),
            // The effects do not say that it writes, but data goes to the controller.
            (new(&command::WRITE), CSUPP, READER, Some("operation code 01h may write")),
            (new(&command::COMPARE), CSUPP, READER, Some("operation code 05h may write")),
            (new(&command::READ), 0, WRITER, Some("CSUPP")),
            (new(&command::READ), CSUPP | 1 << 16, WRITER, Some("effects are 00010001h")),
            (new(&command::READ), CSUPP | 1 << 2, WRITER, Some("effects are 00000005h")),
            (new(&command::READ), CSUPP | 1 << 19 | 1 << 31, READER, None),
            (other(Queue::Io, 0x80), CSUPP, WRITER, Some("operation code 80h belongs to vendors")),
            (other(Queue::Admin, 0x7f), CSUPP, WRITER, Some("operation code 7fh")),
            (other(Queue::Admin, 0xc1), CSUPP, WRITER, Some("operation code c1h belongs to vendors")),
            (identify(0), 0, READER, None),
            (identify(8), 0, READER, None),
            (identify(2), 0, WRITER, Some("Identify with cns 02h")),
            (new(&command::GET_LOG_PAGE), CSUPP, WRITER, Some("admin operation code 02h")),
            (new(&command::READ), CSUPP, partition, Some("a partition")),
        ] {
            let told = linux(&entry, effects, handle).err().map(|rule| rule.to_string());
            match refused {
                None => assert_eq!(told, None, "{}", entry.command().name),
                Some(why) => assert!(told.as_ref().is_some_and(|told| told.contains(why)), "{told:?}: {why}"),
            }
            assert_eq!(linux(&entry, effects, Handle { privileged: true, ..handle }), Ok(()));
        }
        assert!(IDENTIFY_CNS.is_sorted());
    }
}
