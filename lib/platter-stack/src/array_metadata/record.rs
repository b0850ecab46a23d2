//! The record format of members.

use crate::raid0::MAX_MEMBERS;
use platter_block::text::{excerpt, is_unsafe};
use std::fmt;

/// Size of a record in bytes.
pub const RECORD_BYTES: usize = 4096;

/// Positions of a member's two records, in bytes from its start.
pub const SLOTS: [u64; 2] = [4096, 65536];

const MAGIC: [u8; 16] = *b"platter array\0\0\0";
const VERSION: u32 = 1;

/// Lowest possible start of the data: the end of the records.
const RECORDS_END: u64 = SLOTS[1] + RECORD_BYTES as u64;

/// Largest sequence number: more than any array reaches, and far enough from overflow.
pub(super) const MAX_SEQUENCE: u64 = 1 << 62;

/// Most bytes of a name.
const NAME_BYTES: usize = 64;

/// Most members whose numbers a record lists. A record of 4 KiB has room for a few more. An array with more
/// members has no list.
pub const MAX_LISTED: u32 = 240;

/// A universally unique identifier.
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
        // md writes UUIDs with colons.
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

/// The layout of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Striped; unequal members in zones, as in md.
    Raid0,
    /// Members laid end to end.
    Concat,
}

impl Layout {
    /// Its name, the same as that of the layer.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Raid0 => "raid0",
            Layout::Concat => "concat",
        }
    }
}

/// The phase that the change of a record had reached when the record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Records are being written to members; the change is not in effect yet.
    Prepared,
    /// In effect: every member has a prepared record.
    Committed,
    /// The array is being wiped.
    Retired,
}

/// A record: the array and this member's place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// UUID of the array.
    pub array: Uuid,
    /// Name for operators, at most 64 bytes.
    pub name: String,
    /// UUID of this member, in addition to its index.
    pub member: Uuid,
    /// The UUIDs of all members in order, so that errors can name missing members. Empty in an array of more
    /// than [`MAX_LISTED`] members, and in records of versions that had no list.
    pub listed: Vec<Uuid>,
    /// Index in the array, from 0.
    pub index: u32,
    /// Number of members of the array.
    pub members: u32,
    /// Layout of the data.
    pub layout: Layout,
    /// Chunk size in bytes; 0 for [`Layout::Concat`].
    pub chunk: u64,
    /// Start of the data on this member, in bytes.
    pub data_offset: u64,
    /// Bytes of data on this member.
    pub data_size: u64,
    /// Size of the member in bytes when the array was created.
    pub device_size: u64,
    /// Grows with each phase of each change.
    pub sequence: u64,
    /// The phase that the change had reached.
    pub phase: Phase,
}

/// Why a slot has no valid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// There is no record.
    Nothing,
    /// There is a damaged record.
    Damaged(String),
}

/// Reads little-endian fields in sequence.
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

/// Position of the checksum: the last four bytes.
const CHECKSUM: usize = RECORD_BYTES - 4;

impl Record {
    /// The record in its on-disk format.
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

    /// Decodes a slot.
    ///
    /// # Errors
    /// There is no record, or it is damaged.
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
            let wrong = format!("its version is {version}; only version {VERSION} is supported");
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
        // Records written before there was a list have zeroes here.
        if listed.iter().all(|number| number.0 == [0; 16]) {
            listed.clear();
        }
        if listed.get(index as usize).is_some_and(|own| *own != member) {
            return Err(Damage::Damaged(format!(
                "its list of members does not have this member at index {index}"
            )));
        }
        if sequence > MAX_SEQUENCE {
            return Err(Damage::Damaged(format!("its sequence number is {sequence}")));
        }
        // The sum of these numbers must not overflow anywhere.
        let end = data_offset.checked_add(data_size).filter(|&end| end <= i64::MAX as u64);
        if data_offset < RECORDS_END || data_size == 0 || end.is_none() {
            let wrong = format!("its data of {data_size} bytes at {data_offset} is out of range");
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

/// The two slots of a device, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slots(pub [Result<Record, Damage>; 2]);

impl Slots {
    /// Decodes both slots.
    pub fn decode(bytes: [&[u8]; 2]) -> Slots {
        Slots(bytes.map(Record::decode))
    }

    /// The valid records.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.0.iter().flatten()
    }

    /// The newest record.
    pub fn newest(&self) -> Option<&Record> {
        self.records().max_by_key(|record| record.sequence)
    }

    /// The index of the slot to overwrite: one without a record, else the older.
    pub fn older(&self) -> usize {
        match &self.0 {
            [Err(_), _] => 0,
            [_, Err(_)] => 1,
            [Ok(first), Ok(second)] => usize::from(first.sequence > second.sequence),
        }
    }

    /// The index of the slot to overwrite while `record` must stay: the other one, or the [older](Slots::older) if
    /// neither holds it. The other one may hold a record of another array, with any sequence number.
    pub(super) fn beside(&self, record: &Record) -> usize {
        let holds = |slot: &Result<Record, Damage>| slot.as_ref() == Ok(record);
        self.0.iter().position(holds).map_or_else(|| self.older(), |slot| 1 - slot)
    }

    /// What is wrong with a damaged record.
    pub fn damage(&self) -> Option<&str> {
        self.0.iter().find_map(|slot| match slot {
            Err(Damage::Damaged(what)) => Some(what.as_str()),
            _ => None,
        })
    }
}
