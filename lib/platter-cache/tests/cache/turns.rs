//! How often and for how long the engine is locked: counted, not timed.

use crate::rig::{self, small};
use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::Kind;
use platter_block::hint::Hint;
use platter_block::trace::{Event, Sink};
use platter_cache::Settings;
use platter_cache::readahead::by_name;
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use platter_disk::sync_io::IoOptions;
use platter_sim::rng::Rng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const MIB: u64 = 1 << 20;

fn fact(device: &Device, name: &str) -> u64 {
    let facts = device.facts();
    facts.iter().find(|(key, _)| *key == name).map_or(0, |(_, value)| value.parse().unwrap())
}

/// A cache of 64 MiB over a null device of 16 GiB, without write-back of its own.
fn over_nothing() -> Device {
    let below = Device::null(16 << 30).unwrap();
    let settings = Settings { background: 100, dirty: 100, window: 131_072, ..small(16384) };
    rig::cached(Arc::clone(below.backend()), &settings)
}

/// To begin the read: its completion is left for the next one.
#[test]
fn a_cold_read_takes_the_lock_once() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 * MIB).unwrap();
    let below = Device::open(file.path(), DiskOptions::read_write()).unwrap();
    let device = rig::cached(Arc::clone(below.backend()), &Settings { window: 0, ..small(16384) });
    // A new lane joins with the lock.
    device.read_at(&mut [0; 512], 0).unwrap();
    let mut rng = Rng::new(3);
    // Each in a part of its own, where no page is in memory.
    for (part, len) in [(0, 4096), (1, 16384), (2, 262_144)] {
        let mut buffer = vec![0; len];
        let before = fact(&device, "cache locks");
        let mut seen = std::collections::BTreeSet::new();
        while seen.len() < 60 {
            let pos = (1 + part * 20 + rng.below(20)) * MIB + rng.below(MIB / len as u64) * len as u64;
            seen.insert(pos);
            device.read_at(&mut buffer, pos).unwrap();
        }
        let locks = fact(&device, "cache locks") - before;
        assert!(locks <= 60, "{locks} times the lock for 60 reads of {len} bytes");
    }
}

/// The counters of a handle are those of the reads that have returned, also if the engine was not told of their end.
#[test]
fn a_read_that_ended_without_the_lock_is_counted() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 * MIB).unwrap();
    let below = Device::open(file.path(), DiskOptions::read_write()).unwrap();
    let device = rig::cached(Arc::clone(below.backend()), &Settings { window: 0, ..small(16384) });
    let handle = device.handle();
    let mut buffer = vec![0; 16384];
    for round in 1..=20 {
        handle.read_at(&mut buffer, round * MIB).unwrap();
        let counters = handle.counters().unwrap();
        // The pages that have been read with the first one were missing, too.
        assert_eq!((counters.misses, counters.hits, counters.reads.iter().sum()), (4 * round, 0, round));
    }
    // What was read is in memory, for this thread and others.
    let reads = handle.counters().unwrap().reads;
    (1..=20).for_each(|round| handle.read_at(&mut buffer, round * MIB).unwrap());
    assert_eq!(handle.counters().unwrap().reads, reads);
    assert_eq!(device.cache_counters().unwrap().hits, 4 * 20);
}

/// Each page of a read counts as one that was cached when it was requested, or as one that was not.
#[test]
fn pages_that_a_read_lacks_are_misses() {
    let readahead = by_name("none").unwrap();
    let below = Device::ram(4 * MIB).unwrap();
    let device = rig::cached(Arc::clone(below.backend()), &Settings { window: 0, readahead, ..small(4096) });
    let (handle, mut channel) = (device.handle(), device.channel(4).unwrap());
    let count = || handle.counters().map(|counters| (counters.misses, counters.hits));
    let mut buffer = vec![0; 65536];
    for page in [8, 12] {
        handle.read_at(&mut buffer[..4096], MIB + page * 4096).unwrap();
    }
    assert_eq!(count(), Some((2, 0)));
    let mut bio = Bio::read(MIB, buffer).unwrap();
    bio.set_handle(handle.id());
    assert!(channel.submit(bio).is_ok());
    channel.wait(&mut Vec::new(), None);
    assert_eq!(count(), Some((16, 2)));
}

