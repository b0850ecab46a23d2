//! What a mid-layer makes of a response: carried out, to be sent again, or failed.

use crate::sense::{Key, Sense};
use crate::unit::{Response, Status};

/// What is to be done about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The command was carried out.
    Good,
    /// It was not, for a reason that is over: send it again.
    Again,
    /// It was not, because the unit cannot at the moment: send it again after a while.
    Later,
    /// It has failed, with this errno.
    Failed(i32),
}

const EIO: i32 = 5;
const ENODEV: i32 = 19;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
/// RESERVATION CONFLICT, as Linux' `BLK_STS_NEXUS` reports it.
const EBADE: i32 = 52;
/// A medium error, as `BLK_STS_MEDIUM`.
const ENODATA: i32 = 61;
const EOPNOTSUPP: i32 = 95;
const ETIMEDOUT: i32 = 110;
/// The target failed, as `BLK_STS_TARGET`.
const EREMOTEIO: i32 = 121;
const ENOMEDIUM: i32 = 123;

/// Judges a response. The rules are those of Linux' `scsi_check_sense` and `scsi_io_completion`, where they apply to disks.
pub(super) fn judge(response: &Response) -> Verdict {
    match response.status {
        Status::Good => Verdict::Good,
        Status::Busy | Status::TaskSetFull => Verdict::Later,
        Status::ReservationConflict => Verdict::Failed(EBADE),
        Status::CheckCondition => {
            Sense::decode(&response.sense).map_or(Verdict::Failed(EIO), |sense| of_sense(&sense))
        }
    }
}

fn of_sense(sense: &Sense<'_>) -> Verdict {
    match (sense.key(), sense.code()) {
        (Key::NO_SENSE | Key(1), _) => Verdict::Good,
        (Key::UNIT_ATTENTION | Key::ABORTED_COMMAND, _) => Verdict::Again,
        // In the process of becoming ready, by itself or after a START STOP UNIT; operations in progress.
        (Key::NOT_READY, (0x04, 0x01 | 0x04..=0x09 | 0x14 | 0x1a..=0x1d)) => Verdict::Later,
        (Key::NOT_READY, (0x3a, _)) => Verdict::Failed(ENOMEDIUM),
        (Key::MEDIUM_ERROR, _) => Verdict::Failed(ENODATA),
        (Key::HARDWARE_ERROR, (0x3e, 1)) => Verdict::Failed(ENODEV),
        (Key::HARDWARE_ERROR, (0x3e, 2)) => Verdict::Failed(ETIMEDOUT),
        (Key::HARDWARE_ERROR, _) => Verdict::Failed(EREMOTEIO),
        (Key::ILLEGAL_REQUEST, (0x20 | 0x24 | 0x26, _)) => Verdict::Failed(EOPNOTSUPP),
        (Key::ILLEGAL_REQUEST, _) => Verdict::Failed(EREMOTEIO),
        (Key::DATA_PROTECT, (0x27, 7)) => Verdict::Failed(ENOSPC),
        (Key::DATA_PROTECT, _) => Verdict::Failed(EROFS),
        _ => Verdict::Failed(EIO),
    }
}
