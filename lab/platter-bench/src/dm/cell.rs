//! One cell, measured once: a worker for each disk reads it in sequence.

use super::call::{Call, PARTS};
use super::options::READ_BYTES;
use super::{Disks, DmError};
use crate::ladder::crew::{self, Measured, Until, Worked};
use crate::ladder::{Handle, Ladder, Rung};
use platter_block::fault;
use std::io::IoSliceMut;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

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
    let handles = ladders.iter().map(Ladder::handle).collect::<Result<Vec<Handle>, _>>()?;
    let descriptor_bytes = handles.first().map_or(0, |handle| handle.descriptor_bytes(call.parts()));
    let worker = |(handle, ladder): (Handle, &Ladder)| {
        let size = ladder.device().size();
        move |start: &Barrier| work(handle, size, call, first, until, start, interrupted)
    };
    let workers = handles.into_iter().zip(&ladders).map(worker).collect();
    let measured = crew::measure(&ladders, workers)?;
    let through = !interrupted.load(Ordering::Relaxed);
    Ok(through.then_some(Measured { descriptor_bytes, ..measured }))
}

fn work(
    mut handle: Handle,
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
    while !until.is_over(began, reads) && !interrupted.load(Ordering::Relaxed) {
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
