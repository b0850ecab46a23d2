//! What a member of a mirror carries in front of its data: two copies of a record, of which the older one is written next.
//!
//! A record holds all that must be found again: the members with their roles, the number of the last event, and the write-intent
//! bits. A write that a power cut interrupts leaves the other copy.

use super::bits::Bits;
use crate::array_metadata::{SLOTS, Uuid};
use platter_block::text::is_unsafe;

/// Most members.
pub(super) const MAX_MEMBERS: usize = 16;

/// Bytes of a record.
pub const RECORD: usize = 4096;
/// Where the two records of a member are, in bytes.
pub const COPIES: [u64; 2] = SLOTS;

/// Whether these bytes begin like a record, in whatever state.
pub fn is_record(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// Where the data of a new array begins on its members.
pub(super) const DATA_OFFSET: u64 = 1 << 20;

const MAGIC: [u8; 16] = *b"platter mirror\0\0";
const VERSION: u64 = 1;
const NAME: usize = 64;
/// Bytes of the header, before the bits.
const HEADER: usize = 1020;
/// Most bits.
pub(super) const MAX_CHUNKS: u64 = 8 * (RECORD - HEADER - 4) as u64;
/// Most events: far from overflow.
const MAX_EVENTS: u64 = 1 << 60;

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// There is none at this place.
    Vacant,
    /// It has all data.
    InSync,
    /// It has failed, or is missing, since the event with this number, which it does not have.
    Failed(u64),
    /// It is being brought up to date.
    Recovering {
        /// Bytes from the beginning of its data that are.
        upto: u64,
        /// Only chunks whose bits are set are to be brought up to date.
        by_bits: bool,
    },
}

/// A place for a member in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) member: Uuid,
    pub(super) role: Role,
}

/// What all members keep of the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) array: Uuid,
    pub(super) name: String,
    /// Bytes of the array, where its data begins on a member, and bytes for each bit.
    pub(super) size: u64,
    pub(super) offset: u64,
    pub(super) chunk: u64,
    /// Counts changes of roles and of `is_clean`, and that bits were cleared.
    pub(super) events: u64,
    /// The event with which bits were cleared last; the array was complete then.
    pub(super) cleared: u64,
    /// Members in sync do not differ. Otherwise they may, in chunks whose bits are set.
    pub(super) is_clean: bool,
    pub(super) places: Vec<Place>,
    pub(super) bits: Bits,
}

impl Saved {
    /// The chunks of a range of bytes that is not empty.
    pub(super) fn chunks(&self, pos: u64, len: u64) -> std::ops::Range<u64> {
        pos / self.chunk..(pos + len).div_ceil(self.chunk)
    }

    /// Whether a member has failed, is missing, or is behind.
    pub(super) fn is_degraded(&self) -> bool {
        self.places.iter().any(|place| place.role != Role::InSync)
    }

    pub(super) fn in_sync(&self) -> usize {
        self.places.iter().filter(|place| place.role == Role::InSync).count()
    }
}

/// The record of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) saved: Saved,
    /// Its place.
    pub(super) place: usize,
    /// Grows with each record that is written to this member.
    pub(super) sequence: u64,
}

fn role_words(role: Role) -> [u64; 2] {
    match role {
        Role::Vacant => [0, 0],
        Role::InSync => [1, 0],
        Role::Failed(event) => [2, event],
        Role::Recovering { upto, by_bits } => [if by_bits { 4 } else { 3 }, upto],
    }
}

fn role_of([kind, value]: [u64; 2]) -> Option<Role> {
    Some(match kind {
        0 => Role::Vacant,
        1 => Role::InSync,
        2 => Role::Failed(value),
        3 | 4 => Role::Recovering { upto: value, by_bits: kind == 4 },
        _ => return None,
    })
}

