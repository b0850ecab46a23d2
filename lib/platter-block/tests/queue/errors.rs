//! A failure affects only the bio that causes it, with the right fault.

use crate::disk::{FakeDisk, Mode, Step};
use crate::rig::{Io, Rig, elevators, make_elevator};
use platter_block::bio::{Class, Flags, IoPrio, Op};
use platter_block::driver::Features;
use platter_block::fault::Kind;
use platter_block::lane::Lane;
use platter_block::limits::Limits;
use platter_block::queue::Settings;
use platter_block::time::Time;

fn rig(elevator: &str) -> Rig {
    Rig::manual(elevator, Settings::default(), Features::default())
}

/// Eight neighbouring bios of one block each, merged into one request that is with the disk.
fn merged_eight(elevator: &str, op: Op) -> (Rig, Vec<u64>) {
    let mut rig = rig(elevator);
    let tokens = (0..8).map(|i| rig.submit(Io::new(op, i * 4096, 4096))).collect();
    rig.lane.queue.unplug_for_waiter(rig.now);
    rig.run();
    assert_eq!(rig.disk().starts(), [(op, 0, 8 * 4096, false)], "{elevator}");
    (rig, tokens)
}

#[test]
fn a_bad_sector_fails_exactly_the_bio_over_it() {
    for elevator in elevators() {
        for op in [Op::Read, Op::Write] {
            let (mut rig, tokens) = merged_eight(elevator, op);
            rig.disk().bad.insert(3 * 8 + 5);
            rig.drain();
            for &token in &tokens {
                let kind = rig.result(token).err().map(|fault| (fault.kind, fault.errno));
                let expected = (token == 3).then_some((Kind::Io, 5));
                assert_eq!(kind, expected, "{elevator} {op} {token}");
            }
            assert_eq!(rig.counts().requeues, 8);
        }
    }
}

/// A disk that fails or is gone ends everything that an elevator holds back: for a quiet time, or for a request that may come
/// soon. A disk that works again does not.
#[test]
fn a_disk_that_fails_gets_what_the_elevator_holds_back() {
    let hour = 3_600_000_000_000;
    for (elevator, result) in elevators().into_iter().flat_map(|name| [(name, -5), (name, -19)]) {
        let mut made = make_elevator(elevator);
        // The longest quiet time for which it holds back the idle class.
        made.iter_mut().for_each(|made| _ = made.set("idle_grace", 60_000));
        let mut disk = FakeDisk::new(1 << 20, Limits::unlimited(512), Features::default(), 1);
        disk.mode = Mode::Manual;
        let mut rig = Rig::with(disk, Settings::default(), made);
        let send = |rig: &mut Rig, context: u32, class: Class| {
            let mut bio = rig.bio(&Io::read(u64::from(context) * 65536, 4096).of(context));
            bio.set_ioprio(IoPrio::new(class, 0));
            rig.lane.queue.submit(rig.now, bio);
            rig.lane.queue.unplug_for_waiter(rig.now);
            rig.run();
        };
        rig.now = Time(hour);
        send(&mut rig, 1, Class::BestEffort);
        send(&mut rig, 2, Class::Idle);
        send(&mut rig, 3, Class::BestEffort);
        let mut failed = 0;
        while !rig.disk().held.is_empty() {
            rig.disk().finish_with(0, result);
            rig.run();
            rig.run();
            failed += 1;
        }
        assert_eq!((failed, rig.lane.is_idle()), (3, true), "{elevator} {result}");
        // Nor does it hold back what comes later, until a request succeeds.
        send(&mut rig, 4, Class::Idle);
        assert_eq!(rig.disk().held.len(), 1, "{elevator} {result}");
        rig.disk().finish_with(0, 4096);
        rig.run();
        send(&mut rig, 5, Class::BestEffort);
        rig.disk().finish_with(0, 4096);
        rig.run();
        send(&mut rig, 6, Class::Idle);
        if elevator == "cfq" {
            assert!(rig.disk().held.is_empty(), "it does not hold back the idle class");
        }
        assert_eq!(rig.now, Time(hour));
        rig.drain();
    }
}

