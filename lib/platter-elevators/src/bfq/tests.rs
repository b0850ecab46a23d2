//! Small vectors: arrivals, dispatches and the resulting state of a queue. Closed loops are in `shares`.

use super::serve::next_budget;
use super::*;
use platter_block::bio::{Class, IoPrio};
use platter_block::elevator::Dir;

mod inject;
mod order;
mod shares;

const MS: u64 = 1_000_000;

/// A bfq with some parameters set.
fn bfq(settings: &[(&str, i64)]) -> Bfq {
    let mut bfq = Bfq::default();
    settings.iter().for_each(|&(name, value)| bfq.set(name, value).expect("a parameter in range"));
    bfq.reserve(64);
    bfq
}

fn read(context: u32, sector: u64, sectors: u64) -> RequestInfo {
    RequestInfo {
        pos: sector * 512,
        len: sectors * 512,
        dir: Dir::Read,
        op: Op::Read,
        sync: true,
        ioprio: IoPrio::NONE,
        context: Context::new(context),
    }
}

fn write(sector: u64, sectors: u64) -> RequestInfo {
    RequestInfo { dir: Dir::Write, op: Op::Write, sync: false, ..read(0, sector, sectors) }
}

fn id(index: u32) -> RequestId {
    RequestId { index, generation: 1 }
}

/// A request arrives, goes to the device at once and completes at once.
fn serve(bfq: &mut Bfq, ms: u64, info: &RequestInfo) {
    bfq.insert(Time(ms * MS), id(0), info);
    assert_eq!(bfq.dispatch(Time(ms * MS), true), Some(id(0)));
    bfq.completed(Time(ms * MS), id(0), info);
}

fn record(bfq: &Bfq, info: &RequestInfo) -> u32 {
    bfq.procs.find(key_of(info)).expect("a queue that is known")
}

#[test]
fn budgets_follow_what_a_queue_makes_of_them() {
    const BOUNDS: (u64, u64) = (512, 16384);
    #[rustfmt::skip]
    let cases = [
        // Reason, old budget, sectors used of it, requests in the device; new budget.
        (Reason::TooIdle, 4096, 100, true, 8192),
        (Reason::TooIdle, 16000, 100, true, 16384),
        (Reason::TooIdle, 4096, 100, false, 4096 - 4 * 512),
        (Reason::TooIdle, 5 * 512 + 1, 100, false, 513),
        (Reason::TooIdle, 5 * 512, 100, false, 512),
        (Reason::Timeout, 4096, 100, false, 8192),
        (Reason::Timeout, 10_000, 100, false, 16384),
        (Reason::Exhausted, 1024, 1024, false, 4096),
        (Reason::Exhausted, 8192, 8192, true, 16384),
        (Reason::NoMore, 4096, 700, false, 700),
        (Reason::NoMore, 4096, 8, true, 512),
        (Reason::Preempted, 4096, 8, true, 4096),
    ];
    for (reason, old, used, outstanding, new) in cases {
        assert_eq!(
            next_budget(reason, old, used, outstanding, BOUNDS),
            new,
            "{reason:?} {old} {used} {outstanding}"
        );
    }
}

#[test]
fn a_queue_is_seeky_when_more_than_19_of_its_last_32_requests_jumped() {
    for (jumps, distance, seeky) in [(19, 801, false), (20, 801, true), (32, 800, false), (32, 801, true)] {
        let mut bfq = bfq(&[]);
        let mut sector = 1 << 20;
        for i in 0..33 {
            // Distance from the end of the last request.
            sector += 8 + if i > 32 - jumps { distance } else { 0 };
            serve(&mut bfq, i, &read(1, sector, 8));
        }
        let record = record(&bfq, &read(1, 0, 8));
        assert_eq!(bfq.procs[record].is_seeky(), seeky, "{jumps} jumps of {distance} sectors");
    }
}

/// Linux: `BFQ_RQ_SEEKY`.
#[test]
fn without_seek_times_only_short_requests_are_seeks() {
    for (rotational, sectors, seeky) in [(2, 63, true), (2, 64, false), (1, 64, true), (1, 1024, true)] {
        let mut bfq = bfq(&[("rotational", rotational)]);
        for i in 0..33 {
            serve(&mut bfq, i, &read(1, (i + 1) << 20, sectors));
        }
        let record = record(&bfq, &read(1, 0, 8));
        assert_eq!(bfq.procs[record].is_seeky(), seeky, "rotational={rotational}: {sectors} sectors");
    }
}

