//! The write-intent bitmap of a member: which chunks may differ between the members. [`intent`](crate::intent) has the bits
//! of an array that is being written.
//!
//! Source: `struct bitmap_super_s` of Linux 6.12 (`md-bitmap.h`), and `md-llbitmap.c` of Linux 6.18 for version 6.

use crate::bytes::{array_at, put, u32_at, u64_at};
use crate::superblock::SECTOR;
use crate::uuid::Uuid;

/// Size of the header, in bytes.
pub const HEADER_BYTES: usize = 256;
/// Where the states of a lockless bitmap begin, in bytes behind the beginning of the header.
pub const LOCKLESS_DATA: u64 = 1024;
/// Most bytes of bits or states that are read.
pub const MAX_DATA: u64 = 64 << 20;

const MAGIC: u32 = 0x6d74_6962;
pub(crate) const STALE: u32 = 1 << 1;
pub(crate) const WRITE_ERROR: u32 = 1 << 2;
/// Version of a bitmap of bits in the order of little-endian bytes.
pub(crate) const VERSION: u32 = 4;
/// Least chunk of a bitmap that is made here, as mdadm chooses it.
const LEAST_CHUNK: u64 = 64 << 20;
/// Seconds between sweeps, as mdadm writes them.
const SLEEP_S: u32 = 5;

/// The header of a bitmap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    /// 3, 4, 5 or 6.
    pub version: u32,
    /// UUID of the array.
    pub array: Uuid,
    /// Events of the array when this was written.
    pub events: u64,
    /// Events of the array when bits were last cleared.
    pub events_cleared: u64,
    /// Sectors that it covers: of a member, and for raid10 of the array.
    pub sync_size: u64,
    /// Bits of state.
    pub state: u32,
    /// Bytes for each bit, or state.
    pub chunk: u64,
    /// Seconds between sweeps.
    pub sleep_s: u32,
    /// Most writes that write-mostly members may be behind.
    pub write_behind: u32,
    /// Sectors that are kept for it; 0 if it does not say.
    pub reserved: u32,
}

/// The chunk of a bitmap that covers `sync_size` sectors and has `room` bytes with its header: 64 MiB, or more if that does not fit.
pub fn choose_chunk(sync_size: u64, room: u64) -> u64 {
    let bits = room.saturating_sub(HEADER_BYTES as u64).saturating_mul(8).max(1);
    let mut chunk = LEAST_CHUNK;
    while sync_size.div_ceil(chunk / SECTOR) > bits && chunk < 1 << 31 {
        chunk *= 2;
    }
    chunk
}

impl Bitmap {
    /// A bitmap of version 4 for a new array, in chunks of `chunk` bytes.
    pub fn new(array: Uuid, sync_size: u64, chunk: u64) -> Bitmap {
        Bitmap {
            version: VERSION,
            array,
            events: 0,
            events_cleared: 0,
            sync_size,
            state: 0,
            chunk,
            sleep_s: SLEEP_S,
            write_behind: 0,
            reserved: 0,
        }
    }

