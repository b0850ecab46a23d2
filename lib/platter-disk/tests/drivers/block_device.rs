//! A block device: a loop device over a file, when the tests run as root.

use crate::bench::{Bench, Pages, SIZE, file, file_options, flags, is_here, open, transfer};
use crate::loops::{Loop, Shape};
use crate::nodes::{on_nodes, over_memory};
use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::event::{DeviceEvent, Watcher};
use platter_block::fault::Kind;
use platter_disk::device::Device;
use platter_disk::drivers::table::{Medium, TABLE};
use platter_disk::drivers::{Choice, FileDisk, FileDriver};
use platter_disk::open::DiskOptions;
use platter_disk::sys::{Direct, OpenOptions};
use std::process::Command;
use std::sync::{Arc, Weak};

const USES: [LaneUse; 3] = [LaneUse::Exclusive, LaneUse::Shared, LaneUse::Synchronous];

#[test]
fn a_block_device_is_written_read_flushed_discarded_and_zeroed() {
    for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
        let file = file(SIZE);
        let Some(device) = Loop::over(file.path(), Shape::PLAIN) else { return };
        for lane_use in [LaneUse::Exclusive, LaneUse::Shared] {
            let disk = open(&device.path, file_options(row, 16), Direct::Require);
            let geometry = *disk.geometry();
            assert_eq!(geometry.size, SIZE, "{}", row.name);
            let mut bench = Bench::new(geometry, 16, disk.channel(lane_use).unwrap());
            for pos in 0..16u64 {
                bench.submit(transfer(Op::Write, pos * 65536, Pages::new(16, 9), &[512, 8192]));
            }
            bench.submit(Bio::flush());
            let done = bench.finish();
            assert_eq!(done.len(), 17, "{}", row.name);
            done.iter().for_each(|bio| assert_eq!(bio.status(), Ok(()), "{} {bio:?}", row.name));
            assert!(geometry.limits.write_zeroes);
            bench.submit(Bio::new(Op::WriteZeroes, 65536, 65536));
            if geometry.limits.discard_granularity > 0 {
                bench.submit(Bio::new(Op::Discard, 262_144, 65536));
            }
            bench.submit(transfer(Op::Read, 0, Pages::new(1, 0), &[]));
            let done = bench.finish();
            done.iter().for_each(|bio| assert_eq!(bio.status(), Ok(()), "{} {bio:?}", row.name));
            let mut read = bench.one(transfer(Op::Read, 0, Pages::new(64, 1), &[]));
            let back: Pages = read.take_buffer().unwrap();
            let wrong = (0..back.len())
                .find(|at| back.byte(*at) != if (65536..131_072).contains(at) { 0 } else { 9 });
            assert_eq!(wrong, None, "{}", row.name);
        }
    }
}

/// zram takes pieces of memory that are not aligned to pages for whole pages.
#[test]
fn memory_beside_that_of_a_transfer_is_left_alone() {
    let data: Vec<u8> = (0..SIZE / 4).map(|at| (at % 251) as u8 | 1).collect();
    on_nodes(|node, path| {
        for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
            let mut options = DiskOptions::read_write();
            options.file.driver = row.name.parse().unwrap();
            let device = Device::open(path, options).unwrap();
            for (shift, len) in
                [1, 4, 64, 512, 1024, 3584, 4096].into_iter().flat_map(|at| [(at, 4096), (at, 40960)])
            {
                let name = format!("{} on {node}: {len} bytes at an address of {shift}", row.name);
                let mut room = Pages::new(32, 0xee);
                let range = 4 * 4096 + shift..4 * 4096 + shift + len;
                let bytes = room.bytes();
                bytes[range.clone()].copy_from_slice(&data[..len]);
                device.write_at(&bytes[range.clone()], 8192).unwrap();
                bytes.fill(0xee);
                device.read_at(&mut bytes[range.clone()], 8192).unwrap();
                assert!(bytes[range.clone()] == data[..len], "{name}");
                let beside = bytes[..range.start].iter().chain(&bytes[range.end..]);
                assert!(beside.copied().all(|byte| byte == 0xee), "{name}");
            }
        }
    });
}

