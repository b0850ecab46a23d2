//! Misses beside an I/O that does not end.

use crate::hand::{end, run};
use crate::rig::small;
use crate::script::{Hand, Script};
use platter_block::bio::{Bio, Flags, Op};
use platter_cache::{self as cache, Settings};

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;
const PAGES: u64 = 2048;
/// More than the frames that one search for a frame looks at.
const DIRTY: u64 = 600;

fn read(page: u64) -> Bio {
    Bio::read(page * PAGE, vec![0u8; PAGE as usize]).unwrap()
}

/// A clean page is evicted for a miss although many dirty ones are in front of it and the write-back of one of them is stuck.
#[test]
fn a_miss_finds_a_clean_page_behind_many_dirty_ones() {
    let script = Script::new("script", 64 * MIB);
    let settings = Settings { background: 80, dirty: 80, window: 0, ..small(PAGES) };
    let mut hand = Hand::on(&cache::new(script.backend(), &settings).unwrap());
    for page in 0..DIRTY {
        assert_eq!(run(&mut hand, 0, Bio::write(page * PAGE, vec![1u8; PAGE as usize]).unwrap()), None);
    }
    for page in DIRTY..PAGES {
        assert_eq!(run(&mut hand, 0, read(page)), None);
    }
    script.hold_only(Op::Write);
    let mut durable = Bio::write(0, vec![2u8; PAGE as usize]).unwrap();
    durable.add_flags(Flags::FUA);
    durable.set_token(1);
    hand.submit(0, durable);
    assert_eq!(hand.kinds(0), []);
    let before = script.seen();
    hand.submit(0, read(PAGES));
    let ended = end(&mut hand, 0);
    let after = script.seen();
    // A cache that is closed waits for its write-back.
    script.hold(false);
    assert_eq!(before.iter().filter(|seen| seen.op == Op::Write).count(), 1);
    assert_eq!(ended, Some(None));
    assert!(after.iter().all(|seen| seen.op == Op::Read), "nothing else was written back");
}
