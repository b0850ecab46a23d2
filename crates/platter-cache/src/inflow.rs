//! Data of large writes, which is copied into frames without the lock.
//!
//! A turn chooses the frames and marks them as being filled, as if a device did it: everybody else waits for the I/O of
//! the copy. The lane copies after the turn, and its next turn, which follows at once, marks the pages as written. A
//! small write is copied in the turn: that takes less time than the lock.

use super::engine::Engine;
use super::frames::{Frames, Loan, NONE};
use super::ios::{IoKey, IoKind};
use super::pages::FILLING;
use super::task::{Step, Task, Wait};
use crate::readahead::PAGE;
use platter_block::bio::Bio;
use platter_block::time::Time;

/// Writes of at least this many bytes are copied without the lock.
const LARGE: u64 = 4 * PAGE;

/// A part of a bio, and where it goes.
struct Part {
    frame: u32,
    offset: u32,
    len: u32,
    /// The page was clean: it counts as dirty from now on.
    was_clean: bool,
}

/// The parts of a write that are to be copied, in the order of the bio.
#[derive(Default)]
pub(super) struct Inflow {
    /// What others wait for that need one of the pages.
    key: Option<IoKey>,
    parts: Vec<Part>,
    is_copied: bool,
}

impl Inflow {
    /// Whether frames have been chosen and not been marked as written yet.
    pub(super) fn is_begun(&self) -> bool {
        self.key.is_some()
    }

    /// Whether the data is in the frames.
    pub(super) fn is_copied(&self) -> bool {
        self.is_copied
    }

    /// Copies the data, if that is to be done now. Without the lock.
    pub(super) fn copy(&mut self, frames: &Frames, bio: &mut Bio) -> bool {
        if self.key.is_none() || self.is_copied {
            return false;
        }
        for part in &self.parts {
            frames.copy_in(part.frame, part.offset as usize, bio, part.len as usize);
        }
        self.is_copied = true;
        true
    }

    /// Resets to the initial state and keeps allocated memory.
    pub(super) fn reset(&mut self) {
        (self.key, self.is_copied) = (None, false);
        self.parts.clear();
    }
}

impl Engine {
    /// Whether the data of a write is copied without the lock.
    pub(super) fn is_copied_outside(task: &Task) -> bool {
        task.size >= LARGE
    }

    /// Plans to copy the next `len` bytes of a write to a writable frame: to these blocks of its page.
    pub(super) fn plan_copy(
        &mut self,
        task: &mut Task,
        frame: u32,
        (offset, len): (usize, usize),
        blocks: u8,
    ) {
        let ios = &mut self.ios;
        let key = *task.inflow.key.get_or_insert_with(|| ios.begin(IoKind::Copy));
        ios.get(key).state.frames.push(frame);
        self.pages.store.begin_copy(frame);
        let info = self.pages.info_mut(frame);
        info.flags |= FILLING;
        (info.io, info.filling) = (key.index(), blocks);
        let was_clean = info.dirty == 0;
        self.pages.dirty.pending += u32::from(was_clean);
        task.inflow.parts.push(Part { frame, offset: offset as u32, len: len as u32, was_clean });
    }

    /// Lets the lane copy what was planned, and the task continue in the next turn.
    pub(super) fn park_for_copy(&mut self, task: &mut Task) -> Step {
        task.wait = task.inflow.key.map_or(Wait::Turn, Wait::Io);
        Ok(false)
    }

    /// Marks the pages whose data has been copied as written.
    pub(super) fn copied(&mut self, now: Time, task: &mut Task) {
        let Some(key) = task.inflow.key else { return };
        (self.events, self.progress) = (true, true);
        self.jobs.can_go_on |= !self.jobs.is_empty();
        for part in &task.inflow.parts {
            let pages = &mut self.pages;
            pages.store.give_back(part.frame, Loan::Fill);
            pages.reserved.ended(pages.store.page(part.frame));
            pages.dirty.pending -= u32::from(part.was_clean);
            let info = pages.info_mut(part.frame);
            info.flags &= !FILLING;
            info.io = NONE;
            let blocks = std::mem::take(&mut info.filling);
            pages.wrote(part.frame, blocks, now);
            pages.expose(part.frame);
        }
        task.inflow.reset();
        let mut waiters = std::mem::take(&mut self.ios.get(key).waiters);
        waiters.drain(..).for_each(|number| self.lanes.tell(number, None));
        self.ios.get(key).waiters = waiters;
        self.ios.end(key);
    }
}
