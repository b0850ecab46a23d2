//! Traces of the I/Os of a run: the columns, the records, and correct times.

use platter_bench::io::{self, Hooks, IoReport};
use platter_bench::workload::{JobOptions, Rw};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::open::DiskOptions;
use platter_disk::trace_output::{Format, Tracer};
use platter_sim::ideal::Ideal;
use platter_sim::{SimDisk, World};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

const MIB: u64 = 1 << 20;

/// The output of a tracer, shared with the test.
#[derive(Clone, Default)]
pub(crate) struct Written(pub(crate) Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn run(job: &JobOptions, devices: &[Device]) -> IoReport {
    io::run(job, devices, 1, Hooks::none(&AtomicBool::new(false))).unwrap()
}

fn traced(job: &JobOptions, devices: &[Device], format: Format) -> (IoReport, Vec<u8>) {
    let written = Written::default();
    let tracer = Tracer::start(devices, format, Box::new(written.clone()));
    let report = run(job, devices);
    tracer.finish().unwrap();
    // After the end nothing is traced any more.
    run(job, devices);
    let bytes = written.0.lock().unwrap().clone();
    (report, bytes)
}

/// A line of a text trace, messages aside.
#[derive(Debug)]
struct Line {
    queue: u32,
    sequence: u32,
    ns: u64,
    process: u32,
    action: String,
    what: String,
    sector: u64,
    /// The number of sectors, if the event has one.
    sectors: Option<u32>,
    last: String,
}

fn lines(bytes: &[u8]) -> Vec<Line> {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let line = |line: &str| {
        let row: Vec<&str> = line.split_whitespace().collect();
        if row.get(2) == Some(&"0") {
            return None;
        }
        // Device, queue, sequence, time, process, action, RWBS, sector + count [process or error].
        let (seconds, ns) = row[3].split_once('.').unwrap();
        assert!(row[0] == "0,0" && ns.len() == 9, "{line}");
        // Plugs are events of the queue, which belongs to no job.
        let is_of_queue = ["P", "U", "UT"].contains(&row[5]);
        let process: u32 = row[4].parse().unwrap();
        assert_eq!(is_of_queue, process == std::process::id(), "{line}");
        Some(Line {
            queue: row[1].parse().unwrap(),
            sequence: row[2].parse().unwrap(),
            ns: seconds.parse::<u64>().unwrap() * 1_000_000_000 + ns.parse::<u64>().unwrap(),
            process,
            action: row[5].to_owned(),
            what: row[6].to_owned(),
            sector: row.get(7).and_then(|sector| sector.parse().ok()).unwrap_or(u64::MAX),
            sectors: row.get(9).filter(|_| row[8] == "+").map(|count| count.parse().unwrap()),
            last: row.last().copied().unwrap_or_default().to_owned(),
        })
    };
    text.lines().filter_map(line).collect()
}

/// The times of the actions of each I/O, in the order of their completion: Q, G, I, D, C.
fn lives(lines: &[Line]) -> Vec<[u64; 5]> {
    let ends: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].action == "C").collect();
    let life = |end: usize| {
        ["Q", "G", "I", "D", "C"].map(|letter| {
            let same = |line: &&Line| line.action == letter && line.sector == lines[end].sector;
            lines[..=end]
                .iter()
                .rev()
                .find(same)
                .unwrap_or_else(|| panic!("no {letter}: {:?}", lines[end]))
                .ns
        })
    };
    ends.into_iter().map(life).collect()
}

#[test]
fn a_trace_has_the_columns_of_blkparse_and_the_life_of_each_io() {
    for elevator in ["none", "deadline"] {
        let device = Device::null(1 << 40).unwrap();
        device.set_elevator(elevator).unwrap();
        let job = JobOptions { rw: Rw::RandRw, number_ios: Some(50), iodepth: 4, ..JobOptions::default() };
        let (report, bytes) = traced(&job, &[device], Format::Text);
        assert_eq!(report.ios, 50);
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert_eq!(text.lines().filter(|line| line.ends_with(" m   N null")).count(), 1, "{text}");
        let lines = lines(&bytes);
        for letter in ["Q", "G", "I", "D", "C"] {
            let rows: Vec<&Line> = lines.iter().filter(|line| line.action == letter).collect();
            assert_eq!(rows.len(), 50, "{elevator} {letter}\n{text}");
            for row in rows {
                assert!(row.sector.is_multiple_of(8), "{row:?}");
                assert_eq!(row.last, if letter == "C" { "[0]" } else { "[platter]" });
                assert!(
                    ["R", "WS"].contains(&row.what.as_str()),
                    "a write is waited for, like a read: {row:?}"
                );
            }
        }
        assert_eq!(lives(&lines).len(), 50);
    }
}

/// Each event has its own time, even for an I/O that completes within the call that submitted it, and the
/// time from Q to C is part of the latency of the submitter.
#[test]
fn times_are_those_of_the_events_and_lie_within_the_submitters_latency() {
    let dir = tempfile::tempdir().unwrap();
    let file = |direct: bool| {
        let mut options = DiskOptions::read_write();
        options.open.create = Some(MIB);
        if !direct {
            options.open.direct = platter_disk::sys::Direct::Off;
        }
        Device::open(dir.path().join(format!("disk{direct}")), options).unwrap()
    };
    for device in [Device::ram(MIB).unwrap(), Device::null(MIB).unwrap(), file(true), file(false)] {
        let job = JobOptions { rw: Rw::RandRead, number_ios: Some(100), ..JobOptions::default() };
        let name = format!("{device:?}");
        let (report, bytes) = traced(&job, &[device], Format::Text);
        let lines = lines(&bytes);
        assert!(lines.windows(2).all(|pair| pair[0].ns <= pair[1].ns), "{name}: not in order of time");
        let lives = lives(&lines);
        assert_eq!(lives.len(), 100);
        for times in &lives {
            assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{name}: {times:?}");
        }
        let longest = lives.iter().map(|times| times[4] - times[0]).max().unwrap();
        assert!(longest <= report.latency.unwrap().max_ns, "{name}: {longest} ns");
    }
}

