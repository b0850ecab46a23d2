//! Dirty pages that are dropped without being written, by discards.

use crate::hand::run;
use crate::rig::small;
use crate::script::{Hand, Script};
use platter_block::bio::{Bio, Op};
use platter_block::time::Span;
use platter_cache::{self as cache, Settings};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// More than the entries of the order of dirty pages that one turn looks at.
const DROPPED: u64 = 1100;
/// Most dirty pages, a fifth of the cache.
const LIMIT: u64 = 2304;
const EXPIRE: Span = Span::from_secs(30);

/// A cache in which the oldest entries of the order of dirty pages are those of pages that a discard has dropped.
fn dropped() -> (Script, Hand) {
    let script = Script::new("script", 32 * MIB);
    let settings =
        Settings { size: 5 * LIMIT * PAGE, background: 20, dirty: 20, expire: EXPIRE, window: 0, ..small(0) };
    let mut hand = Hand::on(&cache::new(script.backend(), &settings).unwrap());
    write(&mut hand, 0, LIMIT - 1);
    let discard = Bio::new(Op::Discard, 0, DROPPED * PAGE);
    assert_eq!(run(&mut hand, 0, discard), None);
    assert!(script.seen().iter().all(|seen| seen.op == Op::Discard), "nothing has been written back");
    (script, hand)
}

fn write(hand: &mut Hand, page: u64, pages: u64) {
    for page in page..page + pages {
        assert_eq!(run(hand, 0, Bio::write(page * PAGE, vec![1u8; 4096]).unwrap()), None);
    }
}

/// Writers go on when the oldest dirty pages have been dropped: those behind them are written back.
#[test]
fn writers_at_the_limit_go_on() {
    let (script, mut hand) = dropped();
    write(&mut hand, LIMIT, DROPPED + 200);
    assert!(script.seen().iter().any(|seen| seen.op == Op::Write));
}

/// Pages behind them are written back when they are old enough, and not an interval later.
#[test]
fn pages_behind_them_are_written_in_time() {
    let (script, mut hand) = dropped();
    let due = hand.lane.next_wakeup().unwrap();
    assert!(due.0 <= EXPIRE.0 + Settings::default().interval.0, "{due:?}");
    for _ in 0..4 {
        assert_eq!(hand.kinds(due.0), []);
    }
    assert!(script.seen().iter().any(|seen| seen.op == Op::Write));
}

/// Their entries go, too: what is written and dropped again and again does not delay what is written back.
#[test]
fn they_do_not_add_up() {
    let script = Script::new("script", 32 * MIB);
    let device = cache::new(script.backend(), &Settings { window: 0, ..small(1024) }).unwrap();
    let mut hand = Hand::on(&device);
    for _ in 0..200 {
        write(&mut hand, 0, 64);
        assert_eq!(run(&mut hand, 0, Bio::new(Op::Discard, 0, 64 * PAGE)), None);
    }
    write(&mut hand, 100, 1);
    let due = hand.lane.next_wakeup().unwrap();
    hand.lane.run(due);
    assert!(script.seen().iter().any(|seen| seen.op == Op::Write), "in the first turn");
}
