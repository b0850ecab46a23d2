//! Writes: into the cache and, if requested, at once to the disk; pages that move to other frames; and waiting for room, that is, for
//! fewer dirty pages and for frames.
//!
//! Tasks wait for room in order of arrival, and as many are woken as there is room for.

use super::blocks::blocks;
use super::dirty::Due;
use super::engine::{Engine, SPENT, note};
use super::frames::{FRAME, Loan, NONE};
use super::inflow::Part;
use super::ios::{Failure, IoKey, IoKind};
use super::moves::Moves;
use super::pages::{AHEAD, Evicted, FILLING, MARKED, Moved, PENDING, TRIES, Writable};
use super::replace::LOOKS;
use super::task::{DURABLE, Phase, Step, Task, Wait};
use super::writeback::{MAX_WRITES, Oldest};
use super::writers::{OTHERS, WriterId};
use crate::readahead::PAGE;
use platter_block::bio::{Flags, Op};
use platter_block::fault::{Fault, Kind};
use platter_block::time::Time;

/// The cost of choosing the frame of a page, in pages that are only looked up.
const CHOOSE: u32 = 3;

/// What a write must wait for.
enum Obstacle {
    /// The next turn.
    Spent,
    /// The end of an operation on the range.
    Range(u64),
    /// Fewer dirty pages.
    Crowd,
    /// The end of an I/O that fills the page.
    Io(IoKey),
}

impl Engine {
    /// Advances a write as far as possible.
    pub(super) fn write(&mut self, now: Time, task: &mut Task, through: bool) -> Step {
        if task.at == task.start {
            task.drops = self.drops;
        }
        self.begin_writing(task);
        while task.at < task.end {
            if let Some(step) = self.write_page(now, task) {
                return step;
            }
        }
        let durable = through || task.bio.flags().intersects(DURABLE);
        if task.inflow.is_begun() {
            task.inflow.is_last = !durable && !task.barrier;
            return self.park_for_copy(task);
        }
        task.turn = None;
        if durable {
            task.phase = Phase::After;
        }
        Ok(task.phase == Phase::Data)
    }

    /// Writes the task's part of a page. `None`: complete, or planned; otherwise the result of the step.
    fn write_page(&mut self, now: Time, task: &mut Task) -> Option<Step> {
        let page = task.at / PAGE;
        let obstacle = self.obstacle(task, page);
        // Before the task waits for anything, what was planned is copied.
        if obstacle.is_some() && task.inflow.is_begun() {
            return Some(self.park_for_copy(task));
        }
        match obstacle {
            Some(Obstacle::Spent) => {
                // Next time, waiting tasks go first.
                task.turn = None;
                return Some(self.park_for_turn(task));
            }
            Some(Obstacle::Range(ticket)) => return Some(self.park_for_range(task, ticket)),
            Some(Obstacle::Crowd) => return Some(self.throttle(now, task)),
            Some(Obstacle::Io(key)) => return Some(self.park_briefly(task, key)),
            None => {}
        }
        let offset = (task.at % PAGE) as usize;
        let len = (task.end - task.at).min((FRAME - offset) as u64) as usize;
        let touched = blocks(offset..offset + len);
        let mut evicted = Evicted { unused_by: None };
        let writable = match self.pages.store.find(page) {
            _ if self.must_queue(task) => None,
            Some(frame) => self.pages.writable(frame, touched, &mut evicted),
            None => self.pages.take(page, &mut evicted).map(|frame| Writable { frame, kept: None }),
        };
        self.note(evicted);
        let Some(writable) = writable else {
            return Some(match task.inflow.is_begun() {
                true => self.park_for_copy(task),
                false => self.no_room(now, task),
            });
        };
        self.plan_copy(now, task, writable, (offset, len));
        task.at += len as u64;
        task.tries = 0;
        self.progress = true;
        self.work += CHOOSE;
        None
    }

    /// What keeps a write from going on at a page.
    fn obstacle(&self, task: &Task, page: u64) -> Option<Obstacle> {
        if self.is_spent() {
            return Some(Obstacle::Spent);
        }
        if let Some(ticket) = self.pages.reserved.of(page) {
            return Some(Obstacle::Range(ticket));
        }
        if self.is_crowded(task) {
            return Some(Obstacle::Crowd);
        }
        let frame = self.pages.store.find(page).filter(|&frame| self.pages.info(frame).is(FILLING))?;
        Some(Obstacle::Io(self.io_of(frame)))
    }

    /// Does what a write requires before its data.
    pub(super) fn flush_before(&mut self, task: &mut Task, failed: Option<Failure>) -> Step {
        let device = task.bio.flags().intersects(Flags::PREFLUSH | Flags::HARD_BARRIER);
        if !self.flush_range(task, failed, None, device)? {
            return Ok(false);
        }
        if let Some(fault) = self.flush_fault(&task.flushing, None) {
            return Err(fault);
        }
        task.flushing.reset();
        task.phase = Phase::Data;
        Ok(false)
    }

