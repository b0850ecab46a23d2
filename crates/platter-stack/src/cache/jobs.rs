//! What the engine does in pieces, by whichever lane is run: reading what a program said it will need, letting go what it
//! does not need, and operations of the device on ranges (discard, write-zeroes).
//!
//! None of it depends on the lane that asked for it: that may not be run again for a long time.

use super::engine::{Ask, Engine, WINDOW};
use super::ios::IoKey;
use super::pages::{CURRENT, PageTable};
use super::task::{Flushing, Progress};
use super::writeback::{BATCH, MAX_WRITES};
use platter_block::bio::{Context, IoPrio, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::readahead::{PAGE, Window};
use platter_block::time::Time;
use std::collections::VecDeque;
use std::ops::Range;

/// Ranges to be read ahead that are remembered; what a program says beyond that is not heard.
const MAX_PREFETCH: usize = 1024;

/// I/Os of such reading that are out at a time.
const PREFETCH_OUT: u32 = 16;

/// A range of which every page in memory is looked at, in pieces.
struct Scan {
    pages: Range<u64>,
    /// Where it is: a page, or if there are fewer frames than pages a frame.
    at: u64,
    by_frame: bool,
}

impl Scan {
    fn new(pages: Range<u64>, table: &PageTable) -> Scan {
        let by_frame = pages.end.saturating_sub(pages.start) > u64::from(table.store.count());
        Scan { at: if by_frame { 0 } else { pages.start }, pages, by_frame }
    }

    /// The next frame after at most `looks`; how many were taken. `Err`: that was all.
    fn next(&mut self, table: &PageTable, looks: u32) -> Result<(Option<u32>, u32), u32> {
        let end = if self.by_frame { u64::from(table.store.count()) } else { self.pages.end };
        for taken in 0..looks {
            if self.at >= end {
                return Err(taken);
            }
            let at = self.at;
            self.at += 1;
            let found = match self.by_frame {
                true => Some(at as u32).filter(|&frame| {
                    table.meta(frame).is(CURRENT) && self.pages.contains(&table.store.page(frame))
                }),
                false => table.store.find(at),
            };
            if found.is_some() {
                return Ok((found, taken + 1));
            }
        }
        Ok((None, looks))
    }
}

/// Pages to read ahead.
struct Prefetch {
    ask: Ask,
    pages: Range<u64>,
    mark: Option<u64>,
}

/// An operation of the device on a range.
pub(super) struct Pass {
    pub(super) ticket: u64,
    /// Who waits for it; `None`: nobody any more.
    lane: Option<u32>,
    op: Op,
    range: Range<u64>,
    context: Context,
    ioprio: IoPrio,
    deadline: Option<Time>,
    state: PassState,
}

enum PassState {
    /// What has to be written before it is looked for, from a page on.
    Clear(u64),
    /// It is written: a page.
    Flush(u64, Flushing),
    /// The device does it.
    Out(IoKey),
    /// It has, well or not: the pages in memory are as they were no more.
    Sweep(Scan, Option<(Fault, u64)>),
}

/// All jobs.
#[derive(Default)]
pub(super) struct Jobs {
    prefetches: VecDeque<Prefetch>,
    dont_need: VecDeque<Scan>,
    passes: Vec<Pass>,
    /// Operations that are over, and how, of which their tasks have not been told.
    over: Vec<(u64, Option<(Fault, u64)>)>,
    /// Something is left that waits for nothing but its turn.
    pub(super) can_go_on: bool,
}

impl Jobs {
    /// Has pages read that nobody has asked for yet.
    pub(super) fn prefetch(&mut self, ask: &Ask, pages: Range<u64>, mark: Option<u64>) {
        if pages.start < pages.end && self.prefetches.len() < MAX_PREFETCH {
            let ask = Ask { demand: 0..0, own: false, deadline: None, ..ask.clone() };
            self.prefetches.push_back(Prefetch { ask, pages, mark });
            self.can_go_on = true;
        }
    }

    /// A handle is closed: what it asked for is read for the device.
    pub(super) fn forget_handle(&mut self, place: u16) {
        for prefetch in self.prefetches.iter_mut().filter(|prefetch| prefetch.ask.handle == place) {
            prefetch.ask.handle = 0;
        }
    }

    /// The cache goes: nothing is read ahead any more.
    pub(super) fn stop_reading(&mut self) {
        self.prefetches.clear();
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.prefetches.is_empty() && self.dont_need.is_empty() && self.passes.is_empty()
    }

    /// Whether an operation is not over yet.
    pub(super) fn is_running(&self, ticket: u64) -> bool {
        self.passes.iter().any(|pass| pass.ticket == ticket)
    }

    /// How an operation ended.
    pub(super) fn result(&mut self, ticket: u64) -> Result<(), (Fault, u64)> {
        let at = self.over.iter().position(|&(over, _)| over == ticket);
        match at.and_then(|at| self.over.swap_remove(at).1) {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }
}

impl Engine {
    /// Lets the pages of a range go: clean ones at once, dirty ones when they have been written.
    pub(super) fn dont_need(&mut self, pos: u64, len: u64) {
        let end = pos.saturating_add(len).min(self.pages.end() * PAGE);
        let pages = pos / PAGE..end.div_ceil(PAGE);
        if pages.start < pages.end && self.jobs.dont_need.len() < MAX_PREFETCH {
            self.jobs.dont_need.push_back(Scan::new(pages, &self.pages));
            self.jobs.can_go_on = true;
        }
    }

    /// Begins an operation of the device on a range that nobody else touches until it is over. `Err`: the ticket of one
    /// that has to end first.
    pub(super) fn begin_pass(
        &mut self,
        lane: u32,
        op: Op,
        range: Range<u64>,
        (context, ioprio, deadline): (Context, IoPrio, Option<Time>),
    ) -> Result<u64, u64> {
        let pages = range.start / PAGE..range.end.div_ceil(PAGE);
        let (mut busy, store) = (0, &self.pages.store);
        self.ios.each_run(&mut |first, last| {
            let (first, last) = (store.page(first).max(pages.start), (store.page(last) + 1).min(pages.end));
            busy += last.saturating_sub(first) as u32;
        });
        let first = pages.start;
        let ticket = self.pages.reserved.reserve(pages, busy)?;
        let (lane, state) = (Some(lane), PassState::Clear(first));
        let pass = Pass { ticket, lane, op, range, context, ioprio, deadline, state };
        self.jobs.passes.push(pass);
        self.jobs.can_go_on = true;
        Ok(ticket)
    }

    /// Nobody waits for an operation any more. It is not begun if it has not been.
    pub(super) fn abandon_pass(&mut self, ticket: u64) {
        let at = self.jobs.passes.iter().position(|pass| pass.ticket == ticket);
        if let Some(at) = at {
            let pass = &mut self.jobs.passes[at];
            pass.lane = None;
            if matches!(pass.state, PassState::Clear(_) | PassState::Flush(..)) {
                self.end_pass(at, None);
            }
        }
        let _ = self.jobs.result(ticket);
    }

    /// The I/O of an operation, if the device has it.
    pub(super) fn io_of_pass(&self, ticket: u64) -> Option<IoKey> {
        self.jobs.passes.iter().find(|pass| pass.ticket == ticket).and_then(|pass| match pass.state {
            PassState::Out(key) => Some(key),
            _ => None,
        })
    }

    /// Does a piece of each job.
    pub(super) fn run_jobs(&mut self) {
        if self.jobs.is_empty() {
            return;
        }
        self.jobs.can_go_on = false;
        let mut at = 0;
        while at < self.jobs.passes.len() {
            if self.is_spent() {
                self.jobs.can_go_on = true;
                break;
            }
            let before = self.jobs.passes.len();
            self.run_pass(at);
            at += usize::from(self.jobs.passes.len() == before);
        }
        self.run_dont_need();
        self.run_prefetch();
    }

    fn run_prefetch(&mut self) {
        while let Some(prefetch) = self.jobs.prefetches.front() {
            if self.ios.ahead >= PREFETCH_OUT {
                // What comes back brings it on.
                return;
            }
            if self.is_spent() {
                self.jobs.can_go_on = true;
                return;
            }
            let (ask, mark, first) = (prefetch.ask.clone(), prefetch.mark, prefetch.pages.start);
            let count = (prefetch.pages.end - first).min(u64::from(WINDOW)) as u32;
            let next = first + u64::from(count);
            self.fill(&ask, Window { first, count, mark, sync: false });
            // Looking pages up is work, too.
            self.work += 1 + count / 16;
            let is_there = self.pages.store.find(next - 1).is_some();
            if let Some(prefetch) = self.jobs.prefetches.front_mut() {
                prefetch.pages.start = next;
                // Without a frame for the last page there is none for the rest.
                if next >= prefetch.pages.end || !is_there {
                    self.jobs.prefetches.pop_front();
                }
            }
        }
    }

    fn run_dont_need(&mut self) {
        while let Some(mut scan) = self.jobs.dont_need.pop_front() {
            let mut batch = std::mem::take(&mut self.batch);
            let over = loop {
                if self.is_spent() || self.ios.writing >= MAX_WRITES || batch.len() >= BATCH {
                    break false;
                }
                match scan.next(&self.pages, 16) {
                    Err(_) => break true,
                    Ok((frame, _)) => {
                        self.work += 1;
                        let Some(frame) = frame else { continue };
                        self.pages.cool(frame);
                        if self.pages.may_write(frame) {
                            batch.push(frame);
                        }
                    }
                }
            };
            // What is clean, or may not be written yet, is passed over.
            self.write_back(&mut batch);
            self.batch = batch;
            if !over {
                self.jobs.dont_need.push_front(scan);
                self.jobs.can_go_on |= self.ios.writing < MAX_WRITES;
                return;
            }
        }
    }

    /// Brings an operation further. It is gone from the list when it is over.
    fn run_pass(&mut self, at: usize) {
        loop {
            if self.is_spent() {
                self.jobs.can_go_on = true;
                return;
            }
            let pass = &mut self.jobs.passes[at];
            let (ticket, range) = (pass.ticket, pass.range.clone());
            match &mut pass.state {
                PassState::Clear(page) => {
                    let from = *page;
                    match self.first_obstacle(from, &range) {
                        Obstacle::Looked(next) => self.set_pass(at, PassState::Clear(next)),
                        Obstacle::Dirty(page) => {
                            if self.doubt(Some(&(page * PAGE..(page + 1) * PAGE))).is_some() {
                                // Until the device has given it back.
                                return self.set_pass(at, PassState::Clear(page));
                            }
                            self.set_pass(at, PassState::Flush(page, Flushing::default()));
                        }
                        Obstacle::None => {
                            self.set_pass(at, PassState::Clear(range.end.div_ceil(PAGE)));
                            let reserved = self.pages.reserved.get(ticket);
                            if reserved.is_some_and(|reserved| reserved.busy > 0) {
                                return;
                            }
                            return self.send_pass(at);
                        }
                    }
                }
                PassState::Flush(page, flushing) => {
                    let (page, mut flushing) = (*page, std::mem::take(flushing));
                    let own = page * PAGE..(page + 1) * PAGE;
                    let progress = self.write_out(&mut flushing, Some(&own));
                    match progress {
                        Progress::Again => self.jobs.can_go_on = true,
                        Progress::Waits(_) => {}
                        Progress::Done => match self.flush_fault(&flushing, Some(&own)) {
                            Some(fault) => return self.end_pass(at, Some(fault)),
                            None => {
                                self.set_pass(at, PassState::Clear(page));
                                continue;
                            }
                        },
                    }
                    return self.set_pass(at, PassState::Flush(page, flushing));
                }
                PassState::Out(_) => return,
                PassState::Sweep(..) => {
                    if self.sweep(at) {
                        return;
                    }
                }
            }
        }
    }

    fn set_pass(&mut self, at: usize, state: PassState) {
        self.jobs.passes[at].state = state;
    }

    /// Looks for a page of a range, from a page on, that has to be written before an operation on the range: one that is
    /// dirty and not all in it, or of which an older version is left.
    fn first_obstacle(&mut self, from: u64, range: &Range<u64>) -> Obstacle {
        let (mut at, end) = (from, range.end.div_ceil(PAGE));
        while !self.is_spent() {
            let Some(page) = self.pages.dirty.extents.next(at, end) else { return Obstacle::None };
            at = page + 1;
            self.work += 1;
            let Some(frame) = self.pages.store.find(page) else { continue };
            let meta = self.pages.meta(frame);
            let last = page * PAGE + self.pages.bytes_of(page) as u64;
            let inside = range.start <= page * PAGE && last <= range.end;
            if meta.older != super::frames::NONE || (meta.dirty != 0 && !inside) {
                return Obstacle::Dirty(page);
            }
        }
        Obstacle::Looked(at)
    }

    /// The device gets an operation for which everything is ready.
    fn send_pass(&mut self, at: usize) {
        let pass = &self.jobs.passes[at];
        let (ticket, op, range) = (pass.ticket, pass.op, pass.range.clone());
        let (context, ioprio, deadline) = (pass.context, pass.ioprio, pass.deadline);
        if let Some(reserved) = self.pages.reserved.get(ticket) {
            reserved.closed = true;
        }
        let key = self.pass_until(op, range, context, ioprio, deadline);
        self.set_pass(at, PassState::Out(key));
    }

    /// The device is done with something that was passed on.
    pub(super) fn passed(&mut self, key: IoKey, failed: Option<(Fault, u64)>) {
        if self.flushing == Some(key) {
            self.flushing = None;
            self.unflushed |= failed.is_some();
            return;
        }
        self.unflushed = true;
        let is_it = |pass: &Pass| matches!(pass.state, PassState::Out(out) if out == key);
        if let Some(at) = self.jobs.passes.iter().position(is_it) {
            let range = &self.jobs.passes[at].range;
            let scan = Scan::new(range.start / PAGE..range.end.div_ceil(PAGE), &self.pages);
            self.set_pass(at, PassState::Sweep(scan, failed));
            self.jobs.can_go_on = true;
        }
    }

    /// What was in memory of a range is so no more; if the operation failed, only what is dirty is: nobody knows what the
    /// disk has. Whether that is over, and the operation with it.
    fn sweep(&mut self, at: usize) -> bool {
        let state = std::mem::replace(&mut self.jobs.passes[at].state, PassState::Clear(0));
        let PassState::Sweep(mut scan, failed) = state else { return false };
        while !self.is_spent() {
            match scan.next(&self.pages, 16) {
                Err(_) => {
                    self.end_pass(at, failed);
                    return true;
                }
                Ok((frame, _)) => {
                    self.work += 1;
                    match frame {
                        Some(frame) if failed.is_some() && self.pages.meta(frame).dirty != 0 => {
                            self.pages.keep_dirty(frame);
                        }
                        Some(frame) => self.pages.drop_page(frame),
                        None => {}
                    }
                }
            }
        }
        self.set_pass(at, PassState::Sweep(scan, failed));
        false
    }

    fn end_pass(&mut self, at: usize, failed: Option<(Fault, u64)>) {
        (self.events, self.progress) = (true, true);
        let pass = self.jobs.passes.swap_remove(at);
        for lane in self.pages.reserved.end(pass.ticket) {
            self.lanes.kick(lane);
        }
        if let Some(lane) = pass.lane {
            self.jobs.over.push((pass.ticket, failed));
            self.lanes.kick(lane);
        }
    }

    /// Why an operation is not over, for somebody whose time is: what it needs may still be with the device.
    pub(super) fn why_late(&mut self, range: &Range<u64>) -> Fault {
        let kind = if self.doubt(Some(range)).is_some() { Kind::InDoubt } else { Kind::TimedOut };
        Fault::new(kind, Stage::Layer)
    }
}

/// What is in the way of an operation on a range.
enum Obstacle {
    /// Nothing.
    None,
    /// A page that must be written first.
    Dirty(u64),
    /// Nothing before this page; the rest was not looked at.
    Looked(u64),
}
