//! Requests that the disk has for too long, and silent disks.

use crate::disk::{FakeDisk, Mode};
use crate::flush::{BACK, THROUGH};
use crate::rig::{Io, Queued, Rig, elevators, make_elevator};
use platter_block::bio::{Flags, Op};
use platter_block::driver::{Completion, Features};
use platter_block::fault::{Fault, Kind, Stage, Status};
use platter_block::lane::Cancel;
use platter_block::limits::Limits;
use platter_block::queue::{Ordered, Rest, Settings};
use platter_block::time::{Span, Time};

const SECOND: Span = Span::from_secs(1);
const GRACE: Span = Span::from_secs(2);
const SLOW: Span = Span::from_secs(10);

pub(crate) fn limited() -> Settings {
    Settings {
        timeout: Some(SECOND),
        slow_timeout: Some(SLOW),
        abort_grace: Some(GRACE),
        plug: None,
        ..Settings::default()
    }
}

/// How an overdue request ends that the disk has aborted.
const ABORTED: Status = Err(Fault { kind: Kind::TimedOut, stage: Stage::Disk, errno: 110 });

pub(crate) fn disk(features: Features) -> FakeDisk {
    let limits = Limits::unlimited(512).with_max_transfer(4096).with_max_discard(4096);
    let mut disk = FakeDisk::new(1 << 20, limits, features, 1);
    disk.mode = Mode::Manual;
    disk
}

/// A shared queue over a disk whose requests the test completes.
pub(crate) fn rig(elevator: &str, features: Features) -> Rig {
    Rig::with(disk(features), limited(), make_elevator(elevator))
}

/// Carries out a test on the shared queue with each elevator, and on that of one lane with each way to feed it.
macro_rules! on_all_queues {
    ($settings:expr, $test:ident) => {
        for elevator in $crate::rig::elevators() {
            $test(elevator, Rig::with(disk(BACK), $settings, make_elevator(elevator)));
        }
        for feed in [$crate::rig::Feed::AtOnce, $crate::rig::Feed::Batch, $crate::rig::Feed::Common] {
            $test(&format!("one lane, {feed:?}"), Rig::direct(disk(BACK), $settings, feed));
        }
    };
}
pub(crate) use on_all_queues;

/// Submits an I/O and starts it.
pub(crate) fn submit<L: Queued>(rig: &mut Rig<L>, io: Io) -> u64 {
    let token = rig.submit(io.with(Flags::SYNC));
    rig.lane.unplug(rig.now);
    rig.run();
    token
}

/// Advances the time to `at`, with all wake-ups on the way.
pub(crate) fn pass_until<L: Queued>(rig: &mut Rig<L>, at: Time) {
    while rig.lane.next_wakeup().is_some_and(|next| next <= at) && rig.now < at {
        rig.pass();
    }
    rig.now = rig.now.max(at);
    rig.run();
}

/// The disk completes all the requests that it holds.
pub(crate) fn settle<L: Queued>(rig: &mut Rig<L>) {
    rig.disk().finish_all();
    rig.drain();
}

#[test]
fn an_overdue_request_is_aborted_once_and_then_the_queue_is_silent() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        for op in [Op::Read, Op::Write, Op::Read] {
            let (begin, asked) = (rig.now, rig.disk().overdue.len());
            let token = submit(&mut rig, Io::new(op, 0, 4096));
            let tag = rig.disk().held[0].tag;
            pass_until(&mut rig, Time(begin.0 + SECOND.0 - 1));
            assert_eq!(rig.disk().overdue.len(), asked, "{name}");
            pass_until(&mut rig, begin + SECOND);
            assert_eq!(rig.disk().overdue[asked..], [tag], "{name}");
            pass_until(&mut rig, Time((begin + SECOND + GRACE).0 - 1));
            assert!(!rig.lane.is_silent() && rig.disk().overdue.len() == asked + 1, "{name}: once");
            pass_until(&mut rig, begin + SECOND + GRACE);
            assert!(rig.lane.is_silent(), "{name}");
            pass_until(&mut rig, begin + Span::from_secs(3600));
            assert!(rig.lane.is_silent() && rig.disk().cancelled.len() == asked + 1, "{name}");
            assert!(!rig.is_done(token) && rig.has_memory(token), "{name}: the disk has it");
            rig.disk().finish(0);
            rig.run();
            assert_eq!((rig.result(token), rig.lane.is_silent()), (Ok(()), false), "{name}");
            rig.check_idle();
        }
        assert_eq!((rig.counts().aborts, rig.counts().timeouts), (3, 0), "{name}");
    }
    on_all_queues!(limited(), test);
}

