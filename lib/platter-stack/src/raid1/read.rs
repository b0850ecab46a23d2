//! Reads of a mirror, and what is done about blocks that a member cannot read.

use super::{Mirror, failed};
use crate::kit::{Buffer, Mode, Shared, Task};
use platter_block::bio::Flags;
use platter_block::fault::{Fault, Kind, Status};
use std::sync::Arc;

/// Bytes that are read again, and written again, at a time.
const PIECE: u64 = 4096;

/// Whether a failure is one of the medium, after which the block is written again.
fn is_of_medium(fault: Fault) -> bool {
    matches!(fault.kind, Kind::Io | Kind::Corrupt | Kind::Short)
}

/// Whether a failure says nothing of the member: the caller does not want to wait, or nothing waits for the read any more.
fn is_of_caller(task: &Task, fault: Fault) -> bool {
    task.is_taken_back() || matches!(fault.kind, Kind::WouldBlock | Kind::Cancelled)
}

impl Mirror {
    /// Carries out a read.
    pub(super) async fn read(self: &Arc<Self>, task: &Task) -> Status {
        // What is read now may come from another member than before a failure.
        self.settle().await?;
        let (taken, place) = {
            let mut state = self.state();
            (state.take(task.pos(), task.len()), state.saved.offset + task.pos())
        };
        let Some(device) = taken else { return Err(failed(Kind::Gone)) };
        let status = task.part(0, task.len(), device, place).await;
        self.state().members[device].reads -= 1;
        let Err(fault) = status else { return Ok(()) };
        if is_of_caller(task, fault) {
            return Err(fault);
        }
        self.has_failed_read(device, fault);
        if self.state().in_sync().all(|other| other == device) {
            return Err(fault);
        }
        task.forget_failure();
        let status = self.read_elsewhere(task, device, fault).await;
        self.settle().await?;
        status
    }

    /// A member has failed a read. It has failed as a whole if it is gone.
    fn has_failed_read(&self, device: usize, fault: Fault) {
        self.state().members[device].failures += 1;
        if matches!(fault.kind, Kind::Gone | Kind::Broken) {
            self.fail(device, &format!("a read failed: {fault}"));
        }
    }

    /// Reads piece by piece from any member that can, and writes what others could not read to them again.
    async fn read_elsewhere(self: &Arc<Self>, task: &Task, bad: usize, fault: Fault) -> Status {
        // Only a part of what it was to read may be bad.
        let again = is_of_medium(fault);
        let mut at = 0;
        while at < task.len() {
            let len = (PIECE - (task.pos() + at) % PIECE).min(task.len() - at);
            let range = (task.pos() + at, len);
            // No change may come between.
            let _lock = self.ranges.lock(range.0..range.0 + len, Mode::Exclusive).await;
            let data = self.recover(range, bad, again).await.map_err(|other| other.unwrap_or(fault))?;
            task.copy_in(at, data.bytes())?;
            at += len;
        }
        Ok(())
    }

    /// Reads a piece from the members in turn, `bad` first or last. Those that cannot read it get what another one has. The
    /// caller has a lock on it.
    ///
    /// # Errors
    /// No member can read it: the fault of the last one, if there is one.
    pub(super) async fn recover(
        self: &Arc<Self>,
        (pos, len): (u64, u64),
        bad: usize,
        first: bool,
    ) -> Result<Buffer, Option<Fault>> {
        let (mut unread, mut last) = (Vec::new(), None);
        let place = self.state().saved.offset + pos;
        let mut order: Vec<usize> = self.state().in_sync().collect();
        order.sort_by_key(|&device| (device == bad) != first);
        for device in order {
            let read = self.below.read(device, place, Buffer::new(len as usize));
            match self.attend(device, read).await {
                Some(Ok(data)) if unread.is_empty() => return Ok(data),
                Some(Ok(data)) => {
                    let data = Shared::from(data);
                    for other in unread {
                        self.write_again(other, place, &data).await;
                    }
                    let mut copy = Buffer::new(len as usize);
                    copy.bytes_mut().copy_from_slice(data.bytes());
                    return Ok(copy);
                }
                Some(Err(fault)) => {
                    last = Some(fault);
                    self.has_failed_read(device, fault);
                    if is_of_medium(fault) {
                        unread.push(device);
                    }
                }
                None => {}
            }
        }
        Err(last)
    }

    /// Writes a block again that a member could not read. If it cannot, it has failed.
    async fn write_again(self: &Arc<Self>, device: usize, place: u64, data: &Shared) {
        if self.is_read_only || !self.state().is_live(device) {
            return;
        }
        let write = self.below.write_shared(device, place, data, Flags::NONE);
        match self.attend(device, write).await {
            Some(Ok(())) => self.state().members[device].repaired += 1,
            Some(Err(fault)) => {
                self.fail(device, &format!("a block that it could not read could not be written: {fault}"));
            }
            None => {}
        }
    }
}
