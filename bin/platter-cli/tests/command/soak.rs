//! `platter sim soak`.

use crate::run::{fails_saying, json, ok, run};

/// Features with promises that the layers below the soak do not keep yet.
const UNKEPT: &str = "calls,neglect,transient,deadlines,timeouts,atomic,cancel,cache,destructors";

#[test]
fn a_soak_reports_what_it_came_across() {
    let text = ok(&["sim", "soak", "--runs", "5", "--seed", "3", "--threads", "2", "--without", UNKEPT]);
    assert!(text.starts_with("5 runs from seed 3") && text.contains("nothing found"), "{text}");
    let report = json(&["sim", "soak", "--runs", "5", "--seed", "3", "--threads", "1", "--without", UNKEPT]);
    assert_eq!((report["runs"].as_u64(), report["found"].is_null()), (Some(5), true));
    assert!(report["cover"]["bios"].as_u64().unwrap() > 0);
    let coverage = &report["coverage"];
    let empty = coverage["empty"].as_array().unwrap().len() as u64;
    assert_eq!(coverage["met"].as_u64().unwrap() + empty, coverage["possible"].as_u64().unwrap());
    assert!(text.contains("combinations of operation, flag, layer and fault were met"), "{text}");
}

#[test]
fn a_bug_is_found_with_a_seed_that_repeats_it() {
    let soak = |seed: &str, runs: &str, more: &[&str]| {
        let args = [
            "sim",
            "soak",
            "--bug",
            "lost-write",
            "--seed",
            seed,
            "--runs",
            runs,
            "--json",
            "--without",
            UNKEPT,
        ];
        let output = run(&[&args, more].concat());
        assert_eq!(output.status.code(), Some(1));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["findings"][0], report["found"]);
        report["found"].clone()
    };
    let found = soak("1", "50", &[]);
    assert_eq!(soak(&found["seed"].to_string(), "1", &[]), found);
    let whole = soak("1", "50", &["--no-shrink"]);
    assert_eq!((&whole["seed"], &whole["kind"]), (&found["seed"], &found["kind"]));
    let lines = |found: &serde_json::Value| found["plan"].as_str().unwrap().lines().count();
    assert!(lines(&whole) > 2 * lines(&found), "the smaller plan is found without the option only");
    assert!(found["replay"].as_str().unwrap().contains("--bug lost-write"));
}

#[test]
fn bugs_are_listed_and_others_are_refused() {
    assert!(ok(&["sim", "soak", "--bug", "list"]).contains("no-fua: "));
    assert!(json(&["sim", "soak", "--bug", "list"]).as_array().unwrap().len() >= 12);
    fails_saying(2, &["sim", "soak", "--bug", "none"], &["unknown bug", "no-fua"]);
    fails_saying(2, &["sim", "soak", "--threads", "0"], &["--threads"]);
}

#[test]
fn features_are_listed_and_others_are_refused() {
    assert!(ok(&["sim", "soak", "--without", "list"]).contains("transient: "));
    assert!(json(&["sim", "soak", "--without", "list"]).as_array().unwrap().len() > 20);
    fails_saying(2, &["sim", "soak", "--without", "cuts,luck"], &["`luck`", "cuts"]);
    fails_saying(2, &["sim", "soak", "--driver", "uring"], &["--real"]);
    fails_saying(2, &["sim", "soak", "--real", ".", "--driver", "tape"], &["threads"]);
}

#[test]
fn real_drivers_are_soaked_in_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().to_str().unwrap();
    let args = ["sim", "soak", "--real", place, "--driver", "threads", "--runs", "1", "--without", UNKEPT];
    let text = ok(&args);
    assert!(text.contains("nothing found") && text.contains("short transfers"), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "files are left");
    fails_saying(1, &["sim", "soak", "--real", "/nonexistent"], &["/nonexistent"]);
}
