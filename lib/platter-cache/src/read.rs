//! Reads: the pages that a read takes, in order; what a readahead policy requests of the missing ones, and the bios that result.
//!
//! A read goes page by page as in the kernels' `do_generic_file_read`, so that each readahead policy is called as it was designed for.
//!
//! A page is held for the reader that requested it. Otherwise a page read for a reader that is not run at once could be evicted for
//! the next one and be read again, repeatedly. A reader whose lane is never run would keep its page and so a frame that others need,
//! so a hold may be ended if no other frame becomes free for some time.

use super::blocks::{blocks, runs};
use super::engine::{Ask, Engine, PeerRead, WINDOW};
use super::frames::{FRAME, Loan, Store};
use super::holds::HoldId;
use super::ios::{Failure, IoKey, IoKind};
use super::late::{Late, LateRead, LateWrite, Lates};
use super::pages::{AHEAD, Evicted, FILLING, HELD, MARKED, Moved, Writable};
use super::plan::Question;
use super::policy::Manners;
use super::task::{PageSteps, Piece, Step, Task, Wait};
use crate::readahead::{PAGE, Pages, Readahead, Window};
use platter_block::bio::{Bio, Flags};
use platter_block::fault::{Fault, Kind};
use platter_block::time::{Span, Time};
use std::ops::Range;

/// What the search for a page has found.
enum Found {
    Frame(u32),
    /// There is no frame for it.
    NoRoom,
    /// The policy is asked what to read when the lock is released.
    Asks,
}