#[test]
fn a_read_only_device_is_read_at_depth_and_refuses_changes() {
    let plain = Shape { read_only: true, ..Shape::PLAIN };
    for shape in [plain, Shape { block: 4096, ..plain }, Shape { direct: true, partitioned: true, ..plain }] {
        let Some((path, _device, _memory)) = over_memory(shape, 7) else { return };
        for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
            let name = format!("{shape:?} {}", row.name);
            let refused = OpenOptions::read_write().open(&path).unwrap_err().to_string();
            assert!(refused.contains("read-only"), "{name}: {refused}");
            for lane_use in [LaneUse::Exclusive, LaneUse::Shared, LaneUse::Synchronous] {
                for direct in [Direct::Require, Direct::Off] {
                    let disk = OpenOptions::read_only().with_direct(direct).open(&path).unwrap();
                    let disk = FileDisk::new(disk, file_options(row, 8)).unwrap();
                    assert!(disk.geometry().features.read_only, "{name}");
                    let mut bench = Bench::new(*disk.geometry(), 8, disk.channel(lane_use).unwrap());
                    read_only(&name, &mut bench);
                }
            }
        }
    }
}

fn read_only(name: &str, bench: &mut Bench) {
    for block in (0..SIZE).step_by(16384) {
        bench.submit(transfer(Op::Read, block, Pages::new(4, 1), &[4096]));
        bench.submit(Bio::new(Op::Discard, block, 4096));
        bench.submit(transfer(Op::Write, block, Pages::new(1, 9), &[]));
        bench.submit(Bio::new(Op::WriteZeroes, block, 4096));
    }
    bench.submit(Bio::flush());
    let done = bench.finish();
    assert_eq!(done.len() as u64, SIZE / 16384 * 4 + 1, "{name}");
    for mut bio in done {
        match bio.op() {
            Op::Read => {
                assert_eq!(bio.status(), Ok(()), "{name} {bio:?}");
                let back: Pages = bio.take_buffer().unwrap();
                assert!((0..back.len()).all(|at| back.byte(at) == 7), "{name}");
            }
            Op::Flush => assert_eq!(bio.status(), Ok(()), "{name}"),
            _ => assert_eq!(bio.status().map_err(|fault| fault.kind), Err(Kind::ReadOnly), "{name} {bio:?}"),
        }
    }
}

/// Events that a device reported.
#[derive(Default)]
struct Notes(std::sync::Mutex<Vec<DeviceEvent>>);

impl Watcher for Notes {
    fn event(&self, event: &DeviceEvent) {
        self.0.lock().unwrap().push(event.clone());
    }
}

#[test]
fn a_block_device_that_is_resized_is_used_to_its_new_end() {
    for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
        let file = file(SIZE);
        let Some(node) = Loop::over(file.path(), Shape::PLAIN) else { return };
        let mut options = DiskOptions::read_write();
        options.file.driver = row.name.parse().unwrap();
        let device = Device::open(&node.path, options).unwrap();
        let notes = Arc::new(Notes::default());
        device.watch(Arc::downgrade(&notes) as Weak<dyn Watcher>);
        let resize = |size: u64| {
            file.as_file().set_len(size).unwrap();
            node.resize();
        };
        resize(2 * SIZE);
        device.refresh().unwrap();
        assert_eq!(device.size(), 2 * SIZE, "{}", row.name);
        device.write_at(&[7; 4096], 2 * SIZE - 4096).unwrap();
        let mut back = [0; 4096];
        device.read_at(&mut back, 2 * SIZE - 4096).unwrap();
        assert_eq!(back, [7; 4096], "{}", row.name);
        resize(SIZE);
        // Noticed without a refresh, by the error or at the flush.
        assert!(device.read_at(&mut back, 2 * SIZE - 4096).is_err(), "{}", row.name);
        let _ = device.flush();
        let text = device.read_at(&mut back, 2 * SIZE - 4096).unwrap_err().to_string();
        assert!(text.contains("the device shrank from"), "{}: {text}", row.name);
        let (grown, cut) = (
            DeviceEvent::Resized { from: SIZE, to: 2 * SIZE },
            DeviceEvent::Resized { from: 2 * SIZE, to: SIZE },
        );
        assert_eq!(*notes.0.lock().unwrap(), [grown, cut], "{}", row.name);
    }
}

/// A write beyond the end of a block device that has shrunk fails for want of space, not as short. The size is measured
/// nevertheless, so that what asks for it later gets the present one.
#[test]
fn a_write_that_fails_on_a_device_that_shrank_makes_its_size_known() {
    for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
        let file = file(SIZE);
        let Some(node) = Loop::over(file.path(), Shape::PLAIN) else { return };
        let mut options = DiskOptions::read_write();
        options.file.driver = row.name.parse().unwrap();
        let device = Device::open(&node.path, options).unwrap();
        file.as_file().set_len(SIZE / 2).unwrap();
        node.resize();
        assert!(device.write_at(&[7; 4096], SIZE - 4096).is_err(), "{}", row.name);
        assert_eq!(device.size(), SIZE / 2, "{}", row.name);
        let error = device.write_at(&[7; 4096], SIZE - 4096).unwrap_err();
        assert_eq!(error.fault.kind, Kind::Gone, "{}: {error}", row.name);
        device.write_at(&[7; 4096], SIZE / 2 - 4096).unwrap();
    }
}

