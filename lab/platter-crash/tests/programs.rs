//! Whole crash tests of small programs, which are this test program, started again.

use platter_crash::check::{Check, Verdict};
use platter_crash::error::RecordError;
use platter_crash::explore::{self, Cut, Options, Report};
use platter_crash::history::history;
use platter_crash::plan::Plan;
use platter_crash::recording::Recording;
use platter_crash::tracer::{End, Program, Recorded, StopAfter, record};
use platter_crash::volume::{Lost, Semantics};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use tempfile::tempdir;

/// Which program this process is, if it is one, and whether it has a bug.
const ROLE: &str = "PLATTER_CRASH_TEST_ROLE";

/// A command for the shell that runs one of the programs below.
fn command(role: &str) -> String {
    let exe = std::env::current_exe().unwrap();
    format!("{ROLE}={role} exec {} --exact program --nocapture", exe.display())
}

/// Runs as one of the programs if the environment says so. In the directory that is its working directory.
#[test]
fn program() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "log" => log(&[]),
        "log-without-sync" => log(&["sync"]),
        "log-without-name" => log(&["name"]),
        "log-without-checksum" => log(&["checksum"]),
        "check-log" => check_log(true),
        "check-log-without-checksum" => check_log(false),
        "replace" => replace(&[]),
        "replace-without-sync" => replace(&["sync"]),
        "replace-without-name" => replace(&["name"]),
        "check-replace" => check_replace(),
        "threads" => threads(),
        "map" => map(true),
        "map-without-msync" => map(false),
        "check-map" => check_map(),
        "many-ways" => many_ways(),
        "uring" => uring(),
        "splice" => splice(),
        other => panic!("no program {other}"),
    }
}

fn sync_dir() {
    File::open(".").unwrap().sync_all().unwrap();
}

/// What the program says that it has done: the lines after the first ones, which are the test harness's.
fn acknowledged() -> Vec<String> {
    let text = fs::read_to_string(std::env::var("PLATTER_CRASH_ACKNOWLEDGED").unwrap()).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("ACK ")).map(str::to_owned).collect()
}

fn acknowledge(what: impl std::fmt::Display) {
    let mut out = std::io::stdout();
    out.write_all(format!("\nACK {what}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

const RECORD: usize = 1500;

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(7, |sum, byte| sum * 31 % 65521 + u32::from(*byte))
}

fn entry(number: u8) -> Vec<u8> {
    let body = vec![number; RECORD];
    [sum(&body).to_le_bytes().as_slice(), &body].concat()
}

/// Appends records, each of which is durable before it is acknowledged.
fn log(without: &[&str]) {
    let mut file = OpenOptions::new().create(true).append(true).open("log").unwrap();
    if !without.contains(&"name") {
        sync_dir();
    }
    for number in 1..=5 {
        file.write_all(&entry(number)).unwrap();
        if !without.contains(&"sync") {
            file.sync_data().unwrap();
        }
        acknowledge(number);
    }
}

fn check_log(checksums: bool) {
    let data = fs::read("log").unwrap_or_default();
    let mut found = 0;
    for (number, record) in (1..).zip(data.chunks(RECORD + 4)) {
        let whole = record.len() == RECORD + 4;
        let good = whole && record == entry(number);
        if checksums && !good {
            break;
        }
        // Without checksums the log takes what has the right length for a record.
        assert!(good || !whole, "record {number} is torn");
        found += u32::from(whole);
    }
    let promised = acknowledged().len() as u32;
    assert!(found >= promised, "record {} is lost", found + 1);
}

/// Replaces a file by a new one several times.
fn replace(without: &[&str]) {
    for number in 1..=3u8 {
        let mut file = File::create("new").unwrap();
        file.write_all(&entry(number)).unwrap();
        if !without.contains(&"sync") {
            file.sync_all().unwrap();
        }
        fs::rename("new", "current").unwrap();
        if !without.contains(&"name") {
            sync_dir();
        }
        acknowledge(number);
    }
}

fn check_replace() {
    let promised: u8 = acknowledged().last().map_or(0, |last| last.parse().unwrap());
    let data = match fs::read("current") {
        Ok(data) => data,
        Err(_) => {
            assert!(promised == 0, "the file is lost");
            return;
        }
    };
    let number = data.last().copied().unwrap_or(0);
    assert!(data == entry(number), "the file is torn");
    assert!(number >= promised, "an old file is back");
}

/// Several threads with a file each, which they sync.
fn threads() {
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            scope.spawn(move || {
                let file = File::create(format!("file-{thread}")).unwrap();
                for at in 0..20u64 {
                    file.write_all_at(&[thread + 1; 700], at * 700).unwrap();
                    file.sync_data().unwrap();
                }
            });
        }
    });
    acknowledge("threads");
}

