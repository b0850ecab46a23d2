mod kept;

use super::*;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn soak(options: &Options) -> Report {
    run(options, &AtomicBool::new(false), &mut |_| {})
}

#[test]
fn each_bug_is_found_within_its_number_of_runs() {
    for bug in bugs::TABLE {
        let runs = bug.runs;
        let options = Options { runs, threads: 2, bug: Some(bug), shrink: false, ..Options::default() };
        let report = soak(&options);
        let found = report.found.first().unwrap_or_else(|| panic!("{}: not in {runs} runs", bug.name));
        // A finding occurs again when its run is repeated alone.
        let again = soak(&Options { seed: found.seed, runs: 1, ..options });
        assert_eq!(again.found, report.found, "{}", bug.name);
        if bug.needs_elevator() {
            assert!(found.what.contains("noop took over"), "{}", bug.name);
        }
    }
}

#[test]
fn without_a_bug_nothing_is_found_and_much_is_come_across() {
    let report = soak(&Options { runs: 600, threads: 2, ..Options::default() });
    assert_eq!((report.found, report.runs), (Vec::new(), 600));
    // A right elevator has no faults, and hints are for caches.
    let left_out = ["elevator_faults", "caches", "hints"];
    for (name, count) in report.cover.rows() {
        assert!(count > 0 || left_out.contains(&name), "never came across {name}");
    }
}

/// Runs that the soak once misjudged. What a seed leads to changes with the generator of plans: 114204 then was a write inside
/// a block for which a read failed, 109547 a write that landed over newer contents after the device was opened again, and
/// 106847 a cache whose write-back timed out because the soak let 40 s pass in one step. In 1072889 a channel reports a failed flush
/// after the failure was acknowledged; in 1036629 a block is cancelled that a member with smaller blocks has in part; in 1001677
/// and 1084776 the write of a dropped future times out; in 1034973 power fails after a barrier was late. 1036052 and 7003225
/// were writes that a disk still had of a cache that was closed, 1023660 a write of contents that a power cut had brought back,
/// and 1116568 a read that no barrier held back, because that was cancelled. In 75825 a read was in flight when a
/// write-through cache dropped what it had read, in 20038879 a page outside a flushed range was on its way to the disk, and
/// in 328393 a barrier had been held behind one that was late; in 676151 one failed because a write was late. In 53562 a
/// snapshot was closed while its store took 40 s for a flush, in 69688 a cache while an elevator idled for a minute; in 56232
/// a write to a snapshot had timed out, and was still on its way to a slot of the store that shows nothing. In 945336 and 633033 a
/// discard that found nothing in a snapshot's store succeeded after power was cut, and in 612840 a cache wrote contents again
/// that it had read between the dirty blocks of a page. In 997036 the flush of a cancelled barrier was not tried again, and in 988054
/// a dropped lane had left more requests in the shared queue than one turn of it dispatches. In 1014592 a disk with smaller blocks had zeroed
/// the part of a block behind a boundary of its chunks when the other part was refused.
#[test]
fn runs_that_were_misjudged_find_nothing() {
    let all = [
        106_847, 1_072_889, 1_036_629, 1_001_677, 1_084_776, 1_034_973, 1_036_052, 7_003_225, 1_023_660,
        1_116_568, 75_825, 20_038_879, 328_393, 676_151, 53_562, 69_688, 56_232, 945_336, 633_033, 612_840,
        997_036, 1_014_592,
    ];
    // Their caches had no shards.
    let all = all.map(|seed| (seed, "shards".parse().unwrap()));
    for (seed, without) in
        [109_547, 114_204].map(|seed| (seed, "cache".parse().unwrap())).into_iter().chain(all)
    {
        let report = soak(&Options { seed, runs: 1, without, ..Options::default() });
        assert_eq!((report.found, report.runs), (Vec::new(), 1), "{seed}");
    }
}

