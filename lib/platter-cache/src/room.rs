//! Waiting for room: for fewer dirty pages, and for frames.
//!
//! Tasks wait in order of arrival, and as many are woken as there is room for.

use super::dirty::Due;
use super::engine::{Engine, SPENT, note};
use super::pages::TRIES;
use super::replace::LOOKS;
use super::task::{Step, Task, Wait};
use super::writeback::{MAX_WRITES, Oldest};
use super::writers::OTHERS;
use crate::readahead::PAGE;
use platter_block::fault::{Fault, Kind};
use platter_block::time::Time;

/// Pages that a writer writes before it yields to waiting writers.
const SHARE: u32 = 64;

impl Engine {
    /// Counts a task that writes for its writer.
    pub(super) fn begin_writing(&mut self, task: &mut Task) {
        if task.writer.is_none() {
            let (handle, context) = (task.bio.handle(), task.ask.context);
            task.writer = Some(self.pages.writers.join(handle, context));
        }
    }

    /// The task does not write any more.
    pub(super) fn end_writing(&mut self, task: &mut Task) {
        if let Some(writer) = task.writer.take() {
            self.pages.writers.leave(writer);
        }
    }

    /// Pages that a writer may have dirty before it waits for those that have fewer; none if there is no such limit now.
    fn share(&self) -> Option<u32> {
        let (dirty, writers) = (&self.pages.dirty, self.pages.writers.count() as u32);
        // Something will end soon, and then writers are looked at again. A disk that fails or does not answer is a matter of
        // the common limit.
        let moves = self.ios.writing > 0 && self.write_error.is_none();
        let is_on = writers > 1 && moves;
        (is_on && dirty.taken() >= dirty.rules.free_run()).then(|| (dirty.rules.limit / writers).max(1))
    }

    /// Whether a task must wait because its writer has more than its share.
    fn is_over_share(&self, task: &Task) -> bool {
        let Some(writer) = task.writer.filter(|&id| id != OTHERS) else { return false };
        self.share().is_some_and(|share| self.pages.writers.pages(writer) > share)
    }

    /// Whether a writer must wait because too many pages are dirty or other writers are waiting.
    pub(super) fn is_crowded(&self, task: &Task) -> bool {
        let (dirty, limit) = (self.pages.dirty.taken(), self.pages.dirty.rules.limit);
        let others = !self.room.is_empty() || dirty + self.room.promised() >= limit;
        dirty >= limit || self.is_over_share(task) || (others && task.turn.is_none())
    }

    /// The fault of write-back if it keeps failing: more consecutive failures than attempts in flight.
    /// Waiting for all attempts to end is no alternative: if they follow each other closely, some are always
    /// in flight.
    fn hopeless(&self) -> Option<(Fault, u64)> {
        self.write_error.filter(|_| self.pages.dirty.failed > self.ios.writing)
    }

    /// Empties frames that the cache is not to use any more, and frees those that it is to use again.
    pub(super) fn resize(&mut self, now: Time) {
        if self.is_spent() {
            return;
        }
        // The rest is for the bios of the lane.
        let work = (SPENT / 2).saturating_sub(self.work).max(SPENT / 8);
        let (before, handles) = (self.pages.surplus(), &mut self.handles);
        let mut moved = Vec::new();
        self.work += self.pages.resize(now, work, &mut |evicted| note(handles, evicted), &mut moved);
        self.progress |= self.pages.surplus() < before || !moved.is_empty();
        moved.into_iter().for_each(|page| _ = self.plan_move(page));
    }

    /// Makes a writer wait while too many pages are dirty. If write-back fails, the writer gets the error
    /// here; no data is lost that way, because the pages stay dirty.
    pub(super) fn throttle(&mut self, now: Time, task: &mut Task) -> Step {
        let wants = task.bio.len().div_ceil(PAGE).min(u64::from(SHARE)) as u32;
        task.waits_since = now;
        if self.is_over_share(task) {
            let (turn, writer) = (self.turn_of(task), task.writer.unwrap_or(OTHERS));
            self.pages.writers.wait(writer, turn, task.ask.lane, wants);
            task.wait = Wait::Share(writer, turn);
            return Ok(false);
        }
        if self.pages.dirty.count >= self.pages.dirty.rules.limit {
            let failed = self.write_error.filter(|_| self.pages.dirty.not_before.is_some_and(|at| now < at));
            // Pages whose write-back has not failed yet can be written while the others cannot.
            let due = if failed.is_none() { Due::ALL } else { Due::NOT_ASIDE };
            let found = self.write_oldest(now, due, MAX_WRITES);
            if found == Oldest::Later {
                // Pages that were not looked at yet may be written although others have failed.
                task.turn = Some(self.turn_of(task));
                return self.park_for_turn(task);
            }
            let paused = failed.filter(|_| self.ios.writing == 0);
            if let Some(fault) = paused.or(self.hopeless().filter(|_| self.ios.writing > 0)) {
                return Err(fault);
            }
        }
        let turn = self.turn_of(task);
        self.room.join(turn, task.ask.lane, wants);
        task.wait = Wait::Room(turn);
        Ok(false)
    }

