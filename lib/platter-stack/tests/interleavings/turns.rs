//! The order of starts, call by call: models with one thread.

use crate::barrier_gate::{BarrierGate, Door};
use platter_block::bio::{Bio, Flags};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::{Bell, Cancel};
use platter_block::time::{Span, Time};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn write(token: u64, flags: Flags) -> Bio {
    let mut bio = Bio::write(0, vec![0; 512]).expect("one segment");
    bio.set_token(token);
    bio.add_flags(flags);
    bio
}

/// A lane with the bios that it has started.
struct Lane {
    door: Door,
    out: Vec<Bio>,
}

impl Lane {
    fn new(gate: &Arc<BarrierGate>) -> Lane {
        Lane { door: Door::new(gate, None), out: Vec::new() }
    }

    fn pass(&mut self, count: usize) -> bool {
        let may = self.door.pass(count);
        self.out.extend((0..if may { count } else { 0 }).map(|_| Bio::flush()));
        may
    }

    /// The first bios that it has started are complete.
    fn end(&mut self, count: usize) -> Vec<Bio> {
        let mut bios: Vec<Bio> = self.out.drain(..count).collect();
        self.door.complete(&mut bios);
        bios
    }
}

impl Deref for Lane {
    type Target = Door;

    fn deref(&self) -> &Door {
        &self.door
    }
}

impl DerefMut for Lane {
    fn deref_mut(&mut self) -> &mut Door {
        &mut self.door
    }
}

fn failed(lane: &mut Lane) -> Vec<(u64, Kind)> {
    let mut bios = Vec::new();
    lane.take_failed(&mut bios);
    bios.iter().map(|bio| (bio.token(), bio.status().unwrap_err().kind)).collect()
}

/// The longest that barriers wait.
const PATIENCE: Span = Span::from_secs(30);

const TIMEOUT: Time = Time(PATIENCE.0);

fn tokens(lane: &mut Lane) -> Vec<u64> {
    let started: Vec<Bio> = std::iter::from_fn(|| lane.take_next()).collect();
    let tokens = started.iter().map(Bio::token).collect();
    lane.out.extend(started);
    tokens
}

#[test]
fn a_barrier_waits_for_all_lanes_and_holds_all_back() {
    loom::model(|| {
        let gate = BarrierGate::new(PATIENCE);
        let (mut one, mut two) = (Lane::new(&gate), Lane::new(&gate));
        assert!(one.pass(2) && two.pass(1));
        one.place(write(1, Flags::HARD_BARRIER));
        one.place(write(2, Flags::NONE));
        assert!(!two.pass(1) && !one.pass(1));
        two.place(write(3, Flags::NONE));
        two.place(write(4, Flags::SOFT_BARRIER));
        two.place(write(5, Flags::NONE));
        assert!(tokens(&mut one).is_empty() && tokens(&mut two).is_empty());
        one.end(2);
        assert!(tokens(&mut one).is_empty() && !one.is_ready() && !two.is_ready());
        two.end(1);
        assert!(tokens(&mut two).is_empty() && one.is_ready() && !two.is_ready());
        assert_eq!(tokens(&mut one), [1]);
        one.end(1);
        // The next barrier is that of the other lane, behind both earlier ones.
        assert_eq!((tokens(&mut one), tokens(&mut two)), (vec![2], vec![3]));
        two.end(1);
        assert!(tokens(&mut two).is_empty());
        one.end(1);
        assert_eq!(tokens(&mut two), [4]);
        assert!(!one.pass(1));
        two.end(1);
        assert_eq!(tokens(&mut two), [5]);
        assert!(one.pass(1));
    });
}

