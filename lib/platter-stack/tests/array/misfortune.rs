//! Late bios, cancellation, atomic writes and failing barriers, through every layer in which bios wait.

use crate::rig::CHUNK;
use crate::script::{Hand, Script, Seen};
use platter_block::backend::Backend;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::Cancel;
use platter_block::time::Time;
use platter_stack::by_name;
use platter_stack::raid0::{self, Sizes};
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const TIMEOUT: u64 = 30_000_000_000;

fn layer(name: &str, named: &[(&str, i64)], below: Vec<Arc<dyn Backend>>) -> Arc<dyn Backend> {
    by_name(name).unwrap().make(named, below).unwrap()
}

/// Submits a write of one repeated byte and runs the lane. Returns what says that it is late.
fn write(
    hand: &mut Hand,
    now: u64,
    token: u64,
    (pos, len): (u64, usize),
    with: impl FnOnce(&mut Bio),
) -> Cancel {
    let mut bio = Bio::write(pos, vec![token as u8; len]).unwrap();
    bio.set_token(token);
    with(&mut bio);
    let late = Cancel::late(bio.identity());
    hand.submit(now, bio);
    hand.lane.run(Time(now));
    late
}

fn barrier(bio: &mut Bio) {
    bio.add_flags(Flags::HARD_BARRIER);
}

/// The layers with a gate, each over scripted devices.
fn gated() -> Vec<(&'static str, Vec<Script>, Arc<dyn Backend>)> {
    let disks = || vec![Script::new("a", 8 * MIB), Script::new("b", 8 * MIB)];
    let members = |disks: &[Script]| disks.iter().map(Script::backend).collect::<Vec<_>>();
    let mut all = Vec::new();
    let two = disks();
    let array = raid0::new(members(&two), CHUNK, Sizes::Zones).unwrap();
    all.push(("raid0", two, array));
    let two = disks();
    let array = layer("concat", &[], members(&two));
    all.push(("concat", two, array));
    for (name, named) in [("limit", &[("depth", 64)][..]), ("verify", &[])] {
        let one = vec![Script::new("a", 16 * MIB)];
        let filter = layer(name, named, members(&one));
        all.push((name, one, filter));
    }
    all
}

/// The layers with a gate, and filters that leave the order of barriers to the device below.
fn gated_or_not() -> Vec<(&'static str, Vec<Script>, Arc<dyn Backend>)> {
    let passing = ["delay", "limit", "error"].map(|name| {
        let one = vec![Script::new("a", 16 * MIB)];
        let named: &[(&str, i64)] = if name == "error" { &[("chance", 0)] } else { &[] };
        let filter = layer(name, named, vec![one[0].backend()]);
        (name, one, filter)
    });
    gated().into_iter().chain(passing).collect()
}

/// A bio behind another lane's barrier, or that a limit has not admitted, ends as soon as it is late, with its memory.
#[test]
fn a_late_bio_that_waits_in_a_layer_ends_at_once() {
    for (name, disks, device) in gated() {
        let (mut one, mut two) = (Hand::on(&device), Hand::on(&device));
        disks.iter().for_each(|disk| disk.hold(true));
        write(&mut one, 0, 1, (0, 512), barrier);
        let late = write(&mut two, 0, 2, (0, 512), |_| {});
        write(&mut two, 0, 3, (8192, 512), |_| {});
        two.cancel(4096, late);
        assert_eq!(two.kinds(4096), [(2, Some(Kind::TimedOut))], "{name}");
        disks.iter().for_each(|disk| disk.hold(false));
        assert_eq!(one.kinds(5000), [(1, None)], "{name}");
        assert_eq!(two.kinds(5000), [(3, None)], "{name}");
    }
    let disk = Script::new("a", MIB);
    let mut hand = Hand::on(&layer("limit", &[("latency", 1000), ("depth", 1)], vec![disk.backend()]));
    write(&mut hand, 0, 1, (0, 512), |_| {});
    let late = write(&mut hand, 0, 2, (512, 512), |_| {});
    write(&mut hand, 0, 3, (1024, 512), |_| {});
    hand.cancel(4096, late);
    assert_eq!(hand.kinds(4096), [(2, Some(Kind::TimedOut))]);
    assert_eq!(hand.kinds(1_000_000), [(1, None)]);
    assert_eq!(hand.kinds(2_000_000), [(3, None)]);
}

