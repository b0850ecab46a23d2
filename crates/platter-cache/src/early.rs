//! Reads that end without the lock.
//!
//! A caller that sleeps until its read completes gets the data from the frames that its own I/O has filled: nobody
//! else changes them before the engine has taken the completion. The completion is left in an [`Inbox`] for the next
//! thread that takes the lock. So a cold read takes the lock once, to begin.

use super::engine::Engine;
use super::frames::FRAME;
use super::hold::HoldId;
use super::inbox::Inbox;
use super::ios::{IoKey, Ios};
use super::pages::{AHEAD, MARKED};
use super::shared::Shared;
use super::task::{Task, Wait};
use crate::readahead::{Call, PAGE};
use platter_block::bio::Bio;
use platter_block::time::Time;
use platter_stack::kit::{Host, LaneBase, Turns};
use std::ops::Range;
use std::sync::Arc;

/// What a task needs to end without the lock.
#[derive(Default)]
pub(super) struct Early {
    /// The I/O that fills all pages that it still needs; `None`: it cannot end so.
    key: Option<IoKey>,
    /// Their frames.
    frames: Vec<u32>,
}

impl Early {
    /// Resets to the initial state and keeps allocated memory.
    pub(super) fn reset(&mut self) {
        self.key = None;
        self.frames.clear();
    }
}

/// A read that has ended before the engine was told.
pub(super) struct Late {
    /// The bio of the cache that has come back.
    bio: Bio,
    hold: Option<HoldId>,
    handle: u16,
    call: Call,
    /// The pages that it got from the I/O.
    pages: Range<u64>,
}

/// The reads that have ended early, from all lanes, and those that the engine has taken and not processed yet.
pub(super) struct Lates {
    inbox: Arc<Inbox<Late>>,
    taken: Vec<Late>,
    /// Work done for them since the last turn began, and whether there was any.
    work: u32,
    any: bool,
}

impl Lates {
    pub(super) fn new(inbox: &Arc<Inbox<Late>>) -> Lates {
        Lates { inbox: Arc::clone(inbox), taken: Vec::new(), work: 0, any: false }
    }

    /// Whether some are left for another turn.
    pub(super) fn is_behind(&self) -> bool {
        !self.taken.is_empty()
    }

    /// A turn begins: returns the work that was done for them before it, and whether there was any.
    pub(super) fn begin_turn(&mut self) -> (u32, bool) {
        (std::mem::take(&mut self.work), std::mem::take(&mut self.any))
    }
}

impl Engine {
    /// Notes the frames of a task that waits for the I/O `key` at `page`, if it gets everything from there, through its own
    /// lane.
    pub(super) fn prepare_early_end(&mut self, task: &mut Task, page: u64, key: IoKey) {
        task.early.reset();
        let io = &self.ios.get(key).state;
        let whole = io.own == Some(task.ask.lane) && !task.barrier && task.sole == 0;
        let Some(&first) = io.frames.first().filter(|_| whole) else { return };
        let before = page.checked_sub(self.pages.store.page(first));
        let Some(from) = before.and_then(|pages| usize::try_from(pages).ok()) else { return };
        let count = (task.end.div_ceil(PAGE) - page) as usize;
        let Some(frames) = io.frames.get(from..).and_then(|frames| frames.get(..count)) else { return };
        // The policy is told of a marked page, and the handle's counters of one that was read ahead.
        if frames.iter().any(|&frame| self.pages.info(frame).is(AHEAD | MARKED)) {
            return;
        }
        task.early.frames.extend_from_slice(frames);
        task.early.key = Some(key);
    }

    /// Processes reads that have ended early, as many as one turn allows.
    pub(super) fn take_lates(&mut self) {
        let mut taken = std::mem::take(&mut self.lates.taken);
        self.lates.inbox.take(&mut taken);
        while !self.is_spent()
            && let Some(late) = taken.pop()
        {
            self.end_late(late);
        }
        self.lates.taken = taken;
    }

    /// As `take_lates`, between two turns.
    pub(super) fn catch_up(&mut self) {
        self.work = self.lates.work;
        self.events = false;
        self.take_lates();
        self.lates.work = self.work;
        self.lates.any |= self.events;
    }

    fn end_late(&mut self, late: Late) {
        // Only write-backs need the time.
        self.came_back(Time(0), late.bio);
        self.release_hold(late.hold);
        let first = late.pages.start;
        let once = self.handles.at(late.handle).is_some_and(|handle| handle.once);
        for page in late.pages {
            if page > first {
                self.handles.count(late.handle, |counters| counters.hits += 1);
            }
            if let Some(frame) = self.pages.store.find(page) {
                self.pages.store.frames().touch(frame);
                if once {
                    self.pages.cool(frame);
                }
            }
        }
        let mut call = late.call;
        if let Some(policy) = self.handles.at(late.handle).and_then(|handle| handle.policy.as_mut()) {
            policy.end(&mut call);
        }
    }

    /// Says whether others wait for what reads that end early leave, and takes what they have left until now.
    pub(super) fn publish_urgency(&mut self) {
        let waits = self.ios.awaited > 0 || !self.room.is_empty() || !self.wanted.is_empty();
        if self.lates.inbox.set_urgent(waits || !self.jobs.is_empty()) {
            self.take_lates();
        }
    }
}

/// Ends the only read of a lane without the lock, if that is possible: its own I/O has come back, and nobody waits for
/// it. Returns whether the read has ended.
pub(super) fn end_read(tasks: &mut [Task], base: &mut LaneBase<Shared>) -> bool {
    let ([task], [came], 1) = (tasks, &base.came[..], base.own_out) else { return false };
    let Some(key) = task.early.key.filter(|&key| !task.over && task.wait == Wait::Io(key)) else {
        return false;
    };
    let inbox = &base.host.late;
    if came.token() != Ios::token(key) || came.status().is_err() || inbox.is_urgent() {
        return false;
    }
    let pages = task.at / PAGE..task.end.div_ceil(PAGE);
    for &frame in &task.early.frames {
        let offset = (task.at % PAGE) as usize;
        let len = (task.end - task.at).min((FRAME - offset) as u64) as usize;
        base.host.frames.copy_filled(frame, offset, &mut task.bio, len);
        task.at += len as u64;
    }
    (task.wait, task.over) = (Wait::None, true);
    let Some(bio) = base.came.pop() else { return false };
    base.own_out -= 1;
    let late = Late { bio, hold: task.hold.take(), handle: task.ask.handle, call: task.call, pages };
    task.early.reset();
    if inbox.put(late)
        && let Ok(mut engine) = base.host.engine()
    {
        engine.enter();
        base.host.leave(base.host.now(), &mut engine);
    }
    true
}