#[test]
fn a_partial_completion_is_resumed_where_it_stopped() {
    for elevator in elevators() {
        let mut rig = rig(elevator);
        rig.submit(Io { lens: vec![1024, 512, 2560], ..Io::write(8192, 0) });
        rig.lane.queue.unplug_for_waiter(rig.now);
        rig.run();
        rig.disk().finish_with(0, 1536);
        rig.run();
        rig.disk().finish_with(0, 512);
        rig.run();
        rig.drain();
        let starts = [(8192, 4096), (9728, 2560), (10240, 2048)].map(|(p, l)| (Op::Write, p, l, false));
        assert_eq!(rig.disk().starts(), starts, "{elevator}");
        assert_eq!(rig.counts().bytes_written, 4096);
    }
}

#[test]
fn a_partial_completion_of_a_merged_request_leaves_the_done_bios_alone() {
    let (mut rig, tokens) = merged_eight("noop", Op::Read);
    rig.disk().finish_with(0, 2 * 4096 + 512);
    rig.run();
    assert!(rig.is_done(tokens[0]) && rig.is_done(tokens[1]) && !rig.is_done(tokens[2]));
    let starts: Vec<(u64, u64)> = rig.disk().starts().iter().skip(1).map(|s| (s.1, s.2)).collect();
    assert_eq!(starts[0], (2 * 4096 + 512, 4096 - 512));
    assert_eq!(starts[1..], (3..8).map(|i| (i * 4096, 4096)).collect::<Vec<_>>());
    rig.drain();
    assert_eq!(rig.counts().bytes_read, 8 * 4096);
}

#[test]
fn a_transfer_that_stops_inside_a_block_starts_again_at_the_block() {
    let mut disk = FakeDisk::new(1 << 20, Limits::unlimited(4096), Features::default(), 1);
    disk.mode = Mode::Manual;
    let mut rig = Rig::with(disk, Settings::default(), None);
    rig.submit(Io::read(0, 8192));
    rig.run();
    rig.disk().finish_with(0, 5000);
    rig.run();
    assert_eq!(rig.disk().starts()[1], (Op::Read, 4096, 4096, false));
    rig.disk().finish_with(0, 4095);
    rig.drain();
    assert_eq!(rig.result(0).map_err(|fault| fault.kind), Err(Kind::Short));
}

#[test]
fn a_transfer_of_no_bytes_is_short() {
    for op in [Op::Read, Op::Write] {
        let (mut rig, tokens) = merged_eight("none", op);
        rig.disk().finish_with(0, 0);
        rig.run();
        rig.disk().finish_with(0, 0);
        rig.run();
        assert_eq!(rig.result(tokens[0]).map_err(|fault| fault.kind), Err(Kind::Short));
        rig.drain();
        assert_eq!(rig.counts().bios_failed, 1);
    }
}

#[test]
fn a_driver_that_claims_too_much_broke_its_contract() {
    for result in [4097, 1 << 40, i64::MAX] {
        let mut rig = rig("none");
        let alone = rig.submit(Io::read(0, 4096));
        rig.run();
        rig.disk().finish_with(0, result);
        rig.run();
        assert_eq!(rig.result(alone).map_err(|fault| fault.kind), Err(Kind::Contract));
    }
    for elevator in elevators() {
        let (mut rig, tokens) = merged_eight(elevator, Op::Read);
        rig.disk().finish_with(0, 8 * 4096 + 1);
        rig.run();
        for token in tokens {
            assert_eq!(rig.result(token).map_err(|fault| fault.kind), Err(Kind::Contract), "{elevator}");
        }
        rig.check_idle();
    }
}

#[test]
fn any_negative_result_is_a_fault_and_never_a_panic() {
    for (result, kind) in
        [(-5, Kind::Io), (-28, Kind::NoSpace), (-19, Kind::Gone), (-1 << 40, Kind::Io), (i64::MIN, Kind::Io)]
    {
        let mut rig = rig("none");
        let token = rig.submit(Io::write(0, 512));
        rig.run();
        rig.disk().finish_with(0, result);
        rig.run();
        assert_eq!(rig.result(token).map_err(|fault| fault.kind), Err(kind), "{result}");
    }
}

