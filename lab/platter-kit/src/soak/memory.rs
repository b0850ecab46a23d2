//! The memory of a run's I/Os: in pieces, aligned as the plan says, and counted until it is freed.

#![allow(unsafe_code)]

use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::buf::{IoBuf, IoBufMut, add_memory};
use platter_block::fault::Fault;
use platter_block::segment::RegionId;
use std::cell::RefCell;
use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The layout of the memory of an I/O. The addresses that the allocator chooses must not matter, or a seed would not
/// determine a run; each layout therefore fixes the offset of its pieces from multiples of [`BASE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One piece, aligned.
    Whole,
    /// One piece, one byte past an aligned address.
    Odd,
    /// Aligned pieces of this many bytes.
    Pieces(u32),
    /// Two aligned pieces, the first of this many bytes.
    Split(u32),
}

/// Alignment of the whole.
const BASE: usize = 4096;

/// Alignment of pieces, and room between them, so that none touches the next.
const STEP: usize = 512;

/// Memory of one I/O.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: Vec<u8>,
    /// Begin and length of each piece in `bytes`.
    pieces: Vec<(usize, usize)>,
    alive: Arc<AtomicU64>,
}

impl Memory {
    /// `len` bytes of 0xa5. `alive` counts the memory that is not freed yet.
    pub(super) fn new(layout: Layout, len: usize, alive: &Arc<AtomicU64>) -> Memory {
        let lengths: Vec<usize> = match layout {
            Layout::Whole | Layout::Odd => vec![len],
            Layout::Pieces(size) => {
                let size = size as usize;
                (0..len.div_ceil(size)).map(|at| size.min(len - at * size)).collect()
            }
            Layout::Split(first) => {
                let first = (first as usize).min(len);
                vec![first, len - first]
            }
        };
        let room: usize = lengths.iter().map(|len| len.next_multiple_of(STEP) + STEP).sum();
        let bytes = vec![0xa5; room + BASE];
        let mut at = bytes.as_ptr().align_offset(BASE) + usize::from(layout == Layout::Odd);
        let mut pieces = Vec::with_capacity(lengths.len());
        for len in lengths.into_iter().filter(|&len| len > 0) {
            pieces.push((at, len));
            at += len.next_multiple_of(STEP) + STEP;
        }
        alive.fetch_add(1, Ordering::Relaxed);
        Memory { bytes, pieces, alive: Arc::clone(alive) }
    }

    /// Bytes in all pieces.
    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(|&(_, len)| len).sum()
    }

    /// The bytes of all pieces.
    pub(super) fn gather(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        self.pieces.iter().for_each(|&(at, len)| out.extend_from_slice(&self.bytes[at..at + len]));
        out
    }

    /// Fills all pieces.
    pub(super) fn fill(&mut self, data: &[u8]) {
        let mut from = 0;
        for &(at, len) in &self.pieces {
            self.bytes[at..at + len].copy_from_slice(&data[from..from + len]);
            from += len;
        }
    }

    /// The pieces, to read from.
    pub(super) fn slices(&self) -> Vec<IoSlice<'_>> {
        self.pieces.iter().map(|&(at, len)| IoSlice::new(&self.bytes[at..at + len])).collect()
    }

    /// The pieces, to write to.
    pub(super) fn slices_mut(&mut self) -> Vec<IoSliceMut<'_>> {
        let (mut rest, mut from, mut slices) = (&mut self.bytes[..], 0, Vec::new());
        for &(at, len) in &self.pieces {
            let (piece, behind) = rest.split_at_mut(at - from).1.split_at_mut(len);
            slices.push(IoSliceMut::new(piece));
            (rest, from) = (behind, at + len);
        }
        slices
    }
}

/// The bytes of a bio's memory.
pub(super) fn bytes_of(bio: &Bio) -> Vec<u8> {
    let mut out = vec![0; bio.segment_bytes() as usize];
    let mut at = 0;
    for segment in bio.all_segments() {
        let end = at + segment.len() as usize;
        // SAFETY: the run calls this with bios that have completed and that own their memory.
        unsafe { segment.copy_to(&mut out[at..end]) };
        at = end;
    }
    out
}

/// Fills a bio's memory.
pub(super) fn fill_bio(bio: &mut Bio, data: &[u8]) {
    let mut at = 0;
    for segment in bio.all_segments() {
        let end = at + segment.len() as usize;
        // SAFETY: as in `bytes_of`; the memory is a `Memory`, which may be written to.
        unsafe { segment.copy_from(&data[at..end]) };
        at = end;
    }
}

thread_local! {
    /// The device whose I/Os this thread's memory is for.
    static DEVICE: RefCell<Option<Weak<dyn Backend>>> = const { RefCell::new(None) };
}

/// From now on, memory freed on this thread first calls this device, as the destructor of a program's buffer may. If
/// the destructor runs with a lock of the device held, the call deadlocks.
pub(super) fn ask_when_freed(device: Option<&Arc<dyn Backend>>) {
    DEVICE.with(|known| *known.borrow_mut() = device.map(Arc::downgrade));
}

fn ask() {
    // The thread may be exiting.
    let device = DEVICE.try_with(|known| known.try_borrow().ok().and_then(|known| known.clone()));
    if let Some(device) = device.ok().flatten().and_then(|device| device.upgrade()) {
        device.elevator_params();
        device.cache_counters();
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        ask();
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

// SAFETY: the vector's heap memory stays where it is while the handle moves, is exclusively owned, and is not touched
// between `add_segments` and the bio's end.
unsafe impl IoBuf for Memory {
    fn byte_len(&self) -> usize {
        self.len()
    }

    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        let base = self.bytes.as_mut_ptr();
        self.pieces.iter().try_for_each(|&(at, len)| {
            // SAFETY: a part of the vector, which goes into the bio's owner next to the segments.
            unsafe { add_memory(bio, base.wrapping_add(at), len, RegionId::NONE) }
        })
    }
}

// SAFETY: the bytes are initialised, and any byte is a valid `u8`.
unsafe impl IoBufMut for Memory {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_lie_as_the_layout_says_and_are_counted() {
        let alive = Arc::new(AtomicU64::new(0));
        let cases = [
            (Layout::Whole, vec![(0, 3000)]),
            (Layout::Odd, vec![(1, 3000)]),
            (Layout::Pieces(1024), vec![(0, 1024), (0, 1024), (0, 952)]),
            (Layout::Split(301), vec![(0, 301), (0, 2699)]),
        ];
        for (layout, expected) in cases {
            let mut memory = Memory::new(layout, 3000, &alive);
            assert_eq!((memory.len(), alive.load(Ordering::Relaxed)), (3000, 1));
            let data: Vec<u8> = (0..3000).map(|at| (at % 251) as u8).collect();
            memory.fill(&data);
            assert_eq!(memory.gather(), data);
            let slices = memory.slices();
            let lie = slices.iter().map(|slice| (slice.as_ptr().addr() % STEP, slice.len()));
            assert_eq!(lie.collect::<Vec<_>>(), expected, "{layout:?}");
            assert!(slices.windows(2).all(|w| w[0].as_ptr_range().end < w[1].as_ptr()));
            drop(slices);
            assert_eq!(memory.slices_mut().iter().map(|slice| slice.len()).sum::<usize>(), 3000);
        }
        assert_eq!(alive.load(Ordering::Relaxed), 0);
    }
}
