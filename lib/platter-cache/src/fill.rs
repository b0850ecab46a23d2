//! Reads pages: what a readahead policy may request, and the bios that result.

use super::blocks::runs;
use super::engine::{Ask, Engine, PeerRead, WINDOW};
use super::frames::{Loan, Store};
use super::ios::{IoKey, IoKind};
use super::pages::{AHEAD, Evicted, FILLING, MARKED, Moved, Writable};
use crate::readahead::{PAGE, Pages, Window};
use platter_block::bio::{Bio, Flags};
use std::ops::Range;

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
