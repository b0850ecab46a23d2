//! Flushes: writing back what was dirty when they came, of the device or of a range of it.

use super::engine::Engine;
use super::frames::NONE;
use super::lanes::Failure;
use super::pages::{FILLING, WRITING, blocks};
use super::task::{Flushing, Phase, Progress, Step, Task};
use super::writeback::{BATCH, MAX_WRITES};
use platter_block::bio::Op;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::readahead::PAGE;
use std::ops::Range;

/// Drops that are remembered.
const DROPS: usize = 32;

impl Engine {
    /// A flush of the device, or of a range of it.
    pub(super) fn flush(&mut self, task: &mut Task, failed: Option<Failure>) -> Step {
        let range = (task.size > 0).then(|| task.start..task.start.saturating_add(task.size));
        // One flush of the device for many files that are synced in turn.
        let takes_all = self.pages.dirty.count <= self.pages.dirty.rules.gather;
        if !self.flush_range(task, failed, range.as_ref().filter(|_| !takes_all), true)? {
            return Ok(false);
        }
        // Whoever asks is told of every error since the last time, also of those that were overcome meanwhile.
        let told = self.handles.take_error(task.ask.handle);
        // Nor is a flush well that somebody else's, through the same handle, has been told of.
        match self.flush_fault(&task.flushing, range.as_ref()).or(told) {
            Some(fault) => Err(fault),
            None => {
                task.bio.advance(task.bio.len());
                Ok(true)
            }
        }
    }

    /// What went wrong with the write-back of a task's own data, or of all data.
    ///
    /// A write that times out has the device fail its flushes as [`Kind::InDoubt`]: then the write's fault is the cause.
    pub(super) fn flush_fault(
        &mut self,
        flushing: &Flushing,
        range: Option<&Range<u64>>,
    ) -> Option<(Fault, u64)> {
        let of_device = flushing.fault.filter(|(fault, _)| fault.kind != Kind::InDoubt);
        if of_device.is_some() {
            return of_device;
        }
        if flushing.errors != self.handles.errors() && self.is_dirty(range.unwrap_or(&(0..u64::MAX))) {
            return self.handles.last_error();
        }
        // A write that timed out before this flush may still reach the disk, and what is newer has not.
        flushing.fault.or_else(|| self.doubt(range).map(|pos| (Fault::new(Kind::InDoubt, Stage::Layer), pos)))
    }

    /// Whether something of a range is dirty, being written included.
    pub(super) fn is_dirty(&self, range: &Range<u64>) -> bool {
        self.pages.dirty.extents.next(range.start / PAGE, range.end.div_ceil(PAGE)).is_some()
    }

    /// Has written back what was dirty when the task began with it, of a range or all, and then, if `device`,
    /// has the device flushed. Whether that is over; errors are in the task then.
    pub(super) fn flush_range(
        &mut self,
        task: &mut Task,
        failed: Option<Failure>,
        range: Option<&Range<u64>>,
        device: bool,
    ) -> Step {
        match self.write_out(&mut task.flushing, range) {
            Progress::Waits(key) => return self.park(task, key),
            Progress::Again => return self.park_for_turn(task),
            Progress::Done => {}
        }
        if !device {
            return Ok(true);
        }
        self.flush_device(task, failed)
    }

    /// Has written back what was dirty of a range, or all, when that began. It goes from front to back through what is
    /// dirty, and then waits for all that it has begun or found under way; where a page had an older version, once more.
    pub(super) fn write_out(&mut self, flushing: &mut Flushing, range: Option<&Range<u64>>) -> Progress {
        if !flushing.begun {
            flushing.begun = true;
            flushing.limit = self.pages.dirty.last_seq();
            flushing.errors = self.handles.errors();
        }
        // What is of an older epoch has to go first, wherever it is.
        let range = range.filter(|_| self.pages.dirty.is_one_epoch());
        let pages = range.map_or(0..u64::MAX, |range| range.start / PAGE..range.end.div_ceil(PAGE));
        while !flushing.written {
            let at = flushing.at.max(pages.start);
            if self.pages.dirty.extents.next(at, pages.end).is_some() {
                if self.is_spent() {
                    return Progress::Again;
                }
                if self.ios.writing >= MAX_WRITES
                    && let Some(key) = self.ios.some_write()
                {
                    return Progress::Waits(key);
                }
                flushing.at = at;
                self.write_some(flushing, pages.end);
                continue;
            }
            while let Some(&key) = flushing.waiting.last() {
                if self.ios.is_running(key) {
                    return Progress::Waits(key);
                }
                flushing.waiting.pop();
            }
            // Where nothing was waited for a second look finds nothing else.
            flushing.written = !(flushing.again && flushing.waited);
            (flushing.again, flushing.waited, flushing.at) = (false, false, 0);
        }
        Progress::Done
    }

