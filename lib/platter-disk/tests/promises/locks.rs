//! No lock of the library is held while code of the program runs: the destructor of a buffer, or a waker, may call the
//! device that is about to drop or wake it. With a lock held, each of these tests would wait for ever.

use crate::held::Disk;
use platter_block::bio::Bio;
use platter_block::buf::{IoBuf, IoBufMut};
use platter_block::fault::{Fault, Kind};
use platter_block::time::Span;
use platter_disk::device::Device;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

/// A test that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);
const SOON: Span = Span::from_millis(20);

/// Calls the device in every way that takes one of its locks.
fn visit(device: &Device) {
    drop(device.facts());
    assert!(device.counters().bios > 0);
    device.read_at(&mut [0; 512], 1 << 20).expect("the disk answers");
    let mut io = device.read(2 << 20, vec![0u8; 512]);
    drop(poll_once(&mut io));
    drop(io);
    drop(device.channel(1).expect("a channel"));
}

/// A buffer that calls its device when it is dropped, and reports that it did.
struct Visitor {
    bytes: Vec<u8>,
    device: Device,
    done: Sender<()>,
}

impl Drop for Visitor {
    fn drop(&mut self) {
        visit(&self.device);
        self.done.send(()).expect("the test waits");
    }
}

// SAFETY: the bytes are the vector's, which keeps this contract itself.
unsafe impl IoBuf for Visitor {
    fn byte_len(&self) -> usize {
        self.bytes.byte_len()
    }
    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: the bytes go into the bio with the buffer.
        unsafe { self.bytes.add_segments(bio) }
    }
}

// SAFETY: as above.
unsafe impl IoBufMut for Visitor {}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls until it is ready.
fn finish<F: Future + Unpin>(mut future: F) -> F::Output {
    loop {
        if let Poll::Ready(output) = poll_once(&mut future) {
            return output;
        }
        std::thread::yield_now();
    }
}

fn visitor(device: &Device, len: usize) -> (Visitor, Receiver<()>) {
    let (done, told) = channel();
    (Visitor { bytes: vec![0; len], device: device.clone(), done }, told)
}

/// Runs something that may hang on a thread of its own.
fn within_patience(what: &str, run: impl FnOnce() + Send + 'static) {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        run();
        tell.send(()).expect("the test waits");
    });
    told.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// The bio of a closed channel comes back while another caller runs the shared queue.
#[test]
fn buffers_of_a_dropped_channel() {
    let disk = Disk::default();
    let device = disk.device("deadline");
    let (buffer, told) = visitor(&device, 512);
    let mut lost = device.channel(8).expect("a channel");
    lost.submit(Bio::read(0, buffer).expect("fits")).expect("room");
    lost.poll(&mut Vec::new());
    lost.unplug();
    drop(lost);
    disk.let_go();
    within_patience("another read", move || device.read_at(&mut [0; 512], 8192).expect("the disk answers"));
    told.recv_timeout(PATIENCE).expect("the buffer was dropped");
}

/// A future timed out; its buffer is dropped when the disk returns it later.
#[test]
fn buffers_of_futures_that_timed_out() {
    for elevator in ["none", "deadline"] {
        // One request, and several pieces of one bio.
        for len in [512, 256 << 10] {
            let disk = Disk::default();
            let device = disk.device(elevator);
            let (buffer, told) = visitor(&device, len);
            let mut late = Bio::read(0, buffer).expect("fits");
            late.set_deadline(Some(device.clock().now() + SOON));
            let (result, buffer) = finish(device.submit::<Visitor>(late));
            let kind = result.expect_err("the disk does not answer").fault.kind;
            assert_eq!((kind, buffer.is_none()), (Kind::TimedOut, true), "{elevator} {len}");
            disk.let_go();
            let what = format!("another future, {elevator} {len}");
            within_patience(&what, move || {
                finish(device.read(4 << 20, vec![0u8; 512])).0.expect("the disk answers");
            });
            told.recv_timeout(PATIENCE).expect("the buffer was dropped");
        }
    }
}

/// Owns memory of an I/O and panics when it is dropped.
struct Bad(Vec<u8>, Sender<()>);

impl Drop for Bad {
    fn drop(&mut self) {
        self.1.send(()).expect("the test waits");
        std::panic::resume_unwind(Box::new("a destructor that panics"));
    }
}

// SAFETY: as for `Visitor`.
unsafe impl IoBuf for Bad {
    fn byte_len(&self) -> usize {
        self.0.byte_len()
    }
    unsafe fn add_segments(&mut self, bio: &mut Bio) -> Result<(), Fault> {
        // SAFETY: as above.
        unsafe { self.0.add_segments(bio) }
    }
}

