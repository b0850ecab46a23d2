//! What the drivers ask of a target beside the way of a request: its size, its descriptors, what was refused.

use super::{Size, Target};
use crate::sync::{Mutex, lock};
use crate::sys::{Kind, OpenedDisk, SysError};
use platter_block::fault::{Fault, Status};
use platter_block::time::Time;
use std::fmt::Write as _;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Where the page begins that contains an end of the file which direct I/O cannot reach.
pub(in crate::drivers) struct Tail {
    /// `u64::MAX`: there is no such page.
    start: AtomicU64,
    /// Held while the end of the file is set together with the page.
    placing: Mutex<()>,
}

impl Tail {
    #[inline]
    pub(in crate::drivers) fn start(&self) -> u64 {
        self.start.load(Ordering::Relaxed)
    }
}

impl Target {
    /// Makes the target of an open disk.
    pub(in crate::drivers) fn new(disk: OpenedDisk) -> Result<Target, SysError> {
        let align = if disk.direct { disk.probe.dio_offset_align.max(1) } else { 1 };
        let size = disk.probe.size_bytes;
        let cached = !disk.direct || disk.buffered.is_some();
        let target = Target {
            // Without `/proc`, flushes do without the protection that this descriptor gives them.
            flushed: if cached { disk.open_buffered().ok() } else { None },
            is_block: disk.probe.kind == Kind::Block,
            mask: u64::from(align) - 1,
            tail: Tail { start: AtomicU64::new(u64::MAX), placing: Mutex::new(()) },
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
        self.tail.start.store(tail, Ordering::Relaxed);
        Ok(())
    }

    /// Sets the size of the file.
    pub(in crate::drivers) fn resize(&self, size: u64) -> Result<(), SysError> {
        let _placing = lock(&self.tail.placing);
        self.place_tail(size)?;
        self.size.accept(size);
        Ok(())
    }

    /// Checks the size of the file.
    #[cold]
    pub(in crate::drivers) fn look(&self, now: Time) {
        // If the system cannot tell (a server that is gone), the I/O itself will fail.
        if let Ok(size) = self.disk.current_size() {
            self.found_at(now, size);
        }
    }

    /// Records the size that a check found just now. The size of a block device changes only with the medium.
    pub(in crate::drivers) fn found(&self, size: u64) {
        if !self.is_block {
            self.found_at(crate::clock::now(), size);
        }
    }

    /// Records the size that a check found at `now`. Direct I/O may not reach a new end, up to which the rest of the
    /// file is used, although the device has not been given its new size yet.
    fn found_at(&self, now: Time, size: u64) {
        if size >= self.size.end() {
            return self.size.found(now, size);
        }
        let _placing = lock(&self.tail.placing);
        // Another thread may have found a smaller one.
        if size < self.size.end() {
            // Without another descriptor, transfers up to that end fail, as any would that direct I/O cannot do.
            let _ = self.place_tail(size);
        }
        self.size.found(now, size);
    }

    /// Records a request that transferred nothing: at the end of a file that may have moved.
    #[cold]
    pub(in crate::drivers) fn came_short(&self, now: Time) {
        if !self.is_block {
            self.look(now);
        }
    }

    /// The result of an I/O that ended with `result`. A block device that was removed, or has lost its medium, has size 0. The
    /// kernel then transfers nothing, has no space for a write, takes the rest for misaligned, and flushes with success.
    #[inline]
    pub(in crate::drivers) fn judged(&self, result: i64) -> i64 {
        if result > 0 { result } else { self.judge(result) }
    }

    #[cold]
    fn judge(&self, result: i64) -> i64 {
        const SIGNS: [i32; 4] = [0, libc::EIO, libc::EINVAL, libc::ENOSPC];
        let is_sign = SIGNS.iter().any(|errno| result == -i64::from(*errno));
        if is_sign && self.is_block && self.size.device() > 0 && self.has_vanished() {
            return -i64::from(libc::ENXIO);
        }
        result
    }

    fn has_vanished(&self) -> bool {
        match self.disk.current_size() {
            Ok(size) => size == 0,
            Err(error) => matches!(error.errno, Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM)),
        }
    }

