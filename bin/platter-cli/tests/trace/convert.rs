//! `platter trace convert`.

use crate::{RECORDED, fails, folder, ok, platter, stderr};
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

const CSV: &str =
    "128166372003061629,hm,0,Write,7014912,4096,26\n128166372016382155,hm,0,Read,1074696192,4096,113\n";

#[test]
fn what_is_lost_is_said_and_counted() {
    let dir = folder(&[]);
    let output = platter(&dir, &["convert", "--json", RECORDED[0], RECORDED[1], "sda.iolog"]);
    let said = stderr(&output);
    for words in
        ["lost or changed in iolog3: marks for forced unit access: 4\n", "events that are no arrivals: 803\n"]
    {
        assert!(said.contains(words), "{said}");
    }
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["from"], &json["to"], &json["basis"]),
        (&"blktrace".into(), &"iolog3".into(), &"Q".into())
    );
    assert_eq!((&json["records_read"], &json["records_written"]), (&991.into(), &188.into()));
    assert_eq!((&json["lost"]["fua_flags"], &json["lost"]["discards"]), (&4.into(), &0.into()));
}

#[test]
fn files_are_replaced_only_with_force_and_only_when_whole() {
    let dir = folder(&[("hm.csv", CSV), ("bad.csv", "1,2\n"), ("old.iolog", "old")]);
    let said = fails(&dir, 4, &["convert", "hm.csv", "old.iolog"]);
    assert!(said.contains("old.iolog exists; give another path, or --force"), "{said}");
    let said = fails(&dir, 4, &["convert", "--force", "--to", "msr", "hm.csv", "hm.csv"]);
    assert!(said.contains("hm.csv is one of the inputs"), "{said}");
    let bad = format!("{CSV}1,2\n");
    fs::write(dir.path().join("bad.csv"), bad).unwrap();
    let said = fails(&dir, 1, &["convert", "--force", "bad.csv", "old.iolog"]);
    assert!(said.contains("bad.csv:3: 2 fields; a line has 7"), "{said}");
    assert_eq!(fs::read_to_string(dir.path().join("old.iolog")).unwrap(), "old");
    let output = platter(&dir, &["convert", "--force", "--keep-going", "bad.csv", "old.iolog"]);
    assert!(
        output.status.success() && stderr(&output).contains("1 records cannot be read"),
        "{}",
        stderr(&output)
    );
    assert!(fs::read_to_string(dir.path().join("old.iolog")).unwrap().contains("hm.0 write 7014912 4096"));
    // Nothing is left of what was begun.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 5);
}

#[test]
fn wrong_usage_is_refused_with_what_to_do() {
    let dir = folder(&[("x.csv", "1,2,3,4\n"), ("hm.csv", CSV)]);
    for (status, args, words) in [
        (2, &["convert", "hm.csv"][..], "give at least one trace, and last the file to write"),
        (2, &["convert", "hm.csv", "out.csv"], "out.csv: its name says no format; give --to"),
        (
            2,
            &["convert", "x.csv", "out.iolog"],
            "x.csv: its format cannot be told from its contents; give --from",
        ),
        (2, &["convert", "--from", "xml", "x.csv", "out.iolog"], "expected one of: blktrace, blkparse"),
        (2, &["convert", "--json", "--to", "msr", "hm.csv", "-"], "would both go to stdout"),
        (
            2,
            &["convert", "hm.csv", RECORDED[0], "out.dump"],
            "sda.blktrace.0: its times do not begin where those of hm.csv",
        ),
        (3, &["convert", "gone.csv", "out.iolog"], "gone.csv: No such file"),
        (2, &["report", "x.csv"], "give --from"),
        (3, &["report", "."], ".: Is a directory"),
    ] {
        let said = fails(&dir, status, args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
}

#[test]
fn pipes_are_read_and_written() {
    let dir = folder(&[("hm.csv", CSV)]);
    let bin = env!("CARGO_BIN_EXE_platter");
    let command =
        format!("cat hm.csv | {bin} trace convert -q --to systor - - | {bin} trace convert -q --to msr - -");
    let output = Command::new("sh").args(["-c", &command]).current_dir(&dir).output().unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    // SYSTOR '17 numbers its devices; everything else comes back.
    assert_eq!(out, CSV.replace("hm,0", "0,0"));
}

#[test]
fn traces_of_the_queues_are_read() {
    let dir = folder(&[]);
    let bin = env!("CARGO_BIN_EXE_platter");
    for (format, file) in [("text", "a.txt"), ("blktrace", "a.dump")] {
        let command = format!(
            "{bin} bench io --on 'sim(cheetah9lp, elevator=deadline)' --rw randrw --number_ios 300 --seed 1 --iodepth 4 \
             --trace {file} --trace_format {format}"
        );
        let output = Command::new("sh").args(["-c", &command]).current_dir(&dir).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let report = |file: &str| serde_json::from_str::<Value>(&ok(&dir, &["report", "--json", file])).unwrap();
    let (text, binary) = (report("a.txt"), report("a.dump"));
    assert_eq!((&text["ios"], &text["stages"]["d2c_n"]), (&300.into(), &300.into()));
    for key in ["stages", "kinds", "seeks", "reuse"] {
        assert_eq!(text[key], binary[key], "{key}");
    }
}

#[test]
fn a_signal_leaves_no_file() {
    let dir = folder(&[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["trace", "convert", "--from", "alibaba", "--to", "msr", "-", "out.csv"]).current_dir(&dir);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let number = rustix::process::Pid::from_child(&child);
    let writer = std::thread::spawn(move || {
        use std::io::Write;
        let mut time = 0u64;
        // Until the command has ended.
        loop {
            time += 1;
            if stdin.write_all(format!("1,R,0,512,{time}\n").as_bytes()).is_err() {
                return;
            }
            if time == 100_000 {
                rustix::process::kill_process(number, rustix::process::Signal::INT).unwrap();
            }
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!((output.status.code(), output.status.signal()), (Some(130), None), "{}", stderr(&output));
    assert!(stderr(&output).contains("interrupted"), "{}", stderr(&output));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
}
