//! Changing the number of frames that the cache uses, while it is open.
//!
//! The first frames are used. When there are to be fewer, those behind the new end are emptied from the last one on: their
//! pages move to frames before it, whose pages replacement would evict next. A lane copies them without the lock. A frame
//! leaves the table when all behind it have left, and its memory is given back to the system without the lock. Until that is
//! done the frame is not used again.

use super::free::PINNED_LOOKS;
use super::{CURRENT, EMPTY, Evicted, FILLING, FrameInfo, HELD, Kept, Moved, NONE, PageTable, WRITING};
use crate::ahead::PIECE;
use platter_block::time::{Span, Time};
use std::ops::Range;

/// How long to wait before frames are tried again that could not be emptied.
const PAUSE: Span = Span::from_millis(100);

/// The cost of moving a page, in pages that are only looked up.
const MOVE: u32 = 8;

/// Frames that leave the table at a time, for the cost of one page that is looked up.
const CUT: u32 = 16;

/// The number of frames in use, and those that are given back.
#[derive(Default)]
pub(in super::super) struct Sizing {
    most: u32,
    /// The frame to empty next, if it is behind the new end.
    at: u32,
    /// A frame was emptied since `at` was the last one.
    any: bool,
    /// The busy frames of this pass over those behind the end, and of a pass that found no others in use: the next one only looks
    /// at these.
    busy: Range<u32>,
    only: Option<Range<u32>>,
    /// All frames that are left were found busy: not before this time again.
    not_before: Time,
    /// Frames of the table that are marked as unused, and the first one that may be and is to be used again.
    pub(super) unused: u32,
    again: u32,
    /// No memory is behind this frame.
    populated: u32,
    /// Frames that are not in the table: those whose memory may be there, and those whose memory a lane is giving back.
    gone: Range<u32>,
    giving: Range<u32>,
}

impl Sizing {
    pub(super) fn new(most: u32) -> Sizing {
        Sizing { most, again: NONE, ..Sizing::default() }
    }
}

/// What became of the frame that was to be emptied.
enum Emptied {
    /// Its page has got another frame.
    Moved(Option<Moved>),
    /// It was free.
    Freed,
    /// It was unused before, and leaves when those behind it have.
    Unused,
    /// A device or a program has it, or there is no other frame for its page.
    Busy,
}

impl PageTable {
    /// The number of frames that the cache is to use.
    pub(in super::super) fn most(&self) -> u32 {
        self.sizing.most
    }

    /// The frames before this one may be used. Memory behind it may be on its way back to the system.
    pub(super) fn limit(&self) -> u32 {
        let Sizing { most, gone, giving, .. } = &self.sizing;
        [gone, giving]
            .into_iter()
            .filter(|range| !range.is_empty())
            .fold(*most, |least, range| least.min(range.start))
    }

    /// Sets the number of frames to use, at most as many as there are.
    pub(in super::super) fn set_most(&mut self, most: u32) {
        let most = most.min(self.store.count());
        if self.sizing.unused > 0 {
            self.sizing.again = self.sizing.again.min(self.sizing.most);
        }
        let sizing = &mut self.sizing;
        (sizing.most, sizing.not_before) = (most, Time(0));
        (sizing.at, sizing.any, sizing.busy, sizing.only) = (0, false, 0..0, None);
        self.give_back(self.store.frames().ahead.populated());
        self.store.frames().ahead.set_limit(most);
    }

    /// Has the memory of frames given back that are neither used nor to be used, also if it was never used. Those before `populated`
    /// may have some.
    pub(in super::super) fn give_back(&mut self, populated: u32) {
        let (used, populated) = (self.used(), populated.min(self.store.count()));
        let first = self.most().max(used);
        let sizing = &mut self.sizing;
        sizing.populated = sizing.populated.max(populated).max(used);
        sizing.gone = first..sizing.populated.max(first);
    }

