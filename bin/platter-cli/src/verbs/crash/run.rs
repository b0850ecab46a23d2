//! `platter crash run`.

use super::{check, history_json, history_text, verdict_json, verdict_text};
use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Exit, Size, output};
use clap::Args;
use platter::spec::parse_time;
use platter_crash::error::RecordError;
use platter_crash::explore::{self, Cut, Finding, Options, Report};
use platter_crash::plan::{Plan, lost_text};
use platter_crash::recording::Recording;
use platter_crash::tracer::{End, Program, Recorded, StopAfter, record};
use platter_crash::volume::Semantics;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Arguments of `platter crash run`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter crash run --dir data --check './store verify data.log' -- ./store append data/data.log 100
  platter crash run --dir db --semantics ext4-ordered --check ./check.sh -- sqlite3 db/t.db 'create table t(x)'
  platter crash run --dir kv --stop-after 2s --check ./check.sh -- redis-server --dir kv --appendonly yes

The program runs once, and its calls that change files below --dir are recorded. Then power is cut after each of them, and
each state that may be left is made in a fresh directory, where the check runs by /bin/sh. It finds nothing wrong if it ends
with status 0. Its working directory is the one to check, which also replaces {} in the command and is PLATTER_CRASH_DIR.
PLATTER_CRASH_ACKNOWLEDGED is a file with the lines that the program had printed to standard output before the cut: what it
has promised.

A finding is reduced to the smallest loss, printed as a list of calls, and written to --plan. The result does not depend on
--jobs. Exit status: 0 nothing found, 1 something found or the program failed, 3 the program or the directory cannot be
used, 4 the directory was changed in a way that is not seen. docs/crash-programs.md has the rules of the file systems.

JSON: an object with `steps`, `end` (why the program ended: `itself`, `asked` or `killed`), `cuts`, `states`, `equal`, `seconds`
(of the checks), `interrupted` and `found` (null, or an object with `cut`, `lost`, `ended`, `output`, `shrink_tries`, `plan` and
`history`, a list of objects with `step`, `thread`, `call` and `lost`).")]
pub(crate) struct Run {
    /// The directory whose changes are recorded; made if it does not exist
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// The command that checks what is left
    #[arg(long, value_name = "COMMAND")]
    check: String,
    /// What a power cut may take: strict (all that POSIX permits), ext4-ordered or lazyfs
    #[arg(long, value_name = "NAME", default_value = "strict", value_parser = parse_semantics)]
    semantics: Semantics,
    /// Decides what is lost where not everything is tried
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where to cut: all, or this number of points, chosen by the seed
    #[arg(long, value_name = "N", default_value = "all", value_parser = parse_cuts)]
    cuts: Cuts,
    /// Random selections of lost parts at each cut, beside those that are always tried
    #[arg(long, value_name = "N", default_value_t = 6)]
    tries: u64,
    /// Checks at the same time [default: one for each processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// A check that takes longer has failed
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time)]
    timeout: Duration,
    /// Ask the program to end after this time (SIGTERM; 5 s later what is left of it is killed), and check
    /// what it did until then: for servers
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    stop_after: Option<Duration>,
    /// Most bytes to record, those that the directory has at first included
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    limit: Size,
    /// Where the directories for the checks are made [default: TMPDIR, or /tmp]
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
    /// Where a finding is written; a file that exists is replaced
    #[arg(long, value_name = "FILE", default_value = "crash.plan")]
    plan: PathBuf,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// How long a program that was asked to end has time for that.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug)]
struct Cuts(Option<u64>);

fn parse_cuts(text: &str) -> Result<Cuts, String> {
    match text {
        "all" => Ok(Cuts(None)),
        text => match text.parse() {
            Ok(0) | Err(_) => Err("expected `all` or a number from 1".to_owned()),
            Ok(count) => Ok(Cuts(Some(count))),
        },
    }
}

fn parse_semantics(name: &str) -> Result<Semantics, String> {
    let known = Semantics::ALL.into_iter().find(|known| known.name() == name);
    let names = || Semantics::ALL.map(Semantics::name).join(", ");
    known.ok_or_else(|| format!("unknown semantics; expected one of: {}", names()))
}

/// The error of the command for one of the tracer.
fn cannot_record(context: &Context, error: &RecordError) -> CliError {
    match error {
        RecordError::CannotStart(why) => CliError::new(Exit::CannotOpen, why),
        RecordError::Unseen(why) => CliError::refused(why),
        RecordError::Failed(why) => CliError::failed(why),
        RecordError::Stopped => context.interruption("interrupted: the program was killed"),
    }
}

