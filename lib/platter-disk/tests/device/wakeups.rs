//! No thread sleeps for ever: a waiting thread learns of I/O that other threads complete for it.

use crate::fake::{Fake, HARD, Options};
use crate::rig::{barrier, block_on, poll_once, spawn, submit, until, write};
use platter_block::bio::{Bio, Flags, Op};
use platter_block::elevator::{Elevator, Noop, RequestId, RequestInfo};
use platter_block::fault::Kind;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::future::Io;
use std::future::Future;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

/// The barrier waits for another lane. Its request is started by that lane's owner, which then does not use the
/// device again.
#[test]
fn a_barrier_hears_of_a_request_that_somebody_else_started() {
    let (fake, device) = Fake::open(Options::default());
    let mut channel = device.channel(4).unwrap();
    fake.hold();
    submit(&mut channel, write(0, 1, Flags::NONE));
    channel.flush();
    assert_eq!(fake.held(), 1);
    let waiter = barrier(&device, 4096);
    until("the barrier waits", || device.counters().bios == 2);
    assert!(!waiter.is_done());
    fake.release();
    let mut done = Vec::new();
    assert_eq!(channel.poll(&mut done), 1);
    waiter.result("the barrier");
}

/// The same on a disk without a descriptor to sleep on.
#[test]
fn a_barrier_hears_of_a_request_without_a_descriptor() {
    for _ in 0..50 {
        let device = Device::ram(1 << 20).unwrap();
        let mut channel = device.channel(4).unwrap();
        submit(&mut channel, write(0, 1, Flags::NONE));
        channel.flush();
        let waiter = barrier(&device, 4096);
        until("the barrier waits", || device.counters().bios == 2);
        let mut done = Vec::new();
        assert_eq!(channel.poll(&mut done), 1);
        waiter.result("the barrier");
    }
}

/// Synchronous calls that share a queue sleep without a descriptor, except the one that polls. It brings the bios of
/// the others back with its own and wakes them. The disk still holds a write, whose call may be the next to poll: it
/// sleeps on, so a read that was not woken would wait for it.
#[test]
fn calls_that_share_a_queue_are_woken_by_the_one_that_polls() {
    let (fake, device) = Fake::open(Options { elevator: "noop", ..Options::default() });
    for round in 0..100 {
        fake.hold();
        let call = |number: u64| {
            let device = device.clone();
            let changes = number == round % 3;
            let call = spawn(move || match changes {
                true => device.write_at(&[1; 512], number * 8192).unwrap(),
                false => device.read_at(&mut [0; 512], number * 8192).unwrap(),
            });
            until("the disk has the request", || fake.held() as u64 == number + 1);
            (changes, call)
        };
        let (writes, reads): (Vec<_>, Vec<_>) =
            [call(0), call(1), call(2)].into_iter().partition(|call| call.0);
        fake.release_only(Op::Read);
        reads.into_iter().for_each(|(_, read)| read.result("a read"));
        fake.release();
        writes.into_iter().for_each(|(_, write)| write.result("the write"));
    }
}

/// The polling call ends first, and another one has to take over while it sleeps without a descriptor.
#[test]
fn a_call_that_sleeps_without_a_descriptor_takes_over_the_polling() {
    let (fake, device) = Fake::open(Options { elevator: "noop", ..Options::default() });
    for _ in 0..50 {
        fake.hold();
        let reads = [0, 1, 2].map(|number| {
            let device = device.clone();
            spawn(move || device.read_at(&mut [0; 512], number * 8192).unwrap())
        });
        until("the disk has all reads", || fake.held() == 3);
        for left in (0..3).rev() {
            fake.release_oldest();
            until("a read ends", || reads.iter().filter(|read| !read.is_done()).count() == left);
        }
        fake.release();
    }
}

/// A lane still has requests of its own when an elevator comes; a barrier in the shared queue waits for them.
#[test]
fn a_barrier_of_an_elevator_waits_for_lanes_from_before_it() {
    let (fake, device) = Fake::open(Options::default());
    let mut channel = device.channel(4).unwrap();
    fake.hold();
    submit(&mut channel, write(0, 1, Flags::NONE));
    channel.flush();
    device.set_elevator("deadline").unwrap();
    let waiter = barrier(&device, 4096);
    until("the barrier waits", || device.counters().bios == 2);
    assert_eq!(fake.started(), [0]);
    fake.release();
    let mut done = Vec::new();
    assert_eq!(channel.poll(&mut done), 1);
    waiter.result("the barrier");
    assert!(fake.started().contains(&4096));
}

