//! The plan as JSON. Its keys are listed in `docs/from-fio.md`.

use super::{Plan, Planned};
use crate::complaint::Warning;
use crate::engine::{Driver, Engine};
use crate::value::Value;
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
        let options = options.map(|(row, value)| (row.name.to_owned(), json!(value)));
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
            "ios": planned.ios(),
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
