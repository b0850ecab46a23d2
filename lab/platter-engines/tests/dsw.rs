//! Recordings of decision-support queries.

use platter_bench::dsw::Recording;
use platter_engines::dsw::{self, PAGE_BYTES, QUERIES};
use std::process::Command;
use tpchgen::generators::LineItemGenerator;

const SCALE: f64 = 0.004;

fn quiet(_now: &str) {}

/// The rows of `lineitem`, each as its sixteen values.
fn lines() -> Vec<Vec<String>> {
    let row = |line: tpchgen::generators::LineItem<'_>| {
        line.to_string().split_terminator('|').map(str::to_owned).collect()
    };
    LineItemGenerator::new(SCALE, 1, 1).iter().map(row).collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

#[test]
fn queries_return_what_the_rows_say() {
    let dir = tempfile::tempdir().unwrap();
    let queries: Vec<_> = ["Q1", "Q6"].map(|name| dsw::find(name).unwrap()).into();
    let (recording, results) = dsw::record(dir.path(), SCALE, &queries, &mut quiet).unwrap();
    let lines = lines();
    let shipped = lines.iter().filter(|line| line[10].as_str() <= "1998-09-02").count();
    let counted: f64 = results[0].iter().map(|row| number(&row[9])).sum();
    assert_eq!(counted, shipped as f64);
    let discounted = |line: &&Vec<String>| {
        let (date, discount) = (line[10].as_str(), number(&line[6]));
        ("1994-01-01".."1995-01-01").contains(&date)
            && (0.0499..0.0701).contains(&discount)
            && number(&line[4]) < 24.0
    };
    let revenue: f64 = lines.iter().filter(discounted).map(|line| number(&line[5]) * number(&line[6])).sum();
    assert!((number(&results[1][0][0]) - revenue).abs() < 0.01, "{revenue} {:?}", results[1]);
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "files are left");

    // Both read the whole of the same table in sequence, no page twice: rows of at least 100 bytes.
    let [q1, q6] = recording.queries() else { panic!("two queries") };
    let pages =
        |query: &platter_bench::dsw::Query| query.reads.iter().map(|read| read.page).collect::<Vec<_>>();
    let (q1, q6) = (pages(q1), pages(q6));
    assert_eq!(q1, q6);
    assert!(q1.len() as u64 * u64::from(PAGE_BYTES) > lines.len() as u64 * 100, "{}", q1.len());
    let next = q1.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    assert!(next * 10 > q1.len() * 9, "{next} of {}", q1.len());
    let mut each = q1.clone();
    each.sort_unstable();
    each.dedup();
    assert_eq!(each.len(), q1.len());
    assert!(recording.queries().iter().flat_map(|query| &query.reads).any(|read| read.compute_ns > 0));
}

#[test]
fn every_query_runs_and_reads() {
    let dir = tempfile::tempdir().unwrap();
    let queries: Vec<_> = QUERIES.iter().collect();
    let (recording, results) = dsw::record(dir.path(), 0.01, &queries, &mut quiet).unwrap();
    for (query, rows) in recording.queries().iter().zip(results) {
        assert!(!query.reads.is_empty(), "{}", query.name);
        // Few orders have more than 300 pieces: at this scale there is at least one.
        assert!(!rows.is_empty(), "{}", query.name);
    }
}

#[test]
fn the_program_writes_a_recording_or_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dsw.recording");
    let record = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_platter-dsw")).arg(&file).args(arguments).output().unwrap()
    };
    let refused = record(&["--scale", "0"]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && text.contains("scale 0: give 0.001 to 10"), "{text}");
    let refused = record(&["--query", "Q99"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("expected one of: Q1, Q4"));
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "files are left");
    let done = record(&["--scale", "0.001", "--query", "Q6,Q4"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let recording = Recording::from_bytes(&std::fs::read(&file).unwrap()).unwrap();
    let names: Vec<_> = recording.queries().iter().map(|query| query.name.as_str()).collect();
    assert_eq!((names, recording.scale()), (vec!["Q6", "Q4"], 0.001));
}
