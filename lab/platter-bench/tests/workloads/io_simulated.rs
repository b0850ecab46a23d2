//! The general workload on simulated devices: exact virtual times, the same every time.

use platter_bench::io::{self, HOST_KEYS, Hooks, IoReport};
use platter_bench::workload::{JobOptions, RateProcess, Rw};
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

fn disk(world: &Arc<World>, depth: u32, elevator: &str, data: bool) -> Device {
    let ideal = Ideal { size: 1 << 30, latency: Span::from_micros(100), depth, write_cache: false };
    let disk = SimDisk::new(world, ideal.into(), data.then(Medium::new));
    let elevator = platter_elevators::by_name(elevator).map(|row| (row.make)());
    Device::from_disk(disk.attach("ideal"), DiskSettings::default(), elevator).unwrap()
}

fn run_on(job: &JobOptions, devices: &[Device]) -> IoReport {
    io::run(job, devices, job.effective_seed(0), Hooks::none(&AtomicBool::new(false))).unwrap()
}

fn run(job: &JobOptions, depth: u32, elevator: &str) -> IoReport {
    run_on(job, &[disk(&World::new(1), depth, elevator, false)])
}

#[test]
fn one_job_alone_takes_the_disks_time() {
    for rw in [Rw::Read, Rw::RandRead, Rw::RandWrite, Rw::RandRw] {
        for elevator in ["none", "noop", "deadline"] {
            let job = JobOptions { rw, number_ios: Some(1000), ..JobOptions::default() };
            let report = run(&job, 32, elevator);
            assert_eq!((report.ios, report.wall), (1000, Duration::from_millis(100)), "{rw} {elevator}");
            let latency = report.latency.unwrap();
            assert_eq!((latency.min_ns, latency.max_ns), (100_000, 100_000), "{rw} {elevator}");
            assert!(report.simulated.is_some() && report.iops == 10_000.0);
        }
    }
}

#[test]
fn the_disks_depth_is_shared_by_all_jobs() {
    for (depth, jobs, iodepth, rounds) in [(32, 1, 32, 10), (32, 8, 4, 10), (4, 8, 4, 80), (1, 1, 8, 80)] {
        let job = JobOptions {
            rw: Rw::RandRead,
            numjobs: jobs,
            iodepth,
            number_ios: Some(10 * u64::from(iodepth)),
            ..JobOptions::default()
        };
        for elevator in ["none", "noop"] {
            let report = run(&job, depth, elevator);
            assert_eq!(report.ios, u64::from(10 * jobs * iodepth));
            assert_eq!(report.wall, Duration::from_micros(100 * rounds), "{depth} {jobs} {elevator}");
        }
    }
}

#[test]
fn time_ramp_pauses_and_rates_are_virtual() {
    let began = Instant::now();
    let hour = Duration::from_secs(3600);
    let slow = JobOptions {
        rw: Rw::RandRead,
        numjobs: 2,
        thinktime: Duration::from_secs(1) - Duration::from_micros(100),
        ramp_time: Duration::from_secs(60),
        runtime: Some(hour),
        time_based: true,
        ..JobOptions::default()
    };
    let report = run(&slow, 32, "none");
    assert_eq!((report.ramp_ios, report.ios, report.wall), (120, 7200, hour));
    let rate = JobOptions { thinktime: Duration::ZERO, rate_iops: Some(100), ..slow.clone() };
    let report = run(&rate, 32, "deadline");
    assert_eq!((report.ramp_ios, report.ios), (12_000, 720_000));
    assert_eq!(report.latency.unwrap().max_ns, 100_000);
    let poisson = JobOptions { rate_process: RateProcess::Poisson, ..rate };
    let report = run(&poisson, 32, "none");
    assert!(report.ios.abs_diff(720_000) < 5_000, "{}", report.ios);
    assert!(report.latency.unwrap().max_ns > 100_000, "some start while another is in flight");
    assert!(began.elapsed() < hour);
}

