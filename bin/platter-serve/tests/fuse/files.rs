//! What a program can do with the file of a device.

use crate::rig::{Mounted, PATIENCE, SIZE, errno};
use platter_block::bio::Op;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_serve::export::Options;
use platter_serve::qos::DeviceLimits;
use platter_serve::served::Served;
use platter_serve::server::Server;
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_stack::filter::{BioView, Filter, Filtered};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn simulated() -> Device {
    let ideal = Ideal { size: SIZE, latency: Span(1000), depth: 8, write_cache: true };
    let disk = SimDisk::new(&World::new(1), ideal.into(), Some(Medium::new()));
    Device::from_disk(disk.attach("sim"), Default::default(), None).unwrap()
}

/// Random reads, writes and zeroes of any alignment against a model, by several threads on parts of their own.
#[test]
fn what_is_written_is_read_through_the_file() {
    let mut cached = Options::default();
    cached.kernel_cache = true;
    let mut limits = DeviceLimits::default();
    (limits.depth, limits.bandwidth) = (2, 1 << 30);
    for (device, options, limits) in [
        (Device::ram(SIZE).unwrap(), Options::default(), DeviceLimits::default()),
        (Device::ram(SIZE).unwrap(), cached, DeviceLimits::default()),
        (Device::ram(SIZE).unwrap(), Options::default(), limits),
        (simulated(), Options::default(), DeviceLimits::default()),
    ] {
        let served = Served::new("disk", device.clone()).unwrap();
        served.qos().set_device(limits).unwrap();
        let Some(mut mounted) = Mounted::new(vec![served], &options) else { return };
        let part = SIZE / 3;
        let lives = (0..3u64).map(|number| {
            let file = mounted.open();
            thread::spawn(move || live(&file, number, number * part, part))
        });
        let lives: Vec<_> = lives.collect();
        let models: Vec<Vec<u8>> = lives.into_iter().map(|life| life.join().unwrap()).collect();
        mounted.stop(PATIENCE).unwrap();
        let mut found = vec![0; part as usize];
        for (number, model) in models.iter().enumerate() {
            device.read_at(&mut found, number as u64 * part).unwrap();
            assert!(found == *model, "part {number} of {}", device.name());
        }
    }
}

/// The parts are not aligned, so that neighbours share a block.
fn live(file: &File, seed: u64, begin: u64, part: u64) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut below = |n: u64| random.next_u64() % n;
    let mut model = vec![0u8; part as usize];
    for round in 0..200 {
        let len = 1 + below(if round % 20 == 0 { 300_000 } else { 20_000 });
        let mut at = below(part - len);
        if below(3) > 0 {
            at = ((begin + at).next_multiple_of(4096) - begin).min(part - len);
        }
        let range = at as usize..(at + len) as usize;
        match below(8) {
            0..3 => {
                model[range.clone()].fill(below(256) as u8);
                file.write_all_at(&model[range], begin + at).unwrap();
            }
            3 => {
                model[range].fill(0);
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(file, mode, begin + at, len).unwrap();
            }
            4 => file.sync_data().unwrap(),
            _ => {
                let mut found = vec![1; len as usize];
                file.read_exact_at(&mut found, begin + at).unwrap();
                assert!(found == model[range], "seed {seed}, round {round}: {len} at {at}");
            }
        }
    }
    model
}

#[test]
fn the_end_of_the_device_is_the_end_of_the_file() {
    let Some(mounted) = Mounted::of(Device::ram(SIZE).unwrap()) else { return };
    let file = mounted.open();
    assert_eq!(file.metadata().unwrap().len(), SIZE);
    assert_eq!(file.read_at(&mut [0; 16], SIZE).unwrap(), 0);
    assert_eq!(file.read_at(&mut [0; 16], SIZE - 3).unwrap(), 3);
    assert_eq!(file.write_at(&[1; 16], SIZE - 3).unwrap(), 3);
    assert_eq!(errno(file.write_at(&[1; 16], SIZE)), Errno::NOSPC);
    assert_eq!(errno(file.set_len(SIZE / 2)), Errno::PERM);
    file.set_len(SIZE).unwrap();
    assert_eq!(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 4096), Err(Errno::OPNOTSUPP));
    let beyond = rustix::fs::fallocate(&file, FallocateFlags::ZERO_RANGE, SIZE - 512, 1024);
    assert_eq!(beyond, Err(Errno::NOSPC));
}

