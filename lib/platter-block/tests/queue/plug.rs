//! The device's plug: the events that start a plugged queue, in virtual time.

use crate::flush::THROUGH;
use crate::rig::{Io, Rig, elevators, elevators_within_the_pool};
use platter_block::bio::Flags;
use platter_block::queue::{PlugSettings, Settings};
use platter_block::time::{Span, Time};

fn plugged(elevator: &str) -> Rig {
    let mut rig = Rig::manual(elevator, Settings { merges: false, ..Settings::default() }, THROUGH);
    rig.submit(Io::write(0, 512));
    rig.run();
    rig
}

fn with_plug() -> impl Iterator<Item = &'static str> {
    elevators().into_iter().filter(|&name| name != "none")
}

#[test]
fn a_queue_is_plugged_for_3_ms() {
    for elevator in with_plug() {
        let mut rig = plugged(elevator);
        assert_eq!(rig.lane.queue.next_wakeup(), Some(Time(1) + Span::from_millis(3)), "{elevator}");
        rig.now = Time(0) + Span::from_millis(3);
        rig.run();
        assert!(rig.disk().held.is_empty());
        rig.now = Time(1) + Span::from_millis(3);
        rig.run();
        assert_eq!(rig.disk().held.len(), 1);
        let counts = rig.counts();
        assert_eq!((counts.plugs, counts.unplugs, counts.unplugs_timer), (1, 0, 1));
        rig.drain();
    }
}

#[test]
fn four_requests_unplug() {
    for elevator in with_plug() {
        let mut rig = plugged(elevator);
        for i in 1..4 {
            assert!(rig.disk().held.is_empty());
            rig.submit(Io::write(i * 8192, 512));
            rig.run();
        }
        assert_eq!(rig.disk().held.len(), 4, "{elevator}");
        assert_eq!(rig.counts().unplugs, 1);
        rig.drain();
    }
}

#[test]
fn merged_bios_are_one_request_to_the_plug() {
    let mut rig = Rig::manual("noop", Settings::default(), THROUGH);
    for i in 0..32 {
        rig.submit(Io::write(i * 512, 512));
        rig.run();
    }
    assert!(rig.disk().held.is_empty());
    rig.now += Span::from_millis(3);
    rig.run();
    assert_eq!(rig.disk().starts()[0].2, 32 * 512);
    rig.drain();
}

#[test]
fn a_sync_bio_unplugs_also_when_it_is_merged() {
    for elevator in with_plug() {
        for pos in [8192, 512] {
            let mut rig = Rig::manual(elevator, Settings::default(), THROUGH);
            rig.submit(Io::read(0, 512));
            rig.run();
            assert!(rig.disk().held.is_empty());
            rig.submit(Io::read(pos, 512).with(Flags::SYNC));
            rig.run();
            // Two, unless they merge, or the elevator waits for more requests of the first before it starts
            // the other.
            let most = if pos == 512 { 1 } else { 2 };
            assert!((1..=most).contains(&rig.disk().held.len()), "{elevator}");
            rig.drain();
        }
    }
}

#[test]
fn a_waiter_unplugs() {
    for elevator in with_plug() {
        let mut rig = plugged(elevator);
        platter_block::lane::Lane::unplug(&mut rig.lane, rig.now);
        rig.run();
        assert_eq!(rig.disk().held.len(), 1, "{elevator}");
        rig.drain();
        assert_eq!(rig.counts().unplugs, 1);
    }
}

#[test]
fn who_waits_for_a_request_unplugs() {
    for elevator in elevators_within_the_pool().into_iter().filter(|&name| name != "none") {
        let plug = Some(PlugSettings { threshold: 100, ..PlugSettings::default() });
        let settings = Settings { nr_requests: 2, merges: false, plug, ..Settings::default() };
        let mut rig = Rig::manual(elevator, settings, THROUGH);
        for i in 0..8 {
            rig.submit(Io::write(i * 8192, 512).of(i as u32));
        }
        assert!(rig.counts().request_waits > 0);
        rig.run();
        assert!(!rig.disk().held.is_empty(), "{elevator}");
        rig.drain();
    }
}

#[test]
fn a_queue_that_empties_is_plugged_again() {
    let mut rig = plugged("noop");
    for round in 1..4 {
        rig.now += Span::from_millis(3);
        rig.run();
        rig.complete_one();
        rig.submit(Io::write(0, 512));
        rig.run();
        assert!(rig.disk().held.is_empty());
        assert_eq!(rig.counts().plugs, round + 1);
    }
    rig.drain();
}

#[test]
fn without_a_plug_requests_start_at_once() {
    for elevator in elevators() {
        let mut rig = Rig::manual(elevator, Settings { plug: None, ..Settings::default() }, THROUGH);
        rig.submit(Io::write(0, 512).with(Flags::SYNC));
        rig.run();
        assert_eq!(rig.disk().held.len(), 1, "{elevator}");
        assert_eq!(rig.counts().plugs, 0);
        rig.drain();
    }
}
