//! Results of `platter bench io --json`, of one job or of a job file.

use super::run::{Figures, Metric, Run, option_text, sorted};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

type Object = Map<String, Value>;

/// What a run was told that does not change what it measures.
const NOT_COMPARED: [&str; 1] = ["seed"];

/// The run of an object.
pub(super) fn run(object: &Object) -> Result<Run, String> {
    let mut run = Run { program: "platter", ..Run::default() };
    match object.get("jobs").and_then(Value::as_array) {
        Some(jobs) => {
            for job in jobs.iter().filter_map(Value::as_object) {
                let name = job.get("name").and_then(Value::as_str).unwrap_or("");
                add_job(name, job, &mut run)?;
            }
        }
        None => add_job("", object, &mut run)?,
    }
    Ok(run)
}

fn add_job(name: &str, object: &Object, run: &mut Run) -> Result<(), String> {
    let job = if name.is_empty() { String::new() } else { format!("of job {name} ") };
    if object.get("partial") == Some(&Value::Bool(true)) {
        return Err(format!("the run {job}was interrupted: its figures are partial; run it again"));
    }
    for key in ["io_errors", "verify_errors"] {
        if object.get(key).and_then(Value::as_u64).unwrap_or(0) > 0 {
            return Err(format!("the run {job}failed ({key} is not 0); run it again"));
        }
    }
    let prefix = if name.is_empty() { String::new() } else { format!("{name}.") };
    let options = object.get("job").and_then(Value::as_object).into_iter().flatten();
    for (key, value) in
        options.filter(|(key, value)| !NOT_COMPARED.contains(&key.as_str()) && !value.is_null())
    {
        run.options.insert(format!("{prefix}{key}"), option_text(value));
    }
    let devices = object.get("devices").and_then(Value::as_array).into_iter().flatten();
    let names: Vec<String> = devices.filter_map(|device| device.get("name").map(option_text)).collect();
    run.options.insert(format!("{prefix}devices"), names.join(" "));
    let directions: Vec<&Object> = object
        .get("directions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect();
    let direction = |part: &Object| part.get("direction").map(option_text).unwrap_or_default();
    let buckets = directions.iter().flat_map(|part| buckets(part)).collect();
    let whole = Figures {
        job: name.to_owned(),
        direction: match directions.as_slice() {
            [only] => direction(only),
            _ => "all".to_owned(),
        },
        values: values(object),
        series: series(object),
        interval_s: object.get("series").and_then(|series| series.get("interval_s")?.as_f64()).unwrap_or(0.0),
        buckets: sorted(buckets),
    };
    run.figures.push(whole);
    if directions.len() > 1 {
        run.figures.extend(directions.iter().map(|part| Figures {
            job: name.to_owned(),
            direction: direction(part),
            values: values(part),
            buckets: sorted(self::buckets(part)),
            ..Figures::default()
        }));
    }
    Ok(())
}

fn values(object: &Object) -> BTreeMap<Metric, f64> {
    let of = |metric: Metric| Some((metric, object.get(metric.name())?.as_f64()?));
    Metric::ALL.into_iter().filter_map(of).collect()
}

/// The figures over time; those with an interval in which there was none are left out.
fn series(object: &Object) -> BTreeMap<Metric, Vec<f64>> {
    let Some(series) = object.get("series") else { return BTreeMap::new() };
    let of = |metric: Metric| {
        let values = series.get(metric.name())?.as_array()?;
        let values: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
        values.filter(|values| !values.is_empty()).map(|values| (metric, values))
    };
    Metric::ALL.into_iter().filter_map(of).collect()
}

fn buckets(part: &Object) -> Vec<(f64, u64)> {
    let buckets = part.get("lat_buckets").and_then(Value::as_array).into_iter().flatten();
    buckets.filter_map(|bucket| Some((bucket.get(1)?.as_f64()?, bucket.get(2)?.as_u64()?))).collect()
}
