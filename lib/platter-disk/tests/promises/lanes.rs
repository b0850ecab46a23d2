//! The number of lanes of synchronous callers, their cost, and the behaviour when the system refuses more.

use platter_block::bio::Op;
use platter_block::disk::FnDisk;
use platter_block::driver::{Completion, Driver, Geometry, Started};
use platter_block::fault::{Error, Fault, Kind, Stage};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time, VirtualClock};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::drivers::memory::{Memory, MemoryChannel};
use platter_disk::drivers::{Choice, FileDriver};
use platter_disk::open::DiskOptions;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

/// Number of open channels, and the limit.
struct Room {
    open: AtomicUsize,
    most_open: AtomicUsize,
    most: usize,
    /// Requests at [`TOGETHER`] that are in channels at the same time before any of them completes.
    together: Barrier,
}

const TOGETHER: u64 = (1 << 20) - 4096;
const CROWD: usize = 20;

impl Room {
    fn new(most: usize) -> Arc<Room> {
        let together = Barrier::new(CROWD);
        Arc::new(Room { open: AtomicUsize::new(0), most_open: AtomicUsize::new(0), most, together })
    }

    fn open(&self) -> usize {
        self.open.load(SeqCst)
    }
}

struct Channel {
    memory: MemoryChannel,
    room: Arc<Room>,
}

impl Driver for Channel {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        if request.pos == TOGETHER {
            self.room.together.wait();
        }
        self.memory.queue(now, request)
    }
    fn submit(&mut self, now: Time) {
        self.memory.submit(now);
    }
    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        self.memory.reap(now, done);
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.room.open.fetch_sub(1, SeqCst);
    }
}

/// A disk in memory whose channels count against a limit.
fn disk(room: &Arc<Room>, lanes: Option<u32>, clock: Option<&Arc<VirtualClock>>) -> Device {
    let (memory, room) = (Memory::new(1 << 20).expect("memory"), Arc::clone(room));
    let disk = FnDisk::new("roomy", Geometry::new(1 << 20, Limits::unlimited(512)), move |_| {
        let open = room.open.fetch_add(1, SeqCst) + 1;
        if open > room.most {
            room.open.fetch_sub(1, SeqCst);
            let fault = Fault::new(Kind::Gone, Stage::Driver);
            let (device, detail) = (Arc::from("roomy"), "no more channels".to_string());
            return Err(Error { fault, op: Op::Read, device, offset: 0, len: 0, detail });
        }
        room.most_open.fetch_max(open, SeqCst);
        Ok(Box::new(Channel { memory: memory.channel(128), room: Arc::clone(&room) }) as Box<dyn Driver>)
    })
    .with_clock(clock.cloned());
    Device::from_disk(disk, DiskSettings::default().with_lanes(lanes), None).expect("a device")
}

/// Calls the device from `threads` threads at the same time, `calls` times each.
fn crowd(device: &Device, threads: usize, calls: u64) {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            let (device, start) = (device.clone(), &start);
            scope.spawn(move || {
                start.wait();
                for call in 0..calls {
                    let pos = (thread * 7 + call) % 255 * 4096;
                    device.read_at(&mut [0; 4096], pos).expect("a read");
                }
            });
        }
    });
}

#[test]
fn there_are_no_more_lanes_than_the_setting_allows() {
    let room = Room::new(1000);
    let device = disk(&room, Some(3), None);
    crowd(&device, 24, 200);
    assert!((1..=3).contains(&room.most_open.load(SeqCst)), "{}", room.most_open.load(SeqCst));
    assert_eq!(device.counters().bios_failed, 0);
}

#[test]
fn callers_wait_for_a_lane_when_no_further_one_can_be_had() {
    let room = Room::new(2);
    let device = disk(&room, None, None);
    crowd(&device, 24, 200);
    assert!(room.most_open.load(SeqCst) <= 2);
    drop(device);
    assert_eq!(room.open(), 0);
}

/// Idle lanes are closed if something cannot be opened: here a channel of another device.
#[test]
fn idle_lanes_make_room() {
    let room = Room::new(8);
    let (first, second) = (disk(&room, None, None), disk(&room, None, None));
    crowd(&first, 24, 200);
    let mut channels = Vec::new();
    while channels.len() < 8 {
        channels.push(second.channel(1).expect("the lanes of the first are closed for it"));
    }
    assert_eq!(room.open(), 8);
    let error = first.read_at(&mut [0; 512], 0).expect_err("there is no room and no lane");
    assert!(error.to_string().contains("no more channels"), "{error}");
    channels.pop();
    first.read_at(&mut [0; 512], 0).expect("there is room again");
}

/// After many callers have finished, their lanes are closed gradually.
#[test]
fn lanes_that_are_not_used_are_closed() {
    let (room, clock) = (Room::new(1000), Arc::new(VirtualClock::new()));
    let device = disk(&room, None, Some(&clock));
    std::thread::scope(|scope| {
        for _ in 0..CROWD {
            scope.spawn(|| device.read_at(&mut [0; 512], TOGETHER).expect("a read"));
        }
    });
    assert_eq!(room.open(), CROWD);
    for _ in 0..8 {
        clock.advance_to(clock.now() + Span::from_secs(2));
        device.read_at(&mut [0; 512], 0).expect("a read");
    }
    assert!(room.open() <= 5, "{} channels are open", room.open());
}

/// Set in the child process of the test below: the driver to use.
const CHILD: &str = "PLATTER_TEST_FEW_DESCRIPTORS";

fn open(driver: FileDriver) -> Option<(tempfile::NamedTempFile, Device)> {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    file.as_file().set_len(1 << 20).expect("a size");
    let mut options = DiskOptions::read_write();
    options.file.driver = Choice::Only(driver);
    match Device::open(file.path(), options) {
        Ok(device) => Some((file, device)),
        Err(error) => {
            eprintln!("skipped {driver}: {error}");
            None
        }
    }
}

/// The child's work: a hundred threads, and descriptors for less than half of them.
fn with_few_descriptors(driver: FileDriver) {
    let Some((_file, device)) = open(driver) else { return };
    let few = Rlimit { current: Some(64), maximum: Some(64) };
    setrlimit(Resource::Nofile, few).expect("a limit may be lowered");
    crowd(&device, 100, 100);
    device.flush().expect("a flush");
    assert_eq!(device.counters().bios_failed, 0);
}

#[test]
fn a_hundred_threads_read_with_few_descriptors() {
    if let Ok(name) = std::env::var(CHILD) {
        let driver = FileDriver::ALL.into_iter().find(|driver| driver.name() == name);
        return with_few_descriptors(driver.expect("the parent names one"));
    }
    for driver in FileDriver::ALL {
        let mut child = Command::new(std::env::current_exe().expect("a test is a program"));
        child.args(["--exact", "lanes::a_hundred_threads_read_with_few_descriptors", "--nocapture"]);
        let output = child.env(CHILD, driver.name()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{driver}: {said}");
    }
}
