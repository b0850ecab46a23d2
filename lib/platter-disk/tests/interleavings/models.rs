//! The models. The checker reports a hang in any of them as a deadlock.

use crate::gate::{Busy, Gate, Seen, View};
use crate::mailbox::Mailbox;
use crate::runner::Runner;
use crate::sync::{AtomicBool, AtomicU32, Mutex, Ordering, lock};
use crate::tally::Tally;
use crate::tokens::Tokens;
use crate::wake::{Armed, ArmedDoorbell, EventFd};
use crate::woken::Woken;
use crate::{ROUNDS, check, never_leaves};
use loom::cell::UnsafeCell;
use loom::thread;
use platter_block::bio::Bio;
use std::rc::Rc;
use std::sync::Arc;

fn spawn(task: impl FnOnce() + 'static) -> thread::JoinHandle<()> {
    thread::spawn(task)
}

/// The gate's state as a lane expects it if nothing has changed.
fn open(gate: &Gate) -> View {
    gate.look().open()
}

/// A lane and the one that closes the gate are never both inside.
#[test]
fn a_closed_gate_keeps_lanes_out() {
    check(|| {
        // The checker runs its threads on one thread of the system.
        let shared = Rc::new((Gate::new(false), Busy::new(), UnsafeCell::new(())));
        let lane = {
            let shared = Rc::clone(&shared);
            spawn(move || {
                let (gate, busy, inside) = &*shared;
                for _ in 0..2 {
                    if busy.enter(gate, open(gate)) {
                        inside.with_mut(|_| ());
                        busy.leave();
                    }
                }
            })
        };
        let (gate, busy, inside) = &*shared;
        gate.freeze();
        assert!(gate.look().is_frozen());
        if busy.look() == Seen::Idle {
            inside.with_mut(|_| ());
        }
        gate.thaw();
        lane.join().unwrap();
    });
}

/// A barrier that finds a lane busy is started by that lane when it leaves; lanes and barrier take turns at running
/// the queue with the barrier.
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
            let step = |state: Option<&mut (bool, bool)>| {
                let Some((waits, started)) = state else { return false };
                *waits |= std::mem::take(&mut *lock(&self.inbox));
                if *waits && self.lanes.iter().all(|lane| lane.look() == Seen::Idle) {
                    *started = true;
                }
                // Releases the lock before it looks for more work.
                true
            };
            self.queue.run(step, never_leaves);
        }
    }
    check(|| {
        let shared = Arc::new(Shared {
            gate: Gate::new(false),
            lanes: [Busy::new(), Busy::new()],
            inbox: Mutex::new(false),
            queue: Runner::new((false, false), ROUNDS),
        });
        let lanes = [0, 1].map(|lane| {
            let shared = Arc::clone(&shared);
            spawn(move || {
                if shared.lanes[lane].enter(&shared.gate, open(&shared.gate)) {
                    shared.lanes[lane].leave();
                    if !shared.gate.look().is_frozen() {
                        return;
                    }
                }
                // Also if it found the gate closed: the barrier may have seen its attempt.
                shared.run();
            })
        });
        shared.gate.freeze();
        *lock(&shared.inbox) = true;
        shared.run();
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        assert!(shared.queue.with(|state| state.1, |_| (), never_leaves));
    });
}

