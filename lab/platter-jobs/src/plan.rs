//! Jobs with everything resolved: groups, starts, and the rules of their I/Os.

mod ios;
mod json;
mod text;

pub use ios::{Ios, Order, Sizes};

use crate::complaint::{JobFileError, Place, Warning, quote};
use crate::job::{Job, JobFile};
use crate::value::{Amount, Value};
use std::collections::HashMap;

/// Most names of files of a job that are listed.
const MOST_LISTED: i64 = 16;
/// Most jobs of a run, those of `numjobs` included.
const MOST_JOBS: u32 = 1 << 17;

/// A section of the job files, as it runs: `numjobs` equal jobs.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The section.
    pub job: Job,
    /// Number of its first job, from 0; the others follow.
    pub first: u32,
    /// How many jobs there are.
    pub numjobs: u32,
    /// The group of the report, from 0.
    pub group: u32,
    /// Jobs of a stage start when all of the stage before have ended.
    pub stage: u32,
    /// The jobs of this index must have ended too.
    pub wait_for: Option<usize>,
    /// Nanoseconds from the start of the run to that of the job, from and to.
    pub delay_ns: [u64; 2],
}

impl Planned {
    /// How many files each job has.
    pub fn file_count(&self) -> u64 {
        match self.job.value("filename") {
            Some(Value::Files(files)) => files.len() as u64,
            _ => self.number("nrfiles").unsigned_abs(),
        }
    }

    /// The names of the first 16 files of job `clone`, from 0 to [`numjobs`](Self::numjobs) - 1.
    pub fn files(&self, clone: u32) -> Vec<String> {
        let text = |name: &str| match self.job.value(name) {
            Some(Value::Files(files)) => files,
            _ => Vec::new(),
        };
        let directories = text("directory");
        // Jobs take turns with several directories.
        let directory = directories.get(clone as usize % directories.len().max(1));
        let within = |name: &str| match directory {
            Some(directory) => format!("{}/{name}", directory.trim_end_matches('/')),
            None => name.to_owned(),
        };
        let named = text("filename");
        if !named.is_empty() {
            return named.iter().take(MOST_LISTED as usize).map(|name| within(name)).collect();
        }
        let format = match self.job.value("filename_format") {
            Some(Value::Text(format)) => format,
            _ => String::new(),
        };
        // As with fio, slashes of the job's name make no directories.
        let name = self.job.name().replace('/', "_");
        let number = clone.to_string();
        let file = |file: i64| {
            let name = format.replace("$jobname", &name).replace("$jobnum", &number);
            within(&name.replace("$filenum", &file.to_string()).replace("$clientuid", "localhost"))
        };
        (0..self.number("nrfiles").min(MOST_LISTED)).map(file).collect()
    }

    /// Where the region of job `clone` begins, if that is a number of bytes.
    pub fn offset(&self, clone: u32) -> Option<u64> {
        let bytes = |name: &str| match self.job.value(name) {
            Some(Value::Amount(Amount::Bytes(bytes))) => Some(bytes),
            _ => None,
        };
        bytes("offset_increment")?.checked_mul(u64::from(clone))?.checked_add(bytes("offset")?)
    }

    /// Whether a switch is on.
    pub fn is_on(&self, option: &str) -> bool {
        self.job.value(option) == Some(Value::Switch(true))
    }

    fn engine(&self) -> &'static str {
        match self.job.value("ioengine") {
            Some(Value::Engine(engine)) => engine.name,
            _ => "psync",
        }
    }

    fn number(&self, option: &str) -> i64 {
        match self.job.value(option) {
            Some(Value::Integer(n)) => n,
            _ => 0,
        }
    }
}

/// A group of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Indexes of its sections in [`Plan::jobs`].
    pub members: Vec<usize>,
    /// Whether the report has one entry for all of them.
    pub together: bool,
}

/// What is to be run.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// The sections, in their order.
    pub jobs: Vec<Planned>,
    /// What the files were read with.
    pub warnings: Vec<Warning>,
}

