//! The superblock of Linux' md, versions 1.0, 1.1 and 1.2.
//!
//! Source: the structure `mdp_superblock_1` of Linux 6.12 (`md_p.h`), and `logical_block_size` of Linux 6.19. Numbers are
//! little-endian. Positions and sizes are in sectors of 512 bytes, as md counts.

use crate::bytes::{array_at, u16_at, u32_at, u64_at};
use crate::uuid::Uuid;
use platter_block::text::printable;
use std::fmt;

mod encode;

/// Size of a superblock with its table of roles, in bytes.
pub const SUPERBLOCK_BYTES: usize = 4096;
/// Bytes of a sector.
pub const SECTOR: u64 = 512;
/// Most members that a superblock can list.
pub const MAX_MEMBERS: u32 = 1920;

/// Most bytes of the name of an array.
pub const NAME_BYTES: usize = 32;

const MAGIC: u32 = 0xa92b_4efc;
/// Size of the superblock without its table.
const FIXED: usize = 256;
/// Most sectors of a list of bad blocks.
const MAX_BAD_SECTORS: u16 = 8;

/// Bits of [`Superblock::features`].
pub mod feature {
    /// `bitmap_offset` is valid.
    pub const BITMAP: u32 = 1;
    /// The member is being rebuilt and in sync only below `recovery_offset`.
    pub const RECOVERY: u32 = 2;
    /// A reshape is in progress.
    pub const RESHAPE: u32 = 4;
    /// The list of bad blocks is not empty.
    pub const BAD_BLOCKS: u32 = 8;
    /// The member is a second one of its role, to which the first is being copied.
    pub const REPLACEMENT: u32 = 0x10;
    /// The reshape goes backwards.
    pub const BACKWARDS: u32 = 0x20;
    /// The data is being moved to another offset.
    pub const NEW_OFFSET: u32 = 0x40;
    /// The member is being brought up to date by the bitmap.
    pub const BITMAP_RECOVERY: u32 = 0x80;
    /// A cluster uses the array.
    pub const CLUSTERED: u32 = 0x100;
    /// There is a journal device.
    pub const JOURNAL: u32 = 0x200;
    /// There is a log of partial parity.
    pub const PPL: u32 = 0x400;
    /// There are several records in the log of partial parity.
    pub const MULTIPLE_PPLS: u32 = 0x800;
    /// `layout` says how unequal members of a raid0 are striped.
    pub const RAID0_LAYOUT: u32 = 0x1000;
    /// All of the above.
    pub const KNOWN: u32 = 0x1fff;
    /// Each with what it says.
    pub(super) const NAMES: [(u32, &str); 13] = [
        (BITMAP, "bitmap"),
        (RECOVERY, "recovery of a member"),
        (RESHAPE, "a reshape in progress"),
        (BAD_BLOCKS, "a list of bad blocks"),
        (REPLACEMENT, "replacement of a member"),
        (BACKWARDS, "a reshape backwards"),
        (NEW_OFFSET, "a new data offset"),
        (BITMAP_RECOVERY, "recovery by the bitmap"),
        (CLUSTERED, "locks of a cluster"),
        (JOURNAL, "a journal"),
        (PPL, "a log of partial parity"),
        (MULTIPLE_PPLS, "a ring of partial parity logs"),
        (RAID0_LAYOUT, "a recorded raid0 layout"),
    ];
}

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

    /// Position on a device of `size` bytes, in bytes; `None` if the device is too small.
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

/// Where a superblock 0.90 lies on a device of `size` bytes, in bytes.
pub fn old_offset(size: u64) -> Option<u64> {
    (size & !0xffff).checked_sub(0x1_0000)
}

/// Whether these are the first bytes of a superblock 0.90, in either order of bytes. Its layout is not known here.
pub fn is_old(bytes: &[u8]) -> bool {
    let [magic, major]: [[u8; 4]; 2] = [array_at(bytes, 0), array_at(bytes, 4)];
    bytes.len() >= 8 && [MAGIC.to_le_bytes(), MAGIC.to_be_bytes()].contains(&magic) && major == [0; 4]
}

/// Whether these bytes begin like a superblock, of any version and in whatever state.
pub fn is_superblock(bytes: &[u8]) -> bool {
    is_old(bytes) || (bytes.len() >= 8 && u32_at(bytes, 0) == MAGIC && u32_at(bytes, 4) == 1)
}