// SAFETY: as above.
unsafe impl IoBufMut for Bad {}

/// The panic does not propagate, in whichever call the buffer is dropped, and the device keeps working.
#[test]
fn destructors_that_panic_harm_nothing_else() {
    for elevator in ["none", "deadline"] {
        for len in [512, 256 << 10] {
            let disk = Disk::default();
            // Only the first two have a deadline: how soon the disk answers the others depends on the machine.
            let device = disk.device(elevator);
            let (tell, told) = channel();
            let late = || {
                let mut bio = Bio::read(0, Bad(vec![0; len], tell.clone())).expect("fits");
                bio.set_deadline(Some(device.clock().now() + SOON));
                bio
            };
            let (result, buffer) = finish(device.submit::<Bad>(late()));
            assert!(result.is_err() && buffer.is_none());
            let mut polled = device.channel(4).expect("a channel");
            polled.submit(late()).expect("room");
            let mut done = Vec::new();
            while polled.outstanding() > 0 {
                polled.wait(&mut done, None);
            }
            assert_eq!(done[0].status().map_err(|fault| fault.kind), Err(Kind::TimedOut));
            drop(device.read(4096, Bad(vec![0; len], tell)));
            disk.let_go();
            device.read_at(&mut [0; 512], 1 << 20).expect("the disk answers");
            finish(device.read(1 << 20, vec![0u8; 512])).0.expect("the disk answers");
            polled.submit(Bio::read(0, vec![0u8; 512]).expect("fits")).expect("room");
            while polled.outstanding() > 0 {
                polled.wait(&mut done, None);
            }
            for _ in 0..3 {
                told.recv_timeout(PATIENCE).expect("the buffer was dropped");
            }
            assert!(done[1].status().is_ok(), "{elevator} {len}");
        }
    }
}

/// The future is dropped before its bio completes.
#[test]
fn buffers_of_dropped_futures() {
    for elevator in ["none", "deadline"] {
        let disk = Disk::default();
        let device = disk.device(elevator);
        let (buffer, told) = visitor(&device, 512);
        let mut io = device.read(0, buffer);
        assert!(poll_once(&mut io).is_pending());
        drop(io);
        disk.let_go();
        within_patience(elevator, move || {
            finish(device.read(4 << 20, vec![0u8; 512])).0.expect("the disk answers");
        });
        told.recv_timeout(PATIENCE).expect("the buffer was dropped");
    }
}

/// A waker that calls the device when it is cloned, woken and dropped.
fn visiting_waker(device: &Device) -> Waker {
    const TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, release);
    fn with(data: *const ()) -> Arc<Device> {
        // SAFETY: the data of these wakers is always an `Arc<Device>` that was turned into a pointer.
        unsafe { Arc::from_raw(data.cast::<Device>()) }
    }
    fn look(data: *const ()) {
        let device = with(data);
        drop(device.facts());
        let mut io = device.read(2 << 20, vec![0u8; 512]);
        drop(poll_once(&mut io));
        drop(io);
        let _ = Arc::into_raw(device);
    }
    fn clone(data: *const ()) -> RawWaker {
        look(data);
        let device = with(data);
        let _ = Arc::into_raw(Arc::clone(&device));
        RawWaker::new(Arc::into_raw(device).cast(), &TABLE)
    }
    fn wake(data: *const ()) {
        look(data);
        drop(with(data));
    }
    fn wake_by_ref(data: *const ()) {
        look(data);
    }
    fn release(data: *const ()) {
        look(data);
        drop(with(data));
    }
    let data = Arc::into_raw(Arc::new(device.clone())).cast();
    // SAFETY: the functions keep the contract: each clone owns a reference, which `wake` and `release` drop.
    unsafe { Waker::from_raw(RawWaker::new(data, &TABLE)) }
}

#[test]
fn wakers_may_call_the_device_when_they_are_cloned_woken_and_dropped() {
    for elevator in ["none", "deadline"] {
        let disk = Disk::default();
        let device = disk.device(elevator);
        let let_go = disk.clone();
        within_patience(elevator, move || {
            let mut io = device.read(0, vec![0u8; 512]);
            let (first, second) = (visiting_waker(&device), visiting_waker(&device));
            assert!(Pin::new(&mut io).poll(&mut Context::from_waker(&first)).is_pending());
            // The first waker is dropped, and this one is woken.
            assert!(Pin::new(&mut io).poll(&mut Context::from_waker(&second)).is_pending());
            let mut other = device.read(4096, vec![0u8; 512]);
            assert!(Pin::new(&mut other).poll(&mut Context::from_waker(&first)).is_pending());
            drop(other);
            let_go.let_go();
            finish(io).0.expect("the disk answers");
        });
    }
}
