//! A write that a path has and that is late is not overtaken through another path.

use crate::flushes::layer;
use crate::{Rig, away, hang, item, limit, rig, rig_with, text};
use platter_block::bio::{Bio, Op};
use platter_block::fault::Kind;
use platter_block::queue::Settings;
use platter_block::status::Value;
use platter_block::time::{Span, Time};
use platter_disk::channel::Channel;
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_scsi::disk::{FaultPlan, Options};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A disk at which a write has just timed out, after this many that have not, and the time at which that write began. The
/// disk carries it out 20 s later.
fn with_late_write(before: u32) -> (Rig, Time) {
    let rig = rig(&[("check_interval", 1000)]);
    (0..before).for_each(|_| rig.device.write_at(&[1; 4096], 0).unwrap());
    hang(&rig.sim, 20);
    let began = rig.world.clock().now();
    let error = rig.device.write_at_with(&[2; 4096], 0, limit(1)).unwrap_err();
    assert_eq!(error.fault.kind, Kind::TimedOut);
    (rig, began)
}

#[test]
fn nothing_overtakes_a_late_write() {
    let (rig, began) = with_late_write(1);
    // Elsewhere work goes on, through both paths.
    (1..5).for_each(|at| rig.device.write_at(&[9; 4096], at * 4096).unwrap());
    assert!(rig.world.clock().now().since(began) < Span::from_secs(2));
    assert_eq!(rig.device.flush().unwrap_err().fault.kind, Kind::Unsettled);
    let error = rig.device.write_at_with(&[3; 512], 512, limit(1)).unwrap_err();
    assert!(error.fault.kind == Kind::TimedOut, "{error}");
    // The next one waits until the first has landed, and wins.
    rig.device.write_at(&[4; 4096], 0).unwrap();
    assert!(rig.world.clock().now().since(began) >= Span::from_secs(20));
    let mut data = [0; 4096];
    (0..4).for_each(|_| {
        rig.device.read_at(&mut data, 0).unwrap();
        assert!(data == [4; 4096], "{}", data[0]);
    });
    rig.device.flush().unwrap();
}

/// Also one that is submitted at the time at which the call with the first write has ended.
#[test]
fn nothing_overtakes_a_write_that_has_just_timed_out() {
    for before in 0..2 {
        let (rig, _) = with_late_write(before);
        assert_eq!(rig.device.flush().unwrap_err().fault.kind, Kind::Unsettled);
        rig.device.write_at(&[4; 4096], 0).unwrap();
        let clock = rig.world.clock();
        clock.advance_to(clock.now() + Span::from_secs(60));
        let mut data = [0; 4096];
        rig.device.read_at(&mut data, 0).unwrap();
        assert!(data == [4; 4096], "{}", data[0]);
    }
}

/// The path is gone for ever when the disk has ended the write.
#[test]
fn a_late_write_ends_also_through_a_path_that_is_gone() {
    let (rig, began) = with_late_write(1);
    let [a, b] = ["path a", "path b"].map(|path| text(&rig.device, path));
    assert!(a.contains(" 1 done") && b.contains(" 0 done"), "the second path has the write: {a}; {b}");
    rig.ports[1].set_faults(away());
    assert_eq!(rig.device.flush().unwrap_err().fault.kind, Kind::Unsettled);
    rig.device.write_at_with(&[4; 4096], 0, limit(30)).unwrap();
    let took = rig.world.clock().now().since(began);
    assert!(took >= Span::from_secs(20) && took < Span::from_secs(22), "{took:?}");
    rig.device.flush().unwrap();
    let mut data = [0; 4096];
    rig.device.read_at(&mut data, 0).unwrap();
    assert_eq!(data, [4; 4096]);
    assert!(text(&rig.device, "path b").starts_with("down (the device is gone)"));
}

