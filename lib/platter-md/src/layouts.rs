//! The names of layouts, as mdadm says them.

use crate::superblock::{Level, Superblock, feature};

/// Layouts of raid5 and raid6, with their short names.
const PARITY: [(u32, &str, &str); 6] = [
    (0, "left-asymmetric", "la"),
    (1, "right-asymmetric", "ra"),
    (2, "left-symmetric", "ls"),
    (3, "right-symmetric", "rs"),
    (4, "parity-first", ""),
    (5, "parity-last", ""),
];

/// Further layouts of raid6.
const SIX: [(u32, &str); 8] = [
    (8, "ddf-zero-restart"),
    (9, "ddf-N-restart"),
    (10, "ddf-N-continue"),
    (16, "left-asymmetric-6"),
    (17, "right-asymmetric-6"),
    (18, "left-symmetric-6"),
    (19, "right-symmetric-6"),
    (20, "parity-first-6"),
];

/// Layouts of raid0.
const STRIPES: [(u32, &str); 2] = [(1, "original"), (2, "alternate")];

/// Bit of a layout of raid10 whose far copies are in the next row.
const OFFSET: u32 = 1 << 16;

/// The name of the layout of an array; `None` if its level has but one.
pub fn name(superblock: &Superblock) -> Option<String> {
    let number = superblock.layout;
    let of = |table: &[(u32, &str)]| table.iter().find(|row| row.0 == number).map(|row| row.1.to_owned());
    match superblock.level {
        Level::Raid0 if superblock.has(feature::RAID0_LAYOUT) => of(&STRIPES),
        Level::Raid5 | Level::Raid6 => {
            let known = PARITY.iter().find(|row| row.0 == number).map(|row| row.1.to_owned());
            let six = if superblock.level == Level::Raid6 { of(&SIX) } else { None };
            known.or(six).or_else(|| Some(format!("layout {number}")))
        }
        Level::Raid10 => {
            let (near, far) = (number & 0xff, number >> 8 & 0xff);
            let far_name = if number & OFFSET != 0 { "offset" } else { "far" };
            Some(match (near, far) {
                (near, 1) => format!("near={near}"),
                (1, far) => format!("{far_name}={far}"),
                (near, far) => format!("near={near}, {far_name}={far}"),
            })
        }
        _ => None,
    }
}

/// The number of a layout of a level by its name: that of [`name`], or mdadm's short one (`ls`, `n2`).
///
/// # Errors
/// The level has no such layout.
pub fn parse(level: Level, text: &str) -> Result<u32, String> {
    let of = |table: &[(u32, &str)]| table.iter().find(|row| row.1 == text).map(|row| row.0);
    let parity =
        || PARITY.iter().find(|row| row.1 == text || (row.2 == text && !text.is_empty())).map(|row| row.0);
    let (found, known) = match level {
        Level::Raid0 => (of(&STRIPES), words(&STRIPES)),
        Level::Raid5 => (parity(), words(&PARITY.map(|row| (row.0, row.1)))),
        Level::Raid6 => {
            (parity().or_else(|| of(&SIX)), words(&PARITY.map(|row| (row.0, row.1))) + ", " + &words(&SIX))
        }
        Level::Raid10 => (copies(text), "near=N, far=N and offset=N".to_owned()),
        _ => return Err(format!("{level} has one layout only, and none can be named")),
    };
    found.ok_or_else(|| format!("{level} has no layout \"{}\"; known are {known}", text.escape_debug()))
}

fn words(table: &[(u32, &str)]) -> String {
    table.iter().map(|row| row.1).collect::<Vec<_>>().join(", ")
}

/// A layout of raid10: `near=2` or `n2`, and so on.
fn copies(text: &str) -> Option<u32> {
    let kinds = [("near=", 'n'), ("far=", 'f'), ("offset=", 'o')];
    let (kind, count) = kinds.iter().find_map(|&(long, short)| {
        Some((short, text.strip_prefix(long).or_else(|| text.strip_prefix(short))?))
    })?;
    let count: u8 = count.parse().ok().filter(|&count| count > 0)?;
    let count = u32::from(count);
    Some(match kind {
        'n' => 1 << 8 | count,
        'f' => count << 8 | 1,
        _ => OFFSET | count << 8 | 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_refused_with_those_there_are() {
        for (level, text, number) in [
            (Level::Raid0, "alternate", 2),
            (Level::Raid5, "ls", 2),
            (Level::Raid5, "right-asymmetric", 1),
            (Level::Raid6, "parity-last", 5),
            (Level::Raid6, "ddf-N-continue", 10),
            (Level::Raid10, "near=2", 0x102),
            (Level::Raid10, "n3", 0x103),
            (Level::Raid10, "far=2", 0x201),
            (Level::Raid10, "o2", 0x10201),
        ] {
            assert_eq!(parse(level, text), Ok(number), "{level} {text}");
        }
        for (level, text, known) in [
            (Level::Raid5, "", "left-symmetric"),
            (Level::Raid5, "ddf-N-restart", "parity-last"),
            (Level::Raid6, "near=2", "ddf-N-restart"),
            (Level::Raid10, "near=0", "offset=N"),
            (Level::Raid10, "near=256", "offset=N"),
            (Level::Raid10, "x", "offset=N"),
            (Level::Raid0, "near=2", "original, alternate"),
            (Level::Raid1, "near=2", "one layout"),
            (Level::Raid4, "ls", "one layout"),
        ] {
            let said = parse(level, text).unwrap_err();
            assert!(said.contains(known), "{level} {text}: {said}");
        }
    }
}
