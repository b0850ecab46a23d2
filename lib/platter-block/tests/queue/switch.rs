//! Elevators that change under load, queues that freeze, and faulty elevators.

use crate::disk::{FakeDisk, Mode, Rng};
use crate::flush::{BACK, THROUGH};
use crate::odd::{Fault, Odd};
use crate::rig::{Io, Rig, elevators, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::limits::Limits;
use platter_block::queue::{PlugSettings, Settings};

/// A queue with few requests, a disk with little room, and more bios than either takes.
fn loaded(elevator: &str, plug: bool, seed: u64) -> Rig {
    let limits = Limits::unlimited(512).with_max_transfer(8192);
    let mut disk = FakeDisk::new(1 << 20, limits, BACK, seed);
    (disk.mode, disk.partial, disk.room) = (Mode::Shuffled, 10, 5);
    let plug = plug.then(PlugSettings::default);
    let settings = Settings { depth: 4, nr_requests: 6, plug, ..Settings::default() };
    let mut rig = Rig::with(disk, settings, make_elevator(elevator));
    more(&mut rig, &mut Rng(seed), 30);
    rig
}

fn more(rig: &mut Rig, rng: &mut Rng, count: u64) {
    for _ in 0..count {
        let op = if rng.chance(40) { Op::Read } else { Op::Write };
        let io = Io::new(op, rng.below(500) * 2048, 2048 << rng.below(4)).of(rng.below(4) as u32);
        let flags = [Flags::NONE, Flags::FUA, Flags::SOFT_BARRIER, Flags::HARD_BARRIER, Flags::SYNC];
        let io = if rng.chance(20) { io.with(flags[rng.below(5) as usize]) } else { io };
        if io.pos + io.len() <= 1 << 20 && !rig.conflicts(&io) {
            rig.submit(io);
        }
        if rng.chance(30) {
            rig.run();
        }
    }
}

#[test]
fn every_elevator_can_follow_every_other_under_load() {
    for from in elevators() {
        for to in elevators() {
            for seed in 0..6 {
                let mut rig = loaded(from, seed % 2 == 0, seed);
                let mut rng = Rng(seed + 100);
                rig.lane.queue.switch_elevator(rig.now, make_elevator(to));
                assert_eq!(rig.lane.queue.elevator_name(), to);
                more(&mut rig, &mut rng, 30);
                rig.lane.queue.switch_elevator(rig.now, make_elevator(from));
                more(&mut rig, &mut rng, 30);
                rig.lane.queue.switch_elevator(rig.now, make_elevator(to));
                rig.drain();
                assert_eq!(rig.lane.queue.elevator_fault(), None);
            }
        }
    }
}

#[test]
fn what_the_old_elevator_held_goes_first() {
    for from in elevators() {
        for to in elevators() {
            let mut rig = Rig::manual(from, Settings { merges: false, ..Settings::default() }, THROUGH);
            for i in 0..4 {
                rig.submit(Io::write(i * 4096, 512));
            }
            rig.lane.queue.switch_elevator(rig.now, make_elevator(to));
            rig.submit(Io::write(8192 + 2048, 512).with(Flags::SYNC));
            rig.drain();
            assert_eq!(rig.disk().starts()[4].1, 8192 + 2048, "{from} to {to}");
        }
    }
}

#[test]
fn a_new_elevator_hears_only_of_its_own_requests() {
    for from in elevators() {
        let mut rig = loaded(from, false, 3);
        rig.lane.queue.switch_elevator(rig.now, Some(Box::new(Odd::new(Fault::None))));
        more(&mut rig, &mut Rng(9), 60);
        rig.drain();
        assert_eq!(rig.lane.queue.elevator_name(), "odd");
    }
}

#[test]
fn a_quiesced_queue_starts_nothing_and_loses_nothing() {
    for elevator in elevators() {
        let mut rig = loaded(elevator, true, 11);
        rig.disk().mode = Mode::Manual;
        rig.run();
        rig.lane.queue.quiesce();
        assert!(rig.lane.queue.is_quiesced());
        let started = rig.disk().starts().len();
        more(&mut rig, &mut Rng(12), 20);
        rig.disk().finish_all();
        rig.run();
        rig.lane.queue.switch_elevator(rig.now, make_elevator("noop"));
        rig.run();
        assert_eq!(rig.disk().starts().len(), started, "{elevator}");
        assert_eq!(rig.lane.queue.in_flight(), 0);
        rig.lane.queue.unquiesce();
        rig.disk().mode = Mode::Shuffled;
        rig.drain();
    }
}

#[test]
fn a_broken_elevator_is_replaced_and_nothing_is_lost() {
    let wrong = [
        (Fault::Twice, "did not hold"),
        (Fault::Invents, "did not hold"),
        (Fault::Stale, "did not hold"),
        (Fault::Loses, "that it held"),
        (Fault::Hides, "that it held"),
        (Fault::Sulks, "that it held"),
    ];
    for (fault, what) in wrong {
        for seed in 0..8 {
            let mut rig = loaded("noop", seed % 2 == 0, seed);
            rig.drain();
            rig.lane.queue.switch_elevator(rig.now, Some(Box::new(Odd::new(fault))));
            more(&mut rig, &mut Rng(seed), 40);
            rig.drain();
            let said = rig.lane.queue.elevator_fault().expect("a fault").to_string();
            assert!(said.contains("odd") && said.contains(what), "{fault:?}: {said}");
            assert_eq!(rig.lane.queue.elevator_name(), "noop");
            rig.lane.queue.switch_elevator(rig.now, make_elevator("noop"));
            assert_eq!(rig.lane.queue.elevator_fault(), None);
        }
    }
}
