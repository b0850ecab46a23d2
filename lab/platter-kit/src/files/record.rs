//! What is on the disks about files: entries of the directory, and headers of files. Each is one sector, which a
//! disk writes wholly or not, so neither needs a second copy.

use super::PLACE;
use std::io::{self, ErrorKind};

/// Bytes of a sector.
pub(super) const SECTOR: usize = 512;

/// A sector without it, and not full of zeroes, holds something else.
const ENTRY: [u8; 8] = *b"KITENTRY";
const HEADER: [u8; 8] = *b"KITFILE1";

/// Where the parts of an entry are, in bytes.
const EXISTS: usize = 8;
const NAME_LEN: usize = 9;
const NAME: usize = 32;

/// Where an entry has the place of its file, and a header the place of the contents.
const AT: usize = 16;
/// Where a header has the length.
const LEN: usize = 24;

/// The entry of a file in the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Otherwise it is the entry of a file that was deleted.
    pub(super) exists: bool,
    /// Where the header is on the disk of the file, in bytes.
    pub(super) place: u64,
    /// Empty: this disk has never had a file.
    pub(super) name: String,
}

/// Where the contents of a file are on its disk, and how long it is, both in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) data: u64,
    pub(super) len: u64,
}

impl Entry {
    pub(super) fn bytes(&self) -> io::Result<[u8; SECTOR]> {
        let name_len = u8::try_from(self.name.len()).map_err(|_| {
            let text = format!("a name of {} bytes; at most 255 are possible", self.name.len());
            io::Error::new(ErrorKind::InvalidInput, text)
        })?;
        let mut bytes = [0; SECTOR];
        bytes[..ENTRY.len()].copy_from_slice(&ENTRY);
        bytes[EXISTS] = self.exists.into();
        bytes[NAME_LEN] = name_len;
        bytes[AT..AT + 8].copy_from_slice(&self.place.to_le_bytes());
        bytes[NAME..NAME + self.name.len()].copy_from_slice(self.name.as_bytes());
        Ok(bytes)
    }

    /// Reads an entry; zeroes are one of a disk that has never had a file.
    pub(super) fn read(bytes: &[u8; SECTOR]) -> io::Result<Entry> {
        if is_blank(bytes) {
            return Ok(Entry::default());
        }
        let name = bytes.get(NAME..NAME + usize::from(bytes[NAME_LEN])).filter(|_| bytes.starts_with(&ENTRY));
        let name = String::from_utf8(name.ok_or_else(invalid)?.to_vec()).map_err(|_| invalid())?;
        Ok(Entry { exists: bytes[EXISTS] != 0, place: number(bytes, AT), name })
    }
}

impl Header {
    /// That of an empty file whose header is at `place`.
    pub(super) fn new(place: u64) -> Header {
        Header { data: place + PLACE, len: 0 }
    }

    pub(super) fn bytes(self) -> [u8; SECTOR] {
        let mut bytes = [0; SECTOR];
        bytes[..HEADER.len()].copy_from_slice(&HEADER);
        bytes[AT..AT + 8].copy_from_slice(&self.data.to_le_bytes());
        bytes[LEN..LEN + 8].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// Reads the header at `place`; zeroes are that of a file that has had no contents yet.
    pub(super) fn read(bytes: &[u8; SECTOR], place: u64) -> io::Result<Header> {
        if is_blank(bytes) {
            return Ok(Header::new(place));
        }
        match bytes.starts_with(&HEADER) {
            true => Ok(Header { data: number(bytes, AT), len: number(bytes, LEN) }),
            false => Err(invalid()),
        }
    }
}

fn is_blank(bytes: &[u8; SECTOR]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

fn number(bytes: &[u8; SECTOR], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

fn invalid() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the device holds no files of the kit")
}
