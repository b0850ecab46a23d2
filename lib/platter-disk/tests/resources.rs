//! What an open device costs: descriptors, rings, and bytes of memory. Run with `--nocapture` to see the table of
//! docs/performance.md.

use platter_block::bio::Bio;
use platter_disk::device::Device;
use platter_disk::drivers::{Choice, FileDriver};
use platter_disk::open::DiskOptions;
use std::alloc::{GlobalAlloc, Layout, System};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use tempfile::NamedTempFile;

/// Bytes allocated and not freed.
static LIVE: AtomicI64 = AtomicI64::new(0);

struct Counting;

// SAFETY: every call is passed to the system allocator unchanged; counting touches no heap memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: by the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: by the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Devices that are opened to measure one.
const DEVICES: i64 = 64;

/// Use of resources by the process, or by one device.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Usage {
    descriptors: i64,
    /// Descriptors that are io_uring rings.
    rings: i64,
    heap_bytes: i64,
    /// Rings of io_uring and AIO, mapped into the process. A few contexts of AIO are kept when devices are closed, and
    /// used again by the next ones, so the mean of a device is slightly too low.
    mapped_bytes: i64,
}

impl Usage {
    fn now() -> Usage {
        let (mut descriptors, mut rings) = (0, 0);
        for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
            let target = std::fs::read_link(entry.unwrap().path()).unwrap_or_default();
            descriptors += 1;
            rings += i64::from(target.to_string_lossy() == "anon_inode:[io_uring]");
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let of_rings = maps.lines().filter(|line| line.ends_with("[io_uring]") || line.contains("/[aio]"));
        let mapped_bytes = of_rings
            .map(|line| {
                let (range, _) = line.split_once(' ').unwrap();
                let (from, to) = range.split_once('-').unwrap();
                i64::from_str_radix(to, 16).unwrap() - i64::from_str_radix(from, 16).unwrap()
            })
            .sum();
        Usage { descriptors, rings, heap_bytes: LIVE.load(Relaxed), mapped_bytes }
    }

    /// The difference for one of [`DEVICES`] devices, rounded up.
    fn per_device_since(self, before: Usage) -> Usage {
        let per = |now: i64, before: i64| {
            (now - before).div_euclid(DEVICES) + i64::from((now - before) % DEVICES > 0)
        };
        Usage {
            descriptors: per(self.descriptors, before.descriptors),
            rings: per(self.rings, before.rings),
            heap_bytes: per(self.heap_bytes, before.heap_bytes),
            mapped_bytes: per(self.mapped_bytes, before.mapped_bytes),
        }
    }
}

/// Usage when everything of earlier devices is gone. Other threads, which were in the middle of something with them, may
/// hold a last reference for a moment.
fn at_rest() -> Usage {
    let begin = std::time::Instant::now();
    loop {
        let usage = Usage::now();
        if usage.rings == 0 {
            return usage;
        }
        assert!(begin.elapsed().as_secs() < 30, "something is left of earlier devices: {usage:?}");
        std::thread::yield_now();
    }
}

fn awaited<F: Future + Unpin>(mut future: F) -> F::Output {
    loop {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        std::thread::yield_now();
    }
}

/// Files to open, made before anything is measured.
fn files() -> Vec<NamedTempFile> {
    let file = |_| {
        let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        file
    };
    (0..DEVICES).map(file).collect()
}

fn open(files: &[NamedTempFile], driver: FileDriver, elevator: &str) -> Result<Vec<Device>, String> {
    let open = |file: &NamedTempFile| {
        let mut options = DiskOptions::read_write();
        options.file.driver = Choice::Only(driver);
        let device = Device::open(file.path(), options).map_err(|error| error.to_string())?;
        if elevator != "none" {
            device.set_elevator(elevator).unwrap();
        }
        Ok(device)
    };
    files.iter().map(open).collect()
}

/// The most that one device may use in a state: descriptors, KiB of heap, KiB mapped.
struct Limit {
    descriptors: i64,
    heap_kib: i64,
    mapped_kib: i64,
}

fn check(what: &str, usage: Usage, limit: &Limit) {
    let Usage { descriptors, rings, heap_bytes, mapped_bytes } = usage;
    println!(
        "{what:<44} {descriptors:>2} descriptors ({rings} rings), {:>4} KiB of heap, {:>4} KiB mapped",
        heap_bytes / 1024,
        mapped_bytes / 1024
    );
    assert!(descriptors <= limit.descriptors, "{what}: {usage:?}");
    assert!(heap_bytes <= limit.heap_kib << 10, "{what}: {usage:?}");
    assert!(mapped_bytes <= limit.mapped_kib << 10, "{what}: {usage:?}");
}

/// Opens devices, uses them in one way after the other, and checks what each step adds.
fn measure(files: &[NamedTempFile], driver: FileDriver, elevator: &str) {
    let name = |what: &str| format!("{driver} {elevator}: {what}");
    let start = at_rest();
    let devices = match open(files, driver, elevator) {
        Ok(devices) => devices,
        Err(error) => return println!("skipped {driver}: {error}"),
    };
    let opened = Usage::now();
    // With an elevator the shared queue has its driver channel from the beginning, and tables for its requests.
    let heap_kib = if elevator == "none" { 128 } else { 384 };
    let own = Limit { descriptors: 4, heap_kib, mapped_kib: 64 };
    check(&name("opened, not used"), opened.per_device_since(start), &own);

    let handles: Vec<_> = devices.iter().map(Device::handle).collect();
    let with_handles = Usage::now();
    let little = Limit { descriptors: 0, heap_kib: 1, mapped_kib: 0 };
    check(&name("one more handle"), with_handles.per_device_since(opened), &little);

    devices.iter().for_each(|device| device.read_at(&mut [0; 4096], 0).unwrap());
    let called = Usage::now();
    let lane = Limit { descriptors: 4, heap_kib: 96, mapped_kib: 64 };
    check(&name("a synchronous call was made"), called.per_device_since(with_handles), &lane);

    devices.iter().for_each(|device| awaited(device.read(0, vec![0u8; 4096])).0.unwrap());
    let futures = Usage::now();
    check(&name("futures of one thread were used"), futures.per_device_since(called), &lane);

    let mut channels: Vec<_> = devices.iter().map(|device| device.channel(32).unwrap()).collect();
    for channel in &mut channels {
        assert!(channel.submit(Bio::read(0, vec![0u8; 4096]).unwrap()).is_ok());
        let mut done = Vec::new();
        while channel.outstanding() > 0 {
            channel.wait(&mut done, None);
        }
    }
    let polled = Usage::now();
    check(&name("a channel of 32 is open"), polled.per_device_since(futures), &lane);

    drop((channels, handles, devices));
    let left = at_rest().descriptors - start.descriptors;
    // The service thread has one, for the whole process.
    assert!(left <= 1, "{driver} {elevator}: {left} descriptors are left");
}

/// One test, so that nothing else runs in the process.
#[test]
fn devices_use_few_descriptors_and_little_memory() {
    let files = files();
    // What is allocated once for the process.
    for driver in FileDriver::ALL {
        drop(open(&files[..1], driver, "none").map(|devices| awaited(devices[0].read(0, vec![0u8; 4096]))));
    }
    for driver in FileDriver::ALL {
        for elevator in ["none", "mq-deadline"] {
            measure(&files, driver, elevator);
        }
    }
}
