//! The plan as JSON. Its keys are listed in `docs/from-fio.md`.

use super::{Ios, Order, Plan, Planned, Sizes};
use crate::complaint::Warning;
use crate::engine::{Driver, Engine};
use crate::value::{Amount, DIRECTIONS, Three, Value};
use serde_json::{Map, Value as Json, json};

impl Plan {
    /// The plan as one JSON object.
    pub fn to_json(&self) -> Json {
        let groups = self.groups();
        let groups = groups.iter().zip(0u32..).map(|(group, number)| {
            let jobs: Vec<&str> = group.members.iter().map(|&at| self.jobs[at].job.name()).collect();
            json!({"group": number, "sections": jobs, "group_reporting": group.together})
        });
        json!({
            "groups": groups.collect::<Vec<_>>(),
            "jobs": self.jobs.iter().map(|job| self.job_json(job)).collect::<Vec<_>>(),
            "warnings": self.warnings.iter().map(warning).collect::<Vec<_>>(),
        })
    }

    fn job_json(&self, planned: &Planned) -> Json {
        let place = planned.job.place();
        let clones = (0..planned.numjobs).map(|clone| {
            json!({
                "number": planned.first + clone,
                "offset_bytes": planned.offset(clone),
                "files": planned.files(clone),
            })
        });
        let options = planned.job.values();
        let options =
            options.map(|(row, value)| (row.name.to_owned(), value.map_or(Json::Null, |v| v.to_json())));
        let given: Vec<&str> = planned.job.settings().map(|(row, _)| row.name).collect();
        json!({
            "name": planned.job.name(),
            "file": place.file.display().to_string(),
            "line": place.line,
            "group": planned.group,
            "stage": planned.stage,
            "wait_for": planned.wait_for.map(|at| self.jobs[at].job.name()),
            "start_delay_ns": planned.delay_ns,
            "numjobs": planned.numjobs,
            "file_count": planned.file_count(),
            "clones": clones.collect::<Vec<_>>(),
            "driver": planned.driver(),
            "ios": planned.ios().to_json(),
            "given": given,
            "options": options.collect::<Map<String, Json>>(),
        })
    }
}

impl Planned {
    /// What the job's engine is here: a driver of files, or the device `null`.
    pub fn driver(&self) -> &'static str {
        match self.job.value("ioengine") {
            Some(Value::Engine(Engine { driver: Driver::File(driver), .. })) => driver,
            Some(Value::Engine(Engine { driver: Driver::Null, .. })) => "null",
            _ => "auto",
        }
    }
}

fn warning(warning: &Warning) -> Json {
    json!({
        "file": warning.place.file.display().to_string(),
        "line": warning.place.line,
        "option": warning.option,
        "message": warning.message,
    })
}

impl Ios {
    fn to_json(&self) -> Json {
        let order = match &self.order {
            Order::Sequential { gap } => json!({"kind": "sequential", "gap_bytes": gap}),
            Order::Random { run, once, percent, distribution } => json!({
                "kind": "random",
                "run_ios": run,
                "each_once": once,
                "random_pct": three(percent, |n| json!(n)),
                "distribution": Value::Distribution(distribution.clone()).to_json(),
            }),
        };
        json!({
            "shares_pct": three(&self.shares_pct, |n| json!(n)),
            "sizes": three(&self.sizes, Sizes::to_json),
            "align_bytes": three(&self.align, |n| json!(n)),
            "order": order,
            "offset": self.offset.to_json(),
            "offset_increment": self.offset_increment.to_json(),
            "region": self.region.map(Amount::to_json),
            "transfer": self.transfer.map(Amount::to_json),
            "loops": self.loops,
            "number_ios": self.number_ios,
            "runtime_ns": self.runtime_ns,
            "time_based": self.time_based,
        })
    }
}

impl Sizes {
    fn to_json(&self) -> Json {
        match self {
            Self::One(size) => json!({"bytes": size}),
            Self::Range { least, most, step } => {
                json!({"least_bytes": least, "most_bytes": most, "step_bytes": step})
            }
            Self::Split(parts) => json!({"split": parts}),
        }
    }
}

fn three<T>(all: &Three<T>, one: impl Fn(&T) -> Json) -> Json {
    let pairs = DIRECTIONS.iter().zip(all).map(|(name, value)| ((*name).to_owned(), one(value)));
    Json::Object(pairs.collect())
}
