//! Whether direct I/O really works on a descriptor that took `O_DIRECT`.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::buffer::AlignedBuf;
use super::{AlignSource, Probe};

/// The largest alignment tried before giving up.
const LARGEST_ALIGN: u32 = 4096;

/// Checks a descriptor opened with `O_DIRECT`. If nothing reports alignments, they are found by reading and
/// stored in `probe`. `Err` has the reason why direct I/O does not work.
pub(super) fn settle(fd: BorrowedFd<'_>, probe: &mut Probe, readable: bool) -> Result<(), String> {
    if let Some(fs) = probe.filesystem.as_ref().filter(|fs| fs.is_memory()) {
        return Err(format!("files on {} are in memory, where direct I/O is meaningless", fs.name));
    }
    if probe.direct_io == Some(false) {
        return Err(format!("the {} reports that it does not support direct I/O here", probe.place()));
    }
    if probe.align_source == AlignSource::Statx || !readable {
        return Ok(());
    }
    let guess = probe.dio_offset_align;
    for align in [guess, LARGEST_ALIGN.max(guess)] {
        if u64::from(align) > probe.size_bytes {
            // The disk is too small for a trial.
            return Ok(());
        }
        let mut buf = AlignedBuf::new(align as usize, align as usize);
        // Any other failure, such as a bad sector, will be reported by real reads.
        if rustix::io::pread(fd, buf.as_mut(), 0) == Err(Errno::INVAL) {
            continue;
        }
        if align != guess {
            (probe.dio_mem_align, probe.dio_offset_align, probe.dio_read_offset_align) =
                (align, align, align);
            probe.logical_block = align;
            probe.physical_block = probe.physical_block.max(align);
        }
        return Ok(());
    }
    Err(format!("a direct read of {LARGEST_ALIGN} aligned bytes was refused (EINVAL)"))
}

/// Turns `O_DIRECT` off on an open descriptor, keeping its locks and claims.
pub(super) fn turn_off(fd: impl AsFd) -> Result<(), Errno> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags - OFlags::DIRECT)
}
