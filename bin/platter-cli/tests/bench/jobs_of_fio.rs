//! Plans of job files against fio itself: it prints a line for each job before it starts them.

use flate2::read::GzDecoder;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the examples are, if not where fio's package has them.
const EXAMPLES: &str = "PLATTER_FIO_EXAMPLES";
const INSTALLED: &str = "/usr/share/doc/fio/examples";

/// What both print of a section.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    name: String,
    group: u64,
    rw: String,
    sizes: [[u64; 2]; 3],
    depth: u64,
}

fn has_fio() -> bool {
    Command::new("fio")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// A size as fio prints it, such as `4096B` and `16.0KiB`.
fn size(text: &str) -> u64 {
    let end = text.find(char::is_alphabetic).unwrap();
    let unit = ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|unit| *unit == &text[end..]).unwrap();
    (text[..end].parse::<f64>().unwrap() * (1u64 << (10 * unit)) as f64) as u64
}

/// `NAME: (g=0): rw=read, bs=(R) 4096B-4096B, (W) …, (T) …, ioengine=null, iodepth=1`
fn line_of(line: &str) -> Option<Shown> {
    let (name, rest) = line.rsplit_once(": (g=")?;
    let (group, rest) = rest.split_once("): rw=")?;
    let (rw, rest) = rest.split_once(", bs=")?;
    let range = |mark: &str| {
        let text = rest.split(mark).nth(1).unwrap().split(',').next().unwrap();
        let (low, high) = text.split_once('-').unwrap();
        [size(low), size(high)]
    };
    Some(Shown {
        name: name.to_owned(),
        group: group.parse().ok()?,
        rw: rw.to_owned(),
        sizes: ["(R) ", "(W) ", "(T) "].map(range),
        depth: rest.rsplit_once("iodepth=")?.1.trim().parse().ok()?,
    })
}