    /// The [`HEADER_BYTES`] bytes of this header: the inverse of [`parse`](Bitmap::parse), but for the name of a
    /// cluster, which is zero.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        put(&mut bytes, 0, MAGIC.to_le_bytes());
        put(&mut bytes, 4, self.version.to_le_bytes());
        put(&mut bytes, 8, self.array.0);
        put(&mut bytes, 24, self.events.to_le_bytes());
        put(&mut bytes, 32, self.events_cleared.to_le_bytes());
        put(&mut bytes, 40, self.sync_size.to_le_bytes());
        put(&mut bytes, 48, self.state.to_le_bytes());
        put(&mut bytes, 52, (self.chunk as u32).to_le_bytes());
        put(&mut bytes, 56, self.sleep_s.to_le_bytes());
        put(&mut bytes, 60, self.write_behind.to_le_bytes());
        put(&mut bytes, 64, self.reserved.to_le_bytes());
        bytes
    }

    /// Parses the [`HEADER_BYTES`] bytes of a header.
    ///
    /// # Errors
    /// There is no bitmap, or it is impossible.
    pub fn parse(bytes: &[u8]) -> Result<Bitmap, String> {
        if bytes.len() < HEADER_BYTES {
            return Err(format!("a bitmap's header has {HEADER_BYTES} bytes; there are {}", bytes.len()));
        }
        let (magic, version) = (u32_at(bytes, 0), u32_at(bytes, 4));
        if magic != MAGIC {
            return Err(format!("the bitmap begins with {magic:#010x}; {MAGIC:#010x} is a bitmap"));
        }
        if !(3..=6).contains(&version) {
            return Err(format!("the bitmap has version {version}; 3 to 6 are known"));
        }
        let chunk = u64::from(u32_at(bytes, 52));
        if !chunk.is_power_of_two() || chunk < SECTOR {
            return Err(format!("the bitmap's chunk is {chunk} bytes; powers of two from 512 are possible"));
        }
        let bitmap = Bitmap {
            version,
            array: Uuid(array_at(bytes, 8)),
            events: u64_at(bytes, 24),
            events_cleared: u64_at(bytes, 32),
            sync_size: u64_at(bytes, 40),
            state: u32_at(bytes, 48),
            chunk,
            sleep_s: u32_at(bytes, 56),
            write_behind: u32_at(bytes, 60),
            reserved: u32_at(bytes, 64),
        };
        if bitmap.data_bytes() > MAX_DATA {
            return Err(format!(
                "the bitmap covers {} sectors in chunks of {chunk} bytes, which takes {} bytes; at most {MAX_DATA} are read",
                bitmap.sync_size,
                bitmap.data_bytes()
            ));
        }
        Ok(bitmap)
    }

    /// Number of chunks.
    pub fn chunks(&self) -> u64 {
        self.sync_size.div_ceil(self.chunk / SECTOR)
    }

    /// Whether it has a state of one byte for each chunk.
    pub fn is_lockless(&self) -> bool {
        self.version == 6
    }

    /// Whether it says that it is out of date.
    pub fn is_stale(&self) -> bool {
        self.state & STALE != 0
    }

    /// Whether it says that a write of it has failed.
    pub fn has_write_error(&self) -> bool {
        self.state & WRITE_ERROR != 0
    }

    /// Where its bits or states begin, in bytes behind the beginning of the header.
    pub fn data_offset(&self) -> u64 {
        if self.is_lockless() { LOCKLESS_DATA } else { HEADER_BYTES as u64 }
    }

    /// Size of the bits or states.
    pub fn data_bytes(&self) -> u64 {
        if self.is_lockless() { self.chunks() } else { self.chunks().div_ceil(8) }
    }

    /// Whether a chunk may differ between the members. Chunks that the data does not reach may.
    pub fn may_differ(&self, data: &[u8], chunk: u64) -> bool {
        let at = if self.is_lockless() { chunk } else { chunk / 8 };
        let Some(byte) = usize::try_from(at).ok().and_then(|at| data.get(at)) else { return true };
        match self.is_lockless() {
            // Clean, and clean with nothing written; where nothing was written there is nothing to differ in.
            true => !matches!(byte, 0 | 1 | 7),
            false => byte >> (chunk % 8) & 1 != 0,
        }
    }

    /// How many chunks may differ.
    pub fn count(&self, data: &[u8]) -> u64 {
        (0..self.chunks()).filter(|&chunk| self.may_differ(data, chunk)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(version: u32, chunk: u32, sectors: u64) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..4].copy_from_slice(b"bitm");
        bytes[4..8].copy_from_slice(&version.to_le_bytes());
        bytes[8..24].copy_from_slice(&[7; 16]);
        bytes[24..32].copy_from_slice(&19u64.to_le_bytes());
        bytes[32..40].copy_from_slice(&12u64.to_le_bytes());
        bytes[40..48].copy_from_slice(&sectors.to_le_bytes());
        bytes[52..56].copy_from_slice(&chunk.to_le_bytes());
        bytes
    }

    #[test]
    fn bits_and_states_say_which_chunks_may_differ() {
        let bitmap = Bitmap::parse(&header(4, 65536, 1280)).unwrap();
        assert_eq!((bitmap.chunks(), bitmap.data_bytes(), bitmap.data_offset()), (10, 2, 256));
        assert_eq!((bitmap.events, bitmap.events_cleared, bitmap.array), (19, 12, Uuid([7; 16])));
        let set: Vec<u64> = (0..11).filter(|&chunk| bitmap.may_differ(&[0b1000_0001, 0b10], chunk)).collect();
        assert_eq!((set, bitmap.count(&[0b1000_0001, 0b10])), (vec![0, 7, 9], 3));
        let lockless = Bitmap::parse(&header(6, 65536, 1100)).unwrap();
        assert_eq!((lockless.chunks(), lockless.data_bytes(), lockless.data_offset()), (9, 9, 1024));
        let set: Vec<u64> =
            (0..9).filter(|&c| lockless.may_differ(&[0, 1, 2, 3, 4, 5, 6, 7, 8], c)).collect();
        assert_eq!(set, [2, 3, 4, 5, 6, 8], "an unknown state may differ");
        assert!(lockless.may_differ(&[], 0), "what was not read may differ");
    }

    #[test]
    fn impossible_headers_are_named() {
        let good = header(4, 65536, 100);
        assert!(Bitmap::parse(&good[..255]).unwrap_err().contains("255"));
        assert!(Bitmap::parse(&header(7, 65536, 100)).unwrap_err().contains("version 7"));
        for chunk in [0, 256, 65535] {
            assert!(Bitmap::parse(&header(4, chunk, 100)).unwrap_err().contains(&chunk.to_string()));
        }
        assert!(Bitmap::parse(&header(4, 512, u64::MAX)).unwrap_err().contains("at most"));
        assert!(Bitmap::parse(&[0; 256]).unwrap_err().contains("0x00000000"));
    }
}