impl Plan {
    /// Resolves the jobs of files; `sections` are the names of those to run, all if there are none.
    ///
    /// # Errors
    /// A name that is not there, options that contradict each other, too many jobs.
    pub fn new(file: JobFile, sections: &[String]) -> Result<Plan, JobFileError> {
        for name in sections {
            if !file.jobs.iter().any(|job| job.name() == name) {
                let place = file.jobs.first().map_or(Place { file: "job file".into(), line: 0 }, Job::place);
                let place = Place { line: 0, ..place };
                let known: Vec<&str> = file.jobs.iter().take(20).map(Job::name).collect();
                let problem = format!("there is no job {}", quote(name));
                return Err(JobFileError::new(
                    place,
                    problem,
                    format!("the jobs are {}", quote(&known.join(", "))),
                ));
            }
        }
        let mut plan = Plan { jobs: Vec::new(), warnings: file.warnings };
        let mut begins_file = false;
        for job in file.jobs {
            begins_file |= job.begins_file();
            if sections.is_empty() || sections.iter().any(|name| name == job.name()) {
                plan.add(job, begins_file)?;
                begins_file = false;
            }
        }
        plan.wait_for_names()?;
        Ok(plan)
    }

    fn add(&mut self, job: Job, begins_file: bool) -> Result<(), JobFileError> {
        let mut next =
            Planned { job, first: 0, numjobs: 1, group: 0, stage: 0, wait_for: None, delay_ns: [0; 2] };
        next.numjobs = u32::try_from(next.number("numjobs")).unwrap_or(1);
        if let Some(last) = self.jobs.last() {
            let waits = begins_file || next.is_on("stonewall");
            next.first = last.first + last.numjobs;
            next.group = last.group + u32::from(waits || next.is_on("new_group"));
            next.stage = last.stage + u32::from(waits);
        }
        if next.numjobs > MOST_JOBS - next.first.min(MOST_JOBS) {
            let problem = format!("there are more than {MOST_JOBS} jobs");
            return Err(next.job.refuse("numjobs", problem, "give fewer"));
        }
        if let Some(Value::TimeRange(delay)) = next.job.value("startdelay") {
            next.delay_ns = delay;
        }
        if next.is_on("time_based") && matches!(next.job.value("runtime"), Some(Value::Time(0)) | None) {
            let problem = "it needs a runtime, without which fio would leave it out";
            return Err(next.job.refuse("time_based", problem, "give runtime="));
        }
        self.warn_of_depth(&next);
        self.jobs.push(next);
        Ok(())
    }

    /// With an engine of synchronous calls fio has one I/O in flight, whatever the depth.
    fn warn_of_depth(&mut self, next: &Planned) {
        let depth = next.number("iodepth");
        if next.driver() != "threads" || depth < 2 || next.engine() == "posixaio" {
            return;
        }
        let place = next.job.line_of("iodepth").unwrap_or_else(|| next.job.place());
        let message = format!("{depth} I/Os are in flight here; fio has one with ioengine={}", next.engine());
        self.warnings.push(Warning { place, option: Some("iodepth".into()), message });
    }

    /// Finds the jobs that others wait for by name.
    fn wait_for_names(&mut self) -> Result<(), JobFileError> {
        let mut seen: HashMap<String, Option<usize>> = HashMap::new();
        for index in 0..self.jobs.len() {
            let job = &self.jobs[index].job;
            if let Some(Value::Text(name)) = job.given("wait_for") {
                let found = match seen.get(name.as_str()) {
                    Some(Some(found)) => *found,
                    Some(None) => {
                        let problem = format!("several jobs are called {}", quote(name));
                        return Err(job.refuse("wait_for", problem, "give them names of their own"));
                    }
                    None => {
                        let problem = format!("no earlier job is called {}", quote(name));
                        return Err(job.refuse("wait_for", problem, "give the name of a job above"));
                    }
                };
                self.jobs[index].wait_for = Some(found);
            }
            let entry = seen.entry(self.jobs[index].job.name().to_owned());
            entry.and_modify(|found| *found = None).or_insert(Some(index));
        }
        Ok(())
    }

    /// The groups of the report, in their order.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (index, planned) in self.jobs.iter().enumerate() {
            if planned.group as usize == groups.len() {
                groups.push(Group { members: Vec::new(), together: false });
            }
            if let Some(group) = groups.last_mut() {
                group.members.push(index);
                group.together |= planned.is_on("group_reporting");
            }
        }
        groups
    }
}
