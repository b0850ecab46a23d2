//! The general workload on memory and on a file.

use platter_bench::io::{self, Hooks, IoReport, Stamps};
use platter_bench::workload::{JobOptions, Rw};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::open::DiskOptions;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn run_on(job: &JobOptions, devices: &[Device]) -> IoReport {
    io::run(job, devices, job.effective_seed(0), Hooks::none(&AtomicBool::new(false))).unwrap()
}

fn run(job: &JobOptions, device: &Device) -> IoReport {
    run_on(job, std::slice::from_ref(device))
}

fn refused(job: &JobOptions, device: &Device) -> String {
    let never = AtomicBool::new(false);
    io::run(job, std::slice::from_ref(device), 1, Hooks::none(&never)).unwrap_err().to_string()
}

fn file_disk(path: &Path, size: u64) -> Device {
    let mut options = DiskOptions::read_write();
    options.open.create = Some(size);
    Device::open(path, options).unwrap()
}

#[test]
fn every_rw_does_what_it_says_and_all_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = file_disk(&dir.path().join("disk"), MIB);
    for device in [Device::ram(MIB).unwrap(), Device::null(MIB).unwrap(), file] {
        for rw in Rw::ALL {
            let job = JobOptions { rw, iodepth: 7, ..JobOptions::default() };
            let report = run(&job, &device);
            assert_eq!((report.ios, report.errors(), report.partial), (256, 0, false), "{rw} {device:?}");
            let names: Vec<_> = report.directions.iter().map(|d| d.name).collect();
            let expected: &[_] = match rw {
                rw if rw.is_mixed() => &["read", "write"],
                rw if rw.trims() => &["trim"],
                rw if rw.writes() => &["write"],
                _ => &["read"],
            };
            assert_eq!(names, expected, "{rw}");
            assert_eq!(report.directions.iter().map(|d| d.ios).sum::<u64>(), 256);
            let counters = &report.counters;
            assert_eq!((counters.bios, counters.bios_completed), (256, 256), "{rw}");
            assert_eq!(counters.dispatches, counters.completions, "{rw}");
            assert!(report.latency.unwrap().p50_ns <= report.latency.unwrap().max_ns);
        }
    }
}

#[test]
fn a_mix_keeps_its_share() {
    let device = Device::null(1 << 40).unwrap();
    let job = JobOptions { rw: Rw::RandRw, rwmixread: 70, number_ios: Some(10_000), ..JobOptions::default() };
    let report = run(&job, &device);
    assert!(report.directions[0].ios.abs_diff(7000) < 300, "{}", report.directions[0].ios);
}

#[test]
fn on_null_everything_queued_is_dispatched_and_completed() {
    for elevator in ["none", "deadline"] {
        let device = Device::null(1 << 40).unwrap();
        device.set_elevator(elevator).unwrap();
        for iodepth in [1, 32, 200] {
            let number_ios = Some(5000);
            let job = JobOptions { rw: Rw::RandRead, iodepth, number_ios, ..JobOptions::default() };
            let c = run(&job, &device).counters;
            assert_eq!((c.bios, c.dispatches, c.bios_completed), (5000, 5000, 5000), "{elevator} {iodepth}");
        }
    }
}

#[test]
fn the_end_is_where_it_was_asked_for() {
    let device = Device::null(1 << 40).unwrap();
    let number_ios = Some(100_003);
    for (gtod_reduce, stamps) in [(false, Stamps::Batch), (true, Stamps::Coarse)] {
        let job = JobOptions { gtod_reduce, number_ios, iodepth: 32, ..JobOptions::default() };
        let report = run(&job, &device);
        assert_eq!((report.ios, report.stamps), (100_003, stamps));
        assert_eq!(report.latency.is_some(), !gtod_reduce);
        let runtime = Some(Duration::from_millis(30));
        let job = JobOptions { runtime, time_based: true, number_ios: None, ..job };
        let report = run(&job, &device);
        assert!(report.wall >= Duration::from_millis(30) && report.ios > 0);
    }
}

#[test]
fn the_ramp_time_is_not_measured() {
    let device = Device::null(1 << 40).unwrap();
    let ramp_time = Duration::from_millis(20);
    let job = JobOptions { ramp_time, iodepth: 4, number_ios: Some(1000), ..JobOptions::default() };
    let report = run(&job, &device);
    assert_eq!(report.ios, 1000);
    assert!(report.ramp_ios > 0);
    assert_eq!(report.counters.bios, report.ios + report.ramp_ios);
}

