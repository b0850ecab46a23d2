//! Features (Base Specification, "Feature Identifiers").

use super::{Action, Controller, Failure, Plan, Response, Step, field, invalid, one_namespace};
use crate::command::Entry;
use crate::status::Status;
use alloc::vec;

const ARBITRATION: u8 = 0x01;
const POWER_MANAGEMENT: u8 = 0x02;
const TEMPERATURE_THRESHOLD: u8 = 0x04;
const ERROR_RECOVERY: u8 = 0x05;
const VOLATILE_WRITE_CACHE: u8 = 0x06;
const NUMBER_OF_QUEUES: u8 = 0x07;
const WRITE_ATOMICITY_NORMAL: u8 = 0x0a;
const ASYNCHRONOUS_EVENTS: u8 = 0x0b;
const WRITE_PROTECTION: u8 = 0x84;

/// Most I/O queues of a kind, counted from 0.
const QUEUES: u32 = 63;

/// A feature with one dword of value.
struct Feature {
    fid: u8,
    default: u32,
    /// The bits of the value that have a meaning here.
    valid: u32,
    /// It belongs to a namespace.
    of_namespace: bool,
}

const fn row(fid: u8, default: u32, valid: u32) -> Feature {
    Feature { fid, default, valid, of_namespace: false }
}

/// Every feature. A value that needs more than its bits to be right is looked at in [`set`].
const TABLE: [Feature; 9] = [
    // Arbitration burst 7: no limit.
    row(ARBITRATION, 7, 0xffff_ff07),
    // Only power state 0; the workload hint.
    row(POWER_MANAGEMENT, 0, 0xe0),
    row(TEMPERATURE_THRESHOLD, 0xffff, 0xffff),
    Feature { of_namespace: true, ..row(ERROR_RECOVERY, 0, 0xffff) },
    row(VOLATILE_WRITE_CACHE, 1, 1),
    row(NUMBER_OF_QUEUES, QUEUES << 16 | QUEUES, u32::MAX),
    row(WRITE_ATOMICITY_NORMAL, 0, 1),
    // Namespace Attribute Notices, and the critical warnings of the SMART log.
    row(ASYNCHRONOUS_EVENTS, 1 << 8, 0x1ff),
    Feature { of_namespace: true, ..row(WRITE_PROTECTION, 0, 1) },
];

/// The current values, in the order of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Values([u32; TABLE.len()]);

impl Default for Values {
    fn default() -> Values {
        Values(core::array::from_fn(|n| TABLE[n].default))
    }
}

impl Values {
    fn of(&self, fid: u8) -> u32 {
        TABLE.iter().zip(self.0).find(|(row, _)| row.fid == fid).map_or(0, |(_, value)| value)
    }

    /// Volatile Write Cache Enable was cleared: each write is durable on completion.
    pub(super) fn is_write_through(&self) -> bool {
        self.of(VOLATILE_WRITE_CACHE) == 0
    }

    /// The namespace is write protected.
    pub(super) fn is_write_protected(&self) -> bool {
        self.of(WRITE_PROTECTION) != 0
    }

    /// Changes of namespaces are events.
    pub(super) fn reports_namespaces(&self) -> bool {
        self.of(ASYNCHRONOUS_EVENTS) & 1 << 8 != 0
    }
}

/// The place of the feature that a command names.
fn find(controller: &Controller, entry: &Entry) -> Result<usize, Failure> {
    let at = TABLE.iter().position(|row| u64::from(row.fid) == field(entry, "fid"));
    let at = at.ok_or_else(|| invalid(entry, "fid"))?;
    if TABLE[at].fid == VOLATILE_WRITE_CACHE && !controller.geometry.features.write_cache {
        return Err(invalid(entry, "fid"));
    }
    if TABLE[at].of_namespace {
        one_namespace(entry)?;
    }
    Ok(at)
}

pub(super) fn get(controller: &mut Controller, entry: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    let at = find(controller, entry)?;
    let row = &TABLE[at];
    let value = match field(entry, "sel") {
        0 => controller.features.0[at],
        // Nothing is saved, so that the saved value is the default one.
        1 | 2 => row.default,
        // Supported capabilities: changeable, and whether it belongs to a namespace.
        3 => 4 | u32::from(row.of_namespace) << 1,
        _ => return Err(invalid(entry, "sel")),
    };
    Ok(Plan::Done(Response::result(value.into())))
}

pub(super) fn set(controller: &mut Controller, entry: &Entry, _: &[u8]) -> Result<Plan, Failure> {
    let at = find(controller, entry)?;
    let row = &TABLE[at];
    if field(entry, "sv") != 0 {
        return Err(Failure::of(Status::NOT_SAVEABLE).at(entry, "sv"));
    }
    let value = field(entry, "cdw11") as u32;
    if value & !row.valid != 0 {
        return Err(invalid(entry, "cdw11"));
    }
    match row.fid {
        NUMBER_OF_QUEUES => {
            let [submission, completion] = [value & 0xffff, value >> 16];
            if submission == 0xffff || completion == 0xffff {
                return Err(invalid(entry, "cdw11"));
            }
            let granted = completion.min(QUEUES) << 16 | submission.min(QUEUES);
            controller.features.0[at] = granted;
            return Ok(Plan::Done(Response::result(granted.into())));
        }
        WRITE_PROTECTION if controller.geometry.features.read_only => {
            return Err(Failure::of(Status::NOT_CHANGEABLE).at(entry, "fid"));
        }
        _ => {}
    }
    let before = core::mem::replace(&mut controller.features.0[at], value);
    // What was written before must be durable once the namespace is protected, or the cache is off.
    let flushes = match row.fid {
        WRITE_PROTECTION => before < value,
        VOLATILE_WRITE_CACHE => before > value,
        _ => false,
    };
    if flushes && !controller.geometry.features.read_only {
        let len = controller.blocks() * controller.block();
        return Ok(Plan::Steps(vec![Step { action: Action::Flush, pos: 0, len }]));
    }
    Ok(Plan::Done(Response::SUCCESS))
}
