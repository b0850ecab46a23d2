//! Writes: into the cache and, if requested, at once to the disk. And pages that move to other frames.

use super::blocks::blocks;
use super::engine::Engine;
use super::frames::{FRAME, Loan, NONE};
use super::inflow::Part;
use super::ios::{Failure, IoKey, IoKind};
use super::moves::Moves;
use super::pages::{AHEAD, Evicted, FILLING, MARKED, Moved, PENDING, Writable};
use super::task::{Phase, Step, Task, Wait};
use super::writers::WriterId;
use crate::readahead::PAGE;
use platter_block::bio::{Flags, Op};
use platter_block::fault::Fault;
use platter_block::time::Time;

/// Flags of writes that wait for the disk.
pub(super) const DURABLE: Flags = Flags::FUA.union(Flags::HARD_BARRIER);

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
