//! Requests cost no allocation once the library is warm.

#[allow(dead_code, reason = "the other tests use all of it")]
mod common;

use common::{Request, file, suspend};
use platter_aio::posix::{aio_read, aio_write};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the allocations of all threads.
struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: by the contract of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: by the contract of this function.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Writes and reads with each request at another position, and waits for all.
fn round(requests: &mut [Request]) {
    for request in &mut *requests {
        request.start(aio_write).unwrap();
    }
    for request in &mut *requests {
        while request.error() == libc::EINPROGRESS {
            std::thread::yield_now();
        }
        assert_eq!(request.result(), Ok(512));
        request.start(aio_read).unwrap();
    }
    for request in &mut *requests {
        while request.error() == libc::EINPROGRESS {
            std::thread::yield_now();
        }
        assert_eq!(request.result(), Ok(512));
    }
}

#[test]
fn warm_requests_allocate_nothing() {
    let file = file();
    let mut requests: Vec<_> = (0..32).map(|at| Request::new(&file, at * 512, vec![1; 512])).collect();
    (0..20).for_each(|_| round(&mut requests));
    suspend(&[]);
    let before = COUNT.load(Ordering::Relaxed);
    (0..50).for_each(|_| round(&mut requests));
    assert_eq!(COUNT.load(Ordering::Relaxed) - before, 0);
}