#[test]
fn jobs_spread_over_devices() {
    let devices = [Device::null(MIB).unwrap(), Device::null(2 * MIB).unwrap()];
    let job = JobOptions { numjobs: 3, iodepth: 2, ..JobOptions::default() };
    let report = run_on(&job, &devices);
    // Two jobs on the first device, one on the second, which is twice as large.
    assert_eq!(devices.each_ref().map(|d| d.counters().bios), [512, 512]);
    assert_eq!((report.ios, report.devices.len()), (1024, 2));
    let few = JobOptions { numjobs: 1, ..job };
    let never = AtomicBool::new(false);
    let error = io::run(&few, &devices, 1, Hooks::none(&never)).unwrap_err().to_string();
    assert_eq!(error, "numjobs=1 is not allowed: each of the 2 devices needs a job of its own");
    assert!(io::run(&few, &[], 1, Hooks::none(&never)).unwrap_err().to_string().contains("no device"));
}

#[test]
fn an_open_loop_starts_nothing_before_its_time() {
    let device = Device::null(1 << 40).unwrap();
    for process in
        [platter_bench::workload::RateProcess::Linear, platter_bench::workload::RateProcess::Poisson]
    {
        let job = JobOptions {
            rate_iops: Some(2000),
            rate_process: process,
            number_ios: Some(41),
            iodepth: 4,
            ..JobOptions::default()
        };
        let report = run(&job, &device);
        assert_eq!((report.ios, report.stamps), (41, Stamps::Intended));
        if process == Default::default() {
            // The last one is meant to start 20 ms after the first.
            assert!(report.wall >= Duration::from_millis(20), "{:?}", report.wall);
        }
    }
}

/// At a rate that the device cannot sustain, each I/O starts late by the time of all earlier ones. A closed
/// loop would not show that.
#[test]
fn latency_counts_from_the_intended_start() {
    let device = Device::null(1 << 40).unwrap();
    let job =
        JobOptions { rate_iops: Some(1_000_000_000), number_ios: Some(20_000), ..JobOptions::default() };
    let latency = run(&job, &device).latency.unwrap();
    // All are scheduled within the first 20 us. No machine completes half of them, one by one, in ten times
    // that.
    assert!(latency.p50_ns > 200_000, "{latency:?}");
}

#[test]
fn a_pause_follows_each_completion() {
    let device = Device::null(1 << 40).unwrap();
    let thinktime = Duration::from_micros(500);
    let job = JobOptions { thinktime, number_ios: Some(21), ..JobOptions::default() };
    let report = run(&job, &device);
    assert_eq!(report.ios, 21);
    assert!(report.wall >= thinktime * 20, "{:?}", report.wall);
}

#[test]
fn verified_writes_read_back_and_damage_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let file = file_disk(&dir.path().join("disk"), MIB);
    for device in [Device::ram(MIB).unwrap(), file] {
        for rw in [Rw::Write, Rw::RandWrite, Rw::RandRw, Rw::ReadWrite] {
            let job = JobOptions { rw, iodepth: 8, verify: true, seed: Some(5), ..JobOptions::default() };
            let report = run(&job, &device);
            assert_eq!((report.errors(), report.first_mismatch), (0, None), "{rw}");
            let writes = report.directions.iter().find(|d| d.name == "write").unwrap().ios;
            assert_eq!((report.verified, report.ios), (writes, 256), "{rw}");
        }
        let write = JobOptions { rw: Rw::Write, verify: true, seed: Some(5), ..JobOptions::default() };
        assert_eq!(run(&write, &device).verified, 256);
        let check = JobOptions { rw: Rw::RandRead, iodepth: 4, ..write.clone() };
        assert_eq!((run(&check, &device).verified, run(&check, &device).errors()), (256, 0));
        let other = JobOptions { seed: Some(6), ..check.clone() };
        assert_eq!(run(&other, &device).verify_errors, 256);
        device.write_at(&[0; 512], 40_960 + 1024).unwrap();
        let report = run(&check, &device);
        assert_eq!((report.verify_errors, report.io_errors, report.ios), (1, 0, 256));
        assert!(report.first_mismatch.unwrap().contains("offset 40960"));
    }
}

/// Passes overlap: a block may be due again while its last write is in flight.
#[test]
fn verified_passes_do_not_overtake_each_other() {
    let device = Device::ram(16 * 4096).unwrap();
    for rw in [Rw::Write, Rw::RandWrite] {
        let job = JobOptions {
            rw,
            iodepth: 32,
            verify: true,
            time_based: true,
            runtime: Some(Duration::from_secs(3600)),
            number_ios: Some(1000),
            ..JobOptions::default()
        };
        let report = run(&job, &device);
        assert_eq!((report.ios, report.verified, report.errors()), (1000, 16, 0));
    }
}

