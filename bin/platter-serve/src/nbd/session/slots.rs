//! The requests of a connection that have not been answered completely.

use crate::age::Mark;
use platter_remote::nbd::wire::Request;
use std::ops::Range;

/// What a request is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Job {
    Read,
    Write,
    Flush,
    /// A discard, or zeroes of which the device takes care.
    Change,
    /// Zeroes that are written in pieces, because they must keep their space.
    WriteZeroes {
        fua: bool,
    },
    /// The range is read in pieces into a cache.
    ReadAhead,
}

#[derive(Clone)]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) job: Job,
    /// Bytes of the range whose pieces are done.
    pub(super) done: u32,
    /// Bytes of the buffer that its bio has.
    pub(super) capacity: usize,
    /// When it arrived.
    pub(super) mark: Mark,
    /// The blocks that are locked for it, and whether it changes parts of them.
    pub(super) locked: Option<(Range<u64>, bool)>,
}

impl Slot {
    fn new(request: Request) -> Slot {
        let mark = Mark::default();
        Slot { request, job: Job::Flush, done: 0, capacity: 0, mark, locked: None }
    }
}

pub(super) struct Slots {
    all: Vec<Slot>,
    free: Vec<u16>,
}

impl Slots {
    pub(super) fn new(depth: usize) -> Slots {
        let empty = Slot::new(Request::default());
        let count = depth.min(usize::from(u16::MAX)) as u16;
        Slots { all: vec![empty; usize::from(count)], free: (0..count).rev().collect() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn used(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// A place for a request; `None`: all are in use.
    #[inline]
    pub(super) fn take(&mut self, request: &Request) -> Option<u16> {
        let index = self.free.pop()?;
        self.all[usize::from(index)] = Slot::new(*request);
        Some(index)
    }

    #[inline]
    pub(super) fn get(&mut self, index: u16) -> &mut Slot {
        &mut self.all[usize::from(index)]
    }

    /// What is locked, of all requests.
    pub(super) fn take_locked(&mut self) -> impl Iterator<Item = (Range<u64>, bool)> {
        self.all.iter_mut().filter_map(|slot| slot.locked.take())
    }

    #[inline]
    pub(super) fn put(&mut self, index: u16) {
        self.free.push(index);
    }
}
