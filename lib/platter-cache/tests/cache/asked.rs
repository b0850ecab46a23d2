//! When and how readahead policies are asked.

use crate::rig::{self, small};
use platter_block::backend::Backend;
use platter_block::bio::Bio;
use platter_block::hint::{Hint, ReadaheadCounters};
use platter_cache::Settings;
use platter_cache::readahead::{self, Call, Fate, Pages, Readahead, ReadaheadType};
use platter_disk::device::Device;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const PAGE: u64 = 4096;

/// The cache under test.
static CACHE: Mutex<Option<Arc<dyn Backend>>> = Mutex::new(None);
/// Questions during which the lock of the cache was free, and all.
static FREE: AtomicU32 = AtomicU32::new(0);
static ASKED: AtomicU32 = AtomicU32::new(0);
/// What the policy was told last.
static FATE: Mutex<Fate> = Mutex::new(Fate { read: 0, used: 0, unused: 0 });

/// Reads two pages more than the call, with the marker on the second, and takes the lock of the cache in another thread.
struct Curious;

impl Curious {
    fn ask(pages: &dyn Pages) {
        *FATE.lock().unwrap() = pages.fate();
        ASKED.fetch_add(1, Ordering::SeqCst);
        let Some(cache) = CACHE.lock().unwrap().clone() else { return };
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            // Asks the engine for its dirty pages.
            cache.allocation(0, PAGE).unwrap();
            let _ = sender.send(());
        });
        FREE.fetch_add(u32::from(receiver.recv_timeout(Duration::from_secs(10)).is_ok()), Ordering::SeqCst);
    }
}

impl Readahead for Curious {
    fn every_page(&self) -> bool {
        false
    }

    fn missing(&mut self, call: &mut Call, page: u64, pages: &mut dyn Pages) {
        Curious::ask(pages);
        let count = call.access.rest(page) + 2;
        pages.read(readahead::Window {
            first: page,
            count,
            mark: Some(page + u64::from(count) - 1),
            sync: true,
        });
    }

    fn found(&mut self, _: &mut Call, page: u64, _: bool, _: bool, pages: &mut dyn Pages) {
        Curious::ask(pages);
        pages.read(readahead::Window { first: page + 1, count: 4, mark: None, sync: false });
    }

    fn advise(&mut self, _: Hint) {}

    fn counters(&self) -> ReadaheadCounters {
        ReadaheadCounters::default()
    }

    fn window(&self) -> Option<(u64, u32)> {
        None
    }
}

static CURIOUS: ReadaheadType = ReadaheadType {
    name: "curious",
    summary: "for a test",
    source: "a test",
    params: &[],
    make: |_| Box::new(Curious),
};

#[test]
fn the_lock_is_free_while_a_policy_is_asked() {
    readahead::register(&CURIOUS).unwrap();
    let below = Device::ram(4 << 20).unwrap();
    for shards in [1, 3] {
        let settings = Settings { readahead: &CURIOUS, shards, extent: 4 * PAGE, ..small(768) };
        let device = rig::cached(Arc::clone(below.backend()), &settings);
        *CACHE.lock().unwrap() = Some(Arc::clone(device.backend()));
        FREE.store(0, Ordering::SeqCst);
        ASKED.store(0, Ordering::SeqCst);
        let (mut data, handle) = (vec![0; PAGE as usize], device.handle());
        let asked = || ASKED.load(Ordering::SeqCst);
        handle.read_at(&mut data, 0).unwrap();
        assert_eq!(asked(), 1, "page 0 was missing; pages 1 and 2 are read too");
        handle.read_at(&mut data, PAGE).unwrap();
        assert_eq!(asked(), 1, "page 1 is there");
        handle.read_at(&mut data, 2 * PAGE).unwrap();
        assert_eq!(asked(), 2, "page 2 carried the marker; pages 3 to 6 are read");
        (3..7).for_each(|page| handle.read_at(&mut data, page * PAGE).unwrap());
        assert_eq!(asked(), 2);
        handle.read_at(&mut data, 100 * PAGE).unwrap();
        assert_eq!((asked(), FREE.load(Ordering::SeqCst)), (3, 3), "shards={shards}");
        assert_eq!(*FATE.lock().unwrap(), Fate { read: 6, used: 6, unused: 0 });
        // Calls that miss the same page before the first has it read.
        let mut channel = device.channel(8).unwrap();
        for (page, calls) in [(200, 1), (300, 5)] {
            let before = asked();
            for _ in 0..calls {
                assert!(channel.submit(Bio::read(page * PAGE, vec![0u8; PAGE as usize]).unwrap()).is_ok());
            }
            let mut done = Vec::new();
            while done.len() < calls {
                channel.wait(&mut done, None);
            }
            assert_eq!(asked() - before, 1, "shards={shards}: {calls} calls");
        }
        *CACHE.lock().unwrap() = None;
    }
}
