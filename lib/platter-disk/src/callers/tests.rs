//! Unit tests of the lane pool. (They are here because a model checker builds the pool on its own.)

use crate::lane_pool::LanePool;
use std::cell::Cell;
use std::sync::mpsc;

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
    let first = pool.take(opens(&next)).unwrap();
    let second = pool.take(opens(&next)).unwrap();
    assert_eq!((first, second), (1, 2));
    assert!(!pool.would_open(), "at the limit");
    pool.put(first);
    assert_eq!(pool.take(opens(&next)), Ok(1));
    assert_eq!(next.get(), 2);
}

#[test]
fn a_caller_waits_for_a_lane_that_comes_back() {
    let pool = LanePool::new(1);
    let lane = pool.take(|| Ok::<_, ()>(7)).ok().unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            tell.send(()).unwrap();
            pool.take(|| Err(())).ok()
        });
        told.recv().unwrap();
        pool.put(lane);
        assert_eq!(waiter.join().unwrap(), Some(7));
    });
}

#[test]
fn a_refusal_of_the_system_is_an_error_only_where_there_is_no_lane() {
    let pool = LanePool::<u32>::new(8);
    assert_eq!(pool.take(|| Err("no room")), Err("no room"));
    assert_eq!(pool.count(), 0);
    let lane = pool.take(|| Ok::<_, &str>(1)).unwrap();
    // Refused, so it waits for the lane that there is.
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            pool.take(|| {
                tell.send(()).unwrap();
                Err(())
            })
        });
        told.recv().unwrap();
        pool.put(lane);
        assert_eq!(waiter.join().unwrap(), Ok(1));
    });
    // The next callers do not try each time, and eventually it works again. The one above was the first that counts, if it came
    // late enough to wait.
    let waits = (0..64).take_while(|_| !pool.would_open()).count();
    assert!((62..=63).contains(&waits), "{waits}");
    pool.closed();
    assert_eq!(pool.take(|| Ok::<_, &str>(2)), Ok(2), "none exists, so it is tried at once");
}

#[test]
fn what_is_idle_for_long_is_taken_out_all_but_a_few() {
    let (pool, next) = (LanePool::new(100), Cell::new(0));
    let lanes: Vec<u32> = (0..10).map(|_| pool.take(opens(&next)).unwrap()).collect();
    lanes.into_iter().for_each(|lane| pool.put(lane));
    assert!(pool.trim().is_empty(), "all of them were in use");
    // One at a time: the other lanes stay idle.
    let lane = pool.take(opens(&next)).unwrap();
    assert_eq!(lane, 10, "the last used");
    pool.put(lane);
    assert_eq!(pool.trim(), [1, 2, 3, 4, 5]);
    assert_eq!((pool.count(), pool.trim().len()), (5, 1));
    assert_eq!((pool.empty().len(), pool.count()), (4, 0));
}

#[test]
fn what_the_system_refused_is_tried_again_when_a_lane_has_been_closed() {
    let pool = LanePool::<u32>::new(8);
    (1..3).for_each(|lane| assert_eq!(pool.take(|| Ok::<_, &str>(lane)), Ok(lane)));
    let tried = Cell::new(0);
    let refused = pool.take(|| {
        tried.set(tried.get() + 1);
        // A call that returns its lane meanwhile.
        pool.put(1);
        Err("no room")
    });
    assert_eq!((refused, tried.get(), pool.would_open()), (Ok(1), 1, false));
    pool.closed();
    assert!(pool.would_open());
}
