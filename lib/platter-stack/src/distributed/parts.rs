//! Bios that are done in parts: which parts are in flight, which failed, and what to do next.

use super::{Extent, Map};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::Cancel;
use platter_block::whole::Whole;
use std::sync::atomic::{AtomicU32, Ordering};

/// Flags that a part does not inherit: the layer keeps the order itself.
const ORDER: Flags = Flags::SOFT_BARRIER.union(Flags::HARD_BARRIER).union(Flags::PREFLUSH);

/// No open part.
const NONE: u32 = u32::MAX;

/// Most parts of one bio in flight, or one for each member: a transfer over more is done a section at a time.
const SECTION: usize = 256;

/// Most spare parts that a lane keeps.
const SPARE: usize = 4096;

/// Numbers the lanes of the process; 0 is never used.
static MAKERS: AtomicU32 = AtomicU32::new(1);

/// A bio that is done in parts.
#[derive(Default)]
struct Slot {
    whole: Whole,
    /// Parts in flight.
    pending: u32,
    /// The first fault, and the first byte of the device that failed with it.
    failed: Option<(Fault, u64)>,
    /// A part was cancelled or timed out; cleared together with `failed`.
    is_cut_off: bool,
    /// The bio is to be taken back as this: no more parts are made of it.
    cancelled: Option<Kind>,
    /// The parts in flight are flushes that precede the data.
    data_follows: bool,
    /// They write out what the members have; the flush of their disk follows.
    disk_follows: bool,
    /// Where the next section of a transfer begins; the end of the bio: there is none.
    next: u64,
    /// It is a barrier whose data is made durable.
    hard: bool,
}

/// What to do after a part has come back.
pub(super) enum Turn {
    /// Other parts are still in flight.
    Wait,
    /// Start the data of this bio.
    Data(u32),
    /// Send the staged flush of the members' disk.
    Disk(u32),
    /// The bio is done.
    Over(Bio),
}

/// The parts of one lane.
pub(super) struct Parts {
    maker: u32,
    slots: Vec<Slot>,
    free: Vec<u32>,
    spare: Vec<Bio>,
    /// Parts that are not sent yet, with their members.
    staged: Vec<(u32, Bio)>,
    /// By member: its part in `staged` to which segments may be appended.
    open: Vec<u32>,
    /// By member: most segments of a part.
    max_segments: Vec<u16>,
    /// Parts in flight.
    pub(super) out: usize,
}

impl Parts {
    pub(super) fn new(max_segments: Vec<u16>) -> Parts {
        Parts {
            // Numbers repeat after 2^32 lanes; two lanes of one stack are never that far apart.
            maker: MAKERS.fetch_add(1, Ordering::Relaxed).max(1),
            slots: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            staged: Vec::new(),
            open: vec![NONE; max_segments.len()],
            max_segments,
            out: 0,
        }
    }

