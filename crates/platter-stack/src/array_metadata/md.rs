//! The superblock of Linux' md, versions 1.0, 1.1 and 1.2: read, never written.
//!
//! Source: the structure `mdp_superblock_1` of Linux 6.1 (`md_p.h`). Numbers are little-endian; positions and
//! sizes are in sectors of 512 bytes.

use super::record::Uuid;
use platter_block::planted::{self, Planted};
use platter_block::text::printable;
use std::fmt;

/// Size of a superblock with its table of members, in bytes.
pub const SUPERBLOCK_BYTES: usize = 4096;

const MAGIC: u32 = 0xa92b_4efc;
const SECTOR: u64 = 512;
/// Most members that a superblock can list.
const MAX_MEMBERS: u32 = 1920;
/// Feature: the superblock records the rule by which unequal members are striped.
const FEATURE_RAID0_LAYOUT: u32 = 4096;
/// Features that change neither the layout of data nor whether it can be read: a bitmap, the recorded layout
/// rule.
const HARMLESS: u32 = 1 | FEATURE_RAID0_LAYOUT;
/// The other features of Linux 6.1, with what each requires of the reader.
const FEATURES: [(u32, &str); 10] = [
    (2, "recovery of a member"),
    (4, "a reshape in progress"),
    (8, "a list of bad blocks"),
    (16, "replacement of a member"),
    (32, "a reshape backwards"),
    (64, "a new data offset"),
    (128, "recovery by a bitmap"),
    (256, "a cluster's locks"),
    (512, "a journal"),
    (1024 | 2048, "a log of partial parity"),
];

/// Where a superblock lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Version 1.0: near the end of the device.
    End,
    /// Version 1.1: at its start.
    Start,
    /// Version 1.2: 4 KiB from its start.
    Offset4K,
}

impl Place {
    /// All positions, in the order in which they are probed.
    pub const ALL: [Place; 3] = [Place::Offset4K, Place::Start, Place::End];

    /// Byte position on a device of `size` bytes; `None` if the device is too small.
    pub fn offset(self, size: u64) -> Option<u64> {
        let sectors = size / SECTOR;
        let at = match self {
            Place::Start => 0,
            Place::Offset4K => 8,
            Place::End => sectors.checked_sub(16)? & !7,
        };
        (at * SECTOR + SUPERBLOCK_BYTES as u64 <= size).then_some(at * SECTOR)
    }

    /// The superblock version that uses this position.
    pub const fn version(self) -> &'static str {
        match self {
            Place::End => "1.0",
            Place::Start => "1.1",
            Place::Offset4K => "1.2",
        }
    }
}

/// The layout of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Level −1: members laid end to end.
    Linear,
    /// Level 0: striped.
    Raid0,
    /// Another level, which is shown but cannot be opened.
    Other(i32),
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Linear => f.write_str("linear"),
            Level::Raid0 => f.write_str("raid0"),
            Level::Other(level) => write!(f, "raid{level}"),
        }
    }
}

/// The rule by which unequal members are striped beyond the end of the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zones {
    /// The superblock does not record the rule.
    Unsaid,
    /// The first disk of a zone follows from the chunk's number on the array (before Linux 3.14).
    Original,
    /// The first disk of a zone follows from the chunk's number in the zone (since Linux 3.14).
    Alternate,
}

/// A superblock. Positions and sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Where it was found.
    pub place: Place,
    /// UUID of the array.
    pub array: Uuid,
    /// Name of the array. Bytes that are not UTF-8 and control characters are replaced by U+FFFD.
    pub name: String,
    /// UUID of this device.
    pub device: Uuid,
    /// Layout of the data.
    pub level: Level,
    /// Chunk size in bytes.
    pub chunk: u64,
    /// Rule for unequal members.
    pub zones: Zones,
    /// Number of members of the array.
    pub members: u32,
    /// Index of this device in the array; `None` for a spare or failed device.
    pub index: Option<u32>,
    /// Start of the data on this device, in bytes.
    pub data_offset: u64,
    /// Bytes of data on this device.
    pub data_size: u64,
    /// Event count: equal on all members of a healthy array.
    pub events: u64,
    /// Creation time of the array, in seconds since 1970.
    pub created_s: u64,
    /// Features that this library does not support; an array with any of them cannot be opened.
    pub unknown_features: u32,
}

