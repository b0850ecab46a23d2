//! What is written on a member.

use crate::raid0::MAX_MEMBERS;
use platter_block::planted::{self, Planted};
use platter_block::text::{excerpt, is_unsafe};
use std::fmt;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 4096;

/// Where the two records of a member are, in bytes from its start.
pub const SLOTS: [u64; 2] = [4096, 65536];

const MAGIC: [u8; 16] = *b"platter array\0\0\0";
const VERSION: u32 = 1;

/// Where data may begin at the earliest: behind the records.
const RECORDS_END: u64 = SLOTS[1] + RECORD_BYTES as u64;

/// Far more than any array reaches, and far enough from the end for sums.
pub(super) const MAX_SEQUENCE: u64 = 1 << 62;

/// Bytes of a name.
const NAME_BYTES: usize = 64;

/// Most members whose numbers a record lists. A record of 4 KiB has room for a few more; an array with more
/// members than this has no list.
pub const MAX_LISTED: u32 = 240;

/// A number that is unique without anybody keeping a list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Uuid {
    type Err = String;

    fn from_str(text: &str) -> Result<Uuid, String> {
        // md writes colons.
        let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'-' | b':')).collect();
        let wrong = || {
            format!("\"{}\" is not a UUID: 32 hexadecimal digits, with or without dashes", excerpt(text, 60))
        };
        if digits.len() != 32 {
            return Err(wrong());
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Uuid(bytes))
    }
}

/// How an array's data lies on its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Chunk by chunk in turn; unequal members in zones, as md has it.
    Raid0,
    /// One member after the other.
    Concat,
}

impl Layout {
    /// Its name, which is that of the layer.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Raid0 => "raid0",
            Layout::Concat => "concat",
        }
    }
}

/// How far the change that a record belongs to had come when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Members are being told; it does not hold yet.
    Prepared,
    /// It holds: every member has been told.
    Committed,
    /// The array is given up.
    Retired,
}

/// One record: the array and this member's place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which array.
    pub array: Uuid,
    /// Its name for operators, at most 64 bytes.
    pub name: String,
    /// Which member: a number of its own beside its place.
    pub member: Uuid,
    /// The numbers of all members in their order, so that one that is missing can be named. Empty in an array of
    /// more than [`MAX_LISTED`] members, and in records that were written before there was a list.
    pub listed: Vec<Uuid>,
    /// Place in the array, from 0.
    pub index: u32,
    /// Members of the array.
    pub members: u32,
    /// How data lies on the members.
    pub layout: Layout,
    /// Bytes on one member before the next; 0 for [`Layout::Concat`].
    pub chunk: u64,
    /// Where data begins on this member.
    pub data_offset: u64,
    /// Bytes of data on this member.
    pub data_size: u64,
    /// Size of the member when the array was made.
    pub device_size: u64,
    /// Grows with each phase of each change.
    pub sequence: u64,
    /// How far that change had come.
    pub phase: Phase,
}

/// Why a slot holds no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Nothing that looks like one.
    Nothing,
    /// It looks like one and is damaged.
    Damaged(String),
}

/// Little-endian fields, one after the other.
struct Fields<'a> {
    bytes: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.bytes.split_at(N);
        self.bytes = rest;
        let mut field = [0; N];
        field.copy_from_slice(head);
        field
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// Where the checksum is: the last four bytes.
const CHECKSUM: usize = RECORD_BYTES - 4;

