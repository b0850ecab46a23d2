//! `platter repro` as users call it.

use platter_repro::published::{self, Shown};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["repro", "--quiet"]).args(args).stdin(Stdio::null()).output().unwrap()
}

fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// docs/command.md names every key, and no other in that section.
fn check_keys(report: &Value) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command.md");
    let page = fs::read_to_string(page).unwrap();
    let section = page.split("### repro\n").nth(1).unwrap().split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let listed = rows.flat_map(|line| line.split('|').nth(1).unwrap().split('`').skip(1).step_by(2));
    let listed: BTreeSet<&str> = listed.collect();
    let claim = report["claims"][0].as_object().unwrap();
    let found = report.as_object().unwrap().keys().chain(claim.keys());
    assert_eq!(listed, found.map(String::as_str).collect());
}

/// A report, and its page in HTML.
struct Made {
    report: Value,
    page: String,
}

fn made(args: &[&str]) -> Made {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let more = ["--json", "--scale", "64", "--report", page.to_str().unwrap()];
    let report = serde_json::from_str(&stdout(&[args, &more[..]].concat())).unwrap();
    Made { report, page: fs::read_to_string(page).unwrap() }
}

/// The report of an experiment on one thread, made once for all tests.
fn schedulers() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| made(&["schedulers", "--threads", "1"]))
}

/// The report of all experiments on several threads, made once for all tests.
fn all() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| made(&["all", "--threads", "4"]))
}

/// The claims of an experiment in the report of all, as the experiment's own report has them.
fn claims_in_all(experiment: &str) -> Vec<Value> {
    let claims = all().report["claims"].as_array().unwrap().iter();
    let mut claims: Vec<Value> = claims.filter(|claim| claim["experiment"] == experiment).cloned().collect();
    claims.iter_mut().for_each(|claim| drop(claim.as_object_mut().unwrap().remove("experiment")));
    claims
}