#[test]
fn null_fails_verification() {
    let device = Device::null(MIB).unwrap();
    let job = JobOptions { rw: Rw::Write, verify: true, ..JobOptions::default() };
    let report = run(&job, &device);
    // Null leaves a read's buffer as it was: at depth 1 that is the last block written.
    assert_eq!((report.verified, report.verify_errors), (256, 255));
}

#[test]
fn cancelling_gives_a_partial_report() {
    let device = Device::null(1 << 40).unwrap();
    let cancel = AtomicBool::new(false);
    let mut seen = 0;
    let mut progress = |p: &io::Progress| {
        seen = p.ios;
        cancel.store(true, Ordering::Relaxed);
    };
    let hooks = Hooks { progress: Some(&mut progress), cancel: &cancel };
    let runtime = Some(Duration::from_secs(3600));
    let job = JobOptions { iodepth: 4, runtime, time_based: true, ..JobOptions::default() };
    let report = io::run(&job, &[device], 1, hooks).unwrap();
    assert!(report.partial && report.ios >= seen && seen > 0);
    assert_eq!(report.counters.bios, report.counters.bios_completed);
    assert!(report.to_text(false).contains("PARTIAL"));
    assert_eq!(report.to_json()["partial"], true);
}

#[test]
fn the_first_failed_io_ends_its_job_and_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let device = file_disk(&path, MIB);
    File::options().write(true).open(&path).unwrap().set_len(MIB / 2).unwrap();
    let job = JobOptions { rw: Rw::Read, ..JobOptions::default() };
    let report = run(&job, &device);
    assert_eq!((report.io_errors, report.ios, report.partial), (1, 128, false));
    let error = report.first_error.as_ref().unwrap();
    assert_eq!((error.offset, error.len), (MIB / 2, 4096));
    assert!(report.to_text(false).contains("read of 4096 bytes at 524288"), "{}", report.to_text(false));
}

#[test]
fn what_cannot_be_is_refused_by_option_value_and_range() {
    let device = Device::null(MIB).unwrap();
    let base = JobOptions::default;
    for (job, says) in [
        (JobOptions { iodepth: 0, ..base() }, "iodepth=0 is not allowed: 1 to"),
        (JobOptions { numjobs: 5000, ..base() }, "numjobs=5000 is not allowed: 1 to 1024"),
        (JobOptions { bs: 100, ..base() }, "bs=100 is not allowed: 512"),
        (JobOptions { offset: 2 * MIB, ..base() }, "offset=2M is not allowed: 0 to"),
        (JobOptions { size: Some(2 * MIB), ..base() }, "size=2M is not allowed: 4K"),
        (JobOptions { time_based: true, ..base() }, "runtime=unset is not allowed"),
        (JobOptions { rate_iops: Some(0), ..base() }, "rate_iops=0 is not allowed: 1 to"),
    ] {
        let error = refused(&job, &device);
        assert!(error.starts_with(says), "{error}");
    }
    let huge = Device::null(1 << 50).unwrap();
    let job = JobOptions { rw: Rw::RandWrite, verify: true, number_ios: Some(1), ..base() };
    assert!(refused(&job, &huge).contains("verify=1 is not allowed: the last write of each block"));
}

#[test]
fn reading_needs_no_right_to_write_and_writing_does() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    drop(file_disk(&path, MIB));
    let device = Device::open(&path, DiskOptions::default()).unwrap();
    assert_eq!(run(&JobOptions::default(), &device).ios, 256);
    let error = refused(&JobOptions { rw: Rw::Write, ..JobOptions::default() }, &device);
    assert!(error.starts_with("rw=write is not allowed: the device is open for reading only"), "{error}");
}

#[test]
fn the_report_has_its_keys() {
    let device = Device::null_with(MIB, DiskSettings::default(), None).unwrap();
    let json = run(&JobOptions::default(), &device).to_json();
    for key in [
        "iops",
        "mib_per_s",
        "ns_per_io",
        "cpu_ns_per_io",
        "lat_p50_ns",
        "lat_p99_ns",
        "lat_p999_ns",
        "errors",
    ] {
        assert!(json[key].is_number(), "{key}: {}", json[key]);
    }
    assert_eq!((&json["queued"], &json["completed"]), (&json["ios"], &json["ios"]));
    assert_eq!(json["devices"][0]["facts"]["driver"], "null");
    assert_eq!((&json["stamps"], &json["directions"][0]["direction"]), (&"batch".into(), &"read".into()));
    let html = run(&JobOptions::default(), &device).to_html();
    assert!(html.contains("time per I/O") && html.contains("dispatches"));
}
