//! Every benchmark ends: on Ctrl-C with its results so far, and on devices of any size.

use crate::running::Running;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn platter(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn interrupt(child: &Running) {
    child.signal(Signal::INT);
}

/// The status, the result if there is one, and the last line on stderr.
fn end(child: Running) -> (Option<i32>, Value, String) {
    let output = child.output();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let result = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), result, said.lines().last().unwrap_or_default().to_owned())
}

/// Starts an endless run, interrupts it when a line of progress has `word`, and returns how it ended.
fn interrupted(args: &[&str], word: &str) -> (Option<i32>, Value, String) {
    signalled(args, word, 1).1
}

/// As [`interrupted`], but sends `signals` signals in succession. Also returns how long sending them took.
fn signalled(args: &[&str], word: &str, signals: usize) -> (Duration, (Option<i32>, Value, String)) {
    let mut child = Running::start(&mut platter(args));
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(word) {
        line.clear();
        assert!(errors.read_line(&mut line).unwrap() > 0, "{args:?} ended by itself");
    }
    let start = Instant::now();
    (0..signals).for_each(|_| interrupt(&child));
    let took = start.elapsed();
    // Both pipes are read at the same time: the command waits when either is full.
    let last = std::thread::spawn(move || errors.lines().map_while(Result::ok).last().unwrap_or_default());
    let (code, result, _) = end(child);
    (took, (code, result, last.join().unwrap()))
}

#[test]
fn bench_schedulers_prints_the_cells_that_are_complete() {
    // Enough cells to take longer than the time to the first line of progress, which counts complete ones.
    let args =
        ["bench", "schedulers", "--mixes", "priorities", "--time", "40000s", "--threads", "1", "--json"];
    let (code, result, last) = interrupted(&args, " of ");
    assert_eq!((code, last.as_str()), (Some(130), "platter: interrupted: the table is partial"));
    assert_eq!(result["interrupted"], true);
    assert!(!result["rows"].as_array().unwrap().is_empty());
}

#[test]
fn bench_parallel_read_prints_the_rounds_that_are_complete() {
    let args = ["bench", "parallel-read", "--on", "ram(16M)", "--repeat", "1000000", "--json"];
    let (code, result, last) = interrupted(&args, "round ");
    assert_eq!((code, last.as_str()), (Some(130), "platter: interrupted: rounds are missing"));
    assert_eq!(result["interrupted"], true);
    let rounds = |run: &Value| run["rounds"].as_array().unwrap().len();
    assert!(result["runs"].as_array().unwrap().iter().all(|run| (1..1_000_000).contains(&rounds(run))));
}

/// Claims need all simulations of an experiment: there is no part of a result.
#[test]
fn repro_says_that_there_is_no_result() {
    let (code, result, last) =
        interrupted(&["repro", "schedulers", "--full", "--threads", "1", "--json"], " of ");
    assert_eq!((code, result), (Some(130), Value::Null));
    assert!(last.starts_with("platter: interrupted"), "{last}");
}

/// `timeout` signals its child, and then the group that the child is in.
#[test]
fn signals_right_after_one_another_are_one() {
    let args = ["bench", "io", "--on", "null(1T)", "--runtime", "1000", "--time_based"];
    let args = [&args[..], &["--eta", "always", "--json"]].concat();
    // Again if this thread did not run between the signals for longer than the time in which they are one.
    let (code, result, last) = loop {
        let (took, ended) = signalled(&args, "IOPS", 2);
        if took < Duration::from_millis(500) {
            break ended;
        }
    };
    assert_eq!((code, last.as_str()), (Some(130), "platter: interrupted: the result is partial"));
    assert_eq!((&result["partial"], result["ios"].as_u64() > Some(0)), (&true.into(), true));
}

/// Starts a command that waits for the reads of a trace, and returns the end of the pipe that it reads them from. The
/// pipe can be opened for writing only after the command has opened it for reading: the handler is installed.
fn waiting_for_reads(dir: &Path) -> (Running, File) {
    let pipe = dir.join("reads");
    let path = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: the path is a string that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let child = Running::start(&mut platter(&["readahead", "--trace", pipe.to_str().unwrap(), "--json"]));
    (child, OpenOptions::new().write(true).open(&pipe).unwrap())
}

/// The command goes on waiting for the trace: only a signal half a second after the first ends it.
#[test]
fn a_signal_that_is_repeated_later_ends_the_process_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, reads) = waiting_for_reads(dir.path());
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        interrupt(&child);
        std::thread::yield_now();
    }
    assert!(start.elapsed().as_millis() >= 500, "{:?}", start.elapsed());
    drop(reads);
    let output = child.output();
    assert_eq!((output.status.signal(), output.stdout.len()), (Some(libc::SIGINT), 0));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "platter: signalled again: ended at once, what was not finished is lost\n");
}

/// The signal comes before the first read is simulated.
#[test]
fn readahead_prints_the_policies_that_are_complete() {
    let dir = tempfile::tempdir().unwrap();
    let (child, mut reads) = waiting_for_reads(dir.path());
    interrupt(&child);
    std::io::Write::write_all(&mut reads, b"0 0 0 64K\n").unwrap();
    drop(reads);
    let (code, result, last) = end(child);
    assert_eq!((code, last.as_str()), (Some(130), "platter: interrupted: policies are missing"));
    assert_eq!((&result["interrupted"], result["policies"].as_array().unwrap().len()), (&true.into(), 0));
}

/// A device of one block, one that is no multiple of anything, one that holds nothing that the verb needs: each either runs
/// or is refused with a reason, and none makes a verb panic or run for ever.
#[test]
fn devices_of_any_size_are_measured_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = |size: u64| {
        let path = dir.path().join(format!("{size}.img"));
        File::create(&path).unwrap().set_len(size).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let devices =
        ["null(512)".to_owned(), "ram(512)".to_owned(), file(100), file(512), file(1000), file(1_048_577)];
    let verbs: [&[&str]; 8] = [
        &["bench", "io", "--rw", "randread", "--bs", "512", "--iodepth", "4", "--number_ios", "10"],
        &["bench", "io", "--rw", "randread", "--bs", "512", "--rate_iops", "1000", "--number_ios", "3"],
        &[
            "bench",
            "fileio",
            "--file-num",
            "1",
            "--file-block-size",
            "512",
            "--events",
            "20",
            "--threads",
            "2",
        ],
        &[
            "bench",
            "chunked",
            "--personality",
            "jbod",
            "--request",
            "512",
            "--stream",
            "--samples",
            "1",
            "--enough",
            "1us",
        ],
        &["bench", "chunked", "--quick", "--samples", "1", "--enough", "1us"],
        &["bench", "parallel-read", "--repeat", "1", "--block", "512"],
        &["bench", "schedulers", "--time", "10ms"],
        &["bench", "dm", "--repeat", "1", "--reads", "1"],
    ];
    for device in &devices {
        for verb in verbs {
            let output = platter(&[verb, &["--on", device]].concat()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!said.contains("panicked"), "{verb:?} on {device}: {said}");
            match output.status.code() {
                Some(0) => assert!(!output.stdout.is_empty()),
                code => assert!(
                    matches!(code, Some(1 | 3 | 4)) && said.len() > 20,
                    "{verb:?} on {device}: {said}"
                ),
            }
        }
    }
    let empty = file(0);
    let refused = platter(&["bench", "io", "--on", &empty]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(fs::metadata(&empty).unwrap().len() == 0);
}