/// The request of a future that was polled and dropped has no waiting task, but a barrier waits for it.
#[test]
fn a_cancelled_future_does_not_stop_a_barrier() {
    let (fake, device) = Fake::open(Options::default());
    fake.hold();
    let mut future = device.write(0, vec![1; 512]);
    assert!(poll_once(&mut future).is_pending());
    drop(future);
    let waiter = barrier(&device, 4096);
    until("the barrier waits", || device.counters().bios == 2);
    fake.release();
    waiter.result("the barrier");
}

/// The barrier itself is cancelled; bios behind it continue when it has ended.
#[test]
fn a_cancelled_barrier_does_not_close_the_device() {
    for elevator in ["none", "deadline"] {
        let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
        fake.hold();
        let mut future: Io<Vec<u8>> = device.submit(write(0, 1, HARD));
        assert!(poll_once(&mut future).is_pending());
        drop(future);
        let other = device.clone();
        let waiter = spawn(move || other.read_at(&mut [0; 512], 8192).is_ok());
        fake.release();
        assert!(waiter.result(elevator));
    }
}

/// A future that is dropped without having been polled has started all the same.
#[test]
fn a_future_that_nobody_polls_is_done() {
    let device = Device::ram(1 << 20).unwrap();
    drop(device.write(4096, vec![7; 512]));
    until("it is written", || device.counters().bytes_written == 512);
    let mut back = [0; 512];
    device.read_at(&mut back, 4096).unwrap();
    assert_eq!(back, [7; 512]);
}

/// A channel is closed with bios in the shared queue; its successor gets none of them.
#[test]
fn bios_of_a_closed_channel_do_not_reach_its_successor() {
    let (fake, device) = Fake::open(Options { elevator: "deadline", ..Options::default() });
    fake.hold();
    let mut channel = device.channel(8).unwrap();
    for at in 0..8 {
        submit(&mut channel, write(at * 4096, 1, Flags::SYNC));
    }
    channel.flush();
    assert_eq!(fake.held(), 8);
    drop(channel);
    let mut next = device.channel(8).unwrap();
    submit(&mut next, write(65536, 2, Flags::SYNC));
    next.flush();
    fake.release();
    let mut done = Vec::new();
    while next.outstanding() > 0 {
        next.wait(&mut done, None);
    }
    assert_eq!(done.iter().map(|bio| bio.token()).collect::<Vec<_>>(), [65536]);
    assert_eq!(device.counters().bios_completed, 9);
}

/// Nothing was with the driver when the channel began to wait, so no timer was set yet.
#[test]
fn a_wait_ends_with_the_timeout_of_what_it_started() {
    for elevator in ["none", "deadline"] {
        let timeout = Some(Span::from_millis(20));
        let (fake, device) = Fake::open(Options { elevator, timeout, ..Options::default() });
        fake.hold();
        let other = device.clone();
        let kind = spawn(move || {
            let mut channel = other.channel(4).unwrap();
            submit(&mut channel, write(0, 1, Flags::SYNC));
            let mut done = Vec::new();
            channel.wait(&mut done, None);
            done[0].status().unwrap_err().kind
        });
        assert_eq!(kind.result(elevator), Kind::TimedOut);
        fake.release();
    }
}

/// A waker that drops futures of the same device, or panics, as executors may.
struct Rude {
    victims: Mutex<Vec<Io<Vec<u8>>>>,
}

impl Wake for Rude {
    fn wake(self: Arc<Self>) {
        self.victims.lock().unwrap().clear();
        std::panic::resume_unwind(Box::new("a rude waker"));
    }
}

#[test]
fn wakers_may_drop_futures_and_panic() {
    let (fake, device) = Fake::open(Options::default());
    fake.hold();
    let mut first = device.write(0, vec![1; 512]);
    let mut victim = device.write(4096, vec![1; 512]);
    assert!(poll_once(&mut victim).is_pending());
    let rude = Arc::new(Rude { victims: Mutex::new(vec![victim]) });
    let waker = Waker::from(rude);
    let polled = std::pin::Pin::new(&mut first).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    let other = device.clone();
    let last = spawn(move || block_on(other.write(8192, vec![1; 512])).0.is_ok());
    until("all are out", || fake.held() == 3);
    fake.release();
    assert!(last.result("a task next to a rude waker"));
    assert!(matches!(block_on(std::future::poll_fn(|_| poll_once(&mut first))), (Ok(()), Some(_))));
}

