//! The size of a disk that is resized or removed while it is in use.

use super::SimDisk;
use crate::medium::SECTOR;
use crate::model::Command;
use platter_block::allocation;
use platter_block::bio::Op;

const ENXIO: i64 = 6;
const ENODEV: i64 = 19;

/// The accessible part of a disk.
pub(super) struct Extent {
    /// Bytes; at most what the model has.
    pub(super) size: u64,
    is_removed: bool,
}

impl Extent {
    pub(super) fn new(size: u64) -> Extent {
        Extent { size, is_removed: false }
    }

    /// The errno of a command that fails because of this.
    pub(super) fn refuses(&self, command: &Command) -> Option<i64> {
        if self.is_removed {
            return Some(ENODEV);
        }
        let end = command.sector.saturating_add(command.sectors.into()).saturating_mul(SECTOR as u64);
        (command.op != Op::Flush && end > self.size).then_some(ENXIO)
    }
}

impl SimDisk {
    /// Gives the disk another size, in bytes: whole sectors, at least one, at most the model's. Commands
    /// beyond the end fail from now on with `ENXIO`; those already taken continue. Data beyond the end is
    /// lost: it reads as zeroes when the disk grows again. Returns whether the size is valid.
    pub fn resize(&self, bytes: u64) -> bool {
        if bytes == 0 || bytes > self.geometry.size || !bytes.is_multiple_of(SECTOR as u64) {
            return false;
        }
        let mut state = self.lock();
        state.live(self.world.clock().now());
        let first = bytes / SECTOR as u64;
        let lost = (state.extent.size / SECTOR as u64).saturating_sub(first);
        state.extent.size = bytes;
        if let Some(medium) = state.medium.as_mut().filter(|_| lost > 0) {
            medium.zero(first, lost);
        }
        if let Some(trouble) = state.trouble.as_mut().filter(|_| lost > 0) {
            // A power cut does not restore it either.
            trouble.volatile.durable(first, lost);
        }
        true
    }

    /// Removes the disk, or returns it. While it is removed every command fails with `ENODEV`; those already taken
    /// continue, and their completions are reported. Its contents remain.
    pub fn set_removed(&self, removed: bool) {
        self.lock().extent.is_removed = removed;
    }

    /// The current size of the disk in bytes; `None`: it was removed.
    pub fn current_size(&self) -> Option<u64> {
        let state = self.lock();
        (!state.extent.is_removed).then_some(state.extent.size)
    }

    /// The allocation status of the bytes from `pos` on, at most `len`. Without contents everything is data.
    pub(crate) fn allocation(&self, pos: u64, len: u64) -> allocation::Extent {
        self.lock().medium().map_or(allocation::Extent::data(pos, len), |medium| medium.allocation(pos, len))
    }
}
