//! The models: lanes that place bios, start those that may start, complete them and sleep until they are
//! woken. The checker reports a lane that is never woken as a deadlock.

use crate::barrier_gate::{BarrierGate, Door};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use platter_block::bio::{Bio, Flags};
use platter_block::fault::Kind;
use platter_block::lane::{self, Cancel};
use platter_block::time::{Span, Time};
use std::sync::Arc;

const PLAIN: Flags = Flags::NONE;
const BARRIER: Flags = Flags::HARD_BARRIER;

/// Ends a lane's sleep, or prevents its next one.
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    pub(crate) fn new() -> Arc<Bell> {
        Arc::new(Bell { rung: Mutex::new(false), changed: Condvar::new() })
    }

    pub(crate) fn sleep(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

impl lane::Bell for Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// A barrier that fails: it is late whenever its lane checks.
const FAILS: Flags = Flags::HARD_BARRIER.union(Flags::NOMERGE);

/// Begins and ends of bios in order; `.0` says whether the bio is a barrier.
type Log = Arc<std::sync::Mutex<Vec<(bool, bool)>>>;

/// A lane's thread. `first` is offered to the gate as a batch that may pass without stopping (as arrays do).
/// Then each of `bios` takes its place. The thread runs until all are complete.
struct Lane {
    door: Door,
    bell: Arc<Bell>,
    log: Log,
    failed: Vec<Bio>,
}

impl Lane {
    fn new(gate: &Arc<BarrierGate>, log: &Log) -> Lane {
        let bell = Bell::new();
        let ring: Arc<dyn lane::Bell> = Arc::<Bell>::clone(&bell);
        Lane { door: Door::new(gate, Some(ring)), bell, log: Arc::clone(log), failed: Vec::new() }
    }

    fn note(&self, barrier: bool, begins: bool) {
        self.log.lock().unwrap().push((barrier, begins));
    }

    /// Runs the bios to their ends. Returns those that failed, by their index.
    fn run(mut self, passes: bool, bios: &[Flags]) -> Vec<(u64, Kind)> {
        if passes && self.door.pass(bios.len()) {
            bios.iter().for_each(|_| self.note(false, true));
            thread::yield_now();
            bios.iter().for_each(|_| self.note(false, false));
            let mut bios: Vec<Bio> = bios.iter().map(|_| Bio::flush()).collect();
            self.door.complete(&mut bios);
            return Vec::new();
        }
        let mut late = Vec::new();
        for (token, flags) in bios.iter().enumerate() {
            let mut bio = Bio::flush();
            bio.add_flags(*flags);
            bio.set_token(token as u64);
            late.extend((*flags == FAILS).then(|| Cancel::late(bio.identity())));
            self.door.place(bio);
        }
        while self.door.is_holding() {
            let Some(mut bio) = self.door.take_next() else {
                let before = self.failed.len();
                self.door.expire(Time(2048));
                late.iter().for_each(|late| self.door.cancel(late));
                self.door.take_failed(&mut self.failed);
                if self.failed.len() == before {
                    self.bell.sleep();
                }
                continue;
            };
            let barrier = bio.flags().intersects(BARRIER);
            self.note(barrier, true);
            self.note(barrier, false);
            self.door.complete(std::slice::from_mut(&mut bio));
        }
        self.failed.iter().map(|bio| (bio.token(), bio.status().unwrap_err().kind)).collect()
    }
}

/// For each lane: the bios that failed, and how.
type Failures = Vec<Vec<(u64, Kind)>>;

/// Runs the bios of some lanes. Returns the failures of each lane, and begins and ends in order.
fn live(lanes: &'static [(bool, &'static [Flags])]) -> (Failures, Vec<(bool, bool)>) {
    let (gate, log) = (BarrierGate::new(Span::from_secs(30)), Log::default());
    let mut opened = lanes.iter().map(|&(passes, bios)| (Lane::new(&gate, &log), passes, bios));
    let (own, passes, bios) = opened.next().unwrap();
    let others: Vec<_> = opened.collect();
    let others: Vec<_> = others
        .into_iter()
        .map(|(lane, passes, bios)| thread::spawn(move || lane.run(passes, bios)))
        .collect();
    let mut failed = vec![own.run(passes, bios)];
    failed.extend(others.into_iter().map(|other| other.join().unwrap()));
    let log = log.lock().unwrap().clone();
    let count = lanes.iter().map(|(_, bios)| bios.len()).sum::<usize>();
    assert_eq!(log.len() / 2 + failed.iter().flatten().count(), count, "each ends once");
    (failed, log)
}

