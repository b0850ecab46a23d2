//! The quick start of docs/serve.md works as it stands there.

use crate::running::Running;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The commands of the quick start, in their order.
fn commands() -> Vec<String> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serve.md"))
        .expect("the page");
    let (_, rest) = page.split_once("\n## Quick start\n").expect("a quick start");
    let section = rest.split("\n## ").next().unwrap_or(rest);
    section.lines().filter_map(|line| line.strip_prefix("    ")).map(str::to_owned).collect()
}

/// A shell that runs the command in the folder; the shell itself becomes the command, so it gets its signals.
fn shell(folder: &Path, command: &str) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_platter")).parent().expect("a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {command}")]).env("PATH", path).current_dir(folder);
    shell
}

/// Starts the server and waits until it accepts connections.
fn start(folder: &Path, command: &str) -> Running {
    let mut server = Running::start(shell(folder, command).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut line = String::new();
    let said = server.stdout.as_mut().expect("its output");
    BufReader::new(said).read_line(&mut line).expect("a line");
    assert!(line.starts_with("serving "), "{command}: {line}");
    server
}

#[test]
fn the_quick_start_serves_a_file_and_reads_it_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let commands = commands();
    let (first, others) = commands.split_first().expect("commands");
    assert!(first.starts_with("platter serve ") && others.len() >= 5, "{commands:?}");
    let server = start(dir.path(), first);
    for command in others {
        let output = shell(dir.path(), command).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        assert!(!output.stdout.is_empty(), "{command} prints nothing");
    }
    assert_eq!(server.end(Signal::INT).code(), Some(0));
    let read = |name: &str| fs::read(dir.path().join(name)).expect("an image");
    let (disk, copy) = (read("disk.img"), read("copy.img"));
    assert!(disk == copy && disk.iter().any(|&byte| byte != 0), "the copy differs, or nothing was written");
    let left: Vec<PathBuf> = ["disk.sock", "control.sock"]
        .map(|name| dir.path().join(name))
        .into_iter()
        .filter(|p| p.exists())
        .collect();
    assert!(left.is_empty(), "{left:?} are left");
}
