//! Models of a state that one thread runs for all.

use crate::runner::Runner;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use crate::wake::ArmedDoorbell;
use crate::{ROUNDS, check, never_leaves};
use loom::thread;
use std::sync::Arc;

/// Work left to the holder of the lock is done, even if the holder only reads the state.
#[test]
fn no_work_is_left_behind() {
    check(|| {
        let shared = Arc::new((Mutex::new(0), Runner::new(0, ROUNDS)));
        let work = |shared: &(Mutex<u32>, Runner<u32>), done: &mut u32| {
            *done += std::mem::take(&mut *lock(&shared.0));
        };
        let give = move |shared: &(Mutex<u32>, Runner<u32>)| {
            *lock(&shared.0) += 1;
            let step = |done: Option<&mut u32>| {
                done.into_iter().for_each(|done| work(shared, done));
                true
            };
            shared.1.run(step, never_leaves);
        };
        let giver = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || give(&shared))
        };
        let looker = {
            let shared = Arc::clone(&shared);
            // Work that takes some time.
            thread::spawn(move || {
                shared.1.with(|_| drop(lock(&shared.0)), |done| work(&shared, done), never_leaves)
            })
        };
        give(&shared);
        giver.join().unwrap();
        looker.join().unwrap();
        assert_eq!(*lock(&shared.0), 0);
        assert_eq!(shared.1.with(|done| *done, |_| (), never_leaves), 2);
    });
}

/// A thread does its work at once if it gets the lock, and else leaves it to the holder.
#[test]
fn no_work_is_left_behind_that_is_done_at_once_if_possible() {
    check(|| {
        let shared = Arc::new((Mutex::new(0), Runner::new(0, ROUNDS)));
        let give = |shared: &(Mutex<u32>, Runner<u32>)| {
            let mut own = 1;
            let mut step = |done: Option<&mut u32>| {
                let taken = std::mem::take(&mut *lock(&shared.0)) + std::mem::take(&mut own);
                done.into_iter().for_each(|done| *done += taken);
                false
            };
            if !shared.1.run_at_once(&mut step, never_leaves) {
                *lock(&shared.0) += std::mem::take(&mut own);
                shared.1.run(
                    |done| {
                        done.into_iter().for_each(|done| *done += std::mem::take(&mut *lock(&shared.0)));
                        false
                    },
                    never_leaves,
                );
            }
        };
        let givers = [0, 1].map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || give(&shared))
        });
        givers.into_iter().for_each(|giver| giver.join().unwrap());
        assert_eq!(*lock(&shared.0), 0);
        assert_eq!(shared.1.with(|done| *done, |_| (), never_leaves), 2);
    });
}

/// A thread works only one round in a row, and leaves the rest to one that sleeps, which it rings. As the lane that polls
/// the driver does, the sleeper visits the state before it sleeps, and is rung for work that others have done.
#[test]
fn work_that_is_left_is_done_by_the_thread_that_is_called() {
    struct Shared {
        inbox: Mutex<u32>,
        done: AtomicU32,
        runner: Runner<()>,
        wake: ArmedDoorbell,
    }
    impl Shared {
        fn work(&self) {
            let new = std::mem::take(&mut *lock(&self.inbox));
            self.done.fetch_add(new, Ordering::SeqCst);
        }

        fn give(&self) {
            *lock(&self.inbox) += 1;
            let step = |state: Option<&mut ()>| {
                let has_rest = state.is_some();
                if has_rest {
                    self.work()
                } else {
                    self.wake.ring()
                }
                has_rest
            };
            self.runner.run(step, || self.wake.ring());
        }
    }
    check(|| {
        let shared = Arc::new(Shared {
            inbox: Mutex::new(0),
            done: AtomicU32::new(0),
            runner: Runner::new((), 1),
            wake: ArmedDoorbell::new(),
        });
        let givers = [0, 1].map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.give())
        });
        loop {
            let fd = shared.wake.arm().expect("a descriptor");
            shared.runner.with(|()| (), |()| shared.work(), || shared.wake.ring());
            if shared.done.load(Ordering::SeqCst) == 2 {
                break;
            }
            fd.sleep();
        }
        givers.into_iter().for_each(|giver| giver.join().unwrap());
    });
}
