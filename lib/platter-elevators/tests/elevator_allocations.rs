//! No elevator of the table allocates once `reserve` has made room.

use platter_block::bio::{Context, IoPrio, Op};
use platter_block::elevator::{Dir, Elevator, RequestId, RequestInfo};
use platter_block::time::{Span, Time};
use platter_elevators::TABLE;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed to the system allocator unchanged; counting touches no heap memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that is ending has no counter any more, and nothing to count.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const DEPTH: usize = 128;

fn request(bits: u64) -> RequestInfo {
    let dir = if bits.is_multiple_of(3) { Dir::Write } else { Dir::Read };
    RequestInfo {
        pos: (bits >> 20) % 4096 * 4096,
        len: 4096,
        dir,
        op: if dir == Dir::Read { Op::Read } else { Op::Write },
        sync: dir == Dir::Read,
        ioprio: IoPrio::NONE,
        context: Context::new((bits >> 8) as u32 % 4),
    }
}

/// Fills and drains the elevator many times, to every depth up to the reserved one.
fn churn(elevator: &mut dyn Elevator) {
    let mut infos = [request(0); DEPTH];
    let (mut now, mut bits) = (Time(0), 0x9e37_79b9_7f4a_7c15_u64);
    for round in 0..400u32 {
        let depth = 1 + round as usize * 7 % DEPTH;
        for (index, info) in infos.iter_mut().enumerate().take(depth) {
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            *info = request(bits);
            elevator.insert(now, RequestId { index: index as u32, generation: round }, info);
        }
        let last = depth - 1;
        let id = |index: usize| RequestId { index: index as u32, generation: round };
        if last > 0 && infos[0].dir == infos[last].dir {
            elevator.absorbed(id(0), id(last), &infos[last]);
            let new = RequestInfo { len: 8192, ..infos[0] };
            elevator.merged(id(0), &infos[0], &new);
            infos[0] = new;
        }
        while let Some(id) = elevator.dispatch(now, true) {
            now += Span::from_millis(1);
            elevator.completed(now, id, &infos[id.index as usize]);
        }
    }
}

#[test]
fn no_call_allocates_within_the_reserved_depth() {
    for row in TABLE {
        let mut elevator = (row.make)();
        let made = ALLOCATIONS.get();
        elevator.reserve(DEPTH);
        let reserved = ALLOCATIONS.get();
        assert!(reserved > made, "{}: the counter counts", row.name);
        churn(elevator.as_mut());
        assert_eq!(ALLOCATIONS.get(), reserved, "{} allocated", row.name);
    }
}