#[test]
fn an_aborted_request_has_timed_out_and_any_other_result_counts() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        let kinds = [
            (-125, Some(Kind::TimedOut)),
            (Completion::ABORTED, Some(Kind::TimedOut)),
            (4096, None),
            (512, Some(Kind::Short)),
            (-5, Some(Kind::Io)),
            // It would be retried, were its time not over.
            (-4, Some(Kind::TimedOut)),
        ];
        for (result, kind) in kinds {
            let starts = rig.disk().starts().len();
            let token = submit(&mut rig, Io::write(0, 4096));
            let over = rig.now + SECOND;
            pass_until(&mut rig, over);
            rig.disk().finish_with(0, result);
            rig.run();
            assert_eq!(rig.failure(token), kind, "{name}: {result}");
            assert!(kind != Some(Kind::TimedOut) || rig.result(token) == ABORTED, "{name}");
            assert_eq!(rig.disk().starts().len(), starts + 1, "{name}: it is not retried");
            rig.check_idle();
        }
        assert_eq!((rig.counts().aborts, rig.counts().timeouts), (6, 3), "{name}");
    }
    on_all_queues!(limited(), test);
}

#[test]
fn all_bios_of_an_overdue_request_have_timed_out() {
    /// `EIO` may be of any one of them, and they are not retried one by one.
    fn test<L: Queued>(name: &str, mut rig: Rig<L>, result: i64) {
        let slow = submit(&mut rig, Io::read(1 << 19, 512));
        let tokens = [0, 512, 1024].map(|pos| rig.submit(Io::write(pos, 512)));
        rig.run();
        rig.disk().finish(0);
        rig.run();
        while rig.disk().held.is_empty() {
            // Some elevators wait for another read first.
            rig.pass();
        }
        assert_eq!((rig.result(slow), rig.disk().held.len()), (Ok(()), 1), "{name}");
        let over = rig.now + SECOND;
        pass_until(&mut rig, over);
        rig.disk().finish_with(0, result);
        rig.run();
        assert!(tokens.iter().all(|&token| rig.result(token) == ABORTED), "{name}");
        assert_eq!((rig.counts().aborts, rig.counts().timeouts), (1, 3), "{name}");
        rig.check_idle();
    }
    fn aborted<L: Queued>(name: &str, rig: Rig<L>) {
        test(name, rig, -125);
    }
    fn failed<L: Queued>(name: &str, rig: Rig<L>) {
        test(name, rig, -5);
    }
    on_all_queues!(Settings { depth: 1, ..limited() }, aborted);
    on_all_queues!(Settings { depth: 1, ..limited() }, failed);
}

/// Another queue of the device was silent, and is not any more.
#[test]
fn what_a_failed_disk_had_is_not_retried_when_it_works_again() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        let token = submit(&mut rig, Io::read(0, 512));
        let now = rig.now;
        rig.lane.set_failed(now, true);
        rig.lane.set_failed(now, false);
        rig.disk().finish_with(0, -4);
        rig.run();
        assert_eq!(rig.failure(token), Some(Kind::Gone), "{name}");
        let after = submit(&mut rig, Io::read(0, 512));
        rig.disk().finish_with(0, -4);
        settle(&mut rig);
        assert_eq!(rig.result(after), Ok(()), "{name}: as ever");
        rig.check_idle();
    }
    on_all_queues!(limited(), test);
}

/// The time counts from the start of each request, not from the submission of its bios.
#[test]
fn each_request_has_its_own_time() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        for i in 0..3 {
            submit(&mut rig, Io::read(i << 17, 512));
            rig.now += Span::from_millis(400);
        }
        rig.run();
        assert_eq!(rig.disk().held.len(), 2, "{name}: one waits");
        assert_eq!(rig.disk().overdue.len(), 1, "{name}");
        rig.disk().finish(0);
        rig.run();
        let begin = rig.now;
        assert_eq!(rig.disk().held.len(), 2, "{name}");
        pass_until(&mut rig, Time(begin.0 + SECOND.0 - 1));
        assert_eq!(rig.disk().overdue.len(), 2, "{name}");
        pass_until(&mut rig, begin + SECOND);
        assert_eq!(rig.disk().overdue.len(), 3, "{name}");
        settle(&mut rig);
    }
    on_all_queues!(Settings { depth: 2, ..limited() }, test);
}