/// A barrier counts a lane that is not run as complete. Afterwards the lane's owner starts neither a retry of its
/// requests nor a new batch.
#[test]
fn a_lane_that_is_counted_starts_nothing_more() {
    struct Lane {
        gate: Gate,
        busy: Busy,
        /// Requests that the device has.
        outstanding: AtomicU32,
        disk: UnsafeCell<()>,
    }
    impl Lane {
        /// The disk completes one request.
        fn start(&self) {
            self.outstanding.store(1, Ordering::SeqCst);
            self.disk.with_mut(|_| ());
            self.outstanding.store(0, Ordering::SeqCst);
        }
    }
    check(|| {
        let lane = Rc::new(Lane {
            gate: Gate::new(false),
            busy: Busy::new(),
            outstanding: AtomicU32::new(0),
            disk: UnsafeCell::new(()),
        });
        let owner = {
            let lane = Rc::clone(&lane);
            spawn(move || {
                let expected = open(&lane.gate);
                if !lane.busy.enter(&lane.gate, expected) {
                    return;
                }
                lane.start();
                lane.busy.all_started();
                // The request was short.
                if !lane.busy.go_on() {
                    lane.start();
                }
                lane.busy.all_started();
                let counted = lane.busy.go_on();
                if lane.gate.look() == expected && !counted {
                    lane.start();
                }
                lane.busy.leave();
            })
        };
        lane.gate.freeze();
        let is_complete = || lane.outstanding.load(Ordering::SeqCst) == 0;
        let goes_ahead = match lane.busy.look() {
            Seen::Idle => true,
            Seen::Started => is_complete() && lane.busy.count(is_complete),
            Seen::Busy => false,
        };
        if goes_ahead {
            lane.disk.with_mut(|_| ());
        }
        owner.join().unwrap();
    });
}

#[test]
fn the_gate_counts_and_keeps_its_mode() {
    check(|| {
        let gate = Arc::new(Gate::new(true));
        let other = {
            let gate = Arc::clone(&gate);
            spawn(move || {
                gate.freeze();
                gate.announce_change();
                gate.set_shared(false);
                gate.thaw();
            })
        };
        let before = gate.look().open();
        gate.freeze();
        gate.set_failed(true);
        gate.set_leftovers(true);
        assert!(gate.look().is_frozen() && gate.look().is_failed() && gate.look().has_leftovers());
        gate.set_failed(false);
        gate.set_leftovers(false);
        assert!(gate.look().is_frozen() && !gate.look().is_failed());
        gate.thaw();
        other.join().unwrap();
        assert!(!gate.look().is_frozen() && !gate.look().is_shared());
        let after = gate.look();
        assert!(after == after.open() && after != View::NEVER);
        gate.announce_change();
        assert!(gate.look() != after && gate.look() != before);
        gate.set_shared(true);
        assert!(gate.look().is_shared() && gate.look().has_elevator());
    });
}

/// Two threads deliver, one collects and sleeps in between.
#[test]
fn a_sleeper_hears_of_its_mail() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Arc::new(Woken::new())));
        let posts = [0, 1].map(|_| {
            let mailbox = Arc::clone(&mailbox);
            spawn(move || {
                assert!(!mailbox.put(Bio::flush()));
                mailbox.ring();
            })
        });
        let mut bios = Vec::new();
        while bios.len() < 2 {
            mailbox.take(&mut bios);
            if bios.len() < 2 {
                let wake = mailbox.fall_asleep().expect("a descriptor");
                if !mailbox.has_mail() {
                    wake.sleep();
                }
                mailbox.wake_up();
            }
        }
        posts.into_iter().for_each(|post| post.join().unwrap());
    });
}

/// As in the service thread: the lane counts as asleep all the time, and a ring for mail that has been collected is
/// reset.
#[test]
fn a_sleeper_that_never_says_it_is_awake_hears_too() {
    check(|| {
        let mailbox = Arc::new(Mailbox::new(Arc::new(Woken::new())));
        let post = {
            let mailbox = Arc::clone(&mailbox);
            spawn(move || {
                for _ in 0..2 {
                    assert!(!mailbox.put(Bio::flush()));
                    mailbox.ring();
                }
            })
        };
        let mut bios = Vec::new();
        while bios.len() < 2 {
            let wake = mailbox.fall_asleep().expect("a descriptor");
            if mailbox.has_mail() {
                mailbox.ring();
            }
            wake.sleep();
            mailbox.take(&mut bios);
        }
        post.join().unwrap();
    });
}

