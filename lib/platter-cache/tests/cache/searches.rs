//! Flushes that take several turns to go through the dirty pages.

use crate::hand::{end, run};
use crate::rig::small;
use crate::script::{Hand, Script};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::fault::Kind;
use platter_block::time::Span;
use platter_cache::{self as cache, Settings};

const PAGE: u64 = 4096;
/// When the first page is old enough.
const NOW: u64 = 30_000_000_000;
/// The last page behind the barrier, which is at page 0: more pages than one turn goes through.
const LAST: u64 = 400;

fn write(page: u64, flags: Flags) -> Bio {
    let mut bio = Bio::write(page * PAGE, vec![1u8; PAGE as usize]).unwrap();
    bio.add_flags(flags);
    bio
}

/// A cache whose disk holds the write-back of a page far behind; then a soft barrier at page 0 and the pages up to `LAST` became
/// dirty.
fn divided() -> (Script, Hand) {
    let script = Script::new("script", 32 << 20);
    let expire = Span::from_secs(30);
    let settings = Settings { size: 12_000 * PAGE, background: 20, dirty: 20, expire, window: 0, ..small(0) };
    let mut hand = Hand::on(&cache::new(script.backend(), &settings).unwrap());
    assert_eq!(run(&mut hand, 0, write(5000, Flags::NONE)), None);
    script.hold(true);
    (0..4).for_each(|_| assert_eq!(hand.kinds(NOW), []));
    let begun = script.seen().len();
    let barrier = run(&mut hand, NOW, write(0, Flags::SOFT_BARRIER));
    let others: Vec<Option<Kind>> =
        (1..=LAST).map(|page| run(&mut hand, NOW, write(page, Flags::NONE))).collect();
    if begun != 1 || barrier.is_some() || others.iter().any(Option::is_some) {
        script.hold(false);
        panic!("{begun} writes, the barrier {barrier:?}, others {others:?}");
    }
    (script, hand)
}

/// The pages that were written before the disk was flushed, in order of position, while a bio was carried out that ends the
/// write-back in the run of this number of the cache's lane.
fn written_before_flush(bio: Bio, runs: u32) -> Vec<u64> {
    let (script, mut hand) = divided();
    script.seen();
    script.release_in(runs);
    hand.submit(NOW, bio);
    let ended = end(&mut hand, NOW);
    script.hold(false);
    let seen = script.seen();
    assert_eq!(ended, Some(None), "{runs} runs");
    let flush = seen.iter().position(|seen| seen.op == Op::Flush).expect("the disk is flushed");
    let writes = seen[..flush].iter().filter(|seen| seen.op == Op::Write);
    let mut pages: Vec<u64> = writes.flat_map(|seen| seen.pos / PAGE..(seen.pos + seen.len) / PAGE).collect();
    pages.sort_unstable();
    pages
}

/// Panics if what a flush or a durable write covers is not written before it ends, whenever an earlier epoch ends.
pub(crate) fn check_epochs() {
    for runs in 1..=6 {
        let all: Vec<u64> = (0..=LAST).collect();
        assert_eq!(written_before_flush(Bio::flush(), runs), all, "flush, {runs} runs");
        assert_eq!(written_before_flush(write(6000, Flags::PREFLUSH), runs), all, "PREFLUSH, {runs} runs");
        // The barrier, and what replaces it.
        let pages = written_before_flush(write(0, Flags::FUA), runs);
        assert_eq!(pages.iter().filter(|&&page| page == 0).count(), 2, "FUA, {runs} runs: {pages:?}");
    }
}
