use super::*;

const DISK: DeviceFacts =
    DeviceFacts { size: 1 << 30, logical_block: 4096, writable: true, simulated: false };

fn job() -> JobOptions {
    JobOptions::default()
}

/// The option that the job is refused for, and the whole message.
fn refused(job: JobOptions) -> (&'static str, String) {
    let error = job.check(&DISK).expect_err("the job should be refused");
    (error.option, error.to_string())
}

#[test]
fn the_default_job_reads_the_whole_device() {
    assert_eq!(job().check(&DISK), Ok(()));
    let region = job().region(&DISK).unwrap();
    assert_eq!((region.blocks(), region.bs(), region.at(0)), (1 << 18, 4096, 0));
    assert_eq!(job().ios_per_job(region.blocks()), Some(1 << 18));
}

#[test]
fn block_sizes() {
    for bs in [0, 512, (1 << 30) + 4096, u64::MAX] {
        assert_eq!(refused(JobOptions { bs, ..job() }).0, "bs", "{bs}");
    }
    let (option, message) = refused(JobOptions { bs: 6000, ..job() });
    assert_eq!(option, "bs");
    assert_eq!(message, "bs=6000 is not allowed: a multiple of the logical block of the device (4K); try 8K");
    let broken = DeviceFacts { logical_block: 0, ..DISK };
    assert_eq!(job().check(&broken).unwrap_err().option, "bs");
}

#[test]
fn offset_and_size_stay_on_the_device() {
    let at = |offset, size| JobOptions { offset, size, ..job() };
    assert_eq!(refused(at(100, None)).0, "offset");
    assert_eq!(refused(at(1 << 30, None)).0, "offset");
    assert_eq!(refused(at(1 << 40, None)).0, "offset");
    assert_eq!(refused(at(0, Some(0))).0, "size");
    assert_eq!(refused(at(0, Some(4095))).0, "size");
    assert_eq!(
        refused(at(4096, Some(1 << 30))).1,
        "size=1G is not allowed: 4K (one block) to 1048572K (what the device holds from offset=4K on)"
    );
    assert_eq!(refused(at(4096, Some(u64::MAX))).0, "size");
    assert_eq!(at((1 << 30) - 4096, None).check(&DISK), Ok(()));
    let tiny = DeviceFacts { size: 1000, ..DISK };
    let message = job().check(&tiny).unwrap_err().to_string();
    assert!(message.contains("the device holds 1000 B"), "{message}");
}

#[test]
fn depths_jobs_and_mix() {
    for (option, bad) in [
        ("iodepth", JobOptions { iodepth: 0, ..job() }),
        ("iodepth", JobOptions { iodepth: u32::MAX, ..job() }),
        ("numjobs", JobOptions { numjobs: 0, ..job() }),
        ("numjobs", JobOptions { numjobs: 100_000, ..job() }),
        ("rwmixread", JobOptions { rwmixread: 101, ..job() }),
        ("iodepth", JobOptions { bs: 1 << 30, iodepth: 1 << 15, ..job() }),
    ] {
        assert_eq!(refused(bad).0, option);
    }
    assert_eq!(refused(JobOptions { iodepth: 0, ..job() }).1, "iodepth=0 is not allowed: 1 to 32768");
    let trim = JobOptions { rw: Rw::Trim, bs: 1 << 30, iodepth: 1 << 15, ..job() };
    assert_eq!(trim.check(&DISK), Ok(()), "trims need no buffers");
}

#[test]
fn every_job_ends() {
    let (option, message) = refused(JobOptions { time_based: true, ..job() });
    assert_eq!(option, "runtime");
    assert!(message.starts_with("runtime=unset is not allowed: time_based needs a runtime"), "{message}");
    for runtime in [Duration::ZERO, Duration::MAX] {
        assert_eq!(refused(JobOptions { runtime: Some(runtime), ..job() }).0, "runtime");
    }
    assert_eq!(refused(JobOptions { ramp_time: Duration::MAX, ..job() }).0, "ramp_time");
    assert_eq!(refused(JobOptions { thinktime: Duration::MAX, ..job() }).0, "thinktime");
    assert_eq!(refused(JobOptions { number_ios: Some(0), ..job() }).0, "number_ios");
    let think = |micros, blocks| JobOptions {
        thinktime: Duration::from_micros(micros),
        thinktime_blocks: blocks,
        ..job()
    };
    assert!(refused(think(1, 0)).1.contains("thinktime_blocks=0 is not allowed: at least 1"));
    assert!(refused(think(0, 4)).1.contains("without thinktime"));
    assert_eq!(think(1, 4).check(&DISK), Ok(()));

    let timed = JobOptions { time_based: true, runtime: Some(Duration::from_secs(2)), ..job() };
    assert_eq!(timed.check(&DISK), Ok(()));
    assert_eq!(timed.ios_per_job(10), None);
    assert_eq!(JobOptions { number_ios: Some(50), ..timed }.ios_per_job(10), Some(50));
    // As with fio, number_ios only ends a job earlier than size would.
    assert_eq!(JobOptions { number_ios: Some(50), ..job() }.ios_per_job(10), Some(10));
    assert_eq!(JobOptions { number_ios: Some(5), ..job() }.ios_per_job(10), Some(5));
}

