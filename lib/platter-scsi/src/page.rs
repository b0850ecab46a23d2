//! Data that a disk returns about itself: INQUIRY, its vital product data (VPD) pages, and its capacity.

mod groups;
mod log;

pub use groups::*;
pub use log::*;

use crate::layout::{bits, bytes_to_end, flag, number, text, text_to_end};
use crate::structure::{Items, Structure, number_at, to_end};

/// Standard INQUIRY data (SPC-4, INQUIRY command).
pub static INQUIRY: Structure = Structure {
    name: "standard INQUIRY data",
    standard: "SPC-4",
    fields: &[
        bits("PERIPHERAL QUALIFIER", 0, 7, 3),
        bits("PERIPHERAL DEVICE TYPE", 0, 4, 5),
        flag("RMB", 1, 7),
        number("VERSION", 2, 1),
        flag("NORMACA", 3, 5),
        flag("HISUP", 3, 4),
        bits("RESPONSE DATA FORMAT", 3, 3, 4),
        number("ADDITIONAL LENGTH", 4, 1),
        flag("SCCS", 5, 7),
        flag("ACC", 5, 6),
        bits("TPGS", 5, 5, 2),
        flag("3PC", 5, 3),
        flag("PROTECT", 5, 0),
        flag("ENCSERV", 6, 6),
        flag("MULTIP", 6, 4),
        flag("CMDQUE", 7, 1),
        text("T10 VENDOR IDENTIFICATION", 8, 8),
        text("PRODUCT IDENTIFICATION", 16, 16),
        text("PRODUCT REVISION LEVEL", 32, 4),
        number("VERSION DESCRIPTOR 1", 58, 2),
        number("VERSION DESCRIPTOR 2", 60, 2),
        number("VERSION DESCRIPTOR 3", 62, 2),
        number("VERSION DESCRIPTOR 4", 64, 2),
        number("VERSION DESCRIPTOR 5", 66, 2),
        number("VERSION DESCRIPTOR 6", 68, 2),
        number("VERSION DESCRIPTOR 7", 70, 2),
        number("VERSION DESCRIPTOR 8", 72, 2),
    ],
    length: |bytes| 5 + number_at(bytes, 4, 1),
    items: None,
};

/// READ CAPACITY (10) parameter data (SBC-3).
pub static CAPACITY_10: Structure = Structure {
    name: "READ CAPACITY (10) parameter data",
    standard: "SBC-3",
    fields: &[number("RETURNED LOGICAL BLOCK ADDRESS", 0, 4), number("LOGICAL BLOCK LENGTH IN BYTES", 4, 4)],
    length: |_| 8,
    items: None,
};

/// READ CAPACITY (16) parameter data (SBC-3).
pub static CAPACITY_16: Structure = Structure {
    name: "READ CAPACITY (16) parameter data",
    standard: "SBC-3",
    fields: &[
        number("RETURNED LOGICAL BLOCK ADDRESS", 0, 8),
        number("LOGICAL BLOCK LENGTH IN BYTES", 8, 4),
        bits("P_TYPE", 12, 3, 3),
        flag("PROT_EN", 12, 0),
        bits("P_I_EXPONENT", 13, 7, 4),
        bits("LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT", 13, 3, 4),
        flag("LBPME", 14, 7),
        flag("LBPRZ", 14, 6),
        bits("LOWEST ALIGNED LOGICAL BLOCK ADDRESS", 14, 5, 14),
    ],
    length: |_| 32,
    items: None,
};

/// REPORT LUNS parameter data (SPC-4).
pub static LUNS: Structure = Structure {
    name: "REPORT LUNS parameter data",
    standard: "SPC-4",
    fields: &[number("LUN LIST LENGTH", 0, 4)],
    length: |bytes| 8 + number_at(bytes, 0, 4),
    items: Some(Items { start: |_| 8, end: to_end, each: |_| &LUN }),
};

