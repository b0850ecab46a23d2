//! Results as files, and what is said of them.

use super::*;
use crate::stats::Seeded;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// A result of `bench io` with this rate and these latencies.
fn ours(iops: f64, p50: f64, p99: f64) -> Value {
    json!({
        "partial": false, "iops": iops, "mib_per_s": iops / 256.0, "io_errors": 0, "verify_errors": 0,
        "lat_p50_ns": p50, "lat_p99_ns": p99, "cpu_ns_per_io": 900.0,
        "directions": [{ "direction": "read", "iops": iops, "lat_buckets": [[90, 100, 7], [200, 210, 3]] }],
        "job": { "iodepth": 32, "seed": 1 }, "devices": [{ "name": "null" }],
    })
}

fn fio(jobs: Value) -> Value {
    json!({ "fio version": "fio-3.36", "global options": { "bs": "4k" }, "jobs": jobs })
}

fn fio_job(name: &str, iops: f64, extra: Value) -> Value {
    let mut read = json!({ "total_ios": 1000, "iops": iops, "bw_bytes": iops * 4096.0, "lat_ns": { "mean": 50.0, "N": 1000 } });
    read.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    json!({ "jobname": name, "error": 0, "job options": { "iodepth": "4" }, "read": read,
            "write": { "total_ios": 0, "iops": 0.0, "bw_bytes": 0 } })
}

fn put(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, text).unwrap();
    path
}

fn side(values: &[Value]) -> Side {
    let dir = tempfile::tempdir().unwrap();
    Side::read(&put(dir.path(), "r.json", &Value::from(values).to_string())).unwrap()
}

fn noisy(rng: &mut Seeded, middle: f64) -> f64 {
    let sum: f64 = (0..12).map(|_| (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64).sum();
    middle * (1.0 + 0.02 * (sum - 6.0))
}

#[test]
fn runs_come_from_files_lists_and_directories() {
    let dir = tempfile::tempdir().unwrap();
    let one = ours(1000.0, 80.0, 90.0).to_string();
    let count = |path: &Path| Side::read(path).unwrap().runs.len();
    assert_eq!(count(&put(dir.path(), "one.json", &one)), 1);
    assert_eq!(count(&put(dir.path(), "lines.json", &format!("{one}\n{one}\n"))), 2);
    assert_eq!(count(&put(dir.path(), "list.json", &format!("[{one},{one},{one}]"))), 3);
    let repeat = format!("{{\"repeat\": 2, \"median\": {{}}, \"runs\": [{one},{one}]}}");
    assert_eq!(count(&put(dir.path(), "repeat.json", &repeat)), 2);
    put(dir.path(), "not.txt", "no result");
    let all = Side::read(dir.path()).unwrap();
    assert_eq!(all.runs.len(), 8);
    assert!(all.runs[0].source.ends_with("lines.json run 1"), "{}", all.runs[0].source);
    let values = &all.runs[0].figures[0].values;
    assert_eq!((values[&Metric::Iops], values[&Metric::LatP99]), (1000.0, 90.0));
}

#[test]
fn jobs_of_fio_are_read_with_warnings_before_them_and_added_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let percentiles = json!({ "clat_ns": { "percentile": { "50.000000": 41, "99.000000": 77 } } });
    let text = format!("fio: a warning {{\n{}", fio(json!([fio_job("a", 500.0, percentiles)])));
    let run = Side::read(&put(dir.path(), "warned.json", &text)).unwrap();
    let values = &run.runs[0].figures[0].values;
    assert_eq!(
        (values[&Metric::Iops], values[&Metric::LatP50], values[&Metric::LatMean]),
        (500.0, 41.0, 50.0)
    );
    assert_eq!(run.runs[0].options["a.iodepth"], "4");
    // Without buckets percentiles of several jobs are not known.
    let percentiles = json!({ "clat_ns": { "percentile": { "50.000000": 41, "99.000000": 77 } } });
    let two = |extra: &Value| {
        side(&[fio(json!([fio_job("a", 500.0, extra.clone()), fio_job("a", 300.0, extra.clone())]))])
    };
    let added = &two(&percentiles).runs[0].figures[0].values.clone();
    assert_eq!((added[&Metric::Iops], added.get(&Metric::LatP50)), (800.0, None));
    let bins = json!({ "clat_ns": { "bins": { "10": 98, "70": 2 }, "percentile": { "50.000000": 41 } } });
    let added = &two(&bins).runs[0].figures[0].values.clone();
    assert_eq!((added[&Metric::LatP50], added[&Metric::LatP99]), (10.0, 70.0));
}

#[test]
fn what_cannot_be_compared_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = |name: &str, text: &str| Side::read(&put(dir.path(), name, text)).unwrap_err().to_string();
    assert!(error("a.json", "hello").contains("a.json: it has no JSON object"));
    assert!(error("b.json", "{\"x\": 1").contains("b.json: it is no JSON"));
    assert!(
        error("c.json", "{\"x\": 1}")
            .contains("neither a result of `platter bench io --json` nor one of fio")
    );
    let mut partial = ours(1.0, 1.0, 1.0);
    partial["partial"] = json!(true);
    assert!(error("d.json", &partial.to_string()).contains("interrupted"));
    let mut failed = ours(1.0, 1.0, 1.0);
    failed["io_errors"] = json!(3);
    assert!(error("e.json", &failed.to_string()).contains("io_errors is not 0"));
    let mut job = fio_job("a", 5.0, json!({}));
    job["error"] = json!(5);
    assert!(error("f.json", &fio(json!([job])).to_string()).contains("job a ended with error 5"));
    assert!(error("g.json", &fio(json!([])).to_string()).contains("no jobs"));
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    assert!(Side::read(&empty).unwrap_err().to_string().contains("it has no results"));
    assert!(Side::read(&dir.path().join("none")).unwrap_err().to_string().contains("cannot read"));
    let (one, two) = (side(&[ours(1.0, 1.0, 1.0)]), side(&vec![ours(1.0, 1.0, 1.0); 2]));
    let paired = Plan { paired: true, ..Plan::default() };
    assert!(compare(&one, &two, &paired).unwrap_err().to_string().contains("as many runs"));
    let written =
        side(&[fio(json!([{ "jobname": "w", "error": 0, "write": { "total_ios": 9, "iops": 9.0 } }]))]);
    let error = compare(&one, &written, &Plan::default()).unwrap_err().to_string();
    assert!(error.contains("has read") && error.contains("has w write"), "{error}");
}

