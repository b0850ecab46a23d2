//! Work that the engine does in pieces on whichever lane is run: reading ranges that a program will need,
//! dropping ranges that it does not need, and operations of the device on ranges (discard, write-zeroes, commands).
//!
//! None of this depends on the lane that requested it, which may not be run again for a long time.

use super::answers::Answers;
use super::engine::{Ask, Engine, WINDOW};
use super::ios::{IoKey, Ios};
use super::pages::{CURRENT, PageTable};
use super::task::{Flushing, Progress};
use super::writeback::{BATCH, MAX_WRITES};
use crate::readahead::{PAGE, Window};
use platter_block::bio::{Context, IoPrio, Op};
use platter_block::command::Command;
use platter_block::fault::Fault;
use platter_block::handle::HandleId;
use platter_block::lane::{Cancel, Left};
use platter_stack::kit::port::Order;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Most ranges queued for reading ahead; further advice is ignored.
const MAX_PREFETCH: usize = 1024;

/// Most I/Os in flight for such ranges.
const PREFETCH_OUT: u32 = 16;

/// After this many pages that are dropped, stale entries of the order of dirty pages are removed.
const TIDIED: u32 = 64;

/// A range whose cached pages are visited in pieces.
pub(super) struct Scan {
    pages: Range<u64>,
    /// The position: a page, or a frame if there are fewer frames than pages.
    at: u64,
    by_frame: bool,
}

impl Scan {
    fn new(pages: Range<u64>, table: &PageTable) -> Scan {
        let by_frame = pages.end.saturating_sub(pages.start) > u64::from(table.used());
        Scan { at: if by_frame { 0 } else { pages.start }, pages, by_frame }
    }