/// A layer changes a state that a thread checks before it sleeps, and nudges that thread.
#[test]
fn a_sleeper_that_is_nudged_looks_again() {
    check(|| {
        let shared = Arc::new((Mailbox::new(Arc::new(Woken::new())), AtomicBool::new(false)));
        let layer = {
            let shared = Arc::clone(&shared);
            spawn(move || {
                shared.1.store(true, Ordering::SeqCst);
                shared.0.nudge();
            })
        };
        while !shared.1.load(Ordering::SeqCst) {
            let wake = shared.0.fall_asleep().expect("a descriptor");
            if !shared.0.take_nudge() {
                wake.sleep();
            }
            shared.0.wake_up();
        }
        layer.join().unwrap();
    });
}

/// A lane is closed while its bios arrive: each is returned once, and exactly one party learns that it is the last.
#[test]
fn a_closed_mailbox_counts_what_is_still_to_come() {
    check(|| {
        let shared = Arc::new((Mailbox::new(Arc::new(Woken::new())), Mutex::new(0)));
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
            shared.0.set_contending(true);
            if got < wanted {
                shared.0.set_hungry(true);
                shared.1.store(shared.0.is_wanted(), Ordering::SeqCst);
                // All tokens, or one request and a share of the three tokens.
                assert!([u32::MAX, 4, 3, 2].contains(&shared.0.allowance(true)));
                shared.0.set_hungry(false);
            } else {
                shared.0.set_satisfied(0, got);
                shared.0.set_satisfied(got, 0);
            }
            shared.0.set_contending(false);
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
        // A lane that is short, and another that computes its share: no token counts as held without need.
        shared.0.set_hungry(true);
        shared.0.set_contending(true);
        assert_eq!(shared.0.allowance(false), 4);
        shared.0.set_hungry(false);
        shared.0.set_contending(false);
        assert!(shared.1.load(Ordering::SeqCst), "three were wanted beside what was lent");
    });
}

/// A driver whose completions arrive in a ring, the device that completes them, and a thread that counts outstanding
/// requests. The count is never less than the number of earlier queued requests that the device had not completed.
#[test]
fn what_is_outstanding_is_never_counted_too_low() {
    struct Shared {
        tally: Tally,
        /// Requests that the device may start, and those that it has completed.
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

/// Two threads ring for changes. The sleeper sees both, and a late signal does not keep it awake for ever.
#[test]
fn a_descriptor_is_not_left_readable_once_it_has_been_heard() {
    check(|| {
        let shared = Arc::new((ArmedDoorbell::new(), AtomicU32::new(0)));
        let ringers = [0, 1].map(|_| {
            let shared = Arc::clone(&shared);
            spawn(move || {
                let (wake, changes) = &*shared;
                changes.fetch_add(1, Ordering::SeqCst);
                wake.ring();
            })
        });
        let (wake, changes) = &*shared;
        loop {
            let fd = wake.arm().expect("a descriptor");
            if changes.load(Ordering::SeqCst) == 2 {
                break;
            }
            fd.sleep();
        }
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
        assert!(!wake.arm().expect("a descriptor").is_readable());
    });
}

/// A descriptor that was not heard is armed again without being cleared: a ring in the meantime is not lost.
#[test]
fn a_descriptor_that_is_armed_again_is_heard() {
    check(|| {
        let shared = Arc::new((Armed::new(), EventFd::new().unwrap(), AtomicU32::new(0)));
        let (armed, fd, changes) = &*shared;
        armed.set();
        let ringers = [0, 1].map(|_| {
            let shared = Arc::clone(&shared);
            spawn(move || {
                let (armed, fd, changes) = &*shared;
                changes.fetch_add(1, Ordering::SeqCst);
                if armed.take() {
                    fd.signal();
                }
            })
        });
        // Awake for another reason.
        armed.clear();
        armed.set();
        if changes.load(Ordering::SeqCst) == 0 {
            fd.sleep();
        }
        ringers.into_iter().for_each(|ringer| ringer.join().unwrap());
        assert_eq!(changes.load(Ordering::SeqCst), 2);
    });
}
