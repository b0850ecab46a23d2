//! Failures below, and which callers are told.

use crate::hand;
use crate::rig::{self, small};
use crate::script::{Hand, Script};
use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::driver::Geometry;
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::lane::Lane;
use platter_block::limits::{LimitSource, Limits};
use platter_block::time::Span;
use platter_cache::{self as cache, Settings, Write};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::IoOptions;
use platter_sim::World;
use platter_sim::fault::{BadSectors, FaultPlan};
use platter_sim::ideal::Ideal;
use platter_stack::error_injection::{self, Plan};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const MIB: u64 = 1 << 20;

fn ram() -> Arc<dyn Backend> {
    Arc::clone(Device::ram(MIB).unwrap().backend())
}

fn failing(below: &Arc<dyn Backend>, op: Op, times: u64, errno: i32) -> Arc<dyn Backend> {
    let plan = Plan { op: Some(op), range: (0, u64::MAX), chance: 1_000_000, nth: 0, times, errno };
    error_injection::new(Arc::clone(below), plan, 1).unwrap()
}

fn errno(result: Result<(), Error>) -> u16 {
    result.expect_err("the device fails").fault.errno
}

/// After a failed flush the data is neither dropped nor treated as written (the fsync error handling that
/// Linux changed in 2018).
#[test]
fn each_handle_is_told_once_and_the_data_goes_later() {
    let disk = ram();
    let device = rig::cached(failing(&disk, Op::Write, 1, 5), &small(64));
    let (one, two) = (device.handle(), device.handle());
    one.write_at(&[7; 4096], 8192).unwrap();
    assert_eq!(errno(one.flush()), 5);
    let late = device.handle();
    // The data stays in memory, and the next flush writes it.
    let mut found = [0; 4096];
    one.read_at(&mut found, 8192).unwrap();
    assert_eq!(found, [7; 4096]);
    late.flush().unwrap();
    Device::new(Arc::clone(&disk)).read_at(&mut found, 8192).unwrap();
    assert_eq!(found, [7; 4096]);
    // The other handle may have written the data, so it gets the error although write-back works again; later
    // flushes of both succeed.
    assert_eq!(errno(two.flush()), 5);
    [&one, &two, &late].into_iter().for_each(|handle| handle.flush().unwrap());
}

#[test]
fn a_disk_that_is_full_fails_writers_and_loses_nothing() {
    let disk = ram();
    let device = rig::cached(failing(&disk, Op::Write, 30, 28), &small(64));
    let handle = device.handle();
    // At most a fifth of 64 pages may be dirty.
    let failed = (0..64u64).find(|&page| handle.write_at(&[page as u8; 4096], page * 4096).is_err());
    let written = failed.expect("a writer over the limit is told");
    assert!((8..=16).contains(&written), "{written}");
    assert_eq!(errno(handle.write_at(&[99; 4096], 60 * 4096)), 28);
    assert_eq!(errno(handle.flush()), 28);
    let tries = (0..40).position(|_| handle.flush().is_ok());
    assert!(tries.is_some(), "there is room again after 30 writes");
    let mut found = [0; 4096];
    for page in 0..written {
        Device::new(Arc::clone(&disk)).read_at(&mut found, page * 4096).unwrap();
        assert_eq!(found, [page as u8; 4096], "page {page}");
    }
}

/// A simulated disk with sectors that cannot be used, and a cache over it.
fn bad_sectors(reads: bool, sectors: std::ops::Range<u64>, write: Write) -> Device {
    let ideal = Ideal { size: MIB, latency: Span::from_micros(10), depth: 8, write_cache: true };
    let bad = vec![BadSectors { sectors, reads, writes: !reads }];
    let plan = FaultPlan { bad, ..FaultPlan::default() };
    let (disk, _) = rig::disk(&World::new(1), ideal, Some(plan));
    let settings = Settings { write, window: 131_072, ..small(128) };
    rig::cached(rig::backend(&disk, DiskSettings::default()), &settings)
}

#[test]
fn only_a_read_of_the_bad_sector_fails() {
    let device = bad_sectors(true, 37..38, Write::Back);
    let (handle, mut block) = (device.handle(), [0; 512]);
    for sector in 0..128 {
        let read = handle.read_at(&mut block, sector * 512);
        assert_eq!(read.is_err(), sector == 37, "sector {sector}: {read:?}");
    }
    let mut whole = vec![0; 37 * 512];
    handle.read_at(&mut whole, 0).unwrap();
    handle.read_at(&mut whole, 38 * 512).unwrap();
    let error = handle.read_at(&mut vec![0; 65536], 0).unwrap_err();
    assert_eq!(error.fault.kind, Kind::Io);
    // A write corrects it: it does not need the old contents of the sector.
    handle.write_at(&[1; 512], 37 * 512).unwrap();
    handle.read_at(&mut vec![0; 65536], 0).unwrap();
}

