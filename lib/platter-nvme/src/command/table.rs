//! The commands and their fields, in the order of queue and operation code: Base Specification 2.0 ("Admin Command Set",
//! "Fabrics and I/O commands") and NVM Command Set Specification 1.0 ("I/O Commands").

use super::{Command, Effect, Queue};
use crate::layout::little::{bits, flag, number};

const BASE: &str = "NVMe Base 2.0";
const NVM: &str = "NVM Command Set 1.0";

/// Every command, without [`OTHER_ADMIN`] and [`OTHER_IO`].
pub static TABLE: &[&Command] = &[
    &GET_LOG_PAGE,
    &IDENTIFY,
    &ABORT,
    &SET_FEATURES,
    &GET_FEATURES,
    &ASYNCHRONOUS_EVENT_REQUEST,
    &FIRMWARE_COMMIT,
    &FIRMWARE_IMAGE_DOWNLOAD,
    &KEEP_ALIVE,
    &FORMAT_NVM,
    &FLUSH,
    &WRITE,
    &READ,
    &WRITE_UNCORRECTABLE,
    &COMPARE,
    &WRITE_ZEROES,
    &DATASET_MANAGEMENT,
    &VERIFY,
    &RESERVATION_REGISTER,
    &RESERVATION_REPORT,
    &RESERVATION_ACQUIRE,
    &RESERVATION_RELEASE,
    &COPY,
];

macro_rules! command {
    ($const:ident, $name:literal, $standard:expr, $queue:ident, $opcode:literal, $effect:ident, [$($field:expr),* $(,)?]) => {
        #[doc = concat!($name, ".")]
        pub static $const: Command = Command {
            name: $name,
            standard: $standard,
            queue: Queue::$queue,
            opcode: $opcode,
            effect: Effect::$effect,
            fields: &[$($field),*],
        };
    };
}

/// The command dwords of a command without a layout here.
macro_rules! dwords {
    ($const:ident, $name:literal, $queue:ident) => {
        command!(
            $const,
            $name,
            BASE,
            $queue,
            0x00,
            Medium,
            [
                number("cdw2", 8, 4),
                number("cdw3", 12, 4),
                number("cdw10", 40, 4),
                number("cdw11", 44, 4),
                number("cdw12", 48, 4),
                number("cdw13", 52, 4),
                number("cdw14", 56, 4),
                number("cdw15", 60, 4),
            ]
        );
    };
}

dwords!(OTHER_ADMIN, "Other Admin command", Admin);
dwords!(OTHER_IO, "Other I/O command", Io);

command!(
    GET_LOG_PAGE,
    "Get Log Page",
    BASE,
    Admin,
    0x02,
    None,
    [
        number("lid", 40, 1),
        bits("lsp", 41, 0, 7),
        flag("rae", 41, 7),
        number("numdl", 42, 2),
        number("numdu", 44, 2),
        number("lsi", 46, 2),
        number("lpo", 48, 8),
        bits("uuid_index", 56, 0, 7),
        flag("ot", 58, 7),
        number("csi", 59, 1),
    ]
);
command!(
    IDENTIFY,
    "Identify",
    BASE,
    Admin,
    0x06,
    None,
    [
        number("cns", 40, 1),
        number("cntid", 42, 2),
        number("cnssid", 44, 2),
        number("csi", 47, 1),
        bits("uuid_index", 56, 0, 7),
    ]
);
command!(ABORT, "Abort", BASE, Admin, 0x08, None, [number("sqid", 40, 2), number("abortcid", 42, 2)]);
command!(
    SET_FEATURES,
    "Set Features",
    BASE,
    Admin,
    0x09,
    State,
    [
        number("fid", 40, 1),
        flag("sv", 43, 7),
        number("cdw11", 44, 4),
        number("cdw12", 48, 4),
        number("cdw13", 52, 4),
        bits("uuid_index", 56, 0, 7),
        number("cdw15", 60, 4),
    ]
);
command!(
    GET_FEATURES,
    "Get Features",
    BASE,
    Admin,
    0x0a,
    None,
    [number("fid", 40, 1), bits("sel", 41, 0, 3), number("cdw11", 44, 4), bits("uuid_index", 56, 0, 7)]
);
command!(ASYNCHRONOUS_EVENT_REQUEST, "Asynchronous Event Request", BASE, Admin, 0x0c, None, []);
command!(
    FIRMWARE_COMMIT,
    "Firmware Commit",
    BASE,
    Admin,
    0x10,
    State,
    [bits("fs", 40, 0, 3), bits("ca", 40, 3, 3), flag("bpid", 43, 7)]
);
command!(
    FIRMWARE_IMAGE_DOWNLOAD,
    "Firmware Image Download",
    BASE,
    Admin,
    0x11,
    State,
    [number("numd", 40, 4), number("ofst", 44, 4)]
);
command!(KEEP_ALIVE, "Keep Alive", BASE, Admin, 0x18, None, []);
command!(
    FORMAT_NVM,
    "Format NVM",
    BASE,
    Admin,
    0x80,
    Medium,
    [
        bits("lbafl", 40, 0, 4),
        flag("mset", 40, 4),
        bits("pi", 40, 5, 3),
        flag("pil", 41, 0),
        bits("ses", 41, 1, 3),
        bits("lbafu", 41, 4, 2),
    ]
);

