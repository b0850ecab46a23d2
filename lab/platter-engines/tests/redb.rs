//! redb under power cuts, in a short form; the example `redb` runs longer.

use platter_engines::redb_store::{Commits, Creation, Load, answers_of_check_integrity};
use platter_engines::report::{self, Load as _};
use platter_kit::files::Files;
use platter_kit::{Cuts, Device, Flushes};

const WAYS: [Commits; 3] = [
    Commits { two_phase: false, quick_repair: false },
    Commits { two_phase: true, quick_repair: false },
    Commits { two_phase: false, quick_repair: true },
];

fn load(commits: Commits) -> Load {
    Load { seed: 1, transactions: 4, commits, ..Load::default() }
}

#[test]
fn redb_loses_nothing_wherever_the_power_fails() {
    for commits in WAYS {
        let load = load(commits);
        let summary = report::cut(&load, &load.kit(1).tries(3)).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(summary.cuts > 300 && summary.recoveries > 150, "{summary:?}");
        assert_eq!(summary.differing, 0, "the same load makes the same I/Os");
    }
}

#[test]
fn redb_without_syncs_is_found_and_the_plan_repeats_it() {
    for commits in WAYS {
        let load = load(commits);
        let kit = load.kit(1).flushes(Flushes::DropAll).cuts(Cuts::Random(60));
        let failure = report::cut(&load, &kit).expect_err("nothing was made durable");
        let replay = |kit: &platter_kit::Kit<_>| {
            let run = |files: &_, promises: &mut _| load.run(files, promises);
            kit.replay(&failure.plan, run, |files, promises| load.check(files, promises))
        };
        assert_eq!(replay(&kit), Err(failure.wrong.clone()), "{failure}");
        assert_eq!(replay(&load.kit(1)), Ok(()), "with its syncs");
    }
}

#[test]
fn one_dropped_sync_of_redb_is_found() {
    let load = Load { transactions: 3, ..load(Commits::default()) };
    let each = report::drop_each(&load, &load.kit(1).tries(3)).unwrap_or_else(|failure| panic!("{failure}"));
    let found = each.iter().filter(|flush| flush.found.is_some()).count();
    // At least the one that each transaction ends with.
    assert!(found >= 3, "{each:#?}");
}

/// A cut while redb creates a database can leave a file that it refuses to open. No data is lost, but a program
/// has to delete the file. If a newer version does not do this any more, the check can demand that it opens.
#[test]
fn a_cut_during_creation_leaves_a_file_that_redb_refuses() {
    let load = Load { creation: Creation::MustOpen, ..load(Commits::default()) };
    let failure = report::cut(&load, &load.kit(1)).expect_err("it is refused");
    assert!(failure.wrong.contains("invalid data") && failure.plan.io < 20, "{failure}");
}

/// redb says that it has repaired databases that were closed in order, without any power cut. If a newer version
/// does not do this any more, the check can demand `true`.
#[test]
fn check_integrity_is_no_sign_of_a_power_cut() {
    let devices = (0..2).map(|_| Device::ram(16 << 20).expect("memory")).collect();
    let files = Files::mount(devices).expect("empty devices");
    let answers = answers_of_check_integrity(&files, 20).expect("it opens");
    assert!(answers.contains(&false) && answers.contains(&true), "{answers:?}");
}
