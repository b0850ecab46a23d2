//! `platter crash`: crash tests of programs that are not changed for it.

use crate::cli::{CliError, Context};
use clap::Subcommand;
use platter_crash::check::{Check, Verdict};
use platter_crash::explore::Cut;
use platter_crash::history::{Line, history};
use platter_crash::recording::Recording;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

mod replay;
mod run;

/// The verbs for crash tests.
#[derive(Subcommand, Debug)]
pub(crate) enum Crash {
    /// Run a program once, cut power at each of its file system calls, and check what is left
    Run(Box<run::Run>),
    /// Repeat a finding
    Replay(replay::Replay),
}

impl Crash {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Crash::Run(run) => run.run(context),
            Crash::Replay(replay) => replay.run(context),
        }
    }
}

/// Calls of a history that are shown before those that lose something.
const SHOWN: usize = 12;

/// A check with directories in a place for temporary files.
fn check(command: &str, timeout: Duration, temporary: Option<&PathBuf>) -> Check {
    let temporary = temporary.cloned().unwrap_or_else(std::env::temp_dir);
    Check { command: command.to_owned(), timeout, temporary }
}

/// How the check ended, on the first line, then what it printed.
fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Good => "the check found nothing wrong\n".to_owned(),
        Verdict::Stopped => "the check was interrupted\n".to_owned(),
        Verdict::Bad { ended, output } => {
            let mut text = format!("the check failed: {ended}\n");
            output.lines().for_each(|line| text.push_str(&format!("  {line}\n")));
            text
        }
    }
}

fn verdict_json(verdict: &Verdict) -> Value {
    match verdict {
        Verdict::Bad { ended, output } => json!({ "ended": ended, "output": output }),
        Verdict::Good | Verdict::Stopped => Value::Null,
    }
}

/// The calls up to the cut: those that lose something, and the last ones before it.
fn history_text(recording: &Recording, cut: &Cut) -> String {
    let lines = history(recording, cut);
    let count = lines.len();
    let is_shown = |line: &&Line| line.lost.is_some() || line.step + SHOWN >= count;
    let mut text = String::new();
    let mut next = 0;
    for line in lines.iter().filter(is_shown) {
        if line.step > next {
            text.push_str(&format!("        … {} calls, of which nothing is lost\n", line.step - next));
        }
        next = line.step + 1;
        text.push_str(&format!("{:>7} [{}] {}\n", line.step, line.thread, line.text));
        if let Some(lost) = &line.lost {
            text.push_str(&format!("        LOST: {lost}\n"));
        }
    }
    text.push_str("        power is cut\n");
    text
}

fn history_json(recording: &Recording, cut: &Cut) -> Value {
    let row = |line: Line| json!({ "step": line.step, "thread": line.thread, "call": line.text, "lost": line.lost });
    history(recording, cut).into_iter().map(row).collect()
}
