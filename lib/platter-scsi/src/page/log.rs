//! Log pages, as LOG SENSE returns them.

use crate::layout::{Field, bits, bytes_to_end, flag, number};
use crate::structure::{Items, Structure, number_at, to_end};

/// The layout of a log page, by the page code in its byte 0. Pages that are not known have their parameters as bytes.
pub fn log(bytes: &[u8]) -> &'static Structure {
    match bytes.first().map(|byte| byte & 0x3f) {
        Some(0x00) => &SUPPORTED_LOG_PAGES,
        Some(0x19) => &STATISTICS,
        _ => &OTHER,
    }
}

/// The fields of every log page.
const HEADER: [Field; 5] = [
    flag("DS", 0, 7),
    flag("SPF", 0, 6),
    bits("PAGE CODE", 0, 5, 6),
    number("SUBPAGE CODE", 1, 1),
    number("PAGE LENGTH", 2, 2),
];

fn page_end(bytes: &[u8]) -> usize {
    4 + number_at(bytes, 2, 2)
}

/// Supported Log Pages, 00h.
pub static SUPPORTED_LOG_PAGES: Structure = Structure {
    name: "Supported Log Pages log page",
    standard: "SPC-4",
    fields: &HEADER,
    length: page_end,
    items: Some(Items { start: |_| 4, end: to_end, each: |_| &PAGE_CODE }),
};

static PAGE_CODE: Structure = Structure {
    name: "supported log page",
    standard: "SPC-4",
    fields: &[bits("PAGE CODE", 0, 5, 6)],
    length: |_| 1,
    items: None,
};

/// General Statistics and Performance, 19h.
pub static STATISTICS: Structure = Structure {
    name: "General Statistics and Performance log page",
    standard: "SPC-4",
    fields: &HEADER,
    length: page_end,
    items: Some(Items { start: |_| 4, end: to_end, each: statistics_parameter }),
};

static OTHER: Structure = Structure {
    name: "log page",
    standard: "SPC-4",
    fields: &HEADER,
    length: page_end,
    items: Some(Items { start: |_| 4, end: to_end, each: |_| &OTHER_PARAMETER }),
};

fn statistics_parameter(bytes: &[u8]) -> &'static Structure {
    match number_at(bytes, 0, 2) {
        0x0001 => &GENERAL,
        _ => &OTHER_PARAMETER,
    }
}

macro_rules! parameter {
    ($const:ident, $name:literal, [$($field:expr),* $(,)?]) => {
        static $const: Structure = Structure {
            name: $name,
            standard: "SPC-4",
            fields: &[
                number("PARAMETER CODE", 0, 2),
                flag("DU", 2, 7),
                flag("TSD", 2, 5),
                bits("FORMAT AND LINKING", 2, 1, 2),
                number("PARAMETER LENGTH", 3, 1),
                $($field),*
            ],
            length: |bytes| 4 + number_at(bytes, 3, 1),
            items: None,
        };
    };
}

parameter!(
    GENERAL,
    "General Access Statistics and Performance log parameter",
    [
        number("NUMBER OF READ COMMANDS", 4, 8),
        number("NUMBER OF WRITE COMMANDS", 12, 8),
        number("NUMBER OF LOGICAL BLOCKS RECEIVED", 20, 8),
        number("NUMBER OF LOGICAL BLOCKS TRANSMITTED", 28, 8),
        number("READ COMMAND PROCESSING INTERVALS", 36, 8),
        number("WRITE COMMAND PROCESSING INTERVALS", 44, 8),
        number("WEIGHTED NUMBER OF READ COMMANDS PLUS WRITE COMMANDS", 52, 8),
        number("WEIGHTED READ COMMAND PROCESSING PLUS WRITE COMMAND PROCESSING", 60, 8),
    ]
);
parameter!(OTHER_PARAMETER, "log parameter", [bytes_to_end("PARAMETER VALUE", 4)]);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn parameters_follow_each_other() {
        let mut page = vec![0x19, 0, 0, 74, 0, 1, 3, 64];
        page.extend((1..=8u64).flat_map(u64::to_be_bytes));
        page.extend([0x00, 0x02, 3, 2, 7, 7]);
        let items = log(&page).decode(&page).items();
        assert_eq!((items.len(), items[1].get("PARAMETER CODE")), (2, Some(2)));
        assert_eq!(items[0].get("NUMBER OF LOGICAL BLOCKS RECEIVED"), Some(3));
        assert_eq!(items[0].fields().count(), 13);
    }

    #[test]
    fn pages_are_told_by_their_code_whatever_comes_with_it() {
        assert_eq!(log(&[0x80, 0, 0, 2, 0, 0x19]).name, SUPPORTED_LOG_PAGES.name);
        let items = log(&[0, 0, 0, 2, 0, 0x19]).decode(&[0, 0, 0, 2, 0, 0x19]).items();
        assert_eq!(items[1].get("PAGE CODE"), Some(0x19));
        assert_eq!(log(&[0x2f]).name, "log page");
        assert_eq!(log(&[]).name, "log page");
    }
}
