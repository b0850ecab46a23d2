//! Writing: into the cache, and for those who want it on to the disk at once.

use super::engine::Engine;
use super::frames::FRAME;
use super::ios::IoKey;
use super::pages::{AHEAD, Evicted, FILLING, MARKED, blocks};
use super::task::{Phase, Step, Task};
use platter_block::bio::Flags;
use platter_block::fault::Fault;
use platter_block::readahead::PAGE;
use platter_block::time::Time;

/// What makes a write wait for the disk.
pub(super) const DURABLE: Flags = Flags::FUA.union(Flags::HARD_BARRIER);

impl Engine {
    /// Does as much as can be done of a write.
    pub(super) fn write(&mut self, now: Time, task: &mut Task, through: bool) -> Step {
        if task.bio.done() == 0 {
            task.drops = self.drops;
        }
        while !task.bio.is_empty() {
            let page = task.bio.pos() / PAGE;
            if self.must_wait(task, page) {
                return self.park_for_any(task);
            }
            if self.pages.dirty.count >= self.rules().limit {
                return self.throttle(now, task);
            }
            let offset = (task.bio.pos() % PAGE) as usize;
            let len = task.bio.len().min((FRAME - offset) as u64) as usize;
            let touched = blocks(offset..offset + len);
            let mut evicted = Evicted { unused_by: None };
            let frame = match self.pages.store.find(page) {
                Some(frame) if self.pages.meta(frame).is(FILLING) => {
                    let key = self.io_of(frame);
                    return self.park(task, key);
                }
                Some(frame) => self.pages.writable(frame, touched, now, &mut evicted),
                None => self.pages.take(page, &mut evicted),
            };
            self.note(evicted);
            let Some(frame) = frame else { return self.no_room(now, task) };
            self.pages.meta_mut(frame).flags &= !(AHEAD | MARKED);
            self.pages.store.copy_in(frame, offset, &mut task.bio, len);
            self.pages.wrote(frame, touched, now);
            self.pages.settle(frame);
        }
        if through || task.bio.flags().intersects(DURABLE) {
            task.phase = Phase::After;
            return Ok(false);
        }
        Ok(true)
    }

    /// Too much is dirty: the writer waits until some of it is written. If that fails it hears of it here, because
    /// nothing that it has not been told is lost: what is dirty stays so.
    pub(super) fn throttle(&mut self, now: Time, task: &mut Task) -> Step {
        let failed = self.sick.filter(|_| self.pages.dirty.not_before.is_some_and(|at| now < at));
        // What has not failed yet may go while the rest cannot.
        self.write_oldest(|_| true, failed.is_none());
        if let Some(fault) = failed
            && self.pages.dirty.writing == 0
        {
            return Err(fault);
        }
        match self.ios.out {
            0 => self.no_room(now, task),
            _ => self.park_for_any(task),
        }
    }

    /// What a write needs done before its data.
    pub(super) fn flush_before(&mut self, task: &mut Task, fault: Option<(IoKey, (Fault, u64))>) -> Step {
        let device = task.bio.flags().intersects(Flags::PREFLUSH | Flags::HARD_BARRIER);
        if !self.flush_range(task, fault, None, device)? {
            return Ok(false);
        }
        if let Some(fault) = self.flush_fault(task, None) {
            return Err(fault);
        }
        task.flushing.reset();
        task.phase = Phase::Data;
        Ok(false)
    }

    /// What it needs done behind its data: that it is on the disk.
    pub(super) fn flush_after(
        &mut self,
        task: &mut Task,
        fault: Option<(IoKey, (Fault, u64))>,
        through: bool,
    ) -> Step {
        let range = task.start..task.start + task.size;
        let durable = task.bio.flags().intersects(DURABLE);
        if !self.flush_range(task, fault, Some(range.clone()), durable)? {
            return Ok(false);
        }
        let dropped = through && self.was_dropped(task.drops, &range);
        let dropped = if dropped { self.handles.last_error() } else { None };
        let Some(fault) = self.flush_fault(task, Some(&range)).or(dropped) else { return Ok(true) };
        if through && task.bio.op() == platter_block::bio::Op::Write {
            // The writer is told, and readers see what the disk has.
            self.forget(range);
        }
        Err(fault)
    }
}
