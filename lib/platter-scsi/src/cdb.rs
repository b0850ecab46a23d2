//! Command descriptor blocks.

mod table;

pub use table::*;

use crate::layout::{self, Field};
use core::fmt;

/// Longest command descriptor block of the commands here.
const MAX: usize = 16;

/// Which way the data of a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The command has no data.
    None,
    /// From the device.
    In,
    /// To the device.
    Out,
}

impl Direction {
    /// The direction in a word: `none`, `in` or `out`.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::None => "none",
            Direction::In => "in",
            Direction::Out => "out",
        }
    }
}

/// A command: a row of [`TABLE`].
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// The name in the standard.
    pub name: &'static str,
    /// The standard that defines it.
    pub standard: &'static str,
    /// Byte 0.
    pub opcode: u8,
    /// The low five bits of byte 1, of commands that share an operation code.
    pub service_action: Option<u8>,
    /// Which way its data goes.
    pub direction: Direction,
    /// Its fields, without operation code and control byte.
    pub fields: &'static [Field],
}

impl Command {
    /// Length of the command in bytes. The three high bits of the operation code give it.
    pub const fn length(&self) -> usize {
        match length_of(self.opcode) {
            Some(len) => len,
            None => panic!("an operation code of the table without a fixed length"),
        }
    }

    /// The bits of the command that have a meaning, as REPORT SUPPORTED OPERATION CODES returns them (CDB USAGE DATA):
    /// operation code and service action as they are, and a bit that is set for each bit of a field.
    pub fn usage(&'static self) -> Cdb {
        let mut cdb = Cdb::new(self);
        let len = cdb.len;
        self.fields.iter().for_each(|field| field.fill(&mut cdb.bytes[..len]));
        cdb
    }
}

/// Length of a command of an operation code; `None` for those whose length is not fixed by it.
const fn length_of(opcode: u8) -> Option<usize> {
    match opcode >> 5 {
        0 => Some(6),
        1 | 2 => Some(10),
        4 => Some(16),
        5 => Some(12),
        _ => None,
    }
}

/// The command of an operation code and a service action.
pub fn by_code(opcode: u8, service_action: u8) -> Option<&'static Command> {
    let fits = |row: &&Command| {
        row.opcode == opcode && row.service_action.is_none_or(|action| action == service_action)
    };
    TABLE.iter().copied().find(fits)
}

/// Why bytes are not a command that is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// No bytes at all.
    Empty,
    /// The operation code, with the service action in byte 1, is not in [`TABLE`].
    Unknown {
        /// Byte 0.
        opcode: u8,
        /// The low five bits of byte 1.
        service_action: u8,
    },
    /// Too few bytes.
    Short {
        /// The command.
        name: &'static str,
        /// The bytes that there are.
        len: usize,
        /// The bytes that the command has.
        needed: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::Empty => f.write_str("a command of no bytes; it has at least 6"),
            Error::Unknown { opcode, service_action } => {
                write!(f, "unknown operation code {opcode:02x}h (with service action {service_action:02x}h)")
            }
            Error::Short { name, len, needed } => write!(f, "{name} of {len} bytes; it has {needed}"),
        }
    }
}

impl core::error::Error for Error {}

/// A command descriptor block: its bytes, and the row that names its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cdb {
    command: &'static Command,
    bytes: [u8; MAX],
    len: usize,
}

impl Cdb {
    /// A command whose fields are zero.
    pub fn new(command: &'static Command) -> Cdb {
        let mut bytes = [0; MAX];
        bytes[0] = command.opcode;
        bytes[1] = command.service_action.unwrap_or(0);
        Cdb { command, bytes, len: command.length() }
    }

    /// Sets a field.
    ///
    /// # Panics
    /// If the command has no such field or the value does not fit; [`Cdb::set`] returns it instead.
    #[must_use]
    pub fn with(mut self, name: &str, value: u64) -> Cdb {
        assert!(self.set(name, value), "{} has no field {name} for the value {value}", self.command.name);
        self
    }