    /// Adds a bio that will be done in parts. `hard`: it is a barrier whose data is made durable. `data_follows`: its first parts are
    /// flushes.
    pub(super) fn insert(&mut self, bio: Bio, hard: bool, data_follows: bool) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[at as usize];
        slot.next = bio.pos();
        slot.whole.begin(bio);
        (slot.pending, slot.failed, slot.cancelled) = (0, None, None);
        (slot.hard, slot.data_follows) = (hard, data_follows);
        slot.disk_follows = false;
        at
    }

    /// Whether a bio that came back is a part that this lane made.
    #[inline]
    pub(super) fn made(&self, bio: &Bio) -> bool {
        bio.maker() == self.maker
    }

    /// Stages a flush of each of the first `members` members on behalf of bio `at`: of a range there, if the members take it.
    pub(super) fn flushes(&mut self, at: u32, members: u32, range: Option<(u64, u64)>) {
        let Parts { slots, spare, staged, .. } = self;
        let slot = &mut slots[at as usize];
        let (pos, len) = range.unwrap_or((0, 0));
        for member in 0..members {
            let mut part = make(slot, spare, Op::Flush, pos);
            part.rewind(pos, len);
            part.remove_flags(Flags::FUA | Flags::DATA_ONLY | Flags::DISK_ONLY);
            staged.push((member, part));
        }
        slot.pending = members;
    }

    /// As `flushes`, of members that have one disk: they only write to it. It is flushed once, afterwards.
    pub(super) fn flushes_of_one_disk(&mut self, at: u32, members: u32, range: Option<(u64, u64)>) {
        self.flushes(at, members, range);
        self.staged.iter_mut().for_each(|(_, part)| part.add_flags(Flags::DATA_ONLY));
        self.slots[at as usize].disk_follows = true;
    }

    /// Stages the parts of bio `at`.
    pub(super) fn share_out<M: Map>(&mut self, map: &M, at: u32) {
        let Parts { slots, spare, staged, .. } = self;
        let slot = &mut slots[at as usize];
        let Some(bio) = slot.whole.bio() else { return };
        if bio.op().has_data() {
            return self.gather(map, at);
        }
        let len = (bio.end() - slot.next).min(map.most_without_data());
        map.ranges(slot.next, len, &mut |extent| {
            let mut part = make(slot, spare, bio.op(), extent.pos);
            part.rewind(extent.pos, extent.len);
            staged.push((extent.member as u32, part));
        });
        slot.next += len;
        slot.pending = staged.len() as u32;
    }

    /// Stages the parts of a transfer: pieces that are contiguous on a member become one part.
    fn gather<M: Map>(&mut self, map: &M, at: u32) {
        let Parts { slots, spare, staged, open, max_segments, .. } = self;
        let slot = &mut slots[at as usize];
        let Some(bio) = slot.whole.bio() else { return };
        let (mut pos, end) = (slot.next, bio.end());
        let mut source = slot.whole.source();
        source.skip(pos - bio.pos());
        while pos < end {
            let Extent { member, pos: place, len } = map.find(pos);
            let len = len.min(end - pos);
            let most = usize::from(max_segments[member]);
            let grows = staged.get(open[member] as usize).is_some_and(|(_, part)| {
                part.end() == place && usize::from(part.segment_count()) + source.pieces(len) <= most
            });
            if !grows {
                if staged.len() >= SECTION.max(max_segments.len()) {
                    break;
                }
                open[member] = staged.len() as u32;
                staged.push((member as u32, make(slot, spare, bio.op(), place)));
            }
            let part = &mut staged[open[member] as usize].1;
            // A new part has room for the most segments that a bio can have.
            let _ = source.give(part, len);
            pos += len;
        }
        for &(member, _) in staged.iter() {
            open[member as usize] = NONE;
        }
        slot.next = pos;
        slot.pending = staged.len() as u32;
    }

    /// Takes the staged parts and marks them as parts of bio `at`, for sending.
    pub(super) fn take_staged(&mut self, at: u32) -> Vec<(u32, Bio)> {
        let mut staged = std::mem::take(&mut self.staged);
        let token = self.token(at);
        for (_, part) in &mut staged {
            part.set_token(token);
            part.set_maker(self.maker);
        }
        self.out += staged.len();
        staged
    }

    /// The token of the parts of bio `at`. It is unlikely to be the token of a bio that is passed on as it
    /// is, so that cancelling one does not cancel the other.
    fn token(&self, at: u32) -> u64 {
        1 << 63 | u64::from(self.maker) << 32 | u64::from(at)
    }

    /// Makes no more parts of bios that are to be taken back. Returns the tokens of their parts.
    pub(super) fn cancel(&mut self, which: &Cancel) -> Vec<u64> {
        let mut found = Vec::new();
        for (at, slot) in self.slots.iter_mut().enumerate() {
            if slot.whole.bio().is_some_and(|bio| which.matches(bio)) {
                slot.cancelled = Some(which.kind());
                found.push(at as u32);
            }
        }
        found.into_iter().map(|at| self.token(at)).collect()
    }

    /// Whether a member takes all segments of a transfer in one part.
    pub(super) fn takes(&self, member: usize, bio: &Bio) -> bool {
        bio.segment_count() <= self.max_segments[member]
    }

    /// Returns the list for reuse when all parts are sent.
    pub(super) fn keep_list(&mut self, staged: Vec<(u32, Bio)>) {
        self.staged = staged;
    }

    /// A part came back from a member; `place` maps a position on the member to the device.
    pub(super) fn came_back(&mut self, part: Bio, place: impl FnOnce(u64) -> u64) -> Turn {
        let at = part.token() as u32;
        let status = match part.status() {
            Ok(()) if part.op().has_data() && !part.is_empty() => Err(Fault::new(Kind::Short, Stage::Layer)),
            status => status,
        };
        self.out -= 1;
        let slot = &mut self.slots[at as usize];
        if let Err(fault) = status {
            let place = place(part.pos());
            let is_flush = part.op() == Op::Flush;
            slot.is_cut_off |= is_cut_off(fault);
            // A member tells an error of its write-back once, so another member's part that was taken back does not hide it.
            let goes_first =
                |(other, first): (Fault, u64)| match is_flush && is_cut_off(fault) != is_cut_off(other) {
                    true => is_cut_off(other),
                    false => place < first,
                };
            if slot.failed.is_none_or(goes_first) {
                slot.failed = Some((fault, place));
            }
        }
        self.keep(part);
        let slot = &mut self.slots[at as usize];
        slot.pending -= 1;
        if slot.pending > 0 { Turn::Wait } else { self.turn(at) }
    }

    /// What to do when no part of bio `at` is in flight.
    pub(super) fn turn(&mut self, at: u32) -> Turn {
        let slot = &mut self.slots[at as usize];
        let has_more = slot.data_follows || slot.whole.bio().is_some_and(|bio| has_more(bio, slot.next));
        if let Some(kind) = slot.cancelled.filter(|_| has_more || slot.disk_follows) {
            slot.is_cut_off = true;
            slot.failed.get_or_insert((Fault::new(kind, Stage::Layer), slot.next));
        }
        // Also if a member could not write: as in a cache without shards, what its disk has to tell is told by the same flush.
        if std::mem::take(&mut slot.disk_follows) && !slot.is_cut_off {
            self.flushes(at, 1, None);
            self.staged.iter_mut().for_each(|(_, part)| part.add_flags(Flags::DISK_ONLY));
            return Turn::Disk(at);
        }
        if has_more && slot.failed.is_none() {
            slot.data_follows = false;
            return Turn::Data(at);
        }
        slot.is_cut_off = false;
        let failed = slot.failed.take();
        let only_flushed = slot.data_follows;
        let start = slot.whole.bio().map_or(0, Bio::pos);
        let done = failed.map(|(fault, place)| (fault, place.saturating_sub(start)));
        let is_flush = slot.whole.bio().is_some_and(|bio| bio.op() == Op::Flush);
        let done = done.map(|(fault, done)| (fault, if only_flushed || is_flush { 0 } else { done }));
        let Some(mut bio) = slot.whole.end(done) else { return Turn::Wait };
        if let (Some((_, place)), true) = (failed, is_flush) {
            // A flush has no position; a failed one reports the position on its member.
            bio.remap(place);
        }
        self.free.push(at);
        Turn::Over(bio)
    }

    /// Keeps a part for reuse. Its reference to the whole is dropped.
    fn keep(&mut self, mut part: Bio) {
        if self.spare.len() < SPARE {
            part.reset(Op::Flush, 0, 0);
            self.spare.push(part);
        }
    }
}

/// Whether sections of a transfer are left, the first of which begins at `next`.
fn has_more(bio: &Bio, next: u64) -> bool {
    bio.op() != Op::Flush && next < bio.end()
}

/// Whether a part failed because it was cancelled or timed out.
fn is_cut_off(fault: Fault) -> bool {
    matches!(fault.kind, Kind::Cancelled | Kind::TimedOut)
}

/// Makes a part of a bio, without the flags that order the whole.
fn make(slot: &Slot, spare: &mut Vec<Bio>, op: Op, pos: u64) -> Bio {
    let mut part = spare.pop().unwrap_or_else(Bio::flush);
    slot.whole.share(&mut part, op, pos);
    if slot.hard && op.changes() {
        part.add_flags(Flags::FUA);
    }
    part.remove_flags(ORDER);
    part
}
