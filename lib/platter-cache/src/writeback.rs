//! Write-back of dirty pages in batches, in order of position, each run of pages as one bio. Flushes, which write back the pages of the
//! device or of a range that were dirty when they were submitted. And what goes past the cache: operations on ranges, and commands.

use super::answers::{self, Exchange};
use super::blocks::{blocks, runs};
use super::dirty::Due;
use super::engine::Engine;
use super::frames::{Loan, NONE, Store};
use super::ios::{Failure, IoKey, IoKind};
use super::pages::{FAILED, FILLING, WRITING};
use super::task::{DURABLE, Flushing, Phase, Progress, Step, Task};
use crate::readahead::PAGE;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::command::Reach;
use platter_block::fault::{Fault, Kind};
use platter_block::time::Time;
use platter_stack::barrier_gate::BARRIER;
use std::ops::Range;

/// Most write-backs in flight. Reads do not count: many readers must not keep dirty pages from being written.
pub(super) const MAX_WRITES: u32 = 1024;

/// Entries of the order of dirty pages that are checked in one turn.
const LOOKS: usize = 1024;

/// Pages whose write-back begins in one turn.
pub(super) const BATCH: usize = 256;

/// Most dirty pages following a page that are written with it.
const NEIGHBOURS: u64 = 64;

/// What an attempt to write back the oldest dirty pages has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Oldest {
    /// Write-backs have begun.
    Begun,
    /// Only entries of pages that are not dirty any more or were put aside, so far: the next turn looks at others.
    Later,
    /// No page can be written back now.
    None,
}

struct Open {
    key: IoKey,
    bio: Bio,
    /// No other page may be added to it.
    alone: bool,
}

impl Engine {
    /// Does a piece of the background work: jobs, and writing back pages that have been dirty for too long,
    /// or any pages while too many are dirty.
    ///
    /// `moved`: the turn has ended moves. Then it plans none, so that a lane does not go on with turns until the cache has its new size.
    pub(super) fn run_background(&mut self, now: Time, moved: bool) {
        self.run_jobs();
        if !moved {
            self.resize(now);
        }
        let rules = self.pages.dirty.rules;
        if self.is_spent() || self.pages.dirty.wakeup(now).is_none_or(|at| at > now) {
            return;
        }
        let dirty = &mut self.pages.dirty;
        dirty.skip_looks(now);
        let over = dirty.count > rules.background;
        let looks = now >= dirty.next_look || dirty.owed;
        if now >= dirty.next_look {
            dirty.next_look = now + rules.interval;
        }
        let expired = now.0.checked_sub(rules.expire.0).filter(|_| looks).map(Time);
        let since = if over { Due::ALL.since } else { expired };
        let most = self.most_writes(now);
        let found = self.write_oldest(now, Due { since, aside: self.pages.dirty.retry_from(now) }, most);
        // The rest is done in the next turn.
        self.pages.dirty.owed = looks && (found != Oldest::None || self.is_full(most));
    }

    /// Starts to write back some of the oldest dirty pages, as far as they are `due`. About `most` are in flight at most.
    pub(super) fn write_oldest(&mut self, now: Time, due: Due, most: u32) -> Oldest {
        if self.is_full(most) {
            self.pages.dirty.stalled = true;
            return Oldest::None;
        }
        let mut has_more = false;
        let mut chosen = std::mem::take(&mut self.pages.dirty.chosen);
        let is_rest = !chosen.is_empty();
        if !is_rest {
            let (is_more, passed) = self.pages.choose(now, LOOKS, &mut chosen, due);
            has_more = is_more;
            // In reverse order, so that the first page is popped from the end.
            chosen.sort_unstable_by_key(|&(page, ..)| std::cmp::Reverse(page));
            self.work += 1 + (passed + chosen.len()) as u32 / 16;
        }
        let mut batch = std::mem::take(&mut self.batch);
        // Pages before this one are in the batch.
        let (mut next, mut runs) = (0, self.ios.writing);
        while batch.len() < BATCH
            && runs < most
            && let Some((page, seq, _)) = chosen.pop()
        {
            let Some(frame) = self.pages.version(page, seq).filter(|_| page >= next) else { continue };
            // One that was chosen while those put aside were due, too.
            let is_early = due.aside.is_none() && self.pages.info(frame).is(FAILED);
            if self.pages.may_write(frame) && !is_early {
                batch.push(frame);
                // One that follows the run before it may join that.
                runs += u32::from(page > next || next == 0);
                next = self.add_neighbours(page, &mut batch);
            } else if !self.pages.info(frame).is(WRITING) {
                self.pages.dirty.set_aside(page, seq, now);
            }
        }
        // Of what an earlier turn had left, none can be written: the orders were not looked at.
        has_more |= is_rest && chosen.is_empty();
        self.pages.dirty.chosen = chosen;
        let found = match (batch.is_empty(), has_more) {
            (false, _) => Oldest::Begun,
            (true, true) => Oldest::Later,
            (true, false) => Oldest::None,
        };
        self.pages.dirty.stalled |= found == Oldest::None;
        self.write_back(&mut batch, false);
        self.batch = batch;
        found
    }