/// Calls a policy.
type Tell<'a> = &'a mut dyn FnMut(&mut dyn Readahead, &mut crate::readahead::Call, &mut View<'_>);

impl Engine {
    /// Advances a read as far as possible.
    pub(super) fn read(&mut self, now: Time, task: &mut Task, failed: Option<Failure>) -> Step {
        if let Some(failure) = failed {
            // What has taken that long once would do so again.
            let is_slow = failure.fault.kind == Kind::TimedOut && !failure.ahead;
            if task.steps.bare_io == Some(failure.key) || is_slow {
                return Err((failure.fault, failure.pos));
            }
            // Reading it together with other pages failed: now only the needed blocks are read.
            task.steps.bare = true;
        }
        let manners = self.handles.manners();
        let every = manners.every_page;
        while task.at < task.end {
            if self.is_spent() {
                return self.park_for_turn(task);
            }
            let page = task.at / PAGE;
            if let Some(ticket) = self.pages.reserved.of(page) {
                return self.park_for_range(task, ticket);
            }
            if !task.begun {
                if manners.exclusive && self.handles.wait_for(task.ask.handle, task.ask.lane) {
                    task.wait = Wait::Handle(task.ask.handle);
                    return Ok(false);
                }
                self.begin(task, manners);
            }
            if every && !task.steps.announced {
                task.steps.announced = true;
                self.tell(task, &mut |policy, call, view| policy.page(call, page, view));
            }
            if let Some(step) = self.read_page(now, task, page, every)? {
                return step;
            }
            task.steps = PageSteps::default();
        }
        Ok(true)
    }

    fn begin(&mut self, task: &mut Task, manners: Manners) {
        task.begun = true;
        if manners.are_free() {
            if manners.ends
                && let Some(policy) = self.handles.policy(task.ask.handle)
            {
                task.plan.attach(policy, true);
            }
            return;
        }
        if manners.exclusive {
            task.sole = self.handles.occupy(task.ask.handle);
        }
        self.tell(task, &mut |policy, call, view| policy.begin(call, view));
    }

    fn tell(&mut self, task: &mut Task, tell: Tell<'_>) {
        let place = task.ask.handle;
        let policy = self.handles.at(place).and_then(|handle| handle.policy.take());
        let Some(policy) = policy else { return };
        self.progress = true;
        self.handles.demanded.clear();
        tell(policy.lock().policy.as_mut(), &mut task.call, &mut View { engine: self, ask: &task.ask });
        task.note_missed(&mut self.handles.demanded);
        if let Some(handle) = self.handles.at(place) {
            handle.policy = Some(policy);
        }
    }

    /// Has the policy asked when the lock is released.
    fn question(&mut self, task: &mut Task, question: Question) {
        let ends = self.handles.manners().ends;
        if let Some(policy) = self.handles.policy(task.ask.handle) {
            task.plan.attach(policy, ends);
            task.plan.note(question);
        }
    }

    /// Begins to read what the policy has wanted.
    pub(super) fn carry_out(&mut self, task: &mut Task) {
        // A caller whose call is over does not wait for its lane.
        let own = task.ask.own;
        task.ask.own &= !task.over;
        self.handles.demanded.clear();
        for window in task.plan.begin() {
            View { engine: self, ask: &task.ask }.read(window);
        }
        task.note_missed(&mut self.handles.demanded);
        task.ask.own = own;
    }

    /// Reads the task's part of a page. `None`: complete; otherwise the result of the step.
    fn read_page(
        &mut self,
        now: Time,
        task: &mut Task,
        page: u64,
        every: bool,
    ) -> Result<Option<Step>, (Fault, u64)> {
        let offset = (task.at % PAGE) as usize;
        let len = (task.end - task.at).min((FRAME - offset) as u64) as usize;
        let needed = blocks(offset..offset + len);
        let frame = match self.find_or_fill(task, page) {
            Found::Frame(frame) => frame,
            Found::NoRoom => return Ok(Some(self.no_room(now, task))),
            Found::Asks => return Ok(Some(self.park_for_turn(task))),
        };
        let info = *self.pages.info(frame);
        let marked = info.is(MARKED);
        let busy = info.is(FILLING);
        if marked && self.handles.manners().are_free() {
            if task.plan.is_asking() {
                return Ok(Some(self.park_for_turn(task)));
            }
            self.pages.info_mut(frame).flags = info.flags & !MARKED;
            self.question(task, Question::Marked(page, busy));
        } else if (every && !task.steps.found) || (marked && !every) {
            task.steps.found = true;
            self.pages.info_mut(frame).flags = (info.flags & !MARKED) | HELD;
            self.tell(task, &mut |policy, call, view| policy.found(call, page, busy, marked, view));
            self.pages.info_mut(frame).flags &= !HELD;
        }
        if busy {
            task.turn = None;
            self.count_miss(task);
            let key = self.io_of(frame);
            // Pages that are being copied are not held: a write to one, or a read of its missing blocks, would have to give it
            // another frame.
            if matches!(self.ios.get(key).state.kind, IoKind::Fill | IoKind::Ahead) {
                self.hold_for(task, frame);
            }
            if !every {
                self.prepare_early_end(task, page, key);
            }
            return Ok(Some(self.park_briefly(task, key)));
        }
        if needed & !info.valid != 0 {
            self.count_miss(task);
            task.steps.partial = true;
            let wanted = if task.steps.bare { needed } else { u8::MAX };
            let Some(fill) = self.fill_blocks(&task.ask, frame, wanted) else {
                // The task keeps its turn, or those behind it would never be told that there is no frame.
                return Ok(Some(self.no_room(now, task)));
            };
            task.turn = None;
            let key = match fill {
                Fill::Reads(key) => key,
                Fill::Moves(key) => return Ok(Some(self.park(task, key))),
            };
            // The frame may have been given to another page.
            self.pages.store.find(page).into_iter().for_each(|frame| self.hold_for(task, frame));
            if task.steps.bare || wanted == needed {
                task.steps.bare_io = Some(key);
            }
            return Ok(Some(self.park(task, key)));
        }
        task.turn = None;
        self.take_page(task, frame, offset, len);
        Ok(None)
    }

    fn count_miss(&mut self, task: &mut Task) {
        if !std::mem::replace(&mut task.steps.missed, true) {
            self.handles.count(task.ask.handle, |counters| counters.misses += 1);
        }
    }

    /// The frame of a page. If the page is not cached, the policy is asked what to read; if it does not want the page, the page
    /// is read alone.
    fn find_or_fill(&mut self, task: &mut Task, page: u64) -> Found {
        let found = self.pages.store.find(page);
        if found.is_none() && self.must_queue(task) {
            return Found::NoRoom;
        }
        let planned = std::mem::take(&mut task.steps.planned);
        if planned {
            self.carry_out(task);
        }
        if let Some(frame) = found {
            return Found::Frame(frame);
        }
        if !task.steps.bare {
            self.count_miss(task);
            if !self.handles.manners().are_free() {
                self.tell(task, &mut |policy, call, view| policy.missing(call, page, view));
            } else if !planned {
                if !task.plan.is_asking() {
                    self.question(task, Question::Missing(page));
                    task.steps.planned = true;
                }
                return Found::Asks;
            }
            if self.pages.store.find(page).is_none() {
                self.fill(&task.ask, Window { first: page, count: 1, mark: None, sync: true });
            }
            let found = self.pages.store.find(page);
            task.steps.planned = found.is_none();
            return found.map_or(Found::NoRoom, Found::Frame);
        }
        // A frame without contents: only the needed blocks are read.
        let mut evicted = super::pages::Evicted { unused_by: None };
        let frame = self.pages.take(page, &mut evicted);
        self.note(evicted);
        frame.map_or(Found::NoRoom, Found::Frame)
    }

    /// Takes the valid part of a page for the task's bio; it is copied after the lock is released.
    fn take_page(&mut self, task: &mut Task, frame: u32, offset: usize, len: usize) {
        let (handle, page) = (task.ask.handle, task.at / PAGE);
        if task.has_missed(page) {
            self.count_miss(task);
        }
        if !task.steps.missed {
            self.handles.count(handle, |counters| counters.hits += 1);
        }
        let once = self.handles.at(handle).is_some_and(|handle| handle.once);
        let info = *self.pages.info(frame);
        if info.is(AHEAD) {
            self.pages.info_mut(frame).flags &= !AHEAD;
            self.handles.count_used(info.handle);
        } else if !once {
            self.pages.store.frames().touch(frame);
        }
        let is_new = info.is(AHEAD) || task.steps.missed && !task.steps.partial;
        let held = self.pages.store.hold_to_copy(frame);
        task.pieces.push(Piece { held, offset: offset as u32, len: len as u32 });
        task.at += len as u64;
        self.work += 1;
        self.progress = true;
        self.end_hold(task);
        self.pages.expose(frame);
        if once && is_new {
            self.cool_own(frame, handle);
        }
    }

    /// Has the page of a frame, which a handle reads once, evicted before others if it was this handle that had it read from the
    /// disk. What others have had read, or have written, keeps its place.
    fn cool_own(&mut self, frame: u32, handle: u16) {
        let info = self.pages.info(frame);
        if info.handle == handle && info.dirty == 0 {
            self.pages.cool(frame);
        }
    }

    /// Notes the frames of a task that waits for the I/O `key` at `page`, if it gets everything from there, through its own
    /// lane.
    pub(super) fn prepare_early_end(&mut self, task: &mut Task, page: u64, key: IoKey) {
        task.early.reset();
        let io = &self.ios.get(key).state;
        let reads = matches!(io.kind, IoKind::Fill | IoKind::Ahead);
        let whole = reads && io.own == Some(task.ask.lane) && !task.barrier && task.sole == 0;
        let Some(&first) = io.frames.first().filter(|_| whole) else { return };
        let before = page.checked_sub(self.pages.store.page(first));
        let Some(from) = before.and_then(|pages| usize::try_from(pages).ok()) else { return };
        let count = (task.end.div_ceil(PAGE) - page) as usize;
        let Some(frames) = io.frames.get(from..).and_then(|frames| frames.get(..count)) else { return };
        // The policy is told of a marked page, and the handle's counters of one that was read ahead.
        if frames.iter().any(|&frame| self.pages.info(frame).is(AHEAD | MARKED)) {
            return;
        }
        task.early.frames.extend_from_slice(frames);
        task.early.key = Some(key);
    }

    /// Processes what has ended early: all writes, of which each lane leaves one at most, because a flush must not miss them, and as
    /// many reads as one turn allows.
    pub(super) fn take_lates(&mut self) {
        let Lates { inbox, taken, .. } = &mut self.lates;
        let before = taken.len();
        inbox.take(taken);
        if taken.is_empty() {
            return;
        }
        let mut taken = std::mem::take(taken);
        self.end_writes(&mut taken, before);
        while !self.is_spent()
            && let Some(late) = taken.pop_if(|late| matches!(late, Late::Read(_)))
        {
            self.end_late(late);
        }
        self.lates.taken = taken;
    }

    fn end_writes(&mut self, taken: &mut Vec<Late>, from: usize) {
        for late in taken.extract_if(from.., |late| matches!(late, Late::Write(_))) {
            self.end_late(late);
        }
    }

    /// As `take_lates`, between two turns.
    pub(super) fn catch_up(&mut self) {
        self.work = self.lates.work;
        self.events = false;
        self.take_lates();
        self.lates.work = self.work;
        self.lates.any |= self.events;
    }

    fn end_late(&mut self, late: Late) {
        match late {
            Late::Read(read) => self.end_late_read(read),
            Late::Write(LateWrite { key, writer, since }) => {
                self.copied(since, key, writer);
                writer.into_iter().for_each(|writer| self.pages.writers.leave(writer));
            }
        }
    }

    fn end_late_read(&mut self, late: LateRead) {
        // Only write-backs need the time.
        self.came_back(Time(0), late.bio);
        self.release_hold(late.hold);
        let first = late.pages.start;
        let once = self.handles.at(late.handle).is_some_and(|handle| handle.once);
        for page in late.pages {
            if page > first {
                self.handles.count(late.handle, |counters| counters.misses += 1);
            }
            match self.pages.store.find(page) {
                Some(frame) if once => self.cool_own(frame, late.handle),
                Some(frame) => self.pages.store.frames().touch(frame),
                None => {}
            }
        }
    }

    /// Says whether others wait for what bios that end early leave, and takes what they have left until now.
    pub(super) fn publish_urgency(&mut self) {
        let waits = self.ios.awaited > 0 || !self.room.is_empty() || !self.wanted.is_empty();
        let waits = waits || self.pages.writers.is_waiting() || self.pages.dirty.awaits_copies();
        if self.lates.inbox.set_urgent(waits || !self.jobs.is_empty()) {
            self.take_lates();
        }
    }
}

/// The cache as a policy sees it.
pub(super) struct View<'a> {
    pub(super) engine: &'a mut Engine,
    pub(super) ask: &'a Ask,
}

