//! `platter trace` from outside.

mod convert;
mod oracles;
mod page;
#[path = "../shared/partitioned.rs"]
mod partitioned;
mod replay;
mod report;

use flate2::read::GzDecoder;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The command in a folder.
fn platter(dir: &TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.env_remove("COLUMNS").arg("trace").args(args).current_dir(dir).output().unwrap()
}

#[track_caller]
fn ok(dir: &TempDir, args: &[&str]) -> String {
    let output = platter(dir, args);
    assert!(output.status.success(), "{args:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The message of a command that fails with this status.
#[track_caller]
fn fails(dir: &TempDir, status: i32, args: &[&str]) -> String {
    let output = platter(dir, args);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {}", stderr(&output));
    let said = stderr(&output);
    assert!(!said.contains("panicked"), "{said}");
    said
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The trace of a loop device, in the files of its processors.
const RECORDED: [&str; 2] = ["sda.blktrace.0", "sda.blktrace.1"];

/// A folder with the recorded trace, and the files given.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace/recorded");
    for (number, name) in RECORDED.iter().enumerate() {
        let packed = fs::File::open(from.join(format!("loop.blktrace.{number}.gz"))).unwrap();
        let mut bytes = Vec::new();
        GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        fs::write(dir.path().join(name), bytes).unwrap();
    }
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

/// Whether a program is installed. If not, a line says what is left out.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("{program} is not installed: not compared with it");
    }
    found
}
