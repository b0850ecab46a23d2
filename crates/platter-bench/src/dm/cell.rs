//! One cell, measured once: a worker for each disk reads it in sequence.

use super::call::{Call, PARTS};
use super::machine::{Ticks, process_cpu_ns};
use super::options::READ_BYTES;
use super::{Disks, DmError};
use crate::device_stats::DeviceStats;
use crate::ladder::{Handle, Ladder, Rung};
use platter_block::counters::Snapshot;
use platter_block::fault;
use std::io::IoSliceMut;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// When a worker is done.
#[derive(Clone, Copy)]
pub(super) enum Until {
    /// After this many reads.
    Reads(u64),
    /// When the time is over, and after at least one read.
    Time(Duration),
}

/// The result of one run of a cell.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) reads: u64,
    pub(super) wall_ns: u64,
    pub(super) cpu_ns: u64,
    pub(super) idle_pct: Option<f64>,
    pub(super) counters: Snapshot,
    pub(super) device: DeviceStats,
    pub(super) waits: u64,
    pub(super) threads: usize,
    pub(super) descriptor_bytes: usize,
}

/// Memory of one worker, written to once so that the kernel has given it. A call's buffers are every second page, from the last to the first.
struct Buffers(Vec<u8>);

const PAGE: usize = READ_BYTES / PARTS;

impl Buffers {
    fn new() -> Buffers {
        Buffers(vec![0xff; 2 * READ_BYTES + PAGE])
    }

    fn slices(&mut self, call: Call) -> Vec<IoSliceMut<'_>> {
        let skip = self.0.as_ptr().align_offset(PAGE);
        let pages = &mut self.0[skip..skip + 2 * READ_BYTES];
        match call {
            Call::Read => vec![IoSliceMut::new(&mut pages[..READ_BYTES])],
            Call::Readv => pages.chunks_mut(PAGE).rev().step_by(2).map(IoSliceMut::new).collect(),
        }
    }
}

/// Runs a cell. The workers start at read number `first` of their disks and wrap around at the end. `None` if
/// it was interrupted.
pub(super) fn measure(
    disks: &Disks,
    row: &Rung,
    call: Call,
    first: u64,
    until: Until,
    interrupted: &AtomicBool,
) -> Result<Option<Measured>, DmError> {
    let ladders = disks.open(row)?;
    let mut handles = ladders.iter().map(Ladder::handle).collect::<Result<Vec<Handle>, _>>()?;
    let descriptor_bytes = handles.first().map_or(0, |handle| handle.descriptor_bytes(call.parts()));
    let count = |ladders: &[Ladder]| -> Vec<Snapshot> { ladders.iter().map(Ladder::counters).collect() };
    let stats = |ladders: &[Ladder]| DeviceStats::of_all(ladders.iter().map(Ladder::device));
    let (before, stats_before) = (count(&ladders), stats(&ladders));
    let start = Barrier::new(ladders.len() + 1);
    let (results, began, cpu_before, ticks) = std::thread::scope(|scope| {
        let worker = |(handle, ladder): (_, &Ladder)| {
            let size = ladder.device().size();
            let start = &start;
            scope.spawn(move || work(handle, size, call, first, until, start, interrupted))
        };
        let workers: Vec<_> = handles.iter_mut().zip(&ladders).map(worker).collect();
        let (ticks, cpu, began) = (Ticks::now(), process_cpu_ns(), Instant::now());
        start.wait();
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        (results, began, cpu, ticks)
    });
    let cpu_ns = process_cpu_ns() - cpu_before;
    let idle_pct = ticks.and_then(|before| Ticks::now()?.idle_pct_since(before));
    let (mut reads, mut end) = (0, began);
    for result in results {
        let worker = result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        reads += worker.reads;
        end = end.max(worker.end);
    }
    if interrupted.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let counters = sum_since(&count(&ladders), &before);
    Ok(Some(Measured {
        reads,
        wall_ns: u64::try_from((end - began).as_nanos()).unwrap_or(u64::MAX).max(1),
        cpu_ns,
        idle_pct,
        counters,
        device: stats(&ladders).since(&stats_before),
        waits: ladders.iter().map(Ladder::waits).sum(),
        threads: ladders.len(),
        descriptor_bytes,
    }))
}

/// The sum of the counters of all devices.
fn sum_since(after: &[Snapshot], before: &[Snapshot]) -> Snapshot {
    let mut sum = Snapshot::default();
    for (after, before) in after.iter().zip(before) {
        let spent = after.since(before);
        sum.bios += spent.bios;
        sum.dispatches += spent.dispatches;
        sum.bytes_read += spent.bytes_read;
        sum.bytes_bounced += spent.bytes_bounced;
        sum.lock_acquisitions += spent.lock_acquisitions;
        sum.lock_wait_ns += spent.lock_wait_ns;
    }
    sum
}

struct Worked {
    reads: u64,
    end: Instant,
}

fn work(
    handle: &mut Handle,
    size: u64,
    call: Call,
    first: u64,
    until: Until,
    start: &Barrier,
    interrupted: &AtomicBool,
) -> Result<Worked, fault::Error> {
    let mut memory = Buffers::new();
    let mut slices = memory.slices(call);
    let unit = READ_BYTES as u64;
    let on_disk = (size / unit).max(1);
    start.wait();
    let began = Instant::now();
    let mut reads = 0;
    let done = |reads: u64| match until {
        Until::Reads(count) => reads >= count,
        Until::Time(span) => reads > 0 && began.elapsed() >= span,
    };
    while !done(reads) && !interrupted.load(Ordering::Relaxed) {
        handle.read_vectored_at(&mut slices, (first + reads) % on_disk * unit)?;
        reads += 1;
    }
    Ok(Worked { reads, end: Instant::now() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_pages_that_do_not_touch() {
        let mut memory = Buffers::new();
        for (call, len) in [(Call::Read, READ_BYTES), (Call::Readv, PAGE)] {
            let slices = memory.slices(call);
            assert_eq!(slices.len(), call.parts());
            assert!(slices.iter().all(|s| s.len() == len && s.as_ptr().align_offset(PAGE) == 0));
            assert!(slices.windows(2).all(|w| w[0].as_ptr() as usize >= w[1].as_ptr() as usize + 2 * PAGE));
        }
    }
}
