//! Replays on simulated disks, where times are exact, and what arrived at the disk is recorded; on real ones their counts.

use crate::io_trace::Written;
use platter_bench::io::{self, Hooks};
use platter_bench::replay::{
    self, Discards, Fitting, HOST_KEYS, Mode, Reader, ReplayError, ReplayOptions, ReplayReport, Routes,
    Survey, Writes,
};
use platter_bench::workload::{JobOptions, Rw};
use platter_block::driver::Geometry;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::trace_output::{self, Tracer};
use platter_sim::ideal::Ideal;
use platter_sim::model::{Command, Ended, Model};
use platter_sim::{SimDisk, World};
use platter_traces::{Action, Arrivals, Event, Flags, Format, Input, Item, Merged, TraceError, read_all};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// I/Os of every kind; the read takes longer than what arrives while it is under way.
const KINDS: &str = "\
8,0 0  1 5.000000000 7 Q FWFS 1000 + 8 [a]
8,0 0  2 5.000010000 7 Q    R 4000 + 16 [a]
8,0 0  3 5.000060000 7 C FWFS 1000 + 8 [0]
8,0 0  4 5.000100000 7 Q  FWS 0 + 0 [a]
8,0 0  5 5.000130000 8 Q  WFS 2000 + 8 [b]
8,0 0  6 5.000180000 7 C  FWS 0 + 0 [0]
8,0 0  7 5.000200000 7 Q   DS 8000 + 64 [a]
8,0 0  8 5.000210000 7 C    R 4000 + 16 [0]
8,0 0  9 5.000230000 8 C  WFS 2000 + 8 [0]
8,0 0 10 5.000300000 7 C   DS 8000 + 64 [0]
8,0 0 11 5.000400000 7 Q   FW 3000 + 8 [a]
8,0 0 12 5.000500000 7 C   FW 3000 + 8 [0]
8,0 0 13 5.000500000 7 Q    W 3008 + 8 [a]
8,0 0 14 5.000500000 7 Q   RM 3000 + 8 [a]
8,0 0 15 5.000600000 7 C    W 3008 + 8 [0]
8,0 0 16 5.000610000 7 C   RM 3000 + 8 [0]
";

fn disk_with(world: &Arc<World>, size: u64, micros: u64, depth: u32) -> Device {
    let ideal = Ideal { size, latency: Span::from_micros(micros), depth, write_cache: true };
    let disk = SimDisk::new(world, ideal.into(), None);
    Device::from_disk(disk.attach("ideal"), DiskSettings::default(), None).unwrap()
}

fn disk(micros: u64) -> Device {
    disk_with(&World::new(1), 1 << 30, micros, 64)
}

fn arrivals(format: Format, bytes: &[u8]) -> Result<Arrivals<'_>, TraceError> {
    Arrivals::new(Merged::new(vec![Input::new("t", format, bytes)], false)?, None)
}

fn replayed_on(
    format: Format,
    bytes: &[u8],
    options: &ReplayOptions,
    devices: &[Device],
) -> Result<ReplayReport, ReplayError> {
    let mut arrivals = arrivals(format, bytes)?;
    let routes = Routes::new(&vec![None; devices.len()], &[]);
    let mut reader = Reader::new(&mut arrivals, options, devices, routes, None)?;
    replay::run(&mut reader, options, devices, Hooks::none(&AtomicBool::new(false)))
}

/// The report of a replay, and the events of the disk's queue.
fn recorded(
    format: Format,
    bytes: &[u8],
    options: &ReplayOptions,
    device: Device,
) -> (ReplayReport, Vec<Event>) {
    let written = Written::default();
    let devices = [device];
    let tracer = Tracer::start(&devices, trace_output::Format::Blktrace, Box::new(written.clone()));
    let report = replayed_on(format, bytes, options, &devices).unwrap();
    tracer.finish().unwrap();
    let bytes = written.0.lock().unwrap().clone();
    (report, events(Format::Blktrace, &bytes))
}

fn events(format: Format, bytes: &[u8]) -> Vec<Event> {
    let items = read_all(format, bytes, "t").unwrap().into_iter();
    items.filter_map(|item| if let Item::Event(event) = item { Some(event) } else { None }).collect()
}

fn of(action: Action, events: &[Event]) -> Vec<&Event> {
    events.iter().filter(|event| event.action == action).collect()
}

