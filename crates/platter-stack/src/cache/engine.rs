//! What the lanes of a cache share, under one lock: pages, handles, and the lane on which whoever comes first runs
//! what nobody in particular waits for.
//!
//! A read whose caller sleeps until it is there goes to the disk on the caller's own lane. All else (readahead,
//! write-back, reads of programs that poll) goes on the shared one, so that its completion strands on nobody's.

use super::dirty::{Place, WriteBack};
use super::frames::{Loan, NONE};
use super::handles::Handles;
use super::ios::{IoKey, IoKind, Ios};
use super::pages::{AHEAD, CURRENT, Evicted, FILLING, MARKED, PageTable};
use platter_block::bio::{Bio, Context, Flags, IoPrio, MAX_SEGMENTS, Op};
use platter_block::fault::{Fault, Kind};
use platter_block::lane::{Bell, Lane};
use platter_block::limits::Limits;
use platter_block::readahead::PAGE;
use platter_block::time::{Span, Time};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A lane as the others see it.
pub(super) struct LaneCell {
    /// Something that it waits for has happened.
    pub(super) kicked: AtomicBool,
    bell: Option<Arc<dyn Bell>>,
}

impl LaneCell {
    pub(super) fn new(bell: Option<Arc<dyn Bell>>) -> Arc<LaneCell> {
        Arc::new(LaneCell { kicked: AtomicBool::new(false), bell })
    }

    fn kick(&self) {
        if !self.kicked.swap(true, Ordering::SeqCst)
            && let Some(bell) = &self.bell
        {
            bell.ring();
        }
    }
}

struct LaneState {
    cell: Arc<LaneCell>,
    /// I/Os that it waited for and that failed.
    faults: Vec<(IoKey, Fault, u64)>,
    /// Whether it is among those that are told of everything.
    listens: bool,
}

/// A range of the device that only one operation may touch.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Reserved {
    pub(super) pages: Range<u64>,
    pub(super) ticket: u64,
    /// The operation, when the device has it.
    pub(super) io: Option<IoKey>,
    /// Nobody waits for it any more.
    pub(super) orphan: bool,
}

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
}

