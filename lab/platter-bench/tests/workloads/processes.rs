//! Processes on an ideal disk: exact virtual times.

use platter_bench::processes::*;
use platter_block::bio::Op;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::{SimDisk, World};
use std::sync::atomic::AtomicBool;

const MS: u64 = 1_000_000;

fn disk(depth: u32, elevator: &str) -> Device {
    let ideal = Ideal { size: 1 << 40, latency: Span::from_millis(1), depth, write_cache: true };
    let disk = SimDisk::new(&World::new(1), ideal.into(), None);
    let elevator = platter_elevators::by_name(elevator).map(|row| (row.make)());
    // Without merges each I/O takes the disk's time.
    let mut settings = DiskSettings::default();
    settings.queue.merges = false;
    Device::from_disk(disk.attach("ideal"), settings, elevator).unwrap()
}

fn go(device: &Device, processes: Vec<Process>, time: Option<Span>) -> Outcome {
    run(
        device,
        processes,
        &RunLimits { time, cancel: &AtomicBool::new(false), sync_writes: true, flusher_starts: false },
    )
    .unwrap()
}

fn alone(depth: u32, steps: Steps) -> Record {
    let mut outcome = go(&disk(depth, "none"), vec![Process::new("alone", 1, steps)], None);
    let record = outcome.records.remove(0);
    assert_eq!(record.took, Some(outcome.took));
    record
}

fn file(mib: u64) -> File {
    File { offset: 0, len: mib << 20 }
}

#[test]
fn direct_reads_take_a_turn_each() {
    let record = alone(1, read_file(file(1), ReadPlan::direct(64 << 10)));
    assert_eq!((record.took, record.bytes), (Some(Span(16 * MS)), 1 << 20));
    assert_eq!((record.latency.min(), record.latency.max()), (Some(MS), Some(MS)));
    assert_eq!(record.mib_per_s(), 62.5);
}

#[test]
fn readahead_overlaps_the_disk_with_the_process() {
    // 8 windows of 128 KiB, 32 reads of 10 us in each: the disk reads the next window meanwhile.
    let plan = ReadPlan::buffered(128 << 10);
    assert_eq!(alone(1, read_file(file(1), plan)).took, Some(Span(8 * MS + 320_000)));
    // The other way round: after the first window the process is never kept waiting.
    let slow = ReadPlan { think: Span(MS / 16), ..plan };
    assert_eq!(alone(1, read_file(file(1), slow)).took, Some(Span(MS + 8 * 2 * MS)));
}

#[test]
fn buffered_writes_end_before_the_disk_and_synced_ones_with_it() {
    let plan = WritePlan::buffered();
    let copy = plan.think.0 * 16;
    assert_eq!(alone(1, write_file(file(1), plan)).took, Some(Span(copy)));
    // 8 writes of 128 KiB, then the flush.
    let record = alone(1, write_file(file(1), plan.synced()));
    assert_eq!((record.took, record.bytes), (Some(Span(copy + 9 * MS)), 1 << 20));
}

#[test]
fn writers_are_throttled_to_the_disk() {
    let cache = CacheSettings { limit: 1 << 20, background: 1 << 18, ..CacheSettings::default() };
    let steps = write_file(file(64), WritePlan::buffered());
    let writer = Process { cache, ..Process::new("writer", 1, steps) };
    let record = go(&disk(1, "none"), vec![writer], None).records.remove(0);
    // 512 writes of 1 ms; less than the limit is still dirty when the writer has finished.
    let took = record.took.unwrap().0;
    assert!((504 * MS..512 * MS).contains(&took), "{took}");
}

