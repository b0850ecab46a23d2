//! Submission queue entries: commands as 64 bytes.

mod table;

pub use table::*;

use crate::data;
use crate::layout::{self, Field, little};
use core::fmt;

/// Length of a submission queue entry in bytes.
pub const ENTRY: usize = 64;

/// The kind of queue that a command is submitted to. Both have operation codes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The admin queue.
    Admin,
    /// An I/O queue; the commands are those of the NVM command set.
    Io,
}

impl Queue {
    /// The queue in a word: `admin` or `io`.
    pub const fn name(self) -> &'static str {
        match self {
            Queue::Admin => "admin",
            Queue::Io => "io",
        }
    }
}

/// Which way the data of a command goes. The low two bits of its operation code say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The command has no data.
    None,
    /// To the controller.
    Out,
    /// From the controller.
    In,
    /// Both ways.
    Both,
}

impl Direction {
    /// The direction of an operation code.
    pub const fn of(opcode: u8) -> Direction {
        match opcode & 3 {
            0 => Direction::None,
            1 => Direction::Out,
            2 => Direction::In,
            _ => Direction::Both,
        }
    }

    /// The direction in a word: `none`, `in`, `out` or `both`.
    pub const fn name(self) -> &'static str {
        match self {
            Direction::None => "none",
            Direction::Out => "out",
            Direction::In => "in",
            Direction::Both => "both",
        }
    }
}

/// What a command may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// User data. Also said of commands that are not known here.
    Medium,
    /// The state of the controller or a namespace: features, reservations, firmware.
    State,
}

/// A command: a row of [`TABLE`].
#[derive(Debug, PartialEq, Eq)]
pub struct Command {
    /// The name in the specification.
    pub name: &'static str,
    /// The specification that defines it.
    pub standard: &'static str,
    /// The queue.
    pub queue: Queue,
    /// Byte 0; 0 in [`OTHER_ADMIN`] and [`OTHER_IO`], which have any.
    pub opcode: u8,
    /// What it may change.
    pub effect: Effect,
    /// Its fields, without those of every command.
    pub fields: &'static [Field],
}

/// The fields of every command, without pointers to data (Base Specification, Submission Queue Entry). `cid` belongs to the
/// queue that the command is submitted to.
pub static COMMON: &[Field] = &[
    little::number("opcode", 0, 1),
    little::bits("fuse", 1, 0, 2),
    little::bits("psdt", 1, 6, 2),
    little::number("cid", 2, 2),
    little::number("nsid", 4, 4),
];

/// The command of a queue and an operation code; [`OTHER_ADMIN`] or [`OTHER_IO`] for one that is not in [`TABLE`].
pub fn by_code(queue: Queue, opcode: u8) -> &'static Command {
    let found = TABLE.iter().copied().find(|row| row.queue == queue && row.opcode == opcode);
    found.unwrap_or(match queue {
        Queue::Admin => &OTHER_ADMIN,
        Queue::Io => &OTHER_IO,
    })
}

/// Bytes that are not a submission queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length(pub usize);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a submission queue entry of {} bytes; it has {ENTRY}", self.0)
    }
}

impl core::error::Error for Length {}

/// A submission queue entry: its bytes, and the row that names its fields. It has no pointers: data belongs to the call
/// that submits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    command: &'static Command,
    bytes: [u8; ENTRY],
}

impl Entry {
    /// A command whose fields are zero.
    pub fn new(command: &'static Command) -> Entry {
        Entry::of(command, command.opcode)
    }

    /// A command of any operation code, with its dwords as fields unless it is in [`TABLE`].
    pub fn of_code(queue: Queue, opcode: u8) -> Entry {
        Entry::of(by_code(queue, opcode), opcode)
    }

    fn of(command: &'static Command, opcode: u8) -> Entry {
        let mut bytes = [0; ENTRY];
        bytes[0] = opcode;
        Entry { command, bytes }
    }

