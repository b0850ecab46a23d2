//! The pages of a cache: which frame holds which page, which blocks are valid or dirty, and older versions.
//!
//! A frame holds one version of a page. The newest version is in the index. A page is normally written to in
//! place. While it is being written back, while a program has a reference to it, or while it is dirty from
//! before a barrier, a write makes a new version instead and leaves the old one unchanged. A version is
//! written back only when no older one is left (`older`), so that versions reach the disk in order.

use super::ahead::Prefault;
use super::blocks::blocks;
use super::dirty::{Dirty, WriteBack};
use super::frames::{Kept, Loan, NONE, Store};
use super::memory::{Refused, Rows};
use super::order::Place;
use super::ranges::Ranges;
use super::replace::{Probe, Replacement};
use super::writers::{WriterId, Writers};
use crate::readahead::PAGE;
use platter_block::time::Time;
use std::collections::VecDeque;

mod choose;
mod free;
mod resize;

use resize::Sizing;

/// Attempts to find a frame for a page before the task has to wait for one.
pub(super) const TRIES: u32 = 4;

/// In the index.
pub(super) const CURRENT: u8 = 1;
/// A device is writing to it.
pub(super) const FILLING: u8 = 2;
/// A device is reading from it.
pub(super) const WRITING: u8 = 4;
/// Read ahead and not requested yet.
pub(super) const AHEAD: u8 = 8;
/// The next read of it must be reported to the readahead policy.
pub(super) const MARKED: u8 = 16;
/// The current task needs it to stay in its frame.
pub(super) const HELD: u8 = 32;
/// Its write-back has failed: it is tried again in a bio of its own, so that its neighbours do not fail with
/// it.
pub(super) const FAILED: u8 = 64;

/// It will be dirty when a lane has copied data into it, and counts as dirty already.
pub(super) const PENDING: u8 = 128;

/// A frame in which a page may be written.
pub(super) struct Writable {
    pub(super) frame: u32,
    /// What is to be copied into it from the version before, before anything else is done with it.
    pub(super) kept: Option<Kept>,
}

/// A page that has got another frame, into which its data is to be copied.
pub(super) struct Moved {
    pub(super) to: u32,
    pub(super) kept: Kept,
    /// The frame that is [vacated](PageTable::vacate) when that is done.
    pub(super) vacated: Option<u32>,
}

/// The state of a frame that lock-free readers do not use.
#[derive(Clone, Copy)]
pub(super) struct FrameInfo {
    /// The version that must be on disk before this one.
    pub(super) older: u32,
    /// The version that has this as its `older`.
    newer: u32,
    /// The I/O that uses the frame.
    pub(super) io: u32,
    /// Sequence number in the order of dirty pages.
    pub(super) seq: u32,
    pub(super) epoch: u16,
    /// The writer of a dirty page; else the handle that requested the page.
    pub(super) handle: u16,
    /// Blocks of 512 bytes that are valid, and those that must be written.
    pub(super) valid: u8,
    pub(super) dirty: u8,
    /// Blocks that a device will fill.
    pub(super) filling: u8,
    pub(super) flags: u8,
}

const EMPTY: FrameInfo = FrameInfo {
    older: NONE,
    newer: NONE,
    io: NONE,
    seq: 0,
    epoch: 0,
    handle: 0,
    valid: 0,
    dirty: 0,
    filling: 0,
    flags: 0,
};

impl FrameInfo {
    pub(super) fn is(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// The result of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evicted {
    /// The page had been read ahead for this handle and was never read.
    pub(super) unused_by: Option<u16>,
}

/// All pages.
pub(super) struct PageTable {
    pub(super) store: Store,
    /// Of the frames that are or were in use, which are the first ones.
    infos: Rows<FrameInfo>,
    /// The first frame that has become free; the `older` of each is the next, the `newer` the one before.
    free: u32,
    free_count: u32,
    /// Old versions that are clean but pinned, least recently checked first.
    pinned: VecDeque<u32>,
    /// Frames that have become free or evictable since the last check.
    freed: u32,
    pub(super) reserved: Ranges,
    /// Kept to reuse their memory.
    later: Vec<Place>,
    aside: Vec<Place>,
    replacement: Replacement,
    pub(super) dirty: Dirty,
    size: u64,
    /// Insertions until the next tick of the use counts.
    until_tick: u32,
    pub(super) evictions: u64,
    pub(super) sizing: Sizing,
    pub(super) writers: Writers,
}

impl PageTable {
    /// A table of at most `count` frames, for which it maps addresses, and of which it uses the first `used` at first, for a device
    /// of `size` bytes.
    ///
    /// # Errors
    /// What the system has refused.
    pub(super) fn new(
        (count, used): (u32, u32),
        size: u64,
        rules: WriteBack,
        prefault: Prefault,
    ) -> Result<PageTable, Refused> {
        let overhead = Refused::Addresses(PageTable::overhead(count as usize));
        let infos = Rows::new(count as usize).ok_or(overhead)?;
        let replacement = Replacement::try_new(count).ok_or(overhead)?;
        Ok(PageTable {
            store: Store::new(count, used, prefault)?,
            infos,
            free: NONE,
            free_count: 0,
            pinned: VecDeque::new(),
            freed: 0,
            reserved: Ranges::default(),
            later: Vec::new(),
            aside: Vec::new(),
            replacement,
            dirty: Dirty::new(rules),
            size,
            until_tick: 0,
            evictions: 0,
            sizing: Sizing::new(used),
            writers: Writers::default(),
        })
    }