/// Checks all interleavings with up to three preemptions (two with three lanes).
fn check(lanes: &'static [(bool, &'static [Flags])]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(5 - lanes.len());
    builder.check(move || {
        let (failed, log) = live(lanes);
        assert!(failed.iter().all(Vec::is_empty));
        let mut under_way = 0;
        for (at, &(barrier, begins)) in log.iter().enumerate() {
            if barrier && begins {
                assert_eq!(under_way, 0, "a barrier waits for what has begun");
                assert_eq!(log[at + 1], (true, false), "and nothing begins until it is over");
            }
            under_way = if begins { under_way + 1 } else { under_way - 1 };
        }
    });
}

/// A lane publishes an epoch, and a barrier takes its place and reads it before the lane sees that its bio is
/// of the next epoch.
#[test]
fn a_barrier_hears_that_a_lane_that_entered_is_behind_it() {
    check(&[(false, &[BARRIER]), (false, &[PLAIN])]);
}

/// As above, with a lane that tries to pass without stopping.
#[test]
fn a_barrier_hears_of_a_lane_that_would_not_stop() {
    check(&[(false, &[BARRIER]), (true, &[PLAIN, PLAIN])]);
}

/// Both lanes publish before either barrier has its number: neither barrier waits for the other one's lane.
#[test]
fn barriers_that_come_together_go_in_turn() {
    check(&[(false, &[BARRIER, PLAIN]), (false, &[BARRIER])]);
}

/// The second is refused at first, and is behind another barrier when it takes its place.
#[test]
fn two_barriers_and_a_lane_between_them() {
    check(&[(false, &[BARRIER]), (true, &[PLAIN]), (false, &[BARRIER])]);
}

/// Bios before and after a barrier, on both lanes.
#[test]
fn nothing_passes_a_barrier() {
    check(&[(false, &[PLAIN, BARRIER]), (false, &[PLAIN, PLAIN])]);
}

/// A barrier fails while another lane has a bio in flight, or a place behind it. The other lane's bio fails
/// if it was held behind the barrier, and otherwise came before or after it. No thread waits forever, and the
/// gate is open at the end.
#[test]
fn a_barrier_that_fails_takes_what_is_behind_it_along() {
    const CASES: [&[(bool, &[Flags])]; 3] = [
        &[(false, &[FAILS, PLAIN]), (true, &[PLAIN])],
        &[(false, &[FAILS]), (false, &[PLAIN, PLAIN])],
        &[(false, &[FAILS, BARRIER]), (false, &[BARRIER])],
    ];
    for lanes in CASES {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let (failed, _) = live(lanes);
            let [own, other] = &failed[..] else { unreachable!("two lanes") };
            match own[..] {
                // The barrier was started before any lane checked the time.
                [] => {}
                [(0, Kind::TimedOut)] => assert_eq!(lanes[0].1.len(), 1),
                [(0, Kind::TimedOut), (1, Kind::Cancelled)] => {}
                _ => panic!("{own:?}"),
            }
            assert!(other.iter().all(|&(_, kind)| kind == Kind::Cancelled), "{other:?}");
        });
    }
}

/// A read without a door that sees what was written behind a barrier has seen what was written before it, too.
#[test]
fn no_barrier_comes_between_the_parts_of_a_read_without_a_door() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(|| {
        let (gate, log) = (BarrierGate::new(Span::from_secs(30)), Log::default());
        let lane = Lane::new(&gate, &log);
        let data = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let written = Arc::clone(&data);
        let writer = thread::spawn(move || {
            written[0].store(1, Ordering::Release);
            assert!(lane.run(false, &[BARRIER]).is_empty());
            written[1].store(1, Ordering::Release);
        });
        let before = gate.open_since();
        let read = [0, 1].map(|at| data[at].load(Ordering::Acquire));
        if before.is_some() && gate.open_since() == before {
            assert_ne!(read, [0, 1]);
        }
        writer.join().unwrap();
        assert!(gate.open_since().is_some());
    });
}
