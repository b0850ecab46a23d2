//! Free space of file systems.

use std::os::fd::AsFd;
use std::path::Path;

use super::SysError;

/// Checks that `bytes` more fit on the file system of `fd`, before they are written.
///
/// # Errors
/// `ENOSPC`, with both numbers, if they do not fit.
pub(super) fn check(op: &'static str, path: &Path, fd: impl AsFd, bytes: u64) -> Result<(), SysError> {
    let fs = rustix::fs::fstatfs(fd).map_err(|e| SysError::from_errno(op, path, e.raw_os_error()))?;
    // Blocks that any user may use; the blocks reserved for root are not counted.
    let free = (fs.f_bavail as u64).saturating_mul(fs.f_bsize as u64);
    if bytes <= free {
        return Ok(());
    }
    let error = SysError::from_errno(op, path, libc::ENOSPC);
    Err(error.with_message(format!("{bytes} bytes are needed, but only {free} are free on its file system")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_much_is_needed_and_how_much_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let fd = std::fs::File::open(dir.path()).unwrap();
        check("create", dir.path(), &fd, 0).unwrap();
        let e = check("create", dir.path(), &fd, u64::MAX).unwrap_err();
        assert_eq!(e.errno, Some(libc::ENOSPC));
        assert!(e.message.starts_with("18446744073709551615 bytes are needed"), "{e}");
    }
}