    /// Takes a task out of the line that it waits in. Returns its place there.
    pub(super) fn leave_line(&mut self, now: Time, task: &Task, wait: Wait) -> Option<u64> {
        let turn = match wait {
            Wait::Frame(turn) => {
                self.wanted.leave(turn);
                return Some(turn);
            }
            Wait::Room(turn) => {
                self.room.leave(turn);
                turn
            }
            Wait::Share(writer, turn) => {
                self.pages.writers.stop_waiting(writer, turn);
                turn
            }
            _ => return None,
        };
        self.pages.writers.has_waited(now.since(task.waits_since));
        Some(turn)
    }

    /// The place of a task in the line: the one that it had, or a new one at the end.
    fn turn_of(&mut self, task: &mut Task) -> u64 {
        task.turn.take().unwrap_or_else(|| {
            self.turns += 1;
            self.turns
        })
    }

    /// There are too many epochs for another barrier: the task waits until a write-back ends.
    pub(super) fn wait_for_epochs(&mut self, now: Time, task: &mut Task) -> Step {
        if self.write_oldest(now, Due::ALL, MAX_WRITES) == Oldest::Later {
            return self.park_for_turn(task);
        }
        match (self.ios.some_write(), self.write_error) {
            (Some(key), _) => match self.hopeless() {
                Some(fault) => Err(fault),
                None => self.park(task, key),
            },
            (None, Some(fault)) => Err(fault),
            // The pages are being copied to, or an operation of the device has their range.
            (None, None) => match self.ios.some() {
                Some(key) => self.park(task, key),
                None => self.park_for_turn(task),
            },
        }
    }

    /// Whether other tasks wait for a frame and this one is not in front of them.
    pub(super) fn must_queue(&self, task: &Task) -> bool {
        task.turn.is_none() && (!self.wanted.is_empty() || self.wanted.promised() > 0)
    }

    /// There is no frame for a page: the task waits until one is free, if one will be.
    pub(super) fn no_room(&mut self, now: Time, task: &mut Task) -> Step {
        if let Some(fault) = self.hopeless().filter(|_| self.is_only_failing()) {
            return Err(fault);
        }
        if !self.must_queue(task) && self.pages.has_candidates() {
            // A search looks at some frames only, and parks those that are busy: the next one gets further.
            self.work += 1;
            return self.park_for_turn(task);
        }
        // Asked first, because it makes lanes report frames that they release; an I/O in flight may never end.
        let is_copied_from = self.pages.store.frames().is_copied_from();
        if is_copied_from || self.ios.out > 0 || self.must_queue(task) {
            return self.wait_for_frame(task);
        }
        if let Some(fault) = self.write_error
            && self.pages.dirty.not_before.is_some_and(|at| now < at)
        {
            // Write-back is impossible, so no frame will become free.
            return Err(fault);
        }
        if self.pages.dirty.count > 0 {
            match self.write_oldest(now, Due::ALL, MAX_WRITES) {
                Oldest::Begun => return self.wait_for_frame(task),
                Oldest::Later => return self.park_for_turn(task),
                Oldest::None => {}
            }
        }
        if self.end_old_holds(now) {
            return self.wait_for_frame(task);
        }
        if self.pages.is_shrinking(now) {
            return self.park_for_turn(task);
        }
        // Each attempt checks some frames: after this many attempts all frames have been checked.
        if task.looks <= self.pages.used() / (LOOKS * TRIES) + TRIES {
            task.looks += 1;
            self.work += 1;
            return self.park_for_turn(task);
        }
        task.looks = 0;
        // Every frame is held by a reference of the program.
        Err(Engine::at_layer(Kind::NoMemory, task.bio.pos()))
    }

    /// Whether only write-backs are in flight.
    fn is_only_failing(&self) -> bool {
        self.ios.writing > 0 && self.ios.out == self.ios.writing
    }

    fn wait_for_frame(&mut self, task: &mut Task) -> Step {
        task.looks = 0;
        let turn = self.turn_of(task);
        self.wanted.join(turn, task.ask.lane, 1);
        task.wait = Wait::Frame(turn);
        Ok(false)
    }

    /// Wakes tasks for which there is room now, or for which there will be none.
    pub(super) fn grant(&mut self, now: Time) {
        let due = self.holds_are_due(now);
        if self.pages.writers.is_waiting() {
            let share = self.share();
            self.pages.writers.grant(now, &self.lanes, share);
        }
        if !self.room.is_empty() {
            let dirty = &self.pages.dirty;
            let room = dirty.rules.limit.saturating_sub(dirty.taken());
            // While anything is in flight, its end is another occasion to check.
            let is_still = self.events || (self.ios.out == 0 && !self.jobs.can_go_on);
            let idle = is_still && self.ios.writing == 0;
            let none = (idle && self.write_error.is_some()) || (self.events && self.hopeless().is_some());
            self.room.grant(now, &self.lanes, room, none);
            if idle && self.room.promised() == 0 {
                // One of them must start a write-back.
                self.room.grant(now, &self.lanes, 1, false);
            }
        }
        let freed = self.pages.take_freed();
        if !self.wanted.is_empty() {
            let is_still = self.ios.out == 0 && !self.pages.store.frames().is_copied_from();
            let none =
                (is_still && due) || (self.events && self.is_only_failing() && self.hopeless().is_some());
            self.wanted.grant(now, &self.lanes, freed + self.wanted.promised(), none);
        }
    }
}
