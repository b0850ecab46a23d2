//! The size of a disk that is resized, or taken away, while it is in use.

use super::SimDisk;
use crate::medium::SECTOR;
use crate::model::Command;
use platter_block::bio::Op;

const ENXIO: i64 = 6;
const ENODEV: i64 = 19;

/// What of a disk is there.
pub(super) struct Extent {
    /// Bytes; at most what the model has.
    pub(super) size: u64,
    is_removed: bool,
}

impl Extent {
    pub(super) fn new(size: u64) -> Extent {
        Extent { size, is_removed: false }
    }

    /// The errno of a command that comes to nothing because of this.
    pub(super) fn refuses(&self, command: &Command) -> Option<i64> {
        if self.is_removed {
            return Some(ENODEV);
        }
        let end = command.sector.saturating_add(command.sectors.into()).saturating_mul(SECTOR as u64);
        (command.op != Op::Flush && end > self.size).then_some(ENXIO)
    }
}

impl SimDisk {
    /// Gives the disk another size, in bytes: whole sectors, at least one, at most what its model has. Commands beyond
    /// the end fail from now on with `ENXIO`; those that it has go on. What was stored beyond the end is lost: it reads as
    /// zeroes when the disk grows again. Returns whether the size was one that the disk can have.
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
            // Nor does a power cut bring it back.
            trouble.volatile.durable(first, lost);
        }
        true
    }

    /// Takes the disk away, or brings it back. As long as it is away every command fails with `ENODEV`; those that it had go on,
    /// and their completions are reported. Its contents stay.
    pub fn set_removed(&self, removed: bool) {
        self.lock().extent.is_removed = removed;
    }

    /// The size of the disk now, in bytes; `None`: it was taken away.
    pub fn current_size(&self) -> Option<u64> {
        let state = self.lock();
        (!state.extent.is_removed).then_some(state.extent.size)
    }
}