    /// Most write-backs in flight that no task waits for, so that reads do not wait behind them.
    fn most_writes(&self, now: Time) -> u32 {
        self.pages.dirty.depth(now, MAX_WRITES)
    }

    /// Whether too much is in flight to begin a write-back.
    fn is_full(&self, most: u32) -> bool {
        self.ios.writing >= most
    }

    /// Adds the dirty pages that follow a page, so that the disk gets runs. Returns the first page that is
    /// not added.
    fn add_neighbours(&self, page: u64, batch: &mut Vec<u32>) -> u64 {
        let end = page.saturating_add(NEIGHBOURS).min(page + 1 + BATCH.saturating_sub(batch.len()) as u64);
        for next in page + 1..end {
            match self.pages.store.find(next) {
                Some(frame) if self.pages.may_write(frame) => batch.push(frame),
                _ => return next,
            }
        }
        end.max(page + 1)
    }

    /// Starts to write back the frames that may be written, on the lane of the current caller if `own`, and empties
    /// the list. The I/Os started are added to `begun`.
    pub(super) fn write_back(&mut self, batch: &mut Vec<u32>, own: bool) {
        self.begun.clear();
        self.work += batch.len() as u32;
        let store = &self.pages.store;
        batch.sort_unstable_by_key(|&frame| store.page(frame));
        let (max_bytes, max_segments) = (self.max_bytes(), self.max_segments());
        let mut open = None::<Open>;
        for frame in batch.drain(..) {
            if !self.pages.may_write(frame) {
                continue;
            }
            let page = self.pages.store.page(frame);
            let bytes = self.pages.bytes_of(page);
            let info = *self.pages.info(frame);
            let alone = info.is(FAILED);
            let mut first = true;
            for piece in pieces(info.dirty, info.valid) {
                let (pos, len) = (page * PAGE + piece.start as u64, piece.end.min(bytes) - piece.start);
                let fits = first
                    && open.as_ref().is_some_and(|open| {
                        !alone
                            && !open.alone
                            && open.bio.end() == pos
                            && open.bio.len() + len as u64 <= max_bytes
                            && open.bio.segment_count() < max_segments
                    });
                if !fits && first {
                    self.send_write(open.take(), own);
                    open = Some(self.begin_write(pos, alone));
                } else if !first && let Some(Open { key, bio, .. }) = open.take() {
                    // Several pieces of one page are one I/O, so that the page is clean when all of them are
                    // written.
                    self.stage_write(key, bio, own);
                    let mut bio = self.ios.bio();
                    Store::lease(&mut bio, &self.ios.get(key).state.lent, Loan::WriteBack, pos);
                    open = Some(Open { key, bio, alone });
                }
                if let Some(open) = &mut open {
                    let part = (piece.start, len);
                    let lent = self.pages.store.lend(frame, part, Loan::WriteBack, &mut open.bio);
                    lent.expect(
                        "no device fills a page that may be written, and the bio was ended before it was full",
                    );
                    if first {
                        self.ios.get(open.key).state.frames.push(frame);
                        self.pages.begin_write(frame, open.key.index());
                    }
                }
                first = false;
            }
        }
        self.send_write(open, own);
    }

    fn begin_write(&mut self, pos: u64, alone: bool) -> Open {
        let key = self.ios.begin(IoKind::WriteBack);
        self.begun.push(key);
        let mut bio = self.ios.bio();
        Store::lease(&mut bio, &self.ios.get(key).state.lent, Loan::WriteBack, pos);
        Open { key, bio, alone }
    }

    fn send_write(&mut self, open: Option<Open>, own: bool) {
        if let Some(Open { key, bio, .. }) = open {
            self.stage_write(key, bio, own);
        }
    }

    fn stage_write(&mut self, key: IoKey, mut bio: Bio, own: bool) {
        self.ios.sign(key, &mut bio);
        self.send(bio, own);
    }
}

