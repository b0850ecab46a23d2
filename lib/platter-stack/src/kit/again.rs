//! What a layer needs to know of a bio that it may carry out again through another device.

use super::core::{Below, LATE, Task};
use platter_block::fault::{Fault, Status};

impl Below {
    /// [`Task::is_taken_back`] of the task that runs, for [`Layer::flush`](super::Layer::flush), which has no [`Task`].
    pub fn is_taken_back(&self) -> bool {
        let core = self.core();
        core.tasks.get(core.current as usize).is_some_and(|task| !task.is_own && task.is_taken_back())
    }
}

impl Task {
    /// First byte, and byte past the last, of what the bio may read or change.
    pub fn reach(&self) -> (u64, u64) {
        self.reach
    }

    /// Whether the bio may change the device.
    pub fn changes(&self) -> bool {
        self.changes
    }

    /// Whether nothing waits for the bio any more: it was cancelled, or it is late. Parts of it can no longer be made.
    pub fn is_taken_back(&self) -> bool {
        self.below.core().tasks[self.slot as usize].is_taken_back()
    }

    /// The layer begins to change devices for the bio by I/O that is no part of it, as [`copy_out`](Task::copy_out) does: for
    /// changes without data. From here on the bio is not cancelled. Until [`end_copies`](Task::end_copies) it does not end if it
    /// is late either.
    ///
    /// # Errors
    /// The bio was [taken back](Task::is_taken_back): nothing of it may be carried out any more.
    pub fn begin_change(&self) -> Status {
        let mut core = self.below.core();
        let task = &mut core.tasks[self.slot as usize];
        if task.is_taken_back() {
            return Err(LATE);
        }
        (task.copied, task.copying) = (true, true);
        Ok(())
    }

    /// The parts that have failed so far will be carried out again: their failures are not the bio's. But a part of it may
    /// have been carried out, which is not so of other bios that the layer holds.
    pub fn forget_failure(&self) {
        let task = &mut self.below.core().tasks[self.slot as usize];
        task.failed = None;
        task.tried |= self.changes;
    }

    /// What the parts that have failed mean for the bio: it fails with this, at the place where they did.
    pub fn fail_as(&self, fault: Fault) -> Fault {
        if let Some((_, of_parts)) = &mut self.below.core().tasks[self.slot as usize].failed {
            *of_parts = fault;
        }
        fault
    }
}
