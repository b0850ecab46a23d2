//! Trace events: the life of each bio and each request as blktrace would show it.

use crate::disk::{FakeDisk, Mode, Rng};
use crate::flush::BACK;
use crate::rig::{Io, Rig, elevators, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::limits::Limits;
use platter_block::queue::{PlugSettings, Settings};
use platter_block::time::Time;
use platter_block::trace::{Action, Event, Sink};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender, channel};

struct Recorder(Sender<Event>);

impl Sink for Recorder {
    fn event(&mut self, event: &Event) {
        self.0.send(*event).expect("the receiver lives");
    }
}

fn record(rig: &mut Rig) -> Receiver<Event> {
    let (send, receive) = channel();
    rig.lane.queue.set_sink(Some(Box::new(Recorder(send))));
    receive
}

fn letters(events: &Receiver<Event>) -> String {
    events.try_iter().map(|event| event.action.letter()).collect::<Vec<_>>().join(" ")
}

fn settings(plug: bool) -> Settings {
    Settings { plug: plug.then(PlugSettings::default), nr_requests: 4, ..Settings::default() }
}

#[test]
fn a_bio_lives_q_g_i_d_c() {
    let mut rig = Rig::manual("none", settings(false), BACK);
    let events = record(&mut rig);
    rig.submit(Io::write(4096, 512).of(42));
    rig.drain();
    let events: Vec<Event> = events.try_iter().collect();
    let all: Vec<_> = events.iter().map(|event| event.action.letter()).collect();
    assert_eq!(all, ["Q", "G", "I", "D", "C"]);
    for event in events {
        let what = (event.op, event.pos, event.len, event.context, event.errno);
        assert_eq!(what, (Op::Write, 4096, 512, 42, 0));
    }
}

#[test]
fn merges_plugs_and_waits_are_seen() {
    let mut rig = Rig::manual("noop", settings(true), BACK);
    let events = record(&mut rig);
    rig.submit(Io::write(0, 512));
    rig.submit(Io::write(512, 512));
    rig.now = Time(3_000_001);
    rig.run();
    rig.drain();
    assert_eq!(letters(&events), "Q P G I Q M UT D C");
    rig.submit(Io::write(0, 512));
    rig.submit(Io::write(512, 512).with(Flags::SYNC));
    rig.drain();
    assert_eq!(letters(&events), "Q P G I Q M U D C");
    let mut rig = Rig::manual("none", settings(false), BACK);
    let events = record(&mut rig);
    (0..5).map(|i| rig.submit(Io::write(i * 8192, 512))).for_each(drop);
    assert_eq!(letters(&events), "Q G I Q G I Q G I Q G I Q S");
    rig.drain();
    assert_eq!(letters(&events), "D D D D C G I C C C D C");
}

#[test]
fn an_elevator_that_merges_at_the_front_says_f() {
    for elevator in
        elevators().into_iter().filter(|name| make_elevator(name).is_some_and(|e| e.front_merges()))
    {
        let mut rig = Rig::manual(elevator, settings(false), BACK);
        let events = record(&mut rig);
        rig.submit(Io::write(512, 512));
        rig.submit(Io::write(0, 512));
        rig.drain();
        assert_eq!(letters(&events), "Q G I Q F D C", "{elevator}");
    }
}

#[test]
fn splits_failures_and_flushes_are_seen() {
    let limits = Limits::unlimited(512).with_max_transfer(1024);
    let mut disk = FakeDisk::new(1 << 20, limits, BACK, 1);
    disk.mode = Mode::Manual;
    let mut rig = Rig::with(disk, settings(false), None);
    let events = record(&mut rig);
    rig.submit(Io::write(0, 2048));
    assert_eq!(
        events.try_iter().map(|e| (e.action.letter(), e.pos, e.len, e.extra)).collect::<Vec<_>>(),
        [
            ("Q", 0, 2048, 0),
            ("X", 0, 1024, 2),
            ("G", 0, 1024, 0),
            ("I", 0, 1024, 0),
            ("G", 1024, 1024, 0),
            ("I", 1024, 1024, 0),
        ]
    );
    rig.drain();
    assert_eq!(letters(&events), "D D C C");
    rig.submit(Io::read(0, 512));
    rig.submit(Io::read(512, 512));
    rig.run();
    rig.disk().bad.insert(0);
    rig.drain();
    assert_eq!(letters(&events), "Q G I Q M D C R R I I D D C C");
    rig.submit(Io::flush());
    rig.drain();
    assert_eq!(letters(&events), "Q G I D C");
}

/// Follows every request by its place on the disk through a random load.
#[test]
fn every_request_is_inserted_before_it_is_issued_and_completes_once() {
    for elevator in elevators() {
        for seed in 0..10 {
            let limits = Limits::unlimited(512).with_max_transfer(4096);
            let mut disk = FakeDisk::new(1 << 20, limits, BACK, seed);
            (disk.mode, disk.partial, disk.room) = (Mode::Shuffled, 10, 3);
            let mut rig = Rig::with(disk, settings(seed % 2 == 0), make_elevator(elevator));
            let events = record(&mut rig);
            let mut rng = Rng(seed);
            for _ in 0..60 {
                let op = if rng.chance(50) { Op::Read } else { Op::Write };
                let io = Io::new(op, rng.below(400) * 2048, 2048 << rng.below(3));
                if !rig.conflicts(&io) {
                    rig.submit(io);
                }
                if rng.chance(40) {
                    rig.run();
                }
            }
            rig.drain();
            let events: Vec<Event> = events.try_iter().collect();
            let count = |action| events.iter().filter(|event| event.action == action).count() as u64;
            let counts = rig.counts();
            assert_eq!(count(Action::Queue), counts.bios);
            assert_eq!(count(Action::GetRequest), counts.requests);
            assert_eq!(count(Action::BackMerge), counts.back_merges);
            assert_eq!(count(Action::FrontMerge), counts.front_merges);
            assert_eq!(count(Action::Sleep), counts.request_waits);
            assert_eq!(count(Action::Split), counts.splits);
            assert_eq!(count(Action::Issue), counts.dispatches);
            assert_eq!(count(Action::Complete), counts.completions);
            assert_eq!(count(Action::Requeue), counts.requeues);
            assert_eq!(count(Action::Plug), counts.plugs);
            assert!(events.is_sorted_by_key(|event| event.time));
            follow(&events);
        }
    }
}

/// Requests in flight do not overlap if one of them writes, so a completion belongs to the issue with the
/// same range.
fn follow(events: &[Event]) {
    let mut out: BTreeMap<(u64, u64, bool), i32> = BTreeMap::new();
    let mut inserted: BTreeMap<u64, i64> = BTreeMap::new();
    for event in events {
        let key = (event.pos, event.len, event.op == Op::Read);
        let here = inserted.entry(event.pos).or_default();
        match event.action {
            Action::Insert => *here += 1,
            // A request that grew at its front is issued from its new start.
            Action::FrontMerge => *here += 1,
            Action::Issue => {
                assert!(*here > 0, "{event:?} was never inserted");
                *out.entry(key).or_default() += 1;
            }
            Action::Complete => {
                let left = out.get_mut(&key).filter(|n| **n > 0).expect("a completion of what was issued");
                *left -= 1;
            }
            Action::Requeue if out.get(&key).is_some_and(|n| *n > 0) => {
                *out.entry(key).or_default() -= 1;
            }
            _ => {}
        }
    }
    assert!(out.values().all(|&n| n == 0), "{out:?}");
}
