//! The models. What hangs in one of them, the checker reports as a deadlock.

use crate::gate::{Busy, Gate};
use crate::mailbox::Mailbox;
use crate::runner::Runner;
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering, lock};
use crate::tally::Tally;
use crate::tokens::Tokens;
use loom::cell::UnsafeCell;
use loom::thread;
use platter_block::bio::Bio;
use std::rc::Rc;
use std::sync::Arc;

/// Checks all interleavings with up to three changes of thread that no thread asked for.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn spawn(task: impl FnOnce() + 'static) -> thread::JoinHandle<()> {
    thread::spawn(task)
}

/// A lane and the one that closes the gate are never both inside.
#[test]
fn a_closed_gate_keeps_lanes_out() {
    check(|| {
        // The checker runs its threads on one of the system's.
        let shared = Rc::new((Gate::new(false), Busy::new(), UnsafeCell::new(())));
        let lane = {
            let shared = Rc::clone(&shared);
            spawn(move || {
                let (gate, busy, inside) = &*shared;
                for _ in 0..2 {
                    if busy.enter(gate) {
                        inside.with_mut(|_| ());
                        busy.leave();
                    }
                }
            })
        };
        let (gate, busy, inside) = &*shared;
        gate.close();
        assert!(gate.look().is_closed());
        if !busy.is_busy() {
            inside.with_mut(|_| ());
        }
        gate.open();
        lane.join().unwrap();
    });
}

/// A barrier that finds a lane busy is started by that lane when it leaves; lanes and barrier take turns at
/// running the queue that the barrier is in.
#[test]
fn a_barrier_is_started_by_whoever_leaves_last() {
    struct Shared {
        gate: Gate,
        lanes: [Busy; 2],
        inbox: Mutex<bool>,
        /// The barrier waits, and has been started.
        queue: Runner<(bool, bool)>,
    }
    impl Shared {
        fn run(&self) {
            self.queue.run(|(waits, started)| {
                *waits |= std::mem::take(&mut *lock(&self.inbox));
                if *waits && !self.lanes.iter().any(Busy::is_busy) {
                    *started = true;
                }
            });
        }
    }
    check(|| {
        let shared = Arc::new(Shared {
            gate: Gate::new(false),
            lanes: [Busy::new(), Busy::new()],
            inbox: Mutex::new(false),
            queue: Runner::new((false, false)),
        });
        let lanes = [0, 1].map(|lane| {
            let shared = Arc::clone(&shared);
            spawn(move || {
                if shared.lanes[lane].enter(&shared.gate) {
                    shared.lanes[lane].leave();
                    if !shared.gate.look().is_closed() {
                        return;
                    }
                }
                // Also when it found the gate closed: the barrier may have seen it trying.
                shared.run();
            })
        });
        shared.gate.close();
        *lock(&shared.inbox) = true;
        shared.run();
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        assert!(shared.queue.with(|state| state.1, |_| ()));
    });
}

#[test]
fn the_gate_counts_and_keeps_its_mode() {
    check(|| {
        let gate = Arc::new(Gate::new(true));
        let other = {
            let gate = Arc::clone(&gate);
            spawn(move || {
                gate.close();
                gate.set_shared(false);
                gate.open();
            })
        };
        gate.close();
        assert!(gate.look().is_closed());
        gate.open();
        other.join().unwrap();
        assert!(!gate.look().is_closed() && !gate.look().is_shared());
        gate.set_shared(true);
        assert!(gate.look().is_shared());
    });
}

/// Work that somebody left to the holder of the lock is done, also when that one only looked.
#[test]
fn no_work_is_left_behind() {
    check(|| {
        let shared = Arc::new((Mutex::new(0), Runner::new(0)));
        let work = |shared: &(Mutex<u32>, Runner<u32>), done: &mut u32| {
            *done += std::mem::take(&mut *lock(&shared.0));
        };
        let give = move |shared: &(Mutex<u32>, Runner<u32>)| {
            *lock(&shared.0) += 1;
            shared.1.run(|done| work(shared, done));
        };
        let giver = {
            let shared = Arc::clone(&shared);
            spawn(move || give(&shared))
        };
        let looker = {
            let shared = Arc::clone(&shared);
            // Something that takes its time while it looks.
            spawn(move || shared.1.with(|_| drop(lock(&shared.0)), |done| work(&shared, done)))
        };
        give(&shared);
        giver.join().unwrap();
        looker.join().unwrap();
        assert_eq!(*lock(&shared.0), 0);
        assert_eq!(shared.1.with(|done| *done, |_| ()), 2);
    });
}

/// Two deliver, one collects and sleeps between.
#[test]
fn a_sleeper_hears_of_its_mail() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new());
        let posts = [0, 1].map(|_| {
            let mailbox = Arc::clone(&mailbox);
            spawn(move || assert!(!mailbox.put(Bio::flush())))
        });
        let mut bios = Vec::new();
        while bios.len() < 2 {
            mailbox.take(&mut bios);
            if bios.len() < 2 {
                let bell = mailbox.fall_asleep();
                if !mailbox.has_mail() {
                    bell.sleep();
                }
                mailbox.wake_up();
            }
        }
        posts.into_iter().for_each(|post| post.join().unwrap());
    });
}

