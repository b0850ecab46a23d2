//! Flushes, and what goes to the device past the cache: discards and zeroes.

use super::engine::{Engine, Reserved};
use super::frames::NONE;
use super::ios::IoKey;
use super::pages::{FILLING, PASSED, WRITING, blocks};
use super::task::{Phase, Step, Task};
use super::write::DURABLE;
use platter_block::bio::Op;
use platter_block::fault::Fault;
use platter_block::readahead::PAGE;
use std::ops::Range;

/// Pages that a flush starts to write back at a time.
const BATCH: usize = 4096;

/// Drops that are remembered.
const DROPS: usize = 32;

/// A fault that a task waited for, and of which I/O it is.
pub(super) type Failed = Option<(IoKey, (Fault, u64))>;

/// Something in the way of an operation on a range.
enum Obstacle {
    None,
    Io(IoKey),
    /// Dirty pages that must be written first.
    Dirty,
}

impl Engine {
    /// A flush of the device, or of a range of it.
    pub(super) fn flush(&mut self, task: &mut Task, fault: Failed) -> Step {
        // One flush of the device for many files that are synced in turn.
        let takes_all = task.size == 0 || self.pages.dirty.count <= self.rules().gather;
        let range = (!takes_all).then(|| task.start..task.start.saturating_add(task.size));
        if !self.flush_range(task, fault, range, true)? {
            return Ok(false);
        }
        // Whoever asks is told of every error since the last time, also of those that were overcome meanwhile.
        let told = self.handles.take_error(task.ask.handle);
        // Nor is a flush well that somebody else's, through the same handle, has been told of.
        let range = (task.size > 0).then(|| task.start..task.start.saturating_add(task.size));
        match self.flush_fault(task, range.as_ref()).or(told) {
            Some(fault) => Err(fault),
            None => {
                task.bio.advance(task.bio.len());
                Ok(true)
            }
        }
    }

    /// What went wrong with the write-back of a task's own data, or of all.
    pub(super) fn flush_fault(&self, task: &Task, range: Option<&Range<u64>>) -> Option<(Fault, u64)> {
        if task.flushing.fault.is_some() {
            return task.flushing.fault;
        }
        if task.flushing.errors == self.handles.errors() {
            return None;
        }
        let dirty = match range {
            None => true,
            Some(range) => self.is_dirty(range),
        };
        if dirty { self.handles.last_error() } else { None }
    }

    /// Whether something of a range is dirty, being written included.
    fn is_dirty(&self, range: &Range<u64>) -> bool {
        let dirty = |frame: u32| self.pages.meta(frame).dirty != 0 || self.pages.meta(frame).older != NONE;
        self.frames_of(range).any(dirty)
    }

    /// Has written back what was dirty when the task began with it, of a range or all, and then, if `device`,
    /// has the device flushed. Whether that is over; errors are in the task then.
    pub(super) fn flush_range(
        &mut self,
        task: &mut Task,
        fault: Failed,
        range: Option<Range<u64>>,
        device: bool,
    ) -> Step {
        if !task.flushing.begun {
            task.flushing.begun = true;
            task.flushing.limit = self.pages.dirty.last_seq();
            task.flushing.errors = self.handles.errors();
        }
        while !task.flushing.written {
            while let Some(&key) = task.flushing.waiting.last() {
                if self.ios.is_live(key) {
                    return self.park(task, key);
                }
                task.flushing.waiting.pop();
            }
            // What is of an older epoch has to go first, wherever it is.
            let range = if self.pages.dirty.is_one_epoch() { range.clone() } else { None };
            let pages = range.map_or(0..u64::MAX, |range| range.start / PAGE..range.end.div_ceil(PAGE));
            let busy = self.write_range(task, pages);
            if busy && task.flushing.waiting.is_empty() {
                // By a read of the rest of a page, or an operation that has it.
                return self.park_for_any(task);
            }
            task.flushing.written = task.flushing.waiting.is_empty();
        }
        if !device {
            return Ok(true);
        }
        self.flush_device(task, fault)
    }

    /// Starts to write back what can be of a range, and finds what to wait for. Whether something cannot be
    /// written before something else than a write-back is over. (What waits for a write that has failed is tried next time.)
    fn write_range(&mut self, task: &mut Task, range: Range<u64>) -> bool {
        let limit = task.flushing.limit;
        let mut batch = std::mem::take(&mut self.batch);
        let pages = &self.pages;
        let (mut blocked, mut busy) = (false, false);
        for (frame, seq) in pages.dirty.iter() {
            let concerned = limit.wrapping_sub(seq) as i32 >= 0
                && pages.is_live(frame, seq)
                && range.contains(&pages.store.page(frame));
            if concerned && pages.may_write(frame) {
                batch.push(frame);
                if batch.len() == BATCH {
                    break;
                }
            }
            blocked |= concerned && !pages.may_write(frame);
            busy |= concerned && pages.meta(frame).is(FILLING | PASSED);
        }
        self.write_back(&mut batch);
        self.batch = batch;
        let pages = &self.pages;
        let concerns = |frame: &u32| {
            limit.wrapping_sub(pages.meta(*frame).seq) as i32 >= 0
                && range.contains(&pages.store.page(*frame))
        };
        for (key, frames) in self.ios.write_backs() {
            if blocked || frames.iter().any(concerns) {
                task.flushing.waiting.push(key);
            }
        }
        busy
    }

    fn flush_device(&mut self, task: &mut Task, fault: Failed) -> Step {
        let key = match task.flushing.device {
            Some(key) => key,
            // Nothing was written since the last flush; it may still be under way.
            None if !self.unflushed => match self.flushing {
                Some(key) => key,
                None => return Ok(true),
            },
            None => {
                let key = self.pass(Op::Flush, 0, 0, &task.bio);
                self.unflushed = false;
                self.flushing = Some(key);
                key
            }
        };
        if let Some((failed, fault)) = fault
            && failed == key
        {
            task.flushing.fault = Some(fault);
        }
        if task.flushing.device.replace(key).is_none() && self.ios.is_live(key) {
            return self.park(task, key);
        }
        Ok(true)
    }