/// What an I/O is: its kind, whether it flushes and is durable, where it is.
fn what(event: &Event) -> String {
    let flags = event.flags.only(Flags::PREFLUSH.and(Flags::FUA).and(Flags::SYNC));
    let place = if event.length == 0 { 0 } else { event.offset };
    format!("{:?} {flags:?} {place} {} of {}", event.kind(), event.length, event.process)
}

fn whats(events: &[&Event]) -> Vec<String> {
    events.iter().map(|event| what(event)).collect()
}

fn options(mode: Mode) -> ReplayOptions {
    ReplayOptions { mode, ..ReplayOptions::default() }
}

/// What arrived at the disk is what the trace has, at its times.
#[test]
fn the_disk_gets_what_the_trace_has_when_the_trace_has_it() {
    let traced = events(Format::Blkparse, KINDS.as_bytes());
    let traced = of(Action::Queue, &traced);
    for (speed, mode) in [(1.0, Mode::Open), (2.0, Mode::Open), (0.5, Mode::Open), (4.0, Mode::Closed)] {
        let scaled = if mode == Mode::Closed { 1.0 } else { speed };
        let options = ReplayOptions {
            speed: scaled,
            depth: if mode == Mode::Closed { 1 } else { 64 },
            ..options(mode)
        };
        let (report, found) = recorded(Format::Blkparse, KINDS.as_bytes(), &options, disk(30));
        let arrived = of(Action::Queue, &found);
        assert_eq!(whats(&arrived), whats(&traced), "{mode:?} {speed}");
        assert_eq!((report.ios, report.errors, report.moved), (8, 0, 0));
        if mode == Mode::Open {
            let times = |events: &[&Event], by: f64| -> Vec<u64> {
                events.iter().map(|event| ((event.time_ns - events[0].time_ns) as f64 / by) as u64).collect()
            };
            assert_eq!(times(&arrived, 1.0), times(&traced, speed), "{speed}");
            let lateness = report.lateness.unwrap();
            assert_eq!((lateness.ios, lateness.delay.max_ns, lateness.late_ios), (8, 0, 0));
        } else {
            assert!(report.lateness.is_none());
        }
        for kind in &report.kinds {
            assert_eq!(kind.fates.trace, kind.fates.replayed, "{}", kind.name);
            assert_eq!((kind.fates.changed.ios, kind.fates.skipped.ios), (0, 0), "{}", kind.name);
            assert_eq!(kind.latency.is_some(), kind.fates.trace.ios > 0, "{}", kind.name);
            assert_eq!(kind.trace_latency.is_some(), kind.fates.trace.ios > 0, "{}", kind.name);
        }
        let counts: Vec<(u64, u64)> =
            report.kinds.iter().map(|kind| (kind.fates.trace.ios, kind.fates.trace.bytes)).collect();
        assert_eq!(counts, [(2, 12 << 10), (4, 16 << 10), (0, 0), (1, 32 << 10), (1, 0), (0, 0)]);
        let marks: Vec<u64> = report.marks.iter().map(|mark| mark.2.replayed.ios).collect();
        assert_eq!(marks, [2, 2]);
        assert_eq!(report.trace_depths.max(), 3);
    }
}

/// A trace of random reads and writes with pauses, of a disk that takes 100 us.
fn benched(iodepth: u32, elevator: &str, device: impl Fn(&str) -> Device) -> Vec<u8> {
    let job = JobOptions {
        rw: Rw::RandRw,
        iodepth,
        number_ios: Some(400),
        thinktime: Duration::from_micros(70),
        thinktime_blocks: 8,
        ..JobOptions::default()
    };
    let (written, devices) = (Written::default(), [device(elevator)]);
    let tracer = Tracer::start(&devices, trace_output::Format::Blktrace, Box::new(written.clone()));
    let report = io::run(&job, &devices, 1, Hooks::none(&AtomicBool::new(false))).unwrap();
    assert_eq!(report.ios, 400);
    tracer.finish().unwrap();
    let bytes = written.0.lock().unwrap();
    bytes.clone()
}

#[test]
fn a_closed_loop_keeps_as_many_in_flight_as_asked_for() {
    let trace = benched(8, "none", |_| disk(100));
    let traced = events(Format::Blktrace, &trace);
    for depth in [1, 3, 16] {
        let options = ReplayOptions { depth, ..options(Mode::Closed) };
        let (report, found) = recorded(Format::Blktrace, &trace, &options, disk(100));
        assert_eq!(whats(&of(Action::Queue, &found)), whats(&of(Action::Queue, &traced)));
        let (mut now, mut most) = (0u32, 0);
        for event in &found {
            match event.action {
                Action::Queue => now += 1,
                Action::Complete => now -= 1,
                _ => {}
            }
            most = most.max(now);
        }
        assert_eq!((most, report.depths.max()), (depth, depth));
        // All but the last round are full.
        assert_eq!(report.wall, Duration::from_micros(100) * 400u32.div_ceil(depth));
    }
}