#[test]
fn who_was_idle_for_two_seconds_is_interactive() {
    for (gap, why) in [(1900, Why::SoftRealTime), (2100, Why::Interactive)] {
        let mut bfq = bfq(&[("wr_max_time", 1000)]);
        let info = read(1, 0, 8);
        bfq.insert(Time(0), id(0), &info);
        let record = record(&bfq, &info);
        assert_eq!(bfq.procs[record].raise.why, Why::Interactive, "a new process is");
        assert_eq!(bfq.weight(record), 40 * 30);
        assert_eq!(bfq.dispatch(Time(0), false), Some(id(0)));
        bfq.completed(Time(0), id(0), &info);
        serve(&mut bfq, 30 + gap, &info);
        assert_eq!(bfq.procs[record].raise.why, why, "after {gap} ms");
    }
}

#[test]
fn raising_ends_after_its_time_or_its_sectors() {
    // When the second request starts, sectors of the first; whether the queue is still raised then.
    for (ms, sectors, raised) in
        [(1000, 8, true), (1001, 8, false), (10, 119_992, true), (10, 119_993, false)]
    {
        let mut bfq = bfq(&[("wr_max_time", 1000), ("wr_max_softrt_rate", 0)]);
        let info = read(1, 0, sectors);
        bfq.insert(Time(0), id(0), &info);
        assert_eq!(bfq.dispatch(Time(0), false), Some(id(0)));
        bfq.insert(Time(0), id(1), &read(1, sectors, 8));
        assert_eq!(bfq.dispatch(Time(ms * MS), false), Some(id(1)));
        let record = record(&bfq, &info);
        assert_eq!(bfq.procs[record].is_raised(), raised, "after {ms} ms and {sectors} sectors");
        assert_eq!(bfq.weight(record), if raised { 1200 } else { 40 });
    }
}

/// Linux: `bfq_add_request`. Of a queue that is not raised, the time of the last arrival counts; in the end its sectors do.
#[test]
fn asynchronous_writes_are_raised_after_a_pause_only() {
    for (gap, raised) in [(1, false), (500, false), (501, true)] {
        let mut bfq = bfq(&[]);
        bfq.insert(Time(0), id(0), &read(1, 0, 8));
        for i in 0..8 {
            bfq.insert(Time(u64::from(i) * gap * MS), id(i + 1), &write(u64::from(i) * 1000, 8));
        }
        let of = record(&bfq, &write(0, 8));
        assert_eq!(bfq.procs[of].is_raised(), raised, "every {gap} ms");
    }
    let mut bfq = bfq(&[]);
    bfq.insert(Time(0), id(0), &write(0, 8));
    bfq.insert(Time(501 * MS), id(1), &write(1000, 120_001));
    let of = record(&bfq, &write(0, 8));
    assert!(bfq.procs[of].is_raised());
    assert!(bfq.dispatch(Time(502 * MS), true).is_some() && bfq.procs[of].is_raised());
    assert!(bfq.dispatch(Time(502 * MS), true).is_some() && !bfq.procs[of].is_raised());
}

/// Linux since 5.12: a queue with another priority was given its weight by the user.
#[test]
fn only_the_default_weight_is_raised() {
    for (level, raised) in [(3, false), (4, true), (5, false)] {
        let mut bfq = bfq(&[]);
        let info = RequestInfo { ioprio: IoPrio::new(Class::BestEffort, level), ..read(1, 0, 8) };
        bfq.insert(Time(0), id(0), &info);
        assert_eq!(bfq.procs[record(&bfq, &info)].is_raised(), raised, "level {level}");
    }
}

#[test]
fn how_long_raising_lasts_follows_the_rate_of_the_device() {
    let mut bfq = bfq(&[]);
    // Two thirds of a disk's reference rate: one and a half times its 7 s.
    assert_eq!(bfq.raise_time().as_millis(), 10_500);
    bfq.set("rotational", 2).expect("in range");
    assert_eq!(bfq.raise_time().as_millis(), 3750);
    bfq.set("wr_max_time", 123).expect("in range");
    assert_eq!(bfq.raise_time().as_millis(), 123);
}

