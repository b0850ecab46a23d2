//! After warm-up, a queue allocates nothing per I/O: not for merges, splits, long segment lists, flushes,
//! barriers or failures, with or without an elevator.

use platter_block::bio::{Bio, Flags, Op};
use platter_block::counters::Counters;
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::fault::Kind;
use platter_block::lane::Lane;
use platter_block::limits::Limits;
use platter_block::queue::{QueueLane, SchedLane, SchedQueue, Settings};
use platter_block::segment::{RegionId, Segment};
use platter_block::time::{Span, Time};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that is ending has no counter any more.
    let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
}

// SAFETY: every call is passed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is the one that `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SIZE: u64 = 1 << 30;
const BLOCK: usize = 4096;
/// A request over this byte fails.
const BAD: u64 = 77 << 20;

/// A disk that completes everything at the next reap.
struct Prompt {
    done: Vec<Completion>,
    segments: u64,
}

impl Driver for Prompt {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        request.for_each_segment(|_| self.segments += 1);
        let bad = (request.pos..request.pos + request.len).contains(&BAD);
        self.done.push(Completion { tag: request.tag, result: if bad { -5 } else { request.len as i64 } });
        true
    }

    fn submit(&mut self, _now: Time) {}

    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        done.append(&mut self.done);
    }
}

/// The memory of all bios; nothing is transferred.
struct Memory(Vec<u8>);

impl Memory {
    fn segment(&mut self, at: usize, len: usize) -> Segment {
        let memory = &mut self.0[at..at + len];
        // SAFETY: the memory outlives the queue (see the test), and the disk does not touch it.
        unsafe { Segment::new(memory.as_mut_ptr(), len as u32, RegionId::NONE) }
    }
}

/// One I/O of the pattern: operation, position, length, pieces, flags.
type Plan = (Op, u64, usize, usize, Flags);

/// The I/Os of one round, shifted from round to round.
fn plan(round: u64) -> Vec<Plan> {
    let base = (round % 7) * (8 << 20);
    let both = Flags::FUA | Flags::PREFLUSH;
    let mut plan: Vec<Plan> = Vec::new();
    // Neighbours that merge, at the back and at the front.
    plan.extend((0..32).map(|i| (Op::Write, base + i * 4096, BLOCK, 1, Flags::NONE)));
    plan.extend((0..16).rev().map(|i| (Op::Read, base + (1 << 20) + i * 4096, BLOCK, 1, Flags::NONE)));
    // Scattered ones, more than there are requests.
    plan.extend((0..80).map(|i| (Op::Read, base + (2 << 20) + (i * 37 % 80) * 16384, BLOCK, 1, Flags::NONE)));
    // Long lists, whole and split.
    plan.push((Op::Write, base + (5 << 20), 16 * BLOCK, 16, Flags::NONE));
    plan.push((Op::Read, base + (6 << 20), 64 * BLOCK, 16, Flags::SYNC));
    plan.push((Op::Write, base + (7 << 20), 64 * BLOCK, 1, both));
    plan.push((Op::Discard, base + (4 << 20), 64 * BLOCK, 0, Flags::NONE));
    plan.push((Op::Flush, 0, 0, 0, Flags::NONE));
    plan.push((Op::Flush, 0, 0, 0, Flags::NONE));
    plan.push((Op::Write, base + (3 << 20), BLOCK, 1, Flags::SOFT_BARRIER));
    plan.push((Op::Write, base + (3 << 20) + 8192, 32 * BLOCK, 16, Flags::HARD_BARRIER));
    // Neighbours of which one fails.
    plan.extend((0..4).map(|i| (Op::Read, BAD - 8192 + i * 4096, BLOCK, 1, Flags::NONE)));
    plan
}

struct Load {
    lane: SchedLane<Prompt>,
    memory: Memory,
    /// Free bios, by index in the plan.
    bios: Vec<Option<Bio>>,
    done: Vec<Bio>,
    now: Time,
}