/// The lines of fio, and how many jobs it starts. It is ended as soon as it has said so.
fn by_fio(file: &Path) -> Option<(Vec<Shown>, u64)> {
    let mut fio = Command::new("fio")
        .arg(file)
        .current_dir(file.parent().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut shown = Vec::new();
    let mut count = None;
    for line in BufReader::new(fio.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if let Some(rest) = line.strip_prefix("Starting ") {
            // Threads and processes have a count each.
            let numbers =
                rest.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
            count = Some(numbers.sum());
            break;
        }
        shown.extend(line_of(&line));
    }
    // It may have ended by itself.
    let _ = fio.kill();
    fio.wait().unwrap();
    count.map(|count| (shown, count))
}

fn by_platter(file: &Path) -> Result<(Vec<Shown>, u64), String> {
    let mut platter = Command::new(env!("CARGO_BIN_EXE_platter"));
    let output = platter.args(["bench", "io", "--parse-only", "--json"]).arg(file).output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let jobs = plan["jobs"].as_array().unwrap();
    let ends = |job: &Value, direction: &str| {
        let sizes = &job["ios"]["sizes"][direction];
        let of_split = |parts: &Vec<Value>| {
            let all: Vec<u64> = parts.iter().map(|part| part[0].as_u64().unwrap()).collect();
            [*all.iter().min().unwrap(), *all.iter().max().unwrap()]
        };
        match (sizes["bytes"].as_u64(), sizes["split"].as_array()) {
            (Some(bytes), _) => [bytes; 2],
            (_, Some(parts)) => of_split(parts),
            _ => [sizes["least_bytes"].as_u64().unwrap(), sizes["most_bytes"].as_u64().unwrap()],
        }
    };
    let shown = jobs.iter().map(|job| Shown {
        name: job["name"].as_str().unwrap().to_owned(),
        group: job["group"].as_u64().unwrap(),
        rw: job["options"]["rw"].as_str().unwrap().split(':').next().unwrap().to_owned(),
        sizes: ["read", "write", "trim"].map(|direction| ends(job, direction)),
        depth: job["options"]["iodepth"].as_u64().unwrap(),
    });
    let count = jobs.iter().map(|job| job["numjobs"].as_u64().unwrap()).sum();
    Ok((shown.collect(), count))
}

#[test]
fn plans_have_the_jobs_groups_and_sizes_of_fio() {
    if !has_fio() {
        return eprintln!("skipped: fio is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("j.fio");
    fs::write(dir.path().join("more"), "bs=2k\n").unwrap();
    let mut compared = 0;
    for body in [
        "[a]\nbs=4k,8k\n[b]\nbs=,8k\nnumjobs=2\n[c]\nstonewall\nbs=8k,\nrw=randrw\n[d]\nnew_group\nbsrange=4k-16k,8k:32k\n",
        "[global]\nstonewall\n[a]\n[b]\nnumjobs=3\n[c]\nnew_group\nstonewall=0\n[d]\nstonewall=0\n",
        "[a]\nbs=16k,16k\n[global]\nbs=1k,2k,3k\n[b]\nbs=8k,\n[c]\nbs=,4k,\n[globals]\niodepth=7\n[d]\n",
        "[a]\nbs=4kib\n[b]\nkb_base=1000\nbs=4k\n[c]\nbs=0x200\n[d]\nbs=4KB\n[e]\nbs=1M\n[f]\nbs=4ki\n",
        "[a]\nbssplit=4k/60:64k/40\n[b]\nbssplit=512/:1k/,2k/100\n[c]\nrw=write:4k\n[d]\nrw=randread:8\n",
        "; c\n# d\n\n[a] # e\nrw=readwrite # f\n  [b]\n  rw=randtrim\n[x y/z]\nname=other\ninclude more\n",
        "[a]\nwait_for_previous\n[b]\nwait_for_previous\nblocksize=512\nreadwrite=randwrite\niodepth=010\n[]\nbs=$pagesize*2\n",
        "[a]\nnumjobs=2\nthread\n[b]\nnumjobs=3\nstonewall=1\nnew_group=1\n[c]\nthread=1\nrw=trimwrite\n",
    ] {
        fs::write(&path, format!("[global]\nioengine=null\nsize=64m\nfilename=f\n{body}")).unwrap();
        let fio = by_fio(&path).unwrap_or_else(|| panic!("fio does not run {body}"));
        assert_eq!(by_platter(&path), Ok(fio), "{body}");
        compared += 1;
    }
    println!("{compared} job files have the same jobs as with fio");
}

/// The examples, unpacked where they are compressed.
fn examples() -> Option<Vec<(String, String)>> {
    let folder = std::env::var_os(EXAMPLES).map_or_else(|| PathBuf::from(INSTALLED), PathBuf::from);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).ok()? {
        let path = entry.ok()?.path();
        let name = path.file_name()?.to_str()?.to_owned();
        let bytes = fs::read(&path).ok()?;
        let text = match name.strip_suffix(".gz") {
            Some(_) => {
                let mut text = String::new();
                GzDecoder::new(&bytes[..]).read_to_string(&mut text).ok()?;
                text
            }
            None => String::from_utf8_lossy(&bytes).into_owned(),
        };
        if name.trim_end_matches(".gz").ends_with(".fio") {
            found.push((name.trim_end_matches(".gz").to_owned(), text));
        }
    }
    found.sort();
    (!found.is_empty()).then_some(found)
}

/// The file as fio can start it anywhere: on the engine null, without files.
fn on_null(text: &str) -> String {
    let kept = text.lines().filter(|line| {
        let key = line.trim_start().split('=').next().unwrap().trim();
        ![
            "ioengine",
            "filename",
            "directory",
            "filename_format",
            "size",
            "filesize",
            "hipri",
            "fixedbufs",
            "registerfiles",
            "sqthread_poll",
            "sqthread_poll_cpu",
            "nonvectored",
            "zonemode",
            "zonesize",
            "zonerange",
            "verify_async",
            "cmdprio_percentage",
            "cmdprio_class",
            "cmdprio",
            "mem",
            "read_iolog",
            "numa_cpu_nodes",
            "numa_mem_policy",
            "direct",
            "ioscheduler",
            "cpus_allowed",
        ]
        .contains(&key)
    });
    let mut out = String::from("[global]\nioengine=null\nsize=1g\nfilename=f\n");
    for line in kept {
        out += line;
        out.push('\n');
    }
    out
}

#[test]
fn fios_examples_become_plans_or_are_refused_at_a_line() {
    let Some(examples) = examples() else {
        return eprintln!("skipped: no examples of fio in {INSTALLED}; {EXAMPLES} names another folder");
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("example.fio");
    let (mut plans, mut same, mut wrong) = (0, 0, Vec::new());
    for (name, text) in &examples {
        fs::write(&path, text).unwrap();
        let plan = match by_platter(&path) {
            Ok(plan) => plan,
            Err(message) => {
                let last = message.lines().last().unwrap_or_default();
                let (at, rest) = last.split_once("example.fio:").unwrap_or_default();
                let line = rest.split(':').next().unwrap_or_default().parse::<usize>();
                assert!(at.starts_with("platter: ") && line.is_ok(), "{name}: {message}");
                assert!((1..=text.lines().count()).contains(&line.unwrap()), "{name}: {message}");
                continue;
            }
        };
        plans += 1;
        if has_fio() {
            fs::write(&path, on_null(text)).unwrap();
            match by_fio(&path) {
                Some(fio) if fio == plan => same += 1,
                fio => wrong.push(format!("{name}: fio {fio:?}, here {plan:?}")),
            }
        }
    }
    println!("of {} examples {plans} become plans, {same} of these as with fio", examples.len());
    assert!(!has_fio() || wrong.is_empty(), "{wrong:#?}");
}
