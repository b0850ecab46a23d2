//! Against blkparse, btt and fio, on recorded traces, on those of `bench io`, and on made ones.

use crate::{RECORDED, folder, has, ok};
use serde_json::Value;
use std::process::Command;
use tempfile::TempDir;

/// Records of every kind.
const KINDS: &str = "  8,0    0        0     0.000000000     0  m   N begin
  8,0    0        1     0.000000000   100  Q FWFSM 1000 + 8 [(null)]
  8,0    0        2     0.000001000   100  Q  FN [(null)]
  8,0    0        3     0.000002000   100  Q   D 2000 + 64 [(null)]
  8,0    0        4     0.000003000   100  Q  RA 3000 + 8 [(null)]
  8,0    0        5     0.000004000   100  P   N [(null)]
  8,0    0        6     0.000005000   100  U   N [(null)] 3
  8,0    0        7     0.000006000   100 UT   N [(null)] 1
  8,0    0        8     0.000007000   100  X   R 4000 / 4008 [(null)]
  8,0    0        9     0.000008000   100  A   R 4000 + 8 <- (8,1) 1952
  8,0    0       10     0.000009000   100  C  FN 0 [0]
  8,0    0       11     0.000010000   100  C FWFSM 1000 + 8 [5]
  8,0    0        0     0.000011000     0  m   N hello there
  8,0    0       12     0.000012000   100  S   R 5000 + 8 [(null)]
  8,0    0       13     0.000013000   100  R   R 5000 + 8 [0]
  8,0    0       14     0.000014000   100  B   R 5000 + 8 [(null)]
  8,0    0       15     0.000015000   100  I  WS 5000 + 8 [(null)]
";

