use super::*;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn soak(options: &Options) -> Report {
    run(options, &AtomicBool::new(false), &mut |_| {})
}

#[test]
fn each_bug_is_found_within_its_number_of_runs() {
    for bug in bugs::TABLE {
        let report = soak(&Options { runs: bug.runs, bug: Some(bug), ..Options::default() });
        let found = report.found.unwrap_or_else(|| panic!("{}: not in {} runs", bug.name, bug.runs));
        // What was found is there again when that run is repeated by itself.
        let again = soak(&Options { seed: found.seed, runs: 1, bug: Some(bug), ..Options::default() });
        assert_eq!(again.found, Some(found), "{}", bug.name);
        if bug.needs_elevator() {
            assert!(again.found.is_some_and(|found| found.what.contains("noop took over")), "{}", bug.name);
        }
    }
}

#[test]
fn without_a_bug_nothing_is_found_and_much_is_come_across() {
    let runs = bugs::TABLE.iter().map(|bug| bug.runs).max().unwrap_or(0);
    let report = soak(&Options { runs, threads: 2, ..Options::default() });
    assert_eq!((report.found, report.runs), (None, runs));
    for (name, count) in report.cover.rows() {
        assert!(count > 0 || name == "elevator_faults", "never came across {name}");
    }
}

#[test]
fn the_result_does_not_depend_on_threads() {
    for bug in [None, bugs::by_name("gate-no-fua")] {
        let of = |threads| {
            let report = soak(&Options { seed: 7, runs: 100, threads, bug, time: None });
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
    assert_eq!(soak(&Options { seed: u64::MAX, runs: 2, ..Options::default() }).runs, 2);
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
    let report = soak(&Options { runs: 100, bug, ..Options::default() });
    let replay = report.replay().unwrap();
    assert!(replay.starts_with("platter sim soak --seed ") && replay.ends_with("--runs 1 --bug lost-write"));
    assert!(text(&report).contains(&replay));
    assert_eq!(json(&report)["found"]["replay"], replay);
    let names: std::collections::BTreeSet<&str> = bugs::TABLE.iter().map(|bug| bug.name).collect();
    assert!(names.len() == bugs::TABLE.len() && names.len() >= 12 && !names.contains("list"));
}
