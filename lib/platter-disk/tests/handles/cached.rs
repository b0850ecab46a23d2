//! A stand-in for a cache: a disk whose bytes never change; the test decides which pages are in memory.

#![allow(unsafe_code)]

use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::{Bio, Op};
use platter_block::capability;
use platter_block::driver::Geometry;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::handle::{HandleCounters, HandleId};
use platter_block::hint::Hint;
use platter_block::lane::Lane;
use platter_block::limits::{LimitSource, Limits};
use platter_block::resident::PAGE;
use platter_block::resident::{Pinned, Resident};
use platter_block::time::Time;
use platter_disk::device::Device;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Not a whole number of pages.
pub(crate) const SIZE: u64 = 64 * PAGE + 1024;

/// The value of a byte of the disk.
pub(crate) fn byte(pos: u64) -> u8 {
    // A multiplicative hash: no two blocks are equal.
    let mixed = (pos + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Whether `read` has the disk's bytes at `pos`.
pub(crate) fn is_at(read: &[u8], pos: u64) -> bool {
    read.iter().zip(pos..).all(|(&found, at)| found == byte(at))
}

/// What the stand-in recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Opened(HandleId),
    Closed(HandleId),
    Advised(HandleId, Hint, u64, u64),
    Bio(HandleId, Op, u64, u64),
}

pub(crate) struct Cached {
    below: Device,
    bytes: Vec<u8>,
    is_there: Vec<AtomicBool>,
    pins: Vec<AtomicU32>,
    /// Whether reads leave their pages in memory.
    keeps: AtomicBool,
    answers: AtomicU64,
    /// Lanes opened so far.
    lanes: AtomicU32,
    /// A barrier is under way.
    is_barred: AtomicBool,
    seen: Mutex<Vec<Seen>>,
    /// Number of bios by handle.
    counts: Mutex<HashMap<HandleId, u64>>,
    /// The range that the next bio fails with.
    lost: Mutex<Option<(u64, u64)>>,
}

impl Cached {
    /// The stand-in, and a device on it. Nothing is in memory.
    pub(crate) fn open() -> (Arc<Cached>, Device) {
        let below = Device::ram(SIZE).unwrap();
        let bytes: Vec<u8> = (0..SIZE).map(byte).collect();
        below.write_at(&bytes, 0).unwrap();
        let pages = SIZE.div_ceil(PAGE);
        let cached = Arc::new(Cached {
            below,
            bytes,
            is_there: (0..pages).map(|_| AtomicBool::new(false)).collect(),
            pins: (0..pages).map(|_| AtomicU32::new(0)).collect(),
            keeps: AtomicBool::new(true),
            answers: AtomicU64::new(0),
            lanes: AtomicU32::new(0),
            is_barred: AtomicBool::new(false),
            seen: Mutex::default(),
            counts: Mutex::default(),
            lost: Mutex::default(),
        });
        let device = Device::new(Arc::new(Layer(Arc::clone(&cached))));
        (cached, device)
    }

    /// Puts all pages in memory.
    pub(crate) fn fill(&self) {
        self.is_there.iter().for_each(|page| page.store(true, SeqCst));
    }

    /// Reads leave nothing in memory any more.
    pub(crate) fn keep_nothing(&self) {
        self.keeps.store(false, SeqCst);
    }

    /// The next bio fails; it comes back aimed at this range.
    pub(crate) fn fail_next(&self, pos: u64, len: u64) {
        *self.lost.lock().unwrap() = Some((pos, len));
    }

    /// The bios recorded since the last call.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// Number of reads answered from memory.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(SeqCst)
    }

    /// Number of lanes opened so far.
    pub(crate) fn lanes(&self) -> u32 {
        self.lanes.load(SeqCst)
    }

    /// Begins or ends a barrier, behind which bios must not be answered.
    pub(crate) fn bar(&self, is_barred: bool) {
        self.is_barred.store(is_barred, SeqCst);
    }

    /// Number of pages pinned now.
    pub(crate) fn pinned(&self) -> u32 {
        self.pins.iter().map(|pins| pins.load(SeqCst)).sum()
    }

    fn see(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
    }

    fn has(&self, pos: u64, len: u64) -> bool {
        (pos / PAGE..(pos + len).div_ceil(PAGE)).all(|page| self.is_there[page as usize].load(SeqCst))
    }
}

/// The device on it: the part that handles read from is an object of its own, as in a real cache.
struct Layer(Arc<Cached>);

/// The part of it that is in memory.
struct Memory(Arc<Cached>);

// SAFETY: `bytes` is never written to nor moved while the stand-in lives, which `Memory` keeps.
unsafe impl Resident for Memory {
    fn read(&self, pos: u64, out: &mut [u8]) -> bool {
        let there = self.0.has(pos, out.len() as u64);
        if there {
            out.copy_from_slice(&self.0.bytes[pos as usize..pos as usize + out.len()]);
            self.0.answers.fetch_add(1, SeqCst);
        }
        there
    }

