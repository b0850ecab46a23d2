//! A controller with one namespace: what it answers to commands, over any block device.
//!
//! [`Controller::plan`] takes a command and returns the response, or the [`Step`]s to carry out on the device. The caller
//! carries them out in order, moving bulk data between the device and the memory of the host without a copy here, and takes
//! the response from [`Controller::done`] or, after a step that failed, [`Controller::failed`]. A controller does no I/O.
//!
//! What it keeps between commands is what an NVMe controller keeps: features, counters of its SMART log, errors, events.
//! It is meant to be called under a lock that is held for the call, never for I/O. Commands that run at the same time are not
//! ordered by it; the two of a fused operation exclude others that name their blocks ([`is_exclusive`]), which is the
//! caller's to do.

mod admin;
mod features;
mod health;
mod io;
mod pages;

pub use crate::step::{Action, Step, StepError};

use crate::command::{Command, Entry, Queue};
use crate::status::Status;
use alloc::string::String;
use alloc::vec::Vec;
use health::Health;
use platter_block::driver::Geometry;
use platter_block::fault::Kind;

/// Longest transfer of one command in bytes; longer ones are refused, so that a caller can bound its memory.
pub const MAX_TRANSFER: u64 = 64 << 20;

/// The unit of MDTS in bytes: the smallest memory page of a controller.
const PAGE: u64 = 4096;

/// The only namespace.
const NSID: u64 = 1;

/// The namespace identifier that means all of them.
const ALL_NAMESPACES: u64 = 0xffff_ffff;

/// Asynchronous Event Requests that may wait at the same time.
const MAX_EVENT_REQUESTS: u8 = 4;

/// The names under which a controller presents itself. Text is cut off where the field ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// SN, of 20 bytes. A UUID of the namespace is made of it as a whole.
    pub serial: String,
    /// MN, of 40 bytes.
    pub model: String,
    /// FR, of 8 bytes.
    pub firmware: String,
    /// SUBNQN, of 256 bytes.
    pub subsystem: String,
}

/// A controller.
#[derive(Clone, Debug)]
pub struct Controller {
    identity: Identity,
    geometry: Geometry,
    max_transfer: u64,
    features: features::Values,
    health: Health,
    /// Asynchronous Event Requests that wait.
    waiting_requests: u8,
    /// The namespace's size has changed since its log page was read.
    is_changed: bool,
    /// The event of that was reported.
    is_reported: bool,
}

/// The response to a command: the parts of a completion that do not belong to queues, and data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: Status,
    /// Dwords 0 and 1, the first in the low half.
    pub result: u64,
    /// Data of the controller; data of the medium is put into the host's memory by the steps.
    pub data_in: Vec<u8>,
}

impl Response {
    const SUCCESS: Response = Response::of(Status::SUCCESS);

    /// A response without data.
    pub const fn of(status: Status) -> Response {
        Response { status, result: 0, data_in: Vec::new() }
    }

    fn data(data_in: Vec<u8>) -> Response {
        Response { data_in, ..Response::SUCCESS }
    }

    fn result(result: u64) -> Response {
        Response { result, ..Response::SUCCESS }
    }
}

/// What is to be done for a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing more.
    Done(Response),
    /// These steps, one after the other up to the first that fails.
    Steps(Vec<Step>),
    /// An Asynchronous Event Request waits; [`Controller::event`] completes it.
    Waits,
}

/// What is to be done for two commands of a fused operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FusedPlan {
    /// Nothing more.
    Done([Response; 2]),
    /// These steps.
    Steps(Vec<Step>),
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    status: Status,
    /// Byte and bit of the command's parameter that was wrong.
    parameter: Option<(u8, u8)>,
    lba: Option<u64>,
}

impl Failure {
    const fn of(status: Status) -> Failure {
        Failure { status, parameter: None, lba: None }
    }

    fn at(self, entry: &Entry, field: &str) -> Failure {
        let parameter = entry.field(field).map(|field| (field.byte as u8, field.bit));
        Failure { parameter, ..self }
    }
}

/// The failure of a field whose value is not accepted.
fn invalid(entry: &Entry, field: &str) -> Failure {
    Failure::of(Status::INVALID_FIELD).at(entry, field)
}

/// A field of a command; 0 where the command has none of this name.
fn field(entry: &Entry, name: &str) -> u64 {
    entry.get(name).unwrap_or(0)
}

/// What answers a command.
type Handler = fn(&mut Controller, &Entry, &[u8]) -> Result<Plan, Failure>;

impl Controller {
    /// A controller over a device.
    pub fn new(identity: Identity, geometry: Geometry) -> Controller {
        Controller {
            identity,
            geometry,
            max_transfer: MAX_TRANSFER,
            features: features::Values::default(),
            health: Health::default(),
            waiting_requests: 0,
            is_changed: false,
            is_reported: false,
        }
    }

    /// Refuses transfers of more bytes than this, down to a power of two; at most [`MAX_TRANSFER`], at least 4096 and a block.
    #[must_use]
    pub fn with_max_transfer(self, bytes: u64) -> Controller {
        let max_transfer = bytes.clamp(self.block().max(PAGE), MAX_TRANSFER);
        Controller { max_transfer: 1 << max_transfer.ilog2(), ..self }
    }

    /// The geometry of the device.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The device has another size or other limits now. A changed size is an event.
    pub fn set_geometry(&mut self, geometry: Geometry) {
        if geometry.size != self.geometry.size {
            (self.is_changed, self.is_reported) = (true, false);
        }
        self.geometry = geometry;
    }