/// A page that a program reads by reference gets another frame when it is written to, with what is not written.
#[test]
fn a_write_keeps_the_rest_of_a_page_that_is_read_by_reference() {
    let device = over_nothing();
    device.write_at(&[1; 16384], 4096).unwrap();
    let handle = device.handle();
    let page = handle.page(8192).unwrap();
    device.write_at(&[2; 512], 8192 + 1024).unwrap();
    let mut now = [0; 4096];
    device.read_at(&mut now, 8192).unwrap();
    assert!(page.iter().all(|&byte| byte == 1));
    assert!(now.iter().enumerate().all(|(at, &byte)| byte == if at / 512 == 2 { 2 } else { 1 }));
}

/// A write of a caller that waits for it takes the lock once, and what it has written is read without the lock at once, if it
/// wrote whole pages.
#[test]
fn a_write_takes_the_lock_once() {
    let device = over_nothing();
    device.write_at(&[0; 4096], 0).unwrap();
    for len in [4096, 12288, 262_144] {
        let mut back = vec![0; len as usize];
        let before = fact(&device, "cache locks");
        for round in 1..=60 {
            device.write_at(&vec![round as u8; len as usize], round * MIB).unwrap();
            device.read_at(&mut back, round * MIB).unwrap();
            assert!(back.iter().all(|&byte| byte == round as u8));
        }
        // The report takes it, too.
        let locks = fact(&device, "cache locks") - before;
        assert!(locks <= 61, "{locks} times the lock for 60 writes of {len} bytes");
    }
}

/// Nothing misses a write that has returned although no thread has taken the lock since.
#[test]
fn a_write_that_ended_without_the_lock_is_dirty() {
    let device = over_nothing();
    let report = |what: &str| fact(&device, what);
    device.write_at(&[1; 4096], 4096).unwrap();
    assert_eq!(report("dirty pages"), 1);
    device.write_at(&[1; 512], 8192).unwrap();
    let before = report("pages written back");
    device.flush().unwrap();
    assert_eq!((report("dirty pages"), report("pages written back") - before), (0, 2));
    device.write_at(&[1; 12288], 4096).unwrap();
    device.flush_range(8192, 4096).unwrap();
    assert_eq!(report("dirty pages"), 2);
    device.write_at(&[1; 4096], MIB).unwrap();
    device.discard(MIB, 4096).unwrap();
    assert_eq!(report("dirty pages"), 2);
}

/// Large requests are done in pieces.
#[test]
fn no_call_holds_the_engine_for_long() {
    let most = |device: &Device, what: &str| {
        let pages = fact(device, "most pages handled in one turn");
        assert!(pages <= 768, "{what}: {pages} pages in one turn");
    };
    let device = over_nothing();
    let mut buffer = vec![1; 32 << 20];
    device.write_at(&buffer, 0).unwrap();
    most(&device, "a write of 32 MiB");
    device.read_at(&mut buffer, 1 << 30).unwrap();
    most(&device, "a read of 32 MiB");
    device.read_at(&mut buffer, 0).unwrap();
    most(&device, "a read of 32 MiB in memory");
    let mut part = Bio::read(0, vec![0u8; 16 << 20]).unwrap();
    // A bio with a barrier is not answered from memory directly.
    part.add_flags(Flags::SOFT_BARRIER);
    let mut channel = device.channel(1).unwrap();
    assert!(channel.submit(part).is_ok());
    let mut done = Vec::new();
    channel.wait(&mut done, None);
    assert_eq!(done[0].status(), Ok(()));
    most(&device, "a read of 16 MiB of pages that are there");
    device.handle().advise(Hint::WillNeed, 2 << 30, 1 << 30).unwrap();
    most(&device, "advice to read 1 GiB");
    (0..4096u64).for_each(|page| device.write_at(&[1; 4096], page * 8192).unwrap());
    device.flush_range(0, 16 << 20).unwrap();
    most(&device, "a flush of 16 MiB");
    device.flush().unwrap();
    most(&device, "a flush of all");
    (0..2048u64).for_each(|page| device.write_at(&[1; 4096], page * 8192).unwrap());
    device.discard(4096, 8 << 30).unwrap();
    most(&device, "a discard of 8 GiB");
    device.write_at(&buffer, 0).unwrap();
    device.handle().advise(Hint::DontNeed, 0, 0).unwrap();
    device.flush().unwrap();
    most(&device, "letting all pages go");
}