    /// Bytes of metadata per page, in a cache of `count` pages.
    pub(super) fn overhead(count: usize) -> usize {
        super::frames::Frames::overhead(count)
            + count * size_of::<FrameInfo>()
            + count * Replacement::BYTES_PER_FRAME
    }

    pub(super) fn info(&self, frame: u32) -> &FrameInfo {
        &self.infos[frame as usize]
    }

    pub(super) fn info_mut(&mut self, frame: u32) -> &mut FrameInfo {
        &mut self.infos[frame as usize]
    }

    /// Bytes of the device.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Number of pages of the device, including an incomplete one at its end.
    pub(super) fn end(&self) -> u64 {
        self.size.div_ceil(PAGE)
    }

    /// Number of pages in the index. Each is in the order of replacement once, busy or not; older versions are not.
    pub(super) fn cached(&self) -> u32 {
        self.replacement.len() as u32
    }

    /// Bytes of a page that lie on the device.
    pub(super) fn bytes_of(&self, page: u64) -> usize {
        self.size.saturating_sub(page * PAGE).min(PAGE) as usize
    }

    /// The blocks of a page that lie on the device.
    pub(super) fn all_of(&self, page: u64) -> u8 {
        blocks(0..self.bytes_of(page))
    }

    /// Whether all blocks of a frame's page are valid.
    pub(super) fn is_whole(&self, frame: u32) -> bool {
        self.info(frame).valid == self.all_of(self.store.page(frame))
    }

    /// Makes the frame available to lock-free readers, unless its next read must be reported to the policy.
    pub(super) fn expose(&mut self, frame: u32) {
        let info = self.info(frame);
        if info.is(CURRENT) && !info.is(FILLING | AHEAD | MARKED) && self.is_whole(frame) {
            self.store.open(frame);
        }
    }

    /// Takes a frame for a page that is not in the index, and adds the page without contents. `None`: all
    /// frames are in use.
    pub(super) fn take(&mut self, page: u64, evicted: &mut Evicted) -> Option<u32> {
        let frame = self.take_frame(evicted)?;
        self.infos[frame as usize] = FrameInfo { flags: CURRENT, ..EMPTY };
        self.store.insert(frame, page);
        self.replacement.insert(frame, page);
        if self.until_tick == 0 {
            // Uses count once within the time in which a sixty-fourth of all pages come in.
            self.until_tick = (self.most() / 64).max(1);
            self.store.tick();
        }
        self.until_tick -= 1;
        Some(frame)
    }

    fn evict(&mut self, evicted: &mut Evicted) -> Option<u32> {
        let (store, infos) = (&mut self.store, &self.infos);
        let frame = self.replacement.evict(&mut |frame| {
            let info = &infos[frame as usize];
            // A page with an older version in flight to the disk cannot be read from there.
            let busy = info.dirty != 0 || info.older != NONE || info.is(FILLING | WRITING | HELD);
            if busy || store.is_pinned(frame) {
                return Probe::Busy;
            }
            match store.take_use(frame) {
                0 => Probe::Free(store.page(frame)),
                uses => Probe::Used(uses),
            }
        })?;
        let unpinned = self.store.close(frame);
        let info = *self.info(frame);
        self.store.remove(frame);
        self.infos[frame as usize] = EMPTY;
        if info.is(AHEAD) {
            evicted.unused_by = Some(info.handle);
        }
        self.evictions += 1;
        if unpinned {
            return Some(frame);
        }
        // A program has just taken a reference: the page is dropped, and its frame will be freed later.
        self.pinned.push_back(frame);
        None
    }

    /// Makes the page's frame a candidate for eviction before others.
    pub(super) fn cool(&mut self, frame: u32) {
        self.store.forget_uses(frame);
        self.replacement.cold_hint(frame);
    }

