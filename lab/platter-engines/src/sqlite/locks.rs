//! Locks between the connections of one process to a database, and the memory that they share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Levels of a connection's lock on the database file, as SQLite orders them.
pub(super) const NONE: i32 = 0;
pub(super) const SHARED: i32 = 1;
pub(super) const RESERVED: i32 = 2;
pub(super) const PENDING: i32 = 3;
pub(super) const EXCLUSIVE: i32 = 4;

/// Locks of the shared memory.
const SHM_LOCKS: usize = 8;

/// Another connection has the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Busy;

/// What the connections to one database have in common. A power cut ends all of them, so it is in memory.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Each open file by its number, with the level of its lock.
    holders: Vec<(u64, i32)>,
    next: u64,
    shm: [ShmLock; SHM_LOCKS],
    /// Regions of the shared memory; words, so that they are aligned for the lists of integers in them.
    regions: Vec<Box<[u64]>>,
    /// Connections that use the regions.
    mapped: usize,
}

#[derive(Clone, Copy, Default)]
struct ShmLock {
    readers: usize,
    is_exclusive: bool,
}

/// The locks of one connection.
pub(super) struct Holder {
    shared: Shared,
    number: u64,
    is_mapped: bool,
    /// Locks of the shared memory that it has, by bits.
    readings: u8,
    exclusives: u8,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn holder(&self) -> Holder {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.holders.push((number, NONE));
        Holder { shared: self.clone(), number, is_mapped: false, readings: 0, exclusives: 0 }
    }
}

impl State {
    /// The highest level that others than this one have.
    fn of_others(&self, number: u64) -> i32 {
        self.holders.iter().filter(|holder| holder.0 != number).map(|holder| holder.1).max().unwrap_or(NONE)
    }

    fn level(&mut self, number: u64) -> Option<&mut i32> {
        self.holders.iter_mut().find(|holder| holder.0 == number).map(|holder| &mut holder.1)
    }
}

impl Holder {
    /// Raises the lock to `wanted`.
    pub(super) fn lock(&self, wanted: i32) -> Result<(), Busy> {
        let mut state = self.shared.lock();
        let others = state.of_others(self.number);
        let Some(own) = state.level(self.number) else { return Err(Busy) };
        if *own >= wanted {
            return Ok(());
        }
        // Readers and one writer that is about to write go together; a writer that waits for the readers to
        // end, and one that writes, keep new readers away.
        let permitted = match wanted {
            SHARED => others < PENDING,
            EXCLUSIVE => others < SHARED,
            _ => others < RESERVED,
        };
        if permitted {
            *own = wanted;
            return Ok(());
        }
        if wanted == EXCLUSIVE && others < RESERVED {
            *own = PENDING;
        }
        Err(Busy)
    }

    /// Lowers the lock to `level`.
    pub(super) fn unlock(&self, level: i32) {
        if let Some(own) = self.shared.lock().level(self.number) {
            *own = level.min(*own);
        }
    }

    /// Whether any connection is writing or about to write.
    pub(super) fn is_reserved(&self) -> bool {
        self.shared.lock().holders.iter().any(|holder| holder.1 >= RESERVED)
    }

    /// The address of a region of the shared memory, which stays valid until all connections have
    /// [unmapped](Holder::unmap) it. `None`: it does not exist, and is made only if `extend` is set.
    pub(super) fn region(&mut self, index: usize, bytes: usize, extend: bool) -> Option<*mut u64> {
        let mut state = self.shared.lock();
        if !self.is_mapped {
            self.is_mapped = true;
            state.mapped += 1;
        }
        if state.regions.len() <= index && !extend {
            return None;
        }
        while state.regions.len() <= index {
            state.regions.push(vec![0; bytes.div_ceil(size_of::<u64>())].into_boxed_slice());
        }
        Some(state.regions[index].as_mut_ptr())
    }