/// An entry of REPORT LUNS.
static LUN: Structure = Structure {
    name: "logical unit number",
    standard: "SAM-5",
    fields: &[number("LUN", 0, 8)],
    length: |_| 8,
    items: None,
};

/// MODE SENSE (10) parameter data (SPC-4): the header, a block descriptor perhaps, and mode pages.
pub static MODE_PARAMETERS_10: Structure = Structure {
    name: "MODE SENSE (10) parameter data",
    standard: "SPC-4",
    fields: &[
        number("MODE DATA LENGTH", 0, 2),
        number("MEDIUM TYPE", 2, 1),
        flag("WP", 3, 7),
        flag("DPOFUA", 3, 4),
        flag("LONGLBA", 4, 0),
        number("BLOCK DESCRIPTOR LENGTH", 6, 2),
    ],
    length: |bytes| 2 + number_at(bytes, 0, 2),
    items: Some(Items { start: |bytes| 8 + number_at(bytes, 6, 2), end: to_end, each: mode_page }),
};

/// The layout of the mode page that bytes begin with. Those that are not known, and subpages, have the header and bytes.
fn mode_page(bytes: &[u8]) -> &'static Structure {
    match bytes.first().map(|byte| byte & 0x7f) {
        Some(0x08) => &CACHING,
        Some(0x0a) => &CONTROL,
        Some(subpage) if subpage & 0x40 != 0 => &OTHER_MODE_SUBPAGE,
        _ => &OTHER_MODE_PAGE,
    }
}

macro_rules! mode_page {
    ($const:ident, $name:literal, $standard:literal, [$($field:expr),* $(,)?]) => {
        static $const: Structure = Structure {
            name: $name,
            standard: $standard,
            fields: &[
                flag("PS", 0, 7),
                flag("SPF", 0, 6),
                bits("PAGE CODE", 0, 5, 6),
                number("PAGE LENGTH", 1, 1),
                $($field),*
            ],
            length: |bytes| 2 + number_at(bytes, 1, 1),
            items: None,
        };
    };
}

mode_page!(OTHER_MODE_PAGE, "mode page", "SPC-4", [bytes_to_end("MODE PARAMETERS", 2)]);

static OTHER_MODE_SUBPAGE: Structure = Structure {
    name: "mode subpage",
    standard: "SPC-4",
    fields: &[
        flag("PS", 0, 7),
        flag("SPF", 0, 6),
        bits("PAGE CODE", 0, 5, 6),
        number("SUBPAGE CODE", 1, 1),
        number("PAGE LENGTH", 2, 2),
        bytes_to_end("MODE PARAMETERS", 4),
    ],
    length: |bytes| 4 + number_at(bytes, 2, 2),
    items: None,
};

mode_page!(
    CACHING,
    "Caching mode page",
    "SBC-3",
    [
        flag("IC", 2, 7),
        flag("ABPF", 2, 6),
        flag("CAP", 2, 5),
        flag("DISC", 2, 4),
        flag("SIZE", 2, 3),
        flag("WCE", 2, 2),
        flag("MF", 2, 1),
        flag("RCD", 2, 0),
        bits("DEMAND READ RETENTION PRIORITY", 3, 7, 4),
        bits("WRITE RETENTION PRIORITY", 3, 3, 4),
        number("DISABLE PREFETCH TRANSFER LENGTH", 4, 2),
        number("MINIMUM PREFETCH", 6, 2),
        number("MAXIMUM PREFETCH", 8, 2),
        number("MAXIMUM PREFETCH CEILING", 10, 2),
        flag("FSW", 12, 7),
        flag("LBCSS", 12, 6),
        flag("DRA", 12, 5),
        flag("NV_DIS", 12, 0),
        number("NUMBER OF CACHE SEGMENTS", 13, 1),
        number("CACHE SEGMENT SIZE", 14, 2),
    ]
);