/// As the service thread does it: the lane counts as asleep all the time, and a bell that rings for what has
/// been collected is silenced.
#[test]
fn a_sleeper_that_never_says_it_is_awake_hears_too() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new());
        let post = {
            let mailbox = Arc::clone(&mailbox);
            spawn(move || (0..2).for_each(|_| assert!(!mailbox.put(Bio::flush()))))
        };
        let mut bios = Vec::new();
        while bios.len() < 2 {
            let bell = mailbox.fall_asleep();
            if mailbox.has_mail() {
                bell.ring();
            }
            bell.sleep();
            mailbox.take(&mut bios);
        }
        post.join().unwrap();
    });
}

/// A layer changes something that a sleeper looks at before it sleeps, and nudges it.
#[test]
fn a_sleeper_that_is_nudged_looks_again() {
    check(|| {
        let shared = Arc::new((Mailbox::new(), AtomicBool::new(false)));
        let layer = {
            let shared = Arc::clone(&shared);
            spawn(move || {
                shared.1.store(true, Ordering::SeqCst);
                shared.0.nudge();
            })
        };
        while !shared.1.load(Ordering::SeqCst) {
            let bell = shared.0.fall_asleep();
            if !shared.0.take_nudge() {
                bell.sleep();
            }
            shared.0.wake_up();
        }
        layer.join().unwrap();
    });
}

/// A lane goes while its bios come: each is given back once, and exactly one party learns that it is the last.
#[test]
fn a_closed_mailbox_counts_what_is_still_to_come() {
    check(|| {
        let shared = Arc::new((Mailbox::new(), Mutex::new(0)));
        let posts = [0, 1].map(|_| {
            let shared = Arc::clone(&shared);
            spawn(move || {
                if shared.0.put(Bio::flush()) {
                    *lock(&shared.1) += 1;
                }
            })
        });
        let (bios, all) = shared.0.close(2);
        posts.into_iter().for_each(|post| post.join().unwrap());
        assert_eq!(all, bios.len() == 2);
        assert_eq!(*lock(&shared.1) + u32::from(all), 1);
    });
}

#[test]
fn tokens_are_never_more_than_the_depth_and_none_is_lost() {
    check(|| {
        let shared = Arc::new((Tokens::new(4), AtomicBool::new(false)));
        let lane = |shared: &(Tokens, AtomicBool), wanted| {
            let got = shared.0.take(wanted);
            assert!(got <= wanted);
            if got < wanted {
                shared.0.set_hungry(true);
                shared.1.store(shared.0.is_wanted(), Ordering::SeqCst);
                shared.0.set_hungry(false);
            }
            got
        };
        let other = {
            let shared = Arc::clone(&shared);
            spawn(move || {
                let got = lane(&shared, 2);
                shared.0.give(got);
            })
        };
        let got = lane(&shared, 2);
        let more = lane(&shared, 3);
        assert!(got + more <= 3);
        shared.0.give(got + more);
        other.join().unwrap();
        assert_eq!(shared.0.take(9), 3);
        assert!(!shared.0.is_wanted());
        assert!(shared.1.load(Ordering::SeqCst), "three were wanted beside what was lent");
    });
}

/// A driver whose completions arrive in a ring, the device that completes them, and a thread that counts what is
/// outstanding. The count is never less than what the device had still to do of what had been queued before.
#[test]
fn what_is_outstanding_is_never_counted_too_low() {
    struct Shared {
        tally: Tally,
        /// Requests that the device may begin, and that it has done.
        begun: AtomicU32,
        done: AtomicU32,
        /// The ring of completions, as two counts.
        head: AtomicU32,
        tail: AtomicU32,
        /// Requests whose `queue` has returned.
        queued: AtomicU32,
    }
    let new = || AtomicU32::new(0);
    check(move || {
        let shared = Arc::new(Shared {
            tally: Tally::new(),
            begun: new(),
            done: new(),
            head: new(),
            tail: new(),
            queued: new(),
        });
        let device = {
            let shared = Arc::clone(&shared);
            spawn(move || {
                for _ in 0..2 {
                    if shared.begun.load(Ordering::Acquire) > shared.done.load(Ordering::Relaxed) {
                        shared.done.fetch_add(1, Ordering::SeqCst);
                        shared.tail.fetch_add(1, Ordering::Release);
                    }
                }
            })
        };
        let owner = {
            let shared = Arc::clone(&shared);
            spawn(move || {
                for _ in 0..2 {
                    shared.tally.take();
                    shared.begun.fetch_add(1, Ordering::Release);
                    shared.queued.fetch_add(1, Ordering::SeqCst);
                    let head = shared.head.load(Ordering::Relaxed);
                    if shared.tail.load(Ordering::Acquire) > head {
                        shared.head.fetch_add(1, Ordering::Release);
                        shared.tally.give();
                    }
                }
            })
        };
        let queued = shared.queued.load(Ordering::SeqCst);
        let left = shared.tally.left(|| {
            let head = shared.head.load(Ordering::Acquire);
            shared.tail.load(Ordering::Acquire).wrapping_sub(head)
        });
        let done = shared.done.load(Ordering::SeqCst);
        assert!(done + left >= queued, "{queued} queued, {done} done, {left} counted");
        owner.join().unwrap();
        device.join().unwrap();
    });
}