#[test]
fn slow_operations_have_their_own_limit() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        for op in [Op::Discard, Op::WriteZeroes] {
            let asked = rig.disk().overdue.len();
            let begin = rig.now;
            let token = submit(&mut rig, Io::new(op, 0, 4096));
            pass_until(&mut rig, Time(begin.0 + SLOW.0 - 1));
            assert_eq!(rig.disk().overdue.len(), asked, "{name} {op}");
            pass_until(&mut rig, begin + SLOW);
            assert_eq!(rig.disk().overdue.len(), asked + 1, "{name} {op}");
            rig.disk().finish_with(0, -125);
            rig.run();
            assert_eq!(rig.result(token), ABORTED, "{name} {op}");
            rig.check_idle();
        }
    }
    on_all_queues!(limited(), test);
}

/// Without a grace of its own, the disk has as much time again.
#[test]
fn the_grace_is_as_long_as_the_time_before() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        for (op, limit) in [(Op::Write, SECOND), (Op::Discard, SLOW)] {
            let begin = rig.now;
            submit(&mut rig, Io::new(op, 0, 4096));
            pass_until(&mut rig, begin + limit);
            pass_until(&mut rig, Time(begin.0 + 2 * limit.0 - 1));
            assert!(!rig.lane.is_silent(), "{name} {op}");
            pass_until(&mut rig, Time(begin.0 + 2 * limit.0));
            assert!(rig.lane.is_silent(), "{name} {op}");
            settle(&mut rig);
        }
    }
    on_all_queues!(Settings { abort_grace: None, ..limited() }, test);
}

#[test]
fn without_a_limit_the_disk_has_any_time() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        for op in [Op::Read, Op::Write, Op::Discard] {
            submit(&mut rig, Io::new(op, 0, 4096));
            let late = rig.now + Span::from_secs(1 << 20);
            pass_until(&mut rig, late);
            assert!(rig.disk().overdue.is_empty() && !rig.lane.is_silent(), "{name} {op}");
            assert_eq!(rig.lane.next_wakeup(), None, "{name} {op}");
            settle(&mut rig);
        }
    }
    on_all_queues!(Settings { timeout: None, slow_timeout: None, ..limited() }, test);
}

/// A caller that advances the time to the next wake-up would never get past one that has passed.
#[test]
fn the_timer_of_a_request_that_is_back_wakes_nobody() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        submit(&mut rig, Io::read(0, 512));
        assert!(rig.lane.next_wakeup().is_some(), "{name}");
        settle(&mut rig);
        assert_eq!(rig.lane.next_wakeup(), None, "{name}");
        // The next request has no limit.
        rig.now += Span::from_millis(10);
        submit(&mut rig, Io::new(Op::Discard, 0, 4096));
        for _ in 0..3 {
            rig.now += SECOND;
            rig.run();
            let next = rig.lane.next_wakeup();
            assert!(next.is_none_or(|at| at > rig.now), "{name}: {next:?} at {:?}", rig.now);
        }
        settle(&mut rig);
    }
    on_all_queues!(Settings { slow_timeout: None, ..limited() }, test);
}

/// A program may be stopped for any time.
#[test]
fn what_the_disk_has_completed_is_not_overdue() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        let token = submit(&mut rig, Io::read(0, 512));
        rig.disk().finish(0);
        rig.now += Span::from_secs(3600);
        rig.run();
        assert_eq!((rig.result(token), rig.counts().aborts), (Ok(()), 0), "{name}");
        let token = submit(&mut rig, Io::read(0, 512));
        let over = rig.now + SECOND;
        pass_until(&mut rig, over);
        rig.disk().finish(0);
        rig.now += Span::from_secs(3600);
        rig.run();
        assert_eq!((rig.result(token), rig.lane.is_silent()), (Ok(()), false), "{name}");
        rig.check_idle();
    }
    on_all_queues!(limited(), test);
}