/// Writes through a mapping.
fn map(syncs: bool) {
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync};
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open("map").unwrap();
    file.set_len(8192).unwrap();
    file.sync_all().unwrap();
    sync_dir();
    // SAFETY: a new mapping, of a file that stays as long as it is.
    let memory = unsafe {
        mmap(std::ptr::null_mut(), 8192, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)
            .unwrap()
    };
    for number in 1..=3u8 {
        // SAFETY: inside the mapping, which nothing else uses.
        unsafe {
            memory.cast::<u8>().add(4096).write_bytes(number, 100);
            if syncs {
                msync(memory, 8192, MsyncFlags::SYNC).unwrap();
            }
        }
        acknowledge(number);
    }
}

fn check_map() {
    let promised: u8 = acknowledged().last().map_or(0, |last| last.parse().unwrap());
    let found = fs::read("map").ok().and_then(|data| data.get(4096).copied()).unwrap_or(0);
    assert!(found >= promised, "what was stored is lost");
}

/// Changes a directory in as many ways as there are, so that the record is compared with what came of it.
fn many_ways() {
    use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags};
    fs::create_dir_all("a/b/c").unwrap();
    fs::write("a/one", [1; 5000]).unwrap();
    fs::hard_link("a/one", "a/b/two").unwrap();
    std::os::unix::fs::symlink("../one", "a/b/link").unwrap();
    fs::copy("a/one", "a/b/c/copy").unwrap();
    fs::rename("a/b", "moved").unwrap();
    OpenOptions::new().write(true).open("moved/link").unwrap_err();
    let mut file = OpenOptions::new().read(true).append(true).open("moved/two").unwrap();
    file.write_all_at(&[9; 100], 0).unwrap();
    let parts = [[2; 10].as_slice(), &[3; 700]].map(std::io::IoSlice::new);
    assert_eq!(file.write_vectored(&parts).unwrap(), 710);
    let copy = OpenOptions::new().read(true).write(true).open("moved/c/copy").unwrap();
    rustix::fs::fallocate(&copy, FallocateFlags::empty(), 0, 20000).unwrap();
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&copy, punch, 100, 1000).unwrap();
    copy.set_len(3000).unwrap();
    rustix::fs::renameat_with(CWD, "a/one", CWD, "moved/c/copy", RenameFlags::EXCHANGE).unwrap();
    let unnamed = rustix::fs::openat(CWD, ".", OFlags::TMPFILE | OFlags::RDWR, Mode::from_raw_mode(0o600));
    if let Ok(unnamed) = unnamed {
        let unnamed = File::from(unnamed);
        unnamed.write_all_at(&[4; 999], 7).unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&unnamed));
        rustix::fs::linkat(CWD, path.as_str(), CWD, "named", AtFlags::SYMLINK_FOLLOW).unwrap();
    }
    fs::write("gone", "x").unwrap();
    fs::remove_file("gone").unwrap();
    fs::create_dir("empty").unwrap();
    fs::remove_dir("empty").unwrap();
    let mut late = File::create("late").unwrap();
    late.write_all(b"0123456789").unwrap();
    File::create("late").unwrap().write_all(b"abc").unwrap();
    let status =
        Command::new("/bin/sh").args(["-c", "echo child > moved/child; cd moved && mv child c/"]).status();
    assert!(status.unwrap().success());
    let mut text = String::new();
    File::open("late").unwrap().read_to_string(&mut text).unwrap();
    rustix::fs::syncfs(&late).unwrap();
    acknowledge(text);
}

