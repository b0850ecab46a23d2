//! The size of a disk while it may change: another process truncates a file, or a block device is resized or
//! unplugged.
//!
//! The system does not notify programs, so the size is measured when there is a reason: after an I/O that failed as it
//! may beyond the end or for a missing device, before a flush, and when a program asks. Lanes compare the size in their
//! queues with the one here when the gate tells them of a change.
//!
//! A disk that grew is used to its new end. A disk that shrank and grew again is not, unless the program asks: the
//! data in the range that was cut off is lost and would read as zeroes.

use super::gate::Gate;
use crate::sync::{Mutex, lock};
use platter_block::bio::Bio;
use platter_block::disk::Disk;
use platter_block::event::{DeviceEvent, Watcher, Watchers};
use platter_block::fault::{Error, Fault, Kind, Stage};
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct Extent {
    /// Size in bytes, as last measured.
    size: AtomicU64,
    /// The largest size so far.
    largest: AtomicU64,
    state: Mutex<State>,
}

struct State {
    watchers: Watchers,
    is_gone: bool,
    /// Watchers know that it does not answer.
    is_silent: bool,
    /// It is shorter than it was, and no program has acknowledged that.
    has_shrunk: bool,
}

impl Extent {
    pub(super) fn new(size: u64) -> Extent {
        let state = State { watchers: Watchers::new(), is_gone: false, is_silent: false, has_shrunk: false };
        let (size, largest) = (AtomicU64::new(size), AtomicU64::new(size));
        Extent { size, largest, state: Mutex::new(state) }
    }

    /// Size in bytes, as last measured.
    #[inline]
    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    /// Size in bytes as last measured, and the largest size so far.
    pub(super) fn sizes(&self) -> (u64, u64) {
        (self.size(), self.largest.load(Ordering::Relaxed))
    }

    /// The fault of a bio past the end: `Gone` for a range that the disk once had.
    pub(super) fn past_the_end(&self, bio: &Bio, fault: Fault) -> Fault {
        let (_, largest) = self.sizes();
        let was_inside = bio.pos().checked_add(bio.len()).is_some_and(|end| end <= largest);
        match fault.kind {
            Kind::OutOfRange if was_inside => Fault::new(Kind::Gone, Stage::Queue),
            _ => fault,
        }
    }

    pub(super) fn watch(&self, watcher: Weak<dyn Watcher>) {
        lock(&self.state).watchers.add(watcher);
    }

    /// The disk is failed because it does not answer, or works again.
    pub(super) fn set_silent(&self, is_silent: bool) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.is_silent, is_silent) != is_silent {
            state.watchers.tell(if is_silent { DeviceEvent::Silent } else { DeviceEvent::Answered });
        }
    }

    /// Measures the disk and tells the watchers of changes. If the program asked for it (`is_asked`), it accepts the
    /// size found, even if data was lost.
    pub(super) fn look(&self, is_asked: bool, disk: &dyn Disk, gate: &Gate) -> Result<(), Error> {
        // One at a time, so that watchers get the events in the order of the sizes.
        let mut state = lock(&self.state);
        let found = disk.current_size()?;
        match found {
            None if !state.is_gone => {
                state.is_gone = true;
                state.watchers.tell(DeviceEvent::Removed);
            }
            Some(_) if state.is_gone => {
                state.is_gone = false;
                state.watchers.tell(DeviceEvent::Returned);
            }
            _ => {}
        }
        let Some(to) = found else { return Ok(()) };
        let from = self.size();
        let may_grow = is_asked || !state.has_shrunk;
        let is_growth = to > from && may_grow;
        if is_growth || is_asked && state.has_shrunk {
            disk.accept_size(to)?;
            state.has_shrunk = false;
        }
        if is_growth || to < from {
            state.has_shrunk |= to < from && !is_asked;
            self.largest.fetch_max(to, Ordering::Relaxed);
            self.size.store(to, Ordering::Relaxed);
            // Before the watchers are told, so that bios which they submit are checked against the new size.
            gate.announce_change();
            state.watchers.tell(DeviceEvent::Resized { from, to });
        }
        Ok(())
    }

    /// Measures the disk if one of these bios failed as it would on a disk that has changed its size or is gone.
    #[inline]
    pub(super) fn look_after(&self, done: &[Bio], disk: &dyn Disk, gate: &Gate) {
        if done.iter().any(is_reason) {
            // If the measurement fails nothing is known, and the bio's own error is sufficient.
            let _ = self.look(false, disk, gate);
        }
    }
}

/// What a disk answers beyond its end differs: a block device of Linux has no space for a write, fails a read, and takes the
/// rest for misaligned.
fn is_reason(bio: &Bio) -> bool {
    let is_reason = |kind| {
        matches!(
            kind,
            Kind::Short | Kind::Gone | Kind::Io | Kind::NoSpace | Kind::Misaligned | Kind::OutOfRange
        )
    };
    bio.status().is_err_and(|fault| fault.stage != Stage::Handle && is_reason(fault.kind))
}
