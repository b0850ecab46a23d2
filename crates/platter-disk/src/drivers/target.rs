//! The target of the file drivers' I/O, and how each request is carried out.

use crate::sys::{Kind, OpenedDisk, SysError};
use platter_block::bio::Op;
use platter_block::defect::{self, Defect};
use platter_block::driver::Started;
use platter_block::time::Time;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::{fmt::Write as _, io};

use super::size::Size;

/// An open file or block device.
pub(super) struct Target {
    pub(super) disk: OpenedDisk,
    pub(super) is_block: bool,
    /// Alignment of offset and length for direct I/O, minus one.
    mask: u64,
    /// Start of the page with an end of the file that direct I/O cannot reach; `u64::MAX`: there is none.
    tail: AtomicU64,
    /// For transfers in that page, if the file had no such page when it was opened.
    buffered: OnceLock<OwnedFd>,
    /// For flushes, if the page cache is used.
    flushed: Option<OwnedFd>,
    /// For a file: its known size.
    size: Size,
    /// Number of regions that could not be registered, and the last reason.
    unregistered: (AtomicU32, AtomicI32),
}

/// How a request is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// On the descriptor of the disk. For a transfer: its first bytes, as many as given; the queue sends the rest.
    Direct(u64),
    /// As many bytes as given, on the buffered descriptor, which blocks.
    Buffered(u64),
    /// Not at all: this is its result.
    Done(i64),
}

impl Target {
    /// Makes the target of an open disk.
    pub(super) fn new(disk: OpenedDisk) -> Result<Target, SysError> {
        let align = if disk.direct { disk.probe.dio_offset_align.max(1) } else { 1 };
        let size = disk.probe.size_bytes;
        let cached = !disk.direct || disk.buffered.is_some();
        let target = Target {
            // Without `/proc`, flushes do without the protection that this descriptor gives them.
            flushed: if cached { disk.open_buffered().ok() } else { None },
            is_block: disk.probe.kind == Kind::Block,
            mask: u64::from(align) - 1,
            tail: AtomicU64::new(u64::MAX),
            buffered: OnceLock::new(),
            size: Size::new(size),
            unregistered: Default::default(),
            disk,
        };
        target.place_tail(size)?;
        Ok(target)
    }

    /// Determines the page that contains an odd end of a file of `size` bytes.
    fn place_tail(&self, size: u64) -> Result<(), SysError> {
        let odd = !self.is_block && size & self.mask != 0;
        if odd && self.disk.buffered.is_none() && self.buffered.get().is_none() {
            // Another thread may have set it in the meantime; that descriptor is as good.
            let _ = self.buffered.set(self.disk.open_buffered()?);
        }
        let tail = if odd { size - size % self.disk.cache_unit() } else { u64::MAX };
        self.tail.store(tail, Ordering::Relaxed);
        Ok(())
    }

    /// Sets the size of the file.
    pub(super) fn resize(&self, size: u64) -> Result<(), SysError> {
        self.place_tail(size)?;
        self.size.accept(size);
        Ok(())
    }

    /// How to carry out a request.
    ///
    /// The page that contains an odd end of the file is read and written through the page cache as a whole. Direct
    /// I/O on the rest of that page would bypass changes in the cache, and evict them while they are being written;
    /// the kernel would then report I/O errors to the next flush.
    #[inline]
    pub(super) fn way(&self, now: Time, request: &Started<'_>) -> Way {
        let (pos, len) = (request.pos, request.len);
        let is_plain = request.op.has_data() && pos + len <= self.tail.load(Ordering::Relaxed);
        if is_plain && (self.is_block || self.size.is_fresh(now, request.op == Op::Write, pos + len)) {
            return Way::Direct(len);
        }
        self.special_way(now, request)
    }

    #[cold]
    fn special_way(&self, now: Time, request: &Started<'_>) -> Way {
        let (pos, mut len) = (request.pos, request.len);
        let whole = len;
        if !self.is_block && !defect::is_on(Defect::ShrunkFileExtended) {
            let changes = request.op != Op::Read;
            if request.op == Op::Flush || self.size.needs_look(now, changes, pos + len) {
                self.look(now);
            }
            let end = self.size.end();
            match request.op {
                Op::Flush if self.size.shrunk_to().is_some() => return Way::Done(-i64::from(libc::ENXIO)),
                Op::Read if pos >= end => return Way::Done(0),
                Op::Read => len = len.min(end - pos),
                Op::Write | Op::Discard | Op::WriteZeroes if pos + len > end => {
                    return Way::Done(-i64::from(libc::ENXIO));
                }
                _ => {}
            }
        }
        if !request.op.has_data() {
            return Way::Direct(len);
        }
        let way = self.around_tail(pos, len);
        match way {
            Way::Direct(part) | Way::Buffered(part) if request.atomic && part < whole => {
                Way::Done(-i64::from(libc::EINVAL))
            }
            way => way,
        }
    }

