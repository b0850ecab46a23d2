//! The log of partial parity of a raid5: what the parity of rows that are being written is made of, so that an interrupted write
//! does not make the blocks unreadable that it does not write.
//!
//! Source: `struct ppl_header` of Linux 6.12 (`md_p.h`) and `driver-api/md/raid5-ppl.rst`.

mod cover;
mod scan;

pub use cover::{Covered, PartialParity, Range};
pub use scan::{Log, Read, scan};

use crate::bytes::{u32_at, u64_at};
use crate::uuid::Uuid;

/// Size of a header, in bytes.
pub const HEADER_BYTES: usize = 4096;
/// Rows of a record are multiples of this.
pub const BLOCK: u64 = 4096;

const RESERVED: usize = 512;
const ENTRY_BYTES: usize = 24;
const MAX_ENTRIES: u32 = 148;

/// A write that was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// First sector of the array that it writes.
    pub data_sector: u64,
    /// Bytes of partial parity behind the header; 0 if it writes whole rows.
    pub pp_size: u32,
    /// Bytes of the array that it writes.
    pub data_size: u32,
    /// The member with the parity.
    pub parity_disk: u32,
    /// Checksum of the partial parity.
    pub checksum: u32,
}

impl Entry {
    /// Whether this is the partial parity that was logged.
    pub fn matches(&self, partial: &[u8]) -> bool {
        crc32c::crc32c(partial) == self.checksum
    }
}

/// A record's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Grows from record to record.
    pub generation: u64,
    /// What it logs. The partial parities follow the header in this order.
    pub entries: Vec<Entry>,
}

impl Header {
    /// Parses the [`HEADER_BYTES`] bytes of a header of the array.
    ///
    /// # Errors
    /// It is damaged, of another array or impossible.
    pub fn parse(bytes: &[u8], array: &Uuid) -> Result<Header, String> {
        check_seal(bytes, array)?;
        let count = u32_at(bytes, 0x210);
        if count > MAX_ENTRIES {
            return Err(format!("the parity log has {count} entries; at most {MAX_ENTRIES} are possible"));
        }
        let entry = |number: u32| {
            let at = 0x218 + ENTRY_BYTES * number as usize;
            Entry {
                data_sector: u64_at(bytes, at),
                pp_size: u32_at(bytes, at + 8),
                data_size: u32_at(bytes, at + 12),
                parity_disk: u32_at(bytes, at + 16),
                checksum: u32_at(bytes, at + 20),
            }
        };
        let entries: Vec<Entry> = (0..count).map(entry).collect();
        for (at, entry) in entries.iter().enumerate() {
            let wrong = |what: &str, value: u32| {
                Err(format!(
                    "entry {at} of the parity log has {what} of {value} bytes; multiples of 4096 are possible"
                ))
            };
            if !u64::from(entry.pp_size).is_multiple_of(BLOCK) {
                return wrong("partial parity", entry.pp_size);
            }
            if entry.data_size % 512 != 0 {
                return wrong("data", entry.data_size);
            }
        }
        Ok(Header { generation: u64_at(bytes, 0x208), entries })
    }

    /// Bytes of the record: its header and the partial parities.
    pub fn record_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.entries.iter().map(|entry| u64::from(entry.pp_size)).sum::<u64>()
    }
}

/// Whether this is a whole header of the array.
fn check_seal(bytes: &[u8], array: &Uuid) -> Result<(), String> {
    if bytes.len() < HEADER_BYTES {
        return Err(format!(
            "the header of a parity log has {HEADER_BYTES} bytes; there are {}",
            bytes.len()
        ));
    }
    let mut sealed = bytes[..HEADER_BYTES].to_vec();
    sealed[0x214..0x218].fill(0);
    let (stated, computed) = (u32_at(bytes, 0x214), crc32c::crc32c(&sealed));
    if stated != computed {
        return Err(format!(
            "the parity log's checksum does not match: it says {stated:#010x} and has {computed:#010x}"
        ));
    }
    let (signature, own) = (u32_at(bytes, RESERVED), crc32c::crc32c(&array.0));
    if signature != own {
        return Err(format!(
            "the parity log has the signature {signature:#010x}; that of its array is {own:#010x}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(array: Uuid, entries: &[[u64; 5]]) -> Vec<u8> {
        let mut bytes = vec![0u8; HEADER_BYTES];
        bytes[..512].fill(0xff);
        bytes[0x200..0x204].copy_from_slice(&crc32c::crc32c(&array.0).to_le_bytes());
        bytes[0x208..0x210].copy_from_slice(&9u64.to_le_bytes());
        bytes[0x210..0x214].copy_from_slice(&(entries.len() as u32).to_le_bytes());
        for (number, entry) in entries.iter().enumerate() {
            let at = 0x218 + 24 * number;
            bytes[at..at + 8].copy_from_slice(&entry[0].to_le_bytes());
            for (field, value) in entry[1..].iter().enumerate() {
                bytes[at + 8 + 4 * field..][..4].copy_from_slice(&(*value as u32).to_le_bytes());
            }
        }
        seal(&mut bytes);
        bytes
    }

    fn seal(bytes: &mut [u8]) {
        bytes[0x214..0x218].fill(0);
        let sum = crc32c::crc32c(bytes);
        bytes[0x214..0x218].copy_from_slice(&sum.to_le_bytes());
    }

    #[test]
    fn a_header_is_that_of_its_array_only() {
        let array = Uuid([3; 16]);
        let bytes = header(array, &[[128, 4096, 8192, 2, 77], [4096, 0, 65536, 0, 1]]);
        let read = Header::parse(&bytes, &array).unwrap();
        assert_eq!((read.generation, read.entries.len(), read.record_bytes()), (9, 2, 8192));
        let first = Entry { data_sector: 128, pp_size: 4096, data_size: 8192, parity_disk: 2, checksum: 77 };
        assert_eq!(read.entries[0], first);
        assert!(Header::parse(&bytes, &Uuid([4; 16])).unwrap_err().contains("signature"));
        let mut bad = bytes.clone();
        bad[0x218] ^= 1;
        assert!(Header::parse(&bad, &array).unwrap_err().contains("checksum"));
        bad[0x210] = 149;
        seal(&mut bad);
        assert!(Header::parse(&bad, &array).unwrap_err().contains("149 entries"));
        let odd = header(array, &[[0, 100, 0, 0, 0]]);
        assert!(Header::parse(&odd, &array).unwrap_err().contains("100 bytes"));
        assert!(Header::parse(&bytes[1..], &array).unwrap_err().contains("4095"));
    }
}
