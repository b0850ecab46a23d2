//! `platter crash replay`.

use super::{check, history_json, history_text, verdict_json, verdict_text};
use crate::cli::{CliError, Context, Exit};
use clap::Args;
use platter::spec::parse_time;
use platter_crash::check::Verdict;
use platter_crash::explore;
use platter_crash::plan::Plan;
use platter_crash::volume::Volume;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `platter crash replay`.
#[derive(Args, Debug)]
#[command(after_help = "\
Makes the state of a finding again, from the recording in the plan, and runs the check. The program is not needed.
Exit status: 0 the check finds nothing wrong, 1 it fails, 3 the plan cannot be read.

JSON: an object with `semantics`, `seed`, `cut`, `check`, `failed`, `ended`, `output` and `history`.")]
pub(crate) struct Replay {
    /// The plan that `platter crash run` has written
    #[arg(value_name = "PLANFILE")]
    plan: PathBuf,
    /// Another check than that of the plan
    #[arg(long, value_name = "COMMAND")]
    check: Option<String>,
    /// Make the state in this directory, which must be empty or not exist, and run no check
    #[arg(long, value_name = "DIR", conflicts_with = "check")]
    keep: Option<PathBuf>,
    /// A check that takes longer has failed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time)]
    timeout: Duration,
    /// Where the directory for the check is made [default: TMPDIR, or /tmp]
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
}

impl Replay {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let shown = self.plan.display();
        let cannot = |why: String| CliError::new(Exit::CannotOpen, format!("{shown}: {why}"));
        let bytes = std::fs::read(&self.plan).map_err(|error| cannot(error.to_string()))?;
        let plan = Plan::decode(&bytes).map_err(cannot)?;
        if let Some(dir) = &self.keep {
            return make(&plan, dir);
        }
        let check = check(self.check.as_ref().unwrap_or(&plan.check), self.timeout, self.temporary.as_ref());
        let verdict =
            explore::replay(&plan.recording, plan.semantics, &plan.cut, &check, context.stop_flag())
                .map_err(|error| CliError::failed(format!("cannot check the state: {error}")))?;
        let failed = matches!(verdict, Verdict::Bad { .. });
        if context.json {
            let said = verdict_json(&verdict);
            context.print_json(&json!({
                "semantics": plan.semantics.name(),
                "seed": plan.seed,
                "cut": plan.cut.steps,
                "check": check.command,
                "failed": failed,
                "ended": said["ended"],
                "output": said["output"],
                "history": history_json(&plan.recording, &plan.cut),
            }))?;
        } else {
            let history = history_text(&plan.recording, &plan.cut);
            context.print(&format!("{history}{}", verdict_text(&verdict)))?;
        }
        match verdict {
            Verdict::Bad { .. } => Err(CliError::failed("the check failed")),
            Verdict::Stopped => Err(context.interruption("interrupted")),
            Verdict::Good => Ok(()),
        }
    }
}

/// Makes the state of a plan in a directory of the user.
fn make(plan: &Plan, dir: &PathBuf) -> Result<(), CliError> {
    let cannot = |error: std::io::Error| CliError::failed(format!("--keep {}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(cannot)?;
    if std::fs::read_dir(dir).map_err(cannot)?.next().is_some() {
        return Err(CliError::refused(format!("--keep {}: the directory is not empty", dir.display())));
    }
    let volume = Volume::after(&plan.recording, plan.semantics, plan.cut.steps);
    let mut lost = plan.cut.lost.clone();
    volume.close(&mut lost);
    volume.without(&lost).write_to(dir).map_err(cannot)
}
