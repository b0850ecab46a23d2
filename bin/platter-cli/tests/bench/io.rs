//! `platter bench io` as users call it.

use crate::partitioned::partitioned;
use crate::running::Running;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn platter(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    command.args(["bench", "io"]).args(args);
    command
}

fn output(args: &[&str]) -> Output {
    platter(args).output().unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(args: &[&str]) -> Value {
    let output = output(&[args, &["--json"]].concat());
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

const KEYS: [&str; 8] =
    ["iops", "mib_per_s", "ns_per_io", "cpu_ns_per_io", "lat_p50_ns", "lat_p99_ns", "lat_p999_ns", "errors"];

#[test]
fn the_documented_commands_print_the_documented_keys() {
    for on in ["null(1T)", "null(1T, elevator=deadline)"] {
        let args = ["--on", on, "--rw", "randread", "--bs", "4k", "--iodepth", "32"];
        let result = json(&[&args[..], &["--runtime", "100ms", "--time_based"]].concat());
        for key in KEYS {
            assert!(result[key].is_number(), "{key} of {on}: {result:#}");
        }
        assert!(result["ios"].as_u64().unwrap() > 0 && result["errors"] == 0);
        assert_eq!((&result["queued"], &result["dispatched"]), (&result["ios"], &result["ios"]), "{on}");
        assert_eq!((&result["completed"], &result["partial"]), (&result["ios"], &false.into()), "{on}");
        let elevator = if on.contains("deadline") { "deadline" } else { "none" };
        assert_eq!(result["devices"][0]["facts"]["elevator"], elevator);
    }
}

/// docs/bench-io.md lists every key, and no other.
#[test]
fn the_page_lists_the_keys() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench-io.md");
    let page = fs::read_to_string(page).unwrap();
    let listed = |line: &str| line.strip_prefix("| `")?.split_once('`').map(|(key, _)| key.to_owned());
    let mut listed: Vec<String> = page.lines().filter_map(listed).collect();
    let result = json(&["--on", "null(1M)"]);
    let mut keys: Vec<String> = result.as_object().unwrap().keys().cloned().collect();
    for list in [&mut listed, &mut keys] {
        list.sort_unstable();
    }
    assert_eq!(listed, keys);
}

/// A pass over a device whose pages are not cached misses each of them, and the next one hits all.
#[test]
fn hits_and_misses_of_a_cache_are_reported() {
    let on = "cache(size=8M, readahead=none, prefault=off, ram(1M))";
    let args = ["--on", on, "--rw", "randread", "--number_ios", "512", "--runtime", "600", "--time_based"];
    let cache = &json(&args)["cache"];
    assert_eq!((&cache["hits"], &cache["misses"]), (&256.into(), &256.into()), "{cache:#}");
    assert_eq!(cache["pages_read_ahead"], 0, "{cache:#}");
    assert!(cache["readahead"]["windows"].is_number() && cache["reads_by_size"].is_array(), "{cache:#}");
    let text = String::from_utf8(output(&args).stdout).unwrap();
    assert!(text.contains("256 pages hit, 256 missed, 0 read ahead"), "{text}");
    assert_eq!(json(&["--on", "null(1M)"])["cache"], Value::Null);
}

#[test]
fn fios_spellings_are_understood() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let path = path.to_str().unwrap();
    let result =
        json(&["--on", path, "--rw=randrw", "--rwmixread=70", "--bs=8k", "--size=512k", "--verify=1"]);
    assert_eq!((&result["ios"], &result["verify_errors"]), (&64.into(), &0.into()));
    let direct = json(&["--on", path, "--direct=0", "--number_ios=10", "--ioprio", "be/7", "--randseed=7"]);
    assert_eq!((&direct["devices"][0]["facts"]["direct"], &direct["job"]["seed"]), (&"no".into(), &7.into()));
    let rate =
        json(&["--on", path, "--rate_iops=5000", "--number_ios=20", "--gtod_reduce", "--norandommap=0"]);
    assert_eq!((&rate["stamps"], &rate["lat_p50_ns"]), (&"coarse".into(), &Value::Null));
    let two = json(&["--on", "null(1M)", "--on", "null(2M)", "--readwrite=trim", "--thinktime=1us"]);
    assert_eq!((&two["ios"], &two["job"]["numjobs"]), (&768.into(), &2.into()));
}

