//! The size of a cache that is open changes: what stays, what waits, and what is refused.

use crate::rig::{self, small};
use platter_block::bio::Bio;
use platter_block::resident::PAGE;
use platter_block::time::Span;
use platter_cache::{Settings, Write};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::{SimDisk, World};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

struct Rig {
    world: Arc<World>,
    disk: SimDisk,
    device: Device,
}

fn rig(settings: &Settings) -> Rig {
    let ideal = Ideal { size: 64 * MIB, latency: Span::from_micros(100), depth: 32, write_cache: false };
    let world = World::new(1);
    let (disk, _) = rig::disk(&world, ideal, None);
    let device = rig::cached(rig::backend(&disk, DiskSettings::default()), settings);
    Rig { world, disk, device }
}

impl Rig {
    fn number(&self, name: &str) -> u64 {
        let facts = self.device.facts();
        facts.iter().find(|(key, _)| *key == name).map_or(0, |(_, value)| value.parse().unwrap())
    }

    fn set(&self, name: &str, value: u64) -> Result<(), String> {
        self.device.set_layer_param(None, name, value.cast_signed()).map_err(|error| error.to_string())
    }

    /// Lets the cache do what it does in the background within ten seconds, until it has its new size.
    fn work(&self) {
        let mut channel = self.device.channel(1).unwrap();
        let until = self.world.clock().now() + Span::from_secs(10);
        while let Some(at) = channel.next_wakeup().filter(|&at| at < until) {
            if self.number("pages to give back") == 0 {
                break;
            }
            self.world.clock().advance_to(at.max(self.world.clock().now()));
            channel.poll(&mut Vec::new());
        }
    }

    /// Reads pages of the device. Returns how many of them it read from the disk.
    fn read(&self, pages: std::ops::Range<u64>) -> u64 {
        let before = self.device.cache_counters().unwrap().misses;
        for page in pages {
            let mut data = [0; PAGE as usize];
            self.device.read_at(&mut data, page * PAGE).unwrap();
            assert!(data.iter().all(|&byte| byte == data[0]));
        }
        self.device.cache_counters().unwrap().misses - before
    }
}

#[test]
fn what_is_used_most_stays() {
    let rig = rig(&Settings { window: 0, ..small(1000) });
    // Used again and again, and wherever in memory they are.
    let hot = 700..1000;
    rig.read(0..1000);
    for _ in 0..4 {
        rig.read(hot.clone());
        rig.read(2000..2050);
    }
    rig.set("size", 400 * PAGE).unwrap();
    assert_eq!(rig.number("cache pages"), 400);
    rig.work();
    assert_eq!(rig.number("pages to give back"), 0);
    let lost = rig.read(hot);
    assert!(lost <= 10, "{lost} of 300");
    // It can become as large as it was, at once.
    rig.set("size", 1000 * PAGE).unwrap();
    rig.read(0..600);
    assert_eq!(rig.read(0..600), 0);
    let error = rig.set("size", 1001 * PAGE).unwrap_err();
    assert!(error.contains("size=4100096") && error.contains("64K to 4000K"), "{error}");
}

#[test]
fn dirty_pages_and_pages_that_are_held_are_not_lost() {
    let rig = rig(&Settings { background: 100, dirty: 100, max_size: 2000 * PAGE, ..small(1000) });
    rig.set("size", 2000 * PAGE).unwrap();
    (0..1500).for_each(|page| rig.device.write_at(&[page as u8; PAGE as usize], page * PAGE).unwrap());
    let handle = rig.device.handle();
    let held: Vec<_> = (1200..1203).map(|page| handle.page(page * PAGE).unwrap()).collect();
    rig.set("size", 100 * PAGE).unwrap();
    // More than the whole cache is dirty: it is written first.
    rig.work();
    assert!(rig.number("dirty pages") <= 100, "{} dirty", rig.number("dirty pages"));
    assert!(rig.number("pages to give back") > 0, "a program holds some");
    assert!(
        held.iter().zip(1200u64..).all(|(page, number)| page[..].iter().all(|&byte| byte == number as u8))
    );
    drop(held);
    rig.work();
    assert_eq!(rig.number("pages to give back"), 0);
    rig.read(0..1500);
    rig.device.flush().unwrap();
    let below = Device::new(rig::backend(&rig.disk, DiskSettings::default()));
    for page in 0..1500u64 {
        let mut data = [0; PAGE as usize];
        below.read_at(&mut data, page * PAGE).unwrap();
        assert_eq!(data, [page as u8; PAGE as usize], "page {page}");
    }
}

