//! Models of the lanes of synchronous callers. A caller that waits for ever is reported as a deadlock.

use crate::check;
use crate::lane_pool::{LanePool, NoLane};
use crate::sync::{Mutex, lock};
use loom::cell::UnsafeCell;
use loom::thread;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

fn forever() -> Option<Duration> {
    None
}

/// A lane in these models: the checker reports two threads that use one at the same time.
type Lane = Rc<UnsafeCell<u32>>;

fn lane() -> Result<Lane, ()> {
    Ok(Rc::new(UnsafeCell::new(0)))
}

fn call(pool: &LanePool<Lane>, open: impl Fn() -> Result<Lane, ()>) -> bool {
    let Ok(lane) = pool.take(open, forever) else { return false };
    // SAFETY: the checker proves that no other thread has it.
    lane.with_mut(|count| unsafe { *count += 1 });
    pool.put(lane);
    true
}

#[test]
fn a_lane_has_one_user_and_each_caller_gets_one() {
    check(|| {
        let pool = Rc::new(LanePool::new(1));
        let threads = [0, 1].map(|_| {
            let pool = Rc::clone(&pool);
            thread::spawn(move || assert!(call(&pool, lane)))
        });
        assert!(call(&pool, lane));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((pool.count(), pool.trim().len(), pool.empty().len()), (1, 0, 1));
    });
}

/// The system gives only one lane: each caller gets it eventually, or learns that there is none.
#[test]
fn a_refused_caller_waits_for_the_lane_of_another() {
    check(|| {
        let pool = Rc::new(LanePool::new(3));
        let given = Arc::new(Mutex::new(false));
        let threads = [0, 1].map(|_| {
            let (pool, given) = (Rc::clone(&pool), Arc::clone(&given));
            thread::spawn(move || {
                let open = || if std::mem::replace(&mut *lock(&given), true) { Err(()) } else { lane() };
                call(&pool, open)
            })
        });
        let served = threads.map(|thread| thread.join().unwrap());
        // A caller that was refused before the other had its lane has nothing to wait for.
        assert!(served.contains(&true));
        assert_eq!(pool.empty().len(), 1);
    });
}

/// The only lane is closed while another caller waits for it: that caller opens a lane of its own.
#[test]
fn a_lane_that_is_closed_lets_another_be_opened() {
    check(|| {
        let pool = Rc::new(LanePool::new(1));
        let first = pool.take(lane, forever).ok().unwrap();
        let waiter = {
            let pool = Rc::clone(&pool);
            thread::spawn(move || assert!(call(&pool, lane)))
        };
        drop(first);
        pool.closed();
        waiter.join().unwrap();
        assert_eq!(pool.empty().len(), 1);
    });
}

/// The only lane is set aside, and is closed later: callers get an error or a lane, and never wait for nothing.
#[test]
fn a_lane_that_is_set_aside_leaves_nobody_waiting() {
    check(|| {
        let pool = Rc::new(LanePool::new(1));
        let first = pool.take(lane, forever).ok().unwrap();
        let caller = {
            let pool = Rc::clone(&pool);
            thread::spawn(move || match pool.take(lane, forever) {
                Ok(lane) => pool.put(lane),
                Err(NoLane::AllAside) => {}
                Err(_) => panic!("it can be opened"),
            })
        };
        pool.set_aside();
        pool.closing(1);
        drop(first);
        pool.closed();
        caller.join().unwrap();
        assert!(call(&pool, lane));
    });
}

/// One lane stays in use and one is set aside. Another thread finds that the latter is over; a caller that waits, or is
/// about to, closes it and opens one in its place.
#[test]
fn a_caller_that_waits_learns_that_a_lane_set_aside_is_over() {
    check(|| {
        let pool = Rc::new(LanePool::new(2));
        let used = pool.take(lane, forever).ok().unwrap();
        let over = pool.take(lane, forever).ok().unwrap();
        pool.set_aside();
        let caller = {
            let pool = Rc::clone(&pool);
            thread::spawn(move || {
                if let Err(NoLane::Late) = pool.take(lane, forever) {
                    pool.closing(1);
                    pool.closed();
                    assert!(call(&pool, lane));
                } else {
                    panic!("both lanes are taken");
                }
            })
        };
        pool.over();
        caller.join().unwrap();
        drop(over);
        pool.put(used);
        assert_eq!(pool.empty().len(), 2);
    });
}