impl Pages for View<'_> {
    fn is_cached(&self, page: u64) -> bool {
        self.engine.is_cached(page)
    }

    fn end(&self) -> u64 {
        self.engine.pages.end()
    }

    fn is_congested(&self) -> bool {
        self.engine.ahead_out() >= self.engine.congestion
    }

    fn read(&mut self, window: Window) -> u32 {
        self.engine.read_window(self.ask, window) + self.engine.note_peer_reads(self.ask, window)
    }
}

/// What has begun for missing blocks of a page.
pub(super) enum Fill {
    /// They are being read.
    Reads(IoKey),
    /// The page gets another frame first, because a device or a reader has its own.
    Moves(IoKey),
}

/// A bio under construction.
struct Open {
    key: IoKey,
    bio: Bio,
    pages: Range<u64>,
}

// Pages that are missing: what a policy requests, and the bios that result.
impl Engine {
    /// The first pages from `page` on, up to `end`, that are this shard's; empty at `end` if there are none.
    #[inline]
    pub(super) fn own_run(&self, page: u64, end: u64) -> Range<u64> {
        match &self.place {
            None => page.min(end)..end,
            Some(place) => place.placement.own_run(place.index, page, end),
        }
    }

    /// All such runs of a range.
    pub(super) fn own_runs(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut at = range.start;
        std::iter::from_fn(move || {
            let run = self.own_run(at, range.end);
            at = run.end;
            (!run.is_empty()).then_some(run)
        })
    }