#[test]
fn times_of_simulated_devices_are_virtual() {
    let ideal = Ideal { size: MIB, latency: Span::from_micros(100), depth: 2, write_cache: false };
    let disk = SimDisk::new(&World::new(1), ideal.into(), None);
    let device = Device::from_disk(disk.attach("ideal"), DiskSettings::default(), None).unwrap();
    let job = JobOptions { rw: Rw::RandRead, number_ios: Some(20), iodepth: 4, ..JobOptions::default() };
    let (_, bytes) = traced(&job, &[device], Format::Text);
    let lives = lives(&lines(&bytes));
    assert_eq!(lives.len(), 20);
    for times in &lives {
        let [queued, .., issued, completed] = *times;
        assert_eq!(completed - issued, 100_000, "{times:?}");
        // Two are with the disk, and two wait for them.
        assert!(issued - queued <= 100_000, "{times:?}");
    }
    assert!(lives.iter().any(|times| times[3] - times[0] == 100_000), "nothing waited: {lives:?}");
}

#[test]
fn each_job_has_a_process_of_its_own() {
    let jobs = |contexts: &[u32]| JobOptions {
        rw: Rw::RandRead,
        numjobs: 3,
        number_ios: Some(10),
        contexts: contexts.to_vec(),
        ..JobOptions::default()
    };
    for (contexts, processes) in [(&[] as &[u32], [1, 2, 3]), (&[7, 9, 7], [7, 7, 9])] {
        let device = Device::null(1 << 40).unwrap();
        let (_, bytes) = traced(&jobs(contexts), &[device], Format::Text);
        for letter in ["Q", "D", "C"] {
            let mut found: Vec<u32> =
                lines(&bytes).iter().filter(|line| line.action == letter).map(|line| line.process).collect();
            found.sort_unstable();
            assert_eq!(found, processes.map(|process| [process; 10]).concat(), "{letter}");
        }
        let device = Device::null(1 << 40).unwrap();
        let (_, bytes) = traced(&jobs(contexts), &[device], Format::Blktrace);
        let records = records(&bytes);
        let of = |action: u32| -> BTreeSet<u32> {
            records.iter().filter(|record| record.u32(28) == action).map(|record| record.u32(32)).collect()
        };
        let named = BTreeSet::from_iter(processes.into_iter().chain([std::process::id()]));
        assert_eq!(of(1 << 26), named, "each process has a name");
    }
}

/// A record of blktrace: `struct blk_io_trace`, and its data.
struct Record<'a> {
    bytes: &'a [u8],
}

impl Record<'_> {
    fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.bytes[at..at + 4].try_into().unwrap())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.bytes[at..at + 8].try_into().unwrap())
    }

    fn u16(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.bytes[at..at + 2].try_into().unwrap())
    }
}

fn records(mut bytes: &[u8]) -> Vec<Record<'_>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let data = Record { bytes }.u16(46);
        let (record, rest) = bytes.split_at(48 + usize::from(data));
        assert_eq!(Record { bytes: record }.u32(0), 0x6561_7407);
        records.push(Record { bytes: record });
        bytes = rest;
    }
    records
}

/// The binary trace has the events of the text, one for one.
#[test]
fn the_binary_trace_says_what_the_text_says() {
    const NOTIFY: u32 = 1 << 26;
    for elevator in ["none", "deadline"] {
        let job = JobOptions { rw: Rw::RandRw, number_ios: Some(50), iodepth: 4, ..JobOptions::default() };
        let trace = |format| {
            let ideal = Ideal { size: MIB, latency: Span::from_micros(100), depth: 2, write_cache: false };
            let disk = SimDisk::new(&World::new(1), ideal.into(), None);
            let elevator = platter_elevators::by_name(elevator).map(|row| (row.make)());
            let device = Device::from_disk(disk.attach("ideal"), DiskSettings::default(), elevator).unwrap();
            traced(&job, &[device], format).1
        };
        let (text, binary) = (trace(Format::Text), trace(Format::Blktrace));
        let (lines, records) = (lines(&text), records(&binary));
        let notes: Vec<u32> =
            records.iter().map(|r| r.u32(28)).filter(|action| action & NOTIFY != 0).collect();
        // The time of the trace, its process, the name of the device, and the process of the job.
        assert_eq!(notes, [NOTIFY | 1, NOTIFY, NOTIFY | 2, NOTIFY]);
        assert_eq!(&records[2].bytes[48..], b"ideal");
        let events: Vec<&Record<'_>> = records.iter().filter(|r| r.u32(28) & NOTIFY == 0).collect();
        assert_eq!(events.len(), lines.len(), "{elevator}");
        for (record, line) in events.iter().zip(&lines) {
            let letter = ["", "Q", "M", "F", "G", "S", "R", "D", "C", "P", "U", "UT", "I", "X", "B"]
                [record.u32(28) as usize & 0xffff];
            assert_eq!((letter, record.u64(8)), (line.action.as_str(), line.ns));
            assert_eq!((record.u32(40), record.u32(4)), (line.queue, line.sequence));
            assert_eq!(record.u32(32), line.process);
            if let Some(sectors) = line.sectors {
                assert_eq!((record.u64(16), record.u32(24)), (line.sector, sectors * 512));
            }
        }
    }
}
