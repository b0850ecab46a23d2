//! A disk that has been opened.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use platter_block::allocation::Extent;
use platter_block::backend::Identity;
use rustix::fs::{Advice, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::signature::ReadAt;
use super::{Kind, LockGuard, Probe, SysError, probe};

/// The largest piece of a file that the page cache keeps as one (fact: Linux makes folios of at most 2 MiB on
/// x86-64).
const LARGEST_FOLIO: u64 = 2 << 20;

/// What is reported as data where the answer changed between two system calls.
const HOLE_UNIT: u64 = 4096;

/// An open regular file or block device.
///
/// Its claim on a block device lasts until [`fd`](Self::fd) and every copy of it are closed; its
/// lock until [`lock`](Self::lock) is dropped.
#[derive(Debug)]
pub struct OpenedDisk {
    /// The path it was opened by.
    pub path: PathBuf,
    /// For I/O; direct if [`direct`](Self::direct).
    pub fd: OwnedFd,
    /// Buffered descriptor for the end of a file whose size direct I/O cannot reach; only if needed.
    pub buffered: Option<OwnedFd>,
    /// Whether I/O on [`fd`](Self::fd) bypasses the page cache.
    pub direct: bool,
    /// Why it does not, if that was requested.
    pub why_not_direct: Option<String>,
    /// The properties of the disk.
    pub probe: Probe,
    /// Keeps other programs out, or tells why it does not.
    pub lock: LockGuard,
    /// Other users and locks, which would have been an error if disks in use were not allowed.
    pub overridden: Vec<String>,
}

impl AsFd for OpenedDisk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl OpenedDisk {
    /// Identity of the file or block device, independent of the path; `None` if the system cannot tell.
    pub fn identity(&self) -> Option<Identity> {
        let stat = rustix::fs::fstat(&self.fd).ok()?;
        Some(match self.probe.kind {
            Kind::Block => Identity::Node(stat.st_rdev),
            Kind::Regular => Identity::File(stat.st_dev, stat.st_ino),
        })
    }

    /// Opens another descriptor with the same access, through the page cache and without readahead.
    ///
    /// # Errors
    /// The error of `open(2)`; `ENOENT` if `/proc` is not mounted.
    pub fn open_buffered(&self) -> Result<OwnedFd, SysError> {
        let fail =
            |e: Errno| SysError::from_errno("open another descriptor of", &self.path, e.raw_os_error());
        let access = rustix::fs::fcntl_getfl(&self.fd).map_err(fail)? & OFlags::RWMODE;
        let link = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        let fd = rustix::fs::open(link, access | OFlags::CLOEXEC, Mode::empty()).map_err(fail)?;
        Ok(without_readahead(fd, self.probe.size_bytes))
    }

    /// The unit in which the page cache keeps the contents: a page, or a larger block of the file system.
    pub fn cache_unit(&self) -> u64 {
        let page = rustix::param::page_size() as u64;
        let block = rustix::fs::fstatfs(&self.fd).map_or(0, |fs| u64::try_from(fs.f_bsize).unwrap_or(0));
        let is_unit = block.is_power_of_two() && block <= LARGEST_FOLIO;
        if is_unit { page.max(block) } else { page }
    }

    /// Its present size in bytes.
    ///
    /// # Errors
    /// The system cannot tell, for example because the device is gone.
    pub fn current_size(&self) -> Result<u64, SysError> {
        let size = match self.probe.kind {
            Kind::Block => probe::end_of(self.fd.as_fd()),
            Kind::Regular => rustix::fs::fstat(&self.fd).map(|s| u64::try_from(s.st_size).unwrap_or(0)),
        };
        size.map_err(|e| SysError::from_errno("find the size of", &self.path, e.raw_os_error()))
    }

    /// The allocation status of the bytes of a file from `pos` on, at most `len` (`SEEK_DATA` and `SEEK_HOLE` of
    /// `lseek(2)`). A file system without holes reports data.
    ///
    /// # Errors
    /// That of `lseek`.
    pub fn allocation(&self, pos: u64, len: u64) -> Result<Extent, SysError> {
        let failed = |error: Errno| SysError::from_errno("find holes of", &self.path, error.raw_os_error());
        let until = |next: u64| (next.saturating_sub(pos)).min(len);
        match rustix::fs::seek(&self.fd, SeekFrom::Data(pos)) {
            Ok(data) if data > pos => Ok(Extent::hole(pos, until(data))),
            Ok(_) => match rustix::fs::seek(&self.fd, SeekFrom::Hole(pos)) {
                // A hole was punched since.
                Ok(hole) if hole <= pos => Ok(Extent::data(pos, len.min(HOLE_UNIT))),
                Ok(hole) => Ok(Extent::data(pos, until(hole))),
                Err(Errno::NXIO) => Ok(Extent::hole(pos, len)),
                Err(error) => Err(failed(error)),
            },
            // No data up to the end of the file.
            Err(Errno::NXIO) => Ok(Extent::hole(pos, len)),
            // The file system cannot tell.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Extent::data(pos, len)),
            Err(error) => Err(failed(error)),
        }
    }

    /// Checks that the size is still that at opening.
    ///
    /// # Errors
    /// The disk shrank or grew; the error has both sizes.
    pub fn check_same_size(&self) -> Result<(), SysError> {
        let (then, now) = (self.probe.size_bytes, self.current_size()?);
        if now == then {
            return Ok(());
        }
        let verb = if now < then { "shrank" } else { "grew" };
        let message = format!("it {verb} from {then} to {now} bytes since it was opened");
        let help = "close it, find out what resized it, and open it again";
        Err(SysError::new("continue with", &self.path, message, help))
    }
}

/// Switches readahead off for a buffered descriptor of a file of `size` bytes, and drops clean pages near the end
/// from the cache. Readahead makes large folios; a folio with the end of the file would reach into pages that direct
/// I/O uses.
pub(super) fn without_readahead(fd: OwnedFd, size: u64) -> OwnedFd {
    let near_end = size.saturating_sub(LARGEST_FOLIO);
    // This is advice, which a file system may ignore.
    let _ = rustix::fs::fadvise(&fd, 0, None, Advice::Random);
    let _ = rustix::fs::fadvise(&fd, near_end - near_end % LARGEST_FOLIO, None, Advice::DontNeed);
    fd
}

/// Buffered reads of a descriptor.
pub(super) struct FdReader<'a> {
    pub(super) fd: BorrowedFd<'a>,
    pub(super) size: u64,
}

impl ReadAt for FdReader<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match rustix::io::pread(self.fd, &mut buf[done..], offset + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}
