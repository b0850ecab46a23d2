//! Wakers are code of the program: they may panic, call the device, or drop its futures.

use crate::held::Disk;
use platter_disk::device::Device;
use platter_disk::future::Io;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

type Read = Io<Vec<u8>>;

const PATIENCE: Duration = Duration::from_secs(30);

/// Runs something when it is woken.
struct Runs<F>(F);

impl<F: Fn() + Send + Sync + 'static> Wake for Runs<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

fn waker(run: impl Fn() + Send + Sync + 'static) -> Waker {
    Waker::from(Arc::new(Runs(run)))
}

fn poll(io: &mut Read, waker: &Waker) -> bool {
    matches!(Pin::new(io).poll(&mut Context::from_waker(waker)), Poll::Ready((Ok(()), Some(_))))
}

fn telling() -> (Waker, Receiver<()>) {
    let (tell, told): (Sender<()>, _) = channel();
    let tell = Mutex::new(tell);
    (waker(move || tell.lock().map(|t| t.send(())).map(drop).unwrap_or_default()), told)
}

fn pending(device: &Device, pos: u64, waker: &Waker) -> Read {
    let mut io = device.read(pos, vec![0; 512]);
    assert!(!poll(&mut io, waker));
    io
}

#[test]
fn a_panic_in_one_waker_keeps_no_other_from_being_woken() {
    let disk = Disk::default();
    let device = disk.device("none");
    // The process has one service thread, and this test silences its messages.
    let (good, told) = telling();
    let bad = waker(|| std::panic::resume_unwind(Box::new("a waker that panics")));
    let mut reads: Vec<Read> =
        (0..8).map(|i| pending(&device, i * 65536, if i % 2 == 0 { &bad } else { &good })).collect();
    disk.let_go();
    for _ in 0..4 {
        told.recv_timeout(PATIENCE).expect("woken");
    }
    assert!(reads.iter_mut().all(|io| poll(io, &good)), "all are done, those with the bad waker too");
    // The next task is woken as well.
    let other = Disk::default();
    let device = other.device("deadline");
    let mut io = pending(&device, 0, &good);
    other.let_go();
    told.recv_timeout(PATIENCE).expect("woken");
    assert!(poll(&mut io, &good));
}

#[test]
fn a_waker_may_poll_and_drop_futures_of_the_same_device() {
    let disk = Disk::default();
    let device = disk.device("none");
    let slot: Arc<Mutex<Vec<Read>>> = Arc::default();
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let inner = Arc::clone(&slot);
    let again = device.clone();
    let busy = waker(move || {
        // Like an executor that runs tasks inside `wake`.
        let reads: Vec<Read> = inner.lock().map(|mut reads| reads.drain(..).collect()).unwrap_or_default();
        let polled = reads.into_iter().map(|mut io| poll(&mut io, Waker::noop())).collect::<Vec<_>>();
        drop(again.read(1 << 20, vec![0u8; 512]));
        tell.lock().map(|t| t.send(polled)).map(drop).unwrap_or_default();
    });
    let io = pending(&device, 0, &busy);
    slot.lock().expect("no thread panics").push(io);
    disk.let_go();
    assert_eq!(told.recv_timeout(PATIENCE).expect("woken"), [true]);
}

#[test]
fn a_waker_that_owns_futures_of_the_device_may_be_dropped_by_it() {
    let disk = Disk::default();
    let device = disk.device("none");
    // The last reference to a task is often its waker: dropping that drops the future.
    let owned = Mutex::new(Some(device.read(65536, vec![0u8; 512])));
    let owner = waker(move || drop(owned.lock().map(|mut io| io.take())));
    let mut io = pending(&device, 0, &owner);
    drop(owner);
    assert!(!poll(&mut io, Waker::noop()), "the first waker goes here");
    disk.let_go();
    while !poll(&mut io, Waker::noop()) {}
}

/// The service thread may be in a waker that does not return. Dropping the future or the device does not wait for
/// that.
#[test]
fn a_waker_that_blocks_holds_nothing_up() {
    let disk = Disk::default();
    let device = disk.device("none");
    let (entered, was_entered) = channel();
    let (leave, may_leave) = channel::<()>();
    let (entered, may_leave) = (Mutex::new(entered), Mutex::new(may_leave));
    let blocking = waker(move || {
        entered.lock().map(|entered| entered.send(())).map(drop).unwrap_or_default();
        may_leave.lock().map(|leave| leave.recv()).map(drop).unwrap_or_default();
    });
    let io = pending(&device, 0, &blocking);
    disk.let_go();
    was_entered.recv_timeout(PATIENCE).expect("the service thread wakes it");
    let (done, is_done) = channel();
    std::thread::spawn(move || {
        device.read_at(&mut [0; 512], 4096).expect("a read");
        drop(io);
        drop(device);
        done.send(()).expect("the test waits");
    });
    is_done.recv_timeout(PATIENCE).expect("nothing waits for the waker");
    leave.send(()).expect("it waits");
}
