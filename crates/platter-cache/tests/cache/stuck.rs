//! Misses beside an I/O that does not end.

use crate::rig::small;
use crate::script::{Hand, Script};
use platter_block::bio::{Bio, Flags, Op};
use platter_cache::{self as cache, Settings};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
const PAGES: u64 = 2048;
/// More than the frames that one search for a frame looks at.
const DIRTY: u64 = 600;

/// Runs the lane until bio 0 has ended, without an error.
fn ends(hand: &mut Hand) -> bool {
    (0..64).find_map(|_| hand.kinds(0).pop()) == Some((0, None))
}

fn read(hand: &mut Hand, page: u64) {
    hand.submit(0, Bio::read(page * PAGE, vec![0u8; PAGE as usize]).unwrap());
}

/// A clean page is evicted for a miss although many dirty ones are in front of it and the write-back of one of them is stuck.
#[test]
fn a_miss_finds_a_clean_page_behind_many_dirty_ones() {
    let script = Script::new("script", 64 * MIB);
    let settings = Settings { background: 80, dirty: 80, window: 0, ..small(PAGES) };
    let mut hand = Hand::on(&cache::new(script.backend(), &settings).unwrap());
    for page in 0..DIRTY {
        hand.submit(0, Bio::write(page * PAGE, vec![1u8; PAGE as usize]).unwrap());
        assert!(ends(&mut hand));
    }
    for page in DIRTY..PAGES {
        read(&mut hand, page);
        assert!(ends(&mut hand));
    }
    script.hold_only(Op::Write);
    let mut durable = Bio::write(0, vec![2u8; PAGE as usize]).unwrap();
    durable.add_flags(Flags::FUA);
    durable.set_token(1);
    hand.submit(0, durable);
    assert_eq!(hand.kinds(0), []);
    let before = script.seen();
    read(&mut hand, PAGES);
    let has_ended = ends(&mut hand);
    let after = script.seen();
    // A cache that is closed waits for its write-back.
    script.hold(false);
    assert_eq!(before.iter().filter(|seen| seen.op == Op::Write).count(), 1);
    assert!(has_ended);
    assert!(after.iter().all(|seen| seen.op == Op::Read), "nothing else was written back");
}
