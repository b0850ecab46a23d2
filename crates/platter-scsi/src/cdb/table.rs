// Long: one row for each command.
//! The commands and their fields, in the order of their operation codes: SPC-4 and SBC-3, the clause of each command's
//! name.

use super::{Command, Direction};
use crate::layout::{bits, flag, number};

const LBA: &str = "LOGICAL BLOCK ADDRESS";
const TRANSFER: &str = "TRANSFER LENGTH";
const ALLOCATION: &str = "ALLOCATION LENGTH";
const PARAMETERS: &str = "PARAMETER LIST LENGTH";
const BLOCKS: &str = "NUMBER OF LOGICAL BLOCKS";
const GROUP: &str = "GROUP NUMBER";
const PAGE: &str = "PAGE CODE";
const SUBPAGE: &str = "SUBPAGE CODE";

/// Every command.
pub static TABLE: &[&Command] = &[
    &TEST_UNIT_READY,
    &REQUEST_SENSE,
    &READ_6,
    &WRITE_6,
    &INQUIRY,
    &MODE_SELECT_6,
    &MODE_SENSE_6,
    &START_STOP_UNIT,
    &READ_CAPACITY_10,
    &READ_10,
    &WRITE_10,
    &WRITE_AND_VERIFY_10,
    &VERIFY_10,
    &SYNCHRONIZE_CACHE_10,
    &WRITE_SAME_10,
    &UNMAP,
    &LOG_SENSE,
    &MODE_SELECT_10,
    &MODE_SENSE_10,
    &PERSISTENT_RESERVE_IN_READ_KEYS,
    &PERSISTENT_RESERVE_IN_READ_RESERVATION,
    &PERSISTENT_RESERVE_IN_REPORT_CAPABILITIES,
    &PERSISTENT_RESERVE_IN_READ_FULL_STATUS,
    &PERSISTENT_RESERVE_OUT_REGISTER,
    &PERSISTENT_RESERVE_OUT_RESERVE,
    &PERSISTENT_RESERVE_OUT_RELEASE,
    &PERSISTENT_RESERVE_OUT_CLEAR,
    &PERSISTENT_RESERVE_OUT_PREEMPT,
    &PERSISTENT_RESERVE_OUT_PREEMPT_AND_ABORT,
    &PERSISTENT_RESERVE_OUT_REGISTER_AND_IGNORE_EXISTING_KEY,
    &READ_16,
    &COMPARE_AND_WRITE,
    &WRITE_16,
    &WRITE_AND_VERIFY_16,
    &VERIFY_16,
    &SYNCHRONIZE_CACHE_16,
    &WRITE_SAME_16,
    &READ_CAPACITY_16,
    &GET_LBA_STATUS,
    &REPORT_LUNS,
    &REPORT_TARGET_PORT_GROUPS,
    &REPORT_SUPPORTED_OPERATION_CODES,
    &REPORT_SUPPORTED_TASK_MANAGEMENT_FUNCTIONS,
    &READ_12,
    &WRITE_12,
    &WRITE_AND_VERIFY_12,
    &VERIFY_12,
];

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

/// READ (6).
pub static READ_6: Command = Command {
    name: "READ (6)",
    standard: "SBC-3",
    opcode: 0x08,
    service_action: None,
    direction: Direction::In,
    fields: &[bits(LBA, 1, 4, 21), number(TRANSFER, 4, 1)],
};