    /// The known size of a file.
    pub(in crate::drivers) fn size(&self) -> &Size {
        &self.size
    }

    /// The descriptor for transfers through the page cache.
    pub(in crate::drivers) fn buffered(&self) -> &OwnedFd {
        self.disk.buffered.as_ref().or(self.buffered.get()).unwrap_or(&self.disk.fd)
    }

    /// The descriptor for flushes. The kernel reports a failed write of the page cache once to each open file: a
    /// durable write on the same descriptor would take the report that the flush needs.
    pub(in crate::drivers) fn flushed(&self) -> &OwnedFd {
        self.flushed.as_ref().unwrap_or(&self.disk.fd)
    }

    /// Flushes on this thread. No flush of a file that has become shorter than its disk succeeds.
    pub(in crate::drivers) fn flush(&self, now: Time) -> Status {
        if !self.is_block {
            self.look(now);
            if self.size.shrunk_to().is_some() {
                return Err(Fault::from_errno(libc::ENXIO));
            }
        }
        let flushed = rustix::io::retry_on_intr(|| rustix::fs::fdatasync(self.flushed()));
        let result = flushed.map_or_else(|errno| -i64::from(errno.raw_os_error()), |()| 0);
        match self.judged(result) {
            0 => Ok(()),
            failed => Err(Fault::from_errno(i32::try_from(-failed).unwrap_or(libc::EIO))),
        }
    }

    /// Records that a region was not registered with a ring; its segments are used as plain memory.
    #[cold]
    pub(in crate::drivers) fn not_registered(&self, error: &io::Error) {
        self.unregistered.0.fetch_add(1, Ordering::Relaxed);
        self.unregistered.1.store(error.raw_os_error().unwrap_or(0), Ordering::Relaxed);
    }

    /// How many regions were not registered and why, if any.
    pub(in crate::drivers) fn unregistered(&self) -> Option<String> {
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
    pub(in crate::drivers) fn has_holes(&self) -> bool {
        let stat =
            if self.is_block || self.is_cached() { None } else { rustix::fs::fstat(&self.disk.fd).ok() };
        // In units of 512 bytes, whatever the file system's block size is.
        stat.is_some_and(|stat| (stat.st_blocks as u64).saturating_mul(512) < self.disk.probe.size_bytes)
    }

    /// Whether all transfers go through the page cache.
    pub(in crate::drivers) fn is_cached(&self) -> bool {
        !self.disk.direct
    }
}

impl Size {
    /// A file of `size` bytes that was checked just now.
    pub(in crate::drivers) fn new(size: u64) -> Size {
        Size {
            device: AtomicU64::new(size),
            known: AtomicU64::new(size),
            looked: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            looks: AtomicU64::new(0),
        }
    }

    /// Records the size found at `now`.
    pub(in crate::drivers) fn found(&self, now: Time, size: u64) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.looked.fetch_max(now.0, Ordering::Relaxed);
        // A smaller size was seen once: data beyond it is lost, whatever the size is now.
        self.known.fetch_min(size, Ordering::Relaxed);
    }

    /// The end of the reliable part.
    pub(in crate::drivers) fn end(&self) -> u64 {
        self.known.load(Ordering::Relaxed)
    }

    /// The smaller size of the file, if one was found.
    pub(in crate::drivers) fn shrunk_to(&self) -> Option<u64> {
        let end = self.end();
        (end < self.device.load(Ordering::Relaxed)).then_some(end)
    }

    /// The size of the device.
    pub(in crate::drivers) fn device(&self) -> u64 {
        self.device.load(Ordering::Relaxed)
    }

    /// Sets the size of the device.
    pub(in crate::drivers) fn accept(&self, size: u64) {
        self.device.store(size, Ordering::Relaxed);
        self.known.store(size, Ordering::Relaxed);
    }

    /// Number of checks of the file.
    pub(in crate::drivers) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }
}

/// Mode of a `fallocate(2)` that makes a range read as zeroes.
pub(in crate::drivers) fn zero_mode(is_block: bool) -> i32 {
    let kind = if is_block { libc::FALLOC_FL_ZERO_RANGE } else { libc::FALLOC_FL_PUNCH_HOLE };
    kind | libc::FALLOC_FL_KEEP_SIZE
}