mode_page!(
    CONTROL,
    "Control mode page",
    "SPC-4",
    [
        bits("TST", 2, 7, 3),
        flag("TMF_ONLY", 2, 4),
        flag("DPICZ", 2, 3),
        flag("D_SENSE", 2, 2),
        flag("GLTSD", 2, 1),
        flag("RLEC", 2, 0),
        bits("QUEUE ALGORITHM MODIFIER", 3, 7, 4),
        flag("NUAR", 3, 3),
        bits("QERR", 3, 2, 2),
        flag("RAC", 4, 6),
        bits("UA_INTLCK_CTRL", 4, 5, 2),
        flag("SWP", 4, 3),
        flag("ATO", 5, 7),
        flag("TAS", 5, 6),
        flag("ATMPE", 5, 5),
        flag("RWWP", 5, 4),
        bits("AUTOLOAD MODE", 5, 2, 3),
        number("BUSY TIMEOUT PERIOD", 8, 2),
        number("EXTENDED SELF-TEST COMPLETION TIME", 10, 2),
    ]
);

/// The layout of a VPD page, by the page code in its byte 1. Pages that are not known have the header and bytes.
pub fn vpd(bytes: &[u8]) -> &'static Structure {
    match bytes.get(1) {
        Some(0x00) => &SUPPORTED_PAGES,
        Some(0x80) => &UNIT_SERIAL_NUMBER,
        Some(0x83) => &DEVICE_IDENTIFICATION,
        Some(0xb0) => &BLOCK_LIMITS,
        Some(0xb1) => &BLOCK_DEVICE_CHARACTERISTICS,
        Some(0xb2) => &LOGICAL_BLOCK_PROVISIONING,
        _ => &OTHER,
    }
}

/// Where a VPD page ends.
fn page_end(bytes: &[u8]) -> usize {
    4 + number_at(bytes, 2, 2)
}

/// A VPD page: the four fields of every page, and its own.
macro_rules! page {
    ($doc:literal, $const:ident, $name:literal, $standard:literal, [$($field:expr),* $(,)?], $items:expr) => {
        #[doc = $doc]
        pub static $const: Structure = Structure {
            name: $name,
            standard: $standard,
            fields: &[
                bits("PERIPHERAL QUALIFIER", 0, 7, 3),
                bits("PERIPHERAL DEVICE TYPE", 0, 4, 5),
                number("PAGE CODE", 1, 1),
                number("PAGE LENGTH", 2, 2),
                $($field),*
            ],
            length: page_end,
            items: $items,
        };
    };
}

page!("A VPD page without a layout here.", OTHER, "VPD page", "SPC-4", [bytes_to_end("DATA", 4)], None);

page!(
    "Supported VPD Pages, 00h.",
    SUPPORTED_PAGES,
    "Supported VPD Pages VPD page",
    "SPC-4",
    [],
    Some(Items { start: |_| 4, end: to_end, each: |_| &PAGE_CODE })
);

/// An entry of Supported VPD Pages.
static PAGE_CODE: Structure = Structure {
    name: "supported VPD page",
    standard: "SPC-4",
    fields: &[number("PAGE CODE", 0, 1)],
    length: |_| 1,
    items: None,
};

page!(
    "Unit Serial Number, 80h.",
    UNIT_SERIAL_NUMBER,
    "Unit Serial Number VPD page",
    "SPC-4",
    [text_to_end("PRODUCT SERIAL NUMBER", 4)],
    None
);

page!(
    "Device Identification, 83h.",
    DEVICE_IDENTIFICATION,
    "Device Identification VPD page",
    "SPC-4",
    [],
    Some(Items { start: |_| 4, end: to_end, each: designator })
);

/// A designation descriptor is text if its code set is ASCII (2) or UTF-8 (3).
fn designator(bytes: &[u8]) -> &'static Structure {
    match number_at(bytes, 0, 1) & 0xf {
        2 | 3 => &TEXT_DESIGNATOR,
        _ => &BINARY_DESIGNATOR,
    }
}

