//! `platter sim soak`.

use crate::run::{fails_saying, json, ok, run};

#[test]
fn a_soak_reports_what_it_came_across() {
    let text = ok(&["sim", "soak", "--runs", "5", "--seed", "3", "--threads", "2"]);
    assert!(text.starts_with("5 runs from seed 3") && text.contains("nothing found"), "{text}");
    let report = json(&["sim", "soak", "--runs", "5", "--seed", "3", "--threads", "1"]);
    assert_eq!((report["runs"].as_u64(), report["found"].is_null()), (Some(5), true));
    assert!(report["cover"]["bios"].as_u64().unwrap() > 0);
}

#[test]
fn a_bug_is_found_with_a_seed_that_repeats_it() {
    let soak = |seed: &str, runs: &str| {
        let args = ["sim", "soak", "--bug", "lost-write", "--seed", seed, "--runs", runs, "--json"];
        let output = run(&args);
        assert_eq!(output.status.code(), Some(1));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        report["found"].clone()
    };
    let found = soak("1", "50");
    assert_eq!(soak(&found["seed"].to_string(), "1"), found);
    assert!(found["replay"].as_str().unwrap().contains("--bug lost-write"));
}

#[test]
fn bugs_are_listed_and_others_are_refused() {
    assert!(ok(&["sim", "soak", "--bug", "list"]).contains("no-fua: "));
    assert!(json(&["sim", "soak", "--bug", "list"]).as_array().unwrap().len() >= 12);
    fails_saying(2, &["sim", "soak", "--bug", "none"], &["no such bug", "no-fua"]);
    fails_saying(2, &["sim", "soak", "--threads", "0"], &["--threads"]);
}
