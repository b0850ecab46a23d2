//! What the lanes of a cache share, under one lock: pages, handles, and the lane on which whoever comes first runs
//! what nobody in particular waits for.
//!
//! A read whose caller sleeps until it is there goes to the disk on the caller's own lane. All else (readahead,
//! write-back, reads of programs that poll) goes on the shared one, so that its completion strands on nobody's.
//!
//! Nobody holds the lock for long: what is done in one go is counted in pages ([`Engine::is_spent`]), and what is left is
//! done when the lock is taken again.

use super::frames::{Loan, NONE};
use super::handles::Handles;
use super::hold::Holds;
use super::ios::{IoKey, IoKind, Ios};
use super::jobs::Jobs;
use super::lanes::{Failure, Lanes, Line};
use super::pages::{AHEAD, Evicted, FILLING, MARKED, PageTable};
use platter_block::bio::{Bio, Context, Flags, IoPrio, MAX_SEGMENTS, Op};
use platter_block::defect::{self, Defect};
use platter_block::fault::{Fault, Kind};
use platter_block::lane::Lane;
use platter_block::limits::Limits;
use platter_block::readahead::PAGE;
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::ops::Range;

/// Pages that are handled in one go before the lock is given up. One I/O or one window of readahead more may come on top.
pub(super) const SPENT: u32 = 256;

/// Most pages of a window of readahead that are asked for in one go.
pub(super) const WINDOW: u32 = 256;

/// For whom something is read.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) lane: u32,
    pub(super) handle: u16,
    /// What the read call is about: these pages are not read ahead.
    pub(super) demand: Range<u64>,
    /// Whether the caller sleeps until it is there, on its own lane.
    pub(super) own: bool,
    pub(super) context: Context,
    pub(super) ioprio: IoPrio,
    pub(super) deadline: Option<Time>,
}

/// What a cache has done, as facts tell it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) pages_written: u64,
    pub(super) write_errors: u64,
    /// How often a lane took the lock to bring its bios further, and how often it had been told to and could not.
    pub(super) turns: u64,
    pub(super) vain: u64,
    /// Pages handled, and most in one go.
    pub(super) work: u64,
    pub(super) longest: u32,
}

pub(super) struct Engine {
    // Dropped first: it waits for what its driver has.
    pub(super) lane: Box<dyn Lane>,
    pub(super) pages: PageTable,
    pub(super) ios: Ios,
    pub(super) handles: Handles,
    pub(super) totals: Totals,
    /// Bios to submit, and whether on the lane of whoever is at work.
    pub(super) staged: Vec<(Bio, bool)>,
    /// Bios out on the shared lane.
    pub(super) shared_out: u32,
    /// The device may have something in its own cache: something was written since the last flush began.
    pub(super) unflushed: bool,
    /// A flush of the device under way.
    pub(super) flushing: Option<IoKey>,
    /// Write-back fails: the last attempt did.
    pub(super) write_error: Option<(Fault, u64)>,
    /// So many I/Os under way that nobody has asked for are too many to read ahead.
    pub(super) congestion: u32,
    pub(super) limits: Limits,
    pub(super) lanes: Lanes,
    /// Writers that wait until less is dirty.
    pub(super) room: Line,
    /// Tasks that wait for a frame.
    pub(super) wanted: Line,
    /// Places given in these lines so far.
    pub(super) turns: u64,
    pub(super) holds: Holds,
    pub(super) jobs: Jobs,
    /// Bios that have come back and were not looked at yet.
    came: Vec<Bio>,
    /// I/Os that are over, of which the device still has memory, and how many frames those are.
    away: Vec<IoKey>,
    pub(super) frames_away: u32,
    /// Pages handled since the lock was taken.
    pub(super) work: u32,
    /// Something has ended since: what waits may go on.
    pub(super) events: bool,
    /// Something was done since, whatever it was.
    pub(super) progress: bool,
    pub(super) batch: Vec<u32>,
    /// Write-backs begun last.
    pub(super) begun: Vec<IoKey>,
    /// What failed writes have dropped: how often, and the last ranges.
    pub(super) drops: u64,
    pub(super) dropped: VecDeque<Range<u64>>,
}

