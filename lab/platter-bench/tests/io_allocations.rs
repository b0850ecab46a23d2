//! A workload allocates when it starts and ends, not for each I/O.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use platter_bench::io::{self, Hooks};
use platter_bench::workload::{JobOptions, Rw};
use platter_disk::device::Device;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is handed on to the system's allocator; counting does not touch memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(job: &JobOptions, device: &Device) -> u64 {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let report = io::run(job, std::slice::from_ref(device), 1, Hooks::none(&AtomicBool::new(false))).unwrap();
    assert_eq!((Some(report.ios), report.errors()), (job.number_ios, 0));
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

#[test]
fn three_times_the_ios_need_no_more_allocations() {
    let base = || JobOptions { rw: Rw::RandRead, iodepth: 32, ..JobOptions::default() };
    let jobs = [
        ("random reads", base()),
        ("depth 1", JobOptions { iodepth: 1, ..base() }),
        ("beyond the device's depth", JobOptions { iodepth: 300, ..base() }),
        ("sequential, merged", JobOptions { rw: Rw::Read, ..base() }),
        ("mixed", JobOptions { rw: Rw::RandRw, ..base() }),
        ("open loop", JobOptions { rate_iops: Some(1_000_000_000), ..base() }),
        ("trims", JobOptions { rw: Rw::RandTrim, ..base() }),
        ("verified writes", JobOptions { rw: Rw::RandWrite, verify: true, ..base() }),
    ];
    for elevator in ["none", "deadline"] {
        for (name, job) in &jobs {
            let device = Device::ram(256 << 20).unwrap();
            device.set_elevator(elevator).unwrap();
            // Enough that each slot of the queue has had a request of several bios, for which it then keeps memory.
            let few = allocations(&JobOptions { number_ios: Some(20_000), ..job.clone() }, &device);
            let many = allocations(&JobOptions { number_ios: Some(60_000), ..job.clone() }, &device);
            assert!(many <= few + 20, "{elevator}, {name}: {few} for 20,000 I/Os, {many} for 60,000");
        }
    }
}
