//! SysBench's fileio test on simulated devices, on memory and on files.

use platter_bench::fileio::{
    self, CacheState, Count, ExtraFlags, FileioError, HOST_KEYS, Handles, Hooks, IoMode, Mode, Plan, Report,
    SyncedBy,
};
use platter_block::time::Span;
use platter_cache::Settings;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::{SimDisk, World};
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Every read and write takes 100 us, `depth` at a time.
fn disk(depth: u32) -> Device {
    let ideal = Ideal { size: 1 << 30, latency: Span::from_micros(100), depth, write_cache: false };
    let disk = SimDisk::new(&World::new(1), ideal.into(), None);
    Device::from_disk(disk.attach("ideal"), DiskSettings::default(), None).unwrap()
}

fn plan() -> Plan {
    Plan { files: 4, total_size: 4 << 20, events: 1000, ..Plan::default() }
}

fn on(device: &Device, plan: &Plan) -> Report {
    fileio::run(device, plan, Hooks::none(&AtomicBool::new(false))).unwrap()
}

fn within(dir: &Path, plan: &Plan) -> Result<Report, FileioError> {
    fileio::run_in(dir, false, plan, Hooks::none(&AtomicBool::new(false)))
}

#[test]
fn simulated_threads_share_the_disk() {
    // Reads only: 1000 of 100 us each, as many side by side as there are threads, and as the disk takes.
    for (threads, depth, backlog, us) in
        [(1, 1, 1, 100_000), (4, 8, 1, 25_000), (16, 8, 1, 12_500), (2, 32, 5, 10_000)]
    {
        let io_mode = if backlog > 1 { IoMode::Async } else { IoMode::Sync };
        let plan = Plan { mode: Mode::RndRd, threads, io_mode, backlog, ..plan() };
        let report = fileio::simulate(&disk(depth), &plan).unwrap();
        assert_eq!((report.reads, report.writes, report.fsyncs, report.events), (1000, 0, 0, 1000));
        assert_eq!(report.ns, us * 1000, "{threads} threads at depth {depth}");
        assert_eq!(report.reads_per_s(), 1e9 / us as f64);
        assert_eq!(report.latency.unwrap().min_ns, 100_000);
        // Neighbours may merge.
        let bytes = report.mean_request_bytes().unwrap();
        assert!((16384.0..16500.0).contains(&bytes), "{bytes}");
    }
}

#[test]
fn the_same_seed_gives_the_same_report_and_another_one_another() {
    let json = |seed: u64| {
        let report = fileio::simulate(&disk(4), &Plan { seed, ..plan() }).unwrap();
        let mut json = report.to_json();
        for key in HOST_KEYS {
            assert!(json.as_object_mut().unwrap().remove(key).unwrap().is_number(), "{key}");
        }
        json["plan"].as_object_mut().unwrap().remove("rand_seed");
        json.to_string()
    };
    assert_eq!(json(7), json(7));
    let model = |seed| {
        let row = platter_sim::catalogue::by_name("ide2004").unwrap();
        let disk = SimDisk::new(&World::new(1), row.make(Default::default()).unwrap(), None);
        let device = Device::from_disk(disk.attach("ide2004"), DiskSettings::default(), None).unwrap();
        fileio::simulate(&device, &Plan { seed, events: 200, ..Plan::default() }).unwrap().ns
    };
    assert_eq!(model(1), model(1));
    assert_ne!(model(1), model(2));
}

