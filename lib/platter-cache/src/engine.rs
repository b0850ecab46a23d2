//! The state that the lanes of a cache share, under one lock: pages, handles, and the shared lane, which any
//! of them runs for I/O that no particular task waits for.
//!
//! A read whose caller sleeps until it completes goes to the disk on the caller's own lane. All other I/O
//! (readahead, write-back, reads of programs that poll) goes on the shared lane, so that its completion does
//! not depend on one lane being run.
//!
//! The lock is held only for a short time: the work of one turn is counted in pages ([`Engine::is_spent`]),
//! and the rest is done when the lock is taken again.

use super::frames::{Loan, NONE};
use super::handles::Handles;
use super::holds::Holds;
use super::inbox::Inbox;
use super::ios::{Failure, IoKey, IoKind, Ios};
use super::jobs::Jobs;
use super::late::{Late, Lates};
use super::moves::Moves;
use super::pages::{AHEAD, Evicted, FILLING, MARKED, PageTable};
use super::placement::ShardPlace;
use super::unflushed::Unflushed;
use crate::readahead::{PAGE, Window};
use platter_block::bio::{Bio, Context, Flags, IoPrio, MAX_SEGMENTS, Op};
use platter_block::fault::{Fault, Kind};
use platter_block::handle::HandleId;
use platter_block::lane::Lane;
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_stack::kit::port::Order;
use platter_stack::kit::{Lanes, Line, Outlook, Port, Turns};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Pages handled in one turn before the lock is released. One I/O or one window of readahead may exceed it.
pub(super) const SPENT: u32 = 256;

/// Most pages of a readahead window that are requested in one turn.
pub(super) const WINDOW: u32 = 256;

/// On whose behalf pages are read.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) lane: u32,
    pub(super) handle: u16,
    /// The handle; `handle` is its place here.
    pub(super) id: HandleId,
    /// The pages of the read call itself: these are not counted as readahead.
    pub(super) demand: Range<u64>,
    /// Whether the caller sleeps on its own lane until the read completes.
    pub(super) own: bool,
    pub(super) context: Context,
    pub(super) ioprio: IoPrio,
}

/// Pages that another shard is to read ahead.
pub(super) struct PeerRead {
    pub(super) shard: u32,
    pub(super) ask: Ask,
    pub(super) window: Window,
}

/// Statistics of a cache, shown as facts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) pages_written: u64,
    pub(super) write_errors: u64,
    /// How often a lane took the lock to advance its bios, and how often it had been woken and could advance
    /// none.
    pub(super) turns: u64,
    pub(super) idle_turns: u64,
    /// How often the lock was taken, except to read this.
    pub(super) locks: u64,
    /// Pages handled in total, and most in one turn.
    pub(super) work: u64,
    pub(super) longest: u32,
}

pub(super) struct Engine {
    // Dropped first, when no other share is left: this waits for the I/O that its driver has.
    pub(super) port: Arc<Port>,
    pub(super) pages: PageTable,
    pub(super) ios: Ios,
    pub(super) handles: Handles,
    pub(super) totals: Totals,
    /// Bios to submit; `true`: on the lane of the current caller.
    pub(super) staged: Vec<(Bio, bool)>,
    /// Those of them that go to the shared lane.
    orders: Vec<Order>,
    /// Bios in flight on the shared lane.
    pub(super) shared_out: u32,
    pub(super) unflushed: Unflushed,
    /// The fault and position of the last write-back if it failed.
    pub(super) write_error: Option<(Fault, u64)>,
    /// No readahead while this many readahead I/Os are in flight.
    pub(super) congestion: u32,
    /// How many more may begin.
    pub(super) ahead_left: Arc<AtomicU32>,
    pub(super) limits: Limits,
    pub(super) lanes: Lanes<Failure>,
    /// Writers that wait for fewer dirty pages.
    pub(super) room: Line,
    /// Tasks that wait for a frame.
    pub(super) wanted: Line,
    /// Places given out in these lines so far.
    pub(super) turns: u64,
    pub(super) holds: Holds,
    pub(super) jobs: Jobs,
    /// Bios that have ended without the lock.
    pub(super) lates: Lates,
    /// What this turn has planned to copy.
    pub(super) moves: Moves,
    /// Bios that have come back and were not processed yet.
    came: Vec<Bio>,
    /// Pages handled since the lock was taken.
    pub(super) work: u32,
    /// An I/O has ended since the lock was taken: waiting tasks may continue.
    pub(super) events: bool,
    /// Any work was done since the lock was taken.
    pub(super) progress: bool,
    pub(super) batch: Vec<u32>,
    /// Write-backs that were begun last.
    pub(super) begun: Vec<IoKey>,
    /// Data dropped by failed writes: how often, and the last ranges with the faults.
    pub(super) drops: u64,
    pub(super) dropped: VecDeque<(Range<u64>, (Fault, u64))>,
    /// The place of this shard among all; `None`: it has all pages.
    pub(super) place: Option<Arc<ShardPlace>>,
    /// What other shards are to read when the lock is released.
    pub(super) peer_reads: Vec<PeerRead>,
}

