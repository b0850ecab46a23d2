//! Sizes and settings at their edges.

use crate::rig::{self, small};
use platter_block::backend::Backend;
use platter_cache::{self as cache, Settings};
use platter_disk::device::Device;
use platter_disk::open::DiskOptions;
use std::sync::Arc;

fn ram(size: u64) -> Arc<dyn Backend> {
    Arc::clone(Device::ram(size).unwrap().backend())
}

#[test]
fn settings_out_of_range_are_named() {
    let window = 16384;
    let base = small(64);
    let wrong = [
        (Settings { size: 0, window, ..base.clone() }, ["size=0", "at least 64K"]),
        (Settings { size: 61440, window, ..base.clone() }, ["size=61440", "at least 64K"]),
        (Settings { size: 65536, window: 65536, ..base.clone() }, ["size=65536", "window=65536"]),
        (Settings { size: 65537, window, ..base.clone() }, ["size=65537", "multiples of 4096"]),
        (
            Settings { size: 1 << 44, window, ..base.clone() },
            ["size=17592186044416", "for example 8589934588K"],
        ),
        (Settings { window: 5000, ..base.clone() }, ["window=5000", "multiples of 4096"]),
        (Settings { window: u64::MAX, ..base.clone() }, ["at least 18446744073709551615", "window="]),
        (Settings { background: 30, dirty: 20, ..base.clone() }, ["background=30", "0 to dirty=20"]),
        (Settings { max_size: 4096, ..base.clone() }, ["max_size=4096", "from 256K (size), below 8T"]),
        (Settings { max_size: 262_145, ..base.clone() }, ["max_size=262145", "multiples of 4096"]),
        (Settings { min_size: 4096, ..base.clone() }, ["min_size=4096", "64K"]),
        (Settings { min_size: 1 << 20, ..base.clone() }, ["min_size=1048576", "to 256K (size)"]),
        (Settings { shards: 0, ..base.clone() }, ["shards=0", "1 to 256"]),
        (Settings { shards: 257, ..base.clone() }, ["shards=257", "1 to 256"]),
        (Settings { extent: 12_288, ..base.clone() }, ["extent=12288", "powers of two from 4K"]),
        (Settings { extent: 2048, ..base.clone() }, ["extent=2048", "to 1G"]),
        (Settings { shards: 8, ..base.clone() }, ["at least 512K", "each of shards=8"]),
        (Settings { size: 1 << 43, window, ..base.clone() }, ["size=8796093022208", "below 8T"]),
        (Settings { shards: 3, ..base.clone() }, ["multiples of 12288", "for example 264K"]),
        (Settings { shards: 4, ..base.clone() }, ["too small for shards=4", "4 extents (extent=1048576)"]),
        (Settings { shards: 2, max_size: 266_240, ..base.clone() }, ["max_size=266240", "multiples of 8192"]),
        (Settings { shards: 2, min_size: 135_168, ..base }, ["min_size=135168", "multiples of 8192"]),
    ];
    for (settings, says) in wrong {
        let error = cache::new(ram(1 << 20), &settings).err().expect("it is out of range").to_string();
        assert!(says.iter().all(|text| error.contains(text)), "{error}");
        assert!(error.contains("cache"), "{error}");
    }
    assert!(cache::new(ram(1 << 20), &Settings { size: 65536, window: 32768, ..small(16) }).is_ok());
}

/// A file that ends within a page, and one that ends within a sector.
#[test]
fn the_last_page_may_be_a_piece() {
    for size in [4096 * 5 + 512, 1024, 4096 * 16 + 3584, 10_000] {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(size).unwrap();
        let below = Device::open(file.path(), DiskOptions::read_write());
        let Ok(below) = below else {
            assert!(size % 512 != 0, "{below:?}");
            continue;
        };
        let size = below.size();
        let device = rig::cached(Arc::clone(below.backend()), &small(16));
        assert_eq!(device.size(), size);
        let data: Vec<u8> = (0..size).map(|at| (at / 512) as u8 + 1).collect();
        device.write_at(&data[..size as usize - 512], 0).unwrap();
        device.write_at(&data[size as usize - 512..], size - 512).unwrap();
        let error = device.read_at(&mut [0; 512], size).unwrap_err().to_string();
        assert!(error.contains("past the end") || error.contains("range"), "{error}");
        assert!(device.write_at(&[0; 1024], size - 512).is_err());
        let handle = device.handle();
        let page = handle.page(size - 1).unwrap();
        assert_eq!(page[..], data[page.pos() as usize..]);
        drop(page);
        device.flush().unwrap();
        drop((handle, device));
        assert_eq!(std::fs::read(file.path()).unwrap()[..size as usize], data[..]);
        let cold = rig::cached(Arc::clone(below.backend()), &small(16));
        let mut found = vec![0; size as usize];
        cold.read_at(&mut found, 0).unwrap();
        assert_eq!(found, data);
        assert_eq!(cold.handle().page(size - 1).unwrap()[..], data[(size - 1) as usize / 4096 * 4096..]);
    }
}

/// Hits do not call the policy.
#[test]
fn hits_ask_no_policy() {
    let device = rig::cached(ram(1 << 20), &small(64));
    let handle = device.handle();
    let mut page = vec![0; 32 * 4096];
    handle.read_at(&mut page, 0).unwrap();
    handle.read_at(&mut page, 0).unwrap();
    let before = handle.counters().unwrap();
    for at in 0..1000u64 {
        handle.read_at(&mut page[..4096], at % 32 * 4096).unwrap();
        handle.read_at(&mut page[..512], at % 256 * 512).unwrap();
    }
    let after = handle.counters().unwrap();
    assert_eq!((after.readahead.lookups, after.misses), (before.readahead.lookups, before.misses));
    assert_eq!(after.reads, before.reads);
}

#[test]
fn facts_say_what_a_page_costs() {
    for pages in [16, 17, 255, 4097] {
        let device = rig::cached(ram(1 << 20), &small(pages));
        let facts = device.facts();
        let cost = facts.iter().find(|(key, _)| *key == "cache bytes per page").unwrap();
        // 1.5 % of a page are 61.4 bytes.
        assert!(cost.1.parse::<u64>().unwrap() <= 61, "{pages} pages: {}", cost.1);
    }
}
