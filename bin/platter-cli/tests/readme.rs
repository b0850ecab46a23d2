//! The commands of the README work: they run in order, and touch only the files that they create.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The commands that the README shows, in their order.
fn commands() -> Vec<String> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md"))
        .expect("the README");
    // With a prompt where the output follows.
    let shown = readme.lines().filter_map(|line| line.strip_prefix("    "));
    let shown = shown.map(|line| line.strip_prefix("$ ").unwrap_or(line));
    shown.filter(|line| line.starts_with("platter ")).map(str::to_owned).collect()
}

#[test]
fn every_command_of_the_readme_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let bin = Path::new(env!("CARGO_BIN_EXE_platter")).parent().expect("a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let commands = commands();
    assert!(commands.len() > 8, "{commands:?}");
    for command in &commands {
        let run = Command::new("sh").args(["-c", command]).env("PATH", &path).current_dir(&dir).output();
        let output = run.expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {said}");
        assert!(!output.stdout.is_empty(), "{command} prints nothing");
    }
    let made: BTreeSet<String> = fs::read_dir(&dir)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(made, ["a.img", "b.img", "copy.img", "disk.img", "test.img"].map(str::to_owned).into());
}

#[test]
fn no_command_of_the_readme_names_a_device_of_the_machine() {
    for command in commands() {
        assert!(!command.contains("/dev/") && !command.contains("--force"), "{command}");
    }
}