/// The kernel has no space on a device of size 0, and takes what is not a write for misaligned; a flush succeeds.
#[test]
fn a_block_device_that_vanishes_is_gone_for_every_operation() {
    for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
        for (direct, lane_use) in [Direct::Require, Direct::Off]
            .into_iter()
            .flat_map(|direct| USES.map(|lane_use| (direct, lane_use)))
        {
            let file = file(SIZE);
            let Some(node) = Loop::over(file.path(), Shape::PLAIN) else { return };
            let disk = open(&node.path, file_options(row, 4), direct);
            let mut bench = Bench::new(*disk.geometry(), 4, disk.channel(lane_use).unwrap());
            let name = format!("{} {direct:?} {lane_use:?}", row.name);
            assert_eq!(bench.one(Bio::flush()).status(), Ok(()), "{name}");
            file.as_file().set_len(0).unwrap();
            node.resize();
            for bio in [
                transfer(Op::Write, 8192, Pages::new(1, 7), &[]),
                transfer(Op::Read, 8192, Pages::new(1, 7), &[]),
                Bio::new(Op::WriteZeroes, 8192, 4096),
                Bio::new(Op::Discard, 8192, 4096),
                Bio::flush(),
            ] {
                let op = bio.op();
                // A device that cannot discard says so before anything is sent.
                if op == Op::Discard && disk.geometry().limits.discard_granularity == 0 {
                    continue;
                }
                let fault = bench.one(bio).status().unwrap_err();
                assert_eq!((fault.kind, fault.errno()), (Kind::Gone, libc::ENXIO), "{name} {op}");
            }
        }
    }
}

/// The device tells those who watch it, and works again when it has come back.
#[test]
fn a_block_device_that_vanishes_is_reported_as_removed_and_may_return() {
    for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
        let file = file(SIZE);
        let Some(node) = Loop::over(file.path(), Shape::PLAIN) else { return };
        let mut options = DiskOptions::read_write();
        options.file.driver = row.name.parse().unwrap();
        let device = Device::open(&node.path, options).unwrap();
        let notes = Arc::new(Notes::default());
        device.watch(Arc::downgrade(&notes) as Weak<dyn Watcher>);
        let resize = |size: u64| {
            file.as_file().set_len(size).unwrap();
            node.resize();
        };
        resize(0);
        let gone = |result: Result<(), platter_block::fault::Error>| {
            let error = result.unwrap_err();
            assert_eq!(error.fault.kind, Kind::Gone, "{}: {error}", row.name);
        };
        gone(device.write_at(&[7; 4096], 4096));
        assert_eq!(*notes.0.lock().unwrap(), [DeviceEvent::Removed], "{}", row.name);
        gone(device.read_at(&mut [0; 4096], 4096));
        gone(device.write_zeroes(4096, 4096));
        gone(device.flush());
        resize(SIZE);
        device.acknowledge_flush_failure();
        device.write_at(&[7; 4096], 4096).unwrap();
        device.flush().unwrap();
        assert_eq!(*notes.0.lock().unwrap(), [DeviceEvent::Removed, DeviceEvent::Returned], "{}", row.name);
    }
}

