//! Flushes on the threads of their callers: they are one at a time with those of the queue, and a failure is known to all.

use platter_block::backend::LaneUse;
use platter_block::bio::{Bio, Flags, Op};
use platter_block::deferred::{self, Deferred};
use platter_block::disk::{BlockingFlush, FnDisk};
use platter_block::driver::{Completion, Driver, Features, Geometry, Started};
use platter_block::fault::{Fault, Kind};
use platter_block::limits::Limits;
use platter_block::segment::RegionId;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_disk::disk_backend::DiskSettings;
use platter_disk::sync_io::IoOptions;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// What is to be done once, when the driver of the shared queue is called.
type Hook = Mutex<Option<Box<dyn FnOnce() + Send>>>;

fn set(hook: &Hook, call: impl FnOnce() + Send + 'static) {
    *hook.lock().unwrap() = Some(Box::new(call));
}

fn run(hook: &Hook) {
    let call = hook.lock().unwrap().take();
    if let Some(call) = call {
        call();
    }
}

/// What the disk does and has done.
#[derive(Default)]
struct State {
    /// Flushes on threads of callers, and by drivers.
    here: AtomicU32,
    by_driver: AtomicU32,
    fails: AtomicBool,
    /// The driver of the shared queue keeps what it has.
    holds: AtomicBool,
    on_unregister: Hook,
    on_reap: Hook,
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
        let open = move |lane_use: LaneUse| {
            let (state, is_shared) = (Arc::clone(&driver), lane_use == LaneUse::Shared);
            Ok(Box::new(Flushes { state, is_shared, done: Vec::new(), held: Vec::new() }) as _)
        };
        FnDisk::new("blocking", geometry, open).with_blocking_flush(flush)
    }
}

/// Completes everything at once. That of the shared queue, which has all flushes, does so only while the disk holds nothing.
struct Flushes {
    state: Arc<State>,
    is_shared: bool,
    done: Vec<Completion>,
    held: Vec<Completion>,
}