#[test]
fn a_device_that_grows_is_a_file_that_grows() {
    let image = tempfile::NamedTempFile::new().unwrap();
    image.as_file().set_len(SIZE).unwrap();
    let spec = image.path().to_str().unwrap();
    let device = platter::registry::open(spec, platter::registry::Access::read_write()).unwrap();
    let mut cached = Options::default();
    cached.kernel_cache = true;
    let mut size = SIZE;
    for options in [Options::default(), cached] {
        let served = Served::new("disk", device.clone()).unwrap();
        let Some(mounted) = Mounted::new(vec![served], &options) else { return };
        let file = mounted.open();
        let mut found = [1; 4096];
        assert_eq!(file.read_at(&mut found, size).unwrap(), 0);
        assert_eq!(errno(file.write_at(&found, size)), Errno::NOSPC);
        image.as_file().set_len(size + 8192).unwrap();
        device.refresh().unwrap();
        assert_eq!(file.metadata().unwrap().len(), size + 8192);
        assert_eq!(rustix::fs::seek(&file, SeekFrom::End(0)), Ok(size + 8192));
        file.write_all_at(&[7; 4096], size + 4096).unwrap();
        file.read_exact_at(&mut found, size + 4096).unwrap();
        assert_eq!(found, [7; 4096]);
        size += 8192;
    }
}

/// The files are the devices: no name comes, goes or changes.
#[test]
fn names_cannot_be_made_removed_or_changed() {
    use rustix::fs::{CWD, FileType, Mode, OFlags, RenameFlags};
    let served = Served::new("disk", Device::ram(SIZE).unwrap()).unwrap();
    let Some(mounted) = Mounted::new(vec![served], &Options::default()) else { return };
    let (disk, new) = (mounted.path(), mounted.path().with_file_name("new"));
    let mode = Mode::RUSR;
    for (what, result) in [
        ("create", rustix::fs::open(&new, OFlags::CREATE | OFlags::RDWR, mode).map(drop)),
        ("mknod", rustix::fs::mknodat(CWD, &new, FileType::RegularFile, mode, 0)),
        ("mkdir", rustix::fs::mkdir(&new, mode)),
        ("symlink", rustix::fs::symlink("disk", &new)),
        ("link", rustix::fs::link(&disk, &new)),
        ("unlink", rustix::fs::unlink(&disk)),
        ("rename", rustix::fs::rename(&disk, &new)),
        ("rename2", rustix::fs::renameat_with(CWD, &disk, CWD, &new, RenameFlags::NOREPLACE)),
    ] {
        assert_eq!(result, Err(Errno::PERM), "{what}");
    }
    // One that exists is opened all the same.
    rustix::fs::open(&disk, OFlags::CREATE | OFlags::RDWR, mode).unwrap();
}

#[test]
fn memory_for_less_than_a_request_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::default();
    server.devices().add(Served::new("disk", Device::ram(SIZE).unwrap()).unwrap()).unwrap();
    let mut options = Options::default();
    options.client_memory_bytes = (2 << 20) - 1;
    let error = server.start("fuse", directory.path().to_str().unwrap(), &options).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("2097152"), "{error}");
}

/// With memory for one request, requests wait for each other: aligned ones and others.
#[test]
fn requests_wait_for_memory() {
    let mut options = Options::default();
    options.client_memory_bytes = 2 << 20;
    let served = Served::new("disk", Device::ram(SIZE).unwrap()).unwrap();
    let Some(mounted) = Mounted::new(vec![served], &options) else { return };
    let lives = (0..4u64).map(|number| {
        let file = mounted.open();
        thread::spawn(move || {
            let (at, mut found) = (number << 20, vec![0; (1 << 20) - 600]);
            for round in 0..20 {
                let begin = at + round % 2 * 100;
                found.fill(round as u8);
                file.write_all_at(&found, begin).unwrap();
                found.fill(0xee);
                file.read_exact_at(&mut found, begin).unwrap();
                assert!(found.iter().all(|byte| *byte == round as u8), "round {round}");
            }
        })
    });
    let lives: Vec<_> = lives.collect();
    lives.into_iter().for_each(|life| life.join().unwrap());
}

