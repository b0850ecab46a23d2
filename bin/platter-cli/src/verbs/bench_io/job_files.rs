//! `platter bench io JOBFILE…`: fio's job files.

mod machine;
mod mapping;
mod results;
mod stages;
mod targets;

use crate::cli::{CliError, Context, On};
use clap::Args;
use machine::Machine;
use platter_bench::report::{Column, Table};
use platter_jobs::{JobFileError, Plan};
use results::Results;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(next_help_heading = "Job files")]
pub(super) struct JobFiles {
    /// fio's job files, in place of the workload's options; - reads standard input
    #[arg(value_name = "JOBFILE", conflicts_with_all = WORKLOAD)]
    jobs: Vec<PathBuf>,
    /// Only the jobs of this name, with the options of global sections
    #[arg(long = "section", value_name = "NAME", requires = "jobs")]
    sections: Vec<String>,
    /// Only print the plan: each job with all of its options, groups, and the rules of its I/Os
    #[arg(long, requires = "jobs")]
    parse_only: bool,
}

/// The options that a job file has of its own.
const WORKLOAD: [&str; 29] = [
    "rw",
    "rwmixread",
    "bs",
    "iodepth",
    "numjobs",
    "offset",
    "size",
    "runtime",
    "time_based",
    "ramp_time",
    "number_ios",
    "rate_iops",
    "rate_process",
    "thinktime",
    "thinktime_blocks",
    "verify",
    "verify_interval",
    "seed",
    "randrepeat",
    "norandommap",
    "ioprio",
    "prioclass",
    "prio",
    "context",
    "gtod_reduce",
    "direct",
    "trace",
    "trace_format",
    "report",
];

impl JobFiles {
    pub(super) fn are_given(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Prints the plan, or carries it out.
    pub(super) fn run(&self, context: &Context, on: &On) -> Result<(), CliError> {
        let plan = self.plan(context)?;
        if self.parse_only {
            return print(context, &plan);
        }
        if plan.jobs.is_empty() {
            return Err(CliError::usage("the job files have no job; give one a section [NAME]"));
        }
        let results = Results { plan: &plan, jobs: stages::run(&plan, on, context)? };
        context.show(&results.to_json(), &results.to_text(context.terminal))?;
        let mut reports = results.reports();
        // The first that is not as it should be.
        reports.try_for_each(|report| super::verdict(context, report))?;
        match context.is_interrupted() {
            true => Err(context.interruption("interrupted: the result is partial")),
            false => Ok(()),
        }
    }

    /// Reads the files. What fio would have read in another way is said on stderr.
    fn plan(&self, context: &Context) -> Result<Plan, CliError> {
        let file = platter_jobs::read(&self.jobs, &Machine).map_err(wrong)?;
        let plan = Plan::new(file, &self.sections).map_err(wrong)?;
        for warning in &plan.warnings {
            context.note(&warning.to_string());
        }
        Ok(plan)
    }
}

fn print(context: &Context, plan: &Plan) -> Result<(), CliError> {
    if context.json {
        return context.print_json(&plan.to_json());
    }
    let mut table = Table::new(Plan::columns().iter().map(|title| Column::text(*title)));
    for row in plan.rows() {
        table.row(row);
    }
    context.print(&table.to_text(context.terminal))
}

fn wrong(error: JobFileError) -> CliError {
    CliError::usage(error.to_string())
}