/// The level of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Members laid end to end (−1).
    Linear,
    /// Stripes without redundancy.
    Raid0,
    /// Mirrors.
    Raid1,
    /// Parity on the last member.
    Raid4,
    /// Parity on all members in turn.
    Raid5,
    /// Two parities.
    Raid6,
    /// Mirrored stripes.
    Raid10,
    /// Another one, which is shown but cannot be opened.
    Other(i32),
}

impl Level {
    /// The level with this number.
    pub fn of(number: i32) -> Level {
        match number {
            -1 => Level::Linear,
            0 => Level::Raid0,
            1 => Level::Raid1,
            4 => Level::Raid4,
            5 => Level::Raid5,
            6 => Level::Raid6,
            10 => Level::Raid10,
            other => Level::Other(other),
        }
    }

    /// Its number.
    pub fn number(self) -> i32 {
        match self {
            Level::Linear => -1,
            Level::Raid0 => 0,
            Level::Raid1 => 1,
            Level::Raid4 => 4,
            Level::Raid5 => 5,
            Level::Raid6 => 6,
            Level::Raid10 => 10,
            Level::Other(number) => number,
        }
    }

    /// Whether it has parity.
    pub fn has_parity(self) -> bool {
        matches!(self, Level::Raid4 | Level::Raid5 | Level::Raid6)
    }

    /// Whether each byte is on one member only.
    pub fn is_bare(self) -> bool {
        matches!(self, Level::Linear | Level::Raid0)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Linear => f.write_str("linear"),
            Level::Raid0 => f.write_str("raid0"),
            Level::Raid1 => f.write_str("raid1"),
            Level::Raid4 => f.write_str("raid4"),
            Level::Raid5 => f.write_str("raid5"),
            Level::Raid6 => f.write_str("raid6"),
            Level::Raid10 => f.write_str("raid10"),
            Level::Other(level) => write!(f, "level {level}"),
        }
    }
}

/// What a device is in its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The member of this number, from 0.
    Member(u32),
    /// A spare.
    Spare,
    /// Failed.
    Faulty,
    /// The journal device.
    Journal,
}

impl Role {
    fn of(number: u16) -> Role {
        match number {
            0xffff => Role::Spare,
            0xfffd => Role::Journal,
            number if number < 0xff00 => Role::Member(u32::from(number)),
            _ => Role::Faulty,
        }
    }

    /// Its number. A member that no superblock can list is a failed one.
    fn number(self) -> u16 {
        match self {
            Role::Spare => 0xffff,
            Role::Journal => 0xfffd,
            Role::Member(number) if number < 0xff00 => number as u16,
            Role::Member(_) | Role::Faulty => 0xfffe,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Role::Member(number) => write!(f, "member {number}"),
            Role::Spare => f.write_str("spare"),
            Role::Faulty => f.write_str("failed member"),
            Role::Journal => f.write_str("journal device"),
        }
    }
}

/// The name of an array: up to 32 bytes, by convention `host:name`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Name([u8; NAME_BYTES]);

impl Name {
    /// A name.
    ///
    /// # Errors
    /// It is longer than 32 bytes, or has a NUL.
    pub fn new(text: &str) -> Result<Name, String> {
        let mut bytes = [0; NAME_BYTES];
        match bytes.get_mut(..text.len()) {
            Some(_) if text.contains('\0') => {
                Err(format!("the name {text:?} has a NUL; other characters are possible"))
            }
            Some(room) => {
                room.copy_from_slice(text.as_bytes());
                Ok(Name(bytes))
            }
            None => {
                Err(format!("the name {text:?} has {} bytes; up to {NAME_BYTES} are possible", text.len()))
            }
        }
    }
}

impl fmt::Display for Name {
    /// Bytes that are not UTF-8 and control characters are replaced by U+FFFD.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.split(|&byte| byte == 0).next().unwrap_or_default();
        f.write_str(&printable(&String::from_utf8_lossy(name)))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// A time: seconds since 1970, below 2^40, and microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds.
    pub s: u64,
    /// Microseconds.
    pub us: u32,
}

/// What a reshape makes of an array, with [`feature::RESHAPE`]; all zero without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reshape {
    /// Number of the new level.
    pub level: i32,
    /// Up to where it has come, in sectors of the array.
    pub position: u64,
    /// By how many members the array grows.
    pub members: i32,
    /// The new layout.
    pub layout: u32,
    /// The new chunk.
    pub chunk: u32,
    /// How far the data is moved, with [`feature::NEW_OFFSET`].
    pub offset: i32,
}