/// Asks for a ring, as programs do that use one where they can.
fn uring() {
    // SAFETY: a size of 0 is refused before the pointer is used.
    let result = unsafe { libc::syscall(libc::SYS_io_uring_setup, 0, std::ptr::null::<u8>()) };
    let error = std::io::Error::last_os_error();
    acknowledge(format!("{result} {}", error.raw_os_error().unwrap_or(0)));
}

/// Prints what the kernel moves from a file.
fn splice() {
    fs::write("text", "ACK 1\n").unwrap();
    let file = File::open("text").unwrap();
    let flags = rustix::pipe::SpliceFlags::empty();
    assert_eq!(rustix::pipe::splice(&file, None, std::io::stdout(), None, 6, flags), Ok(6));
}

/// Records a shell command whose working directory is the one that is recorded.
fn recorded_shell(dir: &Path, command: &str) -> Result<Recording, RecordError> {
    let script = format!("cd {} && {command}", dir.display());
    let command = ["/bin/sh", "-c", &script].map(Into::into).to_vec();
    record(&Program { command, dir: dir.to_owned(), limit: 64 << 20, stop: None }, &AtomicBool::new(false))
        .map(|recorded| recorded.recording)
}

fn recorded(role: &str) -> Recording {
    let dir = tempdir().unwrap();
    recorded_shell(dir.path(), &command(role)).unwrap()
}

fn options(check: &str, temporary: &Path) -> Options {
    let check = Check {
        command: format!("{} >&2", command(check)),
        timeout: Duration::from_secs(120),
        temporary: temporary.to_owned(),
    };
    Options { semantics: Semantics::Strict, seed: 1, cuts: None, tries: 3, jobs: 2, check }
}