    /// The next frame, after at most `looks` steps, and the number of steps taken. `Err`: the end was
    /// reached.
    fn next(&mut self, table: &PageTable, looks: u32) -> Result<(Option<u32>, u32), u32> {
        let end = if self.by_frame { u64::from(table.used()) } else { self.pages.end };
        for taken in 0..looks {
            if self.at >= end {
                return Err(taken);
            }
            let at = self.at;
            self.at += 1;
            let found = match self.by_frame {
                true => Some(at as u32).filter(|&frame| {
                    table.info(frame).is(CURRENT) && self.pages.contains(&table.store.page(frame))
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
    /// The lane that waits for it; `None`: no lane does any more.
    lane: Option<u32>,
    op: Op,
    /// The command that it is, with its data, until the device has it.
    command: Option<(Arc<Command>, Vec<u8>)>,
    range: Range<u64>,
    context: Context,
    ioprio: IoPrio,
    /// It changes no block, so that cached pages stay valid.
    keeps_pages: bool,
    /// Data was being copied into pages when it began. They are dirty when nothing of its range is busy any more, after the
    /// search for such pages may have passed them.
    looks_again: bool,
    state: PassState,
    /// Its lane was dropped when a device was carrying it out.
    left: Option<Arc<dyn Left>>,
}

enum PassState {
    /// Pages that must be written first are being looked for, from this page on.
    Clear(u64),
    /// This page is being written.
    Flush(u64, Flushing),
    /// The device carries out the operation.
    Out(IoKey),
    /// The device has finished, with or without a fault: the cached pages are out of date.
    Sweep(Scan, Option<(Fault, u64)>),
}

/// All jobs.
#[derive(Default)]
pub(super) struct Jobs {
    prefetches: VecDeque<Prefetch>,
    dont_need: VecDeque<Scan>,
    passes: Vec<Pass>,
    /// Operations that have ended, with their results, which their tasks have not fetched yet.
    over: Vec<(u64, Option<(Fault, u64)>)>,
    /// The answers to commands that have ended.
    pub(super) answers: Answers,
    /// Work is left that only waits for the next turn.
    pub(super) can_go_on: bool,
}

impl Jobs {
    /// Queues pages for reading ahead.
    pub(super) fn prefetch(&mut self, ask: &Ask, pages: Range<u64>, mark: Option<u64>) {
        if pages.start < pages.end && self.prefetches.len() < MAX_PREFETCH {
            let ask = Ask { demand: 0..0, own: false, ..ask.clone() };
            self.prefetches.push_back(Prefetch { ask, pages, mark });
            self.can_go_on = true;
        }
    }

    /// A handle is closed: its queued ranges are read on behalf of the device.
    pub(super) fn forget_handle(&mut self, place: u16) {
        for prefetch in self.prefetches.iter_mut().filter(|prefetch| prefetch.ask.handle == place) {
            prefetch.ask.handle = 0;
        }
    }

    /// Drops all queued ranges, for a cache that is dropped.
    pub(super) fn stop_reading(&mut self) {
        self.prefetches.clear();
    }

    /// Whether there are any jobs.
    pub(super) fn is_empty(&self) -> bool {
        self.prefetches.is_empty() && self.dont_need.is_empty() && self.passes.is_empty()
    }

    /// Whether an operation has not ended yet.
    pub(super) fn is_running(&self, ticket: u64) -> bool {
        self.passes.iter().any(|pass| pass.ticket == ticket)
    }

    /// The result of an operation that has ended.
    pub(super) fn result(&mut self, ticket: u64) -> Result<(), (Fault, u64)> {
        let at = self.over.iter().position(|&(over, _)| over == ticket);
        match at.and_then(|at| self.over.swap_remove(at).1) {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }
}

impl Engine {
    /// Starts reading a range that will be needed.
    pub(super) fn will_need(&mut self, id: HandleId, pos: u64, len: u64) {
        let ask = Ask {
            lane: 0,
            handle: self.handles.place(id),
            id,
            demand: 0..0,
            own: false,
            context: Context::default(),
            ioprio: IoPrio::default(),
        };
        // At most half of the cache; otherwise the end of the range would evict its beginning.
        let shards = self.place.as_ref().map_or(1, |place| place.placement.count());
        let most = u64::from(self.pages.most() / 2) * shards;
        let first = pos / PAGE;
        let end = pos.saturating_add(len).div_ceil(PAGE).min(self.pages.end()).min(first + most);
        self.jobs.prefetch(&ask, first..end, None);
    }

    /// The pages that lie in a range as a whole, for [`drop_clean`](Engine::drop_clean).
    pub(super) fn whole_pages(&self, pos: u64, len: u64) -> Scan {
        let end = pos.saturating_add(len);
        let end = if end >= self.pages.size() { self.pages.end() } else { end / PAGE };
        Scan::new(pos.div_ceil(PAGE)..end, &self.pages)
    }

    /// Drops clean pages of a range, as many as the turn allows. Returns whether there may be more. If it is over, pages that
    /// are dirty, which `others` says, are written, and are evicted before others then.
    pub(super) fn drop_clean(&mut self, scan: &mut Scan, others: &mut bool) -> bool {
        while !self.is_spent() {
            match scan.next(&self.pages, 16) {
                Ok((frame, _)) => {
                    self.work += 1;
                    *others |= frame.is_some_and(|frame| !self.pages.drop_clean(frame));
                }
                Err(_) => {
                    if *others && self.jobs.dont_need.len() < MAX_PREFETCH {
                        self.jobs.dont_need.push_back(Scan::new(scan.pages.clone(), &self.pages));
                        self.jobs.can_go_on = true;
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Begins an operation of the device on a range, which no other operation uses until it ends, and takes its `command`. `Err`: the
    /// ticket of an operation that has to end first.
    pub(super) fn begin_pass(
        &mut self,
        lane: u32,
        op: Op,
        range: Range<u64>,
        (context, ioprio): (Context, IoPrio),
        command: &mut Option<(Arc<Command>, Vec<u8>)>,
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
        let looks_again = self.ios.copying > 0;
        let changes = |(command, _): &(Arc<Command>, _)| command.reach().changes();
        let keeps_pages = !command.as_ref().is_none_or(changes);
        let pass = Pass {
            ticket,
            lane,
            op,
            command: command.take(),
            range,
            context,
            ioprio,
            keeps_pages,
            looks_again,
            state,
            left: None,
        };
        self.jobs.passes.push(pass);
        self.jobs.can_go_on = true;
        Ok(ticket)
    }

    /// The task of an operation no longer waits for it. If it has not begun, it is dropped.
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
        self.jobs.answers.forget(ticket);
    }

    /// The lane of an operation is dropped. If the device is carrying out a change, what `keep` returns is kept until that is over.
    pub(super) fn leave_pass(&mut self, ticket: u64, keep: impl FnOnce() -> Option<Arc<dyn Left>>) {
        let is_out = |pass: &&mut Pass| {
            pass.ticket == ticket && !pass.keeps_pages && matches!(pass.state, PassState::Out(_))
        };
        if let Some(pass) = self.jobs.passes.iter_mut().find(is_out) {
            pass.left = keep();
        }
    }

    /// The I/O of an operation that the device is carrying out.
    pub(super) fn io_of_pass(&self, ticket: u64) -> Option<IoKey> {
        self.jobs.passes.iter().find(|pass| pass.ticket == ticket).and_then(|pass| match pass.state {
            PassState::Out(key) => Some(key),
            _ => None,
        })
    }

    /// Asks the device to take an operation back that was passed on.
    pub(super) fn cancel(&mut self, key: IoKey, which: &Cancel) {
        self.port.order([Order::Cancel(which.with_token(Ios::token(key)))]);
    }

    /// Whether the result of an operation is there, which its task has not fetched yet, or follows when cached pages have been
    /// dropped. The device may have carried it out, so it is too late to take it back.
    pub(super) fn has_result(&self, ticket: u64) -> bool {
        let sweeps = |pass: &Pass| pass.ticket == ticket && matches!(pass.state, PassState::Sweep(..));
        self.jobs.over.iter().any(|&(over, _)| over == ticket) || self.jobs.passes.iter().any(sweeps)
    }

    /// Does a piece of each job.
    pub(super) fn run_jobs(&mut self) {
        // The last one may have ended outside: then there is nothing to go on with.
        self.jobs.can_go_on = false;
        if self.jobs.is_empty() {
            return;
        }
        // First those that have only to drop pages: others may wait for these pages.
        self.run_passes(true);
        self.run_passes(false);
        self.run_dont_need();
        self.run_prefetch();
    }

    /// Does a piece of each operation that the device has carried out, or of each other one.
    fn run_passes(&mut self, carried_out: bool) {
        let mut at = 0;
        while let Some(pass) = self.jobs.passes.get(at) {
            if self.is_spent() {
                self.jobs.can_go_on = true;
                break;
            }
            let before = self.jobs.passes.len();
            if matches!(pass.state, PassState::Sweep(..)) == carried_out {
                self.run_pass(at);
            }
            at += usize::from(self.jobs.passes.len() == before);
        }
    }

    fn run_prefetch(&mut self) {
        while let Some(prefetch) = self.jobs.prefetches.front() {
            if self.ios.ahead >= PREFETCH_OUT {
                // The completions will continue it.
                return;
            }
            if self.is_spent() {
                self.jobs.can_go_on = true;
                return;
            }
            let (ask, mark, end) = (prefetch.ask.clone(), prefetch.mark, prefetch.pages.end);
            let first = self.own_run(prefetch.pages.start, end).start;
            let count = (end - first).min(u64::from(WINDOW)) as u32;
            let next = first + u64::from(count);
            self.fill(&ask, Window { first, count, mark, sync: false });
            // Looking up pages counts as work, too.
            self.work += 1 + count / 16;
            // Of other shards nothing is known here.
            let last = self.own_runs(first..next).last();
            let is_there = last.is_none_or(|run| self.pages.store.find(run.end - 1).is_some());
            if let Some(prefetch) = self.jobs.prefetches.front_mut() {
                prefetch.pages.start = next;
                // If there is no frame for the last page, there is none for the rest.
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
            // Pages that are clean or may not be written yet are skipped.
            self.write_back(&mut batch, false);
            self.batch = batch;
            if !over {
                self.jobs.dont_need.push_front(scan);
                self.jobs.can_go_on |= self.ios.writing < MAX_WRITES;
                return;
            }
        }
    }

    /// Advances an operation. Removes it from the list when it has ended.
    fn run_pass(&mut self, at: usize) {
        let mut flushed = None;
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
                    let whole = pass.op == Op::Command;
                    match self.first_obstacle(from, &range, whole) {
                        Obstacle::Looked(next) => self.set_pass(at, PassState::Clear(next)),
                        Obstacle::Dirty(page) => {
                            self.set_pass(at, PassState::Flush(page, Flushing::default()));
                        }
                        Obstacle::None => {
                            self.set_pass(at, PassState::Clear(range.end.div_ceil(PAGE)));
                            let reserved = self.pages.reserved.get(ticket);
                            if reserved.is_some_and(|reserved| reserved.busy > 0) {
                                return;
                            }
                            if std::mem::take(&mut self.jobs.passes[at].looks_again) {
                                self.set_pass(at, PassState::Clear(range.start / PAGE));
                                continue;
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
                                if flushed.replace(page) == Some(page) {
                                    // What keeps it from being written ends outside of this loop.
                                    self.jobs.can_go_on = true;
                                    return;
                                }
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

    /// Finds a page of a range, from a page on, that must be written before an operation on the range: one
    /// that is dirty and not entirely in the range, or one with an older version; with `all`, each that is dirty.
    fn first_obstacle(&mut self, from: u64, range: &Range<u64>, all: bool) -> Obstacle {
        let (mut at, end) = (from, range.end.div_ceil(PAGE));
        while !self.is_spent() {
            let Some(page) = self.pages.dirty.extents.next(at, end) else { return Obstacle::None };
            at = page + 1;
            self.work += 1;
            let Some(frame) = self.pages.store.find(page) else { continue };
            let info = self.pages.info(frame);
            let last = page * PAGE + self.pages.bytes_of(page) as u64;
            let inside = !all && range.start <= page * PAGE && last <= range.end;
            if info.older != super::frames::NONE || (info.dirty != 0 && !inside) {
                return Obstacle::Dirty(page);
            }
        }
        Obstacle::Looked(at)
    }

    /// Passes an operation to the device once nothing is in its way.
    fn send_pass(&mut self, at: usize) {
        let pass = &self.jobs.passes[at];
        let (ticket, op, range) = (pass.ticket, pass.op, pass.range.clone());
        let (context, ioprio) = (pass.context, pass.ioprio);
        if let Some(reserved) = self.pages.reserved.get(ticket) {
            reserved.closed = true;
        }
        let mut bio = self.ios.bio();
        match self.jobs.passes[at].command.take() {
            // A copy of its data stays with the device as long as it needs it.
            Some((command, data)) => {
                if let Err(fault) = bio.reset_command(command, data) {
                    return self.end_pass(at, Some((fault, 0)));
                }
            }
            None => bio.reset(op, range.start, range.end - range.start),
        }
        let key = self.pass(bio, (context, ioprio), false);
        self.set_pass(at, PassState::Out(key));
    }

    /// The device has completed an operation that was passed on.
    pub(super) fn passed(&mut self, key: IoKey, failed: Option<(Fault, u64)>) {
        if self.unflushed.end_flush(key, failed.is_none()) {
            return;
        }
        self.unflushed.wrote();
        let is_it = |pass: &Pass| matches!(pass.state, PassState::Out(out) if out == key);
        if let Some(at) = self.jobs.passes.iter().position(is_it) {
            let pass = &mut self.jobs.passes[at];
            pass.left = None;
            self.jobs.answers.arrived(key, pass.ticket);
            if pass.keeps_pages {
                return self.end_pass(at, failed);
            }
            let range = &pass.range;
            let scan = Scan::new(range.start / PAGE..range.end.div_ceil(PAGE), &self.pages);
            self.set_pass(at, PassState::Sweep(scan, failed));
            self.jobs.can_go_on = true;
        }
    }

    /// Drops the cached data of a range; after a failed operation only clean data, because the contents of
    /// the disk are unknown. Returns whether this is complete, which ends the operation.
    fn sweep(&mut self, at: usize) -> bool {
        let state = std::mem::replace(&mut self.jobs.passes[at].state, PassState::Clear(0));
        let PassState::Sweep(mut scan, failed) = state else { return false };
        // Pages that are dropped while dirty leave stale entries in their order.
        self.pages.tidy();
        let mut dropped = 0u32;
        while !self.is_spent() {
            match scan.next(&self.pages, 16) {
                Err(_) => {
                    self.end_pass(at, failed);
                    return true;
                }
                Ok((frame, _)) => {
                    self.work += 1;
                    match frame {
                        Some(frame) if failed.is_some() && self.pages.info(frame).dirty != 0 => {
                            self.pages.keep_dirty(frame);
                        }
                        Some(frame) => {
                            self.pages.drop_page(frame);
                            dropped += 1;
                            if dropped.is_multiple_of(TIDIED) {
                                self.pages.tidy();
                            }
                        }
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
        // Pages of its range may be written again.
        self.pages.dirty.stalled = false;
        let pass = self.jobs.passes.swap_remove(at);
        for lane in self.pages.reserved.end(pass.ticket) {
            self.lanes.kick(lane);
        }
        match pass.lane {
            Some(lane) => {
                self.jobs.over.push((pass.ticket, failed));
                self.lanes.kick(lane);
            }
            None => self.jobs.answers.forget(pass.ticket),
        }
    }
}

/// What delays an operation on a range.
enum Obstacle {
    /// Nothing.
    None,
    /// A page that must be written first.
    Dirty(u64),
    /// Nothing before this page; the rest was not checked.
    Looked(u64),
}