    /// Does without the shared memory. It is freed when no connection uses it.
    pub(super) fn unmap(&mut self) {
        self.shm_unlock(0, SHM_LOCKS);
        if std::mem::take(&mut self.is_mapped) {
            let mut state = self.shared.lock();
            state.mapped -= 1;
            if state.mapped == 0 {
                state.regions.clear();
            }
        }
    }

    /// Takes locks of the shared memory, all of them or none.
    pub(super) fn shm_lock(&mut self, first: usize, count: usize, exclusive: bool) -> Result<(), Busy> {
        let mut state = self.shared.lock();
        let range = first..(first + count).min(SHM_LOCKS);
        let is_free = |i: usize| {
            let (own_read, own_write) = (self.readings >> i & 1, self.exclusives >> i & 1);
            let readers = state.shm[i].readers - usize::from(own_read);
            let is_written = state.shm[i].is_exclusive && own_write == 0;
            !(is_written || exclusive && readers > 0)
        };
        if !range.clone().all(is_free) {
            return Err(Busy);
        }
        for i in range {
            let bit = 1 << i;
            if exclusive {
                state.shm[i].is_exclusive = true;
                self.exclusives |= bit;
            } else if self.readings & bit == 0 {
                state.shm[i].readers += 1;
                self.readings |= bit;
            }
        }
        Ok(())
    }

    /// Gives back what it has of these locks of the shared memory.
    pub(super) fn shm_unlock(&mut self, first: usize, count: usize) {
        let mut state = self.shared.lock();
        for i in first..(first + count).min(SHM_LOCKS) {
            let bit = 1 << i;
            if self.exclusives & bit != 0 {
                state.shm[i].is_exclusive = false;
            }
            if self.readings & bit != 0 {
                state.shm[i].readers -= 1;
            }
            self.exclusives &= !bit;
            self.readings &= !bit;
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.unmap();
        self.shared.lock().holders.retain(|holder| holder.0 != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_waits_for_readers_and_keeps_new_ones_away() {
        let shared = Shared::default();
        let (reader, writer, late) = (shared.holder(), shared.holder(), shared.holder());
        assert_eq!((reader.lock(SHARED), writer.lock(SHARED)), (Ok(()), Ok(())));
        assert_eq!(writer.lock(RESERVED), Ok(()));
        assert_eq!((reader.lock(RESERVED), late.lock(SHARED)), (Err(Busy), Ok(())));
        late.unlock(NONE);
        assert_eq!(writer.lock(EXCLUSIVE), Err(Busy));
        assert_eq!(late.lock(SHARED), Err(Busy), "the writer is pending");
        reader.unlock(NONE);
        assert_eq!((writer.lock(EXCLUSIVE), late.lock(SHARED)), (Ok(()), Err(Busy)));
        drop(writer);
        assert_eq!(late.lock(SHARED), Ok(()));
        assert!(!late.is_reserved());
    }

    #[test]
    fn locks_of_the_shared_memory_are_taken_together() {
        let shared = Shared::default();
        let (mut a, mut b) = (shared.holder(), shared.holder());
        assert_eq!((a.shm_lock(3, 1, false), b.shm_lock(3, 1, false)), (Ok(()), Ok(())));
        assert_eq!(a.shm_lock(2, 3, true), Err(Busy));
        b.shm_unlock(3, 1);
        assert_eq!(a.shm_lock(2, 3, true), Ok(()));
        assert_eq!((b.shm_lock(2, 1, false), b.shm_lock(4, 1, true)), (Err(Busy), Err(Busy)));
        a.unmap();
        assert_eq!(b.shm_lock(0, 8, true), Ok(()));
    }

    #[test]
    fn shared_memory_lasts_as_long_as_its_last_user() {
        let shared = Shared::default();
        let (mut a, mut b) = (shared.holder(), shared.holder());
        assert!(a.region(0, 32768, false).is_none());
        let region = a.region(0, 32768, true);
        assert_eq!(b.region(0, 32768, false), region);
        a.unmap();
        assert_eq!(b.region(0, 32768, false), region);
        b.unmap();
        assert!(a.region(0, 32768, false).is_none());
    }
}
