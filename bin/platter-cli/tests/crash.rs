//! `platter crash`, with shell scripts and SQLite's own command as programs.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs a command line of a page or of a test in this directory.
fn shell(dir: &Path, line: &str) -> Output {
    shell_command(dir, line).output().expect("a shell")
}

fn shell_command(dir: &Path, line: &str) -> Command {
    let bin = Path::new(env!("CARGO_BIN_EXE_platter")).parent().expect("a directory");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", line]).env("PATH", path).env("TMPDIR", dir.join("tmp")).current_dir(dir);
    shell
}

fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::create_dir(dir.path().join("tmp")).expect("a directory for the checks");
    dir
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a line that ends with this status, and leaves no directory of a check. Returns what it printed.
#[track_caller]
fn ends(status: i32, dir: &Path, line: &str) -> String {
    let output = shell(dir, line);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(status), "{line}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    let left: Vec<_> = fs::read_dir(dir.join("tmp")).expect("the directory for the checks").collect();
    assert!(left.is_empty(), "{left:?}");
    said
}

#[test]
fn the_commands_of_the_page_work() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/crash-programs.md"));
    let page = page.expect("the page");
    let outside: Vec<&str> = page.split("```").step_by(2).collect();
    let commands: Vec<&str> =
        outside.iter().flat_map(|text| text.lines()).filter_map(|line| line.strip_prefix("    ")).collect();
    let [make, find, replay, look, clean] = commands.as_slice() else { panic!("{commands:?}") };
    let dir = directory();
    ends(0, dir.path(), make);
    let found = ends(1, dir.path(), find);
    for line in
        page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a report").lines()
    {
        // The numbers of threads differ.
        let text = line.split(']').next_back().expect("a part").trim();
        // Nor is the variant of the call that `mv` makes the same everywhere.
        let text = text.trim_start_matches("renameat");
        assert!(found.contains(text), "{text} is not in: {found}");
    }
    ends(0, dir.path(), replay);
    assert_eq!(ends(0, dir.path(), look), "old\n");
    let clean = ends(0, dir.path(), clean);
    assert!(clean.contains("nothing found"), "{clean}");
}

/// What a server did until it was asked to end is checked: here it has promised what it has not synced.
#[test]
fn a_server_is_ended_and_what_it_did_is_checked() {
    let dir = directory();
    let server = "printf x > d/file; echo saved; exec sleep 600";
    let check = "grep -q saved $PLATTER_CRASH_ACKNOWLEDGED || exit 0; grep -qx x file";
    // The first time that is enough for its three calls on this machine.
    for time in ["1s", "4s", "16s", "60s"] {
        let line = format!(
            "platter crash run --json --stop-after {time} --dir d --check '{check}' -- sh -c '{server}'"
        );
        let run = shell(dir.path(), &line);
        let value: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
        if value["steps"] == 3 {
            assert_eq!((run.status.code(), &value["end"]), (Some(1), &"asked".into()), "{}", said(&run));
            return;
        }
    }
    panic!("the server never came to its third call");
}

#[test]
fn a_finding_is_the_same_as_json_and_repeats() {
    let dir = directory();
    let line = "platter crash run --json --dir d --check 'test ! -e saved || grep -q x file' \
                -- sh -c 'echo x > d/file; sync d; : > d/saved'";
    let run = shell(dir.path(), line);
    assert_eq!(run.status.code(), Some(1), "{}", said(&run));
    let value: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let keys = ["steps", "cuts", "states", "equal", "seconds", "interrupted", "found"];
    assert!(keys.iter().all(|key| !value[key].is_null()), "{value}");
    let lost: Vec<&serde_json::Value> = value["found"]["history"]
        .as_array()
        .expect("a history")
        .iter()
        .filter(|call| !call["lost"].is_null())
        .collect();
    assert_eq!(lost.len(), 1, "{value}");
    assert!(lost[0]["call"].as_str().is_some_and(|call| call.starts_with("write file")), "{value}");
    let replay = shell(dir.path(), "platter crash replay --json crash.plan");
    assert_eq!(replay.status.code(), Some(1), "{}", said(&replay));
    let again: serde_json::Value = serde_json::from_slice(&replay.stdout).expect("JSON");
    assert_eq!((&again["cut"], &again["failed"]), (&value["found"]["cut"], &true.into()));
    assert_eq!(again["history"], value["found"]["history"]);
    ends(0, dir.path(), "platter crash replay --check true crash.plan");
}