/// A read that lacks a page at its end is carried out by a bio, which counts.
#[test]
fn pages_of_a_read_are_counted_once() {
    let device = over_nothing();
    device.handle().advise(Hint::Random, 0, 0).unwrap();
    let counts = || device.cache_counters().map(|counters| (counters.hits, counters.misses)).unwrap();
    device.read_at(&mut [0; 4096], 0).unwrap();
    assert_eq!(counts(), (0, 1));
    device.read_at(&mut [0; 8192], 0).unwrap();
    assert_eq!(counts(), (1, 2));
    device.read_at(&mut [0; 8192], 0).unwrap();
    assert_eq!(counts(), (3, 2));
}

/// Clean pages are dropped before the call returns, however many there are, so none that is read later is dropped.
#[test]
fn pages_that_are_let_go_are_dropped_when_the_call_returns() {
    let device = over_nothing();
    let handle = device.handle();
    handle.advise(Hint::Random, 0, 0).unwrap();
    let mut buffer = vec![0; 8 << 20];
    let misses = || handle.counters().unwrap().misses;
    handle.read_at(&mut buffer, 0).unwrap();
    device.write_at(&[1; 4096], 0).unwrap();
    let before = misses();
    handle.advise(Hint::DontNeed, 0, 8 << 20).unwrap();
    // Those that a scan from the first page on would come to last.
    (1792..2048).rev().for_each(|page| handle.read_at(&mut buffer[..4096], page * 4096).unwrap());
    assert_eq!(misses(), before + 256);
    device.flush().unwrap();
    (1792..2048).for_each(|page| handle.read_at(&mut buffer[..4096], page * 4096).unwrap());
    assert_eq!(misses(), before + 256);
    assert!(fact(&device, "most pages handled in one turn") <= 768);
}

/// Advice to read is carried out in pieces and completely, even if the program does nothing else.
#[test]
fn advice_is_followed_to_its_end() {
    let device = over_nothing();
    let handle = device.handle();
    handle.advise(Hint::WillNeed, 0, 16 * MIB).unwrap();
    while handle.counters().unwrap().pages_read_ahead < 4096 {
        std::thread::yield_now();
    }
    let before = handle.counters().unwrap().reads;
    let mut buffer = vec![0; 16 << 20];
    handle.read_at(&mut buffer, 0).unwrap();
    assert_eq!(handle.counters().unwrap().reads, before);
}

/// The cost of a durable write does not depend on other dirty pages: counted in pages handled.
#[test]
fn a_durable_write_looks_at_its_own_pages_only() {
    let looks = |dirty: u64| {
        let device = over_nothing();
        (0..dirty).for_each(|page| device.write_at(&[1; 4096], page * 8192).unwrap());
        let before = fact(&device, "pages handled");
        for at in 0..10 {
            device.write_at_with(&[2; 4096], (8 << 30) + at * 4096, IoOptions::flags(Flags::FUA)).unwrap();
            device.write_at(&[2; 4096], (9 << 30) + at * 4096).unwrap();
            device.flush_range((9 << 30) + at * 4096, 4096).unwrap();
        }
        fact(&device, "pages handled") - before
    };
    let (few, many) = (looks(10), looks(10_000));
    assert!(many <= few + 10, "beside 10 dirty pages {few} looks, beside 10,000 {many}");
}

/// A sink that panics once it is armed.
struct Bomb(Arc<AtomicBool>);

impl Sink for Bomb {
    fn event(&mut self, _event: &Event) {
        assert!(!self.0.load(Ordering::SeqCst), "the sink breaks down");
    }
}

/// A device with such sinks, and what arms them.
fn over_a_bomb() -> (Arc<AtomicBool>, Device) {
    let armed = Arc::new(AtomicBool::new(false));
    let below = Device::ram(4 * MIB).unwrap();
    let maker = Arc::clone(&armed);
    below.backend().trace(Some(Arc::new(move || Box::new(Bomb(Arc::clone(&maker))) as Box<dyn Sink>)));
    (armed, below)
}