    fn around_tail(&self, pos: u64, len: u64) -> Way {
        if defect::is_on(Defect::OddEndAlone) {
            let odd = (pos | len) & self.mask != 0 && self.disk.buffered.is_some();
            return if odd { Way::Buffered(len) } else { Way::Direct(len) };
        }
        let tail = self.tail.load(Ordering::Relaxed);
        if pos >= tail { Way::Buffered(len) } else { Way::Direct(len.min(tail - pos)) }
    }

    /// Checks the size of the file.
    #[cold]
    pub(super) fn look(&self, now: Time) {
        // If the system cannot tell (a server that is gone), the I/O itself will fail.
        if let Ok(size) = self.disk.current_size() {
            self.size.found(now, size);
        }
    }

    /// Records the size that a check found just now. The size of a block device changes only with the medium.
    pub(super) fn found(&self, size: u64) {
        if !self.is_block {
            self.size.found(crate::clock::now(), size);
        }
    }

    /// Records a request that transferred nothing: at the end of a file that may have moved.
    #[cold]
    pub(super) fn came_short(&self, now: Time) {
        if !self.is_block {
            self.look(now);
        }
    }

    /// The known size of a file.
    pub(super) fn size(&self) -> &Size {
        &self.size
    }

    /// The descriptor for transfers through the page cache.
    pub(super) fn buffered(&self) -> &OwnedFd {
        self.disk.buffered.as_ref().or(self.buffered.get()).unwrap_or(&self.disk.fd)
    }

    /// The descriptor for flushes. The kernel reports a failed write of the page cache once to each open file: a
    /// durable write on the same descriptor would take the report that the flush needs.
    pub(super) fn flushed(&self) -> &OwnedFd {
        self.flushed.as_ref().unwrap_or(&self.disk.fd)
    }

    /// Records that a region was not registered with a ring; its segments are used as plain memory.
    #[cold]
    pub(super) fn not_registered(&self, error: &io::Error) {
        self.unregistered.0.fetch_add(1, Ordering::Relaxed);
        self.unregistered.1.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
    }

    /// How many regions were not registered and why, if any.
    pub(super) fn unregistered(&self) -> Option<String> {
        let count = self.unregistered.0.load(Ordering::Relaxed);
        if count == 0 {
            return None;
        }
        let mut text = format!("{count} times");
        let _ = match self.unregistered.1.load(Ordering::Relaxed) {
            libc::ENOMEM => write!(text, ": the limit on locked memory (ulimit -l) is used up"),
            libc::EOPNOTSUPP => write!(text, ": the kernel cannot register single regions (Linux 5.19 can)"),
            libc::E2BIG => write!(text, ": a ring takes 64 regions of at most 1 GiB"),
            errno => write!(text, ": {}", io::Error::from_raw_os_error(errno)),
        };
        Some(text)
    }

    /// Whether direct writes may have to wait for space to be allocated: the file has fewer blocks than its length
    /// needs. A block device needs no allocation.
    pub(super) fn has_holes(&self) -> bool {
        let stat =
            if self.is_block || self.is_cached() { None } else { rustix::fs::fstat(&self.disk.fd).ok() };
        // In units of 512 bytes, whatever the file system's block size is.
        stat.is_some_and(|stat| (stat.st_blocks as u64).saturating_mul(512) < self.disk.probe.size_bytes)
    }

    /// Whether all transfers go through the page cache.
    pub(super) fn is_cached(&self) -> bool {
        !self.disk.direct
    }
}

/// Flag of a write that is not torn (Linux 6.11).
pub(super) const RWF_ATOMIC: i32 = 0x40;

/// The flags of `preadv2(2)` and similar calls for a request.
#[inline]
pub(super) fn rw_flags(request: &Started<'_>) -> i32 {
    let fua = if request.fua { libc::RWF_DSYNC } else { 0 };
    fua | if request.atomic { RWF_ATOMIC } else { 0 }
}

/// Mode of a `fallocate(2)` that makes a range read as zeroes.
pub(super) fn zero_mode(is_block: bool) -> i32 {
    let kind = if is_block { libc::FALLOC_FL_ZERO_RANGE } else { libc::FALLOC_FL_PUNCH_HOLE };
    kind | libc::FALLOC_FL_KEEP_SIZE
}