/// The disk behind one path does not answer, so its queue refuses everything. That is no sign that the path works, and what it
/// has is not sent through the other one.
#[test]
fn a_path_that_is_silent_is_used_again_only_when_the_disk_answers() {
    let patient = || Options::default().with_command_timeout(Span::from_secs(600));
    let queue = Settings { timeout: Some(Span::from_secs(1)), ..Settings::default() };
    let settings = DiskSettings::default().with_queue(queue);
    let rig = rig_with(&[("check_interval", 1000)], [patient(), patient()], &settings);
    let clock = rig.world.clock();
    hang(&rig.sim, 60);
    let writes = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&writes);
    rig.sim.observe(move |command, _| {
        count.fetch_add(u64::from(command.op == Op::Write), Relaxed);
    });
    let (began, mut channel) = (clock.now(), rig.device.channel(1).unwrap());
    channel.submit(Bio::write(0, vec![2u8; 4096]).unwrap()).unwrap();
    let (mut done, mut data) = (Vec::new(), [0; 4096]);
    while channel.poll(&mut done) == 0 {
        clock.advance_to(clock.now() + Span::from_millis(500));
        rig.device.read_at(&mut data, 8192).unwrap();
        assert_eq!(writes.load(Relaxed), 1, "the other path has sent it before this one returned it");
        let (told, waited) = (text(&rig.device, "path a"), clock.now().since(began));
        if waited > Span::from_secs(4) && waited < Span::from_secs(60) {
            assert!(told.starts_with("down (the device is gone)"), "{waited:?}: {told}");
        }
    }
    assert!(clock.now().since(began) >= Span::from_secs(60));
    assert_eq!(done[0].status(), Ok(()));
    rig.device.write_at(&[4; 4096], 0).unwrap();
    for _ in 0..10 {
        clock.advance_to(clock.now() + Span::from_millis(500));
        rig.device.read_at(&mut data, 0).unwrap();
        assert_eq!(data, [4; 4096]);
    }
    assert_eq!(item(&rig.device, "paths up"), Value::Number(2));
    // Once, because the disk may have lost writes meanwhile.
    let flushes: Vec<_> = (0..4).map(|_| rig.device.flush().err().map(|error| error.fault.kind)).collect();
    assert_eq!(flushes, [Some(Kind::FlushFailed), None, None, None]);
}

/// A path answers a flush only after a minute. Meanwhile its disk is failed because of a write. Then the flush goes through the other
/// path, although no other I/O finds that the first one fails.
#[test]
fn a_flush_leaves_a_path_whose_disk_is_failed() {
    let patient = || Options::default().with_command_timeout(Span::from_secs(3600));
    let queue = Settings { timeout: Some(Span::from_secs(10)), ..Settings::default() };
    let settings = DiskSettings::default().with_queue(queue);
    let rig = rig_with(&[], [patient(), patient()], &settings);
    let first = layer("delay", &[("flush", 60_000_000)], Arc::clone(&rig.paths[0]));
    let paths = vec![first, Arc::clone(&rig.paths[1])];
    let params = [("check_interval", 1000)];
    let device = Device::new(platter_stack::by_name("multipath").unwrap().make(&params, paths).unwrap());
    let clock = rig.world.clock();
    rig.ports[1].set_faults(away());
    (0..4).for_each(|_| device.write_at(&[1; 4096], 0).unwrap());
    assert!(text(&device, "path b").starts_with("down"));
    hang(&rig.sim, 600);
    let (mut channel, mut done) = (device.channel(4).unwrap(), Vec::new());
    channel.submit(Bio::write(0, vec![2u8; 4096]).unwrap()).unwrap();
    channel.flush();
    rig.ports[1].set_faults(FaultPlan::default());
    let mut pass = |channel: &mut Channel| {
        clock.advance_to(clock.now() + Span::from_millis(500));
        channel.poll(&mut done);
        done.pop()
    };
    (0..6).for_each(|_| assert!(pass(&mut channel).is_none()));
    assert_eq!(item(&device, "paths up"), Value::Number(2));
    let began = clock.now();
    channel.submit(Bio::flush()).unwrap();
    let flushed = std::iter::repeat_with(|| pass(&mut channel)).take(60).flatten().next();
    assert_eq!(flushed.map(|bio| (bio.op(), bio.status())), Some((Op::Flush, Ok(()))));
    let waited = clock.now().since(began);
    assert!(waited > Span::from_secs(15), "until the disk was failed: {waited:?}");
    assert!(text(&device, "path a").starts_with("down"));
}