/// A panic in a layer below leaves the cache inconsistent: from then on all calls fail, and the error says
/// why.
#[test]
fn a_cache_that_a_panic_has_broken_says_so() {
    let (armed, below) = over_a_bomb();
    let device = rig::cached(Arc::clone(below.backend()), &small(64));
    device.write_at(&[1; 4096], 0).unwrap();
    let mut page = [0; 4096];
    device.read_at(&mut page, 0).unwrap();
    armed.store(true, Ordering::SeqCst);
    let mut channel = device.channel(4).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        assert!(channel.submit(Bio::flush()).is_ok());
        channel.wait(&mut Vec::new(), None);
    }));
    assert!(panicked.is_err());
    armed.store(false, Ordering::SeqCst);
    for result in [
        device.flush(),
        device.write_at(&[2; 4096], 8192),
        device.read_at(&mut page, 0),
        device.read_at(&mut page, 65536),
        device.handle().advise(Hint::WillNeed, 0, 4096),
    ] {
        let error = result.expect_err("it is broken");
        assert_eq!(error.fault.kind, Kind::Broken, "{error}");
        assert!(error.to_string().contains("an earlier panic"), "{error}");
    }
    assert!(device.facts().iter().any(|(key, value)| *key == "state" && value.contains("earlier panic")));
    assert_eq!(Op::Flush, Bio::flush().op());
}

/// What it had published of its work is gone, or the thread that does such work would run for it again and again. Reads that take no
/// lock fail too, whether or not anything else is called first.
#[test]
fn a_cache_that_a_panic_has_broken_has_no_work() {
    for shards in [1, 3] {
        let (armed, below) = over_a_bomb();
        let settings = Settings { shards, extent: 16384, ..small(768) };
        let cache = platter_cache::new(Arc::clone(below.backend()), &settings).unwrap();
        let open = |lane_use| cache.open_lane(lane_use).unwrap();
        let (mut background, mut lane) = (open(LaneUse::Shared), open(LaneUse::Exclusive));
        let (now, mut done, mut page) = (cache.now(), Vec::new(), [0; 4096]);
        lane.submit(now, Bio::write(0, vec![1u8; 4096]).unwrap());
        (0..64).for_each(|_| lane.turn(now, &mut done));
        assert!(done.len() == 1 && done[0].status().is_ok());
        let memory = cache.resident().unwrap();
        assert!(memory.read(0, &mut page) && page == [1; 4096]);
        background.run(now);
        assert!(background.next_wakeup().is_some() && !background.is_idle(), "a page is dirty");
        armed.store(true, Ordering::SeqCst);
        let flush = || {
            lane.submit(now, Bio::flush());
            lane.run(now);
        };
        assert!(catch_unwind(AssertUnwindSafe(flush)).is_err());
        armed.store(false, Ordering::SeqCst);
        assert!(!memory.read(0, &mut page), "shards={shards}");
        background.run(now);
        assert!(background.next_wakeup().is_none() && background.is_idle(), "shards={shards}");
        assert_eq!(background.in_flight(), 0, "shards={shards}");
        background.submit(now, Bio::read(0, vec![0u8; 4096]).unwrap());
        background.run(now);
        background.take_done(&mut done);
        assert_eq!(done[1].status().unwrap_err().kind, Kind::Broken, "shards={shards}");
    }
}

/// A closed device is not kept alive by its registration for wakeups.
#[test]
fn bells_of_closed_devices_are_let_go() {
    struct Silent;
    impl platter_block::lane::Bell for Silent {
        fn ring(&self) {}
    }
    let below = Device::ram(MIB).unwrap();
    let backend: Arc<dyn Backend> = platter_cache::new(Arc::clone(below.backend()), &small(64)).unwrap();
    let bell = Arc::new(Silent);
    let watch = Arc::downgrade(&bell);
    backend.keep(Arc::<Silent>::clone(&bell));
    assert_eq!(Arc::strong_count(&bell), 1);
    drop(bell);
    assert!(watch.upgrade().is_none());
    backend.keep(Arc::new(Silent));
    assert_eq!(watch.weak_count(), 0, "its place is free, too");
}