#[test]
fn a_run_ends_with_its_foreground_or_its_time() {
    let endless = || random_io(file(64), Op::Read, 4096, Span::ZERO, 1, None);
    let background = Process::new("background", 2, endless()).in_background();
    let five = random_io(file(64), Op::Write, 4096, Span(MS), 1, Some(5));
    let late = Process::new("late", 1, five).after(Span(10 * MS));
    let outcome = go(&disk(2, "deadline"), vec![late, background], None);
    assert_eq!(outcome.records[0].took, Some(Span(10 * MS)));
    assert_eq!((outcome.took, outcome.records[1].took), (Span(20 * MS), None));
    assert_eq!((outcome.records[1].bytes, outcome.records[1].ran), (20 * 4096, Span(20 * MS)));
    let limited = go(&disk(1, "none"), vec![Process::new("endless", 1, endless())], Some(Span(7 * MS + 5)));
    assert_eq!((limited.took, limited.records[0].bytes), (Span(7 * MS + 5), 7 * 4096));
}

#[test]
fn the_same_code_runs_in_real_time() {
    let device = Device::ram(64 << 20).unwrap();
    let plan = Transactions {
        data: file(32),
        log: File { offset: 32 << 20, len: 1 << 20 },
        reads: 3,
        writes: 2,
        think: Span(1000),
        count: Some(20),
    };
    let tree = Placement::new(1 << 40).tree(1, 1, 1).unwrap();
    assert!(tree.files[0].data.offset < 4 << 20);
    let processes = vec![
        Process::new("client", 1, transactions(plan, 1)),
        Process::new("cat", 2, read_file(file(16), ReadPlan::buffered(128 << 10))),
        Process::new(
            "dd",
            3,
            write_file(file(16), WritePlan { think: Span::ZERO, ..WritePlan::buffered() }.synced()),
        ),
        Process::new("find", 4, read_tree(tree, ReadPlan::buffered(64 << 10))),
    ];
    let outcome = go(&device, processes, None);
    assert!(outcome.records.iter().all(|record| record.took.is_some()));
    assert_eq!(outcome.records[0].bytes, 20 * 6 * 8192);
    assert_eq!((outcome.records[1].bytes, outcome.records[2].bytes), (16 << 20, 16 << 20));
    let cancelled =
        RunLimits { time: None, cancel: &AtomicBool::new(true), sync_writes: true, flusher_starts: false };
    let endless = random_io(file(1), Op::Read, 4096, Span::ZERO, 1, None);
    assert!(run(&device, vec![Process::new("endless", 1, endless)], &cancelled).unwrap().cancelled);
}

#[test]
fn failed_ios_end_the_run() {
    let beyond = File { offset: 1 << 40, len: 4096 };
    let process = Process::new("lost", 1, read_file(beyond, ReadPlan::direct(4096)));
    let limits =
        RunLimits { time: None, cancel: &AtomicBool::new(false), sync_writes: true, flusher_starts: false };
    let error = run(&disk(1, "none"), vec![process], &limits).unwrap_err().to_string();
    assert!(error.contains("1099511627776"), "{error}");
}

/// An elevator that favours what a process waits for passes over direct writes only where they are asynchronous.
#[test]
fn direct_writes_are_synchronous_only_where_the_kernel_has_them_so() {
    let share_of_reader = |sync_writes| {
        let device = disk(1, "cfq");
        let [read, written] = [0, 1 << 30].map(|offset| File { offset, len: 512 << 20 });
        let reader = read_file(read, ReadPlan::direct(64 << 10).endless());
        let writer = write_file(written, WritePlan::direct(64 << 10).endless());
        let processes = vec![Process::new("reader", 1, reader), Process::new("writer", 2, writer)];
        let limits = RunLimits {
            time: Some(Span::from_secs(20)),
            cancel: &AtomicBool::new(false),
            sync_writes,
            flusher_starts: false,
        };
        let outcome = run(&device, processes, &limits).unwrap();
        let bytes: Vec<u64> = outcome.records.iter().map(|record| record.bytes).collect();
        bytes[0] as f64 / (bytes[0] + bytes[1]) as f64
    };
    let (sync, apart) = (share_of_reader(true), share_of_reader(false));
    assert!((0.45..0.55).contains(&sync) && apart > 0.9, "{sync} and {apart}");
}