fn explored(recording: &Recording, options: &Options) -> Report {
    explore::explore(recording, options, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

/// The finding of a program with a bug: what the check says, and what is lost, for people.
fn found(role: &str, check: &str, semantics: Semantics) -> (String, Vec<String>) {
    let (dir, recording) = (tempdir().unwrap(), recorded(role));
    let options = Options { semantics, ..options(check, dir.path()) };
    let report = explored(&recording, &options);
    let found = report.found.unwrap_or_else(|| panic!("{role}: nothing found"));
    let Verdict::Bad { output, .. } = &found.verdict else { panic!("{:?}", found.verdict) };
    let lost = history(&recording, &found.cut).into_iter().filter_map(|line| line.lost);
    let lost: Vec<String> = lost.collect();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{role}: directories are left");
    // The plan repeats it.
    let cut = found.cut.clone();
    let (check, seed) = (options.check.command.clone(), 1);
    let plan = Plan { semantics, seed, cut, check, recording: recording.clone() };
    let plan = Plan::decode(&plan.encode()).unwrap();
    let stop = AtomicBool::new(false);
    let again = explore::replay(&plan.recording, plan.semantics, &plan.cut, &options.check, &stop).unwrap();
    assert!(matches!(again, Verdict::Bad { .. }), "{role}: {again:?}");
    (output.clone(), lost)
}

fn is_clean(role: &str, check: &str, semantics: Semantics) -> Report {
    let (dir, recording) = (tempdir().unwrap(), recorded(role));
    let options = Options { semantics, ..options(check, dir.path()) };
    let report = explored(&recording, &options);
    assert_eq!(report.found, None, "{role}");
    assert_eq!(report.cuts, recording.steps.len() as u64 + 1, "{role}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "{role}: directories are left");
    report
}

#[test]
fn a_correct_log_is_silent() {
    for semantics in Semantics::ALL {
        let report = is_clean("log", "check-log", semantics);
        assert!(report.states > 10, "{semantics:?}: {report:?}");
    }
}

#[test]
fn a_log_without_a_sync_is_found() {
    for semantics in Semantics::ALL {
        let (said, lost) = found("log-without-sync", "check-log", semantics);
        assert!(said.contains("record 1 is lost"), "{semantics:?}: {said}");
        assert!(lost.iter().all(|lost| lost.contains("no sync")), "{lost:?}");
    }
}

#[test]
fn a_new_file_whose_directory_is_not_synced_is_found() {
    let (said, lost) = found("log-without-name", "check-log", Semantics::Strict);
    assert!(said.contains("record 1 is lost"), "{said}");
    assert_eq!(lost, ["the name; no sync of its directory has followed (.)"]);
    is_clean("log-without-name", "check-log", Semantics::Ext4Ordered);
    is_clean("log-without-name", "check-log", Semantics::Lazyfs);
}

#[test]
fn a_torn_record_is_found() {
    let (said, lost) = found("log-without-checksum", "check-log-without-checksum", Semantics::Strict);
    assert!(said.contains("record 1 is torn"), "{said}");
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].contains("of its 3 sectors"), "{lost:?}");
}

#[test]
fn a_correct_replacement_is_silent() {
    for semantics in Semantics::ALL {
        is_clean("replace", "check-replace", semantics);
    }
}

#[test]
fn a_rename_without_a_sync_of_the_directory_is_found() {
    let (said, lost) = found("replace-without-name", "check-replace", Semantics::Strict);
    assert!(said.contains("the file is lost"), "{said}");
    assert!(lost.iter().any(|lost| lost.contains("no sync of its directory")), "{lost:?}");
    let (said, _) = found("replace-without-name", "check-replace", Semantics::Ext4Ordered);
    assert!(said.contains("is lost"), "{said}");
}

#[test]
fn a_rename_of_a_file_that_was_not_synced_is_found() {
    for semantics in Semantics::ALL {
        let (said, _) = found("replace-without-sync", "check-replace", semantics);
        assert!(said.contains("torn") || said.contains("lost"), "{semantics:?}: {said}");
    }
}

#[test]
fn stores_through_a_mapping_count() {
    for semantics in Semantics::ALL {
        is_clean("map", "check-map", semantics);
        let (said, lost) = found("map-without-msync", "check-map", semantics);
        assert!(said.contains("what was stored is lost"), "{said}");
        assert_eq!(lost.len(), 1, "{lost:?}");
    }
}

#[test]
fn what_is_recorded_is_what_the_directory_has() {
    for role in ["many-ways", "threads"] {
        let recording = recorded(role);
        let lines = String::from_utf8(recording.lines(usize::MAX)).unwrap();
        assert!(lines.contains("ACK "), "{role}: {lines}");
        let bytes = recording.encode(usize::MAX);
        assert_eq!(Recording::decode(&bytes), Ok(recording));
    }
}

#[test]
fn one_seed_gives_one_result_whatever_the_number_of_jobs() {
    let (dir, recording) = (tempdir().unwrap(), recorded("replace-without-sync"));
    let with = |jobs| explored(&recording, &Options { jobs, ..options("check-replace", dir.path()) });
    let (one, four) = (with(1), with(4));
    let what = |report: &Report| report.found.as_ref().map(|found| (found.cut.clone(), found.shrink_tries));
    assert!(what(&one).is_some());
    assert_eq!((what(&one), one.cuts, one.states), (what(&four), four.cuts, four.states));
}

#[test]
fn rings_are_refused_as_on_a_kernel_without_them() {
    let recording = recorded("uring");
    let lines = String::from_utf8(recording.lines(usize::MAX)).unwrap();
    assert!(lines.contains(&format!("ACK -1 {}", libc::ENOSYS)), "{lines}");
}

#[test]
fn a_change_that_no_call_of_the_program_made_is_an_error() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, [1; 100]).unwrap();
    // The program asks a process that is not traced to write, and waits for it.
    let (question, asked) = std::io::pipe().unwrap();
    let (answer, answered) = std::io::pipe().unwrap();
    let script = format!("read line && printf unseen > {}; echo", path.display());
    let mut helper = Command::new("/bin/sh");
    helper.args(["-c", &script]).stdin(Stdio::from(question)).stdout(Stdio::from(answered));
    let mut child = helper.spawn().unwrap();
    drop(helper);
    let own = std::process::id();
    let path = |end: &dyn std::os::fd::AsRawFd| format!("/proc/{own}/fd/{}", end.as_raw_fd());
    let script = format!("echo > {}; read line < {}", path(&asked), path(&answer));
    let error = recorded_shell(dir.path(), &script).unwrap_err();
    child.wait().unwrap();
    let RecordError::Unseen(why) = &error else { panic!("{error:?}") };
    assert!(why.contains("file"), "{why}");
}

