//! Results of fio, `--output-format=json` and `json+`: the format of fio 3 (its HOWTO, "JSON output").
//!
//! Jobs of one name (`numjobs` without `group_reporting`) are one: their rates add up, and their percentiles come from the
//! buckets of `json+`. Percentiles of several jobs without buckets are left out: they cannot be computed from those of the jobs.
//! Latencies are fio's `lat`; percentiles are those of `lat` or, as is the default, of `clat`.

use super::run::{Figures, Metric, Run, option_text, sorted};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

type Object = Map<String, Value>;

const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

/// The percentiles that are compared, with fio's names.
const PERCENTILES: [(Metric, &str, f64); 3] = [
    (Metric::LatP50, "50.000000", 0.50),
    (Metric::LatP99, "99.000000", 0.99),
    (Metric::LatP999, "99.900000", 0.999),
];

/// The run of an object.
pub(super) fn run(object: &Object) -> Result<Run, String> {
    let list = ["jobs", "client_stats"].iter().find_map(|key| object.get(*key)?.as_array());
    let jobs: Vec<&Object> = list.into_iter().flatten().filter_map(Value::as_object).collect();
    let jobs: Vec<&Object> = jobs.into_iter().filter(|job| name(job) != "All clients").collect();
    if jobs.is_empty() {
        return Err("fio's result has no jobs; give the whole output of --output-format=json".to_owned());
    }
    let mut run = Run { program: "fio", ..Run::default() };
    put_options(object.get("global options"), "", &mut run);
    let mut names: Vec<String> = Vec::new();
    for job in &jobs {
        let name = name(job);
        let error = job.get("error").and_then(Value::as_i64).unwrap_or(0);
        if error != 0 {
            return Err(format!("fio's job {name} ended with error {error}; run it again"));
        }
        put_options(job.get("job options"), &format!("{name}."), &mut run);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for one in names {
        let same: Vec<&Object> = jobs.iter().copied().filter(|job| name(job) == one).collect();
        let parts = DIRECTIONS.iter().filter_map(|direction| part(&one, direction, &same));
        let parts: Vec<Figures> = parts.collect();
        if parts.len() > 1 {
            run.figures.push(whole(&one, &parts));
        }
        run.figures.extend(parts);
    }
    match run.figures.is_empty() {
        true => Err("fio's jobs have done no I/O".to_owned()),
        false => Ok(run),
    }
}

fn name(job: &Object) -> String {
    job.get("jobname").map(option_text).unwrap_or_default()
}

fn put_options(options: Option<&Value>, prefix: &str, run: &mut Run) {
    for (key, value) in options.and_then(Value::as_object).into_iter().flatten() {
        run.options.insert(format!("{prefix}{key}"), option_text(value));
    }
}

/// A direction of jobs of one name; `None` if it has no I/O.
fn part(job: &str, direction: &str, same: &[&Object]) -> Option<Figures> {
    let of = |job: &&Object| job.get(direction)?.as_object().cloned();
    let number = |part: &Object, key: &str| part.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let parts: Vec<Object> =
        same.iter().filter_map(of).filter(|part| number(part, "total_ios") > 0.0).collect();
    if parts.is_empty() {
        return None;
    }
    let sum = |key: &str| parts.iter().map(|part| number(part, key)).sum::<f64>();
    let mut values = BTreeMap::from([(Metric::Iops, sum("iops"))]);
    values.insert(Metric::MibPerS, sum("bw_bytes") / f64::from(1 << 20));
    let latencies: Vec<&Object> = parts.iter().filter_map(|part| part.get("lat_ns")?.as_object()).collect();
    let count: f64 = latencies.iter().map(|latency| number(latency, "N")).sum();
    if count > 0.0 {
        let total: f64 = latencies.iter().map(|one| number(one, "mean") * number(one, "N")).sum();
        values.insert(Metric::LatMean, total / count);
    }
    // That which has percentiles: `lat` if they were asked for, otherwise `clat`.
    let with =
        |key: &str| ["lat_ns", "clat_ns"].iter().find(|kind| parts.iter().all(|part| has(part, kind, key)));
    let mut buckets = Vec::new();
    if let Some(kind) = with("bins") {
        buckets = sorted(parts.iter().flat_map(|part| bins(&part[*kind]["bins"])).collect());
    }
    if let ([part], Some(kind)) = (parts.as_slice(), with("percentile")) {
        let percentiles = &part[*kind]["percentile"];
        let known = PERCENTILES
            .iter()
            .filter_map(|(metric, name, _)| Some((*metric, percentiles.get(name)?.as_f64()?)));
        values.extend(known);
    } else {
        values
            .extend(PERCENTILES.iter().filter_map(|&(metric, _, q)| Some((metric, quantile(&buckets, q)?))));
    }
    Some(Figures {
        job: job.to_owned(),
        direction: direction.to_owned(),
        values,
        buckets,
        ..Figures::default()
    })
}

fn has(part: &Object, kind: &str, key: &str) -> bool {
    part.get(kind).and_then(|latency| latency.get(key)).is_some_and(Value::is_object)
}

fn bins(bins: &Value) -> Vec<(f64, u64)> {
    let bins = bins.as_object().into_iter().flatten();
    bins.filter_map(|(ns, count)| Some((ns.parse().ok()?, count.as_u64()?))).collect()
}

/// The first value that the share `q` is not above.
fn quantile(buckets: &[(f64, u64)], q: f64) -> Option<f64> {
    let total: u64 = buckets.iter().map(|&(_, count)| count).sum();
    let least = (q * total as f64).ceil() as u64;
    let mut seen = 0;
    buckets
        .iter()
        .find(|&&(_, count)| {
            seen += count;
            seen >= least.max(1)
        })
        .map(|&(ns, _)| ns)
}

/// All directions of a job together.
fn whole(job: &str, parts: &[Figures]) -> Figures {
    let sum = |metric: Metric| parts.iter().filter_map(|part| part.values.get(&metric)).sum::<f64>();
    let values = [Metric::Iops, Metric::MibPerS].map(|metric| (metric, sum(metric)));
    let buckets = sorted(parts.iter().flat_map(|part| part.buckets.clone()).collect());
    Figures {
        job: job.to_owned(),
        direction: "all".to_owned(),
        values: values.into_iter().collect(),
        buckets,
        ..Figures::default()
    }
}