macro_rules! designator {
    ($const:ident, $last:expr) => {
        static $const: Structure = Structure {
            name: "designation descriptor",
            standard: "SPC-4",
            fields: &[
                bits("PROTOCOL IDENTIFIER", 0, 7, 4),
                bits("CODE SET", 0, 3, 4),
                flag("PIV", 1, 7),
                bits("ASSOCIATION", 1, 5, 2),
                bits("DESIGNATOR TYPE", 1, 3, 4),
                number("DESIGNATOR LENGTH", 3, 1),
                $last,
            ],
            length: |bytes| 4 + number_at(bytes, 3, 1),
            items: None,
        };
    };
}

designator!(TEXT_DESIGNATOR, text_to_end("DESIGNATOR", 4));
designator!(BINARY_DESIGNATOR, bytes_to_end("DESIGNATOR", 4));

page!(
    "Block Limits, B0h; the atomic fields are of SBC-4.",
    BLOCK_LIMITS,
    "Block Limits VPD page",
    "SBC-3",
    [
        flag("WSNZ", 4, 0),
        number("MAXIMUM COMPARE AND WRITE LENGTH", 5, 1),
        number("OPTIMAL TRANSFER LENGTH GRANULARITY", 6, 2),
        number("MAXIMUM TRANSFER LENGTH", 8, 4),
        number("OPTIMAL TRANSFER LENGTH", 12, 4),
        number("MAXIMUM PREFETCH LENGTH", 16, 4),
        number("MAXIMUM UNMAP LBA COUNT", 20, 4),
        number("MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT", 24, 4),
        number("OPTIMAL UNMAP GRANULARITY", 28, 4),
        flag("UGAVALID", 32, 7),
        bits("UNMAP GRANULARITY ALIGNMENT", 32, 6, 31),
        number("MAXIMUM WRITE SAME LENGTH", 36, 8),
        number("MAXIMUM ATOMIC TRANSFER LENGTH", 44, 4),
        number("ATOMIC ALIGNMENT", 48, 4),
        number("ATOMIC TRANSFER LENGTH GRANULARITY", 52, 4),
        number("MAXIMUM ATOMIC TRANSFER LENGTH WITH ATOMIC BOUNDARY", 56, 4),
        number("MAXIMUM ATOMIC BOUNDARY SIZE", 60, 4),
    ],
    None
);

page!(
    "Block Device Characteristics, B1h.",
    BLOCK_DEVICE_CHARACTERISTICS,
    "Block Device Characteristics VPD page",
    "SBC-3",
    [
        number("MEDIUM ROTATION RATE", 4, 2),
        number("PRODUCT TYPE", 6, 1),
        bits("WABEREQ", 7, 7, 2),
        bits("WACEREQ", 7, 5, 2),
        bits("NOMINAL FORM FACTOR", 7, 3, 4),
        flag("FUAB", 8, 1),
        flag("VBULS", 8, 0),
    ],
    None
);

