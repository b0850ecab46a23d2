//! A logical unit: what a disk answers to commands, over any block device.
//!
//! [`Unit::plan`] takes a command and returns either the response or the [`Step`]s to carry out on the device. The caller
//! carries them out in order, moving bulk data between the device and the memory of the initiator without a copy here,
//! and takes the response from [`Unit::done`] or, after a step that failed, [`Unit::failed`]. A unit does no I/O and
//! keeps no state between commands.
//!
//! Commands of one unit that run at the same time are not ordered by it.

mod data;
mod medium;

pub use crate::effect::changes_medium;
pub(crate) use data::{D_SENSE, SWP, WCE, changeable, pages, sense, within};
pub use platter_protocol::step::{Action, Step, StepError};

use crate::cdb::{self, Cdb, Command, Error};
use crate::layout;
use crate::sense::{Failure, FieldPointer, Key};
use alloc::string::String;
use alloc::vec::Vec;
use platter_block::driver::Geometry;
use platter_block::fault::Kind;

/// Longest transfer of one command in bytes; longer ones are refused, so that a caller can bound its memory.
pub const MAX_TRANSFER: u64 = 64 << 20;

/// The names under which a unit presents itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// T10 VENDOR IDENTIFICATION, of which eight bytes are used.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION, of which 16 bytes are used.
    pub product: String,
    /// PRODUCT REVISION LEVEL, of which four bytes are used.
    pub revision: String,
    /// PRODUCT SERIAL NUMBER; also identifies the unit in VPD page 83h.
    pub serial: String,
}

/// What initiators may set by MODE SELECT; all is off at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// D_SENSE of the Control mode page: sense data is in descriptor format.
    pub descriptor_sense: bool,
    /// SWP of the Control mode page: commands that change the medium are refused.
    pub write_protect: bool,
    /// WCE of the Caching mode page was cleared: each write is durable on completion.
    pub write_through: bool,
}

/// A logical unit.
#[derive(Clone, Debug)]
pub struct Unit {
    identity: Identity,
    geometry: Geometry,
    modes: Modes,
    max_transfer: u64,
    /// Commands that the unit's owner carries out, in the report of supported ones.
    further: &'static [&'static Command],
}

/// The status of a command (SAM-5, status codes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The command was carried out.
    Good,
    /// It was not; the sense data says why.
    CheckCondition,
    /// The device cannot take it now.
    Busy,
    /// A reservation of another initiator forbids it.
    ReservationConflict,
    /// There is no room for another command.
    TaskSetFull,
}

impl Status {
    /// The byte that is transferred.
    pub const fn code(self) -> u8 {
        match self {
            Status::Good => 0x00,
            Status::CheckCondition => 0x02,
            Status::Busy => 0x08,
            Status::ReservationConflict => 0x18,
            Status::TaskSetFull => 0x28,
        }
    }

    /// The name in the standard.
    pub const fn name(self) -> &'static str {
        match self {
            Status::Good => "GOOD",
            Status::CheckCondition => "CHECK CONDITION",
            Status::Busy => "BUSY",
            Status::ReservationConflict => "RESERVATION CONFLICT",
            Status::TaskSetFull => "TASK SET FULL",
        }
    }
}

/// The response to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: Status,
    /// Sense data; empty unless the status is CHECK CONDITION.
    pub sense: Vec<u8>,
    /// Parameter data; data of the medium is put into the initiator's memory by the steps.
    pub data_in: Vec<u8>,
}

impl Response {
    pub(crate) const GOOD: Response = Response::of(Status::Good);

    /// A response of a status, without data.
    pub const fn of(status: Status) -> Response {
        Response { status, sense: Vec::new(), data_in: Vec::new() }
    }

    pub(crate) fn data(data_in: Vec<u8>) -> Response {
        Response { data_in, ..Response::GOOD }
    }
}

/// What is to be done for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing more.
    Done(Response),
    /// These steps, one after the other up to the first that fails.
    Steps(Vec<Step>),
}

/// A handler of a command: its row, and what answers it.
type Handler = fn(&Unit, &Cdb, &[u8]) -> Result<Plan, Failure>;

impl Unit {
    /// A unit over a device.
    pub fn new(identity: Identity, geometry: Geometry) -> Unit {
        Unit { identity, geometry, modes: Modes::default(), max_transfer: MAX_TRANSFER, further: &[] }
    }

    /// Refuses transfers of more bytes than this; at most [`MAX_TRANSFER`], at least a block.
    #[must_use]
    pub fn with_max_transfer(self, bytes: u64) -> Unit {
        let max_transfer = bytes.clamp(self.block(), MAX_TRANSFER);
        Unit { max_transfer, ..self }
    }