/// The byte ranges of a page to write: from its first dirty block to its last if all blocks between are
/// valid, else each run of dirty blocks.
fn pieces(dirty: u8, valid: u8) -> impl Iterator<Item = std::ops::Range<usize>> {
    let hull = match dirty {
        0 => 0,
        _ => (0xffu8 << dirty.trailing_zeros()) & (0xff >> dirty.leading_zeros()),
    };
    runs(if hull & !valid == 0 { hull } else { dirty })
}

/// Most drops that are recorded.
const DROPS: usize = 32;

/// Whether a task is a flush of the disk alone.
fn is_of_disk(task: &Task) -> bool {
    task.bio.op() == Op::Flush && task.bio.flags().contains(Flags::DISK_ONLY)
}

/// The range whose data a task makes durable; `None`: all. Of a flush of the disk alone, no data.
fn flushed_range(task: &Task) -> Option<Range<u64>> {
    // All that was written before it, whatever its range.
    let of_all =
        task.bio.op() == Op::Flush && task.bio.flags().intersects(Flags::PREFLUSH | Flags::HARD_BARRIER);
    match is_of_disk(task) {
        true => Some(0..0),
        false => (task.size > 0 && !of_all).then(|| task.start..task.start.saturating_add(task.size)),
    }
}

// Flushes, and what goes past the cache.
impl Engine {
    /// Carries out a flush of the device or of a range of it.
    pub(super) fn flush(&mut self, task: &mut Task, failed: Option<Failure>) -> Step {
        let range = flushed_range(task);
        // One flush of the device serves many files that are synced in turn.
        let takes_all = self.pages.dirty.count <= self.pages.dirty.rules.gather;
        if is_of_disk(task) {
            self.begin_flush(&mut task.flushing);
            task.flushing.written = true;
        }
        let disk = !task.bio.flags().contains(Flags::DATA_ONLY);
        if !self.flush_range(task, failed, range.as_ref().filter(|_| !takes_all), disk)? {
            return Ok(false);
        }
        // The caller gets every error since its last flush, including errors that a later write-back has
        // corrected.
        let told = self.handles.take_error(task.ask.handle);
        // An error that was reported to another flush through the same handle fails this one too.
        match self.flush_fault(&task.flushing, range.as_ref()).or(told) {
            Some(fault) => Err(fault),
            None => {
                task.bio.advance(task.bio.len());
                Ok(true)
            }
        }
    }

    /// The fault of writing back a task's own data, or all data.
    pub(super) fn flush_fault(
        &self,
        flushing: &Flushing,
        range: Option<&Range<u64>>,
    ) -> Option<(Fault, u64)> {
        let has_failed =
            || flushing.errors != self.handles.errors() && self.is_dirty(range.unwrap_or(&(0..u64::MAX)));
        flushing.fault.or_else(|| if has_failed() { self.handles.last_error() } else { None })
    }

    /// Whether a page of a range is dirty or being written.
    pub(super) fn is_dirty(&self, range: &Range<u64>) -> bool {
        self.pages.dirty.extents.next(range.start / PAGE, range.end.div_ceil(PAGE)).is_some()
    }

    /// Writes back the pages of a range (or all) that were dirty when the task began to, and then flushes the
    /// device if `device`. Returns whether that is complete; errors are recorded in the task.
    pub(super) fn flush_range(
        &mut self,
        task: &mut Task,
        failed: Option<Failure>,
        range: Option<&Range<u64>>,
        device: bool,
    ) -> Step {
        match self.write_out(&mut task.flushing, range) {
            Progress::Waits(key) => return self.park_briefly(task, key),
            Progress::Again => return self.park_for_turn(task),
            Progress::Done => {}
        }
        if !device {
            return Ok(true);
        }
        if task.flushing.device.is_none() && task.flushing.fault.is_none() {
            // The device's flush does not cover pages that have failed by now, even if they are written again
            // meanwhile.
            let own = flushed_range(task).filter(|_| task.phase != Phase::Before);
            task.flushing.fault = self.flush_fault(&task.flushing, own.as_ref());
        }
        self.flush_device(task, failed)
    }