#[test]
fn a_queue_is_silent_until_the_disk_has_returned_everything() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        submit(&mut rig, Io::read(0, 512));
        rig.now += SECOND;
        submit(&mut rig, Io::read(1 << 19, 512));
        let over = rig.now + GRACE;
        pass_until(&mut rig, over);
        assert!(rig.lane.is_silent(), "{name}");
        rig.disk().finish(0);
        rig.run();
        assert!(rig.lane.is_silent() && rig.lane.in_flight() == 1, "{name}");
        rig.disk().finish(0);
        rig.run();
        assert!(!rig.lane.is_silent(), "{name}");
        rig.check_idle();
    }
    on_all_queues!(limited(), test);
}

/// A barrier of another queue looks at this.
#[test]
fn an_overdue_request_has_started() {
    for elevator in elevators() {
        let mut rig = rig(elevator, THROUGH);
        submit(&mut rig, Io::read(0, 512));
        let over = rig.now + SECOND + GRACE;
        pass_until(&mut rig, over);
        assert_eq!(rig.lane.queue.rest(), Rest::Started, "{elevator}");
        settle(&mut rig);
        assert_eq!(rig.lane.queue.rest(), Rest::Settled, "{elevator}");
    }
}

#[test]
fn a_cancelled_request_may_be_overdue_too() {
    fn test<L: Queued>(name: &str, mut rig: Rig<L>) {
        let token = submit(&mut rig, Io::write(0, 512));
        let over = rig.now + SECOND;
        rig.lane.cancel(rig.now, &Cancel::token(token));
        pass_until(&mut rig, over);
        assert_eq!((rig.disk().cancelled.len(), rig.disk().overdue.len()), (2, 1), "{name}");
        rig.disk().finish_with(0, -125);
        rig.run();
        assert_eq!(rig.result(token), ABORTED, "{name}");
        rig.check_idle();
    }
    on_all_queues!(limited(), test);
}

#[test]
fn an_overdue_flush_is_aborted_and_has_failed() {
    for elevator in elevators() {
        for (result, kind) in [(0, None), (-125, Some(Kind::TimedOut)), (-5, Some(Kind::Io))] {
            let mut rig = rig(elevator, BACK);
            let flush = submit(&mut rig, Io::flush());
            let over = rig.now + SLOW;
            pass_until(&mut rig, over);
            assert_eq!(rig.disk().overdue.len(), 1, "{elevator}");
            let next = submit(&mut rig, Io::flush());
            rig.disk().finish_with(0, result);
            settle(&mut rig);
            assert_eq!(rig.failure(flush), kind, "{elevator} {result}");
            assert_eq!(rig.failure(next), kind.map(|_| Kind::FlushFailed), "{elevator} {result}");
        }
    }
}

/// The steps of a sequence have their limits, and the bio ends with the step.
#[test]
fn a_step_of_a_sequence_may_be_overdue() {
    for elevator in elevators() {
        for result in [512, -125] {
            let mut rig = rig(elevator, BACK);
            let io = Io::write(0, 512).with(Flags::FUA | Flags::PREFLUSH | Flags::HARD_BARRIER);
            let token = submit(&mut rig, io);
            rig.complete_one();
            let behind = rig.submit(Io::read(8192, 512));
            let over = rig.now + SECOND;
            pass_until(&mut rig, over);
            pass_until(&mut rig, over + GRACE);
            assert!(rig.lane.is_silent() && !rig.is_done(token), "{elevator}");
            rig.disk().finish_with(0, result);
            rig.run();
            settle(&mut rig);
            assert_eq!(rig.result(token), if result < 0 { ABORTED } else { Ok(()) }, "{elevator}");
            assert_eq!(rig.result(behind), Ok(()), "{elevator}");
        }
    }
}

/// What the disk has behind an ordered tag relies on its place.
#[test]
fn an_ordered_tag_is_not_aborted() {
    for elevator in elevators() {
        let settings = Settings { ordered: Ordered::Tag, ..limited() };
        let mut rig = Rig::with(disk(BACK.with_ordered_tags(true)), settings, make_elevator(elevator));
        let barrier = submit(&mut rig, Io::write(0, 512).with(Flags::HARD_BARRIER));
        assert_eq!(rig.counts().barriers_tagged, 1, "{elevator}");
        let over = rig.now + SECOND;
        pass_until(&mut rig, over);
        pass_until(&mut rig, over + GRACE);
        assert!(rig.lane.is_silent() && rig.disk().overdue.is_empty(), "{elevator}");
        settle(&mut rig);
        assert_eq!((rig.result(barrier), rig.lane.is_silent()), (Ok(()), false), "{elevator}");
    }
}
