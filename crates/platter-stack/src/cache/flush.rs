//! Flushes, and what goes to the device past the cache: discards and zeroes.

use super::engine::{Engine, Reserved};
use super::frames::NONE;
use super::ios::IoKey;
use super::pages::{FILLING, WRITING};
use super::task::{Step, Task};
use platter_block::bio::Op;
use platter_block::fault::Fault;
use platter_block::readahead::PAGE;
use std::ops::Range;

/// Pages that a flush starts to write back at a time.
const BATCH: usize = 4096;

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
        let range = (task.size > 0).then(|| task.start..task.start.saturating_add(task.size));
        if !self.flush_range(task, fault, range, true)? {
            return Ok(false);
        }
        // Whoever asks is told of every error since the last time, also of those that were overcome meanwhile.
        let told = self.handles.take_error(task.ask.handle);
        match task.flushing.fault.or(told) {
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

    fn is_dirty(&self, range: &Range<u64>) -> bool {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        let mut all = self.pages.dirty.iter();
        all.any(|(frame, seq)| {
            self.pages.is_live(frame, seq) && pages.contains(&self.pages.store.page(frame))
        })
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
            task.flushing.written = !self.write_range(task, pages);
        }
        if !device {
            return Ok(true);
        }
        self.flush_device(task, fault)
    }

    /// Starts to write back what can be of a range, and finds what to wait for. Whether there is anything.
    fn write_range(&mut self, task: &mut Task, range: Range<u64>) -> bool {
        let limit = task.flushing.limit;
        let mut batch = std::mem::take(&mut self.batch);
        let pages = &self.pages;
        let mut blocked = false;
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
        !task.flushing.waiting.is_empty()
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
            self.reserved.push(Reserved { pages, lane: task.ask.lane, ticket: task.ticket });
        }
        if let Some(key) = task.passed {
            if let Some((failed, fault)) = fault
                && failed == key
            {
                return Err(fault);
            }
            self.unflushed = true;
            task.bio.advance(task.bio.len());
            return Ok(true);
        }
        loop {
            match self.clear_range(&range) {
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
        let key = self.pass(task.bio.op(), range.start, task.size, &task.bio);
        task.passed = Some(key);
        self.park(task, key)
    }

    /// Drops the pages of a range, as far as nothing is in the way: a device that has one, or something dirty that
    /// is not all in the range.
    fn clear_range(&mut self, range: &Range<u64>) -> Obstacle {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        let count = u64::from(self.pages.store.count());
        if pages.end - pages.start > count {
            for frame in 0..count as u32 {
                if self.is_current(frame) && pages.contains(&self.pages.store.page(frame)) {
                    match self.clear_page(frame, range) {
                        Obstacle::None => {}
                        obstacle => return obstacle,
                    }
                }
            }
            return Obstacle::None;
        }
        for page in pages {
            if let Some(frame) = self.pages.store.find(page) {
                match self.clear_page(frame, range) {
                    Obstacle::None => {}
                    obstacle => return obstacle,
                }
            }
        }
        Obstacle::None
    }

    fn clear_page(&mut self, frame: u32, range: &Range<u64>) -> Obstacle {
        let meta = *self.pages.meta(frame);
        if meta.is(FILLING | WRITING) {
            return Obstacle::Io(self.io_of(frame));
        }
        let page = self.pages.store.page(frame);
        let end = page * PAGE + self.pages.bytes_of(page) as u64;
        let inside = range.start <= page * PAGE && end <= range.end;
        if meta.older != NONE || (meta.dirty != 0 && !inside) {
            return Obstacle::Dirty;
        }
        self.pages.drop_page(frame);
        Obstacle::None
    }

    /// Drops what is dirty in a range and could not be written.
    pub(super) fn forget(&mut self, range: Range<u64>) {
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            if let Some(frame) = self.pages.store.find(page) {
                let meta = *self.pages.meta(frame);
                if meta.dirty != 0 && meta.older == NONE && !meta.is(FILLING | WRITING) {
                    self.pages.drop_page(frame);
                }
            }
        }
    }
}