impl Engine {
    pub(super) fn new(
        port: Arc<Port>,
        pages: PageTable,
        handles: Handles,
        limits: Limits,
        late: &Arc<Inbox<Late>>,
        place: Option<Arc<ShardPlace>>,
    ) -> Engine {
        let disk_writes =
            place.as_ref().map(|place| Arc::clone(place.placement.disk_writes())).unwrap_or_default();
        Engine {
            ios: Ios::new(pages.store.frames()),
            port,
            pages,
            handles,
            totals: Totals::default(),
            staged: Vec::new(),
            orders: Vec::new(),
            shared_out: 0,
            unflushed: Unflushed::new(disk_writes),
            write_error: None,
            congestion: u32::MAX,
            ahead_left: Arc::default(),
            limits,
            lanes: Lanes::default(),
            room: Line::default(),
            wanted: Line::default(),
            turns: 0,
            holds: Holds::default(),
            jobs: Jobs::default(),
            lates: Lates::new(late),
            moves: Moves::default(),
            came: Vec::new(),
            work: 0,
            events: false,
            progress: false,
            batch: Vec::new(),
            begun: Vec::new(),
            drops: 0,
            dropped: VecDeque::new(),
            place,
            peer_reads: Vec::new(),
        }
    }

    /// Whether the work of this turn is used up, so that the rest must wait.
    pub(super) fn is_spent(&self) -> bool {
        self.work >= SPENT
    }

    /// Says from how many I/Os of readahead on no more begin.
    pub(super) fn set_congestion(&mut self, congestion: u32) {
        self.congestion = congestion;
        self.publish_ahead();
    }

    fn publish_ahead(&self) {
        let left = self.congestion.saturating_sub(self.ahead_out());
        if self.ahead_left.load(Ordering::Relaxed) != left {
            self.ahead_left.store(left, Ordering::Relaxed);
        }
    }

    /// The I/Os of readahead in flight. Reads that a task waits for do not count: their number is limited by the queue of the
    /// device.
    pub(super) fn ahead_out(&self) -> u32 {
        self.ios.ahead
    }

    /// Registers a lane to be kicked when an I/O completes.
    pub(super) fn wait_for(&mut self, number: u32, key: IoKey) {
        self.ios.wait_for(number, key);
    }

    /// The failure of an I/O that a lane waited for.
    pub(super) fn failure_of(&self, number: u32, key: IoKey) -> Option<Failure> {
        self.lanes.failures(number).iter().find(|failure| failure.key == key).copied()
    }

    /// The I/O that uses a frame.
    pub(super) fn io_of(&self, frame: u32) -> IoKey {
        self.ios.key(self.pages.info(frame).io)
    }

    /// Counts the costs of an eviction.
    pub(super) fn note(&mut self, evicted: Evicted) {
        note(&mut self.handles, evicted);
    }

    /// Stages a bio of the cache for the device: on the current caller's lane if `own`, else on the shared
    /// one.
    pub(super) fn send(&mut self, bio: Bio, own: bool) {
        self.progress = true;
        self.staged.push((bio, own));
    }

    /// Moves the staged bios to `own`, or orders that of the shared lane. Returns the number moved to `own`.
    pub(super) fn submit(&mut self, own: &mut Vec<Bio>) -> u32 {
        let before = own.len();
        for (bio, is_own) in self.staged.drain(..) {
            match is_own {
                true => own.push(bio),
                false => self.orders.push(Order::Submit(bio)),
            }
        }
        self.order();
        (own.len() - before) as u32
    }