/// Times of the arrival and of the completion of each I/O, in the order of arrival.
fn lives(trace: &[u8]) -> Vec<(u64, u64)> {
    let mut arrivals = arrivals(Format::Blktrace, trace).unwrap();
    let mut found = Vec::new();
    while let Some(event) = arrivals.next_io().unwrap() {
        found.push((event.time_ns, event.time_ns + event.latency_ns.unwrap()));
    }
    found
}

/// What had completed in the trace before an I/O arrived has completed before it starts, and the time since is the same, on
/// faster and on slower disks.
#[test]
fn an_io_waits_for_what_it_had_waited_for() {
    let trace = benched(8, "none", |_| disk(100));
    let traced = lives(&trace);
    for (micros, depth, speed) in
        [(100, 64, 1.0), (10, 64, 1.0), (700, 64, 1.0), (100, 2, 1.0), (100, 64, 2.0)]
    {
        let written = Written::default();
        let devices = [disk_with(&World::new(1), 1 << 30, micros, depth)];
        let tracer = Tracer::start(&devices, trace_output::Format::Blktrace, Box::new(written.clone()));
        let options = ReplayOptions { speed, ..options(Mode::Dependency) };
        let report = replayed_on(Format::Blktrace, &trace, &options, &devices).unwrap();
        tracer.finish().unwrap();
        let bytes = written.0.lock().unwrap().clone();
        let found = lives(&bytes);
        assert_eq!((found.len(), report.ios), (400, 400));
        assert_eq!(report.lateness.unwrap().delay.max_ns, 0);
        for (at, (arrived, _)) in traced.iter().enumerate() {
            let before: Vec<usize> = (0..at).filter(|other| traced[*other].1 <= *arrived).collect();
            let last =
                |lives: &[(u64, u64)]| before.iter().map(|other| lives[*other].1).max().unwrap_or(lives[0].0);
            let think = ((arrived - last(&traced)) as f64 / speed).round() as u64;
            let start = found[at].0;
            assert!(start >= last(&found), "{micros} {depth}: {at}");
            // As long after the last of them as in the trace, unless the one before it in the trace is later.
            let expected = (last(&found) + think).max(if at > 0 { found[at - 1].0 } else { 0 });
            assert_eq!(start, expected, "{micros} {depth}: {at}");
        }
    }
}