/// 10 rounds of 4 files, and 16 threads that make 4 files durable at the end.
#[test]
fn counts_are_exact_on_every_way_to_the_files() {
    let dir = tempfile::tempdir().unwrap();
    for io_mode in [IoMode::Sync, IoMode::Async] {
        for handles in [Handles::Shared, Handles::Each] {
            for synced_by in [SyncedBy::Shared, SyncedBy::One] {
                let plan = Plan { io_mode, handles, synced_by, backlog: 3, ..plan() };
                let all = [
                    on(&disk(8), &plan),
                    on(&Device::ram(4 << 20).unwrap(), &plan),
                    within(dir.path(), &plan).unwrap(),
                ];
                for report in all {
                    let counts = (report.reads, report.writes, report.fsyncs, report.events);
                    assert_eq!(counts, (600, 400, 10 * 4 + 16 * 4, 1000), "{plan:?} on {}", report.on);
                    assert!(!report.interrupted && report.ns > 0 && report.latency.is_some());
                }
            }
        }
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn events_can_be_counted_as_sysbench_counts_them() {
    // 100 requests and 4 fsyncs, 9 times, then 64 requests.
    let plan = Plan { count: Count::All, ..plan() };
    for report in [on(&disk(8), &plan), on(&Device::ram(4 << 20).unwrap(), &plan)] {
        assert_eq!((report.events, report.reads + report.writes, report.fsyncs), (1000, 964, 36 + 64));
    }
    let all = Plan { fsync_all: true, ..self::plan() };
    let report = on(&disk(8), &all);
    assert_eq!((report.events, report.writes, report.fsyncs), (1000, 400, 400));
    let never = Plan { fsync_freq: 0, fsync_end: false, ..self::plan() };
    assert_eq!(on(&disk(8), &never).fsyncs, 0);
}

#[test]
fn time_ends_a_run_and_then_come_the_fsyncs() {
    let plan =
        Plan { events: 0, time: Some(Span::from_millis(10)), mode: Mode::RndWr, fsync_freq: 0, ..plan() };
    // 8 in parallel: requests started in the last 100 us end later, in two turns.
    let report = fileio::simulate(&disk(8), &plan).unwrap();
    assert!((800..=816).contains(&report.writes) && report.fsyncs == 64, "{report:?}");
    let real = on(&Device::ram(4 << 20).unwrap(), &plan);
    assert!(real.ns >= 10_000_000 && real.writes > 0 && real.fsyncs == 64);
}

#[test]
fn sequential_writes_fill_every_file() {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { mode: Mode::SeqWr, events: 256, threads: 3, ..plan() };
    let report = fileio::run_in(dir.path(), true, &plan, Hooks::none(&AtomicBool::new(false))).unwrap();
    assert_eq!((report.writes, report.written_mib_per_s() > 0.0), (256, true));
    for number in 0..4 {
        let file = fs::read(dir.path().join(format!("test_file.{number}"))).unwrap();
        assert!(file.len() == 1 << 20 && file.chunks(512).all(|part| part.iter().any(|byte| *byte != 0)));
    }
    // Now the files exist and are kept.
    assert_eq!(within(dir.path(), &Plan { mode: Mode::SeqRd, ..plan }).unwrap().reads, 256);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
}

#[test]
fn plans_and_places_that_make_no_sense_say_why() {
    let says = |plan: Plan, words: &[&str]| {
        let error = fileio::simulate(&disk(1), &plan).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
    };
    says(Plan { files: 0, ..plan() }, &["--file-num 0", "1 to 65536"]);
    says(Plan { threads: 0, ..plan() }, &["--threads 0", "1 to 8192"]);
    says(Plan { threads: 8193, ..plan() }, &["--threads 8193", "1 to 8192"]);
    says(Plan { block: 2 << 20, ..plan() }, &["--file-total-size 4M", "at least 8M", "4 files"]);
    says(Plan { total_size: (4 << 20) + 1, ..plan() }, &["--file-total-size 4194305", "a multiple of 64K"]);
    says(Plan { rw_ratio: -1.0, ..plan() }, &["--file-rw-ratio -1", "at least 0"]);
    says(Plan { rw_ratio: f64::NAN, ..plan() }, &["--file-rw-ratio NaN", "at least 0"]);
    says(Plan { events: 0, ..plan() }, &["--events 0", "--time"]);
    let direct = ExtraFlags { direct: true, ..ExtraFlags::default() };
    let warm = Plan { cache_state: CacheState::Warm, extra_flags: direct, ..plan() };
    says(warm, &["--cache-state warm", "as-is or cold with --file-extra-flags direct"]);
    says(Plan { backlog: 0, ..plan() }, &["--file-async-backlog 0", "1 to 65536"]);
    says(Plan { total_size: 1 << 40, ..plan() }, &["1T", "up to 1G", "ideal"]);
    says(Plan { block: 768, total_size: 768 * 4, ..plan() }, &["--file-block-size 768", "multiples of 512"]);
    let many = Plan { threads: 8192, io_mode: IoMode::Async, backlog: 65_536, ..plan() };
    says(many, &["--threads 8192", "at most 1048576"]);
    let ram = Device::ram(4 << 20).unwrap();
    let real = fileio::simulate(&ram, &plan()).unwrap_err().to_string();
    assert!(real.contains("no virtual time"), "{real}");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("test_file.1"), [0; 100]).unwrap();
    let short = within(dir.path(), &plan()).unwrap_err().to_string();
    assert!(short.contains("test_file.1 has 100 bytes and needs 1048576"), "{short}");
    // Files that had been created before are removed again; existing ones are kept.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let nowhere = within(&dir.path().join("nowhere"), &plan()).unwrap_err().to_string();
    assert!(nowhere.contains("nowhere/test_file.0"), "{nowhere}");
}

/// The cache of a device is evicted or filled before the counts of the run begin; so is the kernel's, which changes no count.
#[test]
fn caches_begin_in_the_state_of_the_plan() {
    let disk = Device::ram(4 << 20).unwrap();
    // Without readahead, so that the number of misses does not depend on how far it gets ahead of the threads.
    let settings = Settings { window: 0, ..Settings::default() };
    let device = &Device::new(platter_cache::new(disk.backend().clone(), &settings).unwrap());
    let misses = |mode: Mode, cache_state: CacheState| {
        let report = on(device, &Plan { mode, cache_state, ..plan() });
        report.device.unwrap().cache.unwrap().misses
    };
    assert_eq!(misses(Mode::RndRd, CacheState::Warm), 0);
    assert_eq!(misses(Mode::RndRd, CacheState::AsIs), 0);
    // Dirty pages are written first.
    assert_eq!(misses(Mode::RndWr, CacheState::AsIs), 0);
    let cold = misses(Mode::RndRd, CacheState::Cold);
    // A thousand reads at random of 256 blocks of four pages, each of which misses once.
    assert!(cold > 900 && cold <= 1024, "{cold} pages were missed");
    assert_eq!(misses(Mode::RndRd, CacheState::AsIs), 0);
    let dir = tempfile::tempdir().unwrap();
    for mode in [Mode::RndRw, Mode::SeqWr] {
        for cache_state in CacheState::ALL {
            let plan = Plan { mode, cache_state, ..plan() };
            assert_eq!(within(dir.path(), &plan).unwrap().events, 1000, "{plan:?}");
        }
    }
    let cancel = AtomicBool::new(true);
    let warm = Plan { cache_state: CacheState::Warm, ..plan() };
    let none = fileio::run(device, &warm, Hooks::none(&cancel));
    assert!(matches!(none, Err(FileioError::Interrupted)));
}

#[test]
fn a_cancelled_run_reports_what_it_has_done() {
    let cancel = AtomicBool::new(true);
    let endless = Plan { events: u64::MAX, ..plan() };
    for device in [disk(8), Device::ram(4 << 20).unwrap()] {
        let report = fileio::run(&device, &endless, Hooks::none(&cancel)).unwrap();
        assert!(report.interrupted, "{report:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let none = fileio::run_in(dir.path(), false, &endless, Hooks::none(&cancel));
    assert!(matches!(none, Err(FileioError::Interrupted)));
}