#[test]
fn a_lane_that_goes_leaves_no_gate_closed() {
    loom::model(|| {
        let gate = BarrierGate::new(PATIENCE);
        let (mut one, mut two) = (Lane::new(&gate), Lane::new(&gate));
        let mut three = Lane::new(&gate);
        assert!(three.pass(1));
        one.place(write(1, Flags::HARD_BARRIER));
        two.place(write(2, Flags::HARD_BARRIER));
        one.place(write(3, Flags::HARD_BARRIER));
        drop(one);
        assert!(tokens(&mut two).is_empty());
        three.end(1);
        assert_eq!(tokens(&mut two), [2]);
        assert!(!three.pass(1));
        two.end(1);
        assert!(three.pass(1));
    });
}

#[test]
fn barriers_of_one_lane_take_turns() {
    loom::model(|| {
        let gate = BarrierGate::new(PATIENCE);
        let mut door = Lane::new(&gate);
        for token in 0..3 {
            door.place(write(token, Flags::HARD_BARRIER));
        }
        for token in 0..3 {
            assert_eq!(tokens(&mut door), [token]);
            door.end(1);
        }
        assert!(!door.is_holding() && door.pass(1));
    });
}

/// A lane that could not pass and took its place only behind a later barrier has no bio that this barrier
/// must wait for.
#[test]
fn a_lane_that_waits_for_a_barrier_is_not_waited_for() {
    loom::model(|| {
        let gate = BarrierGate::new(PATIENCE);
        let [mut one, mut two, mut three] = [(); 3].map(|()| Lane::new(&gate));
        one.place(write(1, Flags::HARD_BARRIER));
        assert!(!two.pass(1));
        three.place(write(2, Flags::HARD_BARRIER));
        two.place(write(3, Flags::NONE));
        assert_eq!(tokens(&mut one), [1]);
        one.end(1);
        assert_eq!(tokens(&mut three), [2]);
        three.end(1);
        assert_eq!((tokens(&mut two), two.out()), (vec![3], 1));
    });
}