fn run(dir: &TempDir, program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What blkparse prints of the records in `NAME.blktrace.*`, without what it reads and without its summary.
fn blkparse(dir: &TempDir, name: &str) -> Vec<String> {
    let text = run(dir, "blkparse", &["-q", "-i", name]);
    let records = text.lines().filter(|line| !line.starts_with("Input file "));
    records.take_while(|line| !line.is_empty() && !line.starts_with("CPU")).map(str::to_owned).collect()
}

fn bench(dir: &TempDir, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_platter"));
    let output = command.args(["bench", "io"]).args(args).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A trace of the queues of a simulated disk.
fn traced(dir: &TempDir) {
    let job = ["--rw", "randrw", "--bs", "4k", "--iodepth", "8", "--number_ios", "400", "--seed", "1"];
    let trace = ["--trace", "sim.blktrace.0", "--trace_format", "blktrace"];
    bench(dir, &[&["--on", "sim(cheetah9lp, elevator=deadline)"][..], &job, &trace].concat());
}

#[test]
fn text_is_that_of_blkparse() {
    if !has("blkparse") {
        return;
    }
    let dir = folder(&[("kinds.txt", KINDS)]);
    let text = ok(&dir, &["convert", "--to", "blkparse", RECORDED[0], RECORDED[1], "-"]);
    assert!(text.lines().count() > 900);
    assert_eq!(text.lines().collect::<Vec<_>>(), blkparse(&dir, "sda"));
    traced(&dir);
    let text = ok(&dir, &["convert", "--to", "blkparse", "sim.blktrace.0", "-"]);
    assert!(text.lines().count() > 1500);
    assert_eq!(text.lines().collect::<Vec<_>>(), blkparse(&dir, "sim"));
    ok(&dir, &["convert", "kinds.txt", "kinds.blktrace.0"]);
    // A split has no length in the text, and what has no length is N for blkparse.
    let expected = KINDS.replace("X   R 4000", "X   N 4000");
    assert_eq!(blkparse(&dir, "kinds"), expected.lines().collect::<Vec<_>>());
    // The files of both processors as one, merged by blkparse.
    run(&dir, "blkparse", &["-q", "-i", "sda", "-d", "merged.dump", "-O"]);
    let merged = ok(&dir, &["convert", "--to", "blkparse", "merged.dump", "-"]);
    assert_eq!(merged, ok(&dir, &["convert", "--to", "blkparse", RECORDED[0], RECORDED[1], "-"]));
}

/// A row of btt: least, mean, largest, in ns, and the number.
fn of_btt(text: &str, stage: &str) -> Option<(u64, u64, u64, u64)> {
    let line = text.lines().find(|line| line.split_whitespace().next() == Some(&stage.to_uppercase()))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let ns = |word: &str| word.replace('.', "").parse::<u64>().unwrap();
    Some((ns(words[1]), ns(words[2]), ns(words[3]), words[4].parse().unwrap()))
}

fn compare_with_btt(dir: &TempDir, dump: &str, least: usize) {
    let text = run(dir, "btt", &["-i", dump]);
    let report: Value = serde_json::from_str(&ok(dir, &["report", "--json", dump])).unwrap();
    let stages = &report["stages"];
    let mut compared = 0;
    for stage in ["q2q", "q2g", "q2m", "g2i", "i2d", "m2d", "d2c", "q2c"] {
        let number = |key: &str| &stages[format!("{stage}_{key}")];
        let Some((min, mean, max, n)) = of_btt(&text, stage) else {
            assert_eq!(number("n"), 0, "{dump}: {stage}");
            continue;
        };
        compared += 1;
        assert_eq!(number("n"), n, "{dump}: {stage}\n{text}");
        // A time of 0 is 1 ns for btt.
        let least = |key| number(key).as_u64().unwrap().max(1);
        assert_eq!((least("min_ns"), least("max_ns")), (min, max), "{dump}: {stage}");
        let ours = number("mean_ns").as_f64().unwrap();
        assert!((ours - mean as f64).abs() <= 1.0, "{dump}: {stage}: {ours} {mean}");
    }
    assert!(compared >= least, "{compared}");
}

#[test]
fn stages_are_those_of_btt() {
    if !has("btt") {
        return;
    }
    let dir = folder(&[]);
    ok(&dir, &["convert", RECORDED[0], RECORDED[1], "sda.dump"]);
    compare_with_btt(&dir, "sda.dump", 8);
    traced(&dir);
    compare_with_btt(&dir, "sim.blktrace.0", 6);
    // From a format with latencies: arrivals and completions.
    ok(&dir, &["convert", "--to", "msr", "sda.dump", "sda.csv"]);
    ok(&dir, &["convert", "sda.csv", "back.dump"]);
    compare_with_btt(&dir, "back.dump", 1);
}

/// I/Os and bytes of reads and writes, and syncs, of fio's replay.
fn replayed(dir: &TempDir, log: &str, more: &[&str]) -> [u64; 5] {
    std::fs::File::create(dir.path().join("disk.img")).unwrap().set_len(64 << 20).unwrap();
    let log = format!("--read_iolog={log}");
    let fixed = ["--name=r", &log, "--replay_redirect=disk.img", "--ioengine=psync", "--output-format=json"];
    let text = run(dir, "fio", &[&fixed[..], more].concat());
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let job = &json["jobs"][0];
    assert_eq!(job["error"], 0);
    let number = |kind: &str, key: &str| job[kind][key].as_u64().unwrap();
    [
        number("read", "total_ios"),
        number("read", "io_bytes"),
        number("write", "total_ios"),
        number("write", "io_bytes"),
        number("sync", "total_ios"),
    ]
}

#[test]
fn fio_replays_what_is_written() {
    if !has("fio") {
        return;
    }
    let dir = folder(&[]);
    ok(&dir, &["convert", RECORDED[0], RECORDED[1], "sda.dump"]);
    let report: Value = serde_json::from_str(&ok(&dir, &["report", "--json", "sda.dump"])).unwrap();
    let kinds = &report["kinds"];
    let number = |key: &str| kinds[key].as_u64().unwrap();
    let expected = [
        number("read_ios"),
        number("read_bytes"),
        number("write_ios"),
        number("write_bytes"),
        number("flush_ios"),
    ];
    assert!(expected.iter().all(|number| *number > 0));
    for (file, format, more) in [
        ("v3.iolog", "iolog3", &["--replay_no_stall=1"][..]),
        ("v3.iolog", "iolog3", &[]),
        ("v2.iolog", "iolog2", &["--replay_no_stall=1"]),
    ] {
        ok(&dir, &["convert", "--force", "--to", format, "sda.dump", file]);
        assert_eq!(replayed(&dir, file, more), expected, "{file} {more:?}");
    }
    // fio discards only on block devices, and fails on a file.
    let text = ok(&dir, &["convert", "--to", "blkparse", "sda.dump", "-"]);
    let kept: String =
        text.lines().filter(|line| !line.contains("  DS ")).map(|line| format!("{line}\n")).collect();
    assert!(kept.len() < text.len());
    std::fs::write(dir.path().join("kept.txt"), kept).unwrap();
    ok(&dir, &["convert", "kept.txt", "kept.dump"]);
    assert_eq!(replayed(&dir, "kept.dump", &["--replay_no_stall=1"]), expected);
    // What fio itself records is read.
    let fixed = ["--name=w", "--filename=new.img", "--size=1m", "--rw=randrw", "--bs=8k", "--ioengine=psync"];
    run(&dir, "fio", &[&fixed[..], &["--write_iolog=own.iolog", "--output=out"]].concat());
    let own: Value = serde_json::from_str(&ok(&dir, &["report", "--json", "own.iolog"])).unwrap();
    assert_eq!(
        (own["ios"].as_u64(), own["footprint_bytes"].as_u64().map(|bytes| bytes > 900_000)),
        (Some(128), Some(true))
    );
}