/// Serves four requests of a process that is not waited for, each a millisecond long, and returns why it is raised.
fn pace(settings: &[(&str, i64)], sectors: u64, gap: u64, scattered: bool) -> Why {
    let mut bfq = bfq(settings);
    bfq.set("slice_idle", 0).expect("in range");
    bfq.set("wr_max_time", 1).expect("in range");
    let at = |i: u64| read(1, if scattered { (i + 1) << 20 } else { i * sectors }, sectors);
    let times = if scattered { 40 } else { 4 };
    for i in 0..times {
        bfq.insert(Time(i * gap * MS), id(0), &at(i));
        assert!(bfq.dispatch(Time(i * gap * MS), true).is_some());
        bfq.completed(Time((i * gap + 1) * MS), id(0), &at(i));
    }
    bfq.insert(Time(times * gap * MS), id(0), &at(times));
    bfq.procs[record(&bfq, &at(0))].raise.why
}

/// Linux: `bfq_bfqq_softrt_next_start`, `BFQQ_TOTALLY_SEEKY`.
#[test]
fn a_steady_moderate_rate_is_soft_real_time() {
    // Sectors per request, milliseconds between requests.
    #[rustfmt::skip]
    let cases = [
        // 7000 sectors per second allow 100 every 14.3 ms.
        (100, 15, true),
        (100, 14, false),
        (200, 28, false),
        (200, 29, true),
        // Slow enough, but no slower than a process that waits for the device and thinks a little: four ticks.
        (8, 5, false),
        (8, 6, true),
    ];
    for (sectors, gap, soft) in cases {
        let why = pace(&[], sectors, gap, false);
        assert_eq!(why == Why::SoftRealTime, soft, "{sectors} sectors every {gap} ms");
    }
    assert_eq!(pace(&[("wr_max_softrt_rate", 0)], 100, 15, false), Why::Not);
    assert_eq!(pace(&[], 8, 15, true), Why::Not, "it seeks with all of its last 32 requests");
}

/// Linux: `bfq_update_wr_data`.
#[test]
fn after_soft_real_time_the_interactive_raising_goes_on() {
    let mut bfq = bfq(&[("wr_max_time", 5000), ("slice_idle", 0), ("timeout_sync", 1000)]);
    let info = read(1, 0, 8);
    serve(&mut bfq, 0, &info);
    serve(&mut bfq, 1000, &info);
    let of = record(&bfq, &info);
    assert_eq!(bfq.procs[of].raise.why, Why::SoftRealTime);
    // It waits for a millisecond, which does not count.
    (0..3).for_each(|i| bfq.insert(Time(1001 * MS), id(i), &read(1, 8 * u64::from(i), 8)));
    assert!(bfq.dispatch(Time(1002 * MS), false).is_some());
    assert!(bfq.dispatch(Time(1302 * MS), false).is_some());
    assert_eq!(bfq.procs[of].raise.why, Why::SoftRealTime);
    assert!(bfq.dispatch(Time(1303 * MS), false).is_some());
    assert_eq!((bfq.procs[of].raise.why, bfq.procs[of].raise.since), (Why::Interactive, Time(0)));
}

/// Linux: `bfq_handle_burst`, `bfq_large_burst_thresh` and `bfq_burst_interval`.
#[test]
fn none_of_a_large_burst_is_raised() {
    for (queues, gap, raised) in [(7, 10, true), (8, 10, false), (12, 180, false), (12, 181, true)] {
        let mut bfq = bfq(&[]);
        for i in 0..queues {
            bfq.insert(Time(u64::from(i) * gap * MS), id(i), &read(i, 0, 8));
        }
        let now = Time(u64::from(queues) * gap * MS);
        while bfq.dispatch(now, true).is_some() {}
        let all = (0..queues).all(|i| bfq.procs[record(&bfq, &read(i, 0, 8))].is_raised() == raised);
        assert!(all, "{queues} queues, {gap} ms apart");
    }
}

#[test]
fn beside_others_no_burst_begins() {
    let mut bfq = bfq(&[]);
    bfq.insert(Time(0), id(20), &write(0, 8));
    for i in 0..12 {
        bfq.insert(Time(0), id(i), &read(i, 0, 8));
    }
    assert!((0..12).all(|i| bfq.procs[record(&bfq, &read(i, 0, 8))].is_raised()));
}

