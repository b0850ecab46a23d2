//! What the drivers of files and block devices do I/O on.

use crate::sys::{Kind, OpenedDisk};
use platter_block::driver::Started;
use std::os::fd::OwnedFd;

/// An open file or block device.
pub(super) struct Target {
    pub(super) disk: OpenedDisk,
    pub(super) is_block: bool,
    /// Alignment of offset and length for direct I/O, less one.
    mask: u64,
}

impl Target {
    pub(super) fn new(disk: OpenedDisk) -> Target {
        let align = if disk.direct { disk.probe.dio_offset_align.max(1) } else { 1 };
        Target { is_block: disk.probe.kind == Kind::Block, mask: u64::from(align) - 1, disk }
    }

    /// Whether a range needs the buffered descriptor: it is the end of a file whose size direct I/O cannot
    /// reach.
    #[inline]
    pub(super) fn needs_buffered(&self, pos: u64, len: u64) -> bool {
        (pos | len) & self.mask != 0 && self.disk.buffered.is_some()
    }

    /// The descriptor for a range.
    pub(super) fn file_at(&self, pos: u64, len: u64) -> &OwnedFd {
        match &self.disk.buffered {
            Some(buffered) if self.needs_buffered(pos, len) => buffered,
            _ => &self.disk.fd,
        }
    }

    /// The descriptor for a request.
    pub(super) fn file_for(&self, request: &Started<'_>) -> &OwnedFd {
        self.file_at(request.pos, request.len)
    }
}

/// Mode of the `fallocate(2)` that makes a range read as zeroes.
pub(super) fn zero_mode(is_block: bool) -> i32 {
    let kind = if is_block { libc::FALLOC_FL_ZERO_RANGE } else { libc::FALLOC_FL_PUNCH_HOLE };
    kind | libc::FALLOC_FL_KEEP_SIZE
}
