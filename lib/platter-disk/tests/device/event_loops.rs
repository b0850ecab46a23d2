//! Event loops that wait for the I/Os of futures: `Device::reactor` and `Device::block_on`.

use crate::rig::spawn;
use platter_disk::device::Device;
use platter_disk::future::{Io, Reactor};
use platter_disk::open::DiskOptions;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::future::{Future, poll_fn};
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 64;

#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn file() -> (tempfile::NamedTempFile, Device) {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(file.path(), vec![7u8; BLOCK * BLOCKS as usize]).unwrap();
    let device = Device::open(file.path(), DiskOptions::read_write()).unwrap();
    (file, device)
}

/// Sleeps until the reactor's descriptor is readable, or a while has passed.
fn sleep(reactor: &Reactor) {
    assert!(reactor.as_raw_fd() >= 0);
    let fd = reactor.as_fd();
    // Not for ever: the service thread may be first.
    let limit = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).unwrap();
}

/// Reads `count` blocks, 16 at a time.
async fn reads(device: &Device, count: u64) {
    let read = |at: u64| device.read(at % BLOCKS * BLOCK as u64, vec![0u8; BLOCK]);
    let (mut all, mut next): (Vec<Io<Vec<u8>>>, u64) = ((0..16).map(read).collect(), 16);
    let mut left = count;
    poll_fn(|context| {
        for io in &mut all {
            while left > 0
                && let Poll::Ready((result, buffer)) = Pin::new(&mut *io).poll(context)
            {
                result.unwrap();
                assert_eq!(buffer.unwrap(), [7u8; BLOCK]);
                *io = read(next);
                (next, left) = (next + 1, left - 1);
            }
        }
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[test]
fn a_reactor_wakes_the_tasks_of_all_threads() {
    let (_file, device) = file();
    let reactor = device.reactor().unwrap();
    for _ in 0..20 {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let start = move |device: &Device| {
            let mut io = device.read(0, vec![0u8; BLOCK]);
            let ended = Pin::new(&mut io).poll(&mut Context::from_waker(&waker)).is_ready();
            (io, ended)
        };
        let (own, other) = (device.clone(), start.clone());
        let (mut ios, mut ended) = (Vec::new(), 0);
        // Started by this thread, and by one with another lane.
        let there = std::thread::spawn(move || other(&own)).join().unwrap();
        for (io, has_ended) in [start(&device), there] {
            ended += u64::from(has_ended);
            ios.extend((!has_ended).then_some(io));
        }
        while count.0.load(Ordering::SeqCst) + ended < 2 {
            sleep(&reactor);
            reactor.turn();
        }
        // A future that led others may have been woken before its end.
        for mut io in ios {
            while Pin::new(&mut io).poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                reactor.turn();
            }
        }
    }
}

#[test]
fn block_on_runs_many_futures_and_what_other_threads_wake() {
    let (_file, device) = file();
    device.block_on(reads(&device, 2000));
    // A future that has nothing to do with the device.
    let (tell, told) = std::sync::mpsc::channel::<Waker>();
    let mut told = Some(told);
    let flag = Arc::new(AtomicU64::new(0));
    let set = Arc::clone(&flag);
    let setter = spawn(move || {
        let waker = told.take().unwrap().recv().unwrap();
        set.store(1, Ordering::SeqCst);
        waker.wake();
    });
    device.block_on(poll_fn(|context| {
        let _ = tell.send(context.waker().clone());
        if flag.load(Ordering::SeqCst) == 1 { Poll::Ready(()) } else { Poll::Pending }
    }));
    setter.result("the thread that wakes");
}

/// One whose thread is blocked, or that is gone, keeps no task waiting.
#[test]
fn a_reactor_that_does_not_turn_is_replaced() {
    let (_file, device) = file();
    let reactor = device.reactor().unwrap();
    let own = device.clone();
    spawn(move || crate::rig::block_on(reads(&own, 200))).result("an executor that parks");
    drop(reactor);
    let own = device.clone();
    spawn(move || crate::rig::block_on(reads(&own, 200))).result("without a reactor");
    device.flush().unwrap();
}

/// Started here, ended elsewhere, by executors that wait for different lanes.
#[test]
fn block_on_ends_the_futures_of_another_thread() {
    let (_file, device) = file();
    let own = device.clone();
    let ios = std::thread::spawn(move || (0..8).map(|_| own.read(0, vec![0u8; BLOCK])).collect::<Vec<_>>());
    for io in ios.join().unwrap() {
        device.block_on(io).0.unwrap();
    }
    let ram = Device::ram(1 << 20).unwrap();
    ram.block_on(ram.write(0, vec![1u8; 512])).0.unwrap();
    ram.block_on(device.read(0, vec![0u8; BLOCK])).0.unwrap();
}
