//! Models of a frame: readers that pin it, and the store that gives it to another page. The checker reports
//! readers that access memory while it is changed.

use crate::frame::{FILLING, Frame, WRITING};
use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

/// A frame with its memory, which holds the number of its page.
struct Page {
    frame: Frame,
    memory: UnsafeCell<u64>,
}

// SAFETY: the checker proves that no write to the memory overlaps with another access.
unsafe impl Sync for Page {}
// SAFETY: as above.
unsafe impl Send for Page {}

impl Page {
    /// A frame that holds page 1 and is open.
    fn open() -> Arc<Page> {
        let page = Page { frame: Frame::default(), memory: UnsafeCell::new(0) };
        page.fill(1);
        page.frame.open();
        assert!(page.frame.is_ready());
        Arc::new(page)
    }

    /// Puts another page into the frame, as the store does with a closed frame without pins.
    fn fill(&self, number: u64) {
        assert_eq!(self.frame.word(), 0);
        self.frame.page.store(number, crate::sync::Ordering::Relaxed);
        self.frame.lend(FILLING);
        assert!(self.frame.is_lent_to_fill());
        // SAFETY: see `Sync`.
        self.memory.with_mut(|memory| unsafe { *memory = number });
        self.frame.give_back(FILLING);
    }

    /// Reads the page without the store, if it is in the frame.
    fn read(&self, number: u64) -> Option<u64> {
        let pinned = self.frame.pin_if_ready(number);
        pinned.then(|| {
            // SAFETY: see `Sync`.
            let found = self.memory.with(|memory| unsafe { *memory });
            self.frame.unpin();
            found
        })
    }
}

#[test]
fn a_reader_never_takes_one_page_for_another() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let page = Page::open();
        let readers: Vec<_> = [1, 2]
            .into_iter()
            .map(|number| {
                let page = Arc::clone(&page);
                thread::spawn(move || assert!(page.read(number).is_none_or(|found| found == number)))
            })
            .collect();
        // A frame that is pinned is not changed.
        if page.frame.close() {
            page.fill(2);
        }
        page.frame.open();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn a_frame_is_free_when_the_last_pin_has_gone() {
    loom::model(|| {
        let page = Page::open();
        let held = page.frame.pin_if_ready(1);
        assert!(held);
        let reader = {
            let page = Arc::clone(&page);
            thread::spawn(move || {
                // SAFETY: see `Sync`.
                let found = page.memory.with(|memory| unsafe { *memory });
                assert_eq!(found, 1);
                page.frame.unpin();
                assert_ne!(page.read(1), Some(2));
            })
        };
        let unpinned = page.frame.close();
        // The store tries again later if the frame was pinned.
        if unpinned || !page.frame.is_pinned() {
            page.fill(2);
            page.frame.open();
        }
        reader.join().unwrap();
    });
}

/// A version that is being written back may be read meanwhile and is not changed: the write goes to another
/// frame.
#[test]
fn a_version_that_is_written_back_stays() {
    loom::model(|| {
        let (old, new) =
            (Page::open(), Arc::new(Page { frame: Frame::default(), memory: UnsafeCell::new(0) }));
        old.frame.lend(WRITING);
        let reader = {
            let (old, new) = (Arc::clone(&old), Arc::clone(&new));
            thread::spawn(move || old.read(1).or_else(|| new.read(2)))
        };
        let device = {
            let old = Arc::clone(&old);
            thread::spawn(move || {
                // SAFETY: see `Sync`.
                assert_eq!(old.memory.with(|memory| unsafe { *memory }), 1);
                old.frame.give_back(WRITING);
            })
        };
        old.frame.close();
        new.fill(2);
        new.frame.open();
        assert!(reader.join().unwrap().is_none_or(|found| found == 1 || found == 2));
        device.join().unwrap();
        assert_eq!((old.frame.word(), new.read(2)), (0, Some(2)));
        assert_eq!(old.frame.next.load(crate::sync::Ordering::Relaxed), 0);
        old.frame.hold();
        assert!(old.frame.is_pinned());
    });
}

/// A lane that has copied data into a frame lets readers pin it before the store is told. The store changes it only afterwards.
#[test]
fn a_frame_that_its_lane_opens_is_read_with_its_data() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let page = Page::open();
        assert!(page.frame.close());
        page.frame.page.store(2, crate::sync::Ordering::Relaxed);
        page.frame.lend(FILLING);
        let told = Arc::new(crate::inbox::Inbox::default());
        let lane = {
            let (page, told) = (Arc::clone(&page), Arc::clone(&told));
            thread::spawn(move || {
                // SAFETY: see `Sync`.
                page.memory.with_mut(|memory| unsafe { *memory = 2 });
                page.frame.open_filled();
                told.put(());
            })
        };
        let reader = {
            let page = Arc::clone(&page);
            thread::spawn(move || assert!(page.read(2).is_none_or(|found| found == 2)))
        };
        let mut ended = Vec::new();
        told.take(&mut ended);
        if !ended.is_empty() && page.frame.close() {
            page.fill(3);
        }
        lane.join().unwrap();
        reader.join().unwrap();
    });
}