#[test]
fn the_neighbours_of_a_bad_sector_are_written() {
    let device = bad_sectors(false, 37..38, Write::Back);
    let below = Device::new(Arc::clone(&device.backend().below()[0]));
    let handle = device.handle();
    (0..16u64).for_each(|page| handle.write_at(&[1; 4096], page * 4096).unwrap());
    assert_eq!(errno(handle.flush()), 5);
    assert_eq!(errno(handle.flush()), 5);
    let mut page = [0; 4096];
    for at in (0..16).filter(|&at| at != 4) {
        below.read_at(&mut page, at * 4096).unwrap();
        assert_eq!(page, [1; 4096], "page {at}");
    }
    handle.flush_range(0, 4 * 4096).unwrap();
}

#[test]
fn through_the_cache_only_the_writer_of_the_bad_sector_fails() {
    let device = bad_sectors(false, 37..38, Write::Through);
    let handle = device.handle();
    for sector in 32..40 {
        let wrote = handle.write_at(&[2; 512], sector * 512);
        assert_eq!(wrote.is_err(), sector == 37, "sector {sector}: {wrote:?}");
    }
    let mut page = [0; 4096];
    handle.read_at(&mut page, 32 * 512).unwrap();
    let found: Vec<u8> = page.chunks(512).map(|sector| sector[0]).collect();
    assert_eq!(found, [2, 2, 2, 2, 2, 0, 2, 2]);
}

/// A write through the cache whose flush fails does not take newer data of the same page with it, whose writer has not begun to
/// write it: that writer's success would say that the data is on the disk.
#[test]
fn a_write_through_the_cache_that_fails_leaves_newer_data() {
    let script = Script::new("script", MIB);
    let settings = Settings { write: Write::Through, window: 0, ..small(64) };
    let device = cache::new(script.backend(), &settings).unwrap();
    let mut lane = Hand::on(&device);
    let write = |token: u64, flags: Flags| {
        let mut bio = Bio::write(4096, vec![token as u8; 4096]).unwrap();
        bio.set_token(token);
        bio.add_flags(flags);
        bio
    };
    let reaches = |lane: &mut Hand, op: Op| {
        let sent =
            (0..64).any(|_| lane.kinds(0).is_empty() && script.seen().iter().any(|seen| seen.op == op));
        assert!(sent, "no {op} reaches the device");
    };
    // The device has the flush of one write, and then the data of the next.
    script.hold_only(Op::Flush);
    lane.submit(0, write(1, Flags::FUA));
    reaches(&mut lane, Op::Flush);
    script.hold(true);
    lane.submit(0, write(2, Flags::default()));
    reaches(&mut lane, Op::Write);
    // The third waits for that.
    lane.submit(0, write(3, Flags::default()));
    assert!((0..8).all(|_| lane.kinds(0).is_empty()) && script.seen().is_empty());
    // The flush fails in the turn in which the second write ends.
    script.fail_at(Some((0, Fault::new(Kind::Io, Stage::Disk))));
    script.hold(false);
    let mut ended: Vec<_> = (0..64).flat_map(|_| lane.kinds(0)).collect();
    ended.sort_by_key(|&(token, _)| token);
    assert_eq!(ended, [(1, Some(Kind::Io)), (2, None), (3, None)]);
    let seen: Vec<_> = script.seen().iter().map(|seen| (seen.op, seen.pos, seen.len)).collect();
    assert_eq!(seen, [(Op::Write, 4096, 4096)]);
}

#[test]
fn a_flush_that_the_device_refuses_is_refused() {
    let device = rig::cached(failing(&ram(), Op::Flush, 1, 5), &small(16));
    device.write_at(&[1; 4096], 0).unwrap();
    assert_eq!(errno(device.flush()), 5);
    device.flush().unwrap();
    let device = rig::cached(failing(&ram(), Op::Flush, 0, 5), &small(16));
    assert!(device.write_at_with(&[1; 512], 0, IoOptions::flags(Flags::HARD_BARRIER)).is_err());
    assert!(device.flush().is_err());
}