/// A size that grows again before all was given back: every frame is used again.
#[test]
fn a_cache_that_became_smaller_in_part_has_its_old_size_again() {
    let rig = rig(&Settings { window: 0, ..small(1000) });
    rig.read(0..1000);
    // Frames are used in turn: these are the last one, and one in the middle of those that are emptied.
    let handle = rig.device.handle();
    let held = [999, 600].map(|page| handle.page(page * PAGE).unwrap());
    rig.set("size", 200 * PAGE).unwrap();
    rig.work();
    assert!(rig.number("pages to give back") > 0);
    rig.set("size", 700 * PAGE).unwrap();
    rig.work();
    rig.set("size", 1000 * PAGE).unwrap();
    drop(held);
    rig.work();
    rig.read(0..1000);
    assert_eq!(rig.read(0..1000), 0, "{} evicted", rig.number("pages evicted"));
}

/// The limits of dirty pages are shares of the new size.
#[test]
fn writers_wait_by_the_new_size() {
    let rig = rig(&Settings { background: 10, dirty: 20, max_size: 10_000 * PAGE, ..small(1000) });
    let most = |pages: u64| {
        rig.set("size", pages * PAGE).unwrap();
        let mut most = 0;
        for page in 0..pages {
            rig.device.write_at(&[1; PAGE as usize], page * PAGE).unwrap();
            most = most.max(rig.number("dirty pages"));
        }
        rig.device.flush().unwrap();
        most
    };
    assert!((20..=40).contains(&most(200)));
    assert!((1000..=2000).contains(&most(10_000)));
    assert!((20..=40).contains(&most(200)));
}

#[test]
fn other_parameters_keep_the_size_and_sizes_out_of_range_are_refused() {
    let rig = rig(&Settings { max_size: 8 * MIB, write: Write::Through, ..small(1024) });
    rig.set("size", 6 * MIB).unwrap();
    rig.set("expire", 1000).unwrap();
    assert_eq!(rig.number("cache pages"), 6 * MIB / PAGE);
    assert_eq!(rig.number("cache pages at most"), 8 * MIB / PAGE);
    for (wrong, allowed) in
        [(6 * MIB + 1, "multiples of 4096"), (9 * MIB, "64K to 8M (a cache that is open"), (4096, "64K")]
    {
        let error = rig.set("size", wrong).unwrap_err();
        assert!(error.contains(&format!("size={wrong}")) && error.contains(allowed), "{error}");
    }
    assert_eq!(rig.number("cache pages"), 6 * MIB / PAGE);
}

/// A lane that moves pages returns before the cache has its new size, and its own bios go on.
#[test]
fn bios_end_before_the_cache_has_its_new_size() {
    let rig = rig(&Settings { max_size: 10_000 * PAGE, ..small(10_000) });
    rig.read(0..10_000);
    rig.set("size", 1000 * PAGE).unwrap();
    let mut channel = rig.device.channel(1).unwrap();
    let mut done = Vec::new();
    for page in 12_000..12_010 {
        assert!(channel.submit(Bio::write(page * PAGE, vec![1; PAGE as usize]).unwrap()).is_ok());
        channel.poll(&mut done);
        assert_eq!(done.drain(..).map(|bio| bio.status()).collect::<Vec<_>>(), [Ok(())]);
    }
    assert!(rig.number("pages to give back") > 5000);
    drop(channel);
    rig.work();
    assert_eq!(rig.number("pages to give back"), 0);
}

/// While a program holds the last page behind a new end, the cache looks for it again and again, but not at all frames before it.
#[test]
fn a_page_that_is_held_does_not_cost_a_look_at_all_frames() {
    let rig = rig(&Settings { window: 0, ..small(8000) });
    rig.read(0..8000);
    let handle = rig.device.handle();
    // Frames are used in turn: this is the last one.
    let held = handle.page(7999 * PAGE).unwrap();
    rig.set("size", 1000 * PAGE).unwrap();
    rig.work();
    let before = rig.number("cache locks");
    // A hundred times.
    rig.work();
    let locks = rig.number("cache locks") - before;
    assert!((100..1000).contains(&locks), "{locks} locks");
    drop(held);
    rig.work();
    assert_eq!(rig.number("pages to give back"), 0);
}