/// A completion that a layer delays ends as a timeout as soon as its bio is late.
#[test]
fn a_late_bio_is_not_delayed() {
    let disk = Script::new("a", MIB);
    for (name, named) in [("delay", [("write", 1000)]), ("limit", [("latency", 1000)])] {
        let mut hand = Hand::on(&layer(name, &named, vec![disk.backend()]));
        let late = write(&mut hand, 0, 1, (0, 512), |_| {});
        write(&mut hand, 0, 2, (512, 512), |_| {});
        assert_eq!(hand.kinds(4095), []);
        hand.cancel(4096, late);
        assert_eq!(hand.kinds(4096), [(1, Some(Kind::TimedOut))], "{name}");
        assert_eq!(hand.kinds(1_000_000), [(2, None)], "{name}");
    }
}

/// A part that a driver has may still change its disk: the bio ends when it is back.
#[test]
fn a_late_bio_ends_when_all_its_parts_are_back() {
    for (name, disks, device) in gated_or_not() {
        let mut hand = Hand::on(&device);
        disks.iter().for_each(|disk| disk.hold(true));
        disks[0].keep();
        let late = write(&mut hand, 0, 1, (0, CHUNK as usize * 3), |_| {});
        hand.cancel(4096, late);
        assert_eq!(hand.kinds(4096), [], "{name}");
        assert!(!hand.lane.is_idle(), "{name}");
        disks[0].hold(false);
        // Of an array, a part of it was taken back.
        let expected = (name == "raid0").then_some(Kind::TimedOut);
        assert_eq!(hand.kinds(5000), [(1, expected)], "{name}");
        assert!(hand.lane.is_idle(), "{name}");
    }
}

/// The preflush of a bio that is late is with a disk: its data is not written after that.
#[test]
fn nothing_more_of_a_bio_is_begun_when_it_is_late() {
    for (name, disks, device) in gated().into_iter().take(2) {
        for is_cancelled in [false, true] {
            let mut hand = Hand::on(&device);
            disks.iter().for_each(|disk| {
                disk.hold_only(Op::Flush);
                disk.keep();
            });
            let late = write(&mut hand, 0, 1, (0, 512), |bio| bio.add_flags(Flags::PREFLUSH));
            assert_eq!(hand.kinds(0), [], "{name}");
            hand.cancel(0, if is_cancelled { Cancel::token(1) } else { late });
            assert_eq!(hand.kinds(0), [], "{name}");
            disks.iter().for_each(|disk| disk.hold(false));
            let expected = if is_cancelled { Kind::Cancelled } else { Kind::TimedOut };
            assert_eq!(hand.kinds(0), [(1, Some(expected))], "{name}");
            assert!(disks.iter().flat_map(Script::seen).all(|seen| seen.op == Op::Flush), "{name}");
        }
    }
}

/// A barrier that has started is late, and its lane is not run any more, because its program has got a substitute: others go on at once.
#[test]
fn a_late_barrier_that_a_disk_keeps_stops_no_other_lane() {
    for (name, disks, device) in gated() {
        let (mut idle, mut two) = (Hand::on(&device), Hand::on(&device));
        disks.iter().for_each(|disk| {
            disk.hold(true);
            disk.keep();
        });
        let late = write(&mut idle, 0, 1, (0, 512), barrier);
        write(&mut two, 0, 2, (8192, 512), |_| {});
        disks.iter().for_each(|disk| disk.hold(false));
        assert_eq!(two.kinds(4095), [], "{name}");
        idle.cancel(4096, late);
        assert_eq!(two.kinds(4096), [(2, Some(Kind::Cancelled))], "{name}");
        write(&mut two, 4096, 3, (8192, 512), |_| {});
        assert_eq!(two.kinds(4096), [(3, None)], "{name}");
        assert_eq!(idle.kinds(5000), [(1, Some(Kind::TimedOut))], "{name}: others did not wait for it");
        write(&mut two, 5000, 4, (8192, 512), barrier);
        assert_eq!(two.kinds(5000), [(4, None)], "{name}");
    }
}