/// Futures on many threads, more at once than the depth allows.
#[test]
fn futures_beyond_the_depth_all_end() {
    for elevator in ["none", "deadline"] {
        let (_, device) = Fake::open(Options { elevator, depth: 4, ..Options::default() });
        let tasks: Vec<_> = (0..4u64)
            .map(|task| {
                let device = device.clone();
                spawn(move || {
                    let mut all: Vec<_> =
                        (0..100).map(|at| device.write((task * 100 + at) * 512, vec![1; 512])).collect();
                    // The last first: the others complete although they are not polled.
                    while let Some(io) = all.pop() {
                        block_on(io).0.unwrap();
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.result(elevator));
    }
}

/// Reading the state of the shared queue, which takes its lock, does not lose the work of threads that find it
/// taken.
#[test]
fn looking_at_a_device_loses_no_work() {
    let (_, device) = Fake::open(Options { elevator: "deadline", ..Options::default() });
    let looker = {
        let device = device.clone();
        spawn(move || (0..20_000).for_each(|_| assert!(!device.facts().is_empty())))
    };
    let workers: Vec<_> = (0..3u64)
        .map(|worker| {
            let device = device.clone();
            spawn(move || {
                for i in 0..1000 {
                    device.write_at(&[1; 512], (worker * 100 + i % 100) * 512).unwrap();
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.result("a writer"));
    looker.result("the looker");
}

/// Depth that one lane borrowed and does not use is available to others.
#[test]
fn an_idle_lane_keeps_none_of_the_depth() {
    let (fake, device) = Fake::open(Options { depth: 8, ..Options::default() });
    let mut first = device.channel(8).unwrap();
    let mut second = device.channel(8).unwrap();
    let mut done = Vec::new();
    for (channel, base) in [(&mut first, 0), (&mut second, 65536)] {
        fake.hold();
        for at in 0..8 {
            submit(channel, write(base + at * 4096, 1, Flags::NONE));
        }
        channel.poll(&mut done);
        assert_eq!(fake.held(), 8);
        fake.release();
        while channel.outstanding() > 0 {
            channel.wait(&mut done, None);
        }
    }
    assert_eq!(fake.most_in_flight(), 8);
    assert_eq!(done.len(), 16);
}

/// An elevator that holds new requests for a while.
#[derive(Default)]
struct Late {
    queue: Noop,
    until: Time,
}

impl Elevator for Late {
    fn name(&self) -> &'static str {
        "late"
    }

    fn reserve(&mut self, requests: usize) {
        self.queue.reserve(requests);
    }

    fn insert(&mut self, now: Time, id: RequestId, info: &RequestInfo) {
        self.until = now + Span::from_millis(20);
        self.queue.insert(now, id, info);
    }

    fn absorbed(&mut self, survivor: RequestId, absorbed: RequestId, info: &RequestInfo) {
        self.queue.absorbed(survivor, absorbed, info);
    }

    fn dispatch(&mut self, now: Time, force: bool) -> Option<RequestId> {
        if force || now >= self.until { self.queue.dispatch(now, force) } else { None }
    }

    fn next_wakeup(&self) -> Option<Time> {
        Some(self.until).filter(|_| !self.queue.is_empty())
    }

    fn len(&self) -> usize {
        self.queue.len()
    }
}

/// The service thread sleeps until the disk completes something. The elevator holds the requests that arrive then,
/// and only the service thread asks it again.
#[test]
fn the_service_thread_hears_when_an_elevator_waits() {
    let (fake, device) = Fake::open(Options { depth: 8, ..Options::default() });
    device.switch_elevator(&|| Box::<Late>::default()).unwrap();
    fake.hold();
    let mut first = device.write(0, vec![1; 512]);
    assert!(poll_once(&mut first).is_pending());
    until("the first one is with the disk", || fake.started() == [0]);
    let mut second = device.write(4096, vec![1; 512]);
    assert!(poll_once(&mut second).is_pending());
    until("the second one is with the disk", || fake.started() == [4096]);
    fake.release();
    assert!(block_on(first).0.is_ok() && block_on(second).0.is_ok());
}

/// The same for a thread that sleeps in a call of its own, and another thread that does not return to the device.
#[test]
fn who_sleeps_in_a_call_hears_when_an_elevator_waits() {
    let (fake, device) = Fake::open(Options { depth: 8, ..Options::default() });
    device.switch_elevator(&|| Box::<Late>::default()).unwrap();
    fake.hold();
    let sleeper = {
        let device = device.clone();
        spawn(move || device.write_at(&[1; 512], 0).is_ok())
    };
    until("the first one is with the disk", || fake.started() == [0]);
    let mut channel = device.channel(4).unwrap();
    // Synchronous, so that the device is not plugged.
    submit(&mut channel, write(4096, 1, Flags::SYNC));
    channel.flush();
    until("the second one is with the disk", || fake.started() == [4096]);
    fake.release();
    assert!(sleeper.result("the sleeper"));
}

/// The service thread sleeps for the lane's outstanding I/O; further I/O of the lane is elsewhere: in the shared
/// queue (a flush), or, once there is no elevator, with a driver of the lane's own (a read).
#[test]
fn the_service_thread_hears_of_what_comes_by_another_way() {
    for (elevator, op) in [("none", Op::Flush), ("deadline", Op::Read)] {
        for _ in 0..20 {
            let (fake, device) = Fake::open(Options { elevator, ..Options::default() });
            fake.hold();
            let first = watched(&fake, &device);
            device.set_elevator("none").unwrap();
            let mut second = device.submit::<Vec<u8>>(match op {
                Op::Flush => Bio::flush(),
                _ => Bio::read(8192, vec![0; 512]).unwrap(),
            });
            let rung = Arc::new(Rung::default());
            let waker = Waker::from(Arc::clone(&rung));
            assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&waker)).is_pending());
            fake.release_only(op);
            until("the second one is woken", || rung.0.load(Ordering::SeqCst));
            assert_eq!(fake.held(), 1, "{elevator}: what came first is still there");
            fake.release();
            assert!(block_on(second).0.is_ok() && block_on(first).0.is_ok());
        }
    }
}

/// A write to position 0 that stays with the disk; the service thread has seen it.
fn watched(fake: &Fake, device: &Device) -> Io<Vec<u8>> {
    let rounds = platter_disk::service::rounds();
    let mut future = device.write(0, vec![1; 512]);
    assert!(poll_once(&mut future).is_pending());
    until("it is with the disk", || fake.held() == 1 && platter_disk::service::rounds() > rounds);
    future
}

/// A future that is dropped without having been polled has started all the same, even if the service thread sleeps
/// for another one.
#[test]
fn a_future_that_nobody_polls_does_not_wait_for_another() {
    for _ in 0..20 {
        let (fake, device) = Fake::open(Options::default());
        fake.hold();
        let first = watched(&fake, &device);
        drop(device.write(4096, vec![7; 512]));
        until("the second one is with the disk", || fake.held() == 2);
        fake.release();
        assert!(block_on(first).0.is_ok());
    }
}

#[derive(Default)]
struct Rung(AtomicBool);

impl Wake for Rung {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A channel that also waits for a descriptor returns when either has something, and sleeps without any bio.
#[test]
fn a_channel_waits_for_a_descriptor_and_its_bios_at_once() {
    let (fake, device) = Fake::open(Options::default());
    let mut channel = device.channel(4).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let fds = [reader.as_raw_fd()];
    let mut done = Vec::new();
    assert_eq!(channel.wait_or_readable(&mut done, &fds, Some(Span::from_micros(1))), 0);

    fake.hold();
    submit(&mut channel, write(0, 1, Flags::NONE));
    assert_eq!(channel.wait_or_readable(&mut done, &fds, Some(Span::from_micros(1))), 0);
    assert_eq!((fake.held(), channel.outstanding()), (1, 1));
    let ringer = spawn(move || (&writer).write_all(&[1]).map(|()| writer));
    assert_eq!(channel.wait_or_readable(&mut done, &fds, None), 0, "the descriptor is readable");
    let writer = ringer.result("the writer").unwrap();
    (&reader).read_exact(&mut [0]).unwrap();

    let releaser = spawn({
        let fake = Arc::clone(&fake);
        move || fake.release()
    });
    while channel.outstanding() > 0 {
        channel.wait_or_readable(&mut done, &fds, None);
    }
    releaser.result("the release");
    assert_eq!(done.len(), 1);
    drop(writer);
    assert_eq!(channel.wait_or_readable(&mut done, &fds, None), 0, "the descriptor is closed");
}