/// Between two starts a paced job sleeps: in a run of half a second with a start every 10 ms it needs the
/// processor for a small part of the time. Processor time is measured, which does not depend on other load.
#[test]
fn a_paced_job_sleeps_between_its_starts() {
    for pace in [["--rate_iops", "100"], ["--thinktime", "10ms"]] {
        let result = json(&[&["--on", "ram(1M)", "--runtime", "500ms", "--time_based"][..], &pace].concat());
        assert!(result["ios"].as_u64().unwrap() <= 51, "{result:#}");
        let cpu = result["user_cpu_ns"].as_u64().unwrap() + result["system_cpu_ns"].as_u64().unwrap();
        assert!(cpu < 250_000_000, "{pace:?}: {cpu} ns of processor time");
    }
}

#[test]
fn absurd_options_name_themselves_their_value_and_what_is_allowed() {
    for (option, value, allowed) in [
        ("--iodepth", "0", "1 to 32768"),
        ("--iodepth", "-1", "iodepth"),
        ("--iodepth", "99999999999", "0..=4294967295"),
        ("--numjobs", "100000", "1 to 1024"),
        ("--bs", "0", "512"),
        ("--bs", "1000", "multiple of the logical block"),
        ("--bs", "2048m", "to 1G"),
        ("--bs", "4q", "a size is a number of bytes"),
        ("--offset", "2048k", "0 to 1020K"),
        ("--size", "2048k", "4K (one block) to 1M"),
        ("--rwmixread", "70", "no effect with rw=read"),
        ("--rw", "readrand", "randread"),
        ("--runtime", "0", "above 0"),
        ("--runtime", "200000000000", "longer than the longest"),
        ("--runtime", "fast", "a time is a number"),
        ("--time_based=1", "", "needs a runtime"),
        ("--number_ios", "0", "at least 1"),
        ("--rate_iops", "0", "1 to 1000000000"),
        ("--ioprio", "be/9", "be/0 to be/7"),
        ("--prioclass", "4", "0 (none)"),
        ("--context", "0", "1 to 16777215"),
        ("--verify_interval", "512", "verify"),
        ("--direct=2", "", "0 or 1"),
    ] {
        let args: Vec<&str> =
            ["--on", "null(1M)", option, value].into_iter().filter(|a| !a.is_empty()).collect();
        let output = output(&args);
        let said = stderr(&output);
        let name = option.trim_start_matches('-').split('=').next().unwrap();
        let named = said.contains(name) || (name == "time_based" && said.contains("runtime"));
        assert!(named && said.contains(value) && said.contains(allowed), "{option} {value}: {said}");
        // A larger device, or one with smaller blocks, would do.
        let unfit = [("--bs", "1000"), ("--offset", "2048k"), ("--size", "2048k")].contains(&(option, value));
        let status = if unfit { 4 } else { 2 };
        assert_eq!((code(&output), output.stdout.len()), (Some(status), 0), "{option} {value}: {said}");
    }
}

#[test]
fn devices_that_cannot_be_used_say_why() {
    let nothing = output(&[]);
    assert_eq!((code(&nothing), stderr(&nothing).contains("--on")), (Some(2), true));
    let typo = output(&["--on", "nul(1T)"]);
    assert_eq!(code(&typo), Some(2), "{}", stderr(&typo));
    let missing = output(&["--on", "/nonexistent/disk"]);
    assert_eq!(code(&missing), Some(3));
    assert!(stderr(&missing).contains("/nonexistent/disk"), "{}", stderr(&missing));
    let few = output(&["--on", "null(1M)", "null(1M)", "--numjobs", "1"]);
    assert!(code(&few) == Some(2) && stderr(&few).contains("numjobs=1"), "{}", stderr(&few));
}

#[test]
fn a_disk_that_holds_something_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    let mut image = partitioned(1 << 20);
    // The magic of ext4 in its superblock, which a signature needs a plausible rest of.
    image[1024 + 0x38..1024 + 0x3a].copy_from_slice(&0xef53u16.to_le_bytes());
    fs::write(&path, &image).unwrap();
    let path = path.to_str().unwrap();
    let refused = output(&["--on", path, "--rw", "write", "--number_ios", "1"]);
    assert_eq!(code(&refused), Some(3), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--force"), "{}", stderr(&refused));
    assert_eq!(fs::read(path).unwrap(), image);
    assert_eq!(json(&["--on", path, "--rw", "read", "--number_ios", "1"])["ios"], 1);
    assert_eq!(json(&["--on", path, "--rw", "write", "--number_ios", "1", "--force"])["ios"], 1);
}

