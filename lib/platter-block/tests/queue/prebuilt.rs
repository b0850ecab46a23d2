//! Bios that their submitters have examined before the queue's lock is taken.

use platter_block::bio::{Bio, Flags};
use platter_block::counters::Counters;
use platter_block::driver::{Features, Geometry};
use platter_block::elevator;
use platter_block::fault::Kind;
use platter_block::limits::Limits;
use platter_block::queue::{Prebuilt, SchedQueue, Settings};
use platter_block::time::Time;
use std::sync::Arc;

const SIZE: u64 = 1 << 20;

fn geometry(prebuild: bool) -> Geometry {
    let limits = Limits::unlimited(512).with_max_transfer(8192);
    Geometry::new(SIZE, limits).with_features(Features::default().with_prebuild(prebuild))
}

fn queue() -> SchedQueue {
    let settings = Settings { plug: None, ..Settings::default() };
    let noop = elevator::by_name("noop").map(|row| (row.make)());
    SchedQueue::new(geometry(true), settings, noop, Arc::new(Counters::default()))
}

fn read(pos: u64, len: usize) -> Bio {
    Bio::read(pos, vec![0u8; len]).unwrap()
}

/// Positions and lengths of the requests that start.
fn start(queue: &mut SchedQueue) -> Vec<(u64, u64)> {
    let mut started = Vec::new();
    while let Some(index) = queue.next(Time(0)) {
        let request = queue.started(index);
        started.push((request.pos, request.len));
    }
    started
}

#[test]
fn an_examined_bio_makes_the_request_that_it_makes_otherwise() {
    let (mut examined, mut plain) = (queue(), queue());
    for (pos, len) in [(0, 4096), (4096, 4096), (65536, 512), (131_072, 20480)] {
        let bio = read(pos, len);
        let prebuilt = Prebuilt::examine(&geometry(true), &bio);
        assert_eq!(prebuilt == Prebuilt::NOT, len > 8192, "a bio that has to be cut stays unknown");
        examined.submit_prebuilt(Time(0), bio, prebuilt);
        plain.submit_sound(Time(0), read(pos, len));
    }
    let started = start(&mut examined);
    assert_eq!(started, start(&mut plain));
    assert_eq!(started[0], (0, 8192), "merged: {started:?}");
    assert_eq!(examined.counters().back_merges.get(), 1);
}

#[test]
fn nothing_is_known_of_bios_that_the_queue_orders_or_refuses() {
    let unknown = |bio: &Bio| Prebuilt::examine(&geometry(true), bio) == Prebuilt::NOT;
    assert!(unknown(&Bio::flush()));
    assert!(unknown(&read(SIZE, 512)));
    let mut barrier = read(0, 512);
    barrier.add_flags(Flags::HARD_BARRIER);
    assert!(unknown(&barrier));
    assert!(!unknown(&read(0, 512)));
    assert_eq!(
        Prebuilt::examine(&geometry(false), &read(0, 512)),
        Prebuilt::NOT,
        "the disk does not allow it"
    );
}

#[test]
fn a_bio_that_was_examined_before_the_device_shrank_is_examined_again() {
    let mut queue = queue();
    let bio = read(SIZE / 2, 512);
    let prebuilt = Prebuilt::examine(&geometry(true), &bio);
    queue.set_size(SIZE / 4, SIZE);
    queue.submit_prebuilt(Time(0), bio, prebuilt);
    assert!(start(&mut queue).is_empty());
    let mut done = Vec::new();
    queue.take_done(&mut done);
    assert_eq!(done[0].status().unwrap_err().kind, Kind::Gone);
}

#[test]
fn an_examined_bio_waits_behind_a_barrier() {
    let mut queue = queue();
    let mut barrier = read(0, 512);
    barrier.add_flags(Flags::HARD_BARRIER);
    queue.submit_sound(Time(0), barrier);
    let bio = read(8192, 512);
    let prebuilt = Prebuilt::examine(&geometry(true), &bio);
    queue.submit_prebuilt(Time(0), bio, prebuilt);
    assert_eq!(start(&mut queue), [(0, 512)]);
}
