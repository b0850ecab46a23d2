//! The memory of a page cache and its index: looked up and read without a lock, changed by one [`Store`].
//!
//! A frame is 4 KiB of memory with a state word. A reader without the cache's lock pins the frame first: one
//! atomic exchange checks that its contents may be read (`READY`) and keeps them from changing. The store
//! clears `READY` before it changes a frame, and may change it if the frame had no pins at that moment: a
//! reader that comes later sees that the frame is not ready. A reader may follow a wrong index chain while
//! chains change. It then finds nothing and tries again under the lock. It never takes one page for another,
//! because it compares the page's number after pinning.

use super::ahead::{Ahead, Prefault};
use super::frame::{FILLING, Frame, WRITING};
use super::memory::{Mapping, Refused, Table, Zeroed, prefetch};
use super::tally::Tally;
use crate::readahead::PAGE;
use platter_block::bio::Bio;
use platter_block::buf::IoBuf;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::segment::{RegionId, Segment};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering};

mod copies;
mod lent;

pub(super) use copies::Kept;
pub(super) use lent::{Held, Lent, Loan};

/// Bytes of a frame.
pub(super) const FRAME: usize = PAGE as usize;

/// No frame.
pub(super) const NONE: u32 = u32::MAX;

/// Most links of a chain that a reader without the lock follows.
const MAX_STEPS: usize = 64;

/// Most uses that a frame counts.
const MAX_USES: u16 = 3;

/// The frames, as readers see them.
pub(super) struct Frames {
    memory: Mapping,
    frames: Table<Frame>,
    /// Uses since replacement last read the count (low byte), and the tick of the last counted use (high
    /// byte).
    uses: Table<AtomicU16>,
    /// The first link of each chain.
    heads: Table<AtomicU32>,
    pub(super) ahead: Ahead,
    /// Advances as pages come in. Uses within one tick count once: reading a page in pieces is not frequent
    /// use.
    tick: AtomicU8,
    /// Pages read without the lock.
    pub(super) hits: Tally,
    /// Frames that lanes hold for copying without the lock.
    copying: AtomicU32,
    /// A task waits for a frame that is held for copying.
    starved: AtomicBool,
}

// SAFETY: the memory is accessed only through pins and through the one `Store`, which exclude each other;
// everything else is atomic.
unsafe impl Send for Frames {}
// SAFETY: as above.
unsafe impl Sync for Frames {}

// SAFETY: a frame is made of integers; all zero, it is closed and has no page.
unsafe impl Zeroed for Frame {}

/// A link to a frame in a chain: 0 at its end.
fn link(frame: u32) -> u32 {
    frame.wrapping_add(1)
}

/// The frame that a link names, or [`NONE`].
#[inline]
fn linked(link: u32) -> u32 {
    link.wrapping_sub(1)
}

/// Number of chains of the index: one for two pages, to save memory.
fn heads_of(count: usize) -> usize {
    (count / 2).max(1)
}

impl Frames {
    /// Maps `count` frames. Populates the first `used` if `prefault` asks for that.
    fn new(count: u32, used: u32, prefault: Prefault) -> Result<Frames, Refused> {
        let bytes = (count as usize).saturating_mul(FRAME);
        let mut memory = Mapping::new(bytes).ok_or(Refused::Addresses(bytes))?;
        if prefault == Prefault::Open {
            let first = used as usize * FRAME;
            memory.populate_first(first).map_err(|_| Refused::Memory(first))?;
        }
        let tables = Refused::Addresses(Frames::overhead(count as usize));
        Ok(Frames {
            memory,
            frames: Table::new(count as usize).ok_or(tables)?,
            uses: Table::new(count as usize).ok_or(tables)?,
            heads: Table::new(heads_of(count as usize)).ok_or(tables)?,
            ahead: Ahead::new(count, used, prefault),
            tick: AtomicU8::new(0),
            hits: Tally::default(),
            copying: AtomicU32::new(0),
            starved: AtomicBool::new(false),
        })
    }

    /// The number of frames.
    pub(super) fn count(&self) -> u32 {
        self.frames.len() as u32
    }

    /// Has the system give the memory of some frames now.
    ///
    /// # Errors
    /// There is not enough memory, or the kernel cannot do this.
    pub(super) fn populate(&self, frames: Range<u32>) -> Result<(), rustix::io::Errno> {
        self.memory.populate(frames.start as usize * FRAME..frames.end as usize * FRAME)
    }

    /// Gives the memory of frames back to the system. They have no page, and none until this has returned. Their contents are
    /// lost, and new memory comes on their next use.
    pub(super) fn give_to_system(&self, frames: Range<u32>) {
        let all = &self.frames[frames.start as usize..frames.end as usize];
        assert!(
            all.iter().all(|frame| frame.word() == 0),
            "the memory of a frame in use was to be given back"
        );
        self.memory.give_back(frames.start as usize * FRAME..frames.end as usize * FRAME);
    }