/// A superblock. Positions and sizes are in sectors unless they say otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Where it was found.
    pub place: Place,
    /// Its own position.
    pub super_offset: u64,
    /// Bits of [`feature`].
    pub features: u32,
    /// UUID of the array.
    pub array: Uuid,
    /// Name of the array.
    pub name: Name,
    /// Creation time of the array.
    pub created: Time,
    /// When the superblock was last written.
    pub updated: Time,
    /// Level.
    pub level: Level,
    /// The number of the layout among those of the level.
    pub layout: u32,
    /// Part of each member that is used; 0 for raid0 and linear.
    pub component: u64,
    /// Size of a chunk; 0 if there is none.
    pub chunk: u64,
    /// Number of members of the array.
    pub members: u32,
    /// Position of the bitmap from the superblock, with [`feature::BITMAP`].
    pub bitmap_offset: Option<i32>,
    /// Position of the log of partial parity from the superblock, and its size, with [`feature::PPL`].
    pub ppl: Option<(i16, u16)>,
    /// What a reshape makes of it.
    pub reshape: Reshape,
    /// Start of the data on this device.
    pub data_offset: u64,
    /// Size of the data on this device.
    pub data_size: u64,
    /// How far the member is rebuilt, from `data_offset` on, with [`feature::RECOVERY`]; on a journal device where to begin.
    pub recovery_offset: u64,
    /// Number of this device, an index into the table of roles.
    pub number: u32,
    /// UUID of this device.
    pub device: Uuid,
    /// Read errors that were corrected.
    pub corrected_reads: u32,
    /// To be read only if no other member can be.
    pub write_mostly: bool,
    /// Its I/O is not retried.
    pub fails_fast: bool,
    /// Unit of the list of bad blocks, as a power of two of sectors.
    pub bad_shift: u8,
    /// Size of the list of bad blocks.
    pub bad_size: u16,
    /// Position of the list of bad blocks from the superblock; 0 if there is none.
    pub bad_offset: i32,
    /// Event count: equal on all members of a healthy array.
    pub events: u64,
    /// Each member is in sync below this place; `u64::MAX`: all of it.
    pub resync_offset: u64,
    /// Logical block of the array in bytes; 0 if the superblock does not say.
    pub logical_block: u32,
    /// Roles by number of the device; at most [`MAX_MEMBERS`].
    pub roles: Vec<Role>,
}

/// Why no superblock was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSuperblock {
    /// There is no superblock.
    Nothing,
    /// There is a superblock that is damaged, in the wrong place or impossible.
    Damaged(String),
}

impl Superblock {
    /// The member's number, if it is one.
    pub fn index(&self) -> Option<u32> {
        match self.role() {
            Role::Member(number) => Some(number),
            _ => None,
        }
    }

    /// The role of this device, by its own table.
    pub fn role(&self) -> Role {
        self.roles.get(self.number as usize).copied().unwrap_or(Role::Spare)
    }

    /// Whether a feature is set.
    pub fn has(&self, feature: u32) -> bool {
        self.features & feature != 0
    }

    /// Whether all members were in sync, and none was being written, when this was written.
    pub fn is_clean(&self) -> bool {
        self.resync_offset == u64::MAX || self.level.is_bare()
    }