/// Runs with disks behind targets in which something was wrong. In 100422 a write that was late on a path was said not to be
/// carried out; in 105935 the queue of a path that had failed during a flush refused all later ones; in 118870 readahead that a
/// queue had no room for was taken for a failure of the path, again and again; in 205684 a write overtook a barrier that the
/// unit had refused, because another channel sent it before the queue knew; in 306637 the timeout of one part of a write was
/// hidden by the failure of the other, so that a second path was used beside the first; in 319828 a write whose arrival reset
/// the unit was ended with all that follow a barrier, and sent again before its channel had read that; in 311596 a call waited
/// for a lane that was not run, which did not know that its ordered command had failed, and ended after 4 s as cancelled;
/// in 323689 the device had ended the flush of a cancelled bio, and no lane took that in.
/// 313634 was misjudged: three caches one over the other look at the clock more often than the soak allowed.
#[test]
fn runs_over_targets_that_were_wrong_find_nothing() {
    let without =
        "cuts,stuck,transient,errors,bad-sectors,flush-errors,death,resize,atomic,shards".parse().unwrap();
    for seed in [100_422, 105_935, 118_870, 205_684, 306_637, 319_828, 311_596, 323_689, 313_634] {
        let report = soak(&Options { seed, runs: 1, without, ..Options::default() });
        assert_eq!((report.found, report.runs), (Vec::new(), 1), "{seed}");
    }
}

/// Runs over caches of several shards in which something was wrong. In 247 readahead that a channel had left in another shard held the
/// only place of a `limit`; in 1013920 a call asked shards where it had nothing for their wake-ups, and stood still; in 1020537 a flush of
/// a range that is a hard barrier left what other shards had; in 13000562 the lane of zeroes that were late was not run, and all flushes failed.
#[test]
fn runs_over_shards_that_were_wrong_find_nothing() {
    for seed in [247, 1_013_920, 1_020_537, 13_000_562] {
        let report = soak(&Options { seed, runs: 1, ..Options::default() });
        assert_eq!((report.found, report.runs), (Vec::new(), 1), "{seed}");
    }
}

/// Runs over caches in which something was wrong. In 13002891 a flush of a range with a preflush left what was written before it; in
/// 15012226 a page whose write-back failed while its cache was closed was not tried again.
#[test]
fn runs_over_caches_that_were_wrong_find_nothing() {
    for seed in [13_002_891, 15_012_226] {
        let report = soak(&Options { seed, runs: 1, ..Options::default() });
        assert_eq!((report.found, report.runs), (Vec::new(), 1), "{seed}");
    }
}

/// In this run the I/O of a dropped future was about to be tried again when the counts of the idle device were examined.
#[test]
fn a_run_waits_for_the_retries_of_dropped_futures() {
    let report = soak(&Options { seed: 24_003_490, runs: 1, ..Options::default() });
    assert_eq!((report.found, report.runs), (Vec::new(), 1));
}

/// Runs with ordered tags in which something was wrong. In 3010965 a read from before a barrier was tried again behind it, aborted there
/// because of another failure, and then carried out after the barrier; in 4063965 a target said of a write that its device was carrying
/// out that it had been ended without effect; in the others a barrier failed by its deadline, and I/O behind it failed with an error that passes.
#[test]
fn runs_with_ordered_tags_that_were_wrong_find_nothing() {
    for seed in [3_010_965, 4_063_965, 5_070_952, 5_105_161] {
        let report = soak(&Options { seed, runs: 1, ..Options::default() });
        assert_eq!((report.found, report.runs), (Vec::new(), 1), "{seed}");
    }
}

/// Runs of which the judge expected too much. In 1840079155 it let 50 days pass at once and then asked no more whether what `delay` held
/// back had ended; in 1840347335 a future that was in a plug before a write was late did not wait for it; in 1840278980 a target needed
/// three turns of a queue without users, which were so rare that the target had given each command up. In 1840390953 a simulated disk
/// ended a discard before the ordered tag that it followed.
#[test]
fn runs_of_which_too_much_was_expected_find_nothing() {
    for seed in [1_840_079_155, 1_840_347_335, 1_840_278_980, 1_840_390_953] {
        let report = soak(&Options { seed, runs: 1, ..Options::default() });
        assert_eq!((report.found, report.runs), (Vec::new(), 1), "{seed}");
    }
}

