//! Detects existing contents of a device or file, so that no data is overwritten by mistake.
//!
//! Only signatures are checked, never checksums: a damaged file system may still hold valuable data.

mod checks;
mod magics;
mod policy;
mod windows;

use std::fmt;
use std::io;

pub use policy::{SignaturePolicy, refuse_if_signature};
use windows::Windows;

/// Something that can be read at an offset: a disk, a file, bytes in memory.
///
/// [`find`] reads whole multiples of 4096 bytes at multiples of 4096, except at the end of the disk.
pub trait ReadAt {
    /// Size in bytes.
    fn size(&self) -> u64;

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// A part of it cannot be read.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let part = start.and_then(|start| self.get(start..start.checked_add(buf.len())?));
        buf.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A signature found on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// Offset in bytes from the start.
    pub offset: u64,
    /// What it identifies: a file system, a partition table, a member of an array, swap space, an image.
    pub name: &'static str,
}

impl Signature {
    /// Whether the disk is a member of an array of disks (RAID), by the name.
    pub fn is_array_member(&self) -> bool {
        self.name.contains("array") || self.name.contains("RAID")
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.name, self.offset)
    }
}

/// A part of the disk that may contain signatures could not be read.
#[derive(Debug)]
pub struct FindError {
    /// Offset in bytes from the start.
    pub offset: u64,
    /// The reason.
    pub source: io::Error,
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reading at byte {} to see what the disk holds: {}", self.offset, self.source)
    }
}

impl std::error::Error for FindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Searches for every known signature, in order of offset. Reads at most about 2 MiB.
///
/// # Errors
/// A range that may contain a signature cannot be read: then the result is unknown.
pub fn find<D: ReadAt + ?Sized>(disk: &D) -> Result<Vec<Signature>, FindError> {
    let mut windows = Windows::new(disk)?;
    let mut found = Vec::new();
    magics::find(&mut windows, &mut found)?;
    checks::find(&mut windows, &mut found)?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

#[cfg(test)]
mod tests;
