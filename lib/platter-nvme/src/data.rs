//! Data that travels with I/O commands: NVM Command Set Specification 1.0 and Base Specification 2.0 ("Reservations").

use crate::layout::bytes;
use crate::layout::little::{bits, flag, number};
use crate::structure::{Items, Structure, little_at, to_end};
use alloc::vec::Vec;

/// Length of a range of Dataset Management in bytes.
pub const RANGE: usize = 16;

/// Most ranges of one Dataset Management command.
pub const MAX_RANGES: usize = 256;

/// Ranges of Dataset Management.
pub static RANGES: Structure = Structure {
    name: "Dataset Management ranges",
    standard: "NVM Command Set 1.0",
    fields: &[],
    length: to_end,
    items: Some(Items { start: |_| 0, end: to_end, each: |_| &RANGE_DEFINITION }),
};

/// A range of Dataset Management.
static RANGE_DEFINITION: Structure = Structure {
    name: "Dataset Management range",
    standard: "NVM Command Set 1.0",
    fields: &[
        bits("af", 0, 0, 4),
        bits("al", 0, 4, 2),
        flag("sr", 1, 0),
        flag("sw", 1, 1),
        flag("wp", 1, 2),
        number("cas", 3, 1),
        number("nlb", 4, 4),
        number("slba", 8, 8),
    ],
    length: |_| RANGE,
    items: None,
};

/// The data of Dataset Management: first logical block and number of blocks of each range, without further attributes.
pub fn ranges(of: impl IntoIterator<Item = (u64, u32)>) -> Vec<u8> {
    let each = |(slba, nlb): (u64, u32)| {
        let range = RANGE_DEFINITION.build(RANGE).with("nlb", nlb.into()).with("slba", slba);
        range.into_bytes()
    };
    of.into_iter().flat_map(each).collect()
}

/// Source ranges of Copy in format 0.
pub static COPY_RANGES: Structure = Structure {
    name: "Copy source ranges, format 0",
    standard: "NVM Command Set 1.0",
    fields: &[],
    length: to_end,
    items: Some(Items { start: |_| 0, end: to_end, each: |_| &COPY_RANGE }),
};

/// A source range of Copy in format 0.
static COPY_RANGE: Structure = Structure {
    name: "Copy source range",
    standard: "NVM Command Set 1.0",
    fields: &[
        number("slba", 8, 8),
        number("nlb", 16, 2),
        number("eilbrt", 24, 4),
        number("elbat", 28, 2),
        number("elbatm", 30, 2),
    ],
    length: |_| 32,
    items: None,
};

/// Data of Reservation Register.
pub static REGISTER: Structure = Structure {
    name: "Reservation Register data structure",
    standard: "NVMe Base 2.0",
    fields: &[number("crkey", 0, 8), number("nrkey", 8, 8)],
    length: |_| 16,
    items: None,
};

/// Data of Reservation Acquire.
pub static ACQUIRE: Structure = Structure {
    name: "Reservation Acquire data structure",
    standard: "NVMe Base 2.0",
    fields: &[number("crkey", 0, 8), number("prkey", 8, 8)],
    length: |_| 16,
    items: None,
};

/// Data of Reservation Release.
pub static RELEASE: Structure = Structure {
    name: "Reservation Release data structure",
    standard: "NVMe Base 2.0",
    fields: &[number("crkey", 0, 8)],
    length: |_| 8,
    items: None,
};

/// What Reservation Report returns, with host identifiers of 64 bits or of 128 bits (EDS).
pub fn reservation_status(extended: bool) -> &'static Structure {
    if extended { &EXTENDED_STATUS } else { &STATUS }
}

macro_rules! status {
    ($const:ident, $name:literal, $header:literal, $each:ident, $len:literal, [$($field:expr),*]) => {
        static $const: Structure = Structure {
            name: $name,
            standard: "NVMe Base 2.0",
            fields: &[number("gen", 0, 4), number("rtype", 4, 1), number("regctl", 5, 2), number("ptpls", 9, 1)],
            length: |bytes| $header + $len * little_at(bytes, 5, 2),
            items: Some(Items { start: |_| $header, end: to_end, each: |_| &$each }),
        };
        static $each: Structure = Structure {
            name: "registered controller",
            standard: "NVMe Base 2.0",
            fields: &[number("cntlid", 0, 2), number("rcsts", 2, 1), $($field),*],
            length: |_| $len,
            items: None,
        };
    };
}

status!(
    STATUS,
    "Reservation Status data structure",
    24,
    REGISTERED,
    24,
    [number("hostid", 8, 8), number("rkey", 16, 8)]
);
status!(
    EXTENDED_STATUS,
    "Reservation Status Extended data structure",
    64,
    REGISTERED_EXTENDED,
    64,
    [number("rkey", 8, 8), bytes("hostid", 16, 16)]
);