#[test]
fn claims_are_complete_and_threads_change_nothing() {
    let Made { report, page } = schedulers();
    assert!(page.contains("tree-during-write-as") && page.contains("predictions hold"));
    check_keys(report);
    let claims = report["claims"].as_array().unwrap();
    assert_eq!(*claims, claims_in_all("schedulers"));
    let experiments = all().report["experiments"].as_array().unwrap();
    let experiment = experiments.iter().find(|row| row["experiment"] == "schedulers").unwrap();
    assert_eq!(report["notes"], experiment["notes"]);
    assert!(claims.len() > 40);
    let ids: BTreeSet<&str> = claims.iter().map(|claim| claim["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), claims.len());
    for claim in claims {
        assert!(claim["published"].is_number() && claim["here"].is_null(), "{claim:#}");
        assert_eq!(claim["holds"].is_null(), claim["ours"].is_null(), "{claim:#}");
        assert!(claim["holds"] == true || claim["reason"].is_string(), "{claim:#}");
    }
}

#[test]
fn wrong_options_say_what_is_right() {
    for (args, says) in [
        (&["elevators"][..], "unknown experiment; expected one of: schedulers"),
        (&["schedulers", "--scale", "0"], "1..=64"),
        (&["schedulers", "--full", "--scale", "2"], "cannot be used with"),
        (&["schedulers", "--report", "/nonexistent/x.html"], "give another path"),
        (&["plug2004", "--preset", "2.6.99"], "unknown kernel `2.6.99`; expected one of: 2.4.18"),
        (
            &["plug2004", "--elevator", "cfq(quantum=1)"],
            "those that can be changed are: anticipatory, deadline",
        ),
        (&["dm2002", "--elevator", "cfq(quantum=1)"], "no elevators that can be changed"),
        (&["plug2004", "--elevator", "deadline"], "give a value of a parameter"),
        (&["plug2004", "--elevator", "deadline(fifo_batch=x)"], "fifo_batch"),
        (&[], "<NAME>"),
    ] {
        let output = run(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(says), "{args:?}: {said}");
    }
}

/// What elevators do is shown with other parameters too, and then no figure counts as a prediction.
#[test]
fn other_parameters_change_the_figures() {
    let figure = |report: &Value| {
        let claims = report["claims"].as_array().unwrap();
        let claim = claims.iter().find(|claim| claim["id"] == "readahead-8k-as").unwrap().clone();
        let predictions = claims.iter().filter(|claim| claim["kind"] == "prediction").count();
        (claim["ours"].as_f64().unwrap(), predictions, report["totals"].as_array().unwrap().len())
    };
    let (published, predictions, totals) = figure(&schedulers().report);
    assert!(published < 2.0 && predictions > 30 && totals > 0, "{published}");
    // Without anticipation, readers with a small window are interrupted after each of their reads.
    let changed = made(&["schedulers", "--elevator", "anticipatory(antic_expire=0)"]);
    let (changed, predictions, totals) = figure(&changed.report);
    assert!(changed > 3.0 && (predictions, totals) == (0, 0), "{changed}");
}

/// What the talk of 2004 says in words: which claims hold. Of the exact counts all do.
#[test]
fn the_words_of_the_talk_hold_but_those_listed() {
    let claims = claims_in_all("axboe2004");
    let of = |kind: &str| claims.iter().filter(|claim| claim["kind"] == kind).count();
    assert_eq!(["mechanism", "prediction", "ours", "input"].map(of), [27, 17, 9, 0]);
    let missed = claims.iter().filter(|claim| claim["holds"] == false);
    let missed: Vec<&str> = missed.map(|claim| claim["id"].as_str().unwrap()).collect();
    assert_eq!(missed, ["fair-writes-code", "group-uid", "group-pgid"]);
    for (id, published) in
        [("plug-thresh", 4.0), ("plug-delay", 3.0), ("bio-place", 1_004_060.0), ("four", 4.0)]
    {
        let claim = claims.iter().find(|claim| claim["id"] == id).unwrap();
        assert_eq!((&claim["published"], &claim["ours"]), (&published.into(), &published.into()));
    }
}

/// Every number of the list that was typed from the documents is the published figure of a claim, or is said to be missing.
fn check_published(claims: &[Value], missing: &Value) {
    let mut without = 0;
    for figure in published::figures() {
        let (experiment, id) = match figure.shown {
            Shown::By(experiment, id) | Shown::Within(experiment, id) => (experiment, id),
            _ => {
                without += 1;
                continue;
            }
        };
        let claim = claims.iter().find(|claim| claim["experiment"] == experiment && claim["id"] == id);
        let claim = claim.unwrap_or_else(|| panic!("{experiment} has no claim {id}"));
        let published = claim["published"].as_f64();
        let same = published.is_some_and(|published| (published - figure.value).abs() < 1e-9);
        assert!(same || matches!(figure.shown, Shown::Within(..)), "{figure:?}: {published:?}");
        assert!(claim["source"].as_str().is_some_and(|source| source.len() > 4), "{claim}");
    }
    assert_eq!(missing.as_array().map(Vec::len), Some(without));
    // Eight of all spinning locks, one of two functions that the model has as one, and two that follow from others.
    assert_eq!(without, 11);
}

/// Every statement in words of the list is tested by a claim that exists and has a source, or is said not to be.
fn check_statements(claims: &[Value], missing: &Value) {
    let mut without = Vec::new();
    for statement in published::statements() {
        match statement.shown {
            Shown::By(experiment, id) | Shown::Within(experiment, id) => {
                let of = |claim: &&Value| claim["experiment"] == experiment && claim["id"] == id;
                assert!(claims.iter().any(|claim| of(&claim)), "{experiment} has no claim {id}");
            }
            Shown::Not(why) => without.push((statement.says, why)),
            _ => panic!("{statement:?}"),
        }
    }
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let listed = missing.as_array().unwrap().iter();
    let listed: Vec<_> = listed.map(|missing| (text(&missing["says"]), text(&missing["reason"]))).collect();
    let expected: Vec<_> = without.iter().map(|(says, why)| (says.to_string(), why.to_string())).collect();
    assert_eq!(listed, expected);
    // Four compare what their paper does not measure, four are properties, guesses or proposals, and one is about memory.
    assert_eq!(without.len(), 9);
}

#[test]
fn all_experiments_make_one_report() {
    let Made { report, page } = all();
    let claims = report["claims"].as_array().unwrap();
    let of_claims: BTreeSet<&str> =
        claims.iter().map(|claim| claim["experiment"].as_str().unwrap()).collect();
    let experiments = report["experiments"].as_array().unwrap().iter();
    let listed: BTreeSet<&str> = experiments.map(|row| row["experiment"].as_str().unwrap()).collect();
    let known: BTreeSet<&str> = platter_repro::TABLE.iter().map(|row| row.name).collect();
    assert_eq!((&of_claims, &listed), (&known, &known));
    for (name, least) in [("readahead", 25), ("sysbench2004", 35)] {
        assert!(claims.iter().filter(|claim| claim["experiment"] == name).count() >= least, "{name}");
    }
    // The keys that the page of the command names, and that of the experiment.
    let keys = |claim: &Value| claim.as_object().unwrap().keys().cloned().collect::<BTreeSet<String>>();
    let mut expected = keys(&schedulers().report["claims"][0]);
    expected.insert("experiment".to_owned());
    for claim in claims {
        assert_eq!(keys(claim), expected);
        assert!(claim["ours"].is_number() || claim["reason"].is_string(), "{claim:#}");
    }
    let predictions = claims.iter().filter(|claim| claim["kind"] == "prediction").count() as u64;
    let totals = report["totals"].as_array().unwrap().iter();
    assert_eq!(totals.map(|total| total["predictions"].as_u64().unwrap()).sum::<u64>(), predictions);
    check_published(claims, &report["missing"]);
    check_statements(claims, &report["missing_statements"]);
    for name in known {
        assert!(page.contains(&format!("<h3>platter repro {name}</h3>")), "{name}");
    }
}