    /// Reports further commands as supported, which the caller carries out.
    #[must_use]
    pub(crate) fn with_commands(self, further: &'static [&'static Command]) -> Unit {
        Unit { further, ..self }
    }

    /// Changes what initiators have set.
    pub fn set_modes(&mut self, modes: Modes) {
        self.modes = modes;
    }

    /// What initiators have set.
    pub fn modes(&self) -> Modes {
        self.modes
    }

    /// The geometry of the device.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The device has another size or other limits now.
    pub fn set_geometry(&mut self, geometry: Geometry) {
        self.geometry = geometry;
    }

    /// The commands that a unit carries out itself.
    pub fn commands() -> impl Iterator<Item = &'static Command> {
        handlers().map(|(command, _)| command)
    }

    /// The response to a command that has failed.
    pub fn refuse(&self, failure: Failure) -> Response {
        let sense = match self.modes.descriptor_sense {
            true => failure.to_descriptor(),
            false => failure.to_fixed().to_vec(),
        };
        Response { sense, ..Response::of(Status::CheckCondition) }
    }

    /// Bytes of data that the initiator has to send with this command; 0 if it is not known.
    pub fn data_out_bytes(&self, bytes: &[u8]) -> u64 {
        Cdb::decode(bytes).map_or(0, |cdb| medium::data_out_bytes(self, &cdb))
    }

    /// The same command for only so many bytes of data from the initiator, down to whole blocks. `None`: its length cannot be
    /// changed.
    pub fn shortened(&self, bytes: &[u8], data_out: u64) -> Option<Cdb> {
        let mut cdb = Cdb::decode(bytes).ok()?;
        let blocks = data_out / self.block();
        // No blocks would be 256 in a command of six bytes.
        let can = cdb.bytes().len() > 6 && cdb.command().direction == cdb::Direction::Out;
        (can && cdb.set("TRANSFER LENGTH", blocks)).then_some(cdb)
    }

    /// The failure of a command with another length of data from the initiator than it has, if it cannot be shortened.
    pub fn wrong_length(&self, bytes: &[u8]) -> Failure {
        let failure = Failure::new(Key::ILLEGAL_REQUEST, 0x24, 0);
        Cdb::decode(bytes).map_or(failure, |cdb| at_field(&cdb, "NUMBER OF LOGICAL BLOCKS", failure))
    }

    /// What is to be done for the command that `bytes` are, with this data from the initiator.
    pub fn plan(&self, bytes: &[u8], data_out: &[u8]) -> Plan {
        self.try_plan(bytes, data_out).unwrap_or_else(|failure| Plan::Done(self.refuse(failure)))
    }

    fn try_plan(&self, bytes: &[u8], data_out: &[u8]) -> Result<Plan, Failure> {
        let cdb = decode(bytes, self.further)?;
        let (_, handler) =
            handlers().find(|(command, _)| core::ptr::eq(*command, cdb.command())).ok_or(INVALID_OPCODE)?;
        handler(self, &cdb, data_out)
    }

    /// The response to a command all of whose steps have succeeded.
    pub fn done(&self) -> Response {
        Response::GOOD
    }

    /// The response to a command of which a step has failed.
    pub fn failed(&self, step: &Step, error: StepError) -> Response {
        let (kind, pos) = match error {
            StepError::Miscompare { at } => {
                return self.refuse(Failure::new(Key::MISCOMPARE, 0x1d, 0).with_information(at));
            }
            StepError::Device { kind, pos } => (kind, pos),
        };
        let block = pos / u64::from(self.geometry.limits.logical_block);
        let failure = match kind {
            Kind::NoMemory | Kind::WouldBlock => return Response { status: Status::Busy, ..Response::GOOD },
            Kind::Io | Kind::Short | Kind::Corrupt => match step.action {
                Action::Read { .. } | Action::Verify | Action::Compare { .. } => {
                    Failure::new(Key::MEDIUM_ERROR, 0x11, 0).with_information(block)
                }
                Action::Flush => Failure::new(Key::MEDIUM_ERROR, 0x0c, 0),
                _ => Failure::new(Key::MEDIUM_ERROR, 0x0c, 0).with_information(block),
            },
            Kind::FlushFailed => Failure::new(Key::MEDIUM_ERROR, 0x0c, 0),
            Kind::ReadOnly => Failure::new(Key::DATA_PROTECT, 0x27, 0),
            Kind::NoSpace => Failure::new(Key::DATA_PROTECT, 0x27, 7),
            Kind::TimedOut | Kind::Unsettled => Failure::new(Key::HARDWARE_ERROR, 0x3e, 2),
            Kind::Gone => Failure::new(Key::HARDWARE_ERROR, 0x3e, 1),
            Kind::Cancelled => Failure::new(Key::ABORTED_COMMAND, 0, 0),
            _ => Failure::new(Key::HARDWARE_ERROR, 0x44, 0),
        };
        self.refuse(failure)
    }

    fn block(&self) -> u64 {
        u64::from(self.geometry.limits.logical_block)
    }

    /// Whole logical blocks; the rest of a device that ends inside one cannot be reached by SCSI.
    fn blocks(&self) -> u64 {
        self.geometry.size / self.block()
    }

    /// Why a write is refused.
    fn write_protected(&self) -> Failure {
        let qualifier = if self.geometry.features.read_only { 0 } else { 2 };
        Failure::new(Key::DATA_PROTECT, 0x27, qualifier)
    }

    fn is_write_protected(&self) -> bool {
        self.geometry.features.read_only || self.modes.write_protect
    }

    fn can_discard(&self) -> bool {
        self.geometry.limits.discard_granularity != 0
    }
}