    /// Whether a page of any shard is cached or being read. Of another shard this may just change.
    pub(super) fn is_cached(&self, page: u64) -> bool {
        let Some(place) = &self.place else { return self.pages.store.find(page).is_some() };
        match place.placement.shard_of(page) {
            own if own == place.index => self.pages.store.find(page).is_some(),
            other => place.placement.is_cached(other, page),
        }
    }

    /// Notes the pages of a window that other shards are to read. Returns their number.
    pub(super) fn note_peer_reads(&mut self, ask: &Ask, window: Window) -> u32 {
        let Some(place) = self.place.clone() else { return 0 };
        let end = window.first.saturating_add(u64::from(window.count)).min(self.pages.end());
        let (mut page, mut count) = (window.first, 0);
        while page < end {
            let (shard, next) = (place.placement.shard_of(page), place.placement.end_of(page).min(end));
            if shard != place.index {
                let missing = (page..next).filter(|&page| !self.is_cached(page)).count() as u32;
                if missing > 0 {
                    let mark = window.mark.filter(|mark| (page..next).contains(mark));
                    let window = Window { first: page, count: (next - page) as u32, mark, sync: false };
                    let ask = Ask { demand: 0..0, own: false, ..ask.clone() };
                    self.peer_reads.push(PeerRead { shard, ask, window });
                }
                count += missing;
            }
            page = next;
        }
        count
    }

