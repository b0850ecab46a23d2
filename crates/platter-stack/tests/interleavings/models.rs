//! The models: lanes that place what they have, start what they may, complete it and sleep until they are rung. A
//! lane that is never rung again, the checker reports as a deadlock.

use crate::gate::{Door, Gate};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use platter_block::bio::{Bio, Flags};
use platter_block::lane;
use std::sync::Arc;

const PLAIN: Flags = Flags::NONE;
const BARRIER: Flags = Flags::HARD_BARRIER;

/// Ends a lane's sleep, or keeps it from beginning the next one.
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn new() -> Arc<Bell> {
        Arc::new(Bell { rung: Mutex::new(false), changed: Condvar::new() })
    }

    fn sleep(&self) {
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

/// What has begun and ended so far, in turn: whether it is a barrier.
type Log = Arc<std::sync::Mutex<Vec<(bool, bool)>>>;

/// A lane's thread: `first` is offered to the gate as a batch that need not stop (as arrays do), then each of
/// `bios` takes its place; all are seen through to their ends.
struct Lane {
    door: Door,
    bell: Arc<Bell>,
    log: Log,
}

impl Lane {
    fn new(gate: &Arc<Gate>, log: &Log) -> Lane {
        let bell = Bell::new();
        let ring: Arc<dyn lane::Bell> = Arc::<Bell>::clone(&bell);
        Lane { door: Door::new(gate, Some(ring)), bell, log: Arc::clone(log) }
    }

    fn note(&self, barrier: bool, begins: bool) {
        self.log.lock().unwrap().push((barrier, begins));
    }

    fn run(mut self, passes: bool, bios: &[Flags]) {
        if passes && self.door.pass(bios.len()) {
            bios.iter().for_each(|_| self.note(false, true));
            thread::yield_now();
            bios.iter().for_each(|_| self.note(false, false));
            return self.door.complete(bios.len());
        }
        for flags in bios {
            let mut bio = Bio::flush();
            bio.add_flags(*flags);
            self.door.place(bio);
        }
        while self.door.is_holding() {
            let Some(bio) = self.door.next() else {
                self.bell.sleep();
                continue;
            };
            let barrier = bio.flags().intersects(BARRIER);
            self.note(barrier, true);
            self.note(barrier, false);
            match barrier {
                true => self.door.complete_barrier(),
                false => self.door.complete(1),
            }
        }
    }
}

/// Checks all interleavings with up to three changes of thread (with three lanes: two) that no thread asked for.
fn check(lanes: &'static [(bool, &'static [Flags])]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(5 - lanes.len());
    builder.check(move || {
        let (gate, log) = (Arc::new(Gate::default()), Log::default());
        let mut opened = lanes.iter().map(|&(passes, bios)| (Lane::new(&gate, &log), passes, bios));
        let (own, passes, bios) = opened.next().unwrap();
        let others: Vec<_> = opened.collect();
        let others: Vec<_> = others
            .into_iter()
            .map(|(lane, passes, bios)| thread::spawn(move || lane.run(passes, bios)))
            .collect();
        own.run(passes, bios);
        others.into_iter().for_each(|other| other.join().unwrap());
        let log = log.lock().unwrap();
        let wanted: usize = lanes.iter().map(|(_, bios)| bios.len()).sum();
        assert_eq!(log.len(), 2 * wanted);
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

/// A lane publishes an epoch, and a barrier takes its place and looks, before the lane sees that it is of the next.
#[test]
fn a_barrier_hears_that_a_lane_that_entered_is_behind_it() {
    check(&[(false, &[BARRIER]), (false, &[PLAIN])]);
}

/// The same with a lane that tries to go straight through.
#[test]
fn a_barrier_hears_of_a_lane_that_would_not_stop() {
    check(&[(false, &[BARRIER]), (true, &[PLAIN, PLAIN])]);
}

/// Both have entered before either has its number: neither waits for the barrier of the other one to go first.
#[test]
fn barriers_that_come_together_go_in_turn() {
    check(&[(false, &[BARRIER, PLAIN]), (false, &[BARRIER])]);
}

/// The second is refused at first, and behind one more barrier when it takes its place.
#[test]
fn two_barriers_and_a_lane_between_them() {
    check(&[(false, &[BARRIER]), (true, &[PLAIN]), (false, &[BARRIER])]);
}

/// Something before a barrier and something behind it, on both sides.
#[test]
fn nothing_passes_a_barrier() {
    check(&[(false, &[PLAIN, BARRIER]), (false, &[PLAIN, PLAIN])]);
}
