//! Models of the lanes of synchronous callers. A caller that waits for ever is reported as a deadlock.

use crate::check;
use crate::lane_pool::LanePool;
use crate::sync::{Mutex, lock};
use loom::cell::UnsafeCell;
use loom::thread;
use std::rc::Rc;
use std::sync::Arc;

/// A lane in these models: the checker reports two threads that use one at the same time.
type Lane = Rc<UnsafeCell<u32>>;

fn lane() -> Result<Lane, ()> {
    Ok(Rc::new(UnsafeCell::new(0)))
}

fn call(pool: &LanePool<Lane>, open: impl Fn() -> Result<Lane, ()>) -> bool {
    let Ok(lane) = pool.take(open) else { return false };
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
        assert!(!pool.would_open(), "one is all that it may have");
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
        let first = pool.take(lane).ok().unwrap();
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
