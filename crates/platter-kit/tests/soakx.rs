use platter_kit::soak::{Options, run};
use std::sync::atomic::AtomicBool;
#[test]
fn x() {
    let runs = std::env::var("RUNS").map_or(300, |r| r.parse().unwrap());
    let bug = std::env::var("BUG").ok().map(|name| platter_kit::soak::bugs::by_name(&name).unwrap());
    let options = Options { runs, threads: 2, bug, ..Options::default() };
    let report = run(&options, &AtomicBool::new(false), &mut |_| {});
    eprintln!("runs {} found {}", report.runs, report.found.len());
    for f in report.found.iter().take(2) { eprintln!("{f:?}"); }
}
