//! Writes past the driver, for those that reach the disk late.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::pwrite;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// An alignment that is sufficient for direct I/O on all devices.
const ALIGN: usize = 4096;

/// A file or block device, opened once more.
pub(super) struct LateFile {
    fd: OwnedFd,
}

impl LateFile {
    /// Opens it as the driver has it: around the page cache or through it.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(super) fn open(path: &Path, direct: bool) -> io::Result<LateFile> {
        let direct = if direct { OFlags::DIRECT } else { OFlags::empty() };
        let fd = open(path, OFlags::WRONLY | OFlags::CLOEXEC | direct, Mode::empty())?;
        Ok(LateFile { fd })
    }

    /// Writes all of `data`.
    ///
    /// # Errors
    /// The system cannot write it.
    pub(super) fn write(&self, pos: u64, data: &[u8]) -> io::Result<()> {
        let mut room = vec![0; data.len() + ALIGN];
        let begin = room.as_ptr().align_offset(ALIGN);
        let aligned = &mut room[begin..begin + data.len()];
        aligned.copy_from_slice(data);
        let mut at = 0;
        while at < aligned.len() {
            match pwrite(&self.fd, &aligned[at..], pos + at as u64)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                wrote => at += wrote,
            }
        }
        Ok(())
    }
}
