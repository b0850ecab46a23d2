//! Dirty pages that cannot be written when their turn comes, and those behind them.

use crate::hand::{end, run};
use crate::rig::small;
use crate::script::{Hand, Script};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::time::{Span, Time};
use platter_cache::{self as cache, Settings};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
const SECOND: u64 = 1_000_000_000;
/// More than the entries of the order of dirty pages that one turn looks at.
const MANY: u64 = 1100;
/// Most dirty pages, a fifth of the cache.
const LIMIT: u64 = 2304;

/// A cache that writes back pages that have been dirty for 30 s, and looks for them every 5 s.
fn cached() -> (Script, Hand) {
    cached_by(&Settings { background: 20, ..small(0) })
}

/// The same with other settings.
fn cached_by(settings: &Settings) -> (Script, Hand) {
    let script = Script::new("script", 32 * MIB);
    let expire = Span::from_secs(30);
    let settings = Settings { size: 5 * LIMIT * PAGE, dirty: 20, expire, window: 0, ..settings.clone() };
    let hand = Hand::on(&cache::new(script.backend(), &settings).unwrap());
    (script, hand)
}

fn fault() -> Fault {
    Fault::new(Kind::Io, Stage::Disk)
}

fn write(hand: &mut Hand, now: u64, page: u64, flags: Flags) {
    let mut bio = Bio::write(page * PAGE, vec![1u8; PAGE as usize]).unwrap();
    bio.add_flags(flags);
    assert_eq!(run(hand, now, bio), None, "page {page}");
}

/// Runs the lane whenever it has something to do until `end`. Returns when which pages were written, as seconds and pages.
fn written(script: &Script, hand: &mut Hand, end: u64) -> Vec<(u64, u64)> {
    let mut written = Vec::new();
    while let Some(Time(now)) = hand.lane.next_wakeup().filter(|at| at.0 <= end) {
        (0..4).for_each(|_| assert_eq!(hand.kinds(now), []));
        let writes = script.seen().into_iter().filter(|seen| seen.op == Op::Write);
        written.extend(writes.map(|seen| (now / SECOND, seen.pos / PAGE)));
    }
    written
}

/// A page that has failed is written although many pages that a barrier put behind it have been dirty for longer since.
#[test]
fn a_page_that_failed_is_written_before_those_behind_a_barrier() {
    let (script, mut hand) = cached();
    write(&mut hand, 0, 0, Flags::NONE);
    write(&mut hand, 0, 1, Flags::SOFT_BARRIER);
    (2..MANY).for_each(|page| write(&mut hand, 0, page, Flags::NONE));
    script.fail(Some(fault()));
    assert_eq!(run(&mut hand, 0, Bio::flush()), Some(Kind::Io));
    script.fail(None);
    script.seen();
    let found = written(&script, &mut hand, 60 * SECOND);
    assert_eq!(found.first(), Some(&(5, 0)));
    assert!(found.contains(&(30, 1)) && found.len() > 2, "{found:?}");
    // Writers go on at the limit.
    (MANY..2 * LIMIT).for_each(|page| write(&mut hand, 60 * SECOND, page, Flags::NONE));
}

/// Pages that a discard is dropping do not keep those behind them from being written.
#[test]
fn pages_behind_those_of_a_discard_are_written() {
    let (script, mut hand) = cached();
    (0..MANY + 10).for_each(|page| write(&mut hand, 0, page, Flags::NONE));
    script.hold_only(Op::Discard);
    hand.submit(0, Bio::new(Op::Discard, 0, MANY * PAGE));
    assert_eq!(hand.kinds(0), []);
    let found = written(&script, &mut hand, 31 * SECOND);
    script.hold(false);
    assert_eq!(found, [(30, MANY)], "one bio of ten pages");
    assert_eq!(end(&mut hand, 31 * SECOND), Some(None));
}

/// If the discard fails they are written, too.
#[test]
fn pages_of_a_discard_that_fails_are_written() {
    let (script, mut hand) = cached();
    (0..MANY).for_each(|page| write(&mut hand, 0, page, Flags::NONE));
    script.hold_only(Op::Discard);
    hand.submit(0, Bio::new(Op::Discard, 0, MANY * PAGE));
    assert_eq!(hand.kinds(0), []);
    assert_eq!(written(&script, &mut hand, 31 * SECOND), []);
    script.fail(Some(fault()));
    script.hold(false);
    assert_eq!(end(&mut hand, 31 * SECOND), Some(Some(Kind::Io)));
    script.fail(None);
    let found = written(&script, &mut hand, 60 * SECOND);
    assert!(found.iter().all(|&(at, _)| at == 35), "{found:?}");
    assert_eq!(run(&mut hand, 60 * SECOND, Bio::flush()), None);
    assert!(script.seen().iter().all(|seen| seen.op == Op::Flush), "all have been written");
}

/// A page whose write-back fails is tried again after the interval, not when it is old again.
#[test]
fn a_page_is_tried_again_after_the_interval() {
    let (script, mut hand) = cached();
    write(&mut hand, 0, 7, Flags::NONE);
    script.fail(Some(fault()));
    let found = written(&script, &mut hand, 50 * SECOND);
    assert_eq!(found, [30, 35, 40, 45, 50].map(|at| (at, 7)));
    script.fail(None);
    assert_eq!(written(&script, &mut hand, 200 * SECOND), [(55, 7)]);
}

/// A writer at the limit does not get the error of a page that failed while others can be written, although background
/// write-back has chosen pages that a flush has written since.
#[test]
fn writers_go_on_after_a_flush_that_failed_for_one_page() {
    let (script, mut hand) = cached_by(&Settings { background: 1, write_depth: 1, ..small(0) });
    let last = 598;
    script.hold(true);
    let writes: Vec<Option<Kind>> = (0..=last)
        .step_by(2)
        .map(|page| run(&mut hand, 0, Bio::write(page * PAGE, vec![1u8; PAGE as usize]).unwrap()))
        .collect();
    let begun = script.seen().len();
    hand.submit(0, Bio::flush());
    let early = hand.kinds(0);
    let flushed = script.seen().len();
    script.fail_at(Some((last * PAGE, fault())));
    script.hold(false);
    let ended = end(&mut hand, 0);
    script.fail_at(None);
    assert!(writes.iter().all(Option::is_none) && early.is_empty(), "{writes:?}, {early:?}");
    assert_eq!((begun, flushed, ended), (1, 299, Some(Some(Kind::Io))));
    (0..LIMIT + 10).for_each(|page| write(&mut hand, 0, 1000 + page, Flags::NONE));
}