/// What a cache has done, as facts tell it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) pages_written: u64,
    pub(super) write_errors: u64,
    pub(super) stranded: u64,
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
    pub(super) reserved: Vec<Reserved>,
    pub(super) tickets: u64,
    /// The device may have something in its own cache: something was written since the last flush began.
    pub(super) unflushed: bool,
    /// A flush of the device under way.
    pub(super) flushing: Option<IoKey>,
    /// Write-back fails: the last attempt did.
    pub(super) sick: Option<(Fault, u64)>,
    /// Reads and write-backs beyond this are too many for readahead.
    pub(super) congestion: u32,
    pub(super) limits: Limits,
    lanes: Vec<Option<LaneState>>,
    listeners: Vec<u32>,
    came: Vec<Bio>,
    pub(super) batch: Vec<u32>,
    pub(super) later: Vec<Place>,
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
            lane,
            pages,
            ios: Ios::default(),
            handles,
            totals: Totals::default(),
            staged: Vec::new(),
            shared_out: 0,
            reserved: Vec::new(),
            tickets: 0,
            unflushed: true,
            flushing: None,
            sick: None,
            congestion,
            limits,
            lanes: Vec::new(),
            listeners: Vec::new(),
            came: Vec::new(),
            batch: Vec::new(),
            later: Vec::new(),
            drops: 0,
            dropped: VecDeque::new(),
        }
    }

    /// A lane joins: its number.
    pub(super) fn join(&mut self, cell: &Arc<LaneCell>) -> u32 {
        let state = LaneState { cell: Arc::clone(cell), faults: Vec::new(), listens: false };
        let free = self.lanes.iter().position(Option::is_none);
        let number = free.unwrap_or_else(|| {
            self.lanes.push(None);
            self.lanes.len() - 1
        });
        self.lanes[number] = Some(state);
        number as u32
    }

    /// A lane is gone.
    pub(super) fn leave(&mut self, number: u32) {
        self.lanes[number as usize] = None;
        self.kick_listeners();
    }

    /// A lane wants to know when anything has changed.
    pub(super) fn listen(&mut self, number: u32) {
        if let Some(Some(lane)) = self.lanes.get_mut(number as usize)
            && !lane.listens
        {
            lane.listens = true;
            self.listeners.push(number);
        }
    }

    pub(super) fn kick_listeners(&mut self) {
        while let Some(number) = self.listeners.pop() {
            if let Some(Some(lane)) = self.lanes.get_mut(number as usize) {
                lane.listens = false;
                lane.cell.kick();
            }
        }
    }

    /// Has a lane kicked when an I/O is over.
    pub(super) fn wait_for(&mut self, number: u32, key: IoKey) {
        let waiters = &mut self.ios.get(key).waiters;
        if !waiters.contains(&number) {
            waiters.push(number);
        }
    }

    /// What went wrong with an I/O that a lane waited for.
    pub(super) fn fault_of(&self, number: u32, key: IoKey) -> Option<(Fault, u64)> {
        let lane = self.lanes.get(number as usize)?.as_ref()?;
        lane.faults.iter().find(|(failed, ..)| *failed == key).map(|&(_, fault, pos)| (fault, pos))
    }

    /// All tasks of a lane that waited for what has failed so far have seen it.
    pub(super) fn forget_faults(&mut self, number: u32) {
        if let Some(Some(lane)) = self.lanes.get_mut(number as usize) {
            lane.faults.clear();
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

    /// Runs the shared lane and takes in what has come back. Whether anything has.
    pub(super) fn run(&mut self, now: Time) -> bool {
        if self.shared_out == 0 {
            return false;
        }
        self.lane.run(now);
        let mut came = std::mem::take(&mut self.came);
        self.lane.take_done(&mut came);
        let any = !came.is_empty();
        self.shared_out -= came.len() as u32;
        came.drain(..).for_each(|bio| self.came_back(now, bio));
        self.came = came;
        any
    }

    /// A bio of the cache has come back from whatever lane.
    pub(super) fn came_back(&mut self, now: Time, bio: Bio) {
        let Some(key) = self.ios.came_back(bio) else { return };
        self.pages.dirty.stalled = false;
        let io = self.ios.get(key);
        let (kind, failed) = (io.kind, io.failed);
        let frames = std::mem::take(&mut io.frames);
        match kind {
            IoKind::Fill => self.filled(&frames, failed),
            IoKind::WriteBack => self.wrote_back(now, &frames, failed),
            IoKind::Pass => {
                if self.flushing == Some(key) {
                    self.flushing = None;
                    self.unflushed |= failed.is_some();
                } else {
                    self.unflushed = true;
                    self.passed(key, failed.is_none());
                }
            }
        }
        let io = self.ios.get(key);
        io.frames = frames;
        let waiters = std::mem::take(&mut io.waiters);
        for &number in &waiters {
            if let Some(Some(lane)) = self.lanes.get_mut(number as usize) {
                if let Some((fault, pos)) = failed {
                    lane.faults.push((key, fault, pos));
                }
                lane.cell.kick();
            }
        }
        self.ios.get(key).waiters = waiters;
        self.ios.end(key);
        self.kick_listeners();
    }

    fn filled(&mut self, frames: &[u32], failed: Option<(Fault, u64)>) {
        let timed_out = matches!(failed, Some((Fault { kind: Kind::TimedOut, .. }, _)));
        for &frame in frames {
            let pages = &mut self.pages;
            if timed_out {
                self.totals.stranded += 1;
            }
            if timed_out && pages.meta(frame).valid == 0 {
                pages.abandon(frame);
                continue;
            }
            pages.store.settle(frame, Loan::Fill);
            let page = pages.store.page(frame);
            let all = pages.all_of(page);
            let meta = pages.meta_mut(frame);
            meta.flags &= !FILLING;
            meta.io = NONE;
            let wanted = std::mem::take(&mut meta.filling);
            match failed {
                None => {
                    meta.valid |= wanted & all;
                    pages.settle(frame);
                }
                Some(_) if meta.valid == 0 => pages.drop_page(frame),
                // What was written to it stays; the rest is asked for again by whoever needs it.
                Some(_) => {
                    meta.flags &= !(AHEAD | MARKED);
                    if timed_out {
                        pages.strand(frame);
                    }
                }
            }
        }
    }

    fn wrote_back(&mut self, now: Time, frames: &[u32], failed: Option<(Fault, u64)>) {
        self.unflushed = true;
        match failed {
            None => {
                self.sick = None;
                self.pages.dirty.not_before = None;
                self.totals.pages_written += frames.len() as u64;
            }
            Some((fault, pos)) => {
                self.totals.write_errors += 1;
                self.sick = Some((fault, pos));
                self.pages.dirty.not_before = Some(now + self.pages.dirty.rules.interval);
                self.handles.failed(fault, pos);
            }
        }
        for &frame in frames {
            if matches!(failed, Some((Fault { kind: Kind::TimedOut, .. }, _))) {
                // The driver still has the memory: nobody may change it any more.
                self.totals.stranded += 1;
                self.pages.strand(frame);
            }
            self.pages.end_write(frame, failed.is_none(), now);
        }
        self.pages.tidy();
    }

    /// Passes an operation without memory on to the device.
    pub(super) fn pass(&mut self, op: Op, pos: u64, len: u64, like: &Bio) -> IoKey {
        let key = self.ios.begin(IoKind::Pass);
        let mut bio = self.ios.bio();
        bio.reset(op, pos, len);
        bio.set_context(like.context());
        bio.set_ioprio(like.ioprio());
        bio.add_flags(Flags::SYNC);
        self.ios.sign(key, &mut bio);
        self.staged.push((bio, false));
        key
    }

    /// Whether a page may not be touched because an operation of somebody else is about it.
    pub(super) fn is_reserved(&self, page: u64, ticket: u64) -> bool {
        self.reserved.iter().any(|range| range.ticket != ticket && range.pages.contains(&page))
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
        let lane = if self.shared_out > 0 { self.lane.next_wakeup() } else { None };
        Time::earliest(lane, self.pages.dirty.wakeup(now))
    }

    /// The limits on dirty pages.
    pub(super) fn rules(&self) -> &WriteBack {
        &self.pages.dirty.rules
    }

    /// Lets time pass in a simulation until the shared lane has something.
    pub(super) fn wait(&mut self, now: Time, timeout: Option<Span>) {
        if self.shared_out > 0 {
            self.lane.wait(now, timeout);
        }
    }

    /// Lets the pages of a range go: clean ones at once, dirty ones when they have been written.
    pub(super) fn let_go(&mut self, now: Time, pos: u64, len: u64) {
        let mut batch = std::mem::take(&mut self.batch);
        batch.extend(self.frames_of(&(pos..pos.saturating_add(len))));
        batch.iter().for_each(|&frame| self.pages.cool(frame));
        // What is clean, or may not be written yet, is passed over.
        self.write_back(&mut batch);
        self.batch = batch;
        self.submit_shared(now);
        self.run(now);
    }

    /// Whether a frame is still its page's newest version.
    pub(super) fn is_current(&self, frame: u32) -> bool {
        self.pages.meta(frame).is(CURRENT)
    }
}
