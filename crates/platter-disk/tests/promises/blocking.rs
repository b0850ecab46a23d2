//! Flushes on the threads of their callers: they are one at a time with those of the queue, and a failure is known to all.

use platter_block::bio::{Bio, Op};
use platter_block::disk::{BlockingFlush, FnDisk};
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::fault::{Fault, Kind};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::IoOptions;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// What the disk does and has done.
#[derive(Default)]
struct State {
    /// Flushes on threads of callers, and by drivers.
    here: AtomicU32,
    by_driver: AtomicU32,
    fails: AtomicBool,
    /// Drivers keep their flushes.
    holds: AtomicBool,
    /// Each flush on a thread of a caller says that it has begun, and waits for a word.
    meets: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

#[derive(Clone, Default)]
struct Blocking(Arc<State>);

impl Blocking {
    fn disk(&self) -> FnDisk {
        let features = Features::default().with_write_cache(true);
        let geometry = Geometry::new(1 << 20, Limits::unlimited(512)).with_features(features);
        let (driver, state) = (Arc::clone(&self.0), Arc::clone(&self.0));
        let flush: BlockingFlush = Arc::new(move |_| {
            state.here.fetch_add(1, SeqCst);
            if let Some((begun, go_on)) = &*state.meets.lock().unwrap() {
                begun.send(()).unwrap();
                go_on.recv().unwrap();
            }
            if state.fails.load(SeqCst) { Err(Fault::from_errno(5)) } else { Ok(()) }
        });
        let open = move |_| {
            Ok(Box::new(Flushes { state: Arc::clone(&driver), done: Vec::new(), held: Vec::new() }) as _)
        };
        FnDisk::new("blocking", geometry, open).with_blocking_flush(flush)
    }
}

/// Completes everything at once, but flushes only while the disk does not hold them.
struct Flushes {
    state: Arc<State>,
    done: Vec<Completion>,
    held: Vec<Completion>,
}

impl Driver for Flushes {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let completion = Completion { tag: request.tag, result: request.len as i64 };
        match request.op {
            Op::Flush => {
                self.state.by_driver.fetch_add(1, SeqCst);
                self.held.push(completion);
            }
            _ => self.done.push(completion),
        }
        true
    }
    fn submit(&mut self, _now: Time) {}
    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if !self.state.holds.load(SeqCst) {
            self.done.append(&mut self.held);
        }
        done.append(&mut self.done);
    }
    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {}
}

fn device(disk: &Blocking) -> Device {
    Device::from_disk(disk.disk(), DiskSettings::default(), None).unwrap()
}

/// The number of flushes on threads of callers, and by drivers.
fn counts(disk: &Blocking) -> (u32, u32) {
    (disk.0.here.load(SeqCst), disk.0.by_driver.load(SeqCst))
}

#[test]
fn a_call_that_sleeps_flushes_on_its_own_thread() {
    let disk = Blocking::default();
    let device = device(&disk);
    // The first call of a lane looks how things are.
    device.write_at(&[1; 512], 0).unwrap();
    device.flush().unwrap();
    device.flush().unwrap();
    assert_eq!(counts(&disk), (2, 0));
    let counters = device.counters();
    assert_eq!((counters.flushes, counters.bios, counters.bios_completed), (2, 3, 3));
    // A call with a timeout must be able to leave the disk alone.
    device.flush_with(IoOptions::timeout(Span::from_secs(60))).unwrap();
    assert_eq!(counts(&disk), (2, 1));
}

#[test]
fn a_failure_is_repeated_in_every_way_until_it_is_acknowledged() {
    let disk = Blocking::default();
    let device = device(&disk);
    device.write_at(&[1; 512], 0).unwrap();
    disk.0.fails.store(true, SeqCst);
    assert_eq!(device.flush().unwrap_err().fault.kind, Kind::Io);
    disk.0.fails.store(false, SeqCst);
    assert_eq!(device.flush().unwrap_err().fault.kind, Kind::FlushFailed);
    let (mut channel, mut done) = (device.channel(1).unwrap(), Vec::new());
    channel.submit(Bio::flush()).unwrap();
    while channel.poll(&mut done) == 0 {}
    assert_eq!(done[0].status().unwrap_err().kind, Kind::FlushFailed);
    assert_eq!(counts(&disk), (1, 0), "no flush that could succeed is tried");
    device.acknowledge_flush_failure();
    device.flush().unwrap();
    assert_eq!(counts(&disk), (2, 0));
}

/// The flush of a program that does not poll holds up no other thread for ever: that one runs the queue itself.
#[test]
fn a_flush_of_the_queue_is_not_waited_for_blindly() {
    let disk = Blocking::default();
    let device = device(&disk);
    device.write_at(&[1; 512], 0).unwrap();
    disk.0.holds.store(true, SeqCst);
    let (mut channel, mut done) = (device.channel(1).unwrap(), Vec::new());
    channel.submit(Bio::flush()).unwrap();
    assert_eq!((channel.poll(&mut done), counts(&disk)), (0, (0, 1)));
    disk.0.holds.store(false, SeqCst);
    device.flush().unwrap();
    assert_eq!(counts(&disk), (0, 2), "it began after the first, so it is another one");
    while channel.poll(&mut done) == 0 {}
    assert_eq!(done[0].status(), Ok(()));
}

/// The queue waits while a thread flushes, and goes on when that has ended.
#[test]
fn one_flush_at_a_time() {
    let disk = Blocking::default();
    let device = device(&disk);
    let (begun, has_begun) = channel();
    let (word, go_on) = channel();
    device.write_at(&[1; 512], 0).unwrap();
    *disk.0.meets.lock().unwrap() = Some((begun, go_on));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| device.flush());
        has_begun.recv().unwrap();
        let (mut queued, mut done) = (device.channel(1).unwrap(), Vec::new());
        queued.submit(Bio::flush()).unwrap();
        assert_eq!((queued.poll(&mut done), counts(&disk)), (0, (1, 0)), "the queue waits");
        word.send(()).unwrap();
        first.join().unwrap().unwrap();
        while queued.poll(&mut done) == 0 {}
        assert_eq!((done[0].status(), counts(&disk)), (Ok(()), (1, 1)));
    });
}
