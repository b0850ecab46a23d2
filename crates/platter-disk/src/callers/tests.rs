//! Unit tests of the lane pool. (They are here because a model checker builds the pool on its own.)

use crate::lane_pool::{LanePool, NoLane};
use std::cell::Cell;
use std::sync::mpsc;
use std::time::Duration;

const FOREVER: fn() -> Option<Duration> = || None;

/// Lanes are numbers in these tests.
fn opens(next: &Cell<u32>) -> impl Fn() -> Result<u32, &'static str> + '_ {
    || {
        next.set(next.get() + 1);
        Ok(next.get())
    }
}

#[test]
fn lanes_are_used_again_and_bounded() {
    let (pool, next) = (LanePool::new(2), Cell::new(0));
    let first = pool.take(opens(&next), FOREVER).ok().unwrap();
    let second = pool.take(opens(&next), FOREVER).ok().unwrap();
    assert_eq!((first, second), (1, 2));
    let late = pool.take(opens(&next), || Some(Duration::ZERO));
    assert!(matches!(late, Err(NoLane::Late)));
    pool.put(first);
    assert_eq!(pool.take(opens(&next), FOREVER).ok(), Some(1));
    assert_eq!(next.get(), 2);
}

#[test]
fn a_caller_waits_for_a_lane_that_comes_back() {
    let pool = LanePool::new(1);
    let lane = pool.take(|| Ok::<_, ()>(7), FOREVER).ok().unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            tell.send(()).unwrap();
            pool.take(|| Err(()), FOREVER).ok()
        });
        told.recv().unwrap();
        pool.put(lane);
        assert_eq!(waiter.join().unwrap(), Some(7));
    });
}

#[test]
fn a_refusal_of_the_system_is_an_error_only_where_there_is_no_lane() {
    let pool = LanePool::<u32>::new(8);
    let refuse = || Err("no room");
    assert!(matches!(pool.take(refuse, FOREVER), Err(NoLane::Failed("no room"))));
    assert_eq!(pool.count(), 0);
    let lane = pool.take(|| Ok::<_, &str>(1), FOREVER).ok().unwrap();
    // Refused, so it would wait for the existing lane.
    let tried = Cell::new(0);
    let refuse = || {
        tried.set(tried.get() + 1);
        Err::<u32, _>("no room")
    };
    let late = || Some(Duration::ZERO);
    assert!(matches!(pool.take(refuse, late), Err(NoLane::Late)));
    assert_eq!(tried.get(), 1);
    // The next callers do not try each time, and eventually it works again.
    let mut turns = 0;
    while tried.get() == 1 {
        assert!(pool.take(refuse, late).is_err());
        turns += 1;
    }
    assert_eq!(turns, 63, "its own second attempt is the first that counts");
    pool.put(lane);
    assert_eq!(pool.take(refuse, FOREVER).ok(), Some(1));
    pool.closed();
    assert_eq!(pool.take(|| Ok::<_, &str>(2), FOREVER).ok(), Some(2), "none exists, so it is tried at once");
}

#[test]
fn what_is_idle_for_long_is_taken_out_all_but_a_few() {
    let (pool, next) = (LanePool::new(100), Cell::new(0));
    let lanes: Vec<u32> = (0..10).map(|_| pool.take(opens(&next), FOREVER).ok().unwrap()).collect();
    lanes.into_iter().for_each(|lane| pool.put(lane));
    assert!(pool.trim().is_empty(), "all of them were in use");
    // One at a time: the other lanes stay idle.
    let lane = pool.take(opens(&next), FOREVER).ok().unwrap();
    assert_eq!(lane, 10, "the last used");
    pool.put(lane);
    assert_eq!(pool.trim(), [1, 2, 3, 4, 5]);
    assert_eq!((pool.count(), pool.trim().len()), (5, 1));
    assert_eq!((pool.empty().len(), pool.count()), (4, 0));
}

#[test]
fn lanes_that_are_set_aside_count() {
    let (pool, next) = (LanePool::new(2), Cell::new(0));
    for _ in 0..2 {
        pool.take(opens(&next), FOREVER).ok().unwrap();
        pool.set_aside();
    }
    assert!(matches!(pool.take(opens(&next), FOREVER), Err(NoLane::AllAside)));
    pool.closing(1);
    pool.closed();
    assert_eq!(pool.take(opens(&next), FOREVER).ok(), Some(3));
}

/// One lane stays in use. A call that needs a lane learns that the other one, which was set aside, may be over.
#[test]
fn a_caller_that_would_wait_is_told_that_a_lane_set_aside_may_be_over() {
    let (pool, next) = (LanePool::new(2), Cell::new(0));
    (0..2).for_each(|_| assert!(pool.take(opens(&next), FOREVER).is_ok()));
    pool.set_aside();
    pool.over();
    assert!(matches!(pool.take(opens(&next), FOREVER), Err(NoLane::Late)), "at once");
    pool.closing(1);
    pool.closed();
    assert_eq!(pool.take(opens(&next), FOREVER).ok(), Some(3));
}

#[test]
fn what_the_system_refused_is_tried_again_when_a_lane_has_been_closed() {
    let pool = LanePool::<u32>::new(8);
    let late = || Some(Duration::ZERO);
    (1..3).for_each(|lane| assert_eq!(pool.take(|| Ok::<_, &str>(lane), late).ok(), Some(lane)));
    assert!(matches!(pool.take(|| Err("no room"), late), Err(NoLane::Late)));
    pool.set_aside();
    pool.closing(1);
    pool.closed();
    assert_eq!(pool.take(|| Ok::<_, &str>(3), late).ok(), Some(3));
}
