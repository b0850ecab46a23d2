//! What a device or file holds already, so that nobody's data is overwritten by mistake.
//!
//! Only signatures are looked at, never checksums: a damaged file system is still somebody's data.

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
/// [`find`] asks for whole multiples of 4096 bytes at multiples of 4096, except where the disk ends.
pub trait ReadAt {
    /// Size in bytes.
    fn size(&self) -> u64;

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// When a part of it cannot be read.
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

/// Something recognized on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Signature {
    /// Where it was found, in bytes from the start.
    pub offset: u64,
    /// What it is: a file system, a partition table, a member of an array, swap space, an image.
    pub name: &'static str,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.name, self.offset)
    }
}

/// A part of the disk that signatures may be in could not be read.
#[derive(Debug)]
pub struct FindError {
    /// Where, in bytes from the start.
    pub offset: u64,
    /// Why.
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

/// Looks for every known signature, in order of offset. Reads at most about 2 MiB.
///
/// # Errors
/// When a place where a signature may be cannot be read: then nothing can be said.
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
