//! The region in which the requests in flight are recorded, so that the next server can carry them out.
//!
//! The front end keeps it while there is no server, and gives it to the next one. Its layout is that of the vhost-user
//! specification ("Inflight I/O tracking", split virtqueues), one part for each queue. After them comes a part of our own,
//! in which a server finds out whether an earlier one has answered writes that no flush has covered.
//!
//! A server can be killed between any two stores. On the processor's order of stores (and the compiler's, by `Release`)
//! rests that what is read afterwards is one of the states in between.

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// Sizes in bytes.
const HEADER: usize = 16;
const ENTRY: usize = 16;
const ALIGN: usize = 64;

/// Offsets in the part of a queue.
const VERSION: usize = 8;
const COUNT: usize = 10;
const LAST_BATCH: usize = 12;
const USED_INDEX: usize = 14;

/// Offsets in an entry.
const NEXT: usize = 6;
const COUNTER: usize = 8;

const SPLIT: u16 = 1;

/// Offsets in our own part: which server has used it, and from `WRITES` on two counts for each queue.
const SERVER: usize = 0;
const WRITES: usize = ALIGN;
const ANSWERED: usize = 0;
const COVERED: usize = 8;

/// The region.
pub(super) struct Inflight {
    map: MmapRegion,
    queues: u16,
    size: u16,
    server: u64,
    /// The writes of this guest before this session may be lost.
    is_survivor: bool,
}

/// What a front end is told, or tells, about the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its length in bytes.
    pub bytes: u64,
    /// Its offset in its file, in bytes.
    pub offset: u64,
    /// Number of queues.
    pub queues: u16,
    /// Entries of each queue.
    pub size: u16,
}

fn part(size: u16) -> usize {
    (HEADER + ENTRY * usize::from(size)).next_multiple_of(ALIGN)
}

fn total(queues: u16, size: u16) -> usize {
    usize::from(queues) * (part(size) + ALIGN) + ALIGN
}

impl Inflight {
    /// Makes a file for a region.
    ///
    /// # Errors
    /// The system has no memory or descriptor for it.
    pub(super) fn create(queues: u16, size: u16) -> Result<(Shape, File), String> {
        let bytes = total(queues, size) as u64;
        let flags = MemfdFlags::CLOEXEC;
        let file =
            memfd_create("platter-in-flight", flags).and_then(|file| ftruncate(&file, bytes).map(|()| file));
        let file = file.map_err(|error| format!("no memory for the requests in flight: {error}"))?;
        Ok((Shape { bytes, offset: 0, queues, size }, file.into()))
    }

    /// Maps a region. `server` identifies this process.
    ///
    /// # Errors
    /// A sentence: it is too short, or cannot be mapped.
    pub(super) fn map(shape: Shape, file: File, server: u64) -> Result<Inflight, String> {
        let Shape { bytes, offset, queues, size } = shape;
        let needed = total(queues, size) as u64;
        let len = file.metadata().map_err(|error| error.to_string())?.len();
        if bytes < needed || offset.checked_add(bytes).is_none_or(|end| end > len) || offset != 0 {
            return Err(format!(
                "the region of requests in flight has {bytes} bytes at {offset} of a file of {len}; {queues} queues of \
                 {size} entries need {needed} bytes at 0"
            ));
        }
        let map = MmapRegion::from_file(FileOffset::new(file, 0), needed as usize);
        let map =
            map.map_err(|error| format!("the region of requests in flight cannot be mapped: {error}"))?;
        let mut region = Inflight { map, queues, size, server, is_survivor: false };
        let before: u64 = region.own().load(SERVER, Ordering::Acquire).unwrap_or(0);
        let has_lost = (0..queues).any(|queue| {
            let [answered, covered] = region.counts(queue);
            answered > covered
        });
        region.is_survivor = before != 0 && before != server && has_lost;
        region.server = server;
        if !region.is_survivor {
            region.settle();
        }
        Ok(region)
    }

    /// The guest has been told of what an earlier server may have lost. Until then the region names that server, so that a
    /// guest that reconnects first is still told.
    pub(super) fn settle(&self) {
        let _ = self.own().store(self.server, SERVER, Ordering::Release);
    }

