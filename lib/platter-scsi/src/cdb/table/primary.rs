//! The commands of SPC-4, which devices of all kinds have.

use super::{ALLOCATION, PAGE, PARAMETERS, SUBPAGE};
use crate::cdb::{Command, Direction};
use crate::layout::{bits, flag, number};

/// TEST UNIT READY.
pub static TEST_UNIT_READY: Command = Command {
    name: "TEST UNIT READY",
    standard: "SPC-4",
    opcode: 0x00,
    service_action: None,
    direction: Direction::None,
    fields: &[],
};

/// REQUEST SENSE.
pub static REQUEST_SENSE: Command = Command {
    name: "REQUEST SENSE",
    standard: "SPC-4",
    opcode: 0x03,
    service_action: None,
    direction: Direction::In,
    fields: &[flag("DESC", 1, 0), number(ALLOCATION, 4, 1)],
};

/// INQUIRY.
pub static INQUIRY: Command = Command {
    name: "INQUIRY",
    standard: "SPC-4",
    opcode: 0x12,
    service_action: None,
    direction: Direction::In,
    fields: &[flag("EVPD", 1, 0), number(PAGE, 2, 1), number(ALLOCATION, 3, 2)],
};

/// MODE SELECT (6).
pub static MODE_SELECT_6: Command = Command {
    name: "MODE SELECT (6)",
    standard: "SPC-4",
    opcode: 0x15,
    service_action: None,
    direction: Direction::Out,
    fields: &[flag("PF", 1, 4), flag("SP", 1, 0), number(PARAMETERS, 4, 1)],
};

/// MODE SENSE (6).
pub static MODE_SENSE_6: Command = Command {
    name: "MODE SENSE (6)",
    standard: "SPC-4",
    opcode: 0x1a,
    service_action: None,
    direction: Direction::In,
    fields: &[
        flag("DBD", 1, 3),
        bits("PC", 2, 7, 2),
        bits(PAGE, 2, 5, 6),
        number(SUBPAGE, 3, 1),
        number(ALLOCATION, 4, 1),
    ],
};

/// LOG SENSE.
pub static LOG_SENSE: Command = Command {
    name: "LOG SENSE",
    standard: "SPC-4",
    opcode: 0x4d,
    service_action: None,
    direction: Direction::In,
    fields: &[
        flag("SP", 1, 0),
        bits("PC", 2, 7, 2),
        bits(PAGE, 2, 5, 6),
        number(SUBPAGE, 3, 1),
        number("PARAMETER POINTER", 5, 2),
        number(ALLOCATION, 7, 2),
    ],
};

/// MODE SELECT (10).
pub static MODE_SELECT_10: Command = Command {
    name: "MODE SELECT (10)",
    standard: "SPC-4",
    opcode: 0x55,
    service_action: None,
    direction: Direction::Out,
    fields: &[flag("PF", 1, 4), flag("SP", 1, 0), number(PARAMETERS, 7, 2)],
};

/// MODE SENSE (10).
pub static MODE_SENSE_10: Command = Command {
    name: "MODE SENSE (10)",
    standard: "SPC-4",
    opcode: 0x5a,
    service_action: None,
    direction: Direction::In,
    fields: &[
        flag("LLBAA", 1, 4),
        flag("DBD", 1, 3),
        bits("PC", 2, 7, 2),
        bits(PAGE, 2, 5, 6),
        number(SUBPAGE, 3, 1),
        number(ALLOCATION, 7, 2),
    ],
};

/// PERSISTENT RESERVE IN, READ KEYS.
pub static PERSISTENT_RESERVE_IN_READ_KEYS: Command = Command {
    name: "PERSISTENT RESERVE IN, READ KEYS",
    standard: "SPC-4",
    opcode: 0x5e,
    service_action: Some(0x00),
    direction: Direction::In,
    fields: &[number(ALLOCATION, 7, 2)],
};

/// PERSISTENT RESERVE IN, READ RESERVATION.
pub static PERSISTENT_RESERVE_IN_READ_RESERVATION: Command = Command {
    name: "PERSISTENT RESERVE IN, READ RESERVATION",
    standard: "SPC-4",
    opcode: 0x5e,
    service_action: Some(0x01),
    direction: Direction::In,
    fields: &[number(ALLOCATION, 7, 2)],
};

/// PERSISTENT RESERVE IN, REPORT CAPABILITIES.
pub static PERSISTENT_RESERVE_IN_REPORT_CAPABILITIES: Command = Command {
    name: "PERSISTENT RESERVE IN, REPORT CAPABILITIES",
    standard: "SPC-4",
    opcode: 0x5e,
    service_action: Some(0x02),
    direction: Direction::In,
    fields: &[number(ALLOCATION, 7, 2)],
};

/// PERSISTENT RESERVE IN, READ FULL STATUS.
pub static PERSISTENT_RESERVE_IN_READ_FULL_STATUS: Command = Command {
    name: "PERSISTENT RESERVE IN, READ FULL STATUS",
    standard: "SPC-4",
    opcode: 0x5e,
    service_action: Some(0x03),
    direction: Direction::In,
    fields: &[number(ALLOCATION, 7, 2)],
};

