//! The memory of a page cache and its index: looked up and read without a lock, changed by one [`Store`].
//!
//! A frame is 4 KiB of memory with a word of state. Whoever reads without the cache's lock pins the frame first: one
//! atomic exchange tells whether its contents may be read (`READY`) and keeps them from changing. The store takes
//! `READY` away before it changes a frame; it may do so if nobody had it pinned at that moment, for whoever comes
//! later sees that it is not ready. Index chains may lead a reader astray while they change: it then looks in vain and
//! asks under the lock; it never takes one page for another, because the page's number is compared after pinning.

use super::frame::{FILLING, Frame, WRITING};
use super::tally::Tally;
use platter_block::bio::Bio;
use platter_block::buf::IoBuf;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::readahead::PAGE;
use platter_block::segment::{RegionId, Segment};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering};

/// Bytes of a frame.
pub(super) const FRAME: usize = PAGE as usize;

/// No frame.
pub(super) const NONE: u32 = u32::MAX;

/// Links of a chain that a reader without the lock follows.
const MAX_STEPS: usize = 64;

/// Uses that a frame remembers.
const MAX_USES: u16 = 3;

/// The frames, from the side of those who only read.
pub(super) struct Frames {
    memory: NonNull<u8>,
    bytes: usize,
    frames: Box<[Frame]>,
    /// Uses since the replacement last asked (low byte) and the tick of the last one that counted (high byte).
    uses: Box<[AtomicU16]>,
    heads: Box<[AtomicU32]>,
    /// Moves on as pages come in. Uses within one tick are one: reading a page in pieces is not using it often.
    tick: AtomicU8,
    /// Pages read without the lock.
    pub(super) hits: Tally,
    /// Frames that lanes hold to copy from them, without the lock.
    copying: AtomicU32,
    /// Somebody waits for a frame that is held so.
    starved: AtomicBool,
}

// SAFETY: the memory is reached only through pins and through the one `Store`, which keep readers and writers apart;
// everything else is atomic.
unsafe impl Send for Frames {}
// SAFETY: as above.
unsafe impl Sync for Frames {}

/// Memory that is zero and takes no room before it is used; in large pages where the system has them, so that a page
/// in a large cache does not cost a walk through the processor's page tables.
fn map(bytes: usize) -> Option<NonNull<u8>> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the system chooses.
    let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE) }.ok()?;
    if bytes >= LARGE_PAGES {
        // SAFETY: the mapping just made; the advice changes no contents. A system without large pages refuses it.
        let _ = unsafe { madvise(memory, bytes, Advice::LinuxHugepage) };
    }
    NonNull::new(memory.cast())
}