command!(FLUSH, "Flush", BASE, Io, 0x00, None, []);
command!(
    WRITE,
    "Write",
    NVM,
    Io,
    0x01,
    Medium,
    [
        number("slba", 40, 8),
        number("nlb", 48, 2),
        flag("stc", 51, 0),
        bits("dtype", 50, 4, 4),
        bits("prinfo", 51, 2, 4),
        flag("fua", 51, 6),
        flag("lr", 51, 7),
        number("dsm", 52, 1),
        number("dspec", 54, 2),
        number("ilbrt", 56, 4),
        number("lbat", 60, 2),
        number("lbatm", 62, 2),
    ]
);
command!(
    READ,
    "Read",
    NVM,
    Io,
    0x02,
    None,
    [
        number("slba", 40, 8),
        number("nlb", 48, 2),
        flag("stc", 51, 0),
        bits("prinfo", 51, 2, 4),
        flag("fua", 51, 6),
        flag("lr", 51, 7),
        number("dsm", 52, 1),
        number("eilbrt", 56, 4),
        number("elbat", 60, 2),
        number("elbatm", 62, 2),
    ]
);
command!(
    WRITE_UNCORRECTABLE,
    "Write Uncorrectable",
    NVM,
    Io,
    0x04,
    Medium,
    [number("slba", 40, 8), number("nlb", 48, 2), bits("dtype", 50, 4, 4), number("dspec", 54, 2)]
);
command!(
    COMPARE,
    "Compare",
    NVM,
    Io,
    0x05,
    None,
    [
        number("slba", 40, 8),
        number("nlb", 48, 2),
        flag("stc", 51, 0),
        bits("prinfo", 51, 2, 4),
        flag("fua", 51, 6),
        flag("lr", 51, 7),
        number("eilbrt", 56, 4),
        number("elbat", 60, 2),
        number("elbatm", 62, 2),
    ]
);
command!(
    WRITE_ZEROES,
    "Write Zeroes",
    NVM,
    Io,
    0x08,
    Medium,
    [
        number("slba", 40, 8),
        number("nlb", 48, 2),
        flag("stc", 51, 0),
        bits("dtype", 50, 4, 4),
        flag("deac", 51, 1),
        bits("prinfo", 51, 2, 4),
        flag("fua", 51, 6),
        flag("lr", 51, 7),
        number("dspec", 54, 2),
        number("ilbrt", 56, 4),
        number("lbat", 60, 2),
        number("lbatm", 62, 2),
    ]
);
command!(
    DATASET_MANAGEMENT,
    "Dataset Management",
    NVM,
    Io,
    0x09,
    Medium,
    [number("nr", 40, 1), flag("idr", 44, 0), flag("idw", 44, 1), flag("ad", 44, 2)]
);
command!(
    VERIFY,
    "Verify",
    NVM,
    Io,
    0x0c,
    None,
    [
        number("slba", 40, 8),
        number("nlb", 48, 2),
        flag("stc", 51, 0),
        bits("prinfo", 51, 2, 4),
        flag("fua", 51, 6),
        flag("lr", 51, 7),
        number("eilbrt", 56, 4),
        number("elbat", 60, 2),
        number("elbatm", 62, 2),
    ]
);
command!(
    RESERVATION_REGISTER,
    "Reservation Register",
    BASE,
    Io,
    0x0d,
    State,
    [bits("rrega", 40, 0, 3), flag("iekey", 40, 3), bits("cptpl", 43, 6, 2)]
);
command!(
    RESERVATION_REPORT,
    "Reservation Report",
    BASE,
    Io,
    0x0e,
    None,
    [number("numd", 40, 4), flag("eds", 44, 0)]
);
command!(
    RESERVATION_ACQUIRE,
    "Reservation Acquire",
    BASE,
    Io,
    0x11,
    State,
    [bits("racqa", 40, 0, 3), flag("iekey", 40, 3), number("rtype", 41, 1)]
);
command!(
    RESERVATION_RELEASE,
    "Reservation Release",
    BASE,
    Io,
    0x15,
    State,
    [bits("rrela", 40, 0, 3), flag("iekey", 40, 3), number("rtype", 41, 1)]
);
command!(
    COPY,
    "Copy",
    NVM,
    Io,
    0x19,
    Medium,
    [
        number("sdlba", 40, 8),
        number("nr", 48, 1),
        bits("desfmt", 49, 0, 4),
        bits("prinfor", 49, 4, 4),
        flag("stcw", 51, 0),
        flag("stcr", 50, 0),
        bits("dtype", 50, 4, 4),
        bits("prinfow", 51, 2, 4),
        flag("fua", 51, 6),
        flag("lr", 51, 7),
        number("dspec", 54, 2),
        number("ilbrt", 56, 4),
        number("lbat", 60, 2),
        number("lbatm", 62, 2),
    ]
);
