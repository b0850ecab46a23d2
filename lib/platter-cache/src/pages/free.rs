//! Frames without a page: which are free, and where a page gets one.

use super::{CURRENT, EMPTY, Evicted, FrameInfo, NONE, PageTable, TRIES};

/// Frames checked in one search whose old versions programs have held by reference.
pub(super) const PINNED_LOOKS: usize = 16;

/// Frames behind a smaller end that a search takes out of use at most.
const FREE_LOOKS: u32 = 64;

/// The `io` of a frame in the list of free ones.
const FREE: u32 = NONE - 1;

/// The `io` of a frame that is not used any more.
const UNUSED: u32 = NONE - 2;

impl PageTable {
    /// A frame without a page.
    pub(super) fn take_frame(&mut self, evicted: &mut Evicted) -> Option<u32> {
        for _ in 0..FREE_LOOKS {
            let frame = self.free;
            if frame == NONE {
                break;
            }
            self.unlink_free(frame);
            if self.keeps(frame) {
                return Some(frame);
            }
        }
        if self.used() < self.limit() {
            self.infos.push(EMPTY);
            self.store.frames().ahead.use_first(self.used());
            return Some(self.used() - 1);
        }
        for _ in 0..self.pinned.len().min(PINNED_LOOKS) {
            let Some(frame) = self.pinned.pop_front() else { break };
            if self.store.is_pinned(frame) {
                self.pinned.push_back(frame);
            } else if self.keeps(frame) {
                return Some(frame);
            }
        }
        // Frames that cannot be evicted now are put aside when found, so that the next try gets further.
        let (mut failed, mut looks) = (0, 0);
        while failed < TRIES && looks < FREE_LOOKS {
            match self.evict(evicted) {
                Some(frame) if self.keeps(frame) => return Some(frame),
                Some(_) => looks += 1,
                None => failed += 1,
            }
        }
        None
    }

    /// Whether there are frames that a search has not looked at since they were last put into their order.
    pub(in super::super) fn has_candidates(&self) -> bool {
        self.replacement.has_candidates()
    }

    /// Frames that have become available since the last call, and empty ones.
    pub(in super::super) fn take_freed(&mut self) -> u32 {
        let empty = self.free_count + self.limit().saturating_sub(self.used());
        std::mem::take(&mut self.freed).max(empty)
    }

    /// A lane has released frames that it held, of which one at least may be free now.
    pub(in super::super) fn released_some(&mut self) {
        self.freed += 1;
    }

    /// Number of frames that are or were in use: the frames before this one.
    pub(in super::super) fn used(&self) -> u32 {
        self.infos.len() as u32
    }

    /// Frees a frame that is not in the index.
    pub(in super::super) fn release(&mut self, frame: u32) {
        if self.store.is_pinned(frame) {
            self.pinned.push_back(frame);
        } else {
            self.set_free(frame);
        }
    }

    /// Frees old versions that no program holds any more. Checks some.
    pub(super) fn release_pinned(&mut self) {
        for _ in 0..self.pinned.len().min(PINNED_LOOKS) {
            let Some(frame) = self.pinned.pop_front() else { break };
            self.release(frame);
        }
    }

    fn set_free(&mut self, frame: u32) {
        if !self.keeps(frame) {
            return;
        }
        let next = self.free;
        if next != NONE {
            self.info_mut(next).newer = frame;
        }
        self.infos[frame as usize] = FrameInfo { older: next, io: FREE, ..EMPTY };
        self.free = frame;
        self.free_count += 1;
        self.freed += 1;
    }

    /// Takes a frame out of the list of free ones.
    pub(super) fn unlink_free(&mut self, frame: u32) {
        let FrameInfo { older, newer, .. } = std::mem::replace(self.info_mut(frame), EMPTY);
        match newer {
            NONE => self.free = older,
            newer => self.info_mut(newer).older = older,
        }
        if older != NONE {
            self.info_mut(older).newer = newer;
        }
        self.free_count -= 1;
    }

    /// Whether a frame without a page may get one. If not, it is marked as unused.
    pub(super) fn keeps(&mut self, frame: u32) -> bool {
        let keeps = frame < self.most();
        if !keeps {
            self.infos[frame as usize] = FrameInfo { io: UNUSED, ..EMPTY };
            self.sizing.unused += 1;
        }
        keeps
    }

    /// Whether a frame is in the list of free ones.
    pub(super) fn is_free(&self, frame: u32) -> bool {
        self.info(frame).io == FREE && !self.info(frame).is(CURRENT)
    }

    /// Whether a frame was marked as unused.
    pub(super) fn is_unused(&self, frame: u32) -> bool {
        self.info(frame).io == UNUSED
    }
}