    /// Sets a field. `false`, and nothing changes, if the command has no such field or the value does not fit.
    #[must_use]
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        layout::find(self.command.fields, name)
            .is_some_and(|field| field.set(&mut self.bytes[..self.len], value))
    }

    /// A field; `None` if the command has none of this name.
    pub fn get(&self, name: &str) -> Option<u64> {
        layout::find(self.command.fields, name)?.get(self.bytes())
    }

    /// Decodes a command. Bytes after its end are ignored: transports fill a command up.
    ///
    /// # Errors
    /// An operation code that is not in [`TABLE`], or too few bytes.
    pub fn decode(bytes: &[u8]) -> Result<Cdb, Error> {
        let &opcode = bytes.first().ok_or(Error::Empty)?;
        let service_action = bytes.get(1).map_or(0, |byte| byte & 0x1f);
        let command = by_code(opcode, service_action).ok_or(Error::Unknown { opcode, service_action })?;
        let needed = command.length();
        let own = bytes.get(..needed).ok_or(Error::Short { name: command.name, len: bytes.len(), needed })?;
        let mut cdb = Cdb::new(command);
        cdb.bytes[..needed].copy_from_slice(own);
        Ok(cdb)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The command's row in [`TABLE`].
    pub fn command(&self) -> &'static Command {
        self.command
    }

    /// The last byte, CONTROL.
    pub fn control(&self) -> u8 {
        self.bytes[self.len - 1]
    }

    /// The first bit that is set although no field has it: byte and bit, as sense data points at it.
    pub fn reserved(&self) -> Option<(usize, u8)> {
        let usage = self.command.usage();
        let stray = |at: usize| self.bytes[at] & !usage.bytes[at];
        (2..self.len - 1)
            .chain([1])
            .find(|&at| stray(at) != 0)
            .map(|at| (at, 7 - stray(at).leading_zeros() as u8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn the_fields_of_each_command_lie_apart_and_inside() {
        for command in TABLE {
            let len = command.length();
            let mut seen = [0u8; MAX];
            seen[0] = 0xff;
            seen[len - 1] = 0xff;
            if command.service_action.is_some() {
                seen[1] = 0x1f;
            }
            for field in command.fields {
                let mut own = [0u8; MAX];
                assert!(field.end() < len, "{}: {} reaches the control byte", command.name, field.name);
                assert!(field.set(&mut own, field.max()));
                assert!(
                    own.iter().zip(seen).all(|(a, b)| a & b == 0),
                    "{}: {} overlaps",
                    command.name,
                    field.name
                );
                seen.iter_mut().zip(own).for_each(|(a, b)| *a |= b);
            }
        }
    }

    #[test]
    fn codes_name_one_command_each() {
        for (at, command) in TABLE.iter().enumerate() {
            let found = by_code(command.opcode, command.service_action.unwrap_or(0));
            assert_eq!(found.map(|row| row.name), Some(command.name), "row {at}");
        }
    }

    #[test]
    fn commands_that_sg3_utils_sends() {
        // `sg_raw -v`'s and the kernel's usual bytes of these commands.
        let inquiry =
            Cdb::new(&INQUIRY).with("EVPD", 1).with("PAGE CODE", 0x83).with("ALLOCATION LENGTH", 252);
        assert_eq!(inquiry.bytes(), [0x12, 1, 0x83, 0, 0xfc, 0]);
        let capacity = Cdb::new(&READ_CAPACITY_16).with("ALLOCATION LENGTH", 32);
        assert_eq!(capacity.bytes(), [0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0]);
        let write = Cdb::new(&WRITE_10)
            .with("FUA", 1)
            .with("LOGICAL BLOCK ADDRESS", 0x1234)
            .with("TRANSFER LENGTH", 8);
        assert_eq!(write.bytes(), [0x2a, 8, 0, 0, 0x12, 0x34, 0, 0, 8, 0]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(Cdb::decode(&[]), Err(Error::Empty));
        assert_eq!(Cdb::decode(&[0xff]), Err(Error::Unknown { opcode: 0xff, service_action: 0 }));
        assert_eq!(Cdb::decode(&[0x88, 0]), Err(Error::Short { name: "READ (16)", len: 2, needed: 16 }));
        let mut bytes = Cdb::new(&READ_10).bytes().to_vec();
        bytes[6] = 0x40;
        assert_eq!(Cdb::decode(&bytes).map(|cdb| cdb.reserved()), Ok(Some((6, 6))));
        assert!(!Cdb::new(&READ_10).set("TRANSFER LENGTH", 1 << 16), "the field has 16 bits");
        assert!(!Cdb::new(&READ_10).set("UNMAP", 1), "READ (10) has no such field");
    }

    proptest! {
        /// Every byte of a decoded command is kept, and its fields alone rebuild it unless a reserved bit is set.
        #[test]
        fn decoding_loses_nothing(row in 0..TABLE.len(), noise in prop::collection::vec(any::<u8>(), MAX)) {
            let command = TABLE[row];
            let mut bytes: Vec<u8> = noise[..command.length()].to_vec();
            bytes[0] = command.opcode;
            if let Some(action) = command.service_action {
                bytes[1] = bytes[1] & 0xe0 | action;
            }
            let cdb = Cdb::decode(&bytes).unwrap();
            prop_assert_eq!(cdb.bytes(), &bytes[..]);
            if cdb.reserved().is_none() {
                let mut again = Cdb::new(command);
                for field in command.fields {
                    prop_assert!(again.set(field.name, cdb.get(field.name).unwrap()));
                }
                let len = bytes.len();
                prop_assert_eq!(&again.bytes()[..len - 1], &bytes[..len - 1]);
            }
        }
    }
}