page!(
    "Logical Block Provisioning, B2h; LBPRZ is of three bits since SBC-4, of which SBC-3 has the last.",
    LOGICAL_BLOCK_PROVISIONING,
    "Logical Block Provisioning VPD page",
    "SBC-3",
    [
        number("THRESHOLD EXPONENT", 4, 1),
        flag("LBPU", 5, 7),
        flag("LBPWS", 5, 6),
        flag("LBPWS10", 5, 5),
        bits("LBPRZ", 5, 4, 3),
        flag("ANC_SUP", 5, 1),
        flag("DP", 5, 0),
        bits("MINIMUM PERCENTAGE", 6, 7, 5),
        bits("PROVISIONING TYPE", 6, 2, 3),
        number("THRESHOLD PERCENTAGE", 7, 1),
    ],
    None
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structure::Value;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// Page 83h with an NAA designator of a logical unit and a SCSI name string of its target port.
    const IDENTIFICATION: &[u8] = &[
        0, 0x83, 0, 28, 1, 3, 0, 8, 0x50, 0, 0xc5, 0, 1, 2, 3, 4, 0x53, 0x98, 0, 12, b'i', b'q', b'n', b'.',
        b'2', b'0', b'2', b'6', b':', b'a', 0, 0, 99,
    ];

    #[test]
    fn designators_follow_each_other_up_to_the_length_of_the_page() {
        let items = vpd(IDENTIFICATION).decode(IDENTIFICATION).items();
        assert_eq!(items.len(), 2);
        assert_eq!(items[0].get("DESIGNATOR TYPE"), Some(3));
        let naa: &[u8] = &[0x50, 0, 0xc5, 0, 1, 2, 3, 4];
        assert_eq!(items[0].fields().last(), Some(("DESIGNATOR", Value::Bytes(naa))));
        assert_eq!((items[1].get("PIV"), items[1].get("ASSOCIATION")), (Some(1), Some(1)));
        assert_eq!(items[1].fields().last(), Some(("DESIGNATOR", Value::Text("iqn.2026:a".into()))));
    }

    #[test]
    fn mode_pages_follow_the_block_descriptor() {
        let head = [0, 40, 0, 0x10, 0, 0, 0, 8, 0, 0, 8, 0, 0, 0, 2, 0];
        let caching = [8, 18, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let subpage = [0x4a, 1, 0, 2, 7, 7];
        let data = [&head[..], &caching, &subpage].concat();
        let items = MODE_PARAMETERS_10.decode(&data).items();
        assert_eq!(items.iter().map(|item| item.bytes().len()).collect::<Vec<_>>(), [20, 6]);
        assert_eq!((items[0].get("WCE"), items[0].get("RCD")), (Some(1), Some(0)));
        assert_eq!(items[1].get("SUBPAGE CODE"), Some(1));
    }

    #[test]
    fn a_page_cut_by_the_allocation_length_has_the_fields_that_arrived() {
        let page = BLOCK_LIMITS.decode(&[0, 0xb0, 0, 60, 1, 255, 0, 8, 0, 0]);
        assert_eq!(page.get("MAXIMUM COMPARE AND WRITE LENGTH"), Some(255));
        assert_eq!(page.get("MAXIMUM TRANSFER LENGTH"), None);
        assert_eq!(page.fields().count(), 7);
    }

    #[test]
    fn text_is_trimmed_and_printable() {
        let mut bytes = [b' '; 36];
        bytes[4] = 31;
        bytes[16..20].copy_from_slice(b"A\x07B\0");
        let product = INQUIRY.decode(&bytes).fields().find(|(name, _)| *name == "PRODUCT IDENTIFICATION");
        assert_eq!(product, Some(("PRODUCT IDENTIFICATION", Value::Text("A.B".into()))));
    }

    proptest! {
        /// No bytes make a decoder panic or run on, and lists cover exactly the bytes of the page.
        #[test]
        fn any_bytes_can_be_looked_at(mut bytes in prop::collection::vec(any::<u8>(), 0..80), page in 0usize..7) {
            const CODES: [u8; 7] = [0, 0x80, 0x83, 0xb0, 0xb1, 0xb2, 0xc0];
            if let Some(code) = bytes.get_mut(1) {
                *code = CODES[page];
            }
            let decoded = vpd(&bytes).decode(&bytes);
            let items: Vec<u8> = decoded.items().iter().flat_map(|item| item.bytes()).copied().collect();
            if decoded.structure().items.is_some() {
                prop_assert_eq!(&items[..], decoded.bytes().get(4..).unwrap_or_default());
            }
            prop_assert!(decoded.fields().count() <= decoded.structure().fields.len());
        }
    }
}