    /// Frames behind the end that have not left the table.
    pub(in super::super) fn surplus(&self) -> u32 {
        self.used().saturating_sub(self.most())
    }

    /// Whether frames are being emptied, and were not all found busy.
    pub(in super::super) fn is_shrinking(&self, now: Time) -> bool {
        self.surplus() > 0 && self.sizing.not_before <= now
    }

    /// When frames are to be emptied next.
    pub(in super::super) fn next_shrink(&self, now: Time) -> Option<Time> {
        let is_giving = self.sizing.giving.is_empty() && !self.sizing.gone.is_empty();
        match self.surplus() {
            0 if is_giving || self.sizing.again != NONE => Some(now),
            0 => None,
            _ => Some(self.sizing.not_before.max(now)),
        }
    }

    /// Frees frames that were marked as unused and are to be used again, for at most `work`. Returns the work done.
    fn use_again(&mut self, work: u32) -> u32 {
        let mut done = 0;
        while self.sizing.again != NONE && done < work {
            let frame = self.sizing.again;
            if self.sizing.unused == 0 || frame >= self.most().min(self.used()) {
                self.sizing.again = NONE;
                break;
            }
            if self.is_unused(frame) {
                self.sizing.unused -= 1;
                self.release(frame);
            }
            self.sizing.again += 1;
            done += 1;
        }
        done
    }

    /// Empties frames behind the end, for at most `work`. Returns the work done. `note` gets what was evicted, and `moved` the pages
    /// to be copied.
    pub(in super::super) fn resize(
        &mut self,
        now: Time,
        work: u32,
        note: &mut dyn FnMut(Evicted),
        moved: &mut Vec<Moved>,
    ) -> u32 {
        let freed = self.use_again(work);
        if !self.is_shrinking(now) {
            return freed;
        }
        self.release_pinned();
        let mut done = freed + PINNED_LOOKS as u32 / 4;
        while done < work && self.surplus() > 0 {
            if !self.find_pass(now) {
                break;
            }
            let mut evicted = Evicted { unused_by: None };
            let emptied = self.empty(self.sizing.at, &mut evicted);
            note(evicted);
            done += if matches!(emptied, Emptied::Moved(_)) { MOVE } else { 1 };
            self.sizing.any |= matches!(emptied, Emptied::Moved(_) | Emptied::Freed);
            if matches!(emptied, Emptied::Busy) {
                let (at, busy) = (self.sizing.at, &mut self.sizing.busy);
                *busy =
                    if Range::is_empty(busy) { at..at + 1 } else { busy.start.min(at)..busy.end.max(at + 1) };
            }
            if let Emptied::Moved(Some(page)) = emptied {
                moved.push(page);
            }
            self.sizing.any |= self.cut();
            // 0 is never behind the end.
            self.sizing.at = self.sizing.at.saturating_sub(1);
        }
        done
    }

    /// Begins another pass over the frames behind the end if the one before is over. Returns `false` if that found all frames busy:
    /// the next one comes after a pause.
    fn find_pass(&mut self, now: Time) -> bool {
        let used = self.used();
        let frames = self.sizing.only.clone().unwrap_or(self.most()..used);
        let sizing = &mut self.sizing;
        if (frames.start..frames.end.min(used)).contains(&sizing.at) {
            return true;
        }
        let (busy, any) = (std::mem::take(&mut sizing.busy), std::mem::take(&mut sizing.any));
        if !any && sizing.at > 0 && sizing.at < frames.start {
            sizing.only = Some(busy).filter(|busy| !Range::is_empty(busy));
            (sizing.at, sizing.not_before) = (0, now + PAUSE);
            return false;
        }
        if any {
            sizing.only = None;
        }
        sizing.at = sizing.only.as_ref().map_or(used, |only| only.end.min(used)) - 1;
        true
    }