#[test]
fn failed_ios_and_bad_blocks_make_the_run_fail() {
    let bad = output(&["--on", "null(1M)", "--rw", "write", "--verify", "--json"]);
    assert_eq!(code(&bad), Some(1));
    assert!(
        stderr(&bad).contains("blocks did not verify; verification failed at offset"),
        "{}",
        stderr(&bad)
    );
    let report: Value = serde_json::from_slice(&bad.stdout).unwrap();
    assert_eq!(report["errors"], report["verify_errors"]);
    assert!(report["errors"].as_u64().unwrap() > 0);
}

/// A file may be larger than a process may write.
#[test]
fn no_space_under_the_file_is_an_error_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk.img");
    File::create(&path).unwrap().set_len(1 << 20).unwrap();
    // In KiB: half of the file. The signal that would end the process is ignored.
    let script = "ulimit -f 512; exec \"$0\" bench io --on \"$1\" --rw write --json";
    let run = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_platter"), path.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(code(&run), Some(1), "{}", stderr(&run));
    assert!(stderr(&run).contains("no space left"), "{}", stderr(&run));
    let report: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((&report["io_errors"], &report["ios"]), (&1.into(), &128.into()));
}

#[test]
fn simulated_runs_of_one_seed_differ_only_in_what_they_say_of_the_host() {
    let args = ["--on", "sim(ideal, elevator=deadline)", "sim(ideal)", "--rw", "randrw", "--numjobs", "6"];
    let args =
        [&args[..], &["--iodepth", "4", "--runtime", "200ms", "--time_based", "--context", "1,1,2"]].concat();
    let run = || {
        let mut result = json(&args);
        let object = result.as_object_mut().unwrap();
        for key in platter_bench::io::HOST_KEYS {
            assert!(object.remove(key).is_some_and(|value| value.is_number()), "{key}");
        }
        result
    };
    let result = run();
    assert_eq!(result.to_string(), run().to_string());
    // 100 us each, 24 side by side.
    assert_eq!((&result["ios"], &result["virtual_s"]), (&48_000.into(), &0.2.into()));
    assert_eq!(result["job"]["contexts"], serde_json::json!([1, 1, 2]));
    let text = output(&args);
    assert!(String::from_utf8_lossy(&text.stdout).contains("simulated: all times are virtual"));
    let example = ["--on", "sim(ideal, elevator=deadline)", "--rw", "randread", "--numjobs", "8"];
    let result = json(&[&example[..], &["--runtime", "10s", "--time_based"]].concat());
    assert_eq!((&result["ios"], &result["virtual_s"]), (&800_000.into(), &10.0.into()));
    let mixed = output(&["--on", "sim(ideal)", "null(1M)"]);
    assert!(code(&mixed) == Some(2) && stderr(&mixed).contains("different clocks"), "{}", stderr(&mixed));
}

#[test]
fn trace_and_report_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let (trace, page) = (dir.path().join("trace.txt"), dir.path().join("report.html"));
    let args = ["--on", "null(1M)", "--number_ios", "5", "--trace", trace.to_str().unwrap()];
    json(&[&args[..], &["--report", page.to_str().unwrap()]].concat());
    let trace = fs::read_to_string(trace).unwrap();
    assert_eq!(trace.lines().filter(|line| line.contains("  D   R ")).count(), 5, "{trace}");
    assert!(fs::read_to_string(page).unwrap().contains("platter bench io"));
    let nowhere = output(&["--on", "null(1M)", "--trace", "/nonexistent/t"]);
    assert!(code(&nowhere) == Some(1) && stderr(&nowhere).contains("cannot write /nonexistent/t"));
}