impl Run {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        output::refuse_device(&self.plan, [])?;
        let stop = context.stop_flag();
        let check = check(&self.check, self.timeout, self.temporary.as_ref());
        let program = Program {
            command: self.program.clone(),
            dir: self.dir.clone(),
            limit: self.limit.bytes,
            stop: self.stop_after.map(|time| StopAfter { time, grace: GRACE }),
        };
        let recorded = record(&program, stop).map_err(|error| cannot_record(context, &error))?;
        let recording = &recorded.recording;
        let jobs =
            self.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        let options = Options {
            semantics: self.semantics,
            seed: self.seed,
            cuts: self.cuts.0,
            tries: self.tries,
            jobs,
            check,
        };
        self.whole(recording, &options, stop)?;
        let begun = Instant::now();
        let mut progress = Progress::new(context.progress);
        let steps = recording.steps.len();
        let mut show = |done: u64| {
            if progress.is_due() {
                progress.show(&format!("{done} states of {steps} calls checked"));
            }
        };
        let report = explore::explore(recording, &options, stop, &mut show).map_err(cannot_check)?;
        progress.clear();
        let seconds = begun.elapsed().as_secs_f64();
        if let Some(found) = &report.found {
            self.write_plan(recording, found)?;
        }
        context.show(&self.json(&recorded, &report, seconds), &self.text(&recorded, &report, seconds))?;
        match &report.found {
            Some(found) => {
                Err(CliError::failed(format!("found with power cut after call {}", found.cut.steps)))
            }
            None if report.interrupted => Err(context.interruption("interrupted: not all cuts were tried")),
            None => Ok(()),
        }
    }

    /// A check that fails without a power cut says nothing about one.
    fn whole(&self, recording: &Recording, options: &Options, stop: &AtomicBool) -> Result<(), CliError> {
        let cut = Cut { steps: recording.steps.len(), lost: Default::default() };
        // Everything survives, by whatever rules.
        let verdict = explore::replay(recording, Semantics::Strict, &cut, &options.check, stop);
        match verdict.map_err(cannot_check)? {
            platter_crash::check::Verdict::Bad { ended, output } => {
                let what =
                    format!("the check fails without a power cut, when the program has ended: {ended}");
                Err(CliError::failed(format!("{what}\n{output}").trim_end().to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn write_plan(&self, recording: &Recording, found: &Finding) -> Result<(), CliError> {
        let plan = Plan {
            semantics: self.semantics,
            seed: self.seed,
            cut: found.cut.clone(),
            check: self.check.clone(),
            recording: recording.clone(),
        };
        let shown = self.plan.display();
        std::fs::write(&self.plan, plan.encode())
            .map_err(|error| CliError::failed(format!("--plan {shown}: {error}")))
    }

    fn text(&self, recorded: &Recorded, report: &Report, seconds: f64) -> String {
        let Report { cuts, states, equal, .. } = report;
        let recording = &recorded.recording;
        let steps = recording.steps.len();
        let ended = match recorded.end {
            End::Itself => "",
            End::Asked => " until the program was asked to end",
            End::Killed => " until the program was killed",
        };
        let mut text = format!(
            "{steps} calls recorded{ended}; {cuts} power cuts by the rules of {}, {states} states checked ({equal} more were \
             equal to others) in {seconds:.1} s\n",
            self.semantics.name()
        );
        match &report.found {
            None if report.interrupted => text.push_str("interrupted; nothing found so far\n"),
            None => text.push_str("nothing found\n"),
            Some(found) => {
                text.push_str(&format!("FOUND, seed {}: {}", self.seed, verdict_text(&found.verdict)));
                text.push_str(&history_text(recording, &found.cut));
                text.push_str(&format!("to see it again: platter crash replay {}\n", self.plan.display()));
            }
        }
        text
    }

    fn json(&self, recorded: &Recorded, report: &Report, seconds: f64) -> Value {
        let recording = &recorded.recording;
        let found = report.found.as_ref().map(|found| {
            let verdict = verdict_json(&found.verdict);
            json!({
                "cut": found.cut.steps,
                "lost": lost_text(&found.cut.lost),
                "ended": verdict["ended"],
                "output": verdict["output"],
                "shrink_tries": found.shrink_tries,
                "plan": self.plan.display().to_string(),
                "history": history_json(recording, &found.cut),
            })
        });
        json!({
            "steps": recording.steps.len(),
            "end": match recorded.end {
                End::Itself => "itself",
                End::Asked => "asked",
                End::Killed => "killed",
            },
            "cuts": report.cuts,
            "states": report.states,
            "equal": report.equal,
            "seconds": seconds,
            "interrupted": report.interrupted,
            "found": found,
        })
    }
}

fn cannot_check(error: std::io::Error) -> CliError {
    CliError::failed(format!("cannot check a state: {error}"))
}