#[test]
fn a_wrong_bio_fails_before_it_is_queued() {
    let limits =
        Limits::unlimited(512).with_memory_align(512).with_write_zeroes(false).with_discard_granularity(0);
    let cases = [
        (Io::read(100, 512), Kind::Misaligned),
        (Io::read(0, 100), Kind::Misaligned),
        (Io { lens: vec![100, 412], ..Io::read(0, 0) }, Kind::Misaligned),
        (Io { gaps: vec![8], ..Io::read(0, 512) }, Kind::Misaligned),
        (Io::read(0, 0), Kind::ZeroLength),
        (Io::read((1 << 20) - 512, 1024), Kind::OutOfRange),
        (Io::read(u64::MAX - 511, 512), Kind::OutOfRange),
        (Io::new(Op::Discard, 0, 512), Kind::Unsupported),
    ];
    for (io, kind) in cases {
        let flags = [Flags::NONE, Flags::FUA, Flags::HARD_BARRIER];
        for (elevator, flags) in elevators().into_iter().flat_map(|name| flags.map(|flags| (name, flags))) {
            let disk = FakeDisk::new(1 << 20, limits, Features::default(), 1);
            let mut rig = Rig::with(disk, Settings::default(), make_elevator(elevator));
            let token = rig.submit(io.clone().with(flags));
            rig.run();
            assert_eq!(rig.result(token).map_err(|fault| fault.kind), Err(kind), "{elevator} {io:?}");
            assert_eq!(rig.disk().log, Vec::<Step>::new());
            assert!(!rig.lane.queue.barrier_pending());
        }
    }
}

#[test]
fn the_last_piece_of_a_block_is_transferred_with_its_neighbour() {
    let limits = Limits::unlimited(512);
    for result in [1000, 700, 512] {
        let mut disk = FakeDisk::new(1000, limits, Features::default(), 1);
        disk.mode = Mode::Manual;
        let mut rig = Rig::with(disk, Settings::default(), None);
        rig.submit(Io::read(0, 512));
        rig.submit(Io::read(512, 488));
        rig.run();
        rig.disk().finish_with(0, result);
        rig.run();
        rig.drain();
        assert!(rig.done.iter().all(|done| done.status.is_ok()));
        let places: Vec<(u64, u64)> = rig.disk().starts().iter().map(|start| (start.1, start.2)).collect();
        let all = [(0, 1000), (512, 488)];
        assert_eq!(places, if result == 1000 { &all[..1] } else { &all[..] });
    }
}

#[test]
fn a_read_only_disk_gets_no_writes() {
    let features = Features::default().with_read_only(true);
    let mut rig = Rig::manual("none", Settings::default(), features);
    rig.model = rig.disk().data.clone();
    let token = rig.submit(Io::write(0, 512));
    rig.submit(Io::read(512, 512));
    rig.drain();
    assert_eq!(rig.result(token).map_err(|fault| fault.kind), Err(Kind::ReadOnly));
    assert_eq!(rig.disk().starts(), [(Op::Read, 512, 512, false)]);
}

#[test]
fn a_block_in_more_pieces_than_the_disk_takes_fails() {
    let limits = Limits::unlimited(512).with_max_segments(2);
    let mut rig =
        Rig::with(FakeDisk::new(1 << 20, limits, Features::default(), 1), Settings::default(), None);
    let fine = Io { lens: vec![256; 4], gaps: vec![64; 4], ..Io::write(0, 0) };
    let good = rig.submit(fine.clone());
    let bad = rig.submit(Io { lens: vec![512, 512, 128, 128, 256, 512], gaps: vec![64; 6], ..fine.of(1) });
    rig.drain();
    assert_eq!(rig.result(good), Ok(()));
    assert_eq!(rig.result(bad).map_err(|fault| fault.kind), Err(Kind::BadSegments));
}

#[test]
fn flags_of_a_retried_bio_are_as_the_submitter_set_them() {
    let mut rig = rig("none");
    let bio = rig.bio(&Io::read(0, 1024).with(Flags::SYNC));
    rig.lane.queue.submit(rig.now, bio);
    rig.run();
    rig.disk().finish_with(0, 512);
    platter_block::lane::Lane::run(&mut rig.lane, rig.now);
    rig.disk().finish_with(0, 512);
    platter_block::lane::Lane::run(&mut rig.lane, rig.now);
    let mut done = Vec::new();
    rig.lane.queue.take_done(&mut done);
    assert_eq!(done[0].flags(), Flags::SYNC);
}