    /// Whether an earlier server, in another process, has answered writes that no flush covered.
    pub(super) fn is_survivor(&self) -> bool {
        self.is_survivor
    }

    fn slice(&self, offset: usize, len: usize) -> VolatileSlice<'_> {
        // Offsets are computed from numbers that were checked against the mapping when it was made.
        self.map.get_slice(offset, len).unwrap_or_else(|_| self.map.as_volatile_slice())
    }

    fn own(&self) -> VolatileSlice<'_> {
        let start = usize::from(self.queues) * part(self.size);
        self.slice(start, total(self.queues, self.size) - start)
    }

    fn counts(&self, queue: u16) -> [u64; 2] {
        let at = WRITES + ALIGN * usize::from(queue);
        [ANSWERED, COVERED].map(|which| self.own().load(at + which, Ordering::Acquire).unwrap_or(0))
    }

    fn set_count(&self, queue: u16, which: usize, value: u64) {
        let _ = self.own().store(value, WRITES + ALIGN * usize::from(queue) + which, Ordering::Release);
    }

    /// How many writes each queue has answered: what a flush that begins now will cover.
    pub(super) fn answered(&self, out: &mut Vec<u64>) {
        out.clear();
        out.extend((0..self.queues).map(|queue| self.counts(queue)[0]));
    }

    /// A flush that began when these writes had been answered has succeeded.
    pub(super) fn covered(&self, by_queue: &[u64]) {
        for (queue, count) in (0..self.queues).zip(by_queue) {
            // Two flushes may end at once; the smaller count only forgets that writes were covered.
            if self.counts(queue)[1] < *count {
                self.set_count(queue, COVERED, *count);
            }
        }
    }
}

/// The part of the region for one queue.
pub(super) struct Journal {
    region: Arc<Inflight>,
    queue: u16,
    counter: u64,
    answered: u64,
}

impl Journal {
    /// The journal of a queue, and the chains that were in flight when an earlier server ended, oldest first. `used` is
    /// the used index of the ring. `None`: the region has no part for this queue.
    pub(super) fn open(
        region: &Arc<Inflight>,
        queue: u16,
        size: u16,
        used: u16,
    ) -> Option<(Journal, Vec<u16>)> {
        if queue >= region.queues || size > region.size {
            return None;
        }
        let answered = region.counts(queue)[0];
        let mut journal = Journal { region: Arc::clone(region), queue, counter: 1, answered };
        let heads = journal.recover(size, used);
        Some((journal, heads))
    }

    fn part(&self) -> VolatileSlice<'_> {
        self.region.slice(usize::from(self.queue) * part(self.region.size), part(self.region.size))
    }

    fn word(&self, offset: usize) -> u16 {
        self.part().load(offset, Ordering::Acquire).unwrap_or(0)
    }

    fn set_word(&self, offset: usize, value: u16) {
        let _ = self.part().store(value, offset, Ordering::Release);
    }

    fn set_busy(&self, head: u16, busy: bool) {
        let _ = self.part().store(u8::from(busy), entry(head), Ordering::Release);
    }

    fn recover(&mut self, size: u16, used: u16) -> Vec<u16> {
        if self.word(VERSION) != SPLIT {
            self.set_word(COUNT, size);
            self.set_word(USED_INDEX, used);
            self.set_word(VERSION, SPLIT);
            return Vec::new();
        }
        // The last one that was given back is still marked if the server ended between the two stores.
        if self.word(USED_INDEX) != used {
            self.set_busy(self.word(LAST_BATCH) % size, false);
            self.set_word(USED_INDEX, used);
        }
        let is_busy =
            |head: &u16| self.part().load::<u8>(entry(*head), Ordering::Acquire).is_ok_and(|it| it == 1);
        let counter =
            |head: u16| self.part().load::<u64>(entry(head) + COUNTER, Ordering::Acquire).unwrap_or(0);
        let mut heads: Vec<u16> = (0..size).filter(is_busy).collect();
        heads.sort_by_key(|head| counter(*head));
        let last = heads.last().map_or(0, |head| counter(*head));
        self.counter = last.wrapping_add(1);
        heads
    }

    /// A chain was taken from the ring.
    #[inline]
    pub(super) fn begin(&mut self, head: u16) {
        let _ = self.part().store(self.counter, entry(head) + COUNTER, Ordering::Release);
        self.counter = self.counter.wrapping_add(1);
        self.set_busy(head, true);
    }

    /// A chain is about to be given back.
    #[inline]
    pub(super) fn ending(&self, head: u16) {
        self.set_word(entry(head) + NEXT, self.word(LAST_BATCH));
        self.set_word(LAST_BATCH, head);
    }

    /// A chain was given back; `used` is the used index since.
    #[inline]
    pub(super) fn ended(&self, head: u16, used: u16) {
        self.set_busy(head, false);
        self.set_word(USED_INDEX, used);
    }

    /// A write that is not yet durable is about to be answered.
    #[inline]
    pub(super) fn answers_write(&mut self) {
        self.answered += 1;
        self.region.set_count(self.queue, ANSWERED, self.answered);
    }

    pub(super) fn region(&self) -> &Inflight {
        &self.region
    }
}