    /// A frame in which `blocks` of a page may be written: in place if possible, else a new version. `None`:
    /// there is no frame for a new version.
    pub(super) fn writable(&mut self, frame: u32, blocks: u8, evicted: &mut Evicted) -> Option<Writable> {
        let free = self.store.close(frame);
        let info = *self.info(frame);
        let of_before = info.dirty != 0 && info.epoch != self.dirty.epoch();
        if free && !info.is(WRITING) && !of_before {
            return Some(Writable { frame, kept: None });
        }
        self.info_mut(frame).flags |= HELD;
        let new = self.take_frame(evicted);
        self.info_mut(frame).flags &= !HELD;
        let Some(new) = new else {
            self.expose(frame);
            return None;
        };
        self.replacement.forget(frame);
        let page = self.store.page(frame);
        self.store.remove(frame);
        self.infos[new as usize] =
            FrameInfo { flags: CURRENT, handle: info.handle, valid: info.valid & !blocks, ..EMPTY };
        self.store.insert(new, page);
        self.replacement.insert(new, page);
        let blocks = info.valid & !blocks;
        let kept = (blocks != 0).then(|| Kept { from: self.store.hold_to_copy(frame), blocks });
        self.info_mut(frame).flags &= !(CURRENT | AHEAD | MARKED);
        if info.is(WRITING) || of_before {
            self.info_mut(new).older = frame;
            self.info_mut(frame).newer = new;
        } else {
            // A program reads it by reference. Its dirty blocks move to the new version, with their age.
            self.inherit(frame, new, info.seq);
            self.release(frame);
        }
        Some(Writable { frame: new, kept })
    }

    /// Moves the dirty blocks of an old version to a new one.
    fn inherit(&mut self, old: u32, new: u32, seq: u32) {
        let from = *self.info(old);
        if self.info(new).dirty != 0 {
            self.dirty.remove(from.epoch);
            self.writers.cleaned(from.handle);
        } else if from.dirty != 0 {
            let info = self.info_mut(new);
            (info.seq, info.epoch, info.handle) = (seq, from.epoch, from.handle);
        }
        let info = self.info_mut(new);
        info.dirty |= from.dirty;
        info.flags |= from.flags & FAILED;
        info.older = from.older;
        if from.older != NONE {
            self.info_mut(from.older).newer = new;
        }
        let info = self.info_mut(old);
        (info.dirty, info.seq, info.older, info.newer) = (0, 0, NONE, NONE);
    }

    /// Marks blocks of a frame as written to. Returns whether the page was clean.
    pub(super) fn wrote(&mut self, frame: u32, blocks: u8, now: Time, writer: WriterId) -> bool {
        let was = self.info(frame).dirty;
        if was == 0 {
            let (page, epoch) = (self.store.page(frame), self.dirty.epoch());
            let seq = self.dirty.add(page, now);
            self.dirty.extents.insert(page);
            self.writers.dirtied(writer);
            let info = self.info_mut(frame);
            (info.seq, info.epoch, info.handle) = (seq, epoch, writer);
        }
        let info = self.info_mut(frame);
        info.dirty |= blocks;
        info.valid |= blocks;
        was == 0
    }

    /// The version of a page that is dirty with this sequence number.
    pub(super) fn version(&self, page: u64, seq: u32) -> Option<u32> {
        version(&self.store, &self.infos, page, seq)
    }

    /// The oldest version of a page, which can be written first.
    pub(super) fn oldest(&self, mut frame: u32) -> u32 {
        while self.info(frame).older != NONE {
            frame = self.info(frame).older;
        }
        frame
    }

    /// Records that a device has begun to read the frame's dirty blocks.
    pub(super) fn begin_write(&mut self, frame: u32, io: u32) {
        self.dirty.writing += 1;
        self.reserved.began(self.store.page(frame));
        let info = self.info_mut(frame);
        info.flags |= WRITING;
        info.io = io;
    }

    /// Records the end of a frame's write-back.
    pub(super) fn end_write(&mut self, frame: u32, well: bool, now: Time) {
        self.store.give_back(frame, Loan::WriteBack);
        let page = self.store.page(frame);
        self.reserved.ended(page);
        let info = self.info_mut(frame);
        info.flags &= !(WRITING | FAILED);
        info.flags |= if well { 0 } else { FAILED };
        info.io = NONE;
        let (newer, epoch, current) = (info.newer, info.epoch, info.is(CURRENT));
        self.dirty.writing -= 1;
        if well {
            return self.clean(frame);
        }
        if !current && newer != NONE && self.may_inherit(newer, epoch) {
            // Blocks that could not be written are also in the newer version, unless it overwrote them.
            let seq = match self.info(newer).dirty {
                0 => self.dirty.fail(page, now),
                _ => self.bring_back(newer, now),
            };
            self.inherit(frame, newer, seq);
            return self.release(frame);
        }
        let seq = self.dirty.fail(page, now);
        self.info_mut(frame).seq = seq;
    }

