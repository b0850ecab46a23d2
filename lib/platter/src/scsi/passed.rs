//! Commands to a disk that takes them itself.

use platter_block::command::{Outcome, Transfer};
use platter_disk::device::Device;
use platter_disk::sync_io::{CommandData, IoOptions};
use platter_scsi::cdb::{Cdb, Direction};
use platter_scsi::host::queued::{data_in, queued};
use platter_scsi::sense::{Failure, Key};
use platter_scsi::unit::{MAX_TRANSFER, Response, Status};
use std::sync::Arc;

/// LOGICAL UNIT COMMUNICATION FAILURE, and INVALID FIELD IN CDB.
const NO_ANSWER: (u8, u8) = (0x08, 0x00);
const INVALID_FIELD: (u8, u8) = (0x24, 0x00);

/// Sends a command and waits for the answer. What the device did not answer is a failure of the communication with it.
pub(super) fn pass(device: &Device, bytes: &[u8], data_out: &[u8]) -> Response {
    let block = device.geometry().limits.logical_block;
    let Ok(cdb) = Cdb::decode(bytes) else { return failed(Key::ILLEGAL_REQUEST, INVALID_FIELD) };
    let transfer = match cdb.command().direction {
        Direction::In => Transfer::FromDevice,
        Direction::Out if !data_out.is_empty() => Transfer::ToDevice,
        Direction::None | Direction::Out => Transfer::None,
    };
    let room = data_in(&cdb, u64::from(block)).unwrap_or(0);
    if room > MAX_TRANSFER {
        return failed(Key::ILLEGAL_REQUEST, INVALID_FIELD);
    }
    let mut room = vec![0; room as usize];
    let (transfer, data) = match transfer {
        Transfer::FromDevice if room.is_empty() => (Transfer::None, CommandData::None),
        Transfer::FromDevice => (transfer, CommandData::FromDevice(&mut room)),
        Transfer::ToDevice => (transfer, CommandData::ToDevice(data_out)),
        Transfer::None => (transfer, CommandData::None),
    };
    let Ok(command) = queued(bytes, transfer, Some(data_out), block) else {
        return failed(Key::ILLEGAL_REQUEST, INVALID_FIELD);
    };
    let command = Arc::new(command);
    // An error without an answer, and one with it, differ in the outcome.
    let _ = device.command(&command, data, IoOptions::default());
    match command.outcome() {
        Some(outcome) if outcome.transport == 0 => answered(&outcome, room),
        _ => failed(Key::ABORTED_COMMAND, NO_ANSWER),
    }
}

fn answered(outcome: &Outcome, mut data_in: Vec<u8>) -> Response {
    let status = match outcome.status {
        // CONDITION MET, and what means the same with a reservation.
        0x00 | 0x04 | 0x10 | 0x14 => Status::Good,
        0x02 => Status::CheckCondition,
        0x18 => Status::ReservationConflict,
        0x28 => Status::TaskSetFull,
        _ => Status::Busy,
    };
    let kept = data_in.len().saturating_sub(outcome.residual as usize);
    data_in.truncate(kept);
    Response { status, sense: outcome.sense.bytes().to_vec(), data_in }
}

fn failed(key: Key, (asc, ascq): (u8, u8)) -> Response {
    let sense = Failure::new(key, asc, ascq).to_fixed().to_vec();
    Response { sense, ..Response::of(Status::CheckCondition) }
}