/// A lane that is not run has a bio in flight. Another lane's barrier fails after the barrier timeout, names
/// that lane and fails the bios behind it; later bios are carried out.
#[test]
fn a_lane_that_is_not_run_stops_others_for_a_bounded_time() {
    for (name, disks, device) in gated() {
        let (mut idle, mut one, mut two) = (Hand::on(&device), Hand::on(&device), Hand::on(&device));
        disks.iter().for_each(|disk| disk.hold(true));
        write(&mut idle, 0, 1, (0, 512), |_| {});
        disks.iter().for_each(|disk| disk.hold(false));
        write(&mut one, 1000, 2, (512, 512), barrier);
        write(&mut one, 1000, 3, (1024, 512), |_| {});
        write(&mut two, 2000, 4, (1536, 512), |_| {});
        assert_eq!(one.lane.next_wakeup(), Some(Time(1000 + TIMEOUT)), "{name}");
        assert_eq!((one.kinds(TIMEOUT), two.kinds(TIMEOUT)), (vec![], vec![]));
        let failed = [(2, Some(Kind::Unsettled)), (3, Some(Kind::Cancelled))];
        assert_eq!(one.kinds(TIMEOUT + 1000), failed, "{name}");
        assert_eq!(two.kinds(TIMEOUT + 1000), [(4, Some(Kind::Cancelled))], "{name}");
        let blame = device.explain(Fault::new(Kind::Unsettled, Stage::Layer)).unwrap();
        assert!(blame.contains("waited for 30 s") && blame.contains("lane 1"), "{name}: {blame}");
        write(&mut two, TIMEOUT + 2000, 5, (0, 512), |_| {});
        assert_eq!(two.kinds(TIMEOUT + 2000), [(5, None)], "{name}");
        assert_eq!(idle.kinds(TIMEOUT + 2000), [(1, None)], "{name}");
        write(&mut one, TIMEOUT + 3000, 6, (0, 512), barrier);
        assert_eq!(one.kinds(TIMEOUT + 3000), [(6, None)], "{name}");
    }
}

/// A barrier that times out below has the same effect: no bio that was held behind it is carried out.
#[test]
fn what_a_barrier_that_timed_out_held_is_called_off() {
    for (name, disks, device) in gated() {
        let mut hand = Hand::on(&device);
        disks.iter().for_each(|disk| disk.fail(Some(Fault::new(Kind::Unsettled, Stage::Queue))));
        let mut all: Vec<Bio> = (1..4).map(|at| Bio::write(at * 512, vec![at as u8; 512]).unwrap()).collect();
        all.iter_mut().zip(1..).for_each(|(bio, token)| bio.set_token(token));
        barrier(&mut all[0]);
        all.into_iter().for_each(|bio| hand.lane.submit(Time(0), bio));
        let ended = hand.kinds(0);
        let expected = [(1, Some(Kind::Unsettled)), (2, Some(Kind::Cancelled)), (3, Some(Kind::Cancelled))];
        assert_eq!(ended, expected, "{name}");
        let writes = |seen: &Seen| seen.op == Op::Write;
        assert!(disks.iter().flat_map(Script::seen).filter(writes).count() <= 1, "{name}");
    }
}

#[test]
fn cancelling_reaches_a_bio_wherever_it_waits() {
    for (is_late, (name, disks, device)) in [false, true]
        .into_iter()
        .flat_map(|is_late| gated_or_not().into_iter().map(move |each| (is_late, each)))
    {
        let kind = if is_late { Kind::TimedOut } else { Kind::Cancelled };
        let which = |token, late| if is_late { late } else { Cancel::token(token) };
        let (mut one, mut two) = (Hand::on(&device), Hand::on(&device));
        disks.iter().for_each(|disk| disk.hold(true));
        // In the device: one bio as it is, one in parts.
        let first = write(&mut one, 0, 1, (0, 512), |_| {});
        let second = write(&mut one, 0, 2, (0, CHUNK as usize * 3), |_| {});
        write(&mut one, 0, 3, (0, 512), |_| {});
        one.cancel(0, which(1, first));
        assert_eq!(one.kinds(0), [(1, Some(kind))], "{name}");
        one.cancel(0, which(2, second));
        assert_eq!(one.kinds(0), [(2, Some(kind))], "{name}");
        // Behind a barrier, in the gate or in the plug.
        write(&mut two, 0, 4, (0, 512), barrier);
        let behind = write(&mut two, 0, 5, (0, 512), |_| {});
        let bio = Bio::write(0, vec![1u8; 512]).unwrap();
        let plugged = Cancel::late(bio.identity());
        two.submit(0, bio);
        two.cancel(0, which(5, behind));
        two.cancel(0, which(0, plugged));
        assert_eq!(two.kinds(0), [(0, Some(kind)), (5, Some(kind))], "{name}");
        disks.iter().for_each(|disk| disk.hold(false));
        assert_eq!(one.kinds(0), [(3, None)], "{name}");
        assert_eq!(two.kinds(0), [(4, None)], "{name}");
        // Cancelling an unknown token has no effect.
        one.cancel(0, Cancel::token(77));
        assert!(one.lane.is_idle() && two.lane.is_idle(), "{name}");
    }
}