#[test]
fn what_is_wrong_is_named() {
    let dir = directory();
    for (status, line, word) in [
        (2, "platter crash run --dir d --check true", "PROGRAM"),
        (2, "platter crash run --dir d --check true --semantics fat -- true", "ext4-ordered"),
        (2, "platter crash run --dir d --check true --cuts 0 -- true", "`all` or a number from 1"),
        (3, "platter crash run --dir d --check true -- no-such-program", "no-such-program"),
        (3, ": > file; platter crash run --dir file --check true -- true", "--dir file"),
        (1, "platter crash run --dir d --check true -- sh -c 'exit 7'", "status 7"),
        (1, "platter crash run --dir d --check 'echo no; exit 5' -- true", "without a power cut"),
        (3, "platter crash replay file", "file: it is no plan"),
        (3, "platter crash replay nowhere", "nowhere"),
    ] {
        let said = ends(status, dir.path(), line);
        assert!(said.contains(word), "{line}: {word} is not in: {said}");
    }
}

#[test]
fn an_interrupted_run_leaves_no_process_and_no_directory() {
    let waits = "sh -c 'echo started >&2; sleep 600 & sleep 600'";
    for line in [
        format!("exec platter crash run -q --dir d --check true -- {waits}"),
        // The check waits, of a state that is not the whole one.
        "exec platter crash run -q --dir d --check 'test -s e || { echo started >&9; sleep 600 & sleep 600; }' \
         -- sh -c 'echo x > d/e' 9>&2"
            .to_owned(),
    ] {
        let dir = directory();
        let mut run = shell_command(dir.path(), &line).stderr(Stdio::piped()).spawn().expect("a shell");
        let mut said = BufReader::new(run.stderr.take().expect("its messages"));
        let mut first = String::new();
        said.read_line(&mut first).expect("a line");
        assert_eq!(first, "started\n", "{line}");
        let pid = Pid::from_raw(run.id() as i32).expect("its number");
        kill_process(pid, Signal::INT).expect("it runs");
        // Ends when no process has it open any more.
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("text");
        assert_eq!(run.wait().expect("its end").code(), Some(130), "{line}: {rest}");
        assert!(rest.contains("interrupted"), "{line}: {rest}");
        assert_eq!(fs::read_dir(dir.path().join("tmp")).expect("the directory").count(), 0, "{line}");
    }
}

/// A program that SQLite's command runs: a transaction for each number, and the number when it is done.
fn sqlite(journal: &str, synchronous: &str) -> String {
    let mut script = format!("pragma journal_mode={journal}; pragma synchronous={synchronous};\n");
    script.push_str("create table if not exists t(x integer, y blob);\n");
    for number in 1..=3 {
        script
            .push_str(&format!("insert into t values ({number}, zeroblob(3000)); select 'ACK {number}';\n"));
    }
    script
}

const CHECK: &str = "n=$(sed -n \"s/^ACK //p\" $PLATTER_CRASH_ACKNOWLEDGED | tail -1); test -n \"$n\" || n=0; \
    test $n = 0 && ! test -s t.db && exit 0; \
    echo $(sqlite3 t.db \"pragma integrity_check\"); test \"$(sqlite3 t.db \"pragma integrity_check\")\" = ok || exit 1; \
    test $n = 0 || test $(sqlite3 t.db \"select count(*) from t\") -ge $n";

#[test]
fn the_command_of_sqlite_is_silent_with_syncs_and_found_without() {
    if !Command::new("sqlite3").arg("-version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: sqlite3 is not installed");
        return;
    }
    for (journal, synchronous, semantics, status) in [
        ("delete", "extra", "strict", 0),
        ("persist", "full", "strict", 0),
        // SQLite documents that it does not sync the directory then.
        ("delete", "full", "ext4-ordered", 1),
        ("wal", "full", "strict", 0),
        ("delete", "off", "strict", 1),
        ("wal", "off", "ext4-ordered", 1),
    ] {
        let dir = directory();
        fs::write(dir.path().join("script"), sqlite(journal, synchronous)).expect("a script");
        fs::write(dir.path().join("check"), CHECK).expect("a check");
        let check = format!("sh {}", dir.path().join("check").display());
        let line = format!(
            "platter crash run --tries 2 --dir db --semantics {semantics} --check '{check}' -- sqlite3 -init script db/t.db .quit"
        );
        let said = ends(status, dir.path(), &line);
        let expected = if status == 0 { "nothing found" } else { "FOUND" };
        assert!(said.contains(expected), "{journal} {synchronous} {semantics}: {said}");
    }
}