/// Shared state outside the gate has changed: all lanes are woken.
#[test]
fn every_lane_is_rung() {
    struct Counted(AtomicU32);
    impl Bell for Counted {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    loom::model(|| {
        let (gate, bell) = (BarrierGate::new(PATIENCE), Arc::new(Counted(AtomicU32::new(0))));
        let open = || Door::new(&gate, Some(Arc::<Counted>::clone(&bell)));
        let (one, _two, _deaf) = (open(), open(), Door::new(&gate, None));
        one.ring();
        assert_eq!(bell.0.load(Ordering::Relaxed), 2);
    });
}

/// A lane that is not run has a bio in flight: the barrier of another lane fails in the end, and the error
/// names the lane. Bios held behind the barrier fail, on every lane; later ones start.
#[test]
fn a_barrier_fails_that_waits_for_a_lane_that_is_not_run() {
    loom::model(|| {
        let gate = BarrierGate::new(PATIENCE);
        let [mut idle, mut own, mut other] = [(); 3].map(|()| Lane::new(&gate));
        assert!(idle.pass(1));
        own.place(write(1, Flags::HARD_BARRIER));
        own.place(write(2, Flags::NONE));
        other.place(write(3, Flags::NONE));
        other.place(write(4, Flags::SOFT_BARRIER));
        for (now, fails) in [(Time(5), false), (Time(TIMEOUT.0 - 1), false), (Time(TIMEOUT.0 + 5), true)] {
            assert!(tokens(&mut own).is_empty() && tokens(&mut other).is_empty());
            own.expire(now);
            assert_eq!(own.next_wakeup(), (!fails).then_some(Time(TIMEOUT.0 + 5)));
            let expected = [(1, Kind::Unsettled), (2, Kind::Cancelled)];
            assert_eq!(failed(&mut own), if fails { &expected[..] } else { &[] });
        }
        let blame = gate.blame().unwrap();
        assert!(blame.contains("waited for 30 s") && blame.contains("lane 1, opened by thread"), "{blame}");
        // A new bio may start even before that lane has looked.
        assert!(own.pass(1));
        own.end(1);
        assert!(tokens(&mut other).is_empty());
        assert_eq!(failed(&mut other), [(3, Kind::Cancelled), (4, Kind::Cancelled)]);
        assert!(other.pass(1) && !other.is_holding());
        other.end(1);
        // The next barrier waits for the same lane until its bio is complete.
        own.place(write(5, Flags::HARD_BARRIER));
        assert!(tokens(&mut own).is_empty());
        idle.end(1);
        assert_eq!(tokens(&mut own), [5]);
        assert_eq!(own.end(1)[0].status(), Ok(()));
        assert!(idle.pass(1));
    });
}

/// A program was stopped as a whole: its lanes are run again one after the other.
#[test]
fn a_barrier_waits_for_lanes_that_are_run_again_after_long() {
    const HOUR: u64 = 3600 * 1_000_000_000;
    for is_run in [true, false] {
        loom::model(move || {
            let gate = BarrierGate::new(PATIENCE);
            let [mut one, mut two] = [(); 2].map(|()| Lane::new(&gate));
            assert!(one.pass(1));
            two.place(write(1, Flags::HARD_BARRIER));
            for now in [0, HOUR] {
                assert!(tokens(&mut two).is_empty());
                two.expire(Time(now));
                assert_eq!(failed(&mut two), []);
            }
            let next = Time(HOUR + 1_000_000_000);
            assert_eq!(two.next_wakeup(), Some(next));
            if is_run {
                one.end(1);
                assert_eq!(tokens(&mut two), [1]);
            } else {
                two.expire(next);
                assert_eq!(failed(&mut two), [(1, Kind::Unsettled)]);
            }
        });
    }
}

/// The lane that sent the barrier is not run: bios of other lanes behind it fail in the end, and then the
/// barrier does.
#[test]
fn a_barrier_of_a_lane_that_is_not_run_stops_nobody_for_ever() {
    for started in [false, true] {
        loom::model(move || {
            let gate = BarrierGate::new(PATIENCE);
            let [mut idle, mut other] = [(); 2].map(|()| Lane::new(&gate));
            idle.place(write(1, Flags::HARD_BARRIER));
            assert_eq!(tokens(&mut idle).len(), 1);
            if !started {
                idle.end(1);
                idle.place(write(1, Flags::HARD_BARRIER));
            }
            other.place(write(2, Flags::NONE));
            other.expire(Time(7));
            other.expire(Time(TIMEOUT.0 + 7));
            assert_eq!(failed(&mut other), [(2, Kind::Cancelled)]);
            assert!(other.pass(1));
            if started {
                let status = idle.end(1)[0].status();
                assert_eq!(status.unwrap_err().kind, Kind::Unsettled, "others did not wait for it");
            } else {
                assert!(tokens(&mut idle).is_empty());
                assert_eq!(failed(&mut idle), [(1, Kind::Unsettled)]);
            }
            assert!(!idle.is_holding() && idle.pass(1));
        });
    }
}

/// A barrier that the device could not carry out in time fails with all bios that were held behind it; one
/// that failed for another reason lets them start.
#[test]
fn what_is_behind_a_barrier_that_timed_out_is_not_done() {
    for kind in [Kind::TimedOut, Kind::Unsettled, Kind::Io] {
        loom::model(move || {
            let gate = BarrierGate::new(PATIENCE);
            let [mut own, mut other] = [(); 2].map(|()| Lane::new(&gate));
            own.place(write(1, Flags::HARD_BARRIER));
            own.place(write(2, Flags::NONE));
            other.place(write(3, Flags::NONE));
            assert_eq!(tokens(&mut own), [1]);
            own.out[0].fail(Fault::new(kind, Stage::Queue));
            assert_eq!(own.end(1)[0].status().unwrap_err().kind, kind);
            if kind == Kind::Io {
                assert_eq!((tokens(&mut own), tokens(&mut other)), (vec![2], vec![3]));
                return;
            }
            assert!(tokens(&mut own).is_empty() && tokens(&mut other).is_empty());
            assert_eq!(failed(&mut own), [(2, Kind::Cancelled)]);
            assert_eq!(failed(&mut other), [(3, Kind::Cancelled)]);
            assert!(own.pass(1) && other.pass(1));
        });
    }
}

/// A barrier that has started is late: its lane may not be run again, so it opens the gate at once.
#[test]
fn a_late_barrier_that_has_started_holds_nothing_back() {
    loom::model(|| {
        let gate = BarrierGate::new(PATIENCE);
        let [mut idle, mut other] = [(); 2].map(|()| Lane::new(&gate));
        let barrier = write(1, Flags::HARD_BARRIER);
        let (late, stranger) = (Cancel::late(barrier.identity()), write(1, Flags::NONE));
        idle.place(barrier);
        assert_eq!(tokens(&mut idle), [1]);
        idle.place(write(2, Flags::NONE));
        other.place(write(3, Flags::NONE));
        idle.give_up(&Cancel::token(1));
        idle.give_up(&Cancel::late(stranger.identity()));
        assert!(tokens(&mut other).is_empty() && !other.is_ready(), "a cancelled one has not ended");
        idle.give_up(&late);
        assert_eq!(failed(&mut idle), [(2, Kind::Cancelled)]);
        assert!(tokens(&mut other).is_empty());
        assert_eq!(failed(&mut other), [(3, Kind::Cancelled)]);
        assert!(other.pass(1), "what comes now starts");
        idle.give_up(&late);
        assert!(other.pass(1), "only once");
        let status = idle.end(1)[0].status();
        assert_eq!(status.unwrap_err().kind, Kind::Unsettled, "others did not wait for it");
        other.place(write(4, Flags::HARD_BARRIER));
        other.end(2);
        assert_eq!(tokens(&mut other), [4]);
    });
}

/// A late barrier fails with what is behind it, a cancelled one lets that in.
#[test]
fn held_bios_end_when_they_are_called_back() {
    loom::model(|| {
        let gate = BarrierGate::new(PATIENCE);
        let [mut busy, mut door] = [(); 2].map(|()| Lane::new(&gate));
        assert!(busy.pass(1));
        busy.place(write(1, Flags::HARD_BARRIER));
        let bios = [Flags::NONE, Flags::NONE, Flags::SOFT_BARRIER, Flags::NONE, Flags::HARD_BARRIER];
        let bios: Vec<Bio> = bios.into_iter().zip(2..).map(|(flags, token)| write(token, flags)).collect();
        let late: Vec<Cancel> = bios.iter().map(|bio| Cancel::late(bio.identity())).collect();
        bios.into_iter().for_each(|bio| door.place(bio));
        door.cancel(&late[0]);
        assert_eq!(failed(&mut door), [(2, Kind::TimedOut)]);
        door.cancel(&Cancel::token(3));
        assert_eq!(failed(&mut door), [(3, Kind::Cancelled)]);
        // The barrier fails with the bios behind it, but not those before it.
        door.cancel(&late[2]);
        let expected = [(4, Kind::TimedOut), (5, Kind::Cancelled), (6, Kind::Cancelled)];
        assert_eq!((failed(&mut door), door.is_holding()), (expected.to_vec(), false));
        door.place(write(7, Flags::HARD_BARRIER));
        door.place(write(8, Flags::NONE));
        door.cancel(&Cancel::token(7));
        busy.end(1);
        assert_eq!(tokens(&mut busy), [1]);
        assert!(tokens(&mut door).is_empty());
        busy.end(1);
        // A cancelled barrier does not hold anything back.
        assert_eq!((tokens(&mut door), failed(&mut door)), (vec![8], vec![(7, Kind::Cancelled)]));
        assert!(busy.pass(1));
    });
}