    /// Writes back the pages of a range (or all) that were dirty when this began. Goes through them from
    /// front to back, then waits for all I/Os that it has started or found in flight; a second time for pages
    /// that had an older version.
    pub(super) fn write_out(&mut self, flushing: &mut Flushing, range: Option<&Range<u64>>) -> Progress {
        self.begin_flush(flushing);
        // Pages of an older epoch have to be written first, wherever they are.
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
            // If there was nothing to wait for, a second pass finds nothing else, unless an epoch has ended since this one began: in
            // another turn, after pages of the next epoch had been passed over.
            let may_go_on = flushing.waited || self.has_next_epoch(flushing);
            flushing.written = !(flushing.again && may_go_on);
            self.start_over(flushing);
        }
        Progress::Done
    }

    /// Whether an epoch has ended since the flush began to go through the pages. Then those of the next one, which it may have passed
    /// over, can be written. It may also be the last one, so that only the flush's own range counts from now on: the pages of that
    /// range before `at` were passed over, too.
    fn has_next_epoch(&self, flushing: &Flushing) -> bool {
        flushing.oldest != self.pages.dirty.oldest_epoch()
    }

    /// The flush goes through the pages from the front.
    fn start_over(&self, flushing: &mut Flushing) {
        (flushing.again, flushing.waited, flushing.at) = (false, false, 0);
        flushing.oldest = self.pages.dirty.oldest_epoch();
    }

    /// Notes the state in which a flush begins, once.
    fn begin_flush(&self, flushing: &mut Flushing) {
        if !std::mem::replace(&mut flushing.begun, true) {
            self.start_over(flushing);
            // It concerns the pages that are dirty now.
            flushing.limit = self.pages.dirty.last_seq();
            flushing.errors = self.handles.errors();
        }
    }

    /// Starts to write back some of the dirty pages from a page on, and collects the I/Os to wait for.
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
                let info = self.pages.info(frame);
                info.dirty != 0 && limit.wrapping_sub(info.seq) as i32 >= 0
            };
            let mut newer = newest;
            while newer != oldest && !concerns(newer) {
                newer = self.pages.info(newer).older;
            }
            if newer == oldest && !concerns(oldest) {
                continue;
            }
            // The newer version can only be written after this one.
            flushing.again |= newer != oldest;
            let info = *self.pages.info(oldest);
            if self.pages.may_write(oldest) {
                // Pages that have failed meanwhile have later numbers: one attempt is enough.
                if concerns(oldest) {
                    batch.push(oldest);
                }
            } else if info.is(WRITING) && !concerns(oldest) {
                // The page has failed since the flush began, which reports that, and is already being tried
                // again. Waiting for each attempt would take as long as the disk keeps failing.
                continue;
            } else if info.is(WRITING | FILLING) {
                flushing.again |= info.is(FILLING);
                flushing.wait_for(self.io_of(oldest));
            } else {
                flushing.again = true;
                let ticket = self.pages.reserved.of(page);
                ticket
                    .and_then(|ticket| self.io_of_pass(ticket))
                    .into_iter()
                    .for_each(|key| flushing.wait_for(key));
            }
        }
        self.write_back(&mut batch, flushing.own);
        self.batch = batch;
        self.begun.iter().for_each(|&key| flushing.wait_for(key));
    }

    fn flush_device(&mut self, task: &mut Task, failed: Option<Failure>) -> Step {
        let key = match task.flushing.device {
            Some(key) => key,
            None => {
                let of_all = is_of_disk(task);
                let write = self.unflushed.to_cover(of_all);
                match self.unflushed.flush_of(write) {
                    Some(key) => key,
                    // Of caches that are no shards of one nothing is known.
                    None if self.unflushed.is_flushed(write) && !(of_all && self.place.is_none()) => {
                        return Ok(true);
                    }
                    None => {
                        let key = self.pass_flush(&task.ask);
                        self.unflushed.begin_flush(key);
                        key
                    }
                }
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

    /// Passes on a discard or write-zeroes: no other operation uses the range until the device has done it.
    pub(super) fn pass_on(&mut self, task: &mut Task) -> Step {
        if task.ticket == 0 {
            let range = task.start..task.start + task.size;
            let ask = (task.ask.context, task.ask.ioprio);
            return match self.begin_pass(task.ask.lane, task.bio.op(), range, ask, &mut None) {
                Ok(ticket) => {
                    task.ticket = ticket;
                    // Usually nothing has to be done first.
                    self.run_jobs();
                    self.park_for_job(task)
                }
                Err(other) => self.park_for_range(task, other),
            };
        }
        self.jobs.result(task.ticket)?;
        task.ticket = 0;
        task.bio.advance(task.bio.len());
        if task.bio.flags().intersects(DURABLE) {
            task.phase = Phase::After;
            return Ok(false);
        }
        Ok(true)
    }

    // Commands of the device's own set are operations on the range that they reach: no other operation uses it until the
    // command has ended, dirty pages of it are written first, and its pages are dropped afterwards if the command may have
    // changed blocks, whether it succeeded or not.

    /// Advances a command.
    pub(super) fn command(&mut self, task: &mut Task) -> Step {
        if task.ticket == 0 {
            return self.begin_command(task);
        }
        let answer = self.jobs.answers.take(task.ticket).unwrap_or_default();
        let result = self.jobs.result(task.ticket);
        task.ticket = 0;
        result?;
        // The lane copies its data.
        task.exchange = Some(Box::new(Exchange::Came(answer)));
        Ok(true)
    }

    fn begin_command(&mut self, task: &mut Task) -> Step {
        let refused = Err(Engine::at_layer(Kind::Unsupported, task.start));
        let Some(command) = task.bio.command().cloned() else { return refused };
        if task.bio.flags().intersects(BARRIER | Flags::PREFLUSH | Flags::FUA) {
            return refused;
        }
        // Dirty pages might overwrite what the command does, or be what it relies on.
        let dirty = self.pages.dirty.count + self.pages.dirty.pending;
        if command.reach() == Reach::Everything && dirty > 0 {
            let code = command.bytes().first().copied().unwrap_or_default();
            self.jobs.answers.refused = Some(format!(
                "{} command {code:02x}h may change any block, and the cache has {dirty} dirty pages: flush first",
                command.set()
            ));
            return Err((answers::DIRTY, task.start));
        }
        let end = self.pages.end() * PAGE;
        let (first, last) = command.reach().range();
        let range = first.min(end)..last.min(end);
        let ask = (task.ask.context, task.ask.ioprio);
        let Some(Exchange::ToSend(data)) = task.exchange.take().map(|exchange| *exchange) else {
            return refused;
        };
        let mut sent = Some((command, data));
        let begun = self.begin_pass(task.ask.lane, task.bio.op(), range, ask, &mut sent);
        // It still has its data if it has to wait.
        task.exchange = sent.map(|(_, data)| Box::new(Exchange::ToSend(data)));
        match begun {
            Ok(ticket) => {
                task.ticket = ticket;
                self.run_jobs();
                self.park_for_job(task)
            }
            Err(other) => self.park_for_range(task, other),
        }
    }

    /// Drops dirty data of a range that could not be written, from a page on. Other writes to these pages are
    /// kept: what became dirty after `limit`, the last number when the flush of the data began, unless its write-back has
    /// failed, too. Returns the page to continue at if there is more.
    pub(super) fn forget(
        &mut self,
        range: &Range<u64>,
        from: u64,
        limit: u32,
        fault: (Fault, u64),
    ) -> Option<u64> {
        let mut at = from.max(range.start / PAGE);
        let (mut dropped, mut rest) = (None::<Range<u64>>, None);
        while let Some(page) = self.pages.dirty.extents.next(at, range.end.div_ceil(PAGE)) {
            if self.is_spent() {
                rest = Some(page);
                break;
            }
            at = page + 1;
            self.work += 1;
            let Some(frame) = self.pages.store.find(page) else { continue };
            let info = *self.pages.info(frame);
            let closed = self.pages.reserved.is_closed(page);
            let newer = !info.is(FAILED) && (limit.wrapping_sub(info.seq) as i32) < 0;
            if info.dirty == 0 || info.older != NONE || info.is(FILLING | WRITING) || closed || newer {
                continue;
            }
            let (start, end) = (page * PAGE, (page + 1) * PAGE);
            let part = range.start.max(start)..range.end.min(end);
            let own = blocks((part.start - start) as usize..(part.end - start) as usize);
            match info.dirty & !own {
                0 => self.pages.drop_page(frame),
                _ => self.pages.forget_blocks(frame, own),
            }
            if info.dirty & own != 0 {
                dropped.get_or_insert(part.clone()).end = part.end;
            }
        }
        if let Some(range) = dropped {
            self.drops += 1;
            self.dropped.push_back((range, fault));
            if self.dropped.len() > DROPS {
                self.dropped.pop_front();
            }
        }
        rest
    }

    /// The fault because of which data of a range may have been dropped since the number of drops was `since`.
    pub(super) fn dropped_since(&self, since: u64, range: &Range<u64>) -> Option<(Fault, u64)> {
        let news = (self.drops - since) as usize;
        let overlaps = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        let mut last = self.dropped.iter().rev().take(news);
        last.find(|(other, _)| news > DROPS || overlaps(other)).map(|&(_, fault)| fault)
    }
}
