//! Barriers and flushes over several lanes: what they order, and where failures of a flush are remembered.

use crate::fake::{Fake, HARD, Options, Seen};
use crate::rig::{submit, until, write};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_disk::channel::Channel;
use platter_disk::sync_io::IoOptions;

/// Everything submitted before the barrier has completed when it starts, and later bios start after it has
/// completed.
fn check_barrier(seen: &[Seen], at: u64, before: &[u64], after: &[u64]) {
    let place = |what: Seen| {
        seen.iter().position(|s| *s == what).unwrap_or_else(|| panic!("{what:?} is not in {seen:?}"))
    };
    let (start, end) = (place(Seen::Start(Op::Write, at)), place(Seen::End(Op::Write, at)));
    for &pos in before {
        assert!(place(Seen::End(Op::Write, pos)) < start, "{pos} before {at}: {seen:?}");
    }
    for &pos in after {
        assert!(place(Seen::Start(Op::Write, pos)) > end, "{pos} after {at}: {seen:?}");
    }
}

#[test]
fn a_barrier_orders_all_lanes() {
    for elevator in ["none", "noop", "deadline"] {
        let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
        let mut lanes: Vec<_> = (0..3).map(|_| device.channel(16).unwrap()).collect();
        fake.hold();
        for (i, lane) in lanes.iter_mut().enumerate() {
            submit(lane, write(i as u64 * 512, 1, Flags::SYNC));
            lane.flush();
        }
        submit(&mut lanes[1], write(65536, 2, HARD));
        submit(&mut lanes[1], write(131_072, 3, Flags::SYNC));
        lanes[1].flush();
        for (i, lane) in lanes.iter_mut().enumerate() {
            submit(lane, write(131_072 + 4096 + i as u64 * 512, 3, Flags::SYNC));
            lane.flush();
        }
        fake.release();
        let mut done = Vec::new();
        until("all done", || {
            lanes.iter_mut().for_each(|lane| poll(lane, &mut done));
            done.len() == 8
        });
        assert!(done.iter().all(|bio| bio.status().is_ok()));
        let after = [131_072, 135_168, 135_680, 136_192];
        check_barrier(&fake.seen(), 65536, &[0, 512, 1024], &after);
    }
}

/// The barrier waits in the shared queue when its elevator is removed: lanes have queues of their own again,
/// and do not pass the barrier.
#[test]
fn a_barrier_survives_that_its_elevator_goes_and_another_comes() {
    let (fake, device) = Fake::open(Options { elevator: "deadline", ..Options::default() });
    let (mut one, mut two) = (device.channel(16).unwrap(), device.channel(16).unwrap());
    fake.hold();
    submit(&mut one, write(0, 1, Flags::SYNC));
    submit(&mut one, write(4096, 2, HARD));
    one.flush();
    device.set_elevator("none").unwrap();
    submit(&mut two, write(8192, 3, Flags::SYNC));
    two.flush();
    assert_eq!(fake.held(), 1, "only what came before the barrier is out");
    device.set_elevator("noop").unwrap();
    device.set_elevator("none").unwrap();
    two.flush();
    assert_eq!(fake.held(), 1);
    fake.release();
    let mut done = Vec::new();
    until("all done", || {
        one.poll(&mut done);
        two.poll(&mut done);
        done.len() == 3
    });
    check_barrier(&fake.seen(), 4096, &[0], &[8192]);
}

#[test]
fn barriers_behind_barriers_come_in_order_whatever_the_elevator_is() {
    let (fake, device) = Fake::open(Options::default());
    let mut lanes: Vec<_> = (0..3).map(|_| device.channel(64).unwrap()).collect();
    let mut done = Vec::new();
    for round in 0..30u64 {
        let barrier = round * 16384;
        for (i, lane) in lanes.iter_mut().enumerate() {
            submit(lane, write(barrier + 512 + i as u64 * 512, 1, Flags::SYNC));
            lane.flush();
        }
        submit(&mut lanes[round as usize % 3], write(barrier + 8192, 1, HARD));
        lanes[round as usize % 3].flush();
        device.set_elevator(["none", "noop", "deadline"][round as usize * 7 % 3]).unwrap();
        lanes.iter_mut().for_each(|lane| poll(lane, &mut done));
    }
    until("all done", || {
        lanes.iter_mut().for_each(|lane| poll(lane, &mut done));
        done.len() == 120
    });
    let seen = fake.seen();
    for round in 0..30u64 {
        let all = |round: u64| [1, 2, 3].map(|i| round * 16384 + i * 512);
        let after = if round < 29 { all(round + 1).to_vec() } else { Vec::new() };
        check_barrier(&seen, round * 16384 + 8192, &all(round), &after);
    }
}

