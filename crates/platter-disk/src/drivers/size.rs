//! Whether a file is still as long as the device on it.
//!
//! A file gives no sign when another program truncates it. A read past its new end is short, but a write past it
//! makes the file longer again and leaves a hole that reads as zeroes. The size is therefore checked with `fstat(2)`:
//! before each flush, before each change that reaches the end of the device (the only one that can restore the old
//! size), after a transfer of zero bytes, and otherwise at most every [`INTERVAL`] while there are changes. Once a
//! shorter end is found, no I/O beyond it is carried out and no flush succeeds, until the device has been given its
//! new size.

use platter_block::time::{Span, Time};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    /// A file of `size` bytes that was checked just now.
    pub(super) fn new(size: u64) -> Size {
        Size {
            device: AtomicU64::new(size),
            known: AtomicU64::new(size),
            looked: AtomicU64::new(0),
            changed: AtomicBool::new(false),
            looks: AtomicU64::new(0),
        }
    }

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

    /// Records the size found at `now`.
    pub(super) fn found(&self, now: Time, size: u64) {
        self.looks.fetch_add(1, Ordering::Relaxed);
        self.looked.fetch_max(now.0, Ordering::Relaxed);
        // A smaller size was seen once: data beyond it is lost, whatever the size is now.
        self.known.fetch_min(size, Ordering::Relaxed);
    }

    /// The end of the reliable part.
    pub(super) fn end(&self) -> u64 {
        self.known.load(Ordering::Relaxed)
    }

    /// The smaller size of the file, if one was found.
    pub(super) fn shrunk_to(&self) -> Option<u64> {
        let end = self.end();
        (end < self.device.load(Ordering::Relaxed)).then_some(end)
    }

    /// The size of the device.
    pub(super) fn device(&self) -> u64 {
        self.device.load(Ordering::Relaxed)
    }

    /// Sets the size of the device.
    pub(super) fn accept(&self, size: u64) {
        self.device.store(size, Ordering::Relaxed);
        self.known.store(size, Ordering::Relaxed);
    }

    /// Number of checks of the file.
    pub(super) fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
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