    /// As `submit`, where there is only the shared lane.
    pub(super) fn submit_shared(&mut self) {
        self.orders.extend(self.staged.drain(..).map(|(bio, _)| Order::Submit(bio)));
        self.order();
    }

    fn order(&mut self) {
        if !self.orders.is_empty() {
            self.shared_out += self.orders.len() as u32;
            self.port.order(self.orders.drain(..));
        }
    }

    /// Whether bios have come back that were not processed yet.
    pub(super) fn is_behind(&self) -> bool {
        !self.came.is_empty() || self.lates.is_behind()
    }

    /// Processes a bio of the cache that came back on any lane.
    pub(super) fn came_back(&mut self, now: Time, mut bio: Bio) {
        self.progress = true;
        self.jobs.answers.keep(&mut bio);
        let Some(key) = self.ios.came_back(bio) else { return };
        self.events = true;
        self.jobs.can_go_on |= !self.jobs.is_empty();
        self.pages.dirty.stalled = false;
        let io = self.ios.get(key);
        let (kind, failed) = (io.state.kind, io.failed);
        let failure = failed.map(|(fault, pos)| Failure { key, fault, pos, ahead: kind == IoKind::Ahead });
        let frames = std::mem::take(&mut io.state.frames);
        self.work += frames.len() as u32 + 1;
        match kind {
            IoKind::Fill | IoKind::Ahead => self.filled(&frames, failed),
            IoKind::WriteBack => self.wrote_back(now, &frames, failed),
            IoKind::Pass => self.passed(key, failed),
            // They have no bios.
            IoKind::Copy | IoKind::Move => {}
        }
        let io = self.ios.get(key);
        io.state.frames = frames;
        let mut waiters = std::mem::take(&mut io.waiters);
        waiters.drain(..).for_each(|number| self.lanes.tell(number, failure));
        self.ios.get(key).waiters = waiters;
        self.ios.end(key);
    }

    /// Ends a read of pages, which may have failed.
    fn filled(&mut self, frames: &[u32], failed: Option<(Fault, u64)>) {
        for &frame in frames {
            let pages = &mut self.pages;
            pages.reserved.ended(pages.store.page(frame));
            pages.store.give_back(frame, Loan::Fill);
            let all = pages.all_of(pages.store.page(frame));
            let info = pages.info_mut(frame);
            info.flags &= !FILLING;
            info.io = NONE;
            let wanted = std::mem::take(&mut info.filling);
            match failed {
                None => {
                    info.valid |= wanted & all;
                    pages.expose(frame);
                }
                Some(_) if info.valid == 0 => {
                    pages.drop_page(frame);
                    continue;
                }
                // Data that was written to the page stays valid; the rest is read again on demand.
                Some(_) => info.flags &= !(AHEAD | MARKED),
            }
            self.pages.usable(frame);
        }
    }

    /// Ends a write-back of pages, which may have failed.
    fn wrote_back(&mut self, now: Time, frames: &[u32], failed: Option<(Fault, u64)>) {
        self.unflushed.wrote();
        match failed {
            None => {
                self.write_error = None;
                self.pages.dirty.went_well();
                self.totals.pages_written += frames.len() as u64;
            }
            Some((fault, pos)) => {
                self.totals.write_errors += 1;
                self.write_error = Some((fault, pos));
                self.pages.dirty.went_wrong(now, fault.kind == Kind::TimedOut);
                self.handles.failed(fault, pos);
            }
        }
        for &frame in frames {
            self.pages.end_write(frame, failed.is_none(), now);
        }
        self.pages.tidy();
    }

    /// Passes a flush on to the device.
    pub(super) fn pass_flush(&mut self, ask: &Ask) -> IoKey {
        let mut bio = self.ios.bio();
        bio.reset(Op::Flush, 0, 0);
        self.pass(bio, (ask.context, ask.ioprio), ask.own)
    }