/// On a disk like the one that was traced, the replay is the trace again: each I/O arrives and ends as it did.
#[test]
fn a_trace_of_a_benchmark_replayed_on_the_same_disk_is_the_same_trace() {
    let make = |elevator: &str| {
        let model = platter_sim::catalogue::by_name("cheetah9lp").unwrap().make(Default::default()).unwrap();
        let disk = SimDisk::new(&World::new(1), model, None);
        let elevator = platter_elevators::by_name(elevator).map(|row| (row.make)());
        Device::from_disk(disk.attach("cheetah9lp"), DiskSettings::default(), elevator).unwrap()
    };
    for elevator in ["none", "deadline"] {
        let trace = benched(4, elevator, make);
        let traced = events(Format::Blktrace, &trace);
        for mode in [Mode::Open, Mode::Dependency] {
            let (report, found) = recorded(Format::Blktrace, &trace, &options(mode), make(elevator));
            let ends = |events: &[Event]| -> Vec<(u64, String)> {
                of(Action::Complete, events).iter().map(|event| (event.time_ns, what(event))).collect()
            };
            let (arrived, expected) = (of(Action::Queue, &found), of(Action::Queue, &traced));
            assert_eq!(whats(&arrived), whats(&expected), "{elevator} {mode:?}");
            assert!(
                arrived.iter().zip(&expected).all(|(one, two)| one.time_ns == two.time_ns),
                "{elevator} {mode:?}"
            );
            assert_eq!(ends(&found), ends(&traced), "{elevator} {mode:?}");
            assert_eq!(report.latency, report.trace_latency, "{elevator} {mode:?}");
            assert_eq!(report.depths, report.trace_depths, "{elevator} {mode:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let trace = benched(8, "none", |_| disk(100));
    let report = |seed| {
        let options = ReplayOptions { seed, ..options(Mode::Open) };
        let mut json = replayed_on(Format::Blktrace, &trace, &options, &[disk(250)]).unwrap().to_json();
        HOST_KEYS
            .iter()
            .for_each(|key| assert!(json.as_object_mut().unwrap().remove(*key).is_some(), "{key}"));
        json
    };
    assert_eq!(report(3), report(3));
}

#[test]
fn writes_become_reads_or_are_left_out_and_the_rest_stays() {
    for writes in [Writes::Read, Writes::Skip] {
        let options = ReplayOptions { writes, ..options(Mode::Dependency) };
        let (report, found) = recorded(Format::Blkparse, KINDS.as_bytes(), &options, disk(30));
        let arrived = of(Action::Queue, &found);
        assert!(arrived.iter().all(|event| what(event).starts_with("Read")), "{writes:?}");
        assert_eq!(arrived.len(), if writes == Writes::Read { 6 } else { 2 });
        let [read, write, _, discard, flush, _] = &report.kinds[..] else { panic!("six kinds") };
        assert_eq!(read.fates.replayed.ios, 2);
        let (changed, skipped) = if writes == Writes::Read { (4, 0) } else { (0, 4) };
        assert_eq!((write.fates.changed.ios, write.fates.skipped.ios), (changed, skipped));
        assert_eq!((discard.fates.skipped.ios, flush.fates.skipped.ios), (1, 1));
    }
    let options = ReplayOptions { discards: Discards::Skip, ..options(Mode::Open) };
    let (report, found) = recorded(Format::Blkparse, KINDS.as_bytes(), &options, disk(30));
    assert_eq!((report.kinds[3].fates.skipped.ios, of(Action::Queue, &found).len()), (1, 7));
}

#[test]
fn places_are_moved_and_rounded_as_asked_for() {
    let csv = "5,W,2147483648,4096,10\n5,R,1536,700,30\n5,R,4194304,4096,40\n";
    let run = |options: &ReplayOptions| {
        recorded(Format::Alibaba, csv.as_bytes(), options, disk_with(&World::new(1), 8 * MIB, 10, 4))
    };
    let refused = |options: &ReplayOptions| {
        let device = disk_with(&World::new(1), 8 * MIB, 10, 4);
        replayed_on(Format::Alibaba, csv.as_bytes(), options, &[device]).unwrap_err().to_string()
    };
    let wrap = ReplayOptions { fit: Fitting::Wrap, align: true, ..options(Mode::Open) };
    let (report, found) = run(&wrap);
    let places: Vec<(u64, u64)> =
        of(Action::Queue, &found).iter().map(|event| (event.offset, event.length)).collect();
    assert_eq!(places, [(0, 4096), (1536, 1024), (4 * MIB, 4096)]);
    assert_eq!(
        (report.moved, report.kinds[0].fates.changed.ios, report.kinds[0].fates.changed.bytes),
        (1, 1, 1024)
    );
    let scale = ReplayOptions {
        fit: Fitting::Scale,
        align: true,
        trace_size: Some(4096 * MIB),
        ..options(Mode::Open)
    };
    let places: Vec<u64> = of(Action::Queue, &run(&scale).1).iter().map(|event| event.offset).collect();
    assert_eq!(places, [4 * MIB, 1536, 0]);
    let said = refused(&options(Mode::Open));
    assert!(said.contains("ends at byte 2147487744") && said.contains("has 8388608 bytes"), "{said}");
    let said = refused(&ReplayOptions { align: false, ..wrap });
    assert!(
        said.contains("at 0.000030000 s, offset 1536 and length 700") && said.contains("--align"),
        "{said}"
    );
    let said = refused(&ReplayOptions { trace_size: None, ..scale });
    assert!(said.contains("--trace-size"), "{said}");
}

/// An ideal disk with blocks of 4 KiB, which cannot discard.
struct Coarse(Box<dyn Model>);

impl Model for Coarse {
    fn geometry(&self) -> Geometry {
        let geometry = self.0.geometry();
        let limits =
            geometry.limits.with_logical_block(4096).with_physical_block(4096).with_discard_granularity(0);
        Geometry::new(geometry.size, limits).with_features(geometry.features)
    }

    fn depth(&self) -> u32 {
        self.0.depth()
    }

    fn accept(&mut self, now: Time, command: &Command) -> bool {
        self.0.accept(now, command)
    }

    fn next_event(&self) -> Option<Time> {
        self.0.next_event()
    }

    fn advance(&mut self, now: Time, ended: &mut Vec<Ended>) {
        self.0.advance(now, ended);
    }
}

/// What a device cannot do is an error that says what to give, before the replay and within it.
#[test]
fn devices_with_larger_blocks_and_without_discards_need_to_be_asked_for() {
    let coarse = || {
        let ideal = Ideal { size: 1 << 30, latency: Span::from_micros(30), depth: 8, write_cache: true };
        let disk = SimDisk::new(&World::new(1), Box::new(Coarse(ideal.into())), None);
        Device::from_disk(disk.attach("coarse"), DiskSettings::default(), None).unwrap()
    };
    let surveyed = |options: &ReplayOptions| {
        let input = Input::new("t", Format::Blkparse, KINDS.as_bytes());
        let mut merged = Merged::new(vec![input], false).unwrap();
        let mut survey = Survey::new(1);
        survey.read(&mut merged, None, options, &mut Routes::new(&[None], &[]), || true).unwrap();
        survey.check(&[coarse()], options)
    };
    let plain = options(Mode::Open);
    let aligned = ReplayOptions { align: true, ..plain.clone() };
    let both = ReplayOptions { discards: Discards::Skip, ..aligned.clone() };
    let replayed =
        |options: &ReplayOptions| replayed_on(Format::Blkparse, KINDS.as_bytes(), options, &[coarse()]);
    for said in [replayed(&aligned).unwrap_err().to_string(), surveyed(&aligned).unwrap_err().to_string()] {
        assert!(said.contains("coarse cannot discard; give --discards skip"), "{said}");
    }
    assert!(surveyed(&both).is_ok());
    let (report, found) = recorded(Format::Blkparse, KINDS.as_bytes(), &both, coarse());
    assert_eq!((report.ios, report.errors), (7, 0));
    let whole = |event: &&Event| event.offset.is_multiple_of(4096) && event.length.is_multiple_of(4096);
    assert!(of(Action::Queue, &found).iter().all(whole));
    let odd = "5,W,4608,4096,1\n";
    let said = replayed_on(Format::Alibaba, odd.as_bytes(), &plain, &[coarse()]).unwrap_err().to_string();
    assert!(said.contains("coarse, which has 4096 bytes in each; give --align"), "{said}");
    let (report, found) = recorded(Format::Alibaba, odd.as_bytes(), &both, coarse());
    let write = of(Action::Queue, &found)[0];
    assert_eq!((write.offset, write.length, report.kinds[1].fates.changed.bytes), (4096, 8192, 8192));
}

/// A survey finds what is wrong before anything is replayed.
#[test]
fn a_survey_says_what_the_devices_lack() {
    let csv = "5,W,2147483648,4096,10\n6,R,1536,512,30\n";
    let survey = |devices: &[Device], options: &ReplayOptions| {
        let mut merged = Merged::new(vec![Input::new("t", Format::Alibaba, csv.as_bytes())], false).unwrap();
        let mut routes = Routes::new(&vec![None; devices.len()], &[]);
        let mut survey = Survey::new(devices.len());
        assert!(survey.read(&mut merged, None, options, &mut routes, || true)?);
        survey.check(devices, options).map(|()| survey.changes(options))
    };
    let (small, large) =
        (|| disk_with(&World::new(1), 8 * MIB, 10, 4), || disk_with(&World::new(1), 1 << 32, 10, 4));
    let said = survey(&[small(), small()], &options(Mode::Open)).unwrap_err().to_string();
    assert!(
        said.contains("needs a device of 2147487744 bytes (2.00 GiB)") && said.contains("--fit wrap"),
        "{said}"
    );
    assert!(survey(&[large(), small()], &options(Mode::Open)).unwrap());
    assert!(
        !survey(&[large(), small()], &ReplayOptions { writes: Writes::Skip, ..options(Mode::Open) }).unwrap()
    );
    let said = survey(&[large()], &options(Mode::Open)).unwrap_err().to_string();
    assert!(said.contains("the devices 5 6"), "{said}");
}

#[test]
fn malformed_and_unsuited_traces_are_errors() {
    let run = |format, text: &str, mode| {
        replayed_on(format, text.as_bytes(), &options(mode), &[disk(10)]).unwrap_err().to_string()
    };
    let said = run(Format::Alibaba, "5,R,0,4096,1\n5,R,0,4096,-7\n", Mode::Open);
    assert!(said.contains("t:2: timestamp `-7`"), "{said}");
    let said = run(Format::Alibaba, "5,R,0,4096,1\n", Mode::Dependency);
    assert!(said.contains("does not say when I/Os ended"), "{said}");
    let said = run(Format::Reads, "0 0 0 4096\n", Mode::Open);
    assert!(said.contains("has no times; use --mode closed"), "{said}");
    let bad = ReplayOptions { depth: 0, ..options(Mode::Open) };
    let said = replayed_on(Format::Alibaba, b"", &bad, &[disk(10)]).unwrap_err().to_string();
    assert!(said.contains("--depth 0: expected 1 to 65536"), "{said}");
    // Behind what is replayed before it is seen.
    let mut text: String = (0..80_000).map(|n| format!("5,R,{},4096,{n}\n", n * 4096)).collect();
    text += "oops\n";
    let null = [Device::null(1 << 30).unwrap()];
    let said =
        replayed_on(Format::Alibaba, text.as_bytes(), &options(Mode::Open), &null).unwrap_err().to_string();
    assert!(said.contains("t:80001: 1 field"), "{said}");
}

#[test]
fn real_devices_get_everything_in_every_mode() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| {
        let mut options = platter_disk::open::DiskOptions::read_write();
        options.open.create = Some(16 * MIB);
        Device::open(dir.path().join(name), options).unwrap()
    };
    let trace = benched(8, "none", |_| disk_with(&World::new(1), 16 * MIB, 100, 64));
    // Two devices of the trace, in turn.
    let mut two: Vec<Event> = events(Format::Blktrace, &trace);
    let mut csv = String::new();
    for (at, event) in two.drain(..).filter(|event| event.action == Action::Queue).enumerate() {
        let kind = if what(&event).starts_with('R') { 'R' } else { 'W' };
        csv += &format!("{},{kind},{},{},{}\n", at % 2, event.offset, event.length, event.time_ns / 1000);
    }
    for mode in [Mode::Open, Mode::Closed, Mode::Dependency] {
        let options = ReplayOptions { depth: 5, ..options(mode) };
        for device in [Device::ram(16 * MIB).unwrap(), Device::null(16 * MIB).unwrap(), file("one")] {
            let report = replayed_on(Format::Blktrace, &trace, &options, &[device]).unwrap();
            assert_eq!((report.ios, report.errors), (400, 0), "{mode:?}");
            assert!(report.depths.max() <= 5);
        }
        if mode != Mode::Dependency {
            let pair = [file("two"), Device::ram(16 * MIB).unwrap()];
            let report = replayed_on(Format::Alibaba, csv.as_bytes(), &options, &pair).unwrap();
            assert_eq!((report.ios, report.errors), (400, 0), "{mode:?}");
            let started: Vec<(Option<&str>, u64)> =
                report.devices.iter().map(|device| (device.of.as_deref(), device.started.ios)).collect();
            assert_eq!(started, [(Some("0"), 200), (Some("1"), 200)]);
        }
    }
}

#[test]
fn a_replay_ends_with_its_limit_its_time_or_a_signal() {
    let trace = benched(8, "none", |_| disk(100));
    let limited = ReplayOptions { limit: Some(50), ..options(Mode::Open) };
    assert_eq!(replayed_on(Format::Blktrace, &trace, &limited, &[disk(100)]).unwrap().ios, 50);
    let timed = ReplayOptions { runtime: Some(Duration::from_millis(1)), ..options(Mode::Open) };
    let (report, found) = recorded(Format::Blktrace, &trace, &timed, disk(100));
    let arrived = of(Action::Queue, &found);
    assert!((20..200).contains(&arrived.len()) && report.ios == arrived.len() as u64);
    assert!(arrived.iter().all(|event| event.time_ns <= 1_000_000));
    // An hour of the trace on a real device.
    let slow = "5,R,0,4096,10\n5,R,0,4096,3600000000\n";
    let (mut arrivals, devices) =
        (arrivals(Format::Alibaba, slow.as_bytes()).unwrap(), [Device::null(1 << 30).unwrap()]);
    let (cancel, options) = (AtomicBool::new(false), options(Mode::Open));
    let mut reader = Reader::new(&mut arrivals, &options, &devices, Routes::new(&[None], &[]), None).unwrap();
    let mut progress = |state: &io::Progress| {
        assert_eq!(state.ios, 1);
        cancel.store(true, Ordering::Relaxed);
    };
    let hooks = Hooks { progress: Some(&mut progress), cancel: &cancel };
    let report = replay::run(&mut reader, &options, &devices, hooks).unwrap();
    assert_eq!((report.partial, report.ios), (true, 1));
}