/// Shrinking keeps the kind of a finding, and the smaller plan still leads to it.
#[test]
fn findings_are_made_small() {
    let bug = bugs::by_name("lost-write");
    let options = Options { seed: 5, runs: 50, bug, ..Options::default() };
    let report = soak(&options);
    let found = &report.found[0];
    let whole = Plan::new(found.seed, Features::default()).to_string();
    assert!(found.plan.lines().count() < whole.lines().count() / 2, "{}", found.plan);
    let unshrunk = soak(&Options { shrink: false, ..options });
    assert_eq!((unshrunk.found[0].kind, &unshrunk.found[0].plan), (found.kind, &whole));
}

/// All of a soak's findings, counted by kind.
#[test]
fn a_soak_can_go_on_after_a_finding() {
    let bug = bugs::by_name("false-error");
    let report = soak(&Options { runs: 20, bug, all: true, ..Options::default() });
    assert_eq!(report.runs, 20);
    let times: u64 = report.found.iter().map(|found| found.times).sum();
    assert!(times > 10, "{times}");
    let kinds: std::collections::BTreeSet<&str> = report.found.iter().map(|found| found.kind).collect();
    assert_eq!(kinds.len(), report.found.len());
}

#[test]
fn the_result_does_not_depend_on_threads() {
    for (bug, runs) in [(None, 60), (bugs::by_name("gate-no-fua"), 30)] {
        let of = |threads| {
            let mut report = soak(&Options { seed: 7, runs, threads, bug, all: true, ..Options::default() });
            // Some memory of the layers lies where the allocator puts it, so that it is aligned by chance.
            report.cover.bytes_bounced = 0;
            (text(&report), json(&report).to_string())
        };
        let one = of(1);
        assert_eq!(one, of(4));
        assert_eq!(one, of(1));
    }
}

#[test]
fn runs_follow_their_seeds() {
    let cover = |seed, runs| soak(&Options { seed, runs, ..Options::default() }).cover;
    let mut sum = cover(20, 1);
    sum.add(&cover(21, 1));
    assert_eq!(sum, cover(20, 2));
    assert_ne!(cover(20, 1), cover(21, 1));
    // The last seeds there are have followers, too.
    let last = Options { seed: u64::MAX, runs: 2, ..Options::default() };
    assert_eq!(soak(&last).runs, 2);
}

#[test]
fn a_soak_ends_when_it_is_told_to_or_its_time_is_up() {
    let stopped = run(&Options { runs: u64::MAX, ..Options::default() }, &AtomicBool::new(true), &mut |_| {});
    assert!(stopped.interrupted && stopped.runs == 0);
    let time = Some(Duration::from_millis(50));
    let timed = soak(&Options { runs: u64::MAX, time, ..Options::default() });
    assert!(!timed.interrupted && timed.runs > 0, "{}", timed.runs);
}

#[test]
fn reports_say_how_to_repeat_what_was_found() {
    let bug = bugs::by_name("lost-write");
    let without = "cuts".parse().unwrap();
    let report = soak(&Options { runs: 100, bug, without, ..Options::default() });
    let replay = report.replay(&report.found[0]);
    assert!(replay.starts_with("platter sim soak --seed "), "{replay}");
    assert!(replay.contains("--runs 1 --bug lost-write --without cuts"), "{replay}");
    assert!(text(&report).contains(&replay));
    assert_eq!(json(&report)["found"]["replay"], replay);
    let names: std::collections::BTreeSet<&str> = bugs::TABLE.iter().map(|bug| bug.name).collect();
    assert!(names.len() == bugs::TABLE.len() && names.len() >= 12 && !names.contains("list"));
}