    /// Passes an operation that the cache does not carry out itself on to the device: on the lane of the current caller if
    /// `own`.
    pub(super) fn pass(&mut self, mut bio: Bio, (context, ioprio): (Context, IoPrio), own: bool) -> IoKey {
        let key = self.ios.begin(IoKind::Pass);
        bio.set_context(context);
        bio.set_ioprio(ioprio);
        bio.add_flags(Flags::SYNC);
        self.ios.sign(key, &mut bio);
        self.send(bio, own);
        key
    }

    /// Most segments of the cache's own bios.
    pub(super) fn max_segments(&self) -> u16 {
        self.limits.max_segments.clamp(1, MAX_SEGMENTS as u16)
    }

    /// Most bytes of the cache's own bios.
    pub(super) fn max_bytes(&self) -> u64 {
        u64::from(self.limits.max_transfer).clamp(PAGE, 1 << 20)
    }

    /// When the cache should be run even if no caller does.
    fn wakeup(&self, now: Time) -> Option<Time> {
        if self.is_behind() || self.jobs.can_go_on {
            return Some(now);
        }
        let lane = if self.shared_out > 0 { self.port.next_wakeup() } else { None };
        let lines = self.room.wakeup().into_iter().chain(self.wanted.wakeup()).chain(self.handles.wakeup());
        let lines = lines.chain(self.pages.writers.wakeup());
        let own = self.pages.dirty.wakeup(now).into_iter().chain(self.pages.next_shrink(now));
        lane.into_iter().chain(own).chain(self.holds.wakeup()).chain(lines).min()
    }
}

/// Counts the costs of an eviction.
pub(super) fn note(handles: &mut Handles, evicted: Evicted) {
    if let Some(handle) = evicted.unused_by {
        handles.count_unused(handle);
    }
}

impl Turns for Engine {
    type Failure = Failure;

    fn lanes(&self) -> &Lanes<Failure> {
        &self.lanes
    }

    fn lanes_mut(&mut self) -> &mut Lanes<Failure> {
        &mut self.lanes
    }

    /// The shared lane is behind the port.
    fn each_below(&self, _each: &mut dyn FnMut(&dyn Lane)) {}

    fn outlook(&self, now: Time) -> Outlook {
        let due = self.wakeup(now);
        let is_out = self.shared_out > 0;
        // Reads that no task waits for are collected by the next lane that is run. Dirty pages, and jobs done
        // in pieces, need a thread that comes back at a certain time.
        let some = self.pages.dirty.taken() > 0 || self.pages.next_shrink(now).is_some();
        let thread = match (self.jobs.is_empty(), some) {
            (true, false) => None,
            (true, true) => Some(due.unwrap_or(Time(u64::MAX))),
            (false, _) => Some(now),
        };
        Outlook { due, is_out, has_work: is_out || due.is_some(), thread }
    }

    fn is_out(&self) -> bool {
        self.shared_out > 0
    }

    fn enter(&mut self) {
        let (work, any) = self.lates.begin_turn();
        (self.work, self.events, self.progress) = (work, any, any);
        self.take_lates();
    }

    fn leave(&mut self, now: Time) {
        self.totals.longest = self.totals.longest.max(self.work);
        self.totals.work += u64::from(self.work);
        self.publish_urgency();
        self.publish_ahead();
        self.grant(now);
        self.pass_handles_on(now);
        if self.shared_out > 0 {
            self.lanes.appoint();
        }
    }

    fn has_progress(&self) -> bool {
        self.progress
    }

    fn panicked(&self) {
        self.pages.store.frames().shut();
    }

    /// Only used where the cache is dropped.
    fn unplug(&mut self, now: Time) {
        self.port.order([Order::Unplug]);
        self.port.run(now);
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        if self.shared_out > 0 {
            self.port.wait(now, timeout);
        }
    }

    /// As many completions as one turn allows.
    fn run(&mut self, now: Time) {
        if self.shared_out == 0 {
            return;
        }
        let mut came = std::mem::take(&mut self.came);
        self.port.take_done(&mut came);
        let mut bios = came.drain(..);
        while !self.is_spent()
            && let Some(bio) = bios.next()
        {
            self.shared_out -= 1;
            self.came_back(now, bio);
        }
        let left: Vec<Bio> = bios.collect();
        self.came = if left.is_empty() { came } else { left };
    }
}