#[test]
fn a_soft_barrier_keeps_its_place_in_its_lane() {
    for elevator in ["none", "noop", "deadline"] {
        let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
        let mut lane = device.channel(16).unwrap();
        for (pos, flags) in
            [(40960, Flags::NONE), (512, Flags::SOFT_BARRIER), (20480, Flags::NONE), (0, Flags::SOFT_BARRIER)]
        {
            submit(&mut lane, write(pos, 1, flags | Flags::SYNC));
        }
        let mut done = Vec::new();
        while lane.outstanding() > 0 {
            lane.wait(&mut done, None);
        }
        assert_eq!(fake.started(), [40960, 512, 20480, 0], "{elevator}");
    }
}

/// Bios that need a flush go through another queue than the other bios of a lane.
#[test]
fn flushes_and_durable_writes_stay_behind_a_soft_barrier_of_their_lane() {
    let features = Features::default().with_write_cache(true).with_fua(false);
    for elevator in ["none", "noop", "deadline"] {
        for behind in [Flags::FUA, Flags::PREFLUSH] {
            let (fake, device) = Fake::open(Options { elevator, features, depth: 1, ..Options::default() });
            let mut lane = device.channel(16).unwrap();
            let flags = [Flags::NONE, Flags::NONE, Flags::SOFT_BARRIER, behind];
            for (pos, flags) in [40960, 8192, 512, 16384].into_iter().zip(flags) {
                submit(&mut lane, write(pos, 1, flags | Flags::SYNC));
            }
            let mut done = Vec::new();
            while lane.outstanding() > 0 {
                lane.wait(&mut done, None);
            }
            let mut started = fake.started();
            // Flushes have no position.
            started.retain(|&pos| pos > 0);
            started[..2].sort_unstable();
            assert_eq!(started, [8192, 40960, 512, 16384], "{elevator} {behind:?}");
        }
    }
}

/// Nothing on any lane passes it, and it does not wait for requests that have started.
#[test]
fn a_soft_barrier_keeps_its_place_among_all_lanes() {
    for elevator in ["none", "noop", "deadline"] {
        let (fake, device) = Fake::open(Options { elevator, depth: 4, ..Options::default() });
        let (mut one, mut two) = (device.channel(16).unwrap(), device.channel(16).unwrap());
        let mut done = Vec::new();
        fake.hold();
        (1..=8).for_each(|i| submit(&mut one, write(i * 8192, 1, Flags::SYNC)));
        one.flush();
        assert_eq!(fake.held(), 4);
        submit(&mut two, write(512, 2, Flags::SOFT_BARRIER | Flags::SYNC));
        two.flush();
        submit(&mut two, write(1024, 2, Flags::SYNC));
        two.flush();
        submit(&mut one, write(2048, 2, Flags::SYNC));
        one.flush();
        assert_eq!(fake.held(), 4, "{elevator}: half of what the first lane has waits");
        fake.release();
        fake.hold();
        until("the first lane has all out", || {
            one.poll(&mut done);
            fake.held() >= 4
        });
        until("the others are out too", || {
            two.poll(&mut done);
            one.poll(&mut done);
            fake.release();
            done.len() == 11
        });
        let started = fake.started();
        let mut first = started[..8].to_vec();
        first.sort_unstable();
        assert!(first.into_iter().eq((1..=8).map(|i| i * 8192)), "{elevator}: {started:?}");
        assert_eq!(started[8], 512, "{elevator}: {started:?}");
    }
}