impl Driver for Flushes {
    fn queue(&mut self, _now: Time, request: &Started<'_>) -> bool {
        let completion = Completion { tag: request.tag, result: request.len as i64 };
        if request.op == Op::Flush {
            self.state.by_driver.fetch_add(1, SeqCst);
        }
        let list = if self.is_shared { &mut self.held } else { &mut self.done };
        list.push(completion);
        true
    }
    fn submit(&mut self, _now: Time) {}
    fn reap(&mut self, _now: Time, done: &mut Vec<Completion>) {
        if self.is_shared {
            run(&self.state.on_reap);
        }
        if !self.state.holds.load(SeqCst) {
            self.done.append(&mut self.held);
        }
        done.append(&mut self.done);
    }
    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {}
    fn unregister(&mut self, _region: RegionId) {
        if self.is_shared {
            run(&self.state.on_unregister);
        }
    }
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

/// Calls what it is given, and then something that takes the lock of the shared queue once.
type Visit = fn(&Device, &dyn Fn());

/// What happens in the middle of a visit.
type Between = fn(&Blocking, &Device);

/// Makes a visit, and calls `between` on its thread at the first moment at which the visit does not hold the lock any more.
///
/// Another thread wanted to run the queue while the lock was taken. So the visit runs it for that thread when it has done its own
/// work under the lock, and a call of the program that the driver defers then comes when the lock is released. Whatever a visit
/// does after its work under the lock comes later still.
fn interrupt(disk: &Blocking, device: &Device, visit: Visit, between: Between) {
    disk.0.holds.store(true, SeqCst);
    let now = device.backend().now();
    let mut lane = device.backend().open_lane(LaneUse::Synchronous).unwrap();
    // It goes through the shared queue, whose driver is asked for its completion each time the queue is run.
    let mut durable = Bio::write(4096, vec![1; 512]).unwrap();
    durable.add_flags(Flags::FUA);
    lane.submit(now, durable);
    lane.run(now);
    let lane = Arc::new(Mutex::new(lane));
    let (tell, told) = channel();
    let (wants, state, on) = (Arc::clone(&lane), disk.clone(), device.clone());
    let visits = move || {
        let arm = || arm(&state, &on, between, &tell);
        visit(&on, &arm);
        tell.send("visit").unwrap();
    };
    // The lock is held here. What is deferred comes when it is released, before this thread runs the queue for the other one.
    set(&disk.0.on_unregister, move || {
        std::thread::spawn(move || wants.lock().unwrap().run(now)).join().unwrap();
        let call = || std::thread::spawn(visits).join().unwrap();
        deferred::later(Deferred::Call(Box::new(call)));
    });
    device.backend().unregister(RegionId(7));
    disk.0.holds.store(false, SeqCst);
    let (mut lane, mut done) = (lane.lock().unwrap(), Vec::new());
    while done.is_empty() {
        lane.turn(now, &mut done);
    }
    assert_eq!(told.try_iter().collect::<Vec<_>>(), ["between", "visit"]);
}

/// Has `between` called when the shared queue has been run next, and its lock released.
fn arm(disk: &Blocking, device: &Device, between: Between, tell: &Sender<&'static str>) {
    let (state, on, tell) = (disk.clone(), device.clone(), tell.clone());
    let call = move || {
        between(&state, &on);
        tell.send("between").unwrap();
    };
    set(&disk.0.on_reap, move || deferred::later(Deferred::Call(Box::new(call))));
}

/// The results of a flush on the thread of its caller, if it may be, and of one through the shared queue.
fn outcomes(device: &Device) -> [Result<(), Kind>; 2] {
    // The first call of a lane looks how things are.
    device.write_at(&[3; 512], 0).unwrap();
    let call = device.flush().map_err(|error| error.fault.kind);
    let (mut channel, mut done) = (device.channel(1).unwrap(), Vec::new());
    channel.submit(Bio::flush()).unwrap();
    while channel.poll(&mut done) == 0 {}
    [call, done[0].status().map_err(|fault| fault.kind)]
}

/// The failure comes after the acknowledgement, both for the shared queue and for threads that flush the disk themselves.
#[test]
fn a_flush_that_fails_during_an_acknowledgement_has_failed_for_all() {
    let disk = Blocking::default();
    let device = device(&disk);
    let acknowledge: Visit = |device, arm| {
        arm();
        device.acknowledge_flush_failure();
    };
    interrupt(&disk, &device, acknowledge, |disk, device| {
        device.write_at(&[2; 512], 0).unwrap();
        disk.0.fails.store(true, SeqCst);
        assert_eq!(device.flush().unwrap_err().fault.kind, Kind::Io);
        disk.0.fails.store(false, SeqCst);
    });
    assert_eq!(outcomes(&device), [Err(Kind::FlushFailed); 2]);
    device.acknowledge_flush_failure();
    assert_eq!(outcomes(&device), [Ok(()); 2]);
}

/// The acknowledgement comes after the failure for both. Otherwise no thread would flush the disk itself from then on.
#[test]
fn an_acknowledgement_while_a_failure_is_recorded_covers_it_for_all() {
    let disk = Blocking::default();
    let device = device(&disk);
    disk.0.fails.store(true, SeqCst);
    // A call of the device runs nothing that is deferred before it ends, so this uses a lane.
    let flush: Visit = |device, arm| {
        let now = device.backend().now();
        let mut lane = device.backend().open_lane(LaneUse::Synchronous).unwrap();
        let mut done = Vec::new();
        lane.submit(now, Bio::write(0, vec![2; 512]).unwrap());
        while done.is_empty() {
            lane.wait(now, None);
            lane.turn(now, &mut done);
        }
        arm();
        lane.submit(now, Bio::flush());
        lane.wait(now, None);
        lane.take_done(&mut done);
        assert_eq!(done[1].status().unwrap_err().kind, Kind::Io);
    };
    interrupt(&disk, &device, flush, |_, device| device.acknowledge_flush_failure());
    disk.0.fails.store(false, SeqCst);
    let (here, by_driver) = counts(&disk);
    assert_eq!(outcomes(&device), [Ok(()); 2]);
    assert_eq!(counts(&disk), (here + 1, by_driver + 1));
}