impl Superblock {
    /// Describes the [`unknown_features`](Superblock::unknown_features); empty if there are none.
    pub fn needs(&self) -> String {
        let mut left = self.unknown_features;
        let mut names = Vec::new();
        for (bits, name) in FEATURES {
            if left & bits != 0 {
                names.push(name.to_owned());
                left &= !bits;
            }
        }
        if left != 0 {
            names.push(format!("features {left:#x}"));
        }
        names.join(", ")
    }
}

/// Why no superblock was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSuperblock {
    /// There is no superblock.
    Nothing,
    /// There is a damaged superblock.
    Damaged(String),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn uuid_at(bytes: &[u8], at: usize) -> Uuid {
    let mut field = [0; 16];
    field.copy_from_slice(&bytes[at..at + 16]);
    Uuid(field)
}

/// The sum of all 32-bit words except its own, folded to 32 bits.
fn checksum(bytes: &[u8], len: usize) -> u32 {
    let mut sum = 0u64;
    for at in (0..len & !3).step_by(4) {
        if at != 0xd8 {
            sum += u64::from(u32_at(bytes, at));
        }
    }
    if len % 4 == 2 {
        sum += u64::from(bytes[len - 2]) | u64::from(bytes[len - 1]) << 8;
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// Parses a superblock from the [`SUPERBLOCK_BYTES`] bytes at `place`.
///
/// # Errors
/// There is no superblock, or it is damaged.
pub fn parse(place: Place, bytes: &[u8]) -> Result<Superblock, NoSuperblock> {
    if bytes.len() < SUPERBLOCK_BYTES || u32_at(bytes, 0) != MAGIC || u32_at(bytes, 4) != 1 {
        return Err(NoSuperblock::Nothing);
    }
    let damaged = |what: String| Err(NoSuperblock::Damaged(what));
    let max_members = u32_at(bytes, 0xdc);
    if max_members > MAX_MEMBERS {
        return damaged(format!("it has room for {max_members} members; at most {MAX_MEMBERS} are possible"));
    }
    if checksum(bytes, 256 + 2 * max_members as usize) != u32_at(bytes, 0xd8) {
        return damaged("its checksum does not match".to_owned());
    }
    let features = u32_at(bytes, 8);
    let level = match u32_at(bytes, 0x48).cast_signed() {
        -1 => Level::Linear,
        0 => Level::Raid0,
        other => Level::Other(other),
    };
    let zones = match (features & FEATURE_RAID0_LAYOUT != 0, u32_at(bytes, 0x4c)) {
        (true, 1) => Zones::Original,
        (true, 2) => Zones::Alternate,
        _ => Zones::Unsaid,
    };
    let number = u32_at(bytes, 0xa0);
    let inside = number < max_members || (planted::is_on(Planted::MdRole) && number == max_members);
    let role = inside.then(|| {
        let at = 0x100 + 2 * number as usize;
        u32::from(bytes[at]) | u32::from(bytes[at + 1]) << 8
    });
    let members = u32_at(bytes, 0x5c);
    if members > MAX_MEMBERS {
        return damaged(format!("it has {members} members; at most {MAX_MEMBERS} are possible"));
    }
    let name = bytes[0x20..0x40].split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(Superblock {
        place,
        array: uuid_at(bytes, 0x10),
        name: printable(&String::from_utf8_lossy(name)).into_owned(),
        device: uuid_at(bytes, 0xa8),
        level,
        chunk: u64::from(u32_at(bytes, 0x58)) * SECTOR,
        zones,
        members,
        index: role.filter(|&role| role < members),
        data_offset: u64_at(bytes, 0x80).saturating_mul(SECTOR),
        data_size: u64_at(bytes, 0x88).saturating_mul(SECTOR),
        events: u64_at(bytes, 0xc8),
        created_s: u64_at(bytes, 0x40) & 0xff_ffff_ffff,
        unknown_features: features & !HARMLESS,
    })
}