impl Load {
    fn new(elevator: &str) -> Load {
        let limits = Limits::unlimited(512).with_max_transfer(128 << 10);
        let features = Features::default().with_write_cache(true).with_fua(false);
        let settings =
            Settings { depth: 16, nr_requests: 32, timeout: Some(Span::from_secs(1)), ..Settings::default() };
        let elevator = platter_elevators::by_name(elevator).map(|row| (row.make)());
        let geometry = Geometry::new(SIZE, limits).with_features(features);
        let queue = SchedQueue::new(geometry, settings, elevator, Arc::new(Counters::default()));
        Load {
            lane: QueueLane::new(queue, Prompt { done: Vec::with_capacity(16), segments: 0 }),
            memory: Memory(vec![0; 64 * 2 * BLOCK]),
            bios: Vec::new(),
            done: Vec::with_capacity(256),
            now: Time(1),
        }
    }

    fn segments(&mut self, bio: &mut Bio, len: usize, pieces: usize) {
        for i in 0..pieces {
            let segment = self.memory.segment(i * 2 * (len / pieces), len / pieces);
            // SAFETY: the memory lives longer than the lane, and nothing else uses it.
            unsafe { bio.push_segment(segment) }.expect("a short list");
        }
    }

    /// Submits the bios of a plan and takes them back. Every other round only rewinds them; the others reset
    /// them.
    fn round(&mut self, plan: &[Plan], anew: bool) {
        for (i, &(op, pos, len, pieces, flags)) in plan.iter().enumerate() {
            let kept = self.bios.get_mut(i).and_then(Option::take);
            let fresh = kept.is_none();
            let mut bio = kept.unwrap_or_else(|| Bio::new(op, pos, len as u64));
            if anew {
                bio.reset(op, pos, len as u64);
            }
            if anew || fresh {
                self.segments(&mut bio, len, pieces);
                bio.add_flags(flags);
                bio.set_token(i as u64);
            } else {
                bio.rewind(pos, len as u64);
            }
            self.lane.submit(self.now, bio);
            if i % 48 == 47 {
                self.lane.run(self.now);
            }
        }
        self.bios.resize_with(plan.len(), || None);
        for run in 0.. {
            if self.lane.is_idle() {
                break;
            }
            assert!(run < 10_000, "the queue does not come to an end");
            self.lane.run(self.now);
            self.now += Span::from_millis(1);
        }
        self.lane.take_done(&mut self.done);
        assert_eq!(self.done.len(), plan.len());
        for bio in self.done.drain(..) {
            let bad = plan[bio.token() as usize].1 == BAD;
            assert_eq!(bio.status().err().map(|fault| fault.kind), bad.then_some(Kind::Io), "{bio:?}");
            let at = bio.token() as usize;
            self.bios[at] = Some(bio);
        }
    }
}

#[test]
fn a_warm_queue_allocates_nothing() {
    let plans: Vec<Vec<Plan>> = (0..14).map(plan).collect();
    for elevator in std::iter::once("none").chain(platter_elevators::TABLE.iter().map(|row| row.name)) {
        let mut load = Load::new(elevator);
        // Elevators that wait make the rounds differ, so that some lists reach their longest late.
        (0..6).for_each(|_| plans.iter().enumerate().for_each(|(i, plan)| load.round(plan, i % 2 == 0)));
        let counts = |load: &Load| {
            let c = load.lane.counters();
            [&c.bios, &c.back_merges, &c.splits, &c.requeues, &c.flushes, &c.barriers, &c.request_waits]
                .map(|cell| cell.get())
        };
        let (before, start) = (counts(&load), ALLOCATIONS.get());
        plans.iter().enumerate().for_each(|(i, plan)| load.round(plan, i % 2 == 0));
        assert_eq!(ALLOCATIONS.get() - start, 0, "allocations with elevator {elevator}");
        let after = counts(&load);
        assert!(before.iter().zip(after).all(|(b, a)| a > *b), "{elevator}: {before:?} {after:?}");
        assert!(load.lane.driver().segments > 0);
    }
}

#[test]
fn allocations_are_seen() {
    let start = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(7u64)));
    assert_eq!(ALLOCATIONS.get() - start, 1);
}
