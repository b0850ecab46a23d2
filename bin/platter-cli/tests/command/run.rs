//! Runs the command and checks its output.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// The command, ready for arguments. Its environment does not set colour, width, drivers or the elevator.
pub(crate) fn platter() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    for name in ["NO_COLOR", "COLUMNS", "PLATTER_WITHOUT_DRIVERS", "PLATTER_ELEVATOR"] {
        command.env_remove(name);
    }
    command
}

/// Runs the command.
pub(crate) fn run(args: &[&str]) -> Output {
    platter().args(args).output().expect("the command starts")
}

/// The output of a successful run.
#[track_caller]
pub(crate) fn ok(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    stdout(&output)
}

/// The output of a successful run with `--json`.
#[track_caller]
pub(crate) fn json(args: &[&str]) -> Value {
    let text = ok(&[args, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Runs a command that fails with this status. Returns its stderr.
#[track_caller]
pub(crate) fn fails(status: i32, args: &[&str]) -> String {
    let output = run(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

/// As [`fails`]; checks that stderr contains all of `words`.
#[track_caller]
pub(crate) fn fails_saying(status: i32, args: &[&str], words: &[&str]) {
    let said = fails(status, args);
    for word in words {
        assert!(said.contains(word), "{args:?}: \"{word}\" is not in: {said}");
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The path as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}
