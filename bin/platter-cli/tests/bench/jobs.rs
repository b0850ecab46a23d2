//! `platter bench io JOBFILE…` as users call it, and the page about it.

use crate::partitioned::partitioned;
use platter_jobs::option::{Meaning, rows};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// With this variable set, the table of options in the page is written.
const WRITE: &str = "PLATTER_WRITE_TABLES";

fn page_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/from-fio.md")
}

fn page() -> String {
    fs::read_to_string(page_path()).unwrap()
}

/// A folder with these job files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn bench(dir: &TempDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "io"]).args(args).current_dir(dir).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(dir: &TempDir, args: &[&str]) -> Value {
    let output = bench(dir, &[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The message of a job file that is refused with this status.
fn refused(dir: &TempDir, status: i32, args: &[&str]) -> String {
    let output = bench(dir, args);
    assert_eq!(output.status.code(), Some(status), "{args:?}: {}", stderr(&output));
    assert!(output.stdout.is_empty());
    stderr(&output)
}

#[test]
fn the_commands_of_the_page_run() {
    let page = page();
    let blocks = page.split("```ini\n; ").skip(1).map(|rest| rest.split("```").next().unwrap());
    let dir = tempfile::tempdir().unwrap();
    for block in blocks {
        let (name, text) = block.split_once('\n').unwrap();
        fs::write(dir.path().join(name), text).unwrap();
    }
    fs::write(dir.path().join("typo.fio"), "[a]\niodpeth=4\n").unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_platter")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let run = |command: &str| {
        Command::new("sh").args(["-c", command]).env("PATH", &path).current_dir(&dir).output().unwrap()
    };
    let lines: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("    ")).collect();
    let commands: Vec<&&str> = lines.iter().filter(|line| line.starts_with("platter bench")).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let output = run(command);
        assert!(output.status.success() && !output.stdout.is_empty(), "{command}: {}", stderr(&output));
    }
    let at = lines.iter().position(|line| line.starts_with("$ ")).unwrap();
    assert_eq!(stderr(&run(&lines[at][2..])), format!("{}\n", lines[at + 1]));
}

/// The rows of the page's table of options.
fn table() -> String {
    let mut out = String::new();
    for row in rows() {
        let names: Vec<String> =
            [row.name].iter().chain(row.aliases).map(|name| format!("`{name}`")).collect();
        let (here, value) = match row.meaning {
            Meaning::Done(what) => (format!("run: {what}"), row.kind.describe()),
            Meaning::Planned(what, instead) => {
                (format!("plan: {what}; instead: {instead}"), row.kind.describe())
            }
            Meaning::Idle(why) => (format!("nothing: {why}"), row.kind.describe()),
            Meaning::Refused(instead) => (format!("refused; instead: {instead}"), String::new()),
        };
        let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
        let _ = writeln!(out, "| {} | {value} | {default} | {here} |", names.join(", "));
    }
    out
}

#[test]
fn the_page_has_every_option() {
    let (head, found) = page().split_once("\n|---|---|---|---|\n| `rw`").map_or_else(
        || (page(), String::new()),
        |(head, rest)| (format!("{head}\n|---|---|---|---|\n"), format!("| `rw`{rest}")),
    );
    if std::env::var_os(WRITE).is_some() {
        fs::write(page_path(), format!("{head}{}", table())).unwrap();
        return;
    }
    let differs = found.lines().zip(table().lines().map(str::to_owned)).find(|(a, b)| a != b);
    assert!(found == table(), "run `{WRITE}=1 cargo test -p platter-cli --test bench`: {differs:?}");
}