    /// Starts to write back some of what can be, from a page on, and finds what to wait for.
    fn write_some(&mut self, flushing: &mut Flushing, end: u64) {
        let limit = flushing.limit;
        let mut batch = std::mem::take(&mut self.batch);
        while !self.is_spent() && batch.len() < BATCH {
            let Some(page) = self.pages.dirty.extents.next(flushing.at, end) else { break };
            flushing.at = page + 1;
            self.work += 1;
            let Some(newest) = self.pages.store.find(page) else { continue };
            let oldest = self.pages.oldest(newest);
            let concerns = |frame: u32| {
                let meta = self.pages.meta(frame);
                meta.dirty != 0 && limit.wrapping_sub(meta.seq) as i32 >= 0
            };
            let mut newer = newest;
            while newer != oldest && !concerns(newer) {
                newer = self.pages.meta(newer).older;
            }
            if newer == oldest && !concerns(oldest) {
                continue;
            }
            // The newer one can only be written when this one has been.
            flushing.again |= newer != oldest;
            let meta = *self.pages.meta(oldest);
            if self.pages.may_write(oldest) {
                // What has failed meanwhile is of a later number: once is enough.
                if concerns(oldest) {
                    batch.push(oldest);
                }
            } else if meta.is(WRITING) && !concerns(oldest) {
                // It has failed since the flush began, which reports that, and is tried again already. To wait for each
                // attempt would take as long as the disk fails.
                continue;
            } else if meta.is(WRITING | FILLING) {
                flushing.again |= meta.is(FILLING);
                let key = self.io_of(oldest);
                // What is in doubt is not waited for.
                if self.ios.is_running(key) {
                    flushing.wait_for(key);
                }
            } else {
                flushing.again = true;
                let ticket = self.pages.reserved.of(page);
                ticket
                    .and_then(|ticket| self.io_of_pass(ticket))
                    .into_iter()
                    .for_each(|key| flushing.wait_for(key));
            }
        }
        self.write_back(&mut batch);
        self.batch = batch;
        self.begun.iter().for_each(|&key| flushing.wait_for(key));
    }

    fn flush_device(&mut self, task: &mut Task, failed: Option<Failure>) -> Step {
        let key = match task.flushing.device {
            Some(key) => key,
            // Nothing was written since the last flush; it may still be under way.
            None if !self.unflushed => match self.flushing {
                Some(key) => key,
                None => return Ok(true),
            },
            None => {
                let key = self.pass(Op::Flush, 0..0, task.ask.context, task.ask.ioprio);
                self.unflushed = false;
                self.flushing = Some(key);
                key
            }
        };
        if let Some(failure) = failed
            && failure.key == key
        {
            task.flushing.fault = Some((failure.fault, failure.pos));
        }
        if task.flushing.device.replace(key).is_none() && self.ios.is_running(key) {
            return self.park(task, key);
        }
        Ok(true)
    }

    /// A discard or write-zeroes: nobody else touches the range until the device has done it.
    pub(super) fn pass_on(&mut self, task: &mut Task) -> Step {
        if task.ticket == 0 {
            let range = task.start..task.start + task.size;
            let ask = (task.ask.context, task.ask.ioprio, task.ask.deadline);
            return match self.begin_pass(task.ask.lane, task.bio.op(), range, ask) {
                Ok(ticket) => {
                    task.ticket = ticket;
                    // Most need nothing to be done before.
                    self.run_jobs();
                    self.park_for_job(task)
                }
                Err(other) => self.park_for_range(task, other),
            };
        }
        self.jobs.result(task.ticket)?;
        task.ticket = 0;
        task.bio.advance(task.bio.len());
        if task.bio.flags().intersects(super::write::DURABLE) {
            task.phase = Phase::After;
            return Ok(false);
        }
        Ok(true)
    }

    /// Drops what is dirty in a range and could not be written, from a page on. Other writes to its pages stay. Where to
    /// go on, if that was not all.
    pub(super) fn forget(&mut self, range: &Range<u64>, from: u64) -> Option<u64> {
        let mut at = from.max(range.start / PAGE);
        while let Some(page) = self.pages.dirty.extents.next(at, range.end.div_ceil(PAGE)) {
            if self.is_spent() {
                return Some(page);
            }
            at = page + 1;
            self.work += 1;
            let Some(frame) = self.pages.store.find(page) else { continue };
            let meta = *self.pages.meta(frame);
            let closed = self.pages.reserved.is_closed(page);
            if meta.dirty == 0 || meta.older != NONE || meta.is(FILLING | WRITING) || closed {
                continue;
            }
            let (start, end) = (page * PAGE, (page + 1) * PAGE);
            let own =
                blocks((range.start.max(start) - start) as usize..(range.end.min(end) - start) as usize);
            match meta.dirty & !own {
                0 => self.pages.drop_page(frame),
                _ => self.pages.forget_blocks(frame, own),
            }
        }
        self.drops += 1;
        self.dropped.push_back(range.clone());
        if self.dropped.len() > DROPS {
            self.dropped.pop_front();
        }
        None
    }

    /// Whether something of a range may have been dropped since there were so many drops.
    pub(super) fn was_dropped(&self, since: u64, range: &Range<u64>) -> bool {
        let news = (self.drops - since) as usize;
        let mut last = self.dropped.iter().rev().take(news);
        news > DROPS || last.any(|other| other.start < range.end && range.start < other.end)
    }
}