/// Linux: `bfq_bfqq_handle_idle_busy_switch` clears the flag after 10 s, for the next time.
#[test]
fn a_burst_is_over_for_a_queue_that_rests_for_ten_seconds() {
    for (rest, left) in [(9_900, false), (10_100, true)] {
        let mut bfq = bfq(&[]);
        for i in 0..8 {
            bfq.insert(Time(0), id(i), &read(i, 0, 8));
        }
        while let Some(started) = bfq.dispatch(Time(0), true) {
            bfq.completed(Time(0), started, &read(started.index, 0, 8));
        }
        bfq.dispatch(Time(100 * MS), false);
        bfq.insert(Time((100 + rest) * MS), id(0), &read(1, 0, 8));
        let it = &bfq.procs[record(&bfq, &read(1, 0, 8))];
        assert_eq!((it.in_large_burst, it.is_raised()), (!left, false), "after {rest} ms");
    }
}

#[test]
fn low_latency_off_raises_nobody() {
    let mut bfq = bfq(&[]);
    let info = read(1, 0, 8);
    bfq.insert(Time(0), id(0), &info);
    bfq.set("low_latency", 0).expect("in range");
    assert!(bfq.dispatch(Time(0), false).is_some());
    assert!(!bfq.procs[record(&bfq, &info)].is_raised(), "it ends for those who are");
    serve(&mut bfq, 5000, &read(2, 0, 8));
    assert!(!bfq.procs[record(&bfq, &read(2, 0, 8))].is_raised());
}

#[test]
fn a_process_is_waited_for() {
    struct Case {
        name: &'static str,
        settings: &'static [(&'static str, i64)],
        /// When the other process is served instead, after the first one's request has completed.
        until: u64,
    }
    #[rustfmt::skip]
    let cases = [
        Case { name: "for slice_idle", settings: &[("low_latency", 0)], until: 8 },
        Case { name: "for as long as set", settings: &[("low_latency", 0), ("slice_idle", 3)], until: 3 },
        Case { name: "not at all", settings: &[("low_latency", 0), ("slice_idle", 0)], until: 0 },
        Case { name: "when it is raised and others are not, for 20 ms", settings: &[], until: 20 },
        Case { name: "under strict guarantees anyway", settings: &[("low_latency", 0), ("strict_guarantees", 1)], until: 8 },
    ];
    for case in cases {
        let mut bfq = bfq(case.settings);
        bfq.insert(Time(0), id(0), &read(1, 0, 8));
        assert_eq!(bfq.dispatch(Time(0), false), Some(id(0)));
        bfq.insert(Time(0), id(1), &write(1 << 20, 8));
        bfq.completed(Time(0), id(0), &read(1, 0, 8));
        if case.until > 0 {
            let just_before = Time(case.until * MS - 1);
            assert_eq!(bfq.dispatch(just_before, false), None, "{}", case.name);
            assert_eq!(bfq.next_wakeup(), Some(Time(case.until * MS)), "{}", case.name);
        }
        assert_eq!(bfq.dispatch(Time(case.until * MS), false), Some(id(1)), "{}", case.name);
        assert_eq!(bfq.next_wakeup(), None);
    }
}

#[test]
fn a_request_that_comes_in_time_goes_on() {
    let mut bfq = bfq(&[("low_latency", 0)]);
    bfq.insert(Time(0), id(0), &read(1, 0, 8));
    bfq.insert(Time(0), id(1), &read(2, 1 << 20, 8));
    assert_eq!(bfq.dispatch(Time(0), false), Some(id(0)));
    bfq.completed(Time(10 * MS), id(0), &read(1, 0, 8));
    assert_eq!(bfq.dispatch(Time(11 * MS), false), None);
    bfq.insert(Time(12 * MS), id(2), &read(1, 8, 8));
    assert_eq!(bfq.dispatch(Time(12 * MS), false), Some(id(2)));
    // Its process has exited: no wait.
    bfq.completed(Time(13 * MS), id(2), &read(1, 8, 8));
    assert_eq!(bfq.dispatch(Time(13 * MS), false), None);
    bfq.exited(Time(13 * MS), Context::new(1));
    assert_eq!(bfq.dispatch(Time(13 * MS), false), Some(id(1)));
}

