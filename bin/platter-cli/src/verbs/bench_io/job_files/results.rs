//! Results of job files: of each job and of each group.

use super::stages::JobResult;
use platter_bench::io::IoReport;
use platter_bench::report::units::{duration, fixed, thousands};
use platter_bench::report::{Column, Table, Terminal};
use platter_bench::stats::LatencyHistogram;
use platter_jobs::Plan;
use serde_json::{Map, Value, json};

/// What a group did as a whole.
struct Total {
    ios: u64,
    iops: f64,
    mib_per_s: f64,
    errors: u64,
    latency: Percentiles,
}

/// The median and 99 %, in ns; none if no latency was measured.
type Percentiles = [Option<u64>; 2];

impl Total {
    /// Rates add up; latencies are those of all I/Os, from their buckets.
    fn of<'r>(reports: impl Iterator<Item = &'r IoReport> + Clone) -> Total {
        let mut all = LatencyHistogram::new();
        let buckets = reports.clone().flat_map(|report| &report.directions).flat_map(|part| &part.buckets);
        for bucket in buckets.filter(|bucket| bucket.count > 0) {
            all.record_times(bucket.low + (bucket.high - bucket.low) / 2, bucket.count);
        }
        Total {
            ios: reports.clone().map(|report| report.ios).sum(),
            iops: reports.clone().map(|report| report.iops).sum(),
            mib_per_s: reports.clone().map(|report| report.mib_per_s).sum(),
            errors: reports.map(IoReport::errors).sum(),
            latency: [50.0, 99.0].map(|percent| all.percentile(percent)),
        }
    }
}

/// The keys of a job's results that are not those of its devices as a whole, which other jobs use too.
const OF_JOB: [&str; 14] = [
    "partial",
    "wall_s",
    "virtual_s",
    "ios",
    "ramp_ios",
    "missed_ios",
    "iops",
    "mib_per_s",
    "stamps",
    "io_errors",
    "first_error",
    "verified_blocks",
    "verify_errors",
    "first_verify_error",
];

/// The results of all jobs that ran.
pub(super) struct Results<'p> {
    pub(super) plan: &'p Plan,
    pub(super) jobs: Vec<JobResult>,
}

impl Results<'_> {
    fn of_group(&self, group: u32) -> impl Iterator<Item = &JobResult> + Clone {
        self.jobs.iter().filter(move |result| self.plan.jobs[result.section].group == group)
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = &IoReport> {
        self.jobs.iter().map(|result| &result.report)
    }

    pub(super) fn to_json(&self) -> Value {
        let groups = (0u32..).zip(self.plan.groups()).map(|(number, group)| {
            let total = Total::of(self.of_group(number).map(|result| &result.report));
            json!({
                "group": number,
                "group_reporting": group.together,
                "ios": total.ios,
                "iops": total.iops,
                "mib_per_s": total.mib_per_s,
                "errors": total.errors,
                "lat_p50_ns": total.latency[0],
                "lat_p99_ns": total.latency[1],
            })
        });
        json!({
            "jobs": self.jobs.iter().map(|result| self.job_json(result)).collect::<Vec<_>>(),
            "groups": groups.collect::<Vec<_>>(),
        })
    }

    fn job_json(&self, result: &JobResult) -> Value {
        let planned = &self.plan.jobs[result.section];
        let mut object = Map::new();
        object.insert("name".into(), json!(planned.job.name()));
        object.insert("group".into(), json!(planned.group));
        object.insert("stage".into(), json!(planned.stage));
        object.insert("first_job".into(), json!(result.first));
        object.insert("driver".into(), json!(planned.driver()));
        if let Value::Object(all) = result.report.to_json() {
            let of_job = |key: &str| OF_JOB.contains(&key) || key.starts_with("lat_");
            let kept = all.into_iter().filter(|(key, _)| {
                of_job(key) || matches!(key.as_str(), "directions" | "series" | "job" | "devices")
            });
            object.extend(kept);
        }
        Value::Object(object)
    }

    pub(super) fn to_text(&self, terminal: Terminal) -> String {
        let mut table = Table::new([
            Column::text("job"),
            Column::text(""),
            Column::number("I/Os", ""),
            Column::number("IOPS", "1/s"),
            Column::number("rate", "MiB/s"),
            Column::number("p50", ""),
            Column::number("p99", ""),
            Column::number("errors", ""),
        ]);
        for (number, group) in (0u32..).zip(self.plan.groups()) {
            let members = self.of_group(number);
            if !group.together || members.clone().count() == 1 {
                for result in members.clone() {
                    self.rows(&mut table, result);
                }
            }
            let total = Total::of(members.clone().map(|result| &result.report));
            if members.clone().count() > 1 {
                let name = format!(
                    "group {number}: {} jobs",
                    members.map(|result| result.report.job.numjobs).sum::<u32>()
                );
                let facts = (total.ios, total.iops, total.mib_per_s, total.errors);
                table.row(cells(name, "all", facts, total.latency));
            }
        }
        let partial = if self.reports().any(|report| report.partial) { "PARTIAL: interrupted\n" } else { "" };
        format!("{partial}{}", table.to_text(terminal))
    }

    /// A row for each direction of a job.
    fn rows(&self, table: &mut Table, result: &JobResult) {
        let planned = &self.plan.jobs[result.section];
        let times = result.report.job.numjobs;
        let times = if times > 1 { format!(" ×{times}") } else { String::new() };
        let name = format!("{}{times}", platter_block::text::excerpt(planned.job.name(), 30));
        let errors = result.report.errors();
        for direction in &result.report.directions {
            let percentiles =
                [direction.latency.as_ref().map(|l| l.p50_ns), direction.latency.as_ref().map(|l| l.p99_ns)];
            let facts = (direction.ios, direction.iops, direction.mib_per_s, errors);
            table.row(cells(name.clone(), direction.name, facts, percentiles));
        }
        if result.report.directions.is_empty() {
            table.row(cells(name, "", (0, 0.0, 0.0, errors), [None; 2]));
        }
    }
}

fn cells(
    name: String,
    direction: &str,
    (ios, iops, rate, errors): (u64, f64, f64, u64),
    latency: Percentiles,
) -> [String; 8] {
    let [p50, p99] = latency.map(|ns| ns.map_or("-".into(), duration));
    [
        name,
        direction.to_owned(),
        thousands(ios),
        thousands(iops.round() as u64),
        fixed(rate, 1),
        p50,
        p99,
        errors.to_string(),
    ]
}
