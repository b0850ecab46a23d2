//! Every planted bug is found, and only while it is planted. One test: a bug is planted in the whole process.

use platter_block::planted::{self, Planted};
use platter_fuzz::campaign::{Campaign, Finding, committed, inputs_in, shrink};
use platter_fuzz::run::run;
use platter_fuzz::targets;

const SEED: u64 = 1;

/// Most runs until a bug is found; docs/fuzzing.md has after how many each is.
const RUNS: u64 = 20_000;

#[test]
fn a_bug_in_each_parser_is_found() {
    for target in targets::ALL {
        let bug = target.planted;
        let corpus = inputs_in(&committed().join(target.name)).unwrap();
        planted::set(bug, true);
        let result = Campaign::new(target, SEED, corpus).runs(0, |run| run < RUNS);
        let Err(finding) = result else { panic!("{}: {} is not found", target.name, bug.name()) };
        println!("{}: run {:?}", target.name, finding.run);
        let length = finding.input.len();
        let Finding { input, wrong, .. } = shrink(target, finding, 200);
        planted::set(bug, false);
        assert!(!wrong.is_empty() && input.len() <= length);
        let sound = run(target, &input);
        assert!(sound.is_ok(), "{}: {sound:?} without {}", target.name, bug.name());
    }
}

#[test]
fn every_bug_has_its_format() {
    for bug in Planted::ALL {
        let count = targets::ALL.iter().filter(|target| target.planted == *bug).count();
        assert_eq!(count, 1, "{}", bug.name());
    }
}