    /// This module's share of the bytes of metadata that the cache keeps for `count` pages.
    pub(super) fn overhead(count: usize) -> usize {
        count * (size_of::<Frame>() + size_of::<AtomicU16>()) + heads_of(count) * size_of::<AtomicU32>()
    }

    #[inline]
    fn head(&self, page: u64) -> &AtomicU32 {
        // Fibonacci hashing: adjacent pages go to distant chains.
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.heads[((hash * self.heads.len() as u64) >> 32) as usize]
    }

    #[inline]
    fn address(&self, frame: u32) -> *mut u8 {
        debug_assert!((frame as usize) < self.frames.len());
        self.memory.start().as_ptr().wrapping_add(frame as usize * FRAME)
    }

    /// The frame of a page in the index, ready or not. Without the lock it may be missed while its chain changes, and belong
    /// to another page by now.
    #[inline]
    fn look_up(&self, page: u64) -> Option<(u32, &Frame)> {
        let mut at = linked(self.head(page).load(Ordering::Acquire));
        for _ in 0..MAX_STEPS {
            let frame = self.frames.get(at as usize)?;
            if frame.page.load(Ordering::Relaxed) == page {
                return Some((at, frame));
            }
            at = linked(frame.next.load(Ordering::Acquire));
        }
        None
    }

    /// Pins the frame of a page if the page may be read.
    #[inline]
    pub(super) fn pin(&self, page: u64) -> Option<u32> {
        let (at, frame) = self.look_up(page)?;
        frame.pin_if_ready(page).then_some(at)
    }

    /// Whether a page is in the index. Without the lock that may just change.
    pub(super) fn has(&self, page: u64) -> bool {
        self.look_up(page).is_some()
    }

    /// Whether a page may be read. That may just change.
    pub(super) fn is_ready(&self, page: u64) -> bool {
        self.look_up(page).is_some_and(|(_, frame)| frame.is_ready())
    }

    /// Unpins a frame.
    #[inline]
    pub(super) fn unpin(&self, frame: u32) {
        self.frames[frame as usize].unpin();
    }

    /// Counts a page read without the lock.
    #[inline]
    pub(super) fn hit(&self, frame: u32) {
        self.hits.add(1);
        self.touch(frame);
    }

    /// Counts a use, unless there was one in the same tick.
    #[inline]
    pub(super) fn touch(&self, frame: u32) {
        let tick = u16::from(self.tick.load(Ordering::Relaxed));
        let uses = &self.uses[frame as usize];
        let before = uses.load(Ordering::Relaxed);
        if before >> 8 != tick {
            uses.store(tick << 8 | ((before & 0xff) + 1).min(MAX_USES), Ordering::Relaxed);
        }
    }

    /// Copies a range from memory. Returns `false` at the first page that is not in memory; then no hits are counted.
    #[inline]
    pub(super) fn read(&self, mut pos: u64, mut out: &mut [u8]) -> bool {
        let mut hits = 0;
        while !out.is_empty() {
            let offset = (pos % PAGE) as usize;
            let step = out.len().min(FRAME - offset);
            let Some(frame) = self.pin(pos / PAGE) else { return false };
            let (part, rest) = out.split_at_mut(step);
            // SAFETY: the frame is pinned and was ready: its memory is initialised and is not written to.
            // `part` belongs to the caller.
            unsafe {
                let from = self.address(frame).add(offset);
                prefetch(from, step);
                std::ptr::copy_nonoverlapping(from, part.as_mut_ptr(), step);
            }
            self.touch(frame);
            self.unpin(frame);
            hits += 1;
            out = rest;
            pos += step as u64;
        }
        self.hits.add(hits);
        true
    }

    /// The memory of a pinned frame.
    #[inline]
    pub(super) fn data(&self, frame: u32) -> NonNull<u8> {
        // The address lies inside an allocation, so it is not null.
        NonNull::new(self.address(frame)).unwrap_or(self.memory.start())
    }

    /// Copies as much of the rest of a bio's range as is in memory, up to `end` at most, to the bio, and marks it as done.
    pub(super) fn read_bio(&self, bio: &mut Bio, end: u64) {
        while bio.pos() < end {
            let offset = (bio.pos() % PAGE) as usize;
            let step = (end - bio.pos()).min((FRAME - offset) as u64) as usize;
            let Some(frame) = self.pin(bio.pos() / PAGE) else { return };
            self.copy_to(frame, offset, bio, step);
            self.hit(frame);
            self.unpin(frame);
        }
    }