    /// A discard or write-zeroes: nobody else touches the range until the device has done it.
    pub(super) fn pass_on(&mut self, task: &mut Task, fault: Failed) -> Step {
        let range = task.start..task.start + task.size;
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        if !task.reserved {
            let taken = |other: &Reserved| other.pages.start < pages.end && pages.start < other.pages.end;
            if self.reserved.iter().any(taken) {
                return self.park_for_any(task);
            }
            self.tickets += 1;
            (task.ticket, task.reserved) = (self.tickets, true);
            self.reserved.push(Reserved { pages, ticket: task.ticket, io: None, orphan: false });
        }
        if let Some(key) = task.passed {
            if let Some((failed, fault)) = fault
                && failed == key
            {
                return Err(fault);
            }
            task.bio.advance(task.bio.len());
            if task.bio.flags().intersects(DURABLE) {
                task.phase = Phase::After;
                return Ok(false);
            }
            return Ok(true);
        }
        loop {
            match self.obstacle(&range) {
                Obstacle::None => break,
                Obstacle::Io(key) => return self.park(task, key),
                Obstacle::Dirty => {
                    if !self.flush_range(task, None, Some(range.clone()), false)? {
                        return Ok(false);
                    }
                    if let Some(fault) = self.flush_fault(task, Some(&range)) {
                        return Err(fault);
                    }
                    task.flushing.reset();
                }
            }
        }
        self.for_each_frame(&range, &mut |engine, frame| {
            engine.pages.store.close(frame);
            engine.pages.meta_mut(frame).flags |= PASSED;
        });
        let key = self.pass(task.bio.op(), range.start, task.size, &task.bio);
        task.passed = Some(key);
        let own = self.reserved.iter_mut().find(|range| range.ticket == task.ticket);
        own.into_iter().for_each(|range| range.io = Some(key));
        self.park(task, key)
    }

    /// The device is done with a discard or write-zeroes. What was in memory of the range is so no more; if that
    /// failed, only what is dirty is.
    pub(super) fn passed(&mut self, key: IoKey, well: bool) {
        let Some(at) = self.reserved.iter().position(|range| range.io == Some(key)) else { return };
        let pages = self.reserved[at].pages.clone();
        self.for_each_frame(&(pages.start * PAGE..pages.end * PAGE), &mut |engine, frame| {
            engine.pages.meta_mut(frame).flags &= !PASSED;
            match well || engine.pages.meta(frame).dirty == 0 {
                true => engine.pages.drop_page(frame),
                // Nobody knows what the disk has, but what is dirty will be written.
                false => engine.pages.keep_dirty(frame),
            }
        });
        if self.reserved[at].orphan {
            self.reserved.swap_remove(at);
        }
    }

    /// Every frame with a page of a range.
    pub(super) fn frames_of(&self, range: &Range<u64>) -> impl Iterator<Item = u32> + '_ {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        let count = self.pages.store.count();
        let many = pages.end - pages.start > u64::from(count);
        let (frames, few) = if many { (0..count, 0..0) } else { (0..0, pages.clone()) };
        let holds =
            move |&frame: &u32| self.is_current(frame) && pages.contains(&self.pages.store.page(frame));
        frames.filter(holds).chain(few.filter_map(|page| self.pages.store.find(page)))
    }

    /// Does something with each of them, which may go with it.
    fn for_each_frame(&mut self, range: &Range<u64>, act: &mut dyn FnMut(&mut Engine, u32)) {
        let mut frames = std::mem::take(&mut self.batch);
        frames.extend(self.frames_of(range));
        frames.drain(..).for_each(|frame| act(self, frame));
        self.batch = frames;
    }

    /// What is in the way of an operation on a range: a device that has a page of it, or something dirty that is not
    /// all in the range.
    fn obstacle(&self, range: &Range<u64>) -> Obstacle {
        let mut obstacles = self.frames_of(range).map(|frame| self.obstacle_of(frame, range));
        obstacles.find(|obstacle| !matches!(obstacle, Obstacle::None)).unwrap_or(Obstacle::None)
    }

    fn obstacle_of(&self, frame: u32, range: &Range<u64>) -> Obstacle {
        let meta = *self.pages.meta(frame);
        if meta.is(FILLING | WRITING) {
            return Obstacle::Io(self.io_of(frame));
        }
        let page = self.pages.store.page(frame);
        let end = page * PAGE + self.pages.bytes_of(page) as u64;
        let inside = range.start <= page * PAGE && end <= range.end;
        match meta.older != NONE || (meta.dirty != 0 && !inside) {
            true => Obstacle::Dirty,
            false => Obstacle::None,
        }
    }

    /// Drops what is dirty in a range and could not be written. Other writes to its pages stay.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            let Some(frame) = self.pages.store.find(page) else { continue };
            let meta = *self.pages.meta(frame);
            if meta.dirty == 0 || meta.older != NONE || meta.is(FILLING | WRITING | PASSED) {
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
        self.dropped.push_back(range);
        if self.dropped.len() > DROPS {
            self.dropped.pop_front();
        }
    }

    /// Whether something of a range may have been dropped since there were so many drops.
    pub(super) fn was_dropped(&self, since: u64, range: &Range<u64>) -> bool {
        let news = (self.drops - since) as usize;
        let mut last = self.dropped.iter().rev().take(news);
        news > DROPS || last.any(|other| other.start < range.end && range.start < other.end)
    }
}