    /// Does what a write requires after its data: making it durable.
    pub(super) fn flush_after(&mut self, task: &mut Task, failed: Option<Failure>, through: bool) -> Step {
        let range = task.start..task.start + task.size;
        let durable = task.bio.flags().intersects(DURABLE);
        if !self.flush_range(task, failed, Some(&range), durable)? {
            return Ok(false);
        }
        // Of a write through the cache, data may have been dropped with that of another one that failed.
        let through = through && task.bio.op() == Op::Write;
        let dropped = if through { self.dropped_since(task.drops, &range) } else { None };
        let Some((fault, pos)) = self.flush_fault(&task.flushing, Some(&range)).or(dropped) else {
            return Ok(true);
        };
        if through {
            // The writer gets the error, and readers see what is on the disk.
            task.phase = Phase::Forget(0, fault, pos);
            return Ok(false);
        }
        Err((fault, pos))
    }

    /// Drops the data that could not be written, and fails.
    pub(super) fn forget_write(&mut self, task: &mut Task, from: u64, (fault, pos): (Fault, u64)) -> Step {
        let range = task.start..task.start + task.size;
        match self.forget(&range, from, task.flushing.limit, (fault, pos)) {
            Some(next) => {
                task.phase = Phase::Forget(next, fault, pos);
                self.park_for_turn(task)
            }
            None => Err((fault, pos)),
        }
    }

    /// Plans to copy the next `len` bytes of a write to an offset of a writable page.
    fn plan_copy(
        &mut self,
        now: Time,
        task: &mut Task,
        Writable { frame, kept }: Writable,
        (offset, len): (usize, usize),
    ) {
        let (ios, lane) = (&mut self.ios, task.ask.lane);
        let key = *task.inflow.key.get_or_insert_with(|| ios.begin_copy(lane));
        ios.get(key).state.frames.push(frame);
        task.inflow.since = now;
        self.pages.store.begin_copy(frame);
        let (all, blocks) = (self.pages.all_of(self.pages.store.page(frame)), blocks(offset..offset + len));
        let info = self.pages.info_mut(frame);
        info.flags = info.flags & !(AHEAD | MARKED) | FILLING;
        (info.io, info.filling) = (key.index(), blocks);
        let is_whole = info.valid | blocks == all;
        if info.dirty == 0 {
            info.flags |= PENDING;
            self.pages.dirty.expect(now);
        }
        let (offset, len) = (offset as u32, len as u32);
        task.inflow.parts.push(Part { frame, offset, len, kept, is_whole });
    }

    /// Lets the lane copy what was planned, and the task end then, or continue in the next turn.
    pub(super) fn park_for_copy(&mut self, task: &mut Task) -> Step {
        task.wait = task.inflow.key.map_or(Wait::Turn, Wait::Io);
        Ok(false)
    }

    /// Marks the pages of a copy as written, and ends it.
    pub(super) fn copied(&mut self, now: Time, key: IoKey, writer: Option<WriterId>) {
        (self.events, self.progress) = (true, true);
        self.jobs.can_go_on |= !self.jobs.is_empty();
        self.pages.dirty.stalled = false;
        let frames = std::mem::take(&mut self.ios.get(key).state.frames);
        for &frame in &frames {
            let pages = &mut self.pages;
            // Else the lane has opened the frame already.
            let opens = pages.store.is_filling(frame);
            if opens {
                pages.store.give_back(frame, Loan::Fill);
            }
            pages.reserved.ended(pages.store.page(frame));
            pages.dirty.pending -= u32::from(pages.info(frame).is(PENDING));
            let info = pages.info_mut(frame);
            info.flags &= !(FILLING | PENDING);
            info.io = NONE;
            match std::mem::take(&mut info.filling) {
                // Its page has only got another frame.
                0 => pages.usable(frame),
                blocks => _ = pages.wrote(frame, blocks, now, writer.unwrap_or_default()),
            }
            if opens {
                pages.expose(frame);
            }
        }
        self.work += frames.len() as u32;
        let io = self.ios.get(key);
        io.state.frames = frames;
        let mut waiters = std::mem::take(&mut io.waiters);
        waiters.drain(..).for_each(|number| self.lanes.tell(number, None));
        self.ios.get(key).waiters = waiters;
        self.ios.end_copy(key);
    }

    /// Plans to copy to a frame, which is closed, what it keeps of another one.
    pub(super) fn plan_move(&mut self, Moved { to, kept, vacated }: Moved) -> IoKey {
        let (moves, ios) = (&mut self.moves, &mut self.ios);
        let key = *moves.key.get_or_insert_with(|| ios.begin(IoKind::Move));
        ios.get(key).state.frames.push(to);
        self.pages.store.begin_copy(to);
        let info = self.pages.info_mut(to);
        info.flags |= FILLING;
        info.io = key.index();
        moves.copies.push((to, kept));
        moves.vacated.extend(vacated);
        key
    }

    /// The copies have been made.
    pub(super) fn moved(&mut self, now: Time, moves: &mut Moves) {
        moves.is_copied = false;
        let Some(key) = moves.key.take() else { return };
        self.copied(now, key, None);
        self.pages.vacate(moves.vacated.drain(..));
    }
}

/// Pages that a writer writes before it yields to waiting writers.
const SHARE: u32 = 64;

// Waiting for room.
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
