//! The commands of SBC-3, which disks have.

use super::{ALLOCATION, BLOCKS, GROUP, LBA, PARAMETERS, TRANSFER};
use crate::cdb::{Command, Direction};
use crate::layout::{bits, flag, number};

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