/// Decodes a command, and refuses bits without a meaning. `further` are supported commands besides those of a unit.
pub(crate) fn decode(bytes: &[u8], further: &[&Command]) -> Result<Cdb, Failure> {
    let cdb = Cdb::decode(bytes).map_err(|error| refusal(error, bytes, further))?;
    if let Some((byte, bit)) = cdb.reserved() {
        return Err(invalid_byte(byte, Some(bit)));
    }
    // NACA: an auto contingent allegiance is not supported.
    if cdb.control() & 4 != 0 {
        return Err(invalid_byte(cdb.bytes().len() - 1, Some(2)));
    }
    Ok(cdb)
}

/// Every command that is carried out.
fn handlers() -> impl Iterator<Item = (&'static Command, Handler)> {
    data::HANDLERS.iter().chain(medium::HANDLERS).map(|(command, handler)| (*command, *handler))
}

const INVALID_OPCODE: Failure = Failure::new(Key::ILLEGAL_REQUEST, 0x20, 0).with_pointer(FieldPointer {
    in_command: true,
    byte: 0,
    bit: None,
});

/// The failure of bytes that are no command, or none that is known: INVALID FIELD IN CDB if other service actions of the
/// operation code are.
fn refusal(error: Error, bytes: &[u8], further: &[&Command]) -> Failure {
    let opcode = bytes.first().copied();
    match error {
        Error::Unknown { .. }
            if handlers()
                .map(|(command, _)| command)
                .chain(further.iter().copied())
                .any(|command| Some(command.opcode) == opcode) =>
        {
            invalid_byte(1, Some(4))
        }
        _ => INVALID_OPCODE,
    }
}

pub(crate) fn invalid_byte(byte: usize, bit: Option<u8>) -> Failure {
    let pointer = FieldPointer { in_command: true, byte: byte as u16, bit };
    Failure::new(Key::ILLEGAL_REQUEST, 0x24, 0).with_pointer(pointer)
}

/// The failure of a field whose value is not accepted.
pub(crate) fn invalid(cdb: &Cdb, name: &str) -> Failure {
    at_field(cdb, name, Failure::new(Key::ILLEGAL_REQUEST, 0x24, 0))
}

/// A failure that points at a field of the command.
pub(crate) fn at_field(cdb: &Cdb, name: &str, failure: Failure) -> Failure {
    let Some(field) = layout::find(cdb.command().fields, name) else { return failure };
    let bit = (field.bits % 8 != 0).then_some(field.bit);
    failure.with_pointer(FieldPointer { in_command: true, byte: field.byte, bit })
}

/// A failure that points at a byte of the data sent with the command.
pub(crate) fn invalid_parameter(asc: u8, byte: usize) -> Failure {
    let pointer = FieldPointer { in_command: false, byte: byte as u16, bit: None };
    Failure::new(Key::ILLEGAL_REQUEST, asc, 0).with_pointer(pointer)
}

/// A field of a command; 0 where the command has none of this name.
pub(crate) fn field(cdb: &Cdb, name: &str) -> u64 {
    cdb.get(name).unwrap_or(0)
}

/// Whether a command must not run together with others that name blocks of its range.
pub fn is_exclusive(command: &Command) -> bool {
    *command == cdb::COMPARE_AND_WRITE
}

#[cfg(test)]
mod tests;