    /// Starts reading the pages of a window that this shard has. Returns their number.
    pub(super) fn read_window(&mut self, ask: &Ask, window: Window) -> u32 {
        // The rest of a very large window is read when this much has begun.
        let now = window.count.min(WINDOW);
        let rest = window.first + u64::from(now)..window.first + u64::from(window.count);
        let later: u64 = self.own_runs(rest.clone()).map(|run| run.end - run.start).sum();
        self.jobs.prefetch(ask, rest, window.mark);
        self.fill(ask, Window { count: now, ..window }) + later as u32
    }

    /// Starts reading the pages of a window that this shard has and that are not in the cache, as far as there are frames.
    /// Returns their number.
    pub(super) fn fill(&mut self, ask: &Ask, window: Window) -> u32 {
        let end = window.first.saturating_add(u64::from(window.count)).min(self.pages.end());
        let (mut count, mut aheads, mut open) = (0, 0, None::<Open>);
        let (max_bytes, max_segments) = (self.max_bytes(), self.max_segments());
        let mut run = self.own_run(window.first, end);
        loop {
            let Some(page) = run.next() else {
                if run.end >= end {
                    break;
                }
                run = self.own_run(run.end, end);
                continue;
            };
            if self.pages.store.find(page).is_some() || self.pages.reserved.of(page).is_some() {
                self.send_fill(ask, open.take(), window.sync);
                continue;
            }
            let mut evicted = Evicted { unused_by: None };
            let taken = self.pages.take(page, &mut evicted);
            self.note(evicted);
            let Some(frame) = taken else { break };
            if open.as_ref().is_some_and(|open| {
                open.pages.end != page
                    || open.bio.len() + PAGE > max_bytes
                    || open.bio.segment_count() >= max_segments
            }) {
                self.send_fill(ask, open.take(), window.sync);
            }
            let open = open.get_or_insert_with(|| self.begin_fill(page));
            let ahead = !ask.demand.contains(&page);
            let all = self.pages.all_of(page);
            let mut flags = FILLING;
            flags |= if ahead { AHEAD } else { 0 };
            flags |= if window.mark == Some(page) { MARKED } else { 0 };
            let info = self.pages.info_mut(frame);
            info.flags |= flags;
            (info.handle, info.io, info.filling) = (ask.handle, open.key.index(), all);
            self.ios.get(open.key).state.frames.push(frame);
            let bytes = self.pages.bytes_of(page);
            let lent = self.pages.store.lend(frame, (0, bytes), Loan::Fill, &mut open.bio);
            lent.expect("a new frame is not in use, and the bio was ended before it was full");
            open.pages.end = page + 1;
            count += 1;
            self.work += 1;
            aheads += u32::from(ahead);
            if !ahead {
                self.handles.demand(page);
            }
        }
        self.send_fill(ask, open, window.sync);
        if aheads > 0 {
            self.handles.count_ahead(ask.handle, aheads);
        }
        count
    }

    fn begin_fill(&mut self, page: u64) -> Open {
        let key = self.ios.begin(IoKind::Fill);
        let mut bio = self.ios.bio();
        Store::lease(&mut bio, &self.ios.get(key).state.lent, Loan::Fill, page * PAGE);
        Open { key, bio, pages: page..page + 1 }
    }

    fn send_fill(&mut self, ask: &Ask, open: Option<Open>, sync: bool) {
        let Some(Open { key, bio, pages }) = open else { return };
        self.handles.count(ask.handle, |counters| counters.count_read((pages.end - pages.start) as u32));
        let demanded = pages.start < ask.demand.end && ask.demand.start < pages.end;
        if !demanded {
            self.ios.set_ahead(key);
        }
        let own = ask.own && demanded;
        self.ios.get(key).state.own = own.then_some(ask.lane);
        self.send_read(ask, key, bio, sync, own);
    }

    fn send_read(&mut self, ask: &Ask, key: IoKey, mut bio: Bio, sync: bool, own: bool) {
        bio.set_context(ask.context);
        bio.set_ioprio(ask.ioprio);
        if sync {
            bio.add_flags(Flags::SYNC);
        }
        self.ios.sign(key, &mut bio);
        self.send(bio, own);
    }

