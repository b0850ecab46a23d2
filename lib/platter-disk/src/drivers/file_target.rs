//! The target of the file drivers' I/O, and how each request is carried out.
//!
//! A file gives no sign when another program truncates it. A read past its new end is short, but a write past it
//! makes the file longer again and leaves a hole that reads as zeroes. The size is therefore checked with `fstat(2)`:
//! before each flush, before each change that reaches the end of the device (the only one that can restore the old
//! size), after a transfer of zero bytes, and otherwise at most every [`INTERVAL`] while there are changes. Once a
//! shorter end is found, no I/O beyond it is carried out and no flush succeeds, until the device has been given its
//! new size.

use crate::sys::OpenedDisk;
use platter_block::bio::Op;
use platter_block::driver::Started;
use platter_block::time::{Span, Time};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

mod state;

pub(super) use state::{Tail, zero_mode};

/// An open file or block device.
pub(super) struct Target {
    pub(super) disk: OpenedDisk,
    pub(super) is_block: bool,
    /// Alignment of offset and length for direct I/O, minus one.
    mask: u64,
    /// The page with an end of the file that direct I/O cannot reach.
    tail: Tail,
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
    /// How to carry out a request.
    ///
    /// The page that contains an odd end of the file is read and written through the page cache as a whole. Direct
    /// I/O on the rest of that page would bypass changes in the cache, and evict them while they are being written;
    /// the kernel would then report I/O errors to the next flush.
    #[inline]
    pub(super) fn way(&self, now: Time, request: &Started<'_>) -> Way {
        let (pos, len) = (request.pos, request.len);
        let is_plain = request.op.has_data() && pos + len <= self.tail.start();
        if is_plain && (self.is_block || self.size.is_fresh(now, request.op == Op::Write, pos + len)) {
            return Way::Direct(len);
        }
        self.special_way(now, request)
    }

    #[cold]
    fn special_way(&self, now: Time, request: &Started<'_>) -> Way {
        let (pos, mut len) = (request.pos, request.len);
        let whole = len;
        if !self.is_block {
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
        let tail = self.tail.start();
        if pos >= tail { Way::Buffered(len) } else { Way::Direct(len.min(tail - pos)) }
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

/// How long a check of the size stays valid. A check costs a fifth of a microsecond.
pub(super) const INTERVAL: Span = Span::from_millis(2);

/// The known size of a file. All channels of a disk share it.
pub(super) struct Size {
    /// The size of the device.
    device: AtomicU64,
    /// The end of the file, if it lies below the device's size.
    known: AtomicU64,
    /// Time of the last check, in nanoseconds.
    looked: AtomicU64,
    /// The file was changed since the last check.
    changed: AtomicBool,
    /// Number of checks so far.
    looks: AtomicU64,
}

impl Size {
    /// Whether a transfer up to `end` may start without a check.
    #[inline]
    pub(super) fn is_fresh(&self, now: Time, changes: bool, end: u64) -> bool {
        let known = self.known.load(Ordering::Relaxed);
        if changes {
            // A transfer that reaches the end is checked each time.
            end < known && self.changed.load(Ordering::Relaxed) && !self.is_due(now)
        } else {
            end <= known && !(self.changed.load(Ordering::Relaxed) && self.is_due(now))
        }
    }

    fn is_due(&self, now: Time) -> bool {
        now.0.saturating_sub(self.looked.load(Ordering::Relaxed)) >= INTERVAL.0
    }

    /// Whether a transfer up to `end` needs a check before it starts; records that the file changes.
    pub(super) fn needs_look(&self, now: Time, changes: bool, end: u64) -> bool {
        let device = self.device.load(Ordering::Relaxed);
        if changes {
            self.changed.store(true, Ordering::Relaxed);
        }
        (changes && end >= device) || (self.changed.load(Ordering::Relaxed) && self.is_due(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn changes_are_looked_at_once_an_interval_and_at_the_end_always() {
        let size = Size::new(1 << 20);
        let at = |ms: u64| Time(ms * MS);
        size.found(at(10), 1 << 20);
        assert!(size.is_fresh(at(500), false, 1 << 20), "a file that nothing here changes is not looked at");
        assert!(!size.is_fresh(at(10), true, 4096), "the first change takes the slow way");
        assert!(!size.needs_look(at(10), true, 4096) && size.is_fresh(at(11), true, 4096));
        assert!(!size.is_fresh(at(12), true, 4096) && size.needs_look(at(12), true, 4096));
        assert!(!size.is_fresh(at(12), false, 4096), "reads look too where there were changes");
        assert!(!size.is_fresh(at(10), true, 1 << 20) && size.needs_look(at(10), true, 1 << 20));
        size.found(at(12), 1 << 20);
        assert!(size.is_fresh(at(12), true, 4096) && size.looks() == 2);
    }

    #[test]
    fn a_smaller_size_is_remembered_until_the_device_has_it() {
        let size = Size::new(1 << 20);
        size.found(Time(1), 65536);
        size.found(Time(2), 1 << 20);
        assert_eq!((size.end(), size.shrunk_to()), (65536, Some(65536)));
        assert!(!size.is_fresh(Time(2), false, 65537) && size.is_fresh(Time(2), false, 65536));
        size.accept(65536);
        assert_eq!((size.end(), size.shrunk_to()), (65536, None));
        size.found(Time(3), 1 << 20);
        assert_eq!(size.shrunk_to(), None, "a longer file is no loss");
    }
}