#[test]
fn a_trace_or_report_replaces_no_device_and_no_report_of_a_run_that_cannot_start() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, page) = (dir.path().join("disk.img"), dir.path().join("report.html"));
    fs::write(&disk, vec![7; 65536]).unwrap();
    fs::write(&page, "an earlier report").unwrap();
    let (disk, page) = (disk.to_str().unwrap(), page.to_str().unwrap());
    let cached = format!("cache(size=1M, {disk})");
    for on in [disk, cached.as_str()] {
        for option in ["--report", "--trace"] {
            let over = output(&["--on", on, "--number_ios", "1", option, disk]);
            assert!(
                code(&over) == Some(4) && stderr(&over).contains("is one of the devices"),
                "{}",
                stderr(&over)
            );
        }
    }
    assert_eq!(fs::read(disk).unwrap(), vec![7; 65536]);
    let wrong = output(&["--on", "null(1M)", "--bs", "0", "--report", page]);
    assert_eq!((code(&wrong), fs::read_to_string(page).unwrap().as_str()), (Some(2), "an earlier report"));
    let both = output(&["--on", "null(1M)", "--number_ios", "1", "--trace", page, "--report", page]);
    assert!(code(&both) == Some(2) && stderr(&both).contains("--trace and --report"), "{}", stderr(&both));
}

/// Programs that wait for the result get it.
#[test]
fn the_result_is_printed_even_if_the_trace_or_the_report_cannot_be_written() {
    for option in ["--trace", "--report"] {
        let full = output(&["--on", "null(1M)", "--number_ios", "5", "--json", option, "/dev/full"]);
        assert!(
            code(&full) == Some(1) && stderr(&full).contains("cannot write /dev/full"),
            "{}",
            stderr(&full)
        );
        let report: Value = serde_json::from_slice(&full.stdout).unwrap();
        assert_eq!(report["ios"], 5);
    }
}

/// blktrace's own programs read the binary trace.
#[test]
fn blkparse_and_btt_read_the_binary_trace() {
    let dir = tempfile::tempdir().unwrap();
    let dump = dir.path().join("t.dump");
    let args =
        ["--on", "ram(1M, elevator=deadline)", "--rw", "randrw", "--number_ios", "100", "--iodepth", "4"];
    let trace = ["--trace", dump.to_str().unwrap(), "--trace_format", "blktrace"];
    assert_eq!(json(&[&args[..], &trace].concat())["ios"], 100);
    let read = |program: &str, args: &[&str]| {
        let input = File::open(&dump).unwrap();
        let output = Command::new(program).args(args).stdin(input).current_dir(&dir).output().ok()?;
        assert!(output.status.success(), "{program}: {}", stderr(&output));
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let parsed = read("blkparse", &["-i", "-", "-O"]);
    let times = read("btt", &["-i", dump.to_str().unwrap()]);
    let (Some(_), Some(times)) = (parsed, times) else {
        eprintln!("skipped: blkparse and btt are not installed");
        return;
    };
    let summary = read("blkparse", &["-i", "-", "-f", ""]).unwrap();
    assert!(summary.contains("Skips: 0 forward"), "{summary}");
    let completed = |what: &str| {
        let line = summary.lines().find(|line| line.contains("Reads Completed:")).unwrap();
        let after = line.split(what).nth(1).unwrap();
        after.trim_start().split(',').next().unwrap().trim().parse::<u64>().unwrap()
    };
    assert_eq!(completed("Reads Completed:") + completed("Writes Completed:"), 100, "{summary}");
    for row in ["Q2C", "D2C", "I2D"] {
        let line =
            times.lines().find(|line| line.starts_with(row)).unwrap_or_else(|| panic!("{row}: {times}"));
        let columns: Vec<&str> = line.split_whitespace().collect();
        let mean: f64 = columns[2].parse().unwrap();
        assert!(mean > 0.0 && columns[4] == "100", "{line}");
    }
}

#[test]
fn ctrl_c_prints_what_there_is_and_says_so() {
    for (on, runtime, rate) in
        [("null(1T)", "1000", None), ("ram(1M)", "1000", Some("1")), ("sim(ideal)", "1000000000", None)]
    {
        interrupt(on, runtime, rate);
    }
}

fn interrupt(on: &str, runtime: &str, rate: Option<&str>) {
    let mut args = vec!["--on", on, "--runtime", runtime, "--time_based", "--eta", "always", "--json"];
    args.extend(rate.into_iter().flat_map(|rate| ["--rate_iops", rate]));
    let mut child = Running::start(platter(&args).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("   1 s") && first.contains("IOPS"), "{first}");
    assert_eq!(first.contains("s virtual)"), on.starts_with("sim"), "{first}");
    child.signal(Signal::INT);
    let last = lines.map_while(Result::ok).last().unwrap();
    assert_eq!(last, "platter: interrupted: the result is partial");
    let output = child.output();
    assert_eq!(output.status.code(), Some(130));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["partial"], report["ios"].as_u64() > Some(0)), (&true.into(), true));
}