/// Linux: `bfq_update_io_intensity`, `idling_boosts_thr_without_issues`.
#[test]
fn only_who_is_busy_most_of_the_time_is_waited_for() {
    // Milliseconds of each 100 ms in which the process has a request.
    for (busy, waits) in [(79, false), (81, true)] {
        let mut bfq = bfq(&[("low_latency", 0), ("slice_idle", 100)]);
        for i in 0..10 {
            bfq.insert(Time(i * 100 * MS), id(0), &read(1, i * 8, 8));
            assert_eq!(bfq.dispatch(Time(i * 100 * MS), true), Some(id(0)));
            bfq.completed(Time((i * 100 + busy) * MS), id(0), &read(1, i * 8, 8));
        }
        let record = record(&bfq, &read(1, 0, 8));
        assert_eq!(bfq.wait_pays(record), waits, "{busy} of 100 ms");
    }
}

/// Linux: `bfq_update_has_short_ttime` compares with half of `slice_idle`.
#[test]
fn only_who_thinks_for_less_than_half_the_wait_streams() {
    for (think, short) in [(3, true), (4, true), (5, false)] {
        let mut bfq = bfq(&[("low_latency", 0), ("slice_idle", 8)]);
        let info = read(1, 0, 8);
        for i in 0..8 {
            // Preempted by the real-time class, so that it is not waited for.
            let now = Time(i * think * MS);
            bfq.insert(now, id(0), &info);
            bfq.dispatch(now, true);
            bfq.completed(now, id(0), &info);
            bfq.exited(now, Context::new(1));
        }
        let record = record(&bfq, &info);
        assert_eq!(bfq.procs[record].short_think, short, "{think} ms");
    }
}

#[test]
fn on_fast_disks_that_queue_nobody_is_waited_for_unless_shares_need_it() {
    for (rotational, level, waits) in [(2, 4, false), (2, 0, true), (1, 4, true)] {
        let mut bfq = bfq(&[("low_latency", 0), ("rotational", rotational)]);
        // Many at once: the device queues.
        for i in 0..60 {
            bfq.insert(Time(0), id(i), &read(9, 1000 + 8 * u64::from(i), 8));
        }
        while let Some(id) = bfq.dispatch(Time(0), false) {
            assert_eq!(id.generation, 1);
        }
        (0..60).for_each(|i| bfq.completed(Time(0), id(i), &read(9, 1000 + 8 * u64::from(i), 8)));
        let first = RequestInfo { ioprio: IoPrio::new(Class::BestEffort, level), ..read(1, 0, 8) };
        let second = read(2, 1 << 20, 8);
        bfq.insert(Time(1000 * MS), id(0), &first);
        bfq.insert(Time(1000 * MS), id(1), &second);
        assert_eq!(bfq.dispatch(Time(1000 * MS), false), Some(id(0)));
        bfq.completed(Time(1001 * MS), id(0), &first);
        assert_eq!(
            bfq.dispatch(Time(1001 * MS), false).is_none(),
            waits,
            "rotational={rotational} level {level}"
        );
    }
}

#[test]
fn lone_scattered_reads_tell_whether_seeks_take_time() {
    for (us, rotational) in [(80, false), (900, false), (1100, true), (8000, true)] {
        let mut bfq = bfq(&[]);
        assert!(bfq.is_rotational(), "until something is known");
        for i in 0..32 {
            let info = read(1, (i * 7919 % 1000) << 12, 8);
            bfq.insert(Time(i * 100 * MS), id(0), &info);
            assert!(bfq.dispatch(Time(i * 100 * MS), true).is_some());
            bfq.completed(Time(i * 100 * MS + us * 1000), id(0), &info);
        }
        assert_eq!(bfq.is_rotational(), rotational, "{us} us");
    }
}