    /// Whether lanes hold frames for copying, which they release without the lock. If so, [`was_starved`]
    /// tells one of them that a task waits.
    pub(super) fn is_copied_from(&self) -> bool {
        // Stored before the load: a lane that releases a frame after it sees this.
        self.starved.store(true, Ordering::SeqCst);
        self.copying.load(Ordering::SeqCst) > 0
    }

    /// Whether a task waits for a frame that was held. To be called after releasing frames.
    pub(super) fn was_starved(&self) -> bool {
        self.starved.load(Ordering::SeqCst) && self.starved.swap(false, Ordering::SeqCst)
    }

    /// Stops all reads without the lock: the engine is broken.
    pub(super) fn shut(&self) {
        // Frames that are not ready are not written to: those that were never used have no memory.
        self.frames.iter().filter(|frame| frame.is_ready()).for_each(|frame| _ = frame.close());
    }
}

/// Keeps the frames alive for a bio over them.
struct Lease {
    _lent: Arc<Lent>,
}

// SAFETY: adds no memory; the segments over frames are added by `Store::lend`, which ensures their validity.
unsafe impl IoBuf for Lease {
    // Dropped while the engine's lock is held; the engine checks at once whether the driver has the frames.
    const IS_FOREIGN: bool = false;

    fn byte_len(&self) -> usize {
        0
    }
    unsafe fn add_segments(&mut self, _bio: &mut Bio) -> Result<(), Fault> {
        Ok(())
    }
}

// SAFETY: as above; frames are valid for writes, and any byte is a valid value.
unsafe impl platter_block::buf::IoBufMut for Lease {}

/// The only type that changes frames and their index; each [`Frames`] has one.
pub(super) struct Store(Arc<Frames>);

impl Store {
    /// Maps the frames of a cache of at most `count` pages, which uses the first `used` at first.
    ///
    /// # Errors
    /// What the system has refused.
    pub(super) fn new(count: u32, used: u32, prefault: Prefault) -> Result<Store, Refused> {
        Ok(Store(Arc::new(Frames::new(count, used, prefault)?)))
    }

    /// The part that readers use.
    pub(super) fn frames(&self) -> &Arc<Frames> {
        &self.0
    }

    /// The number of frames.
    pub(super) fn count(&self) -> u32 {
        self.0.count()
    }

    fn frame(&self, frame: u32) -> &Frame {
        &self.0.frames[frame as usize]
    }

    /// The frame of a page, ready or not.
    pub(super) fn find(&self, page: u64) -> Option<u32> {
        let mut at = linked(self.0.head(page).load(Ordering::Relaxed));
        while at != NONE {
            let frame = self.frame(at);
            if frame.page.load(Ordering::Relaxed) == page {
                return Some(at);
            }
            at = linked(frame.next.load(Ordering::Relaxed));
        }
        None
    }

    /// The page of a frame.
    pub(super) fn page(&self, frame: u32) -> u64 {
        self.frame(frame).page.load(Ordering::Relaxed)
    }

    /// Adds a page to the index, which must not contain it. The frame is not ready yet.
    pub(super) fn insert(&mut self, frame: u32, page: u64) {
        let head = self.0.head(page);
        self.frame(frame).page.store(page, Ordering::Relaxed);
        self.frame(frame).next.store(head.load(Ordering::Relaxed), Ordering::Release);
        head.store(link(frame), Ordering::Release);
        let tick = u16::from(self.0.tick.load(Ordering::Relaxed));
        self.0.uses[frame as usize].store(tick << 8, Ordering::Relaxed);
    }

    /// Removes a page from the index. The frame keeps its page number and is no longer ready.
    pub(super) fn remove(&mut self, frame: u32) {
        self.close(frame);
        let after = self.frame(frame).next.load(Ordering::Relaxed);
        let mut cell = self.0.head(self.page(frame));
        loop {
            let at = linked(cell.load(Ordering::Relaxed));
            if at == frame {
                cell.store(after, Ordering::Release);
                return;
            }
            let Some(next) = self.0.frames.get(at as usize) else { return };
            cell = &next.next;
        }
    }

    /// Advances the tick when pages have come in: later uses are counted again.
    pub(super) fn tick(&mut self) {
        self.0.tick.fetch_add(1, Ordering::Relaxed);
    }

    /// Decrements the use count of a frame. Returns the count before.
    pub(super) fn take_use(&mut self, frame: u32) -> u8 {
        let uses = &self.0.uses[frame as usize];
        let before = uses.load(Ordering::Relaxed);
        let count = before & 0xff;
        if count > 0 {
            uses.store(before - 1, Ordering::Relaxed);
        }
        count as u8
    }

    /// Gives a frame the use count of another one.
    pub(super) fn copy_uses(&mut self, from: u32, to: u32) {
        let uses = self.0.uses[from as usize].load(Ordering::Relaxed);
        self.0.uses[to as usize].store(uses, Ordering::Relaxed);
    }