/// A device that calls an I/O complete and has done half of it: the rest is neither clean nor valid. On the shared lane, and on
/// that of a caller which sleeps.
#[test]
fn what_a_device_has_done_in_part_has_failed() {
    for lane_use in [LaneUse::Exclusive, LaneUse::Synchronous] {
        let script = Script::new("script", MIB);
        let device = cache::new(script.backend(), &Settings { window: 0, ..small(64) }).unwrap();
        let mut lane = Hand::by(&device, lane_use);
        let read = || {
            let mut bio = Bio::read(65536, vec![0u8; 4096]).unwrap();
            bio.add_flags(Flags::BORROWED);
            bio
        };
        assert_eq!(hand::run(&mut lane, 0, Bio::write(0, vec![7u8; 4096]).unwrap()), None);
        script.cut_short(true);
        assert_eq!(hand::run(&mut lane, 0, Bio::flush()), Some(Kind::Short), "{lane_use:?}");
        assert_eq!(hand::run(&mut lane, 0, read()), Some(Kind::Short), "{lane_use:?}");
        script.cut_short(false);
        script.seen();
        assert_eq!(hand::run(&mut lane, 0, Bio::flush()), None, "{lane_use:?}");
        assert_eq!(hand::run(&mut lane, 0, read()), None, "{lane_use:?}");
        let seen: Vec<_> = script.seen().iter().map(|seen| (seen.op, seen.pos, seen.len)).collect();
        let expected = [(Op::Write, 0, 4096), (Op::Flush, 0, 0), (Op::Read, 65536, 4096)];
        assert_eq!(seen, expected, "{lane_use:?}");
    }
}

/// A flush of a range writes that range to the disk, and no other pages.
#[test]
fn a_flush_of_a_range_writes_the_range() {
    let disk = ram();
    let device = rig::cached(Arc::clone(&disk), &small(64));
    (0..6u64).for_each(|page| device.write_at(&[3; 4096], page * 4096).unwrap());
    device.flush_range(2 * 4096 + 512, 4096).unwrap();
    let below = Device::new(disk);
    let mut page = [0; 4096];
    let there = (0..6u64).map(|at| below.read_at(&mut page, at * 4096).map(|()| page == [3; 4096]).unwrap());
    assert_eq!(there.collect::<Vec<_>>(), [false, false, true, true, false, false]);
}

/// Stuck commands are aborted; nothing hangs, and no written data is lost.
#[test]
fn timeouts_of_fills_and_of_write_backs_end() {
    let ideal = Ideal { size: MIB, latency: Span::from_micros(10), depth: 8, write_cache: false };
    let world = World::new(1);
    let (disk, _) = rig::disk(&world, ideal, None);
    let mut settings = DiskSettings::default();
    settings.queue.timeout = Some(Span::from_millis(10));
    let device = rig::cached(rig::backend(&disk, settings), &small(32));
    let mut page = [0; 4096];
    device.write_at(&[5; 4096], 0).unwrap();
    device.write_at(&[6; 512], 65536).unwrap();
    disk.set_faults(Some(FaultPlan {
        stuck_chance: 1_000_000,
        stuck: Span::from_secs(3600),
        abort_chance: 1_000_000,
        ..FaultPlan::default()
    }));
    let timed_out = |result: Result<(), Error>| assert_eq!(result.unwrap_err().fault.kind, Kind::TimedOut);
    timed_out(device.flush());
    timed_out(device.read_at(&mut page, 40960));
    timed_out(device.read_at(&mut page, 65536));
    device.write_at(&[7; 4096], 0).unwrap();
    disk.set_faults(None);
    disk.release_stuck();
    world.clock().advance_to(world.clock().now() + Span::from_secs(10));
    // The device reports the errors so far once more.
    let _ = device.flush();
    device.flush().unwrap();
    device.read_at(&mut page, 40960).unwrap();
    device.read_at(&mut page, 65536).unwrap();
    assert_eq!((page[0], page[512]), (6, 0));
    let below = Device::new(Arc::clone(&device.backend().below()[0]));
    below.read_at(&mut page, 0).unwrap();
    assert_eq!(page, [7; 4096]);
}

/// A disk on which no further lane can be opened, as when the process has no file descriptors left.
struct Exhausted {
    below: Arc<dyn Backend>,
    is_out: AtomicBool,
}

impl LimitSource for Exhausted {
    fn limits_at(&self, pos: u64) -> (Limits, u64) {
        self.below.limits_at(pos)
    }
}

impl Backend for Exhausted {
    fn name(&self) -> Arc<str> {
        self.below.name()
    }

    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn open_lane(&self, lane_use: LaneUse) -> Result<Box<dyn Lane>, Error> {
        if self.is_out.load(SeqCst) {
            let fault = Fault::new(Kind::NoMemory, Stage::Driver);
            let (device, detail) = (self.name(), String::new());
            return Err(Error { fault, op: Op::Read, device, offset: 0, len: 0, detail });
        }
        self.below.open_lane(lane_use)
    }
}

#[test]
fn the_last_write_back_needs_no_new_lane() {
    let disk = ram();
    let below = Arc::new(Exhausted { below: Arc::clone(&disk), is_out: AtomicBool::new(false) });
    let device = rig::cached(Arc::clone(&below) as Arc<dyn Backend>, &small(64));
    device.write_at(&[9; 4096], 4096).unwrap();
    below.is_out.store(true, SeqCst);
    drop(device);
    let mut found = [0; 4096];
    Device::new(disk).read_at(&mut found, 4096).unwrap();
    assert_eq!(found, [9; 4096]);
}