/// PERSISTENT RESERVE OUT, REGISTER.
pub static PERSISTENT_RESERVE_OUT_REGISTER: Command = Command {
    name: "PERSISTENT RESERVE OUT, REGISTER",
    standard: "SPC-4",
    opcode: 0x5f,
    service_action: Some(0x00),
    direction: Direction::Out,
    fields: &[bits("SCOPE", 2, 7, 4), bits("TYPE", 2, 3, 4), number(PARAMETERS, 5, 4)],
};

/// PERSISTENT RESERVE OUT, RESERVE.
pub static PERSISTENT_RESERVE_OUT_RESERVE: Command = Command {
    name: "PERSISTENT RESERVE OUT, RESERVE",
    standard: "SPC-4",
    opcode: 0x5f,
    service_action: Some(0x01),
    direction: Direction::Out,
    fields: &[bits("SCOPE", 2, 7, 4), bits("TYPE", 2, 3, 4), number(PARAMETERS, 5, 4)],
};

/// PERSISTENT RESERVE OUT, RELEASE.
pub static PERSISTENT_RESERVE_OUT_RELEASE: Command = Command {
    name: "PERSISTENT RESERVE OUT, RELEASE",
    standard: "SPC-4",
    opcode: 0x5f,
    service_action: Some(0x02),
    direction: Direction::Out,
    fields: &[bits("SCOPE", 2, 7, 4), bits("TYPE", 2, 3, 4), number(PARAMETERS, 5, 4)],
};

/// PERSISTENT RESERVE OUT, CLEAR.
pub static PERSISTENT_RESERVE_OUT_CLEAR: Command = Command {
    name: "PERSISTENT RESERVE OUT, CLEAR",
    standard: "SPC-4",
    opcode: 0x5f,
    service_action: Some(0x03),
    direction: Direction::Out,
    fields: &[bits("SCOPE", 2, 7, 4), bits("TYPE", 2, 3, 4), number(PARAMETERS, 5, 4)],
};

/// PERSISTENT RESERVE OUT, PREEMPT.
pub static PERSISTENT_RESERVE_OUT_PREEMPT: Command = Command {
    name: "PERSISTENT RESERVE OUT, PREEMPT",
    standard: "SPC-4",
    opcode: 0x5f,
    service_action: Some(0x04),
    direction: Direction::Out,
    fields: &[bits("SCOPE", 2, 7, 4), bits("TYPE", 2, 3, 4), number(PARAMETERS, 5, 4)],
};

/// PERSISTENT RESERVE OUT, PREEMPT AND ABORT.
pub static PERSISTENT_RESERVE_OUT_PREEMPT_AND_ABORT: Command = Command {
    name: "PERSISTENT RESERVE OUT, PREEMPT AND ABORT",
    standard: "SPC-4",
    opcode: 0x5f,
    service_action: Some(0x05),
    direction: Direction::Out,
    fields: &[bits("SCOPE", 2, 7, 4), bits("TYPE", 2, 3, 4), number(PARAMETERS, 5, 4)],
};

/// PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY.
pub static PERSISTENT_RESERVE_OUT_REGISTER_AND_IGNORE_EXISTING_KEY: Command = Command {
    name: "PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY",
    standard: "SPC-4",
    opcode: 0x5f,
    service_action: Some(0x06),
    direction: Direction::Out,
    fields: &[bits("SCOPE", 2, 7, 4), bits("TYPE", 2, 3, 4), number(PARAMETERS, 5, 4)],
};

/// REPORT LUNS.
pub static REPORT_LUNS: Command = Command {
    name: "REPORT LUNS",
    standard: "SPC-4",
    opcode: 0xa0,
    service_action: None,
    direction: Direction::In,
    fields: &[number("SELECT REPORT", 2, 1), number(ALLOCATION, 6, 4)],
};

/// REPORT TARGET PORT GROUPS.
pub static REPORT_TARGET_PORT_GROUPS: Command = Command {
    name: "REPORT TARGET PORT GROUPS",
    standard: "SPC-4",
    opcode: 0xa3,
    service_action: Some(0x0a),
    direction: Direction::In,
    fields: &[bits("PARAMETER DATA FORMAT", 1, 7, 3), number(ALLOCATION, 6, 4)],
};

/// REPORT SUPPORTED OPERATION CODES.
pub static REPORT_SUPPORTED_OPERATION_CODES: Command = Command {
    name: "REPORT SUPPORTED OPERATION CODES",
    standard: "SPC-4",
    opcode: 0xa3,
    service_action: Some(0x0c),
    direction: Direction::In,
    fields: &[
        flag("RCTD", 2, 7),
        bits("REPORTING OPTIONS", 2, 2, 3),
        number("REQUESTED OPERATION CODE", 3, 1),
        number("REQUESTED SERVICE ACTION", 4, 2),
        number(ALLOCATION, 6, 4),
    ],
};

/// REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS.
pub static REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS: Command = Command {
    name: "REPORT SUPPORTED TASK MANAGEMENT FUNCTIONS",
    standard: "SPC-4",
    opcode: 0xa3,
    service_action: Some(0x0d),
    direction: Direction::In,
    fields: &[flag("REPD", 2, 7), number(ALLOCATION, 6, 4)],
};