fn entry(head: u16) -> usize {
    HEADER + ENTRY * usize::from(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(server: u64, shape: Shape, file: &File) -> Arc<Inflight> {
        Arc::new(Inflight::map(shape, file.try_clone().unwrap(), server).unwrap())
    }

    #[test]
    fn what_was_in_flight_comes_back_in_order() {
        let (shape, file) = Inflight::create(2, 8).unwrap();
        let first = region(1, shape, &file);
        let (mut journal, heads) = Journal::open(&first, 1, 8, 0).unwrap();
        assert!(heads.is_empty());
        for head in [5, 2, 7, 0] {
            journal.begin(head);
        }
        journal.ending(2);
        journal.ended(2, 1);
        // Killed after the used index was stored, before the mark was removed.
        journal.ending(7);
        let second = region(2, shape, &file);
        let (mut journal, heads) = Journal::open(&second, 1, 8, 2).unwrap();
        assert_eq!(heads, [5, 0]);
        journal.begin(1);
        let (_, heads) = Journal::open(&second, 1, 8, 2).unwrap();
        assert_eq!(heads, [5, 0, 1]);
        assert!(Journal::open(&second, 0, 8, 0).unwrap().1.is_empty());
        assert!(Journal::open(&second, 2, 8, 0).is_none() && Journal::open(&second, 0, 16, 0).is_none());
    }

    #[test]
    fn only_another_server_that_has_answered_writes_leaves_a_survivor() {
        let (shape, file) = Inflight::create(1, 8).unwrap();
        let first = region(1, shape, &file);
        assert!(!first.is_survivor(), "a new region");
        let (mut journal, _) = Journal::open(&first, 0, 8, 0).unwrap();
        assert!(!region(2, shape, &file).is_survivor(), "nothing was written");
        let _ = region(1, shape, &file);
        journal.answers_write();
        assert!(!region(1, shape, &file).is_survivor(), "the same server");
        let second = region(2, shape, &file);
        assert!(second.is_survivor());
        assert!(region(2, shape, &file).is_survivor(), "connected again before it was told");
        second.settle();
        assert!(!region(2, shape, &file).is_survivor());
        let mut counts = Vec::new();
        first.answered(&mut counts);
        journal.answers_write();
        first.covered(&counts);
        assert!(region(3, shape, &file).is_survivor(), "a write since the flush began");
        first.answered(&mut counts);
        first.covered(&counts);
        assert!(!region(4, shape, &file).is_survivor());
    }

    #[test]
    fn a_region_that_is_too_short_is_refused() {
        let (shape, file) = Inflight::create(2, 8).unwrap();
        let map = |shape| Inflight::map(shape, file.try_clone().unwrap(), 1);
        assert!(map(Shape { queues: 3, ..shape }).is_err());
        assert!(map(Shape { bytes: u64::MAX, ..shape }).is_err());
        assert!(map(Shape { offset: 4096, ..shape }).is_err());
        assert!(map(shape).is_ok());
    }
}
