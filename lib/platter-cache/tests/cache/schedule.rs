//! When dirty pages are written back, and in how many I/Os, in virtual time.

use crate::rig::{self, small};
use platter_block::hint::Hint;
use platter_block::time::Span;
use platter_cache::Settings;
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::World;
use platter_sim::ideal::Ideal;
use std::sync::Arc;

/// A disk of 10 ms, and a cache of 100 pages over it.
struct Rig {
    world: Arc<World>,
    device: Device,
    channel: Channel,
}

impl Rig {
    fn new(settings: &Settings) -> Rig {
        let world = World::new(1);
        let ideal = Ideal { size: 32 << 20, latency: Span::from_millis(10), depth: 32, write_cache: false };
        let (disk, _) = rig::disk(&world, ideal, None);
        let device = rig::cached(rig::backend(&disk, DiskSettings::default()), settings);
        let channel = device.channel(8).unwrap();
        Rig { world, device, channel }
    }

    fn write(&self, pages: impl IntoIterator<Item = u64>) {
        pages.into_iter().for_each(|page| self.device.write_at(&[1; 4096], page * 4096).unwrap());
    }

    /// Lets time pass up to a given millisecond, and serves all wakeups. Returns their number.
    fn pass_to(&mut self, millis: u64) -> u32 {
        let until = Span::from_millis(millis).0;
        let mut wakeups = 0;
        loop {
            self.channel.poll(&mut Vec::new());
            let due = self.channel.next_wakeup().filter(|at| at.0 <= until);
            let Some(at) = due else { break };
            let now = self.world.clock().now();
            self.world.clock().advance_to(at.max(now));
            wakeups += 1;
        }
        self.world.clock().advance_to(platter_block::time::Time(until));
        self.channel.poll(&mut Vec::new());
        wakeups
    }

    fn fact(&self, name: &str) -> u64 {
        let facts = self.device.facts();
        facts.iter().find(|(key, _)| *key == name).unwrap().1.parse().unwrap()
    }

    fn written(&self) -> (u64, u64) {
        (self.device.counters().requests, self.fact("pages written back"))
    }
}

fn rules(background: u32, dirty: u32) -> Settings {
    let (expire, interval) = (Span::from_secs(30), Span::from_secs(5));
    Settings { background, dirty, expire, interval, ..small(100) }
}

#[test]
fn a_page_is_written_when_it_is_old_enough_and_looked_at() {
    let mut rig = Rig::new(&rules(50, 60));
    rig.write([7]);
    rig.pass_to(3_000);
    rig.write([20]);
    rig.pass_to(29_900);
    assert_eq!(rig.written(), (0, 0));
    rig.pass_to(30_100);
    assert_eq!(rig.written(), (1, 1));
    rig.pass_to(34_900);
    assert_eq!(rig.written(), (1, 1));
    rig.pass_to(35_100);
    assert_eq!((rig.written(), rig.fact("dirty pages")), ((2, 2), 0));
}

/// However often ages are checked, a thread wakes only when a page may be old enough.
#[test]
fn nothing_wakes_for_pages_that_are_young() {
    let settings = Settings { interval: Span::from_millis(1), ..rules(50, 60) };
    let mut rig = Rig::new(&settings);
    rig.write([7]);
    rig.pass_to(10);
    assert_eq!(rig.pass_to(29_999), 0);
    rig.write([20]);
    // A look, the start of the write-back, and its end.
    let wakeups = rig.pass_to(59_000);
    assert!((1..=3).contains(&wakeups), "{wakeups}");
    assert_eq!((rig.written(), rig.fact("dirty pages")), ((1, 1), 1));
    rig.device.flush().unwrap();
    assert_eq!(rig.pass_to(200_000), 0, "nothing is dirty");
}

