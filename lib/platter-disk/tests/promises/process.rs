//! A child process inherits nothing, and the effects of a panic inside the layer.

use crate::held::{Disk, Freed};
use platter_block::backend::LaneUse;
use platter_block::driver::Driver;
use platter_block::elevator::{Elevator, Noop, RequestId, RequestInfo};
use platter_block::time::Time;
use platter_disk::device::Device;
use platter_disk::drivers::{Choice, FileDisk, FileDriver, FileOptions};
use platter_disk::open::DiskOptions;
use platter_disk::sys::OpenOptions;
use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::Command;
use std::task::{Context, Waker};

/// Open descriptors of this process, without the one that lists them.
fn descriptors() -> BTreeSet<i32> {
    let listed: Vec<i32> = fs::read_dir("/proc/self/fd")
        .expect("a process can see its descriptors")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    listed.into_iter().filter(|fd| fs::read_link(format!("/proc/self/fd/{fd}")).is_ok()).collect()
}

/// Whether a descriptor is closed by exec.
fn closes(fd: i32) -> Option<bool> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
    Some(flags & 0o2_000_000 != 0)
}

#[test]
fn every_descriptor_is_closed_by_exec() {
    let dir = tempfile::tempdir().expect("a directory");
    let before = descriptors();
    for driver in FileDriver::ALL {
        let mut options = DiskOptions::read_write();
        options.open.create = Some((1 << 20) + 100);
        options.file.driver = Choice::Only(driver);
        let path = dir.path().join(driver.name());
        let device = match Device::open(&path, options) {
            Ok(device) => device,
            Err(error) => {
                eprintln!("skipped {driver}: {error}");
                continue;
            }
        };
        device.write_at(&[1; 4096], 0).expect("a write");
        device.flush().expect("a flush");
        let channel = device.channel(4).expect("a channel");
        let open: Vec<i32> = descriptors().difference(&before).copied().collect();
        assert!(!open.is_empty(), "{driver} has a descriptor");
        for fd in open {
            assert_ne!(closes(fd), Some(false), "{driver}: descriptor {fd} would be inherited");
        }
        drop(channel);
    }
}

/// Set in the child process of the test below.
const CHILD: &str = "PLATTER_TEST_PANIC_IN_CALL";

#[test]
fn a_panic_inside_a_synchronous_call_ends_the_process() {
    let disk = Disk::default();
    if std::env::var_os(CHILD).is_some() {
        disk.let_go();
        let device = disk.device_with(Box::new(Panics::default()));
        // The device could still write to this buffer after the caller's stack is gone.
        let _ = catch_unwind(AssertUnwindSafe(|| device.read_at(&mut [0; 512], 0)));
        return;
    }
    let mut child = Command::new(std::env::current_exe().expect("a test is a program"));
    child.args(["--exact", "process::a_panic_inside_a_synchronous_call_ends_the_process", "--nocapture"]);
    let output = child.env(CHILD, "1").output().expect("it runs");
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("borrowed memory"), "{said}");
}

#[test]
fn a_panic_of_an_elevator_leaves_other_devices_alone() {
    let (bad, good) = (Disk::default(), Disk::default());
    bad.let_go();
    good.let_go();
    let device = bad.device_with(Box::new(Panics::default()));
    let freed = Freed::default();
    let mut io = device.read(0, freed.buffer());
    let polled =
        catch_unwind(AssertUnwindSafe(|| Pin::new(&mut io).poll(&mut Context::from_waker(Waker::noop()))));
    assert!(polled.is_err());
    drop(io);
    drop(device);
    freed.wait_for(1);
    good.device("deadline").read_at(&mut [0; 512], 0).expect("another device");
}

/// An elevator that panics when a request is inserted.
#[derive(Default)]
struct Panics(Noop);

impl Elevator for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }
    fn reserve(&mut self, requests: usize) {
        self.0.reserve(requests);
    }
    fn insert(&mut self, _now: Time, _id: RequestId, _info: &RequestInfo) {
        std::panic::resume_unwind(Box::new("an elevator that panics"));
    }
    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, info: &RequestInfo) {
        self.0.absorbed(survivor, absorbed, info);
    }
    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        self.0.dispatch(now, force)
    }
    fn len(&self) -> usize {
        self.0.len()
    }
}

/// Set in the child process of the test below.
const COUNTS: &str = "PLATTER_TEST_COUNT_DESCRIPTORS";

/// The descriptors that each way to use a device needs, beyond those of the device itself. In a process of its own,
/// so that no other test opens any.
#[test]
fn lanes_have_as_many_descriptors_as_the_page_says() {
    const NAME: &str = "process::lanes_have_as_many_descriptors_as_the_page_says";
    if std::env::var_os(COUNTS).is_none() {
        let mut child = Command::new(std::env::current_exe().expect("a test is a program"));
        let output = child.args(["--exact", NAME, "--nocapture"]).env(COUNTS, "1").output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        return assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    for driver in FileDriver::ALL {
        let mut options = OpenOptions::read_write();
        options.create = Some(1 << 20);
        let opened = options.open(dir.path().join(driver.name())).expect("a file");
        let options = FileOptions::default().with_driver(Choice::Only(driver)).with_depth(8);
        let disk = match FileDisk::new(opened, options) {
            Ok(disk) => disk,
            Err(error) => {
                eprintln!("skipped {driver}: {error}");
                continue;
            }
        };
        let count = |lane_use| {
            let before = descriptors().len();
            let channel = disk.channel(lane_use).expect("a channel");
            // SAFETY: it gets no request.
            let mut channel = unsafe { channel.into_driver() };
            channel.wait(Time(0), None);
            let plain = descriptors().len() - before;
            let handle = channel.wait_handle();
            (plain, handle.map(|_| descriptors().len() - before))
        };
        let [exclusive, shared, synchronous] =
            [LaneUse::Exclusive, LaneUse::Shared, LaneUse::Synchronous].map(count);
        match driver {
            // A ring, and a descriptor that tells when the kernel has freed a ring whose completions only its owner
            // sees. Sleeping on that ring takes an eventfd. Shared lanes use native AIO.
            FileDriver::Uring => assert_eq!([exclusive, synchronous], [(2, Some(3)), (1, Some(1))]),
            FileDriver::Aio => assert_eq!([exclusive, synchronous], [(0, Some(1)); 2]),
            FileDriver::Threads => assert_eq!([exclusive, synchronous], [(1, Some(1)); 2]),
        }
        assert_eq!(shared, (1, Some(1)), "{driver}");
    }
}
