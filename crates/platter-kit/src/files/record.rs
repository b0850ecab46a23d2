//! The record of a file in the first sector of its disk.

use std::io::{self, ErrorKind};

/// Bytes of a sector, which a disk writes wholly or not: so a record needs no second copy.
pub(super) const SECTOR: usize = 512;

/// A disk without it, and not full of zeroes, holds something else.
const MAGIC: [u8; 8] = *b"KITFILE1";

/// Where the parts of a record are, in bytes.
const EXISTS: usize = 8;
const NAME_LEN: usize = 9;
const BASE: usize = 16;
const LEN: usize = 24;
const NAME: usize = 32;

/// What a disk says about its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Otherwise it is the name of a file that was deleted.
    pub(super) exists: bool,
    /// Where the contents begin on the disk, in bytes.
    pub(super) base: u64,
    /// Bytes of the file.
    pub(super) len: u64,
    pub(super) name: String,
}

impl Record {
    /// The record as it is on the disk.
    pub(super) fn bytes(&self) -> io::Result<[u8; SECTOR]> {
        let name_len = u8::try_from(self.name.len()).map_err(|_| {
            let text = format!("a name of {} bytes; at most 255 are possible", self.name.len());
            io::Error::new(ErrorKind::InvalidInput, text)
        })?;
        let mut bytes = [0; SECTOR];
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        bytes[EXISTS] = self.exists.into();
        bytes[NAME_LEN] = name_len;
        bytes[BASE..BASE + 8].copy_from_slice(&self.base.to_le_bytes());
        bytes[LEN..LEN + 8].copy_from_slice(&self.len.to_le_bytes());
        bytes[NAME..NAME + self.name.len()].copy_from_slice(self.name.as_bytes());
        Ok(bytes)
    }

    /// Reads a record; `None` if the disk has never had one.
    pub(super) fn read(bytes: &[u8; SECTOR]) -> io::Result<Option<Record>> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let invalid = || io::Error::new(ErrorKind::InvalidData, "the device holds no file of the kit");
        if !bytes.starts_with(&MAGIC) {
            return Err(invalid());
        }
        let number = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).map_err(|_| invalid());
        let name = bytes.get(NAME..NAME + usize::from(bytes[NAME_LEN])).ok_or_else(invalid)?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| invalid())?;
        Ok(Some(Record { exists: bytes[EXISTS] != 0, base: number(BASE)?, len: number(LEN)?, name }))
    }
}