    /// Decodes a command that was submitted to a queue of this kind.
    ///
    /// # Errors
    /// Not 64 bytes.
    pub fn decode(queue: Queue, bytes: &[u8]) -> Result<Entry, Length> {
        let bytes: [u8; ENTRY] = bytes.try_into().map_err(|_| Length(bytes.len()))?;
        Ok(Entry { command: by_code(queue, bytes[0]), bytes })
    }

    /// Sets a field.
    ///
    /// # Panics
    /// If the command has no such field or the value does not fit; [`Entry::set`] returns it instead.
    #[must_use]
    pub fn with(mut self, name: &str, value: u64) -> Entry {
        assert!(self.set(name, value), "{} has no field {name} for the value {value}", self.command.name);
        self
    }

    /// Sets a field. `false`, and nothing changes, if the command has no such field, the value does not fit, or the field is
    /// the operation code.
    #[must_use]
    pub fn set(&mut self, name: &str, value: u64) -> bool {
        self.field(name)
            .filter(|field| field.name != "opcode")
            .is_some_and(|field| field.set(&mut self.bytes, value))
    }

    /// A field; `None` if the command has none of this name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.field(name)?.get(&self.bytes)
    }

    /// The field of a name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        layout::find(self.command.fields, name).or_else(|| layout::find(COMMON, name))
    }

    /// All fields and values.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let all = COMMON.iter().chain(self.command.fields);
        all.filter_map(|field| Some((field.name, field.get(&self.bytes)?)))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; ENTRY] {
        &self.bytes
    }

    /// The command's row in [`TABLE`].
    pub fn command(&self) -> &'static Command {
        self.command
    }

    /// The operation code.
    pub fn opcode(&self) -> u8 {
        self.bytes[0]
    }

    /// Which way the data goes. Features have data only if their kind has.
    pub fn direction(&self) -> Direction {
        Direction::of(self.opcode())
    }

    /// A command dword, of 0 to 15.
    pub fn dword(&self, n: usize) -> u32 {
        self.bytes
            .chunks_exact(4)
            .nth(n)
            .map_or(0, |bytes| bytes.iter().rev().fold(0, |v, b| v << 8 | u32::from(*b)))
    }

    /// The logical blocks of the command: the first one and how many. `None` if it names none at a place of its own.
    pub fn blocks(&self) -> Option<(u64, u64)> {
        let first = self.get("slba")?;
        // The number counts from 0.
        self.get("nlb").map(|blocks| (first, blocks + 1))
    }

    /// Bytes of data of the command in a namespace with logical blocks of `block` bytes and no metadata. `None`: the command
    /// alone does not say it.
    pub fn data_len(&self, block: u64) -> Option<u64> {
        let get = |name| self.get(name).unwrap_or(0);
        let is = |rows: &[&Command]| rows.iter().any(|row| core::ptr::eq(*row, self.command));
        if is(&[&READ, &WRITE, &COMPARE]) {
            self.blocks().map(|(_, blocks)| blocks * block)
        } else if is(&[&DATASET_MANAGEMENT]) {
            Some((get("nr") + 1) * data::RANGE as u64)
        } else if is(&[&COPY]) {
            Some((get("nr") + 1) * 32)
        } else if is(&[&IDENTIFY]) {
            Some(4096)
        } else if is(&[&GET_LOG_PAGE]) {
            Some(((get("numdu") << 16 | get("numdl")) + 1) * 4)
        } else if is(&[&RESERVATION_REPORT, &FIRMWARE_IMAGE_DOWNLOAD]) {
            Some((get("numd") + 1) * 4)
        } else if is(&[&RESERVATION_REGISTER, &RESERVATION_ACQUIRE]) {
            Some(16)
        } else if is(&[&RESERVATION_RELEASE]) {
            Some(8)
        } else if is(&[&OTHER_ADMIN, &OTHER_IO, &GET_FEATURES, &SET_FEATURES]) {
            None
        } else {
            Some(0)
        }
    }
}

#[cfg(test)]
mod tests;