#[test]
fn classes_are_strict() {
    let mut bfq = bfq(&[("low_latency", 0)]);
    let of = |class, context| RequestInfo { ioprio: IoPrio::new(class, 4), ..read(context, 0, 8) };
    for (i, class) in [Class::Idle, Class::BestEffort, Class::RealTime].into_iter().enumerate() {
        let i = i as u32;
        bfq.insert(Time(0), id(2 * i), &of(class, i));
        bfq.insert(Time(0), id(2 * i + 1), &of(class, i));
    }
    let order: [Option<u32>; 7] = core::array::from_fn(|_| bfq.dispatch(Time(0), true).map(|id| id.index));
    assert_eq!(order, [Some(4), Some(5), Some(2), Some(3), Some(0), Some(1), None]);
}

#[test]
fn a_higher_class_ends_the_service_of_a_lower() {
    let mut bfq = bfq(&[("low_latency", 0)]);
    bfq.insert(Time(0), id(0), &read(1, 0, 8));
    bfq.insert(Time(0), id(1), &read(1, 8, 8));
    assert_eq!(bfq.dispatch(Time(0), false), Some(id(0)));
    let urgent = RequestInfo { ioprio: IoPrio::new(Class::RealTime, 7), ..read(2, 1 << 20, 8) };
    bfq.insert(Time(0), id(2), &urgent);
    assert_eq!(bfq.dispatch(Time(0), false), Some(id(2)));
}

/// Linux: `bfq_find_next_rq` looks at the age when the first request of a service has left.
#[test]
fn the_oldest_request_is_second_in_a_service_once_it_has_expired() {
    for (ms, order) in [(124, [1, 2, 0]), (125, [1, 0, 2])] {
        let mut bfq = bfq(&[("low_latency", 0)]);
        bfq.last_end = 100 * 512;
        bfq.insert(Time(0), id(0), &read(1, 40, 8));
        bfq.insert(Time(0), id(1), &read(1, 100, 8));
        bfq.insert(Time(0), id(2), &read(1, 50, 8));
        let got: [Option<u32>; 3] =
            core::array::from_fn(|_| bfq.dispatch(Time(ms * MS), false).map(|id| id.index));
        assert_eq!(got, order.map(Some), "after {ms} ms");
    }
}

#[test]
fn the_nearest_request_is_next() {
    // Sectors of two requests, with the head at 1000; the one chosen, with back seeks of up to 100 KiB (200
    // sectors).
    for (a, b, taken) in [
        (1050, 1100, 0),
        (980, 1050, 0),
        (970, 1050, 1),
        (799, 5000, 1),
        (900, 5000, 0),
        (500, 300, 1),
        (975, 1050, 1),
    ] {
        let mut bfq = bfq(&[("low_latency", 0), ("back_seek_max", 100)]);
        bfq.last_end = 1000 * 512;
        bfq.insert(Time(0), id(0), &read(1, a, 1));
        bfq.insert(Time(0), id(1), &read(1, b, 1));
        assert_eq!(bfq.dispatch(Time(0), false), Some(id(taken)), "{a} {b}");
    }
}

#[test]
fn sync_and_async_of_a_process_do_not_merge() {
    let mut bfq = bfq(&[]);
    bfq.insert(Time(0), id(0), &write(0, 8));
    let (own, other) = (write(8, 8), RequestInfo { context: Context::new(5), ..write(8, 8) });
    assert!(bfq.allow_merge(id(0), &write(0, 8), &own) && bfq.allow_merge(id(0), &write(0, 8), &other));
    let waited_for = RequestInfo { sync: true, ..own };
    assert!(!bfq.allow_merge(id(0), &write(0, 8), &waited_for));
    assert!(!bfq.allow_merge(id(1), &write(0, 8), &own), "nothing is queued there");
}

#[test]
fn records_of_processes_are_used_again() {
    let mut bfq = bfq(&[]);
    let records = bfq.procs.len();
    assert_eq!(records, 64 + REMEMBERED);
    for context in 0..10_000 {
        serve(&mut bfq, u64::from(context) * 10, &read(context, 0, 8));
        // A process that keeps sending requests is remembered.
        serve(&mut bfq, u64::from(context) * 10 + 5, &read(70_000, u64::from(context) * 8, 8));
    }
    assert_eq!(bfq.procs.len(), records);
    let regular = record(&bfq, &read(70_000, 0, 8));
    assert!(bfq.procs[regular].sync);
    assert_eq!(bfq.procs.find(key_of(&read(1, 0, 8))), None);
    assert!(bfq.procs.find(key_of(&read(9_999, 0, 8))).is_some());
}
