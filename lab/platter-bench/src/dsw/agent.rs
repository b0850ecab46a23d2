//! An agent: computes and reads as a recording says.

use super::call::{Call, Calls, PREFETCH_BYTES};
use crate::ladder::crew::{Until, Worked};
use crate::ladder::{Handle, Ladder};
use platter_block::fault;
use rustix::time::{ClockId, clock_gettime};
use std::io::IoSliceMut;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Where pages are: extents of [`PREFETCH_BYTES`] on all disks in turn, as the paper's database spread its data.
pub(super) struct Layout {
    /// Extents of each disk.
    extents: Vec<u64>,
}

impl Layout {
    pub(super) fn new(ladders: &[Ladder]) -> Layout {
        let extents = |ladder: &Ladder| (ladder.device().size() / PREFETCH_BYTES).max(1);
        Layout { extents: ladders.iter().map(extents).collect() }
    }

    /// The disk of a page, and where it is there. A disk that is too small for its part of the database is read again from
    /// its start.
    fn place(&self, page: u64, page_bytes: u64) -> (usize, u64) {
        let at = page * page_bytes;
        let (extent, within) = (at / PREFETCH_BYTES, at % PREFETCH_BYTES);
        let disk = (extent % self.extents.len() as u64) as usize;
        let on_disk = (extent / self.extents.len() as u64) % self.extents[disk];
        (disk, on_disk * PREFETCH_BYTES + within)
    }
}

/// What all agents share.
pub(super) struct Shared<'a> {
    pub(super) calls: &'a Calls,
    pub(super) layout: &'a Layout,
    /// The recorded processor time is multiplied by this.
    pub(super) compute: f64,
    pub(super) interrupted: &'a AtomicBool,
    /// Processor time that all agents computed, in nanoseconds.
    pub(super) computed_ns: &'a AtomicU64,
    /// Pages that all agents read.
    pub(super) pages: &'a AtomicU64,
}

/// Replays calls, through a handle for each disk.
pub(super) fn work(
    shared: &Shared<'_>,
    mut handles: Vec<Handle>,
    (agent, first): (usize, u64),
    until: Until,
    start: &Barrier,
) -> Result<Worked, fault::Error> {
    let mut memory = Buffers::new(shared.calls);
    let mut slices = memory.slices();
    let mut calls = shared.calls.of_agent(agent, first);
    let (mut reads, mut pages, mut computed) = (0, 0, 0);
    start.wait();
    let began = Instant::now();
    while !until.is_over(began, reads) && !shared.interrupted.load(Ordering::Relaxed) {
        let Some(call) = calls.next() else { break };
        computed += compute(call, shared.compute);
        let (disk, at) = shared.layout.place(call.page, shared.calls.page_bytes);
        handles[disk].read_vectored_at(&mut slices[..call.pages as usize], at)?;
        pages += call.pages;
        reads += 1;
    }
    let end = Instant::now();
    shared.computed_ns.fetch_add(computed, Ordering::Relaxed);
    shared.pages.fetch_add(pages, Ordering::Relaxed);
    Ok(Worked { reads, end })
}

/// Uses the processor for as long as the query did, and returns how long that was.
fn compute(call: &Call, factor: f64) -> u64 {
    let wanted = (call.compute_ns as f64 * factor) as u64;
    if wanted == 0 {
        return 0;
    }
    let began = thread_cpu_ns();
    loop {
        let spent = thread_cpu_ns().saturating_sub(began);
        if spent >= wanted {
            return spent;
        }
    }
}

fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

/// Memory of one agent, written to once so that the kernel has given it. Buffers are every second page, from the last to the
/// first, so that no two touch.
struct Buffers {
    bytes: Vec<u8>,
    page: usize,
}

/// Buffers of direct I/O begin at a multiple of this.
const ALIGNMENT: usize = 4096;

impl Buffers {
    fn new(calls: &Calls) -> Buffers {
        let page = calls.page_bytes as usize;
        let room = 2 * calls.pages_per_call() as usize * page.max(ALIGNMENT) + ALIGNMENT;
        Buffers { bytes: vec![0xff; room], page }
    }

    fn slices(&mut self) -> Vec<IoSliceMut<'_>> {
        let (skip, page) = (self.bytes.as_ptr().align_offset(ALIGNMENT), self.page);
        let chunks = self.bytes[skip..].chunks_exact_mut(page.max(ALIGNMENT)).rev().step_by(2);
        chunks.map(|chunk| IoSliceMut::new(&mut chunk[..page])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsw::{Query, Read, Recording};

    #[test]
    fn extents_are_on_all_disks_in_turn() {
        let layout = Layout { extents: vec![10, 2] };
        assert_eq!(layout.place(0, 4096), (0, 0));
        assert_eq!(layout.place(15, 4096), (0, 15 * 4096));
        assert_eq!(layout.place(17, 4096), (1, 4096));
        assert_eq!(layout.place(32, 4096), (0, 65536));
        // The second disk has two extents: the third is the first again.
        assert_eq!(layout.place(5 * 16, 4096), (1, 0));
        assert_eq!(layout.place(1, 65536), (1, 0));
    }

    #[test]
    fn buffers_of_every_page_size_are_aligned_and_apart() {
        for page_bytes in [512, 4096, 65536] {
            let reads = vec![Read { page: 0, compute_ns: 0 }];
            let queries = vec![Query { name: "q".into(), reads }];
            let calls = Calls::new(&Recording::new(1.0, page_bytes, 10, queries).unwrap());
            let mut memory = Buffers::new(&calls);
            let slices = memory.slices();
            assert!(slices.len() >= calls.pages_per_call() as usize);
            assert!(
                slices.iter().all(|s| s.len() == page_bytes as usize && s.as_ptr().align_offset(4096) == 0)
            );
            assert!(slices.windows(2).all(|w| w[0].as_ptr() as usize > w[1].as_ptr() as usize + w[1].len()));
        }
    }

    #[test]
    fn computing_uses_processor_time() {
        let call = Call { page: 0, pages: 1, compute_ns: 200_000 };
        let before = thread_cpu_ns();
        assert!(compute(&call, 2.0) >= 400_000);
        assert!(thread_cpu_ns() - before >= 400_000);
        assert_eq!(compute(&call, 0.0), 0);
    }
}
