//! The soak finds the old defects of this project that are not patches yet, and its documentation says so.
//!
//! A defect is active for the whole process, so these tests are in a process of their own, and none of them
//! may run in parallel with another that needs Platter without defects.

use platter_block::defect::{self, Defect};
use platter_kit::soak::bugs::{self, Bug, Reach};
use platter_kit::soak::{Options, run};
use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/simulation.md");
const BEGIN: &str = "<!-- defects that are put back: written by a test, see there -->\n";
const END: &str = "<!-- end of defects that are put back -->\n";
/// Set, the tables of the page are written instead of checked.
const WRITE: &str = "PLATTER_WRITE_TABLES";

fn soak(bug: &'static Bug, runs: u64) -> platter_kit::soak::Report {
    // Some defects need the policies of past kernels.
    platter_repro::policies::register_readahead();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let options = Options { runs, threads, bug: Some(bug), shrink: false, ..Options::default() };
    run(&options, &AtomicBool::new(false), &mut |_| {})
}

/// A single test, so that no two defects are active at once.
#[test]
fn each_old_defect_is_found_within_its_number_of_runs() {
    const { assert!(defect::AVAILABLE, "the tests are built with the feature") };
    let mut missed = Vec::new();
    for (bug, old) in bugs::put_back().iter().zip(Defect::ALL) {
        assert_eq!(bug.name, old.name());
        match bug.reach {
            Reach::Within(runs) => {
                let report = soak(bug, runs);
                match report.found.first() {
                    Some(found) => eprintln!("{}: {} after {} runs", bug.name, found.kind, report.runs),
                    None => missed.push(format!("{}: not in {runs} runs", bug.name)),
                }
            }
            // It is put back all the same, and harms no run.
            Reach::Targeted { .. } | Reach::Unknown => assert_eq!(soak(bug, 1).runs, 1),
        }
        assert!(!defect::is_on(*old), "{} stayed", bug.name);
    }
    assert!(missed.is_empty(), "{}", missed.join("; "));
}

fn row(out: &mut String, bug: &Bug) {
    let reach = match bug.reach {
        Reach::Within(runs) => format!("{runs} runs"),
        Reach::Targeted { test, why } => format!("not: {why}; `{test}` does"),
        Reach::Unknown => "not tried".to_owned(),
    };
    let _ = writeln!(out, "| `{}` | {} | {reach} |", bug.name, bug.summary);
}

#[test]
fn the_page_says_what_the_soak_finds() {
    let mut table = "| defect that is put back | what it does | found within |\n|---|---|---|\n".to_owned();
    bugs::put_back().iter().for_each(|bug| row(&mut table, bug));
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the page has the marks of the tables");
    let (said, tail) = rest.split_once(END).expect("the page has the marks of the tables");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(PAGE, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
        return;
    }
    assert!(
        said == table,
        "docs/simulation.md: the tables differ; write them anew with {WRITE}=1 cargo test -p platter-kit --test defects"
    );
}