/// All keys of a JSON value, but not those of objects whose keys are names.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                if !["options", "facts", "job", "directions", "series"].contains(&key.as_str()) {
                    keys(value, found);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn the_page_has_every_key() {
    let text = "[a]\nrw=randrw\nbsrange=4k-8k\nrandom_distribution=zipf:1.2\nsize=1m\n\
                [b]\nrw=randread\nbssplit=4k/50:8k/50\nrandom_distribution=pareto:0.5\nbs= 4k\n\
                [c]\nrw=randread\nrandom_distribution=normal:5\n[d]\nrw=randread\nrandom_distribution=zoned:50/50:50/50\n";
    let dir = folder(&[("plan", text), ("run", "[a]\nsize=64k\nrw=write\n")]);
    let mut found = BTreeSet::new();
    keys(&json(&dir, &["plan", "--parse-only"]), &mut found);
    keys(&json(&dir, &["run"]), &mut found);
    let page = page();
    let words: BTreeSet<&str> = page.split(['`', ' ', ',', '{', '}', '[', ']']).collect();
    let missing: Vec<&String> =
        found.iter().filter(|key| !words.contains(key.as_str()) && !key.starts_with("lat_")).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn jobs_run_side_by_side_and_stages_one_after_the_other() {
    let text = "[global]\nfilename=disk.img\nsize=1m\n[w]\nrw=randwrite\nnumber_ios=50\n\
                [r]\nrw=randread\nnumjobs=2\nbs=8k\niodepth=4\nioengine=posixaio\ngroup_reporting\n\
                [scan]\nstonewall\nio_size=2m\nbs=64k\n";
    let dir = folder(&[("j.fio", text)]);
    fs::write(dir.path().join("disk.img"), vec![0u8; 1 << 20]).unwrap();
    let result = json(&dir, &["j.fio"]);
    let of = |at: usize, key: &str| result["jobs"][at][key].clone();
    assert_eq!(result["jobs"].as_array().unwrap().len(), 3);
    assert_eq!((of(0, "name"), of(0, "ios"), of(0, "stage")), ("w".into(), 50.into(), 0.into()));
    assert_eq!((of(1, "ios"), of(1, "first_job"), of(1, "group")), (256.into(), 1.into(), 0.into()));
    assert_eq!((of(2, "ios"), of(2, "stage"), of(2, "group")), (32.into(), 1.into(), 1.into()));
    assert_eq!((&result["groups"][0]["ios"], &result["groups"][1]["ios"]), (&306.into(), &32.into()));
    assert_eq!(result["groups"][0]["group_reporting"], true);
    assert_eq!(of(1, "devices")[0]["facts"]["driver"], "threads");
    let text = String::from_utf8(bench(&dir, &["j.fio"]).stdout).unwrap();
    assert!(text.contains("group 0: 3 jobs") && !text.contains("\nw "), "{text}");
    let one = json(&dir, &["j.fio", "--section", "scan"]);
    assert_eq!((one["jobs"].as_array().unwrap().len(), &one["jobs"][0]["stage"]), (1, &0.into()));
}

/// Loops, sizes of files and rates in bytes; a job that waits for another begins when that has ended.
#[test]
fn jobs_are_repeated_paced_and_wait_for_each_other() {
    let text = "[global]\nfilename=d.img\nrw=write\n[first]\nfilesize=64k\nbs=16k\nloops=3\n\
                [second]\nrw=read\nwait_for=first\nsize=64k\nbs=16k\nverify=meta\n\
                [third]\nwait_for=second\nsize=16k\nrate=400k\nrw=read\n";
    let dir = folder(&[("j.fio", &text.replace("loops=3", "loops=3\nverify=crc32c"))]);
    let result = json(&dir, &["j.fio"]);
    let jobs = result["jobs"].as_array().unwrap();
    let ios: Vec<u64> = jobs.iter().map(|job| job["ios"].as_u64().unwrap()).collect();
    assert_eq!(ios, [12, 4, 4]);
    // What the first has written is there before the second reads it.
    assert_eq!((&jobs[1]["verified_blocks"], &jobs[1]["verify_errors"]), (&4.into(), &0.into()));
    assert_eq!((&jobs[2]["job"]["rate_iops"], &jobs[2]["stamps"]), (&100.into(), &"intended".into()));
}

/// Offsets of the jobs of numjobs grow, and missing files are made and filled before they are read.
#[test]
fn files_are_laid_out_and_verified() {
    let text = "[w]\nrw=write\nfilename=v.img\nsize=256k\nbs=16k\nverify=crc32c\nnumjobs=4\noffset_increment=256k\n\
                [check]\nstonewall\nrw=read\nfilename=v.img\nsize=256k\nbs=16k\nverify=md5\n\
                [r]\nstonewall\nrw=read\nsize=128k\nbs=64k\nnumjobs=2\n";
    let dir = folder(&[("v.fio", text)]);
    let output = bench(&dir, &["v.fio", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let jobs = result["jobs"].as_array().unwrap();
    let verified: Vec<u64> = jobs.iter().map(|job| job["verified_blocks"].as_u64().unwrap()).collect();
    assert_eq!(verified, [16, 16, 16, 16, 16, 0, 0]);
    assert_eq!(jobs[3]["job"]["offset_bytes"], 768 << 10);
    assert_eq!(fs::metadata(dir.path().join("v.img")).unwrap().len(), 1 << 20);
    for name in ["r.0.0", "r.1.0"] {
        let contents = fs::read(dir.path().join(name)).unwrap();
        assert_eq!(contents.len(), 128 << 10);
        assert!(contents.chunks(4096).all(|block| block.iter().any(|&byte| byte != 0)), "{name} has holes");
    }
    assert!(stderr(&output).contains("r.0.0 is laid out first"), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_run_is_refused_at_its_line_before_anything_is_written() {
    let first = "[a]\nrw=write\nfilename=new.img\nsize=64k\n[b]\nstonewall\nfilename=new.img\nsize=64k\n";
    for (line, said) in [
        ("fsync=1", "j.fio:9: fsync: "),
        ("bssplit=4k/50:8k/50", "j.fio:9: bssplit: "),
        ("rw=trimwrite", "j.fio:9: rw: "),
        ("rw=randread:8", "j.fio:9: rw: "),
        ("filename=x.img", "j.fio:9: filename: the job has 2 files"),
        ("rw=rw\nrate_iops=100", "j.fio:10: rate_iops: "),
        ("rw=randrw\nbs=4k,8k", "j.fio:10: bs: "),
        ("iodepth=4294967296", "j.fio:9: iodepth: "),
        ("exitall", "j.fio:9: exitall: "),
        ("filesize=1m", "j.fio:9: filesize: the file and its region have one size here"),
        ("rw=rw\nrate=1m", "j.fio:10: rate: in a mix"),
        ("rate=100", "j.fio:9: rate: 100 bytes per second are less than an I/O (4096)"),
    ] {
        let dir = folder(&[("j.fio", &format!("{first}{line}\n"))]);
        let message = refused(&dir, 2, &["j.fio"]);
        assert!(message.contains(said), "{line}: {message}");
        // The plan has it all.
        assert!(bench(&dir, &["j.fio", "--parse-only"]).status.success(), "{line}");
        assert!(!dir.path().join("new.img").exists(), "{line}");
    }
    let dir = folder(&[("j.fio", "[a]\nfilename=small\nsize=1m\n"), ("small", &"x".repeat(4096))]);
    assert!(refused(&dir, 4, &["j.fio"]).contains("j.fio:3: size: 1M is not possible here"));
    let dir = folder(&[("j.fio", "[a]\nfilename=small\noffset=1z\n"), ("small", &"x".repeat(4096))]);
    assert!(refused(&dir, 2, &["j.fio"]).contains("j.fio:3: offset: zones are not followed here"));
    let dir = folder(&[("j.fio", "[a]\nfilename=/dev/platter/none\nsize=1m\nrw=write\n")]);
    assert!(refused(&dir, 2, &["j.fio"]).contains("j.fio:2: filename: there is no device /dev/platter/none"));
    let dir = folder(&[("j.fio", "[a]\nfilename=none\n"), ("empty", "; none\n")]);
    assert!(refused(&dir, 2, &["j.fio"]).contains("j.fio:1: size: the size of the job's file is not known"));
    assert!(refused(&dir, 2, &["j.fio", "--rw", "write"]).contains("cannot be used with"));
    assert!(refused(&dir, 2, &["empty"]).contains("no job"));
    assert!(refused(&dir, 2, &["j.fio", "--section", "x"]).contains("there is no job x"));
    assert!(refused(&dir, 2, &["missing"]).contains("missing cannot be read"));
}

#[test]
fn a_disk_that_holds_something_is_not_written_to() {
    let dir = folder(&[("j.fio", "[a]\nrw=write\nfilename=disk.img\nsize=4k\n")]);
    let image = partitioned(1 << 20);
    fs::write(dir.path().join("disk.img"), &image).unwrap();
    assert!(refused(&dir, 3, &["j.fio"]).contains("--force"));
    assert_eq!(fs::read(dir.path().join("disk.img")).unwrap(), image);
    assert_eq!(json(&dir, &["j.fio", "--force"])["jobs"][0]["ios"], 1);
    assert_ne!(fs::read(dir.path().join("disk.img")).unwrap(), image);
}

#[test]
fn simulated_disks_take_one_section_at_a_time() {
    let dir = folder(&[
        ("one", "[a]\nrw=randread\nnumjobs=4\nruntime=10\ntime_based\n"),
        ("two", "[a]\n[b]\nrw=write\n"),
        ("late", "[a]\nstartdelay=1\n"),
    ]);
    let sim = ["--on", "sim(ideal)", "--json"];
    let first: Value = serde_json::from_slice(&bench(&dir, &[&["one"], &sim[..]].concat()).stdout).unwrap();
    let again: Value = serde_json::from_slice(&bench(&dir, &[&["one"], &sim[..]].concat()).stdout).unwrap();
    assert!(first["jobs"][0]["virtual_s"].as_f64().unwrap() >= 10.0);
    assert_eq!(first["jobs"][0]["ios"], again["jobs"][0]["ios"]);
    assert!(
        refused(&dir, 2, &[&["two"], &sim[..]].concat()).contains("two:2: stonewall: several different jobs")
    );
    assert!(refused(&dir, 2, &[&["late"], &sim[..]].concat()).contains("late:2: startdelay: "));
}