#[test]
fn output_that_is_moved_by_the_kernel_is_an_error() {
    let dir = tempdir().unwrap();
    let error = recorded_shell(dir.path(), &command("splice")).unwrap_err();
    assert!(matches!(&error, RecordError::Unseen(why) if why.contains("splice")), "{error:?}");
}

/// Whether a program of 64 bits names no interpreter, which would load its libraries.
fn is_static(elf: &[u8]) -> bool {
    const INTERPRETER: u8 = 3;
    let number =
        |at: usize, len: usize| elf[at..at + len].iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte));
    let (first, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    elf.starts_with(b"\x7fELF\x02") && !(0..count).any(|at| elf[first + at * size] == INTERPRETER)
}

#[test]
fn a_static_program_is_seen() {
    let ldconfig = "/sbin/ldconfig";
    if !fs::read(ldconfig).is_ok_and(|bytes| is_static(&bytes)) {
        eprintln!("skipped: {ldconfig} is no static program here");
        return;
    }
    let dir = tempdir().unwrap();
    let recording = recorded_shell(dir.path(), &format!("{ldconfig} -i -X -C cache")).unwrap();
    let calls: Vec<&str> = recording.steps.iter().map(|step| step.call.as_str()).collect();
    assert!(calls.contains(&"write") && calls.iter().any(|call| call.starts_with("rename")), "{calls:?}");
}

#[test]
fn a_pipe_with_a_name_is_no_file() {
    let dir = tempdir().unwrap();
    let script = "echo x > gone; rm gone; mkfifo pipe; (echo text > pipe) & echo other > other; read line < pipe; echo $line > file; wait";
    let recording = recorded_shell(dir.path(), script).unwrap();
    let writes = recording.steps.iter().filter(|step| step.call == "write").count();
    assert_eq!(writes, 3);
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "text\n");
}

#[test]
fn programs_that_fail_or_are_not_there_are_named() {
    let dir = tempdir().unwrap();
    let error = recorded_shell(dir.path(), "exit 3").unwrap_err();
    assert!(matches!(&error, RecordError::Failed(why) if why.contains("status 3")), "{error:?}");
    let error = recorded_shell(dir.path(), "kill -9 $$").unwrap_err();
    assert!(matches!(&error, RecordError::Failed(why) if why.contains("signal 9")), "{error:?}");
    let program = Program {
        command: vec!["no-such-program".into()],
        dir: dir.path().to_owned(),
        limit: 1 << 20,
        stop: None,
    };
    let error = record(&program, &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(&error, RecordError::CannotStart(why) if why.contains("no-such-program")), "{error:?}");
    let script = format!("printf %5000d 1 > {}/big", dir.path().display());
    let big =
        Program { command: ["/bin/sh".into(), "-c".into(), script.into()].to_vec(), limit: 1000, ..program };
    let error = record(&big, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("--limit"), "{error:?}");
}

#[test]
fn a_program_is_killed_when_the_user_wants_to_stop() {
    let dir = tempdir().unwrap();
    let stop = AtomicBool::new(true);
    let command = ["/bin/sh", "-c", "sleep 600 & sleep 600"].map(Into::into).to_vec();
    let error = record(&Program { command, dir: dir.path().to_owned(), limit: 1 << 20, stop: None }, &stop)
        .unwrap_err();
    assert!(matches!(error, RecordError::Stopped), "{error:?}");
}