    fn read_bio(&self, bio: &mut Bio) -> bool {
        let (pos, len) = (bio.pos(), bio.len());
        if self.0.is_barred.load(SeqCst) || !self.0.has(pos, len) {
            return false;
        }
        let mut at = pos as usize;
        for segment in bio.segments() {
            let part = &self.0.bytes[at..at + segment.len() as usize];
            // SAFETY: the bio is the caller's, whose buffer it owns, and is with no device.
            unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), segment.addr(), part.len()) };
            at += part.len();
        }
        bio.advance(len);
        self.0.answers.fetch_add(1, SeqCst);
        true
    }

    fn pin(&self, pos: u64) -> Option<Pinned> {
        let page = (pos / PAGE) as usize;
        if !self.0.has(pos, 1) {
            return None;
        }
        self.0.pins[page].fetch_add(1, SeqCst);
        let start = page * PAGE as usize;
        let bytes = &self.0.bytes[start..self.0.bytes.len().min(start + PAGE as usize)];
        Some(Pinned { data: NonNull::from(bytes).cast(), len: bytes.len() as u32, frame: page as u32 })
    }

    // SAFETY: only the tests depend on the count.
    unsafe fn unpin(&self, frame: u32) {
        self.0.pins[frame as usize].fetch_sub(1, SeqCst);
    }
}

impl LimitSource for Layer {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        self.0.below.backend().limits_at(pos)
    }
}

impl Backend for Layer {
    fn name(&self) -> Arc<str> {
        Arc::from("cached")
    }

    fn geometry(&self) -> Geometry {
        self.0.below.geometry()
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        self.0.lanes.fetch_add(1, SeqCst);
        let below = self.0.below.backend().open_lane(lane_use)?;
        Ok(Box::new(CachedLane { below, cached: Arc::clone(&self.0), failed: Vec::new() }))
    }

    fn below(&self) -> Vec<Arc<dyn Backend>> {
        vec![Arc::clone(self.0.below.backend())]
    }

    fn cached(&self) -> Option<&dyn capability::Cached> {
        Some(self)
    }
}

impl capability::Cached for Layer {
    fn handle_opened(&self, id: HandleId) {
        self.0.see(Seen::Opened(id));
    }

    fn handle_closed(&self, id: HandleId) {
        self.0.see(Seen::Closed(id));
    }

    fn advise(&self, id: HandleId, hint: Hint, pos: u64, len: u64) -> Result<(), Error> {
        self.0.see(Seen::Advised(id, hint, pos, len));
        Ok(())
    }

    fn handle_counters(&self, id: HandleId) -> Option<HandleCounters> {
        let misses = *self.0.counts.lock().unwrap().get(&id)?;
        Some(HandleCounters { misses, ..HandleCounters::default() })
    }

    fn cache_counters(&self) -> Option<HandleCounters> {
        let misses = self.0.counts.lock().unwrap().values().sum();
        Some(HandleCounters { hits: self.0.answers(), misses, ..HandleCounters::default() })
    }

    fn resident(&self) -> Option<Arc<dyn Resident>> {
        Some(Arc::new(Memory(Arc::clone(&self.0))))
    }
}

struct CachedLane {
    below: Box<dyn Lane>,
    cached: Arc<Cached>,
    failed: Vec<Bio>,
}

impl Lane for CachedLane {
    fn below(&self) -> Option<&dyn Lane> {
        Some(&*self.below)
    }

    fn below_mut(&mut self) -> Option<&mut dyn Lane> {
        Some(&mut *self.below)
    }

    fn submit(&mut self, now: Time, mut bio: Bio) {
        self.cached.see(Seen::Bio(bio.handle(), bio.op(), bio.pos(), bio.len()));
        *self.cached.counts.lock().unwrap().entry(bio.handle()).or_default() += 1;
        if let Some((pos, len)) = self.cached.lost.lock().unwrap().take() {
            bio.rewind(pos, len);
            bio.fail(Fault::new(Kind::Io, Stage::Disk));
            return self.failed.push(bio);
        }
        self.below.submit(now, bio);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.failed);
        let first = out.len();
        self.below.take_done(out);
        for bio in out[first..].iter().filter(|bio| bio.op() == Op::Read && bio.status().is_ok()) {
            let begin = bio.pos() - bio.done();
            let whole =
                begin.div_ceil(PAGE)..if bio.pos() == SIZE { SIZE.div_ceil(PAGE) } else { bio.pos() / PAGE };
            if self.cached.keeps.load(SeqCst) {
                whole.for_each(|page| self.cached.is_there[page as usize].store(true, SeqCst));
            }
        }
    }

    fn has_done(&self) -> bool {
        !self.failed.is_empty() || self.below.has_done()
    }
}