    /// Starts reading those of `blocks` of a cached page that are not valid; at least one is not. Returns
    /// `None` if this needs another frame and there is none.
    pub(super) fn fill_blocks(&mut self, ask: &Ask, frame: u32, blocks: u8) -> Option<Fill> {
        let page = self.pages.store.page(frame);
        let wanted = blocks & self.pages.all_of(page) & !self.pages.info(frame).valid;
        let mut evicted = Evicted { unused_by: None };
        // A device may be reading the rest of the frame at this moment.
        let writable = self.pages.writable(frame, wanted, &mut evicted);
        self.note(evicted);
        let Writable { frame, kept } = writable?;
        if let Some(kept) = kept {
            return Some(Fill::Moves(self.plan_move(Moved { to: frame, kept, vacated: None })));
        }
        let key = self.ios.begin(IoKind::Fill);
        self.work += 1;
        let bytes = self.pages.bytes_of(page);
        for piece in runs(wanted) {
            let mut bio = self.ios.bio();
            let at = page * PAGE + piece.start as u64;
            Store::lease(&mut bio, &self.ios.get(key).state.lent, Loan::Fill, at);
            let len = piece.end.min(bytes) - piece.start;
            let lent = self.pages.store.lend(frame, (piece.start, len), Loan::Fill, &mut bio);
            lent.expect("a writable frame is not in use, and the bio is empty");
            self.send_read(ask, key, bio, true, ask.own);
        }
        self.handles.count(ask.handle, |counters| counters.count_read(1));
        self.ios.get(key).state.frames.push(frame);
        let info = self.pages.info_mut(frame);
        info.flags |= FILLING;
        (info.io, info.filling) = (key.index(), wanted);
        Some(Fill::Reads(key))
    }
}

/// How long a page that was read is held while other tasks need frames.
const LONGEST: Span = Span::from_millis(100);

/// Holds that are checked in one turn.
const LOOKS: usize = 256;

// Pages held for their readers.
impl Engine {
    /// Holds the frame into which a page is read for the task, so that the page is still there when the task
    /// continues.
    pub(super) fn hold_for(&mut self, task: &mut Task, frame: u32) {
        if task.hold.and_then(|id| self.holds.frame(id)) == Some(frame) {
            return;
        }
        self.end_hold(task);
        let held = self.pages.store.hold(frame);
        task.hold = Some(self.holds.add(held));
    }

    /// Ends the hold of a task that has its page or no longer wants it.
    pub(super) fn end_hold(&mut self, task: &mut Task) {
        self.release_hold(task.hold.take());
    }

    /// Ends a hold if it has not ended yet.
    pub(super) fn release_hold(&mut self, hold: Option<HoldId>) {
        if let Some(held) = hold.and_then(|id| self.holds.take(id)) {
            let frame = held.frame();
            self.pages.store.unhold(held);
            self.pages.usable(frame);
        }
    }

    /// Ends old holds for a task that needs a frame which no I/O in flight will free. Returns whether any
    /// frame is held and will become free later.
    pub(super) fn end_old_holds(&mut self, now: Time) -> bool {
        let count = self.holds.list.len();
        let mut due = None;
        for _ in 0..count.min(LOOKS) {
            self.holds.hand = (self.holds.hand + 1) % count;
            let index = self.holds.hand;
            let (generation, hold) = &mut self.holds.list[index];
            let Some(held) = hold else { continue };
            if self.pages.store.is_filling(held.held.frame()) {
                continue;
            }
            let until = *held.needed.get_or_insert(now) + LONGEST;
            if until > now {
                due = Time::earliest(due, Some(until));
                continue;
            }
            let id = HoldId { index: index as u32, generation: *generation };
            if let Some(held) = self.holds.take(id) {
                let frame = held.frame();
                self.pages.store.unhold(held);
                self.pages.usable(frame);
            }
        }
        self.holds.due = due;
        due.is_some()
    }

    /// Whether holds must be checked again, or no task waits for that.
    pub(super) fn holds_are_due(&mut self, now: Time) -> bool {
        if self.holds.due.is_some_and(|at| at > now) {
            return false;
        }
        self.holds.due = None;
        true
    }
}