/// Records a shell command that does not end by itself. The time before it is asked to end grows until the recording has `calls`
/// calls, so that a slow machine does not decide the test.
fn recorded_until(script: &str, calls: usize, grace: Duration) -> Recorded {
    let mut time = Duration::from_millis(200);
    loop {
        let dir = tempdir().unwrap();
        let script = format!("cd {}; {script}", dir.path().display());
        let command = ["/bin/sh", "-c", &script].map(Into::into).to_vec();
        let stop = Some(StopAfter { time, grace });
        let program = Program { command, dir: dir.path().to_owned(), limit: 1 << 20, stop };
        let recorded = record(&program, &AtomicBool::new(false)).unwrap();
        if recorded.recording.steps.len() >= calls {
            return recorded;
        }
        time *= 4;
        assert!(time < Duration::from_secs(60), "{script}: {:?}", recorded.recording);
    }
}

#[test]
fn a_server_is_asked_to_end_and_what_it_did_is_recorded() {
    let patient = Duration::from_secs(600);
    let ended = recorded_until("printf abc > a; exec sleep 600", 2, patient);
    assert_eq!((ended.end, ended.recording.steps.len()), (End::Asked, 2), "{:?}", ended.recording);
    // It may still do something then, and may end with any status.
    let script = "trap 'printf b > b; exit 3' TERM; printf abc > a; while :; do sleep 0.01; done";
    let ended = recorded_until(script, 4, patient);
    assert_eq!((ended.end, ended.recording.steps.len()), (End::Asked, 4), "{:?}", ended.recording);
    // A process that outlives the program is asked, too.
    let ended = recorded_until("sleep 600 & printf abc > a", 2, patient);
    assert_eq!((ended.end, ended.recording.steps.len()), (End::Asked, 2), "{:?}", ended.recording);
}

/// Also processes that outlive the program, and while calls are under way all the time.
#[test]
fn a_server_that_does_not_end_is_killed_between_two_calls() {
    for script in [
        "trap '' TERM; printf abc > a; exec sleep 600",
        "(trap '' TERM; exec sleep 600) & printf abc > a",
        "trap '' TERM; while :; do printf abc > a; done & while :; do printf abc > b; done",
    ] {
        let ended = recorded_until(script, 2, Duration::from_millis(300));
        assert_eq!(ended.end, End::Killed, "{script}");
    }
}

#[test]
fn a_check_that_does_not_end_has_failed() {
    let (dir, recording) = (tempdir().unwrap(), Recording::default());
    let check = Check {
        command: "sleep 600 & sleep 600".to_owned(),
        timeout: Duration::from_millis(300),
        temporary: dir.path().to_owned(),
    };
    let cut = Cut { steps: 0, lost: Lost::new() };
    let stop = AtomicBool::new(false);
    let verdict = explore::replay(&recording, Semantics::Strict, &cut, &check, &stop).unwrap();
    assert!(matches!(&verdict, Verdict::Bad { ended, .. } if ended.contains("300ms")), "{verdict:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// A new process may be reported just when the recording is to stop: it is killed like the others.
#[test]
fn a_program_that_starts_processes_can_be_stopped_at_any_time() {
    let dir = tempdir().unwrap();
    for turn in 0..20 {
        let started = dir.path().join(format!("{turn}"));
        let line = format!("> {}; while :; do (:); done", started.display());
        let command = ["sh", "-c", &line].map(Into::into).to_vec();
        let program = Program { command, dir: dir.path().to_owned(), limit: 1 << 20, stop: None };
        let (stop, (send, result)) = (Arc::new(AtomicBool::new(false)), channel());
        let stops = Arc::clone(&stop);
        std::thread::spawn(move || send.send(record(&program, &stops)));
        while !started.exists() {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        let ended = result.recv_timeout(Duration::from_secs(60)).expect("it ends");
        assert!(matches!(ended, Err(RecordError::Stopped)), "{turn}: {:?}", ended.map(|_| ()));
    }
}