/// A ring that polls can be opened over everything, but only some devices can be polled. What opens works.
#[test]
fn a_disk_that_cannot_be_polled_is_refused_or_driven_otherwise() {
    let Some(row) = TABLE.iter().find(|row| row.name == "uring" && is_here(row)) else { return };
    let polled = |driver: Choice, path: &std::path::Path, direct| {
        let options = file_options(row, 4).with_driver(driver).with_iopoll(true);
        FileDisk::new(OpenOptions::read_write().with_direct(direct).open(path).unwrap(), options)
    };
    let read = |disk: &FileDisk| {
        let name = format!("{:?} {:?} direct={}", disk.disk().path, disk.chosen(), disk.disk().direct);
        let mut bench = Bench::new(*disk.geometry(), 4, disk.channel(LaneUse::Exclusive).unwrap());
        for op in [Op::Read, Op::Write] {
            assert_eq!(bench.one(transfer(op, 8192, Pages::new(1, 7), &[])).status(), Ok(()), "{op} {name}");
        }
        assert_eq!(bench.one(Bio::flush()).status(), Ok(()), "{name}");
    };
    let (plain, backing) = (file(SIZE), file(SIZE));
    let node = Loop::over(backing.path(), Shape::PLAIN);
    for path in [Some(plain.path()), node.as_ref().map(|node| &*node.path)].into_iter().flatten() {
        for direct in [Direct::Prefer, Direct::Off] {
            match polled("uring".parse().unwrap(), path, direct) {
                Ok(disk) => read(&disk),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("no uring: iopoll=on needs direct I/O on a device"), "{text}");
                }
            }
            let disk = polled(Choice::Auto, path, direct).unwrap();
            let why = disk.chosen().why_fell_back.clone().unwrap_or_default();
            assert!(disk.chosen().kind == FileDriver::Uring || why.contains("no uring: "), "{why}");
            assert!(disk.chosen().kind != FileDriver::Uring || direct != Direct::Off, "{path:?}");
            read(&disk);
        }
    }
}

/// A file system of one megabyte in memory, unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Option<Small> {
        let dir = tempfile::tempdir().unwrap();
        let options = ["-t", "tmpfs", "-o", "size=1M", "platter-test"];
        let mounted = Command::new("mount").args(options).arg(dir.path()).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Small(dir)),
            _ => {
                println!("skipped, no small file system (needs root)");
                None
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// For I/O through the page cache the kernel reports a failed write once to each open file. A durable write that
/// fails must not consume that report: the flush after it has to fail too.
#[test]
fn a_durable_write_that_fails_does_not_take_the_failure_from_the_flush() {
    let Some(small) = Small::new() else { return };
    for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
        for lane_use in [LaneUse::Exclusive, LaneUse::Shared, LaneUse::Synchronous] {
            let path = small.0.path().join("disk.img");
            std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
            let Some(device) = Loop::over(&path, Shape::PLAIN) else { return };
            let disk = open(&device.path, file_options(row, 16), Direct::Off);
            let mut bench = Bench::new(*disk.geometry(), 16, disk.channel(lane_use).unwrap());
            assert_eq!(bench.one(Bio::flush()).status(), Ok(()), "{} {lane_use:?}", row.name);
            // More than there is space for below the device.
            let durable = transfer(Op::Write, 4 << 20, Pages::new(512, 7), &[]);
            let failed = bench.one(flags(durable, Flags::FUA)).status();
            assert!(failed.is_err(), "{} {lane_use:?}", row.name);
            assert!(bench.one(Bio::flush()).status().is_err(), "{} {lane_use:?}", row.name);
            drop((bench, disk, device));
            std::fs::remove_file(&path).unwrap();
        }
    }
}

/// A file system that cannot punch holes: it refuses such operations as unsupported, so that the queue can write
/// zeroes instead, and everything else works.
#[test]
fn a_file_system_without_holes_refuses_to_make_them() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount").args(["-t", "ramfs", "platter-test"]).arg(dir.path()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return println!("skipped, no ramfs (needs root)");
    }
    let small = Small(dir);
    for row in TABLE.iter().filter(|row| row.medium == Medium::Path && is_here(row)) {
        for lane_use in [LaneUse::Exclusive, LaneUse::Shared, LaneUse::Synchronous] {
            let path = small.0.path().join("disk.img");
            std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
            let disk = open(&path, file_options(row, 4), Direct::Prefer);
            let mut bench = Bench::new(*disk.geometry(), 4, disk.channel(lane_use).unwrap());
            let name = format!("{} {lane_use:?}", row.name);
            assert_eq!(bench.one(transfer(Op::Write, 0, Pages::new(4, 7), &[])).status(), Ok(()), "{name}");
            let zeroed = match bench.one(Bio::new(Op::WriteZeroes, 4096, 4096)).status() {
                Ok(()) => 0,
                Err(fault) => {
                    assert_eq!(fault.kind, Kind::Unsupported, "{name}");
                    7
                }
            };
            let refused = bench.one(Bio::new(Op::Discard, 8192, 4096)).status();
            assert_eq!(refused.map_err(|fault| fault.kind), Err(Kind::Unsupported), "{name}");
            let mut read = bench.one(transfer(Op::Read, 0, Pages::new(4, 1), &[]));
            let back: Pages = read.take_buffer().unwrap();
            assert_eq!((back.byte(0), back.byte(4096), back.byte(8192)), (7, zeroed, 7), "{name}");
        }
    }
}
