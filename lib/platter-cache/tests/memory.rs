//! The memory that a cache takes from the system: it grows with use. Alone in its process, whose memory it measures.

use platter_cache::{Prefault, Settings};
use platter_disk::device::Device;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes of this process in memory. `VmRSS` of `/proc/self/status` would be some MiB wrong where there are many processors.
fn resident() -> u64 {
    let sums = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
    let kib = sums.lines().find_map(|line| line.strip_prefix("Rss:"));
    kib.unwrap().trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// A cache over a disk that transfers nothing.
fn open(size: u64, prefault: Prefault) -> Device {
    open_with(&Settings { size, prefault, ..Settings::default() })
}

fn open_with(settings: &Settings) -> Device {
    let below = Device::null(1 << 40).unwrap();
    Device::new(platter_cache::new(below.backend().clone(), settings).unwrap())
}

fn read(cache: &Device, first: u64, len: u64) {
    let mut buffer = vec![0u8; MIB as usize];
    for pos in (first..first + len).step_by(buffer.len()) {
        cache.read_at(&mut buffer, pos).unwrap();
    }
}

/// Not a test of its own: it would run beside the other.
fn gives_back_what_was_never_used() {
    let cache = open(512 * MIB, Prefault::Open);
    read(&cache, 0, 16 * MIB);
    let whole = resident();
    let resize = |size: u64| cache.set_layer_param(None, "size", (size * MIB).cast_signed()).unwrap();
    // And once more after a size between the two, of which not all need have been given back.
    for size in [64, 480, 64] {
        resize(size);
        let is_done = || resident() <= whole - (511 - size) * MIB;
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !is_done() {
            assert!(std::time::Instant::now() < until, "{} of {whole} bytes with {size} MiB", resident());
            std::thread::yield_now();
        }
    }
}

/// Not a test of its own, as above: caches with more pages than the machine has memory for, as their size or as what it can be
/// set to. They cost nothing until they are used.
fn costs_nothing_until_it_is_used() {
    let mode = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap();
    if mode.trim() == "2" {
        // This system promises memory for every address that is mapped.
        return;
    }
    let before = resident();
    for (size, max_size) in [(256 * GIB, 0), (GIB, 256 * GIB)] {
        let large = open_with(&Settings { size, max_size, prefault: Prefault::Off, ..Settings::default() });
        let opened = resident().checked_sub(before).expect("nothing else returns memory");
        assert!(opened < 4 * MIB, "{opened} bytes for a cache that was opened");
        if max_size == 0 {
            continue;
        }
        read(&large, 0, MIB);
        let used = resident().checked_sub(before).expect("nothing else returns memory");
        // The index for 256 GiB has 128 MiB, which the pages of a MiB may use by large pages; the rest is large pages of the other
        // tables.
        assert!(used < (128 + 32) * MIB, "{used} bytes for a MiB that was read");
    }
}

#[test]
fn memory_grows_with_use() {
    // Memory of threads, lanes and the like is there before.
    read(&open(64 * MIB, Prefault::Off), 0, 16 * MIB);
    // First: the thread that populates memory may keep that of a cache for a moment after it was closed.
    costs_nothing_until_it_is_used();

    // A full cache: the tables take at most 1.5 % of its size. The rest is what the process has in its heap for I/Os; 2 % would be more.
    let size = GIB;
    let most = size * 15 / 1000 + 4 * MIB;
    assert!(most < size * 2 / 100);
    let cache = open(size, Prefault::Open);
    let before = resident();
    read(&cache, 0, size);
    let tables = resident() - before;
    assert!(tables <= most, "{tables} bytes of tables for {size}");
    // It does not grow any more.
    read(&cache, size, size);
    let aged = resident() - before;
    assert!(aged <= most, "{aged} bytes of tables for {size}");
    // A smaller size gives memory back although nothing uses the cache.
    cache.set_layer_param(None, "size", (64 * MIB).cast_signed()).unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while resident() + 900 * MIB > before {
        assert!(
            std::time::Instant::now() < until,
            "{} bytes were given back",
            before.saturating_sub(resident())
        );
        std::thread::yield_now();
    }
    read(&cache, 0, 16 * MIB);
    drop(cache);
    gives_back_what_was_never_used();
}