    /// Takes some frames that are not used out of the table's end. Returns whether there were any.
    fn cut(&mut self) -> bool {
        let before = self.used();
        while before - self.used() < CUT && self.surplus() > 0 && self.is_unused(self.used() - 1) {
            self.infos.pop();
            self.sizing.unused -= 1;
        }
        let gone = &mut self.sizing.gone;
        let end = if Range::is_empty(gone) { before } else { gone.end };
        let has_any = before > self.infos.len() as u32;
        if has_any {
            *gone = self.infos.len() as u32..end;
            self.store.frames().ahead.use_first(self.used());
        }
        has_any
    }

    /// Takes the page of a frame out of it.
    fn empty(&mut self, frame: u32, evicted: &mut Evicted) -> Emptied {
        if self.is_unused(frame) {
            return Emptied::Unused;
        }
        if self.is_free(frame) {
            self.unlink_free(frame);
            self.keeps(frame);
            return Emptied::Freed;
        }
        let info = *self.info(frame);
        let busy = info.is(FILLING | WRITING | HELD) || info.older != NONE;
        if !info.is(CURRENT) || busy || self.store.is_pinned(frame) || self.store.is_lent(frame) {
            return Emptied::Busy;
        }
        // An operation on its range may be looking for it by frame.
        if self.reserved.of(self.store.page(frame)).is_some() {
            return Emptied::Busy;
        }
        self.info_mut(frame).flags |= HELD;
        let to = self.take_frame(evicted);
        self.info_mut(frame).flags &= !HELD;
        let Some(to) = to else { return Emptied::Busy };
        if self.store.close(frame) {
            return Emptied::Moved(self.relocate(frame, to));
        }
        // A program has just taken a reference.
        self.release(to);
        self.expose(frame);
        Emptied::Busy
    }

    /// Gives the page of a closed frame one without a page.
    fn relocate(&mut self, frame: u32, to: u32) -> Option<Moved> {
        let (page, info) = (self.store.page(frame), *self.info(frame));
        self.store.remove(frame);
        self.infos[to as usize] = FrameInfo { dirty: 0, seq: 0, epoch: 0, ..info };
        self.store.insert(to, page);
        self.store.copy_uses(frame, to);
        self.replacement.rename(frame, to);
        self.inherit(frame, to, info.seq);
        self.infos[frame as usize] = EMPTY;
        if info.valid == 0 {
            self.release(frame);
            self.expose(to);
            return None;
        }
        // Neither evicted nor moved again until its data is there.
        self.info_mut(to).flags |= FILLING;
        let kept = Kept { from: self.store.hold_to_copy(frame), blocks: info.valid };
        Some(Moved { to, kept, vacated: Some(frame) })
    }

    /// Frees frames whose pages have been copied to others.
    pub(in super::super) fn vacate(&mut self, frames: impl Iterator<Item = u32>) {
        for frame in frames {
            self.release(frame);
            // It is not busy any more.
            self.sizing.not_before = Time(0);
        }
    }

    /// Frames whose memory the caller has to give back to the system without the lock, if there are any and no other lane is at
    /// it. [`gave`](PageTable::gave) must follow.
    pub(in super::super) fn take_gone(&mut self) -> Option<Range<u32>> {
        let is_over = self.surplus() == 0;
        let Sizing { gone, giving, populated, .. } = &mut self.sizing;
        if Range::is_empty(gone) || !Range::is_empty(giving) {
            return None;
        }
        // Large pages as a whole, from the last one on.
        let first = (gone.end - 1) / PIECE * PIECE;
        if first < gone.start && !is_over {
            return None;
        }
        *giving = first.max(gone.start)..gone.end;
        gone.end = giving.start;
        *populated = (*populated).min(giving.start);
        Some(giving.clone())
    }

    /// The memory of frames is the system's again.
    pub(in super::super) fn gave(&mut self) {
        self.sizing.giving = 0..0;
        self.freed += 1;
    }
}
