//! Which queue goes before which: preemption, recovery of what was missed, charges and the pool.

use super::*;

/// Two requests of `first` begin a service; then `second` comes. Who goes next?
fn next_after(first: [RequestInfo; 2], second: &RequestInfo) -> u32 {
    let mut bfq = bfq(&[("low_latency", 0), ("rotational", 1)]);
    bfq.insert(Time(0), id(0), &first[0]);
    bfq.insert(Time(0), id(1), &first[1]);
    assert_eq!(bfq.dispatch(Time(0), false), Some(id(0)));
    bfq.insert(Time(0), id(2), second);
    bfq.dispatch(Time(0), true).expect("a request").index
}

/// Linux: the last condition of `bfq_bfqq_handle_idle_busy_switch`.
#[test]
fn who_becomes_busy_ends_the_service_of_a_queue_that_need_not_be_waited_for() {
    let level = |level, context| RequestInfo {
        ioprio: IoPrio::new(Class::BestEffort, level),
        ..read(context, u64::from(context) << 20, 8)
    };
    assert_eq!(next_after([write(0, 8), write(8, 8)], &read(2, 1 << 20, 8)), 2, "asynchronous writes");
    assert_eq!(next_after([read(1, 0, 8), read(1, 8, 8)], &read(2, 1 << 20, 8)), 1, "a stream on a disk");
    assert_eq!(next_after([level(7, 1), level(7, 1)], &level(0, 2)), 2, "a smaller weight");
    assert_eq!(next_after([level(0, 1), level(0, 1)], &level(7, 2)), 1, "a greater weight");
}

/// Linux: `bfq_bfqq_update_budg_for_activation` and the timestamps in `__bfq_activate_entity`.
#[test]
fn who_missed_a_service_for_a_moment_has_it_at_once() {
    // What is left of its budget, or a new one.
    for (ms, budget) in [(24, 56), (25, 5461)] {
        let mut bfq = bfq(&[("low_latency", 0), ("slice_idle", 8), ("rotational", 2)]);
        let own = read(1, 0, 8);
        bfq.insert(Time(0), id(0), &own);
        let of = record(&bfq, &own);
        bfq.procs[of].budget = 64;
        bfq.insert(Time(0), id(1), &read(2, 1 << 20, 8));
        bfq.insert(Time(0), id(2), &read(2, 2 << 20, 8));
        assert_eq!(bfq.dispatch(Time(0), false), Some(id(0)));
        bfq.completed(Time(0), id(0), &own);
        assert!(bfq.procs[of].expected, "its service has ended because it had no request");
        bfq.procs[of].max_budget = 5461;
        assert_eq!(bfq.dispatch(Time(0), false).map(|id| id.index), Some(1));
        bfq.insert(Time(ms * MS), id(0), &read(1, 8, 8));
        assert_eq!(bfq.procs[of].budget, budget, "after {ms} ms");
        assert!(!bfq.procs[of].expected);
    }
}

/// Linux: `bfq_serv_to_charge`.
#[test]
fn asynchronous_sectors_cost_the_same_if_shares_differ() {
    for (level, charge) in [(4, 24), (0, 8), (7, 8)] {
        let mut bfq = bfq(&[("low_latency", 0)]);
        let other = RequestInfo { ioprio: IoPrio::new(Class::BestEffort, level), ..read(1, 0, 8) };
        bfq.insert(Time(0), id(0), &write(0, 8));
        bfq.insert(Time(0), id(1), &other);
        let of = record(&bfq, &write(0, 8));
        // The queue with the least weight gets its share in any case.
        let charge = if level == 0 { 24 } else { charge };
        assert_eq!(bfq.charge(of, Some(id(0))), charge, "beside level {level}");
    }
}

/// Linux: `bfq_bfqq_is_slow`, `bfq_bfqq_charge_time`.
#[test]
fn a_slow_service_is_charged_as_time() {
    // Milliseconds in service, sectors, whether the requests are scattered; what is charged.
    #[rustfmt::skip]
    let cases = [
        (20, 8, false, 8),
        (21, 8, false, 16384 * 21 / 125),
        (21, 8192, false, 8192),
        // Less than a millisecond: as long as a seek.
        (0, 8, true, 16384 * 8 / 125),
        (5, 8, true, 16384 * 5 / 125),
    ];
    for (ms, sectors, scattered, charged) in cases {
        let mut bfq = bfq(&[("low_latency", 0), ("rotational", 1), ("slice_idle", 0)]);
        let info = read(1, 0, sectors);
        bfq.insert(Time(0), id(0), &info);
        let of = record(&bfq, &info);
        bfq.procs[of].seeks = if scattered { u32::MAX } else { 0 };
        assert_eq!(bfq.dispatch(Time(0), false), Some(id(0)));
        bfq.completed(Time(ms * MS), id(0), &info);
        assert_eq!(bfq.procs[of].service, charged, "{ms} ms, {sectors} sectors, scattered {scattered}");
    }
}

/// Linux: `bfq_update_depths`: a half and three quarters, beside raised queues 3/16 and 6/16.
#[test]
fn writes_leave_requests_to_reads() {
    for (low_latency, async_most, most) in [(0, 64, 96), (1, 24, 48)] {
        let mut bfq = bfq(&[("low_latency", low_latency)]);
        bfq.reserve(200);
        bfq.depth_updated(128);
        bfq.insert(Time(0), id(199), &read(9, 0, 8));
        let context = Context::new(1);
        for i in 0..most {
            let expected = if i < async_most { MayQueue::May } else { MayQueue::No };
            assert_eq!(bfq.may_queue_async(context, Dir::Write), expected, "{i} writes");
            assert_eq!(bfq.may_queue(context, Dir::Write), MayQueue::May, "{i} writes");
            let sync = i >= async_most;
            bfq.insert(Time(0), id(i), &RequestInfo { sync, ..write(u64::from(i) * 1000, 8) });
        }
        assert_eq!(bfq.may_queue(context, Dir::Write), MayQueue::No);
        assert_eq!(bfq.may_queue(context, Dir::Read), MayQueue::May);
    }
}

/// Linux: `bfq_update_hw_tag`.
#[test]
fn a_device_queues_once_it_had_four_requests_at_once() {
    let mut bfq = bfq(&[("low_latency", 0)]);
    assert_eq!(bfq.device.queues(), None);
    (0..33).for_each(|_| bfq.device.look_at_queue(3, 1, false));
    assert_eq!(bfq.device.queues(), Some(false));
    (0..33).for_each(|_| bfq.device.look_at_queue(2, 60, true));
    assert_eq!(bfq.device.queues(), Some(false), "one queue alone says nothing");
    (0..33).for_each(|i| bfq.device.look_at_queue(if i == 0 { 4 } else { 1 }, 5, false));
    assert_eq!(bfq.device.queues(), Some(true));
    (0..99).for_each(|_| bfq.device.look_at_queue(1, 5, false));
    assert_eq!(bfq.device.queues(), Some(true), "it does not forget that");
}
