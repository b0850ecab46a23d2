//! Gets the memory of frames from the system before they are used for the first time.
//!
//! The system zeroes memory that it gives. Without this, it does so inside the first I/O of each frame, while a
//! program waits. One thread of the process does it for all caches: it starts when a cache has few frames left
//! whose memory is there, and ends when no cache has.

use super::ahead::PIECE;
use super::frames::Frames;
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// The caches whose memory is being populated, and whether the thread runs.
struct Work {
    runs: bool,
    caches: VecDeque<Weak<Frames>>,
}

static WORK: Mutex<Work> = Mutex::new(Work { runs: false, caches: VecDeque::new() });

/// Has the frames of a cache populated ahead of those in use, on another thread. To be called without a lock.
#[cold]
pub(super) fn ask(frames: &Arc<Frames>) {
    if frames.ahead.is_told.swap(true, Ordering::SeqCst) {
        return;
    }
    let mut work = lock(&WORK);
    work.caches.push_back(Arc::downgrade(frames));
    if !work.runs {
        let builder = std::thread::Builder::new().name("platter-memory".to_string());
        // If it cannot be started, frames get their memory on first use.
        work.runs = builder.spawn(run).is_ok();
    }
}

/// Populates a piece for each cache in turn, until none needs one.
fn run() {
    loop {
        let next = {
            let mut work = lock(&WORK);
            let next = work.caches.pop_front();
            work.runs = next.is_some();
            next
        };
        let Some(cache) = next else { return };
        // A cache that was closed meanwhile is forgotten.
        if let Some(frames) = cache.upgrade()
            && (populate_piece(&frames) || must_go_on(&frames))
        {
            lock(&WORK).caches.push_back(cache);
        }
    }
}

/// Populates the next piece. Returns whether there was one.
fn populate_piece(frames: &Frames) -> bool {
    let count = frames.count();
    let Some(next) = frames.ahead.next(count, frames.ahead.most) else { return false };
    // On a kernel that cannot, or without memory, frames get theirs on first use.
    let end = if frames.populate(next..next + PIECE).is_ok() { next + PIECE } else { count };
    frames.ahead.ready.store(end, Ordering::Relaxed);
    true
}

/// The thread would end its work for a cache. Returns whether more frames have been used just now.
fn must_go_on(frames: &Frames) -> bool {
    frames.ahead.is_told.store(false, Ordering::SeqCst);
    frames.ahead.is_short(frames.count()) && !frames.ahead.is_told.swap(true, Ordering::SeqCst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ahead::{FEWEST, Prefault};
    use crate::frames::Store;

    fn ready(store: &Store) -> u32 {
        store.frames().ahead.ready.load(Ordering::Relaxed)
    }

    /// Lets the thread do its work.
    fn until(done: impl Fn() -> bool) {
        while !done() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn frames_are_ready_before_they_are_used() {
        let count = 64 * PIECE;
        let store = Store::new(count, count, Prefault::Ahead).unwrap();
        let frames = store.frames();
        // A cache that is not used takes no memory.
        assert!(!frames.ahead.is_short(count));
        let mut used = 1;
        while used < count {
            frames.ahead.use_first(used);
            if frames.ahead.is_short(count) {
                ask(frames);
            }
            until(|| !frames.ahead.is_told.load(Ordering::SeqCst));
            assert!(ready(&store) >= used.saturating_add(8 * PIECE).min(count), "of {used}");
            assert!(ready(&store) <= used + 17 * PIECE, "no more than needed, of {used}");
            used += 3 * PIECE;
        }
        assert!(!frames.ahead.is_short(count));
    }

    #[test]
    fn several_caches_are_served_and_closed_ones_forgotten() {
        let stores: Vec<Store> =
            (0..4).map(|_| Store::new(8 * PIECE, 8 * PIECE, Prefault::Ahead).unwrap()).collect();
        for store in &stores {
            store.frames().ahead.use_first(1);
            assert!(store.frames().ahead.is_short(8 * PIECE));
            ask(store.frames());
        }
        let gone = Store::new(8 * PIECE, 8 * PIECE, Prefault::Ahead).unwrap();
        gone.frames().ahead.use_first(1);
        ask(gone.frames());
        let weak = Arc::downgrade(gone.frames());
        drop(gone);
        until(|| weak.strong_count() == 0);
        for store in &stores {
            until(|| !store.frames().ahead.is_told.load(Ordering::SeqCst));
            assert!(ready(store) >= 2 * PIECE);
        }
    }

    #[test]
    fn small_caches_and_those_without_prefault_are_left_alone() {
        for (count, prefault) in [(FEWEST - 1, Prefault::Ahead), (64 * PIECE, Prefault::Off)] {
            let store = Store::new(count, count, prefault).unwrap();
            store.frames().ahead.use_first(count - 1);
            assert!(!store.frames().ahead.is_short(count));
        }
        let store = Store::new(2 * PIECE, 2 * PIECE, Prefault::Open).unwrap();
        assert_eq!(store.frames().ahead.populated(), 2 * PIECE);
    }
}
