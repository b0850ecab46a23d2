//! Target port groups, as REPORT TARGET PORT GROUPS returns them.

use crate::layout::{bits, flag, number};
use crate::structure::{Items, Structure, number_at, to_end};

/// REPORT TARGET PORT GROUPS parameter data without the extended header (SPC-4).
pub static TARGET_PORT_GROUPS: Structure = Structure {
    name: "REPORT TARGET PORT GROUPS parameter data",
    standard: "SPC-4",
    fields: &[number("RETURN DATA LENGTH", 0, 4)],
    length: |bytes| 4 + number_at(bytes, 0, 4),
    items: Some(Items { start: |_| 4, end: to_end, each: |_| &GROUP }),
};

static GROUP: Structure = Structure {
    name: "target port group descriptor",
    standard: "SPC-4",
    fields: &[
        flag("PREF", 0, 7),
        bits("ASYMMETRIC ACCESS STATE", 0, 3, 4),
        flag("T_SUP", 1, 7),
        flag("O_SUP", 1, 6),
        flag("LBD_SUP", 1, 4),
        flag("U_SUP", 1, 3),
        flag("S_SUP", 1, 2),
        flag("AN_SUP", 1, 1),
        flag("AO_SUP", 1, 0),
        number("TARGET PORT GROUP", 2, 2),
        number("STATUS CODE", 5, 1),
        number("TARGET PORT COUNT", 7, 1),
    ],
    length: |bytes| 8 + 4 * number_at(bytes, 7, 1),
    items: Some(Items { start: |_| 8, end: to_end, each: |_| &PORT }),
};

static PORT: Structure = Structure {
    name: "target port descriptor",
    standard: "SPC-4",
    fields: &[number("RELATIVE TARGET PORT IDENTIFIER", 2, 2)],
    length: |_| 4,
    items: None,
};