#[test]
fn rates() {
    for rate in [0, 1_000_000_001] {
        assert_eq!(refused(JobOptions { rate_iops: Some(rate), ..job() }).0, "rate_iops");
    }
    let both = JobOptions { rate_iops: Some(100), thinktime: Duration::from_micros(1), ..job() };
    assert_eq!(refused(both).0, "thinktime");
}

#[test]
fn only_writable_devices_are_written() {
    let read_only = DeviceFacts { writable: false, ..DISK };
    for rw in Rw::ALL {
        let result = JobOptions { rw, ..job() }.check(&read_only);
        match result {
            Ok(()) => assert!(matches!(rw, Rw::Read | Rw::RandRead)),
            Err(error) => assert_eq!((error.option, error.value.as_str()), ("rw", rw.name())),
        }
    }
}

#[test]
fn verification_needs_something_to_verify() {
    let verify = |rw| JobOptions { rw, verify: true, ..job() };
    for rw in [Rw::Read, Rw::RandRead] {
        assert!(refused(verify(rw)).1.contains("give the seed of that job"));
        assert_eq!(JobOptions { seed: Some(4), ..verify(rw) }.check(&DISK), Ok(()));
    }
    for rw in [Rw::ReadWrite, Rw::RandRw] {
        let reads = |rwmixread| JobOptions { rwmixread, seed: Some(4), ..verify(rw) };
        assert!(refused(reads(100)).1.contains("with rwmixread=100 nothing is written"));
        assert_eq!(reads(99).check(&DISK), Ok(()));
    }
    for rw in [Rw::Trim, Rw::RandTrim] {
        assert!(refused(verify(rw)).1.contains("nothing to verify"));
    }
    for rw in [Rw::Write, Rw::RandWrite, Rw::ReadWrite, Rw::RandRw] {
        assert_eq!(verify(rw).check(&DISK), Ok(()));
        assert!(refused(JobOptions { numjobs: 2, ..verify(rw) }).1.contains("numjobs=1"));
    }
    let overlapping = JobOptions { norandommap: true, iodepth: 2, ..verify(Rw::RandWrite) };
    assert!(refused(overlapping.clone()).1.contains("norandommap"));
    assert_eq!(JobOptions { iodepth: 1, ..overlapping }.check(&DISK), Ok(()));
}

#[test]
fn verification_intervals_divide_the_block() {
    let with = |interval| JobOptions {
        rw: Rw::Write,
        bs: 12288,
        verify: true,
        verify_interval: Some(interval),
        ..job()
    };
    for interval in [0, 100, 513, 8192, 24576] {
        assert_eq!(refused(with(interval)).0, "verify_interval", "{interval}");
    }
    for interval in [512, 1536, 4096, 12288] {
        assert_eq!(with(interval).check(&DISK), Ok(()));
    }
    assert_eq!(refused(JobOptions { verify: false, ..with(512) }).0, "verify_interval");
    // A device with blocks smaller than a sector cannot carry the headers.
    let odd = DeviceFacts { logical_block: 1, ..DISK };
    let small = JobOptions { rw: Rw::Write, bs: 100, verify: true, ..job() };
    assert_eq!(small.check(&odd).unwrap_err().option, "verify");
}

#[test]
fn priorities() {
    let prio = |prioclass, prio| JobOptions { prioclass, prio, ..job() };
    assert_eq!(refused(prio(Some(4), None)).0, "prioclass");
    assert_eq!(refused(prio(Some(2), Some(8))).0, "prio");
    assert_eq!(refused(prio(Some(3), Some(1))).0, "prio");
    assert_eq!(refused(prio(None, Some(1))).0, "prio");
    assert_eq!(refused(prio(Some(0), Some(1))).0, "prio");
    assert_eq!(prio(Some(1), Some(0)).check(&DISK), Ok(()));
    assert_eq!(prio(Some(3), None).ioprio(), IoPrio::new(Class::Idle, 0));
    assert_eq!(prio(Some(2), Some(7)).ioprio(), IoPrio::new(Class::BestEffort, 7));
    assert_eq!(prio(Some(0), None).ioprio(), IoPrio::NONE);
    assert_eq!(prio(None, None).ioprio(), IoPrio::NONE);
    assert_eq!(prio(Some(3), None).check(&DISK), Ok(()));
}

#[test]
fn contexts() {
    let shared = JobOptions { contexts: vec![7, 9], ..job() };
    assert_eq!([0, 1, 2].map(|i| shared.context(i).process()), [7, 9, 7]);
    assert_eq!([0, 1].map(|i| job().context(i).process()), [1, 2]);
    assert_eq!(refused(JobOptions { contexts: vec![0], ..job() }).0, "context");
    assert_eq!(
        refused(JobOptions { contexts: vec![1 << 24], ..job() }).1,
        "context=16777216 is not allowed: 1 to 16777215"
    );
}

#[test]
fn simulated_jobs_are_not_threads() {
    let many = JobOptions { numjobs: 32_000, ..job() };
    assert_eq!(refused(many.clone()).0, "numjobs");
    assert_eq!(many.check(&DeviceFacts { simulated: true, ..DISK }), Ok(()));
}

#[test]
fn seeds() {
    assert_eq!(job().effective_seed(99), DEFAULT_SEED);
    assert_eq!(JobOptions { randrepeat: false, ..job() }.effective_seed(99), 99);
    assert_eq!(JobOptions { randrepeat: false, seed: Some(5), ..job() }.effective_seed(99), 5);
}