/// Reads that go through a whole page come to four places of it at once: the memory does not wait for the processor to
/// notice that it goes through it in order.
#[inline]
fn prefetch(from: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len == FRAME {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in [0, 64, 1024, 1088, 2048, 2112, 3072, 3136] {
            // SAFETY: a hint about an address; it is not accessed.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(from.wrapping_add(line).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (from, len);
}

/// From this size on memory may be had in large pages.
const LARGE_PAGES: usize = 2 << 20;

/// Chains of the index: two to four pages for each, for the sake of memory.
fn heads_of(count: usize) -> usize {
    (count / 2).next_power_of_two()
}

impl Frames {
    /// `count` frames, or the number of bytes that could not be had.
    fn new(count: u32) -> Result<Frames, usize> {
        let bytes = (count as usize).saturating_mul(FRAME);
        let memory = map(bytes).ok_or(bytes)?;
        let heads = heads_of(count as usize);
        Ok(Frames {
            memory,
            bytes,
            frames: (0..count).map(|_| Frame::new(NONE)).collect(),
            uses: (0..count).map(|_| AtomicU16::new(0)).collect(),
            heads: (0..heads).map(|_| AtomicU32::new(NONE)).collect(),
            tick: AtomicU8::new(0),
            hits: Tally::default(),
            copying: AtomicU32::new(0),
            starved: AtomicBool::new(false),
        })
    }

    /// Bytes that the cache knows about each page, of which this module has its part.
    pub(super) fn overhead(count: usize) -> usize {
        count * (size_of::<Frame>() + size_of::<AtomicU16>()) + heads_of(count) * size_of::<AtomicU32>()
    }

    #[inline]
    fn head(&self, page: u64) -> &AtomicU32 {
        // Fibonacci hashing: neighbours go far apart.
        let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.heads[hash as usize & (self.heads.len() - 1)]
    }

    #[inline]
    fn address(&self, frame: u32) -> *mut u8 {
        debug_assert!((frame as usize) < self.frames.len());
        self.memory.as_ptr().wrapping_add(frame as usize * FRAME)
    }

    /// Pins the frame with a page that may be read.
    #[inline]
    pub(super) fn pin(&self, page: u64) -> Option<u32> {
        let mut at = self.head(page).load(Ordering::Acquire);
        for _ in 0..MAX_STEPS {
            let frame = self.frames.get(at as usize)?;
            if frame.page.load(Ordering::Relaxed) == page {
                return frame.pin_if_ready(page).then_some(at);
            }
            at = frame.next.load(Ordering::Acquire);
        }
        None
    }

    /// Lets a pinned frame go.
    #[inline]
    pub(super) fn unpin(&self, frame: u32) {
        self.frames[frame as usize].unpin();
    }

    /// A page is read without the lock: counts it.
    #[inline]
    pub(super) fn hit(&self, frame: u32) {
        self.hits.add();
        self.touch(frame);
    }

    /// Counts a use, unless there was one a moment ago.
    #[inline]
    pub(super) fn touch(&self, frame: u32) {
        let tick = u16::from(self.tick.load(Ordering::Relaxed));
        let uses = &self.uses[frame as usize];
        let before = uses.load(Ordering::Relaxed);
        if before >> 8 != tick {
            uses.store(tick << 8 | ((before & 0xff) + 1).min(MAX_USES), Ordering::Relaxed);
        }
    }

    /// Copies what is in memory of a range; `false` as soon as a page of it is not.
    #[inline]
    pub(super) fn read(&self, mut pos: u64, mut out: &mut [u8]) -> bool {
        while !out.is_empty() {
            let offset = (pos % PAGE) as usize;
            let step = out.len().min(FRAME - offset);
            let Some(frame) = self.pin(pos / PAGE) else { return false };
            let (part, rest) = out.split_at_mut(step);
            // SAFETY: the frame is pinned and was ready: its memory is initialised and nobody writes to it. `part` is
            // the caller's own.
            unsafe {
                let from = self.address(frame).add(offset);
                prefetch(from, step);
                std::ptr::copy_nonoverlapping(from, part.as_mut_ptr(), step);
            }
            self.hit(frame);
            self.unpin(frame);
            out = rest;
            pos += step as u64;
        }
        true
    }

    /// The memory of a pinned frame.
    #[inline]
    pub(super) fn data(&self, frame: u32) -> NonNull<u8> {
        // The address lies inside an allocation, so it is not null.
        NonNull::new(self.address(frame)).unwrap_or(self.memory)
    }

    /// Reads as much as is in memory of what is left of a bio into its memory, and marks it as done.
    pub(super) fn read_bio(&self, bio: &mut Bio) {
        while !bio.is_empty() {
            let offset = (bio.pos() % PAGE) as usize;
            let step = bio.len().min((FRAME - offset) as u64) as usize;
            let Some(frame) = self.pin(bio.pos() / PAGE) else { return };
            self.copy_to(frame, offset, bio, step);
            self.hit(frame);
            self.unpin(frame);
        }
    }

    /// Copies from a held frame to the next `len` bytes of a bio that reads, and lets the frame go.
    pub(super) fn copy_out(&self, held: Held, offset: usize, bio: &mut Bio, len: usize) {
        assert!(offset + len <= FRAME, "a page has {FRAME} bytes");
        self.copy_to(held.0, offset, bio, len);
        self.unpin(held.0);
        self.copying.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether lanes hold frames to copy from, which they let go without the lock. If so [`was_starved`] tells one of them
    /// that somebody waits.
    pub(super) fn is_copied_from(&self) -> bool {
        // Before looking: who lets go after this sees it.
        self.starved.store(true, Ordering::SeqCst);
        self.copying.load(Ordering::SeqCst) > 0
    }

    /// Whether somebody waits for a frame that was held: to be asked after letting frames go.
    pub(super) fn was_starved(&self) -> bool {
        self.starved.load(Ordering::SeqCst) && self.starved.swap(false, Ordering::SeqCst)
    }

    /// Answers nobody any more: the engine is broken.
    pub(super) fn shut(&self) {
        for frame in &self.frames {
            frame.close();
        }
    }

    /// Copies from a frame that is pinned to the next `len` bytes of a bio.
    fn copy_to(&self, frame: u32, offset: usize, bio: &mut Bio, len: usize) {
        let mut at = offset;
        for segment in bio.segments() {
            let piece = segment.slice(0, (offset + len - at) as u32);
            // SAFETY: the frame is pinned and no device fills it, so its memory does not change; the bio is with the
            // cache between its submission and its completion, and its memory is not the cache's, so it is valid for writes and does not overlap.
            unsafe {
                let from = self.address(frame).add(at);
                piece.copy_from(std::slice::from_raw_parts(from, piece.len() as usize));
            }
            at += piece.len() as usize;
            if at == offset + len {
                break;
            }
        }
        bio.advance(len as u64);
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        // SAFETY: mapped with this length in `new`; whoever has a frame pinned or a bio over it has a share of this.
        let _ = unsafe { rustix::mm::munmap(self.memory.as_ptr().cast(), self.bytes) };
    }
}

/// A frame that the store holds on to: neither evicted nor changed until it is let go. Forgetting one costs the frame.
#[derive(Debug)]
pub(super) struct Held(u32);

impl Held {
    pub(super) fn frame(&self) -> u32 {
        self.0
    }
}

/// What the bios of one I/O have of the frames. When no bio has a share of it any more, the driver has given all memory
/// back, whatever was told before.
pub(super) struct Lent {
    _frames: Arc<Frames>,
}

impl Lent {
    /// For a new I/O.
    pub(super) fn of(frames: &Arc<Frames>) -> Arc<Lent> {
        Arc::new(Lent { _frames: Arc::clone(frames) })
    }
}

/// Keeps the frames alive for a bio over them.
struct Lease {
    _lent: Arc<Lent>,
}

// SAFETY: it adds no memory; the segments over frames are added by `Store::lend`, which vouches for them.
unsafe impl IoBuf for Lease {
    // It is dropped with the engine's lock held, and the engine looks at once whether the driver has the frames.
    const IS_FOREIGN: bool = false;

    fn byte_len(&self) -> usize {
        0
    }
    fn add_segments(&mut self, _bio: &mut Bio) -> Result<(), Fault> {
        Ok(())
    }
}

// SAFETY: as above; frames are valid for writes and any byte will do.
unsafe impl platter_block::buf::IoBufMut for Lease {}

/// What a device is to do with lent frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loan {
    /// Write to them.
    Fill,
    /// Read from them.
    WriteBack,
}

impl Loan {
    fn bit(self) -> u32 {
        match self {
            Loan::Fill => FILLING,
            Loan::WriteBack => WRITING,
        }
    }
}

/// The only one who changes frames and their index: there is one for each [`Frames`].
pub(super) struct Store(Arc<Frames>);

impl Store {
    /// The frames of a cache of `count` pages.
    ///
    /// # Errors
    /// The bytes that could not be had.
    pub(super) fn new(count: u32) -> Result<Store, usize> {
        Ok(Store(Arc::new(Frames::new(count)?)))
    }

    /// The side of the readers.
    pub(super) fn frames(&self) -> &Arc<Frames> {
        &self.0
    }

    /// How many frames there are.
    pub(super) fn count(&self) -> u32 {
        self.0.frames.len() as u32
    }

    fn frame(&self, frame: u32) -> &Frame {
        &self.0.frames[frame as usize]
    }

    /// The frame that holds a page, ready or not.
    pub(super) fn find(&self, page: u64) -> Option<u32> {
        let mut at = self.0.head(page).load(Ordering::Relaxed);
        while at != NONE {
            let frame = self.frame(at);
            if frame.page.load(Ordering::Relaxed) == page {
                return Some(at);
            }
            at = frame.next.load(Ordering::Relaxed);
        }
        None
    }

    /// The page that a frame is of.
    pub(super) fn page(&self, frame: u32) -> u64 {
        self.frame(frame).page.load(Ordering::Relaxed)
    }

    /// Puts a page into the index that is not in it. The frame is not ready yet.
    pub(super) fn insert(&mut self, frame: u32, page: u64) {
        let head = self.0.head(page);
        self.frame(frame).page.store(page, Ordering::Relaxed);
        self.frame(frame).next.store(head.load(Ordering::Relaxed), Ordering::Release);
        head.store(frame, Ordering::Release);
        let tick = u16::from(self.0.tick.load(Ordering::Relaxed));
        self.0.uses[frame as usize].store(tick << 8, Ordering::Relaxed);
    }

    /// Takes a page out of the index. The frame keeps its number and is not ready any more.
    pub(super) fn remove(&mut self, frame: u32) {
        self.close(frame);
        let after = self.frame(frame).next.load(Ordering::Relaxed);
        let mut link = self.0.head(self.page(frame));
        loop {
            let at = link.load(Ordering::Relaxed);
            if at == frame {
                link.store(after, Ordering::Release);
                return;
            }
            let Some(next) = self.0.frames.get(at as usize) else { return };
            link = &next.next;
        }
    }

    /// Pages have come in: uses that follow count again.
    pub(super) fn tick(&mut self) {
        self.0.tick.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one from the uses of a frame: how many there were.
    pub(super) fn take_use(&mut self, frame: u32) -> u8 {
        let uses = &self.0.uses[frame as usize];
        let before = uses.load(Ordering::Relaxed);
        let count = before & 0xff;
        if count > 0 {
            uses.store(before - 1, Ordering::Relaxed);
        }
        count as u8
    }

    /// The frame was not used.
    pub(super) fn forget_uses(&mut self, frame: u32) {
        self.0.uses[frame as usize].fetch_and(0xff00, Ordering::Relaxed);
    }

    /// Lets everybody read the frame.
    pub(super) fn open(&mut self, frame: u32) {
        self.frame(frame).open();
    }

    /// Lets nobody pin the frame from now on. Whether nobody has it pinned.
    pub(super) fn close(&mut self, frame: u32) -> bool {
        self.frame(frame).close()
    }

    /// Whether somebody has the frame pinned.
    pub(super) fn is_pinned(&self, frame: u32) -> bool {
        self.frame(frame).is_pinned()
    }

    /// Nobody but the store can reach the frame's memory now, nor get at it.
    fn assert_exclusive(&self, frame: u32) {
        let word = self.frame(frame).word();
        assert!(word == 0, "a frame in use was to be changed: {word:#x}");
    }

    /// Copies the next `len` bytes of a bio that writes into a closed frame.
    pub(super) fn copy_in(&mut self, frame: u32, offset: usize, bio: &mut Bio, len: usize) {
        self.assert_exclusive(frame);
        assert!(offset + len <= FRAME, "a page has {FRAME} bytes");
        let mut at = offset;
        for segment in bio.segments() {
            let piece = segment.slice(0, (offset + len - at) as u32);
            // SAFETY: nobody else reaches the frame's memory, as just asserted; the bio is with the cache between its
            // submission and its completion, so its memory is valid for reads, and it is not the cache's.
            unsafe {
                let to = self.0.address(frame).add(at);
                piece.copy_to(std::slice::from_raw_parts_mut(to, piece.len() as usize));
            }
            at += piece.len() as usize;
            if at == offset + len {
                break;
            }
        }
        bio.advance(len as u64);
    }

    /// Holds on to a frame: it is neither evicted nor changed until [`unhold`](Store::unhold).
    pub(super) fn hold(&mut self, frame: u32) -> Held {
        self.frame(frame).hold();
        Held(frame)
    }

    /// Holds on to a frame that no device fills, for [`Frames::copy_out`].
    pub(super) fn hold_to_copy(&mut self, frame: u32) -> Held {
        let word = self.frame(frame).word();
        assert!(word & FILLING == 0, "a frame was to be read while a device fills it");
        self.0.copying.fetch_add(1, Ordering::SeqCst);
        self.hold(frame)
    }

    /// Lets a held frame go.
    pub(super) fn unhold(&mut self, held: Held) {
        self.0.unpin(held.0);
    }

    /// Copies bytes from one frame to the same place of another, which is closed.
    pub(super) fn copy_frame(&mut self, from: u32, to: u32, offset: usize, len: usize) {
        self.assert_exclusive(to);
        assert!(from != to && offset + len <= FRAME, "two frames of {FRAME} bytes");
        let word = self.frame(from).word();
        assert!(word & FILLING == 0, "a frame was to be read while a device fills it");
        // SAFETY: two frames, the second nobody else's, the first not written to by anybody.
        unsafe {
            let (from, to) = (self.0.address(from).add(offset), self.0.address(to).add(offset));
            std::ptr::copy_nonoverlapping(from, to, len);
        }
    }

    /// Makes a bio one over no memory yet that has a share of what is `lent` to an I/O.
    pub(super) fn lease(bio: &mut Bio, lent: &Arc<Lent>, loan: Loan, pos: u64) {
        let lease = Lease { _lent: Arc::clone(lent) };
        // It has no segments of its own, so there is no room that they could lack.
        let _ = match loan {
            Loan::Fill => bio.reset_read(pos, lease),
            Loan::WriteBack => bio.reset_write(pos, lease),
        };
    }

    /// Lends a part of a frame to a device: adds it to a bio with a [`lease`](Store::lease).
    ///
    /// # Errors
    /// The bio is full; the frame is as it was.
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
        // SAFETY: the bio has a share of the frames, so the memory is valid until it is gone. Marked as lent, the
        // frame is neither changed nor, while it is filled, read, until `settle`.
        let segment = unsafe { Segment::new(self.0.address(frame).add(offset), len as u32, RegionId::NONE) };
        bio.extend(segment)?;
        self.frame(frame).lend(loan.bit());
        Ok(())
    }

    /// The device is done with a frame that it had for a loan of this kind.
    pub(super) fn give_back(&mut self, frame: u32, loan: Loan) {
        self.frame(frame).give_back(loan.bit());
    }

    /// Whether a device has a frame to fill it.
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
        let mut store = Store::new(16).unwrap();
        store.insert(0, 5);
        store.open(0);
        // As references that a program forgets.
        (1..MOST_PINS).for_each(|_| _ = store.hold(0));
        let frames = Arc::clone(store.frames());
        assert_eq!((frames.pin(5), frames.pin(5)), (Some(0), None));
        assert!(store.is_pinned(0));
        frames.unpin(0);
        assert_eq!(frames.pin(5), Some(0));
    }
}