/// One I/O for each pause, or as many as `thinktime_blocks` says, whatever the depth. For one fio has the same rate; for more it
/// also completes what its depth has in flight by then.
#[test]
fn a_pause_follows_each_of_so_many_ios_at_any_depth() {
    let job = |iodepth, thinktime_blocks| JobOptions {
        rw: Rw::RandRead,
        iodepth,
        thinktime: Duration::from_millis(10),
        thinktime_blocks,
        runtime: Some(Duration::from_millis(10_100)),
        time_based: true,
        ..JobOptions::default()
    };
    // A disk of 32 I/Os at a time, of 100 us each: the I/Os of a pause take one time or several.
    for (iodepth, blocks, ios) in [
        (1, 1, 1000),
        (8, 1, 1000),
        (32, 1, 1000),
        (8, 8, 8000),
        (8, 4, 4000),
        (2, 4, 4 * 990 + 4),
        (1, 3, 3 * 980 + 3),
    ] {
        let report = run(&job(iodepth, blocks), 32, "none");
        assert_eq!(report.ios, ios, "depth {iodepth}, {blocks} I/Os between pauses");
    }
    let text = run(&job(8, 4), 32, "none").to_text(false);
    assert!(text.contains("thinktime=10ms thinktime_blocks=4"), "{text}");
}

/// The starts of jobs with the same linear rate are at equal distances, and not all at one instant: the disk takes one I/O
/// at a time, and none waits.
#[test]
fn jobs_of_a_linear_rate_are_staggered() {
    let job = JobOptions {
        rw: Rw::RandRead,
        numjobs: 8,
        rate_iops: Some(1000),
        runtime: Some(Duration::from_secs(1)),
        time_based: true,
        ..JobOptions::default()
    };
    let report = run(&job, 1, "none");
    assert_eq!((report.ios, report.missed_ios), (8000, Some(0)));
    assert_eq!(report.latency.unwrap().max_ns, 100_000);
}

/// A disk of 10,000 I/Os per second, asked for 20,000: half of the starts never happen, and the report says so.
#[test]
fn starts_that_never_happened_are_reported() {
    let job = JobOptions {
        rw: Rw::RandRead,
        rate_iops: Some(20_000),
        runtime: Some(Duration::from_secs(1)),
        time_based: true,
        ..JobOptions::default()
    };
    let report = run(&job, 32, "none");
    assert_eq!(report.ios + report.missed_ios.unwrap(), 20_000);
    assert!(report.ios.abs_diff(10_000) < 3, "{}", report.ios);
    let rates = [(Some(5_000), Some(0)), (None, None)];
    for (rate_iops, missed) in rates {
        assert_eq!(run(&JobOptions { rate_iops, ..job.clone() }, 32, "none").missed_ios, missed);
    }
    // At random times the same rate is another load: the report names it.
    let random = JobOptions { rate_process: RateProcess::Poisson, ..job.clone() };
    let report = run(&random, 32, "none");
    assert!(report.missed_ios.unwrap().abs_diff(10_000) < 1000, "{:?}", report.missed_ios);
    assert!(
        report.to_text(false).contains("rate_iops=20000 rate_process=poisson"),
        "{}",
        report.to_text(false)
    );
    assert_eq!(report.to_json()["job"]["rate_process"], "poisson");
    // Only those that the job might have started.
    let job = JobOptions { number_ios: Some(15_000), ..job };
    assert_eq!(run(&job, 32, "none").missed_ios.unwrap(), 15_000 - run(&job, 32, "none").ios);
}

#[test]
fn verified_writes_read_back_in_virtual_time_too() {
    let world = World::new(1);
    for (rw, elevator) in [(Rw::Write, "none"), (Rw::RandWrite, "deadline"), (Rw::RandRw, "noop")] {
        let device = disk(&world, 32, elevator, true);
        let job = JobOptions { rw, verify: true, iodepth: 16, size: Some(1 << 20), ..JobOptions::default() };
        let report = run_on(&job, std::slice::from_ref(&device));
        assert_eq!((report.ios, report.verify_errors), (256, 0), "{rw}");
        assert!(report.verified > 0 && report.verified <= 256);
    }
    let job = JobOptions { rw: Rw::Write, verify: true, size: Some(1 << 20), ..JobOptions::default() };
    let forgets = disk(&world, 32, "none", false);
    // The buffer holds the last write, which is right for the last block only.
    assert_eq!(run_on(&job, &[forgets]).verify_errors, 255);
}