impl Engine {
    pub(super) fn new(
        lane: Box<dyn Lane>,
        pages: PageTable,
        handles: Handles,
        limits: Limits,
        congestion: u32,
    ) -> Engine {
        Engine {
            ios: Ios::new(pages.store.frames()),
            lane,
            pages,
            handles,
            totals: Totals::default(),
            staged: Vec::new(),
            shared_out: 0,
            unflushed: true,
            flushing: None,
            write_error: None,
            congestion,
            limits,
            lanes: Lanes::default(),
            room: Line::default(),
            wanted: Line::default(),
            turns: 0,
            holds: Holds::default(),
            jobs: Jobs::default(),
            came: Vec::new(),
            away: Vec::new(),
            frames_away: 0,
            work: 0,
            events: false,
            progress: false,
            batch: Vec::new(),
            begun: Vec::new(),
            drops: 0,
            dropped: VecDeque::new(),
        }
    }

    /// The lock was taken.
    pub(super) fn enter(&mut self) {
        (self.work, self.events, self.progress) = (0, false, false);
    }

    /// The lock will be given up: whoever can go on is told.
    pub(super) fn leave(&mut self, now: Time) {
        self.totals.longest = self.totals.longest.max(self.work);
        self.totals.work += u64::from(self.work);
        self.grant(now);
        self.pass_handles_on(now);
        if self.shared_out > 0 {
            self.lanes.appoint();
        }
    }

    /// Whether so much was done since the lock was taken that the rest has to wait.
    pub(super) fn is_spent(&self) -> bool {
        self.work >= SPENT
    }

    /// Has a lane kicked when an I/O is over.
    pub(super) fn wait_for(&mut self, number: u32, key: IoKey) {
        let waiters = &mut self.ios.get(key).waiters;
        if !waiters.contains(&number) {
            waiters.push(number);
        }
    }

    /// The I/O that has a frame.
    pub(super) fn io_of(&self, frame: u32) -> IoKey {
        self.ios.key(self.pages.meta(frame).io)
    }

    /// Counts what making room has cost.
    pub(super) fn note(&mut self, evicted: Evicted) {
        if let Some(handle) = evicted.unused_by {
            self.handles.count(handle, |counters| counters.pages_evicted_unused += 1);
        }
    }

    /// A bio of the cache goes to the device: on the lane of whoever is at work, or the shared one.
    pub(super) fn send(&mut self, bio: Bio, own: bool) {
        self.progress = true;
        self.staged.push((bio, own));
    }

    /// Submits what is staged: to `own` what is for that lane, the rest to the shared one. How many to `own`.
    pub(super) fn submit(&mut self, now: Time, own: &mut dyn Lane) -> u32 {
        let mut to_own = 0;
        for (bio, is_own) in self.staged.drain(..) {
            match is_own {
                true => {
                    to_own += 1;
                    own.submit(now, bio);
                }
                false => {
                    self.shared_out += 1;
                    self.lane.submit(now, bio);
                }
            }
        }
        to_own
    }

    /// The same where there is only the shared lane.
    pub(super) fn submit_shared(&mut self, now: Time) {
        for (bio, _) in self.staged.drain(..) {
            self.shared_out += 1;
            self.lane.submit(now, bio);
        }
    }

    /// Runs the shared lane and takes in what has come back, as much as may be done in one go.
    pub(super) fn run(&mut self, now: Time) {
        if self.shared_out == 0 && self.away.is_empty() {
            return;
        }
        self.lane.run(now);
        let mut came = std::mem::take(&mut self.came);
        self.lane.take_done(&mut came);
        let mut bios = came.drain(..);
        while !self.is_spent()
            && let Some(bio) = bios.next()
        {
            self.shared_out -= 1;
            self.came_back(now, bio);
        }
        let left: Vec<Bio> = bios.collect();
        self.came = if left.is_empty() { came } else { left };
        self.take_back(now);
    }