    /// The commands that a controller carries out, some only if the device can do what they need.
    pub fn commands() -> impl Iterator<Item = &'static Command> {
        handlers().map(|(command, _)| command)
    }

    /// Whether this controller carries a command out.
    pub fn supports(&self, command: &Command) -> bool {
        let can = match (command.queue, command.opcode) {
            (Queue::Io, io::WRITE_ZEROES) | (Queue::Admin, admin::FORMAT) => {
                self.geometry.limits.write_zeroes
            }
            (Queue::Io, io::DATASET_MANAGEMENT) => self.can_discard(),
            _ => true,
        };
        can && Controller::commands().any(|own| own == command)
    }

    /// What is to be done for a command, with this data from the host.
    pub fn plan(&mut self, entry: &Entry, data_out: &[u8]) -> Plan {
        match self.try_plan(entry, data_out) {
            Ok(plan) => plan,
            Err(failure) => Plan::Done(self.refuse(entry, failure)),
        }
    }

    fn try_plan(&mut self, entry: &Entry, data_out: &[u8]) -> Result<Plan, Failure> {
        let known = handlers().find(|(command, _)| core::ptr::eq(*command, entry.command()));
        let opcode = Failure::of(Status::INVALID_OPCODE).at(entry, "opcode");
        let (command, handler) = known.ok_or(opcode)?;
        if !self.supports(command) {
            return Err(opcode);
        }
        match field(entry, "fuse") {
            0 => handler(self, entry, data_out),
            3 => Err(invalid(entry, "fuse")),
            _ => Err(Failure::of(Status::MISSING_FUSED)),
        }
    }

    /// The response to a command all of whose steps have succeeded.
    pub fn done(&mut self, entry: &Entry) -> Response {
        self.health.count(entry, self.block());
        Response::SUCCESS
    }

    /// The response to a command of which a step has failed.
    pub fn failed(&mut self, entry: &Entry, step: &Step, error: StepError) -> Response {
        let (kind, pos) = match error {
            StepError::Miscompare { at } => {
                let from = match step.action {
                    Action::Compare { at } => at,
                    _ => 0,
                };
                let lba = Some((step.pos + at.saturating_sub(from)) / self.block());
                return self.refuse(entry, Failure { lba, ..Failure::of(Status::COMPARE_FAILURE) });
            }
            StepError::Device { kind, pos } => (kind, pos),
        };
        let reads = matches!(step.action, Action::Read { .. } | Action::Verify | Action::Compare { .. });
        let status = match kind {
            Kind::Io | Kind::Short | Kind::Corrupt if reads => Status::READ_ERROR,
            Kind::Io | Kind::Short | Kind::Corrupt | Kind::FlushFailed => Status::WRITE_FAULT,
            Kind::ReadOnly => Status::WRITE_PROTECTED,
            Kind::NoSpace => Status::CAPACITY_EXCEEDED,
            Kind::Gone => Status::NAMESPACE_NOT_READY,
            Kind::NoMemory | Kind::WouldBlock => Status::INTERRUPTED,
            Kind::Cancelled => Status::ABORT_REQUESTED,
            _ => Status::INTERNAL_ERROR,
        };
        let lba = (step.action != Action::Flush).then_some(pos / self.block());
        self.refuse(entry, Failure { lba, ..Failure::of(status) })
    }

    /// The response to a command that has failed, which the Error Information log page keeps.
    fn refuse(&mut self, entry: &Entry, failure: Failure) -> Response {
        self.health.note(entry, &failure);
        Response::of(failure.status)
    }

    /// Completes an Asynchronous Event Request that waits; `None` if nothing has happened or nothing waits for it.
    pub fn event(&mut self) -> Option<Response> {
        let reports = self.is_changed && !self.is_reported && self.features.reports_namespaces();
        if !reports || self.waiting_requests == 0 {
            return None;
        }
        (self.waiting_requests, self.is_reported) = (self.waiting_requests - 1, true);
        // A notice (2): Namespace Attribute Changed (0), of which the Changed Namespace List tells more.
        Some(Response::result(2 | u64::from(pages::CHANGED_NAMESPACES) << 16))
    }

    /// Gives up the Asynchronous Event Requests that wait, as a reset does. Returns how many there were.
    pub fn cancel_events(&mut self) -> u8 {
        core::mem::take(&mut self.waiting_requests)
    }

    fn block(&self) -> u64 {
        u64::from(self.geometry.limits.logical_block)
    }

    /// Whole logical blocks; the rest of a device that ends inside one cannot be reached by NVMe.
    fn blocks(&self) -> u64 {
        self.geometry.size / self.block()
    }

    fn is_write_protected(&self) -> bool {
        self.geometry.features.read_only || self.features.is_write_protected()
    }

    fn can_discard(&self) -> bool {
        self.geometry.limits.discard_granularity != 0
    }
}

/// Every command that is carried out.
fn handlers() -> impl Iterator<Item = (&'static Command, Handler)> {
    admin::HANDLERS.iter().chain(io::HANDLERS).map(|(command, handler)| (*command, *handler))
}

/// Whether a command belongs to a fused operation, which must not run together with others that name blocks of its range.
pub fn is_exclusive(entry: &Entry) -> bool {
    field(entry, "fuse") != 0
}

/// The namespace identifier must be that of the namespace.
fn one_namespace(entry: &Entry) -> Result<(), Failure> {
    match field(entry, "nsid") {
        NSID => Ok(()),
        _ => Err(Failure::of(Status::INVALID_NAMESPACE).at(entry, "nsid")),
    }
}

#[cfg(test)]
mod tests;