#[test]
fn a_seed_gives_the_same_report_whatever_the_host_does() {
    let job = JobOptions {
        rw: Rw::RandRw,
        numjobs: 6,
        iodepth: 3,
        rate_iops: Some(3000),
        rate_process: RateProcess::Poisson,
        runtime: Some(Duration::from_secs(1)),
        time_based: true,
        ..JobOptions::default()
    };
    let report = |job: &JobOptions| {
        let world = World::new(1);
        let disks = ["none", "deadline", "noop"].map(|elevator| disk(&world, 2, elevator, true));
        let mut json = run_on(job, &disks).to_json();
        let object = json.as_object_mut().unwrap();
        assert!(HOST_KEYS.iter().all(|key| object.remove(*key).is_some()));
        json.to_string()
    };
    assert_eq!(report(&job), report(&job));
    assert_ne!(report(&job), report(&JobOptions { seed: Some(2), ..job.clone() }));
}

#[test]
fn a_thousand_disks_are_one_world() {
    let world = World::new(1);
    let disks: Vec<Device> = (0..1000).map(|_| disk(&world, 32, "none", false)).collect();
    let job = JobOptions { rw: Rw::RandRead, numjobs: 32_000, number_ios: Some(4), ..JobOptions::default() };
    let report = run_on(&job, &disks);
    assert_eq!((report.ios, report.wall), (128_000, Duration::from_micros(400)));
}

#[test]
fn clocks_are_not_mixed() {
    let simulated = || disk(&World::new(1), 32, "none", false);
    let job = JobOptions { numjobs: 2, ..JobOptions::default() };
    for devices in [[simulated(), Device::null(1 << 30).unwrap()], [simulated(), simulated()]] {
        let result = io::run(&job, &devices, 1, Hooks::none(&AtomicBool::new(false)));
        assert!(result.unwrap_err().to_string().contains("different clocks"));
    }
}

#[test]
fn cancelling_ends_an_endless_simulation() {
    let cancel = AtomicBool::new(true);
    for numjobs in [1, 3] {
        let job = JobOptions {
            runtime: Some(Duration::from_secs(1 << 30)),
            time_based: true,
            numjobs,
            ..JobOptions::default()
        };
        let devices = [disk(&World::new(1), 32, "none", false)];
        let report = io::run(&job, &devices, 1, Hooks::none(&cancel)).unwrap();
        assert!(report.partial && report.ios > 0);
    }
}

/// A disk that writes its buffer out by itself is looked at when that is due, and not again and again.
#[test]
fn what_an_idle_disk_does_next_lies_ahead() {
    let world = World::new(1);
    let model = platter_sim::catalogue::by_name("ide2004").unwrap().make(Default::default()).unwrap();
    let disk = SimDisk::new(&world, model, None).attach("ide2004");
    let device = Device::from_disk(disk, DiskSettings::default(), None).unwrap();
    let (mut channel, mut done) = (device.channel(8).unwrap(), Vec::new());
    for place in 0..8 {
        channel.submit(platter_block::bio::Bio::write(place << 30, vec![1u8; 4096]).unwrap()).unwrap();
    }
    let mut looks = 0;
    loop {
        channel.poll_at(world.clock().now(), &mut done);
        let Some(next) = channel.next_wakeup() else { break };
        assert!(channel.outstanding() > 0 || next > world.clock().now());
        world.clock().advance_to(next);
        looks += 1;
    }
    assert!(done.len() == 8 && looks < 100, "{} {looks}", done.len());
}

/// The disk goes on writing its buffer to the medium after the last completion, which is no part of the run.
#[test]
fn a_run_ends_with_its_last_completion() {
    let model = platter_sim::catalogue::by_name("ide2004").unwrap().make(Default::default()).unwrap();
    let disk = SimDisk::new(&World::new(1), model, None).attach("ide2004");
    let device = Device::from_disk(disk, DiskSettings::default(), None).unwrap();
    let job = JobOptions { rw: Rw::RandRw, rwmixread: 10, number_ios: Some(20), ..JobOptions::default() };
    let report = run_on(&job, &[device]);
    let sum: f64 = report.directions.iter().filter_map(|d| Some(d.latency?.mean_ns * d.ios as f64)).sum();
    // One I/O at a time: nothing but their latencies makes up the run.
    assert_eq!(report.wall, Duration::from_nanos(sum.round() as u64));
}
