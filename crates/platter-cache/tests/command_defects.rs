//! Put-back defects of commands under a cache are found by random lives. They are active in the whole process, so this test has
//! one of its own.

#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "cache/life.rs"]
mod life;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "cache/rig.rs"]
mod rig;
#[path = "cache/stamp.rs"]
mod stamp;
#[allow(dead_code, reason = "the other tests use all of it")]
#[path = "cache/workload.rs"]
mod workload;

use life::{Life, Trouble};
use platter_block::defect::{self, Defect};

/// Most lives until a defect must have been found.
const LIVES: u64 = 300;

/// The number of lives until something is found.
fn lives_until_found() -> Option<u64> {
    let trouble = Trouble { commands: true, ..Trouble::default() };
    (0..LIVES).find(|seed| Life::new(9 << 32 | seed, trouble).run().is_err())
}

#[test]
fn lives_with_commands_find_each_defect() {
    assert_eq!(lives_until_found(), None, "without a defect nothing is found");
    for wrong in
        [Defect::CacheCommandKeepsPages, Defect::CacheCommandPassesDirty, Defect::CacheCommandUnknownSent]
    {
        defect::put_back(wrong, true);
        let found = lives_until_found();
        defect::put_back(wrong, false);
        println!("{}: found by life {found:?}", wrong.name());
        assert!(found.is_some(), "{} is not found in {LIVES} lives", wrong.name());
    }
}