    /// Whether bios have come back that were not looked at yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.came.is_empty()
    }

    /// A bio of the cache has come back from whatever lane.
    pub(super) fn came_back(&mut self, now: Time, bio: Bio) {
        self.progress = true;
        let Some(key) = self.ios.came_back(bio) else { return };
        self.events = true;
        self.jobs.can_go_on |= !self.jobs.is_empty();
        self.pages.dirty.stalled = false;
        let back = self.ios.is_back(key);
        let io = self.ios.get(key);
        let (kind, failed) = (io.kind, io.failed);
        let until = match kind {
            IoKind::Ahead => Time(0),
            _ => io.deadline.unwrap_or(Time(u64::MAX)),
        };
        let failure = failed.map(|(fault, pos)| Failure { key, fault, pos, until });
        let frames = std::mem::take(&mut io.frames);
        self.work += frames.len() as u32 + 1;
        let is_away = match kind {
            IoKind::Fill | IoKind::Ahead => self.filled(&frames, failed, back),
            IoKind::WriteBack => self.wrote_back(now, &frames, failed, back),
            IoKind::Pass => {
                self.passed(key, failed);
                false
            }
        };
        let io = self.ios.get(key);
        io.frames = frames;
        let mut waiters = std::mem::take(&mut io.waiters);
        waiters.drain(..).for_each(|number| self.lanes.tell(number, failure));
        self.ios.get(key).waiters = waiters;
        if is_away {
            self.frames_away += self.ios.get(key).frames.len() as u32;
            self.ios.set_away(key);
            self.away.push(key);
        } else {
            self.ios.end(key);
        }
    }

    /// Pages were read, or not. Whether the device still has their frames.
    fn filled(&mut self, frames: &[u32], failed: Option<(Fault, u64)>, back: bool) -> bool {
        for &frame in frames {
            let pages = &mut self.pages;
            pages.reserved.ended(pages.store.page(frame));
            if !back && pages.meta(frame).valid == 0 {
                pages.abandon(frame);
                continue;
            }
            pages.store.give_back(frame, Loan::Fill);
            let all = pages.all_of(pages.store.page(frame));
            let meta = pages.meta_mut(frame);
            meta.flags &= !FILLING;
            meta.io = NONE;
            let wanted = std::mem::take(&mut meta.filling);
            match failed {
                None => {
                    meta.valid |= wanted & all;
                    pages.expose(frame);
                }
                Some(_) if meta.valid == 0 => {
                    pages.drop_page(frame);
                    continue;
                }
                // What was written to it stays; the rest is asked for again by whoever needs it.
                Some(_) => {
                    meta.flags &= !(AHEAD | MARKED);
                    if !back {
                        // It is neither changed nor evicted until the device has given it back.
                        let _ = pages.store.hold(frame);
                        continue;
                    }
                }
            }
            self.pages.usable(frame);
        }
        !back
    }

    /// Pages were written back, or not. Whether it is in doubt whether they will be: the device still has their frames,
    /// and they stay as being written.
    fn wrote_back(&mut self, now: Time, frames: &[u32], failed: Option<(Fault, u64)>, back: bool) -> bool {
        self.unflushed = true;
        match failed {
            None => {
                self.write_error = None;
                self.pages.dirty.went_well();
                self.totals.pages_written += frames.len() as u64;
            }
            Some((fault, pos)) => {
                self.totals.write_errors += 1;
                self.write_error = Some((fault, pos));
                let slow = matches!(fault.kind, Kind::TimedOut | Kind::InDoubt | Kind::Stuck);
                self.pages.dirty.went_wrong(now, slow);
                self.handles.failed(fault, pos);
            }
        }
        let careless = !back && defect::is_on(Defect::CacheFlushIgnoresDoubt);
        if !back && !careless {
            self.pages.dirty.in_doubt += frames.len() as u32;
            return true;
        }
        for &frame in frames {
            if careless {
                let _ = self.pages.store.hold(frame);
            }
            self.pages.end_write(frame, failed.is_none(), now);
        }
        self.pages.tidy();
        false
    }

    /// Takes frames in that the device has given back after all.
    fn take_back(&mut self, now: Time) {
        let mut at = 0;
        while let Some(&key) = self.away.get(at) {
            if !self.ios.is_back(key) || defect::is_on(Defect::CacheFramesStayLost) {
                at += 1;
                continue;
            }
            self.away.swap_remove(at);
            (self.events, self.progress) = (true, true);
            self.jobs.can_go_on |= !self.jobs.is_empty();
            let io = self.ios.get(key);
            let kind = io.kind;
            let frames = std::mem::take(&mut io.frames);
            self.work += frames.len() as u32;
            self.frames_away -= frames.len() as u32;
            for &frame in &frames {
                if kind == IoKind::WriteBack {
                    // Whether it was written is not known, so it is written again, and soon.
                    self.pages.dirty.in_doubt -= 1;
                    self.pages.end_write(frame, false, now);
                    continue;
                }
                match self.pages.store.is_filling(frame) {
                    true => {
                        self.pages.store.give_back(frame, Loan::Fill);
                        self.pages.release(frame);
                    }
                    false => {
                        self.pages.store.frames().unpin(frame);
                        self.pages.usable(frame);
                    }
                }
            }
            if kind == IoKind::WriteBack {
                self.pages.dirty.went_well();
            }
            let io = self.ios.get(key);
            io.frames = frames;
            self.ios.end(key);
        }
    }

    /// Where a range has pages, or all of the device, that may be written by a command that timed out: they are neither
    /// on the disk nor not.
    pub(super) fn doubt(&mut self, range: Option<&Range<u64>>) -> Option<u64> {
        if self.pages.dirty.in_doubt == 0 {
            return None;
        }
        let mut found = None;
        for &key in &self.away {
            let io = self.ios.get(key);
            let ([first, ..], [.., last]) = (&io.frames[..], &io.frames[..]) else { continue };
            let store = &self.pages.store;
            let (begin, end) = (store.page(*first) * PAGE, (store.page(*last) + 1) * PAGE);
            let overlaps = range.is_none_or(|range| begin < range.end && range.start < end);
            if io.kind == IoKind::WriteBack && overlaps {
                found = found.or(Some(begin));
            }
        }
        // What is of a later epoch cannot be written before what is in doubt, wherever that is.
        let blocked = |range: &Range<u64>| {
            (!self.pages.dirty.is_one_epoch() && self.is_dirty(range)).then_some(range.start)
        };
        found.or_else(|| range.and_then(blocked))
    }

    /// Passes an operation without memory on to the device.
    pub(super) fn pass(&mut self, op: Op, range: Range<u64>, context: Context, ioprio: IoPrio) -> IoKey {
        self.pass_until(op, range, context, ioprio, None)
    }

    /// The same, with a deadline.
    pub(super) fn pass_until(
        &mut self,
        op: Op,
        range: Range<u64>,
        context: Context,
        ioprio: IoPrio,
        deadline: Option<Time>,
    ) -> IoKey {
        let key = self.ios.begin(IoKind::Pass);
        self.ios.get(key).deadline = deadline;
        let mut bio = self.ios.bio();
        bio.reset(op, range.start, range.end - range.start);
        bio.set_context(context);
        bio.set_ioprio(ioprio);
        bio.add_flags(Flags::SYNC);
        self.ios.sign(key, &mut bio);
        self.send(bio, false);
        key
    }

    /// Asks the device to give up an operation that was passed on.
    pub(super) fn cancel(&mut self, now: Time, key: IoKey) {
        self.lane.cancel(now, Ios::token(key));
    }

    /// Most segments of a bio of the cache's own.
    pub(super) fn max_segments(&self) -> u16 {
        self.limits.max_segments.clamp(1, MAX_SEGMENTS as u16)
    }

    /// Most bytes of one.
    pub(super) fn max_bytes(&self) -> u64 {
        u64::from(self.limits.max_transfer).clamp(PAGE, 1 << 20)
    }

    /// When somebody should run the cache although nobody calls.
    pub(super) fn wakeup(&self, now: Time) -> Option<Time> {
        if self.is_behind() || self.jobs.can_go_on {
            return Some(now);
        }
        let runs = self.shared_out > 0 || !self.away.is_empty();
        let lane = if runs { self.lane.next_wakeup() } else { None };
        let lines = self.room.wakeup().into_iter().chain(self.wanted.wakeup()).chain(self.handles.wakeup());
        lane.into_iter().chain(self.pages.dirty.wakeup(now)).chain(self.holds.wakeup()).chain(lines).min()
    }

    /// Whether bios are out on the shared lane, or memory of some that are over.
    pub(super) fn is_out(&self) -> bool {
        self.shared_out > 0 || !self.away.is_empty()
    }

    /// Lets time pass in a simulation until the shared lane has something.
    pub(super) fn wait(&mut self, now: Time, timeout: Option<Span>) {
        if self.shared_out > 0 {
            self.lane.wait(now, timeout);
        }
    }
}
