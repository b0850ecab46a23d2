//! The table of elevators and mixes on an ideal disk.

use platter_bench::schedulers::{MIXES, Options, Report, by_name, run};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::{SimDisk, World};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn options(threads: usize) -> Options {
    Options {
        elevators: vec!["noop".to_owned(), "deadline".to_owned()],
        mixes: MIXES.iter().collect(),
        time: Span::from_millis(200),
        seed: 1,
        threads,
    }
}

fn open(world: &Arc<World>, name: &str) -> Result<Device, Box<dyn std::error::Error + Send + Sync>> {
    let ideal = Ideal { size: 1 << 30, latency: Span::from_millis(1), depth: 1, write_cache: true };
    let disk = SimDisk::new(world, ideal.into(), None);
    let elevator = platter_elevators::by_name(name).map(|row| (row.make)());
    let mut settings = DiskSettings::default();
    settings.queue.merges = false;
    Ok(Device::from_disk(disk.attach("ideal"), settings, elevator)?)
}

fn table(options: &Options) -> Report {
    run("ideal", options, &open, &AtomicBool::new(false), &mut |_| {}).unwrap()
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let one = table(&options(1));
    assert!(one.simulated && !one.interrupted);
    assert_eq!(one.cells.len(), 2 * MIXES.len());
    let names: Vec<_> = one.cells.iter().map(|cell| (cell.elevator.as_str(), cell.mix)).collect();
    assert_eq!((names[0], names[MIXES.len()]), (("noop", MIXES[0].name), ("deadline", MIXES[0].name)));
    for threads in [2, 4] {
        assert_eq!(json!(one), json!(table(&options(threads))));
    }
}

#[test]
fn first_come_first_served_is_fair_on_an_ideal_disk() {
    let mixes = vec![by_name("random-readers").unwrap()];
    let time = Span::from_secs(60);
    let report = table(&Options { elevators: vec!["noop".to_owned()], mixes, time, ..options(1) });
    let cell = &report.cells[0];
    // Eight times 256 reads of 1 ms, one after the other.
    assert_eq!((cell.took_s, cell.lat_max_ns), (2.048, 8_000_000));
    assert_eq!(cell.mib_per_s, 62.5);
    assert!(cell.jain > 0.9999 && cell.processes.iter().all(|process| process.finish_s.is_some()));
}

#[test]
fn tables_and_pages_name_what_was_run() {
    let report = table(&options(2));
    let (text, page) = (report.to_text(false), report.to_html());
    for mix in MIXES {
        assert!(text.contains(mix.summary) && page.contains(mix.name), "{}", mix.name);
    }
    assert!(text.starts_with("ideal: at most 0.2 s of virtual time for each cell, seed 1\n"), "{text}");
    assert_eq!(text.matches("\ndeadline ").count(), MIXES.len());
}

#[test]
fn cancelled_and_failed_runs_say_so() {
    let cancelled = run("ideal", &options(2), &open, &AtomicBool::new(true), &mut |_| {}).unwrap();
    assert!(cancelled.interrupted && cancelled.cells.is_empty());
    assert!(cancelled.to_text(false).contains("PARTIAL"));
    let small = |_: &Arc<World>, _: &str| Ok(Device::null(1 << 20)?);
    let error = run("null", &options(2), &small, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("the device has 1 MiB"), "{error}");
}