#[test]
fn a_verdict_says_which_way_is_better_and_how_many_runs_it_takes() {
    let runs = |iops: [f64; 6], p99: f64| side(&iops.map(|iops| ours(iops, 50.0, p99 * iops)));
    let base = runs([100.0, 101.0, 99.0, 100.5, 99.5, 100.2], 1.0);
    let slow = runs([90.0, 91.0, 89.0, 90.5, 89.5, 90.2], 1.5);
    let found = compare(&base, &slow, &Plan::default()).unwrap();
    let row = |metric: Metric| found.rows.iter().find(|row| row.metric == metric).unwrap();
    assert_eq!(row(Metric::Iops).verdict, Verdict::Worse);
    assert_eq!(row(Metric::LatP99).verdict, Verdict::Worse);
    assert_eq!(row(Metric::LatP50).verdict, Verdict::NoDifference);
    assert_eq!(row(Metric::CpuPerIo).verdict, Verdict::NoDifference);
    let ratio = row(Metric::Iops).ratio.unwrap();
    assert!(ratio.low > 0.88 && ratio.high < 0.92 && (row(Metric::Iops).loss() - 0.1).abs() < 0.005);
    assert_eq!((found.losses(0.05).count(), found.losses(0.2).count()), (2, 1));
    assert_eq!(compare(&slow, &base, &Plan::default()).unwrap().rows[0].verdict, Verdict::Better);
    let few = compare(&side(&vec![ours(1.0, 1.0, 1.0); 2]), &slow, &Plan::default()).unwrap();
    assert_eq!(few.rows[0].verdict, Verdict::Unknown("2 and 6 runs; 5 of each are needed".to_owned()));
    assert_eq!(few.losses(10.0).count(), 4, "what is not known is not passed");
    let text = found.to_text(false);
    assert!(text.contains("worse: -10.0 % (-11.") && text.contains("no difference found"), "{text}");
    let page = page(&[found]);
    assert!(page.contains("Change of each figure") && page.contains("Latencies") && page.contains("<svg"));
}

#[test]
fn differing_options_and_programs_are_said() {
    let mut deep = ours(100.0, 1.0, 1.0);
    deep["job"]["iodepth"] = json!(64);
    deep["job"]["seed"] = json!(2);
    let found = compare(&side(&[ours(100.0, 1.0, 1.0)]), &side(&[deep]), &Plan::default()).unwrap();
    assert_eq!(found.notes, ["iodepth differs: 32 against 64"]);
    let of_fio = side(&[fio(json!([fio_job("a", 100.0, json!({}))]))]);
    let found = compare(&side(&[ours(100.0, 1.0, 1.0)]), &of_fio, &Plan::default()).unwrap();
    assert!(found.notes[0].contains("of platter and of fio"), "{:?}", found.notes);
}

#[test]
fn a_run_alone_is_judged_by_its_blocks_and_what_is_not_steady_is_said() {
    let mut rng = Seeded::new(11);
    let mut run = |middle: f64, slope: f64| {
        let series: Vec<f64> =
            (0..120).map(|at| noisy(&mut rng, middle * (1.0 + slope * f64::from(at)))).collect();
        let mut run = ours(middle, 50.0, 60.0);
        run["series"] = json!({ "interval_s": 0.1, "iops": series });
        side(&[run])
    };
    let plan = Plan { metrics: vec![Metric::Iops], ..Plan::default() };
    let (base, faster, rising) = (run(100.0, 0.0), run(110.0, 0.0), run(100.0, 0.004));
    let found = compare(&base, &faster, &plan).unwrap();
    assert_eq!((found.rows[0].evidence, &found.rows[0].verdict), (Evidence::Blocks, &Verdict::Better));
    assert!(found.notes.iter().any(|note| note.contains("blocks of the runs over time")));
    let found = compare(&base, &rising, &plan).unwrap();
    assert!(found.notes.iter().any(|note| note.contains("not steady")), "{:?}", found.notes);
}

/// 200 comparisons of equal things in 4 figures each. 5 % of them are 10; 3 standard deviations more are 19.
#[test]
fn equal_things_differ_in_any_figure_in_at_most_5_of_100_comparisons() {
    let mut rng = Seeded::new(3);
    let mut runs = || {
        let run = |rng: &mut Seeded| {
            let mut run = ours(noisy(rng, 1e6), noisy(rng, 900.0), noisy(rng, 5000.0));
            run["cpu_ns_per_io"] = json!(noisy(rng, 700.0));
            run
        };
        side(&(0..6).map(|_| run(&mut rng)).collect::<Vec<_>>())
    };
    let told = (0..200).filter(|_| {
        let found = compare(&runs(), &runs(), &Plan::default()).unwrap();
        found.rows.iter().any(|row| row.verdict != Verdict::NoDifference)
    });
    let told = told.count();
    assert!((1..=19).contains(&told), "{told} of 200");
}