    /// Whether a device has the frame's memory, or a lane copies into it.
    pub(super) fn is_lent(&self, frame: u32) -> bool {
        self.frame(frame).word() & (FILLING | WRITING) != 0
    }

    /// Resets the use count of a frame.
    pub(super) fn forget_uses(&mut self, frame: u32) {
        self.0.uses[frame as usize].fetch_and(0xff00, Ordering::Relaxed);
    }

    /// Allows readers to pin the frame.
    pub(super) fn open(&mut self, frame: u32) {
        self.frame(frame).open();
    }

    /// Stops readers from pinning the frame. Returns whether it has no pins.
    pub(super) fn close(&mut self, frame: u32) -> bool {
        self.frame(frame).close()
    }

    /// Whether the frame has pins.
    pub(super) fn is_pinned(&self, frame: u32) -> bool {
        self.frame(frame).is_pinned()
    }

    /// Panics unless only the store can access the frame's memory.
    fn assert_exclusive(&self, frame: u32) {
        let word = self.frame(frame).word();
        assert!(word == 0, "a frame in use was to be changed: {word:#x}");
    }

    /// Lends a closed frame to a lane, which copies data into it without the lock, until it gives it back.
    pub(super) fn begin_copy(&mut self, frame: u32) {
        self.assert_exclusive(frame);
        self.frame(frame).lend(FILLING);
    }

    /// Holds a frame: it is neither evicted nor changed until [`unhold`](Store::unhold).
    pub(super) fn hold(&mut self, frame: u32) -> Held {
        self.frame(frame).hold();
        Held(frame)
    }

    /// Holds a frame that no device fills, for [`Frames::copy_out`] or [`Frames::copy_kept`].
    pub(super) fn hold_to_copy(&mut self, frame: u32) -> Held {
        let word = self.frame(frame).word();
        assert!(word & FILLING == 0, "a frame was to be read while a device fills it");
        self.0.copying.fetch_add(1, Ordering::SeqCst);
        self.hold(frame)
    }

    /// Releases a held frame.
    pub(super) fn unhold(&mut self, held: Held) {
        self.0.unpin(held.0);
    }

    /// Makes a bio without memory one that has a share of the frames `lent` to an I/O.
    pub(super) fn lease(bio: &mut Bio, lent: &Arc<Lent>, loan: Loan, pos: u64) {
        let lease = Lease { _lent: Arc::clone(lent) };
        // It has no segments of its own, so that no segment can fail to fit.
        let _ = match loan {
            Loan::Fill => bio.reset_read(pos, lease),
            Loan::WriteBack => bio.reset_write(pos, lease),
        };
    }

    /// Lends a part of a frame to a device: adds it to a bio with a [`lease`](Store::lease).
    ///
    /// # Errors
    /// The bio is full; the frame is unchanged.
    pub(super) fn lend(
        &mut self,
        frame: u32,
        (offset, len): (usize, usize),
        loan: Loan,
        bio: &mut Bio,
    ) -> Result<(), Fault> {
        assert!(offset + len <= FRAME, "a page has {FRAME} bytes");
        let word = self.frame(frame).word();
        let clash = match loan {
            Loan::Fill => word & !FILLING,
            Loan::WriteBack => word & FILLING,
        };
        if clash != 0 {
            return Err(Fault::new(Kind::Contract, Stage::Layer));
        }
        // SAFETY: the bio has a share of the frames, so the memory stays valid as long as the bio has it.
        // While it is marked as lent, the frame is not changed (nor read while it is being filled) until
        // `settle`.
        unsafe { bio.extend(Segment::new(self.0.address(frame).add(offset), len as u32, RegionId::NONE)) }?;
        self.frame(frame).lend(loan.bit());
        Ok(())
    }

    /// The device has returned a frame that it had for this use.
    pub(super) fn give_back(&mut self, frame: u32, loan: Loan) {
        self.frame(frame).give_back(loan.bit());
    }

    /// Whether a device is filling a frame.
    pub(super) fn is_filling(&self, frame: u32) -> bool {
        self.frame(frame).word() & FILLING != 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::MOST_PINS;
    use super::*;

    #[test]
    fn pins_end_before_their_count_runs_over() {
        let mut store = Store::new(16, 16, Prefault::Off).unwrap();
        store.insert(0, 5);
        store.open(0);
        // As if a program leaked its references.
        (1..MOST_PINS).for_each(|_| _ = store.hold(0));
        let frames = Arc::clone(store.frames());
        assert_eq!((frames.pin(5), frames.pin(5)), (Some(0), None));
        assert!(store.is_pinned(0));
        frames.unpin(0);
        assert_eq!(frames.pin(5), Some(0));
    }
}