    /// Whether dirty blocks of an epoch may become those of a newer version: if that has data of its own, of the same epoch only.
    fn may_inherit(&self, newer: u32, epoch: u16) -> bool {
        let info = self.info(newer);
        // No barrier begins before data that is being copied is there.
        let of = if info.is(PENDING) { self.dirty.epoch() } else { info.epoch };
        (info.dirty == 0 && !info.is(PENDING)) || of == epoch
    }

    /// Marks a frame as clean.
    pub(super) fn clean(&mut self, frame: u32) {
        let info = *self.info(frame);
        if info.dirty != 0 {
            self.dirty.remove(info.epoch);
            self.writers.cleaned(info.handle);
            let entry = self.info_mut(frame);
            (entry.dirty, entry.seq) = (0, 0);
            if !self.is_dirty_from(info.newer) {
                self.dirty.extents.remove(self.store.page(frame));
            }
        }
        self.info_mut(frame).flags &= !FAILED;
        if info.newer != NONE {
            let newer = self.info_mut(info.newer);
            newer.older = NONE;
            let clean = newer.dirty == 0;
            self.info_mut(frame).newer = NONE;
            if clean {
                self.replacement.ready(info.newer);
            }
        }
        match info.is(CURRENT) {
            true => {
                self.replacement.ready(frame);
                self.freed += 1;
            }
            false => self.release(frame),
        }
    }

    /// Whether a version or a newer one of the same page is dirty.
    fn is_dirty_from(&self, mut frame: u32) -> bool {
        while frame != NONE {
            let info = self.info(frame);
            if info.dirty != 0 {
                return true;
            }
            frame = info.newer;
        }
        false
    }

    /// A frame that was filled or released can be evicted again.
    pub(super) fn usable(&mut self, frame: u32) {
        self.freed += 1;
        if self.info(frame).is(CURRENT) {
            self.replacement.ready(frame);
        }
    }

    /// Drops a page with its contents, dirty or not. No device has its frame, and there are no older
    /// versions.
    pub(super) fn drop_page(&mut self, frame: u32) {
        self.replacement.forget(frame);
        self.store.remove(frame);
        self.info_mut(frame).flags = 0;
        // It is no longer current, so this releases it.
        self.clean(frame);
    }

    /// Drops a page that is clean and that nothing uses. Returns whether it did.
    pub(super) fn drop_clean(&mut self, frame: u32) -> bool {
        let info = *self.info(frame);
        let busy = info.dirty != 0 || info.older != NONE || info.is(FILLING | WRITING | HELD);
        let in_use = self.store.is_pinned(frame) || self.store.is_lent(frame);
        if !info.is(CURRENT) || busy || in_use || self.reserved.of(self.store.page(frame)).is_some() {
            return false;
        }
        self.drop_page(frame);
        true
    }

    /// Drops blocks of a dirty frame, valid or dirty; at least one other dirty block remains.
    pub(super) fn forget_blocks(&mut self, frame: u32, blocks: u8) {
        self.store.close(frame);
        let info = self.info_mut(frame);
        info.valid &= !blocks;
        info.dirty &= !blocks;
    }

    /// Drops the blocks of a dirty frame that are not dirty.
    pub(super) fn keep_dirty(&mut self, frame: u32) {
        self.store.close(frame);
        let info = self.info_mut(frame);
        info.valid = info.dirty;
        self.expose(frame);
    }

    /// Drops some stale entries of the orders of dirty pages.
    pub(super) fn tidy(&mut self) {
        let (store, infos) = (&self.store, &self.infos);
        let waits = |frame: u32| !infos[frame as usize].is(WRITING);
        self.dirty.tidy(|page, seq| version(store, infos, page, seq).is_some_and(waits));
    }
}

/// The version of a page that is dirty with a sequence number.
fn version(store: &Store, infos: &[FrameInfo], page: u64, seq: u32) -> Option<u32> {
    let mut frame = store.find(page)?;
    loop {
        let info = &infos[frame as usize];
        if info.dirty != 0 && info.seq == seq {
            return Some(frame);
        }
        frame = Some(info.older).filter(|&older| older != NONE)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_61_bytes_are_kept_for_each_page() {
        // 1.5 % of a page are 61.4 bytes.
        for exponent in 4..=28 {
            for count in [(1usize << exponent) - 1, 1 << exponent, (1 << exponent) + 1, (1 << exponent) + 2] {
                let bytes = PageTable::overhead(count);
                assert!(bytes <= 61 * count, "{bytes} bytes for {count} pages");
            }
        }
    }
}