#[test]
fn holes_are_found() {
    let device = Device::ram(SIZE).unwrap();
    device.write_at(&[1; 8192], 1 << 20).unwrap();
    let Some(mounted) = Mounted::of(device) else { return };
    let file = mounted.open();
    let seek = |from| rustix::fs::seek(&file, from);
    assert_eq!(seek(SeekFrom::Data(0)), Ok(1 << 20));
    assert_eq!(seek(SeekFrom::Hole(0)), Ok(0));
    assert_eq!(seek(SeekFrom::Hole(1 << 20)), Ok((1 << 20) + 8192));
    assert_eq!(seek(SeekFrom::Data((1 << 20) + 8192)), Err(Errno::NXIO));
    assert_eq!(seek(SeekFrom::Hole(SIZE)), Err(Errno::NXIO));
}

#[test]
fn a_read_only_device_is_a_read_only_file() {
    let served = Served::new("disk", Device::ram(SIZE).unwrap()).unwrap().read_only();
    let Some(mounted) = Mounted::new(vec![served], &Options::default()) else { return };
    assert_eq!(errno(OpenOptions::new().write(true).open(mounted.path())), Errno::ROFS);
    File::open(mounted.path()).unwrap().read_exact_at(&mut [0; 512], 0).unwrap();
    assert_eq!(errno(File::open(mounted.directory.path().join("other"))), Errno::NOENT);
}

/// Fails flushes while it is told to.
#[derive(Clone)]
struct FailFlush(Arc<AtomicBool>);

impl Filter for FailFlush {
    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        match bio.op() {
            Op::Flush if self.0.load(Ordering::Relaxed) => Err(Fault::new(Kind::Io, Stage::Disk)),
            _ => Ok(now),
        }
    }
}

#[test]
fn fsync_is_a_flush_and_fails_with_it() {
    let fails = Arc::new(AtomicBool::new(false));
    let ram = Device::ram(SIZE).unwrap();
    let layer = Filtered::new("fail-flush", "", Arc::clone(ram.backend()), FailFlush(Arc::clone(&fails)));
    let Some(mounted) = Mounted::of(Device::new(Arc::new(layer))) else { return };
    let file = mounted.open();
    file.write_all_at(&[1; 512], 0).unwrap();
    file.sync_all().unwrap();
    fails.store(true, Ordering::Relaxed);
    assert_eq!(errno(file.sync_all()), Errno::IO);
    fails.store(false, Ordering::Relaxed);
    file.sync_all().unwrap();
    let client = mounted.server.as_ref().unwrap().clients().list().pop().unwrap();
    let [flushes, errors, writes, bytes] =
        [&client.counts.flushes, &client.counts.errors, &client.counts.writes, &client.counts.written_bytes]
            .map(|count| count.load(Ordering::Relaxed));
    assert_eq!((flushes, errors, writes, bytes), (2, 1, 1, 512));
}

#[test]
fn several_devices_are_several_files() {
    let devices = ["a", "b", "c"].map(|name| (name, Device::ram(SIZE).unwrap()));
    let served = devices.iter().map(|(name, device)| Served::new(name, device.clone()).unwrap());
    let Some(mounted) = Mounted::new(served.collect(), &Options::default()) else { return };
    let mut names: Vec<String> = fs::read_dir(mounted.directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["a", "b", "c"]);
    for (at, (name, device)) in devices.iter().enumerate() {
        let file = OpenOptions::new().write(true).open(mounted.directory.path().join(name)).unwrap();
        file.write_all_at(&[at as u8 + 1; 4096], 8192).unwrap();
        let mut found = [0; 4096];
        device.read_at(&mut found, 8192).unwrap();
        assert_eq!(found, [at as u8 + 1; 4096]);
    }
}
