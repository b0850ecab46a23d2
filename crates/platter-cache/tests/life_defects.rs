//! Put-back defects of a cache are found by its random lives. They are active in the whole process, so this test has
//! one of its own.

#[path = "cache/barriers.rs"]
mod barriers;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "cache/flood.rs"]
mod flood;
#[path = "cache/hand.rs"]
mod hand;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "cache/life.rs"]
mod life;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "cache/rig.rs"]
mod rig;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "../../platter-stack/tests/array/script.rs"]
mod script;
#[path = "cache/searches.rs"]
mod searches;
#[path = "cache/stamp.rs"]
mod stamp;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "cache/workload.rs"]
mod workload;

use life::{Life, Trouble};
use platter_block::bio::Context;
use platter_block::defect::{self, Defect};

/// Most lives until a defect must have been found.
const LIVES: u64 = 300;

/// The number of lives until something is found.
fn lives_until_found(trouble: Trouble) -> Option<u64> {
    (0..LIVES).find(|seed| {
        let life = || Life::new(9 << 32 | seed, trouble).run();
        // Some are found by a panic.
        std::panic::catch_unwind(life).map_or(true, |found| found.is_err())
    })
}

#[test]
fn lives_find_each_defect() {
    let commands = Trouble { commands: true, ..Trouble::default() };
    let shards = Trouble { shards: true, cuts: true, ..Trouble::default() };
    let cuts = Trouble { cuts: true, ..Trouble::default() };
    for trouble in [commands, Trouble::default(), cuts, shards] {
        assert_eq!(lives_until_found(trouble), None, "without a defect nothing is found");
    }
    for (wrong, trouble) in [
        (Defect::CacheCommandKeepsPages, commands),
        (Defect::CacheCommandPassesDirty, commands),
        (Defect::CacheCommandUnknownSent, commands),
        (Defect::CacheMissesEndedWrites, cuts),
        (Defect::CacheResizeForgetsData, Trouble::default()),
        (Defect::CacheResizeForgetsDirty, Trouble::default()),
        (Defect::CacheShardsFlushFirst, shards),
    ] {
        defect::put_back(wrong, true);
        let found = lives_until_found(trouble);
        defect::put_back(wrong, false);
        println!("{}: found by life {found:?}", wrong.name());
        assert!(found.is_some(), "{} is not found in {LIVES} lives", wrong.name());
    }
    defect::put_back(Defect::CacheShardsPassBarrier, true);
    let found = std::panic::catch_unwind(|| barriers::check_barriers(3));
    defect::put_back(Defect::CacheShardsPassBarrier, false);
    assert!(found.is_err(), "a soft barrier that other shards pass is not found");
    // Lives have too few dirty pages.
    defect::put_back(Defect::CacheFlushMissesEpochs, true);
    let found = std::panic::catch_unwind(searches::check_epochs);
    defect::put_back(Defect::CacheFlushMissesEpochs, false);
    assert!(found.is_err(), "a flush that misses pages behind a barrier is not found");
    // Lives ask for no time.
    let wait = || flood::beside_flood(Context::new(1), Context::new(2)).middle.as_millis();
    assert_eq!(wait(), 0);
    defect::put_back(Defect::CacheWriterTakesAll, true);
    let waited = wait();
    defect::put_back(Defect::CacheWriterTakesAll, false);
    assert!(waited >= 50, "{waited} ms");
    let wait = || flood::reads_beside_write_back().as_millis();
    assert!(wait() <= 20);
    defect::put_back(Defect::CacheWriteBackStarvesReads, true);
    let waited = wait();
    defect::put_back(Defect::CacheWriteBackStarvesReads, false);
    assert!(waited >= 30, "{waited} ms");
}