#[test]
fn pages_go_in_order_and_neighbours_in_one_io() {
    let mut rig = Rig::new(&rules(50, 60));
    rig.write([9, 3, 8, 1, 2, 30, 31]);
    rig.pass_to(31_000);
    // 1 to 3, 8 and 9, 30 and 31.
    assert_eq!(rig.written(), (3, 7));
    // An adjacent page that has not expired yet is written too.
    rig.write([40]);
    rig.pass_to(60_000);
    rig.write([41]);
    rig.pass_to(70_000);
    assert_eq!((rig.written(), rig.fact("dirty pages")), ((4, 9), 0));
}

#[test]
fn more_than_one_batch_expires_at_once() {
    let settings = Settings { size: 4096 * 4096, ..rules(90, 95) };
    let mut rig = Rig::new(&settings);
    // No two pages are adjacent.
    rig.write((0..3000).map(|page| page * 2));
    rig.pass_to(36_000);
    assert_eq!((rig.written().1, rig.fact("dirty pages")), (3000, 0));
}

#[test]
fn a_share_of_dirty_pages_starts_write_back() {
    let mut rig = Rig::new(&rules(10, 50));
    rig.write(0..10);
    rig.pass_to(1_000);
    assert_eq!(rig.written(), (0, 0));
    rig.write([10]);
    rig.pass_to(2_000);
    assert_eq!(rig.fact("dirty pages"), 0);
}

/// Writers cannot get further ahead of the disk than the limit.
#[test]
fn writers_wait_at_the_limit() {
    let rig = Rig::new(&rules(10, 20));
    for page in 0..500 {
        rig.write([page]);
        assert!(rig.fact("dirty pages") <= 20);
    }
    let (writes, pages) = rig.written();
    assert!(pages >= 480 && writes < pages / 4, "{writes} writes of {pages} pages");
}

/// Pages that a program lets go are written at once, and a lane handles the completion.
#[test]
fn pages_that_are_let_go_are_written_at_once() {
    let mut rig = Rig::new(&rules(50, 60));
    rig.write([7, 8, 20]);
    let handle = rig.device.handle();
    handle.advise(Hint::DontNeed, 7 * 4096, 2 * 4096).unwrap();
    rig.pass_to(100);
    assert_eq!((rig.written(), rig.fact("dirty pages")), ((1, 2), 1));
    handle.advise(Hint::DontNeed, 0, 0).unwrap();
    rig.pass_to(200);
    assert_eq!((rig.written(), rig.fact("dirty pages")), ((2, 3), 0));
}

/// Whole pages that are clean are dropped at once. What a part of the range covers, or a program holds, stays.
#[test]
fn clean_pages_that_are_let_go_are_dropped() {
    let rig = Rig::new(&rules(50, 60));
    let handle = rig.device.handle();
    let mut data = [0; 4096];
    let mut misses = |pages: std::ops::Range<u64>| {
        let before = handle.counters().unwrap().misses;
        handle.advise(Hint::Random, 0, 0).unwrap();
        pages.for_each(|page| handle.read_at(&mut data, page * 4096).unwrap());
        handle.counters().unwrap().misses - before
    };
    assert_eq!((misses(0..20), misses(0..20)), (20, 0));
    assert_eq!(rig.fact("cache pages used"), 20);
    handle.advise(Hint::DontNeed, 2 * 4096, 5 * 4096).unwrap();
    assert_eq!(rig.fact("cache pages used"), 15);
    assert_eq!((misses(0..20), misses(0..20)), (5, 0));
    handle.advise(Hint::DontNeed, 2 * 4096 + 1, 5 * 4096).unwrap();
    assert_eq!((misses(0..20), misses(0..20)), (4, 0), "the first and the last page are not covered");
    let held = handle.page(3 * 4096).unwrap();
    handle.advise(Hint::DontNeed, 0, 0).unwrap();
    assert_eq!(misses(0..20), 19, "a program holds one");
    drop(held);
    handle.advise(Hint::DontNeed, 0, 0).unwrap();
    assert_eq!(misses(0..20), 20);
}