/// A soft barrier that needs a flush and a write is treated like a hard one.
#[test]
fn a_durable_soft_barrier_waits_for_all_lanes() {
    let (fake, device) = Fake::open(Options::default());
    let (mut one, mut two) = (device.channel(16).unwrap(), device.channel(16).unwrap());
    fake.hold();
    submit(&mut one, write(0, 1, Flags::SYNC));
    one.flush();
    submit(&mut two, write(4096, 1, Flags::SYNC));
    submit(&mut two, write(8192, 1, Flags::SOFT_BARRIER | Flags::FUA));
    submit(&mut two, write(12288, 1, Flags::SYNC));
    two.flush();
    assert_eq!(fake.held(), 2);
    fake.release();
    let mut done = Vec::new();
    until("all done", || {
        one.poll(&mut done);
        two.poll(&mut done);
        done.len() == 4
    });
    check_barrier(&fake.seen(), 8192, &[0, 4096], &[12288]);
}

/// A flush that replaces FUA on a device without it also fails the device, for every lane, until that is
/// acknowledged.
#[test]
fn a_failed_flush_is_the_devices_whoever_asked_for_it() {
    let features = Features::default().with_write_cache(true).with_fua(false);
    for elevator in ["none", "deadline"] {
        let (fake, device) = Fake::open(Options { elevator, features, ..Options::default() });
        fake.set_rule(|op, _, _| (op == Op::Flush).then_some(-5));
        let failed = device.write_at_with(&[1; 512], 0, IoOptions::flags(Flags::FUA)).unwrap_err();
        assert_eq!(failed.fault.kind, Kind::Io, "{failed}");
        fake.clear_rule();
        assert_eq!(device.flush().unwrap_err().fault.kind, Kind::FlushFailed);
        device.acknowledge_flush_failure();
        device.flush().unwrap();
        device.write_at_with(&[1; 512], 0, IoOptions::flags(Flags::FUA)).unwrap();
    }
}

#[test]
fn flush_and_fua_become_what_the_device_has() {
    let with = |write_cache, fua| Features::default().with_write_cache(write_cache).with_fua(fua);
    let (write, flush) = (Op::Write, Op::Flush);
    for (features, expected) in [
        (with(false, false), vec![write]),
        (with(true, true), vec![write]),
        (with(true, false), vec![write, flush]),
    ] {
        for elevator in ["none", "deadline"] {
            let (fake, device) = Fake::open(Options { elevator, features, ..Options::default() });
            device.write_at_with(&[1; 512], 0, IoOptions::flags(Flags::FUA)).unwrap();
            assert_eq!(started(&fake), expected, "{features:?}");
            device.flush().unwrap();
            let flushes = if features.write_cache { vec![flush] } else { Vec::new() };
            assert_eq!(started(&fake), flushes, "{features:?}");
        }
    }
}

fn poll(lane: &mut Channel, done: &mut Vec<Bio>) {
    lane.poll(done);
}

fn started(fake: &Fake) -> Vec<Op> {
    let start = |seen: &Seen| if let Seen::Start(op, _) = seen { Some(*op) } else { None };
    fake.seen().iter().filter_map(start).collect()
}

/// An empty flush as a hard barrier orders like a write does.
#[test]
fn a_flush_can_be_the_barrier() {
    let (fake, device) = Fake::open(Options::default());
    let mut lane = device.channel(16).unwrap();
    let mut flush = Bio::flush();
    flush.add_flags(HARD);
    submit(&mut lane, write(0, 1, Flags::SYNC));
    submit(&mut lane, flush);
    submit(&mut lane, write(4096, 1, Flags::SYNC));
    let mut done = Vec::new();
    while lane.outstanding() > 0 {
        lane.wait(&mut done, None);
    }
    let (write, flush) = (Op::Write, Op::Flush);
    let end = |op, pos| Seen::End(op, pos);
    let start = |op, pos| Seen::Start(op, pos);
    assert_eq!(
        fake.seen(),
        [
            start(write, 0),
            end(write, 0),
            start(flush, 0),
            end(flush, 0),
            start(write, 4096),
            end(write, 4096)
        ]
    );
}