    /// The features of a mask, in words; empty if there are none.
    pub fn names(features: u32) -> String {
        let mut names: Vec<String> = Vec::new();
        for (bit, name) in feature::NAMES {
            if features & bit != 0 {
                names.push(name.to_owned());
            }
        }
        let unknown = features & !feature::KNOWN;
        if unknown != 0 {
            names.push(format!("unknown features {unknown:#x}"));
        }
        names.join(", ")
    }
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
        sum += u64::from(u16_at(bytes, len - 2));
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// Parses a superblock from the [`SUPERBLOCK_BYTES`] bytes at `place` of a device of `size` bytes.
///
/// # Errors
/// There is no superblock, or it is damaged or belongs elsewhere.
pub fn parse(place: Place, size: u64, bytes: &[u8]) -> Result<Superblock, NoSuperblock> {
    if bytes.len() < SUPERBLOCK_BYTES || u32_at(bytes, 0) != MAGIC || u32_at(bytes, 4) != 1 {
        return Err(NoSuperblock::Nothing);
    }
    check(place, size, bytes).map_err(NoSuperblock::Damaged)?;
    let features = u32_at(bytes, 8);
    let has = |feature: u32| features & feature != 0;
    let max = u32_at(bytes, 0xdc);
    let role_at = |number: u32| {
        let at = FIXED + 2 * number as usize;
        Role::of(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
    };
    let members = u32_at(bytes, 0x5c);
    let real = |role: Role| match role {
        Role::Member(index) if index >= members => Role::Faulty,
        role => role,
    };
    let time = |at: usize| {
        let bits = u64_at(bytes, at);
        Time { s: bits & 0xff_ffff_ffff, us: (bits >> 40) as u32 }
    };
    let place_of_bitmap = u32_at(bytes, 0x60);
    Ok(Superblock {
        place,
        super_offset: u64_at(bytes, 0x90),
        features,
        array: Uuid(array_at(bytes, 0x10)),
        name: Name(array_at(bytes, 0x20)),
        created: time(0x40),
        updated: time(0xc0),
        level: Level::of(u32_at(bytes, 0x48).cast_signed()),
        layout: u32_at(bytes, 0x4c),
        component: u64_at(bytes, 0x50),
        chunk: u64::from(u32_at(bytes, 0x58)),
        members,
        bitmap_offset: has(feature::BITMAP).then_some(place_of_bitmap.cast_signed()),
        ppl: has(feature::PPL | feature::MULTIPLE_PPLS)
            .then(|| (u16_at(bytes, 0x60).cast_signed(), u16_at(bytes, 0x62))),
        reshape: Reshape {
            level: u32_at(bytes, 0x64).cast_signed(),
            position: u64_at(bytes, 0x68),
            members: u32_at(bytes, 0x70).cast_signed(),
            layout: u32_at(bytes, 0x74),
            chunk: u32_at(bytes, 0x78),
            offset: u32_at(bytes, 0x7c).cast_signed(),
        },
        data_offset: u64_at(bytes, 0x80),
        data_size: u64_at(bytes, 0x88),
        recovery_offset: u64_at(bytes, 0x98),
        number: u32_at(bytes, 0xa0),
        device: Uuid(array_at(bytes, 0xa8)),
        corrected_reads: u32_at(bytes, 0xa4),
        write_mostly: bytes[0xb8] & 1 != 0,
        fails_fast: bytes[0xb8] & 2 != 0,
        bad_shift: bytes[0xb9],
        bad_size: u16_at(bytes, 0xba),
        bad_offset: u32_at(bytes, 0xbc).cast_signed(),
        events: u64_at(bytes, 0xc8),
        resync_offset: u64_at(bytes, 0xd0),
        logical_block: u32_at(bytes, 0xe0),
        roles: (0..max).map(|number| real(role_at(number))).collect(),
    })
}

/// What is wrong with a superblock as such.
fn check(place: Place, size: u64, bytes: &[u8]) -> Result<(), String> {
    let max = u32_at(bytes, 0xdc);
    if max > MAX_MEMBERS {
        return Err(format!("it has room for {max} members; at most {MAX_MEMBERS} are possible"));
    }
    let (stated, computed) = (u32_at(bytes, 0xd8), checksum(bytes, FIXED + 2 * max as usize));
    if stated != computed {
        return Err(format!("its checksum does not match: it says {stated:#010x} and has {computed:#010x}"));
    }
    if let Some(at) = (0xe4..0x100).chain(0xc..0x10).find(|&at| bytes[at] != 0) {
        return Err(format!("byte {at:#x} is {:#04x}; 0 is the only known value", bytes[at]));
    }
    let members = u32_at(bytes, 0x5c);
    if members > MAX_MEMBERS {
        return Err(format!("it has {members} members; at most {MAX_MEMBERS} are possible"));
    }
    let (own, here) = (u64_at(bytes, 0x90), place.offset(size).map(|at| at / SECTOR));
    if here != Some(own) {
        let here = here.map_or_else(|| "elsewhere".to_owned(), |here| format!("at sector {here}"));
        return Err(format!(
            "it belongs at sector {own} and was found {here}: it is that of another device, such as a partition of this \
             one, or the device has another size than it had"
        ));
    }
    let block = u32_at(bytes, 0xe0);
    if block != 0 && !(block.is_power_of_two() && (512..=1 << 20).contains(&block)) {
        return Err(format!(
            "its logical block is {block} bytes; powers of two from 512 to 1048576 are possible"
        ));
    }
    let bad = u16_at(bytes, 0xba);
    if bad > MAX_BAD_SECTORS {
        return Err(format!(
            "its list of bad blocks has {bad} sectors; at most {MAX_BAD_SECTORS} are possible"
        ));
    }
    Ok(())
}