/// An atomic write is passed down whole, or refused.
#[test]
fn atomic_writes_are_not_done_in_parts() {
    let atomic = |bio: &mut Bio| bio.add_flags(Flags::ATOMIC);
    for (name, disks, device) in gated_or_not() {
        let most = device.geometry().limits.atomic_write;
        assert_eq!(most, 16384, "{name}");
        let mut hand = Hand::on(&device);
        write(&mut hand, 0, 1, (16384, 16384), atomic);
        assert_eq!(hand.kinds(0), [(1, None)], "{name}");
        let seen: Vec<Seen> = disks.iter().flat_map(Script::seen).collect();
        let [Seen { op: Op::Write, len: 16384, flags, .. }] = seen[..] else { panic!("{name}: {seen:?}") };
        assert!(flags.contains(Flags::ATOMIC), "{name}");
        if disks.len() > 1 {
            let border = if name == "raid0" { CHUNK } else { 8 * MIB };
            write(&mut hand, 0, 2, (border - 4096, 8192), atomic);
            assert_eq!(hand.kinds(0), [(2, Some(Kind::Unsupported))], "{name}");
            assert!(disks.iter().all(|disk| disk.seen().is_empty()), "{name}");
        }
    }
}

/// The largest atomic write is the member's, as far as positions aligned on the device are aligned on the
/// member.
#[test]
fn atomic_writes_are_as_large_as_alignment_allows() {
    let disk = || Script::new("a", 8 * MIB).backend();
    let part =
        |offset: i64| layer("partition", &[("offset", offset)], vec![disk()]).geometry().limits.atomic_write;
    assert_eq!([0, 65536, 8192, 4096 * 3, 512].map(part), [16384, 16384, 8192, 4096, 512]);
    let striped = |chunk| raid0::new(vec![disk(), disk()], chunk, Sizes::Zones).unwrap().geometry().limits;
    assert_eq!([4096, 16384, CHUNK].map(|chunk| striped(chunk).atomic_write), [4096, 16384, 16384]);
    let small = Script::new("b", 12288).backend();
    let chain = layer("concat", &[], vec![small, disk()]);
    assert_eq!(chain.geometry().limits.atomic_write, 4096);
    assert_eq!((chain.limits_at(0).0.atomic_write, chain.limits_at(12288).0.atomic_write), (16384, 4096));
}

/// A member tells a program once that its write-back failed. A part of the same flush that is taken back from another member
/// does not hide that.
#[test]
fn a_flush_that_is_taken_back_tells_the_error_of_a_member() {
    for (name, disks, device) in gated().into_iter().take(2) {
        for is_cancelled in [false, true] {
            let mut hand = Hand::on(&device);
            disks[0].hold_only(Op::Flush);
            disks[1].fail(Some(Fault::new(Kind::Io, Stage::Driver)));
            let mut flush = Bio::flush();
            flush.set_token(1);
            let late = Cancel::late(flush.identity());
            hand.submit(0, flush);
            assert_eq!(hand.kinds(0), [], "{name}");
            hand.cancel(0, if is_cancelled { Cancel::token(1) } else { late });
            assert_eq!(hand.kinds(0), [(1, Some(Kind::Io))], "{name}, cancelled: {is_cancelled}");
            disks[0].hold(false);
            disks[1].fail(None);
        }
    }
}

/// A member that calls a part complete and has done half of it.
#[test]
fn what_a_member_has_done_in_part_has_failed() {
    let (name, disks, device) = gated().swap_remove(0);
    let mut hand = Hand::on(&device);
    disks[1].cut_short(true);
    write(&mut hand, 0, 1, (0, CHUNK as usize * 4), |_| {});
    assert_eq!(hand.kinds(0), [(1, Some(Kind::Short))], "{name}");
    disks[1].cut_short(false);
    write(&mut hand, 0, 2, (0, CHUNK as usize * 4), |_| {});
    assert_eq!(hand.kinds(0), [(2, None)], "{name}");
}