/// WRITE (6).
pub static WRITE_6: Command = Command {
    name: "WRITE (6)",
    standard: "SBC-3",
    opcode: 0x0a,
    service_action: None,
    direction: Direction::Out,
    fields: &[bits(LBA, 1, 4, 21), number(TRANSFER, 4, 1)],
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

/// START STOP UNIT.
pub static START_STOP_UNIT: Command = Command {
    name: "START STOP UNIT",
    standard: "SBC-3",
    opcode: 0x1b,
    service_action: None,
    direction: Direction::None,
    fields: &[
        flag("IMMED", 1, 0),
        bits("POWER CONDITION MODIFIER", 3, 3, 4),
        bits("POWER CONDITION", 4, 7, 4),
        flag("NO_FLUSH", 4, 2),
        flag("LOEJ", 4, 1),
        flag("START", 4, 0),
    ],
};

/// READ CAPACITY (10).
pub static READ_CAPACITY_10: Command = Command {
    name: "READ CAPACITY (10)",
    standard: "SBC-3",
    opcode: 0x25,
    service_action: None,
    direction: Direction::In,
    fields: &[number(LBA, 2, 4), flag("PMI", 8, 0)],
};

/// READ (10).
pub static READ_10: Command = Command {
    name: "READ (10)",
    standard: "SBC-3",
    opcode: 0x28,
    service_action: None,
    direction: Direction::In,
    fields: &[
        bits("RDPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        flag("FUA", 1, 3),
        flag("RARC", 1, 2),
        number(LBA, 2, 4),
        bits(GROUP, 6, 4, 5),
        number(TRANSFER, 7, 2),
    ],
};

/// WRITE (10).
pub static WRITE_10: Command = Command {
    name: "WRITE (10)",
    standard: "SBC-3",
    opcode: 0x2a,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("WRPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        flag("FUA", 1, 3),
        number(LBA, 2, 4),
        bits(GROUP, 6, 4, 5),
        number(TRANSFER, 7, 2),
    ],
};

/// WRITE AND VERIFY (10).
pub static WRITE_AND_VERIFY_10: Command = Command {
    name: "WRITE AND VERIFY (10)",
    standard: "SBC-3",
    opcode: 0x2e,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("WRPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        bits("BYTCHK", 1, 2, 2),
        number(LBA, 2, 4),
        bits(GROUP, 6, 4, 5),
        number(TRANSFER, 7, 2),
    ],
};

/// VERIFY (10).
pub static VERIFY_10: Command = Command {
    name: "VERIFY (10)",
    standard: "SBC-3",
    opcode: 0x2f,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("VRPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        bits("BYTCHK", 1, 2, 2),
        number(LBA, 2, 4),
        bits(GROUP, 6, 4, 5),
        number("VERIFICATION LENGTH", 7, 2),
    ],
};

/// SYNCHRONIZE CACHE (10).
pub static SYNCHRONIZE_CACHE_10: Command = Command {
    name: "SYNCHRONIZE CACHE (10)",
    standard: "SBC-3",
    opcode: 0x35,
    service_action: None,
    direction: Direction::None,
    fields: &[flag("IMMED", 1, 1), number(LBA, 2, 4), bits(GROUP, 6, 4, 5), number(BLOCKS, 7, 2)],
};

/// WRITE SAME (10).
pub static WRITE_SAME_10: Command = Command {
    name: "WRITE SAME (10)",
    standard: "SBC-3",
    opcode: 0x41,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("WRPROTECT", 1, 7, 3),
        flag("ANCHOR", 1, 4),
        flag("UNMAP", 1, 3),
        number(LBA, 2, 4),
        bits(GROUP, 6, 4, 5),
        number(BLOCKS, 7, 2),
    ],
};

/// UNMAP.
pub static UNMAP: Command = Command {
    name: "UNMAP",
    standard: "SBC-3",
    opcode: 0x42,
    service_action: None,
    direction: Direction::Out,
    fields: &[flag("ANCHOR", 1, 0), bits(GROUP, 6, 4, 5), number(PARAMETERS, 7, 2)],
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

/// READ (16).
pub static READ_16: Command = Command {
    name: "READ (16)",
    standard: "SBC-3",
    opcode: 0x88,
    service_action: None,
    direction: Direction::In,
    fields: &[
        bits("RDPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        flag("FUA", 1, 3),
        flag("RARC", 1, 2),
        number(LBA, 2, 8),
        number(TRANSFER, 10, 4),
        bits(GROUP, 14, 4, 5),
    ],
};

/// COMPARE AND WRITE.
pub static COMPARE_AND_WRITE: Command = Command {
    name: "COMPARE AND WRITE",
    standard: "SBC-3",
    opcode: 0x89,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("WRPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        flag("FUA", 1, 3),
        number(LBA, 2, 8),
        number(BLOCKS, 13, 1),
        bits(GROUP, 14, 4, 5),
    ],
};

/// WRITE (16).
pub static WRITE_16: Command = Command {
    name: "WRITE (16)",
    standard: "SBC-3",
    opcode: 0x8a,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("WRPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        flag("FUA", 1, 3),
        number(LBA, 2, 8),
        number(TRANSFER, 10, 4),
        bits(GROUP, 14, 4, 5),
    ],
};

/// WRITE AND VERIFY (16).
pub static WRITE_AND_VERIFY_16: Command = Command {
    name: "WRITE AND VERIFY (16)",
    standard: "SBC-3",
    opcode: 0x8e,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("WRPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        bits("BYTCHK", 1, 2, 2),
        number(LBA, 2, 8),
        number(TRANSFER, 10, 4),
        bits(GROUP, 14, 4, 5),
    ],
};

/// VERIFY (16).
pub static VERIFY_16: Command = Command {
    name: "VERIFY (16)",
    standard: "SBC-3",
    opcode: 0x8f,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("VRPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        bits("BYTCHK", 1, 2, 2),
        number(LBA, 2, 8),
        number("VERIFICATION LENGTH", 10, 4),
        bits(GROUP, 14, 4, 5),
    ],
};

/// SYNCHRONIZE CACHE (16).
pub static SYNCHRONIZE_CACHE_16: Command = Command {
    name: "SYNCHRONIZE CACHE (16)",
    standard: "SBC-3",
    opcode: 0x91,
    service_action: None,
    direction: Direction::None,
    fields: &[flag("IMMED", 1, 1), number(LBA, 2, 8), number(BLOCKS, 10, 4), bits(GROUP, 14, 4, 5)],
};

/// WRITE SAME (16).
pub static WRITE_SAME_16: Command = Command {
    name: "WRITE SAME (16)",
    standard: "SBC-3",
    opcode: 0x93,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("WRPROTECT", 1, 7, 3),
        flag("ANCHOR", 1, 4),
        flag("UNMAP", 1, 3),
        flag("NDOB", 1, 0),
        number(LBA, 2, 8),
        number(BLOCKS, 10, 4),
        bits(GROUP, 14, 4, 5),
    ],
};

/// READ CAPACITY (16).
pub static READ_CAPACITY_16: Command = Command {
    name: "READ CAPACITY (16)",
    standard: "SBC-3",
    opcode: 0x9e,
    service_action: Some(0x10),
    direction: Direction::In,
    fields: &[number(LBA, 2, 8), number(ALLOCATION, 10, 4), flag("PMI", 14, 0)],
};

/// GET LBA STATUS.
pub static GET_LBA_STATUS: Command = Command {
    name: "GET LBA STATUS",
    standard: "SBC-3",
    opcode: 0x9e,
    service_action: Some(0x12),
    direction: Direction::In,
    fields: &[number(LBA, 2, 8), number(ALLOCATION, 10, 4)],
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

/// READ (12).
pub static READ_12: Command = Command {
    name: "READ (12)",
    standard: "SBC-3",
    opcode: 0xa8,
    service_action: None,
    direction: Direction::In,
    fields: &[
        bits("RDPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        flag("FUA", 1, 3),
        flag("RARC", 1, 2),
        number(LBA, 2, 4),
        number(TRANSFER, 6, 4),
        bits(GROUP, 10, 4, 5),
    ],
};

/// WRITE (12).
pub static WRITE_12: Command = Command {
    name: "WRITE (12)",
    standard: "SBC-3",
    opcode: 0xaa,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("WRPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        flag("FUA", 1, 3),
        number(LBA, 2, 4),
        number(TRANSFER, 6, 4),
        bits(GROUP, 10, 4, 5),
    ],
};

/// WRITE AND VERIFY (12).
pub static WRITE_AND_VERIFY_12: Command = Command {
    name: "WRITE AND VERIFY (12)",
    standard: "SBC-3",
    opcode: 0xae,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("WRPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        bits("BYTCHK", 1, 2, 2),
        number(LBA, 2, 4),
        number(TRANSFER, 6, 4),
        bits(GROUP, 10, 4, 5),
    ],
};

/// VERIFY (12).
pub static VERIFY_12: Command = Command {
    name: "VERIFY (12)",
    standard: "SBC-3",
    opcode: 0xaf,
    service_action: None,
    direction: Direction::Out,
    fields: &[
        bits("VRPROTECT", 1, 7, 3),
        flag("DPO", 1, 4),
        bits("BYTCHK", 1, 2, 2),
        number(LBA, 2, 4),
        number("VERIFICATION LENGTH", 6, 4),
        bits(GROUP, 10, 4, 5),
    ],
};