impl Record {
    /// The record as it is written.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        let phase: u32 = match self.phase {
            Phase::Prepared => 1,
            Phase::Committed => 2,
            Phase::Retired => 3,
        };
        bytes.extend(phase.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        bytes.extend(self.array.0);
        bytes.extend(self.member.0);
        let layout: u32 = match self.layout {
            Layout::Raid0 => 1,
            Layout::Concat => 2,
        };
        for small in [layout, self.members, self.index, 0] {
            bytes.extend(small.to_le_bytes());
        }
        for large in [self.chunk, self.data_offset, self.data_size, self.device_size] {
            bytes.extend(large.to_le_bytes());
        }
        let mut name: Vec<u8> = self.name.bytes().take(NAME_BYTES).collect();
        name.resize(NAME_BYTES, 0);
        bytes.extend(name);
        bytes.extend(self.listed.iter().take(MAX_LISTED as usize).flat_map(|member| member.0));
        bytes.resize(CHECKSUM, 0);
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Reads a slot.
    ///
    /// # Errors
    /// Nothing is there, or what is there is damaged.
    pub fn decode(bytes: &[u8]) -> Result<Record, Damage> {
        let Some((body, checksum)) = bytes.get(..RECORD_BYTES).map(|slot| slot.split_at(CHECKSUM)) else {
            return Err(Damage::Nothing);
        };
        if !body.starts_with(&MAGIC) {
            return Err(Damage::Nothing);
        }
        if crc32c::crc32c(body).to_le_bytes() != checksum {
            return Err(Damage::Damaged("its checksum does not match".to_owned()));
        }
        let mut fields = Fields { bytes: &body[MAGIC.len()..] };
        let version = fields.u32();
        if version != VERSION {
            let wrong = format!("it is of version {version}, and {VERSION} is the only one known");
            return Err(Damage::Damaged(wrong));
        }
        Record::of_fields(fields)
    }

    fn of_fields(mut fields: Fields<'_>) -> Result<Record, Damage> {
        let damaged = |what: &str, value: u32| Damage::Damaged(format!("its {what} is {value}"));
        let phase = match fields.u32() {
            1 => Phase::Prepared,
            2 => Phase::Committed,
            3 => Phase::Retired,
            other => return Err(damaged("phase", other)),
        };
        let (sequence, array, member) = (fields.u64(), Uuid(fields.take()), Uuid(fields.take()));
        let layout = match fields.u32() {
            1 => Layout::Raid0,
            2 => Layout::Concat,
            other => return Err(damaged("layout", other)),
        };
        let (members, index, _) = (fields.u32(), fields.u32(), fields.u32());
        let (chunk, data_offset) = (fields.u64(), fields.u64());
        let (data_size, device_size) = (fields.u64(), fields.u64());
        let name: [u8; NAME_BYTES] = fields.take();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8(name.to_vec()).ok().filter(|name| !name.contains(is_unsafe));
        let Some(name) = name else {
            // Messages quote the name, so it must be safe to show on a terminal.
            return Err(Damage::Damaged("its name is not UTF-8 or has control characters".to_owned()));
        };
        if members as usize > MAX_MEMBERS {
            return Err(damaged("number of members", members));
        }
        if index >= members {
            return Err(damaged("place in the array", index));
        }
        let listed_here = if members <= MAX_LISTED { members } else { 0 };
        let mut listed: Vec<Uuid> = (0..listed_here).map(|_| Uuid(fields.take())).collect();
        // Records from before there was a list have zeroes here.
        if listed.iter().all(|number| number.0 == [0; 16]) {
            listed.clear();
        }
        if listed.get(index as usize).is_some_and(|own| *own != member) {
            return Err(Damage::Damaged(format!("its list of members does not have it at place {index}")));
        }
        if sequence > MAX_SEQUENCE && !planted::is_on(Planted::RecordSequence) {
            return Err(Damage::Damaged(format!("its sequence number is {sequence}")));
        }
        // All that uses a record may then add up these numbers.
        let end = data_offset.checked_add(data_size).filter(|&end| end <= i64::MAX as u64);
        if data_offset < RECORDS_END || data_size == 0 || end.is_none() {
            let wrong = format!("its data is {data_size} bytes from {data_offset} on");
            return Err(Damage::Damaged(wrong));
        }
        Ok(Record {
            array,
            name,
            member,
            listed,
            index,
            members,
            layout,
            chunk,
            data_offset,
            data_size,
            device_size,
            sequence,
            phase,
        })
    }
}

/// What the two slots of a device hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots(pub [Result<Record, Damage>; 2]);

impl Slots {
    /// Reads both.
    pub fn decode(bytes: [&[u8]; 2]) -> Slots {
        Slots(bytes.map(Record::decode))
    }

    /// The records that can be read.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.0.iter().flatten()
    }

    /// The newest record.
    pub fn newest(&self) -> Option<&Record> {
        self.records().max_by_key(|record| record.sequence)
    }

    /// The slot that may be overwritten: one that holds no record, else the older.
    pub fn older(&self) -> usize {
        match &self.0 {
            [Err(_), _] => 0,
            [_, Err(_)] => 1,
            [Ok(first), Ok(second)] => usize::from(first.sequence > second.sequence),
        }
    }

    /// What is wrong with a slot that looks like a record's.
    pub fn damage(&self) -> Option<&str> {
        self.0.iter().find_map(|slot| match slot {
            Err(Damage::Damaged(what)) => Some(what.as_str()),
            _ => None,
        })
    }
}