impl Record {
    /// The record as bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let saved = &self.saved;
        let mut out = Vec::with_capacity(RECORD);
        out.extend(MAGIC);
        out.extend(saved.array.0);
        let words = [
            VERSION,
            self.sequence,
            saved.events,
            saved.cleared,
            u64::from(saved.is_clean),
            saved.size,
            saved.offset,
            saved.chunk,
            saved.places.len() as u64,
            self.place as u64,
        ];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let start = out.len();
        out.extend(saved.name.bytes().take(NAME));
        out.resize(start + NAME, 0);
        for place in &saved.places {
            out.extend(place.member.0);
            out.extend(role_words(place.role).iter().flat_map(|word| word.to_le_bytes()));
        }
        out.resize(HEADER, 0);
        out.extend(saved.bits.to_bytes());
        out.resize(RECORD - 4, 0);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// A record that is sound; `None`: there is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Record> {
        let bytes = bytes.get(..RECORD)?;
        let sum = u32::from_le_bytes(bytes[RECORD - 4..].try_into().ok()?);
        if bytes[..16] != MAGIC || sum != crc32c::crc32c(&bytes[..RECORD - 4]) {
            return None;
        }
        let uuid = |at: usize| Some(Uuid(bytes.get(at..at + 16)?.try_into().ok()?));
        let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let mut words = [0; 10];
        for (nth, place) in words.iter_mut().enumerate() {
            *place = word(32 + 8 * nth)?;
        }
        let [version, sequence, events, cleared, clean, size, offset, chunk, count, own] = words;
        let name = bytes[112..112 + NAME].split(|&byte| byte == 0).next()?;
        let name = String::from_utf8(name.to_vec()).ok().filter(|name| !name.contains(is_unsafe))?;
        let chunks = size.checked_div(chunk)? + u64::from(!size.is_multiple_of(chunk));
        let end = offset.checked_add(size).filter(|&end| end <= i64::MAX as u64);
        let sound = version == VERSION
            && sequence.max(events).max(cleared) < MAX_EVENTS
            && (1..=MAX_MEMBERS as u64).contains(&count)
            && own < count
            && chunk.is_power_of_two()
            && (1..=MAX_CHUNKS).contains(&chunks)
            && offset >= COPIES[1] + RECORD as u64
            && end.is_some();
        if !sound {
            return None;
        }
        let place = |nth: usize| {
            let at = 112 + NAME + 32 * nth;
            Some(Place { member: uuid(at)?, role: role_of([word(at + 16)?, word(at + 24)?])? })
        };
        let places = (0..count as usize).map(place).collect::<Option<Vec<Place>>>()?;
        let bits = Bits::of_bytes(chunks, &bytes[HEADER..RECORD - 4]);
        let is_clean = clean != 0;
        let saved =
            Saved { array: uuid(16)?, name, size, offset, chunk, events, cleared, is_clean, places, bits };
        Some(Record { saved, place: own as usize, sequence })
    }
}

/// Bytes for each bit of an array of this size: `wanted`, or as few as are possible.
pub(super) fn chunk_for(size: u64, wanted: Option<u64>) -> u64 {
    let least = size.div_ceil(MAX_CHUNKS).next_power_of_two().max(4096);
    wanted.map_or(least.max(64 << 10), |wanted| wanted.max(least))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let chunk = 4096;
        let roles = [
            Role::InSync,
            Role::Failed(17),
            Role::Recovering { upto: 8192, by_bits: true },
            Role::Recovering { upto: 4096, by_bits: false },
            Role::Vacant,
        ];
        let place = |(at, role): (usize, Role)| Place { member: Uuid([at as u8; 16]), role };
        let places = roles.into_iter().enumerate().map(place).collect();
        let mut bits = Bits::new(10);
        bits.insert(9);
        let saved = Saved {
            array: Uuid([7; 16]),
            name: "data".into(),
            size: 10 * chunk - 512,
            offset: DATA_OFFSET,
            chunk,
            events: 18,
            cleared: 4,
            is_clean: false,
            places,
            bits,
        };
        Record { saved, place: 2, sequence: 99 }
    }

    #[test]
    fn records_come_back_as_they_were() {
        let bytes = record().encode();
        assert_eq!((bytes.len(), Record::decode(&bytes)), (RECORD, Some(record())));
        for at in (0..RECORD).step_by(7) {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert_eq!(Record::decode(&wrong), None, "byte {at}");
        }
        assert_eq!(Record::decode(&bytes[..100]), None);
    }

    #[test]
    fn records_that_cannot_be_are_refused() {
        let wrong: [fn(&mut Record); 6] = [
            |record| record.place = 5,
            |record| record.saved.chunk = 4095,
            |record| record.saved.chunk = 0,
            |record| record.saved.offset = 4096,
            |record| record.saved.size = u64::MAX,
            |record| record.saved.events = u64::MAX,
        ];
        for change in wrong {
            let mut record = record();
            change(&mut record);
            assert_eq!(Record::decode(&record.encode()), None, "{record:?}");
        }
    }

    #[test]
    fn there_is_room_for_the_bits_of_every_size() {
        for size in [4096, 1 << 20, 1 << 40, (1 << 40) + 4096, 1 << 60] {
            let chunk = chunk_for(size, None);
            assert!(chunk.is_power_of_two() && size.div_ceil(chunk) <= MAX_CHUNKS, "{size}");
        }
        assert_eq!((chunk_for(1 << 20, Some(8192)), chunk_for(1 << 20, None)), (8192, 64 << 10));
        let most = 32 * MAX_MEMBERS + 112 + NAME;
        assert!(most <= HEADER);
    }
}
