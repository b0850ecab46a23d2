//! SQLite under power cuts, in a short form; the example `sqlite` runs longer.

use platter_engines::report::{self, Load as _};
use platter_engines::sqlite::{Claims, Journal, Load, Synchronous};
use platter_kit::{Cuts, Flushes};

const WAYS: [(Journal, Synchronous); 5] = [
    (Journal::Delete, Synchronous::Extra),
    (Journal::Truncate, Synchronous::Full),
    (Journal::Persist, Synchronous::Full),
    (Journal::Wal, Synchronous::Full),
    (Journal::Wal, Synchronous::Normal),
];

fn load(journal: Journal, synchronous: Synchronous) -> Load {
    Load { seed: 1, transactions: 3, journal, synchronous, ..Load::default() }
}

#[test]
fn sqlite_loses_nothing_wherever_the_power_fails() {
    for (journal, synchronous) in WAYS {
        let load = Load { transactions: 2, ..load(journal, synchronous) };
        let kit = load.kit(1).tries(2);
        let summary = report::cut(&load, &kit).unwrap_or_else(|failure| panic!("{load:?}: {failure}"));
        assert!(summary.cuts > 400 && summary.recoveries > 200, "{load:?}: {summary:?}");
        assert_eq!(summary.differing, 0, "the same load makes the same I/Os");
    }
}

#[test]
fn sqlite_without_syncs_is_found_and_the_plan_repeats_it() {
    for (journal, synchronous) in WAYS {
        let load = load(journal, synchronous);
        let kit = load.kit(1).flushes(Flushes::DropAll).cuts(Cuts::Random(60)).shrink_tries(200);
        let failure = report::cut(&load, &kit).expect_err("nothing was made durable");
        let replay = |kit: &platter_kit::Kit<_>| {
            let run = |files: &_, history: &mut _| load.run(files, history);
            kit.replay(&failure.plan, run, |files, history| load.check(files, history))
        };
        assert_eq!(replay(&kit), Err(failure.wrong.clone()), "{failure}");
        assert_eq!(replay(&load.kit(1)), Ok(()), "with its syncs");
    }
}

fn drop_each_sync((journal, synchronous): (Journal, Synchronous)) {
    let load = Load { transactions: 2, ..load(journal, synchronous) };
    let kit = load.kit(1).tries(2);
    let each = report::drop_each(&load, &kit).unwrap_or_else(|failure| panic!("{failure}"));
    let found = each.iter().filter(|flush| flush.found.is_some()).count();
    // At least the one that each transaction ends with.
    assert!(found >= 2, "{each:#?}");
}

#[test]
fn one_dropped_sync_of_a_rollback_journal_is_found() {
    drop_each_sync(WAYS[0]);
}

#[test]
fn one_dropped_sync_of_a_write_ahead_log_is_found() {
    drop_each_sync(WAYS[3]);
}

/// As SQLite documents: with `synchronous=FULL` the deletion of a journal is not synced, so that a cut soon after
/// a commit may take it back.
#[test]
fn a_deleted_journal_that_is_not_synced_takes_the_last_commit_back() {
    let load = load(Journal::Delete, Synchronous::Full);
    let failure = report::cut(&load, &load.kit(1).shrink_tries(0)).expect_err("a commit is taken back");
    assert!(
        failure.wrong.ends_with("was acknowledged and is lost: the contents are those after transaction 0")
    );
    assert!(failure.plan.lost.iter().any(|(disk, ..)| disk == 0), "of the directory: {failure}");
}

#[test]
fn a_disk_that_claims_to_keep_the_order_of_writes_is_found() {
    for (journal, synchronous) in [WAYS[0], WAYS[3]] {
        let load = Load { claims: Claims::Sequential, ..load(journal, synchronous) };
        report::cut(&load, &load.kit(1).shrink_tries(0)).expect_err("SQLite leaves syncs out");
    }
}
