//! The lane of layers that share state behind one lock, over a state machine that counts its turns.

use platter_block::backend::{Backend, LaneUse};
use platter_block::bio::{Bio, Flags};
use platter_block::deferred::{self, Deferred};
use platter_block::driver::Geometry;
use platter_block::fault::{Fault, Kind, Stage};
use platter_block::lane::{Bell, Cancel, Lane};
use platter_block::limits::Limits;
use platter_block::time::{Span, Time};
use platter_disk::device::Device;
use platter_stack::barrier_gate::BarrierGate;
use platter_stack::gated_lane::GatedLane;
use platter_stack::kit::lanes::LaneEntry;
use platter_stack::kit::port::Order;
use platter_stack::kit::{
    Board, EngineLock, Host, HostLane, LaneBase, LaneTasks, Lanes, Outlook, Port, Turns,
};
use platter_stack::sync::{Mutex, lock_unbroken};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A layer whose bios each take a number of turns.
struct Steps {
    lanes: Lanes<()>,
    own: Box<dyn Lane>,
    turns: u32,
    /// Lanes that were removed.
    left: Vec<u32>,
    panics: bool,
    /// A device has an I/O of the layer.
    is_out: bool,
}

impl Turns for Steps {
    type Failure = ();

    fn lanes(&self) -> &Lanes<()> {
        &self.lanes
    }
    fn lanes_mut(&mut self) -> &mut Lanes<()> {
        &mut self.lanes
    }
    fn each_below(&self, each: &mut dyn FnMut(&dyn Lane)) {
        each(self.own.as_ref());
    }
    fn outlook(&self, _now: Time) -> Outlook {
        assert!(!self.panics, "the outlook panics");
        Outlook { is_out: self.is_out, ..Outlook::default() }
    }
    fn is_out(&self) -> bool {
        self.is_out
    }
    fn enter(&mut self) {
        self.turns += 1;
    }
    fn leave(&mut self, _now: Time) {
        if self.is_out {
            self.lanes.appoint();
        }
    }
    fn run(&mut self, _now: Time) {}
    fn has_progress(&self) -> bool {
        false
    }
    fn unplug(&mut self, now: Time) {
        self.own.unplug(now);
    }
    fn wait(&mut self, _now: Time, _timeout: Option<Span>) {}
}

struct Shared {
    engine: Mutex<Steps>,
    board: Board,
    port: Option<Port>,
}

impl Host for Shared {
    type Engine = Steps;

    fn engine(&self) -> Result<EngineLock<'_, Steps>, Fault> {
        let engine = lock_unbroken(&self.engine).filter(|_| !self.port.as_ref().is_some_and(Port::is_broken));
        engine.map(EngineLock::new).ok_or(Fault::new(Kind::Broken, Stage::Layer))
    }
    fn port(&self) -> Option<&Port> {
        self.port.as_ref()
    }
    fn board(&self) -> &Board {
        &self.board
    }
    fn is_simulated(&self) -> bool {
        false
    }
    fn now(&self) -> Time {
        Time(0)
    }
}

/// Bios that end in the turn in which they are seen, and when a kick comes relative to that.
#[derive(Default)]
struct Bios {
    bios: Vec<Bio>,
    over: Vec<Bio>,
    kick_before: bool,
    kick_after: bool,
    /// Its bios never end.
    waits: bool,
    panics: bool,
    /// Its turns submit a bio to the lane's own lane.
    submits: bool,
}

impl LaneTasks for Bios {
    type Host = Shared;

    fn start(&mut self, _base: &LaneBase<Shared>, bio: Bio) -> Option<Bio> {
        self.bios.push(bio);
        None
    }
    fn count(&self) -> usize {
        self.bios.len() + self.over.len()
    }
    fn waits(&self) -> bool {
        !self.bios.is_empty()
    }
    fn is_due(&self, _now: Time) -> bool {
        !self.waits && !self.bios.is_empty()
    }
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
    fn turn(&mut self, _now: Time, base: &mut LaneBase<Shared>, engine: &mut Steps) -> bool {
        if std::mem::take(&mut self.kick_before) {
            engine.lanes.kick(base.number);
        }
        base.has_seen();
        if std::mem::take(&mut self.kick_after) {
            engine.lanes.kick(base.number);
        }
        assert!(!self.panics, "a turn panics");
        if self.submits {
            base.own_out += 1;
            base.to_own.push(read(0));
        }
        if !self.waits {
            self.over.append(&mut self.bios);
        }
        false
    }
    fn take_over(&mut self, _own_out: u32, mut give_back: impl FnMut(Bio)) {
        for mut bio in self.over.drain(..) {
            if bio.status().is_ok() {
                bio.advance(bio.len());
            }
            give_back(bio);
        }
    }
    fn fail(&mut self, _base: &LaneBase<Shared>, fault: Fault) {
        for mut bio in self.bios.drain(..) {
            bio.fail(fault);
            self.over.push(bio);
        }
    }
    fn cancel(&mut self, _now: Time, _number: u32, _which: &Cancel, _engine: &mut Steps) {
        assert!(!self.panics, "a cancel panics");
        self.over.append(&mut self.bios);
    }
    fn end(&mut self, base: &mut LaneBase<Shared>) {
        assert_eq!(base.own_out, 0, "it would wait for ever");
        if let Ok(mut engine) = base.host.engine() {
            engine.lanes.leave(base.number);
            engine.left.push(base.number);
        }
    }
}

fn host(device: &Arc<dyn Backend>) -> Arc<Shared> {
    host_over(device.open_lane(LaneUse::Shared).unwrap())
}

fn host_over(own: Box<dyn Lane>) -> Arc<Shared> {
    let (lanes, left) = (Lanes::default(), Vec::new());
    let steps = Steps { lanes, own, turns: 0, left, panics: false, is_out: false };
    Arc::new(Shared { engine: Mutex::new(steps), board: Board::default(), port: None })
}

fn open(host: &Arc<Shared>, device: &Arc<dyn Backend>, tasks: Bios) -> GatedLane<HostLane<Bios>> {
    let own = device.open_lane(LaneUse::Synchronous).unwrap();
    let gate = BarrierGate::new(Span::from_secs(30));
    HostLane::open(host, own, (device.geometry(), &gate), LaneUse::Synchronous, tasks).unwrap()
}

fn read(pos: u64) -> Bio {
    Bio::read(pos, vec![0; 4096]).unwrap()
}

fn run(lane: &mut GatedLane<HostLane<Bios>>, bio: Bio) -> Vec<Bio> {
    lane.submit(Time(0), bio);
    lane.run(Time(0));
    let mut done = Vec::new();
    lane.take_done(&mut done);
    done
}

#[test]
fn a_kick_that_a_turn_has_seen_causes_no_other_turn() {
    let device = Arc::clone(Device::ram(1 << 20).unwrap().backend());
    let host = host(&device);
    let turns = |kick_before, kick_after| {
        let before = host.engine().unwrap().turns;
        let mut lane = open(&host, &device, Bios { kick_before, kick_after, ..Bios::default() });
        let done = run(&mut lane, read(0));
        assert!(done.len() == 1 && done[0].status().is_ok() && lane.is_idle());
        host.engine().unwrap().turns - before
    };
    assert_eq!([turns(false, false), turns(true, false), turns(false, true)], [1, 1, 2]);
    assert_eq!(host.engine().unwrap().left.len(), 3, "each lane was removed");
}

#[test]
fn what_the_layer_cannot_carry_out_needs_no_lock() {
    let device = Arc::clone(Device::ram(1 << 20).unwrap().backend());
    let host = host(&device);
    let mut lane = open(&host, &device, Bios::default());
    let kinds = |done: Vec<Bio>| done[0].status().unwrap_err().kind;
    assert_eq!(kinds(run(&mut lane, read(1 << 20))), Kind::OutOfRange);
    let mut atomic = Bio::write(0, vec![0; 4096]).unwrap();
    atomic.add_flags(Flags::ATOMIC);
    assert_eq!(kinds(run(&mut lane, atomic)), Kind::Unsupported);
    assert_eq!(host.engine().unwrap().turns, 0);
}

#[test]
fn a_broken_layer_fails_what_it_is_given() {
    let device = Arc::clone(Device::ram(1 << 20).unwrap().backend());
    let host = host(&device);
    let mut lane = open(&host, &device, Bios::default());
    let other = Arc::clone(&host);
    let panicked = std::thread::spawn(move || {
        let _engine = other.engine().unwrap();
        panic!("the lock is held");
    });
    assert!(panicked.join().is_err());
    let done = run(&mut lane, read(0));
    assert_eq!(done[0].status().unwrap_err().kind, Kind::Broken);
    assert!(lane.is_idle());
}

/// A lane that sleeps would never learn of the panic of another, whatever that was about to do with the lock.
#[test]
fn a_panic_with_the_lock_held_wakes_the_other_lanes() {
    type Panic = fn(&mut GatedLane<HostLane<Bios>>, &Shared);
    let panics: [Panic; 4] = [
        |faulty, _| {
            faulty.submit(Time(0), read(4096));
            faulty.run(Time(0));
        },
        |faulty, _| faulty.cancel(Time(0), &Cancel::token(7)),
        |faulty, host| {
            host.engine().unwrap().panics = true;
            faulty.sleep(Time(0), Some(Span(0)), &[]);
        },
        |_, host| {
            let _engine = host.engine().unwrap();
            panic!("the lock is held");
        },
    ];
    for (nth, panics) in panics.into_iter().enumerate() {
        let device = Arc::clone(Device::ram(1 << 20).unwrap().backend());
        let host = host(&device);
        let mut waiting = open(&host, &device, Bios { waits: true, ..Bios::default() });
        let mut faulty = open(&host, &device, Bios { panics: true, ..Bios::default() });
        waiting.submit(Time(0), read(0));
        waiting.run(Time(0));
        // The first turn of a lane may ask for another one.
        waiting.run(Time(0));
        assert!(!waiting.has_done() && waiting.next_wakeup().is_none());
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| panics(&mut faulty, &host)));
        assert!(panicked.is_err(), "{nth}");
        assert_eq!(waiting.next_wakeup(), Some(Time(0)), "{nth}");
        let failed = |lane: &mut GatedLane<HostLane<Bios>>| {
            let mut done = Vec::new();
            lane.run(Time(0));
            lane.take_done(&mut done);
            assert!(lane.is_idle(), "{nth}");
            done.iter().map(|bio| bio.status().unwrap_err().kind).collect::<Vec<_>>()
        };
        assert_eq!(failed(&mut waiting), [Kind::Broken], "{nth}");
        assert_eq!(failed(&mut faulty).len(), usize::from(nth == 0));
    }
}

/// Notes for each ring whether the lock on the state was free.
struct Watchful {
    host: Arc<Shared>,
    rings: Mutex<Vec<bool>>,
}

impl Bell for Watchful {
    fn ring(&self) {
        let is_free = self.host.engine.try_lock().is_ok();
        self.rings.lock().unwrap().push(is_free);
    }
}

/// What wakes a thread is a system call.
#[test]
fn bells_ring_when_the_lock_has_been_released() {
    let device = Arc::clone(Device::ram(1 << 20).unwrap().backend());
    let host = host(&device);
    let bell = Arc::new(Watchful { host: Arc::clone(&host), rings: Mutex::default() });
    let rings = || std::mem::take(&mut *bell.rings.lock().unwrap());
    let mut engine = host.engine().unwrap();
    for _ in 0..7 {
        let entry = LaneEntry::new(Some(Arc::<Watchful>::clone(&bell)));
        let number = engine.lanes.join(&entry);
        engine.lanes.kick(number);
        engine.lanes.kick(number);
    }
    assert!(rings().is_empty());
    let (seen, count) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&bell));
    let late = Arc::clone(&seen);
    // Code of the program may wait for what the lanes do that were woken.
    let call = move || late.store(count.rings.lock().unwrap().len(), Ordering::SeqCst);
    deferred::later(Deferred::Call(Box::new(call)));
    drop(engine);
    assert_eq!(seen.load(Ordering::SeqCst), 7);
    assert_eq!(rings(), [true; 7], "each bell rings once");
    host.board.keep(&[], Arc::<Watchful>::clone(&bell));
    let mut engine = host.engine().unwrap();
    let outlook = Outlook { thread: Some(Time(9)), ..Outlook::default() };
    host.board.publish(Time(0), &mut engine.lanes, outlook, false);
    assert!(rings().is_empty());
    drop(engine);
    assert_eq!(rings(), [true], "so do those of threads that come back");
    drop(host.engine().unwrap());
    assert!(rings().is_empty());
}

/// A lane that panics when it is used in one of two ways.
struct Flawed {
    in_run: bool,
}

impl Lane for Flawed {
    fn submit(&mut self, _now: Time, _bio: Bio) {}

    fn run(&mut self, _now: Time) {
        assert!(!self.in_run, "a run panics");
    }

    fn take_done(&mut self, _out: &mut Vec<Bio>) {}

    fn has_done(&self) -> bool {
        false
    }

    fn wait_handles(&self, _out: &mut Vec<i32>) -> bool {
        assert!(self.in_run, "a lane that is asked panics");
        true
    }
}

#[test]
fn a_panic_behind_a_port_breaks_the_layer() {
    let device = Arc::clone(Device::ram(1 << 20).unwrap().backend());
    for in_run in [true, false] {
        let mut host = host(&device);
        Arc::get_mut(&mut host).unwrap().port = Some(Port::new(Box::new(Flawed { in_run }), false));
        let mut waiting = open(&host, &device, Bios { waits: true, ..Bios::default() });
        (0..2).for_each(|_| waiting.run(Time(0)));
        assert!(waiting.next_wakeup().is_none());
        let uses = || {
            host.port().unwrap().order([Order::Unplug]);
            host.list_handles(&mut Vec::new(), None)
        };
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(uses));
        assert!(panicked.is_err() && host.engine().is_err(), "{in_run}");
        assert_eq!(waiting.next_wakeup(), Some(Time(0)), "the lane is woken");
        // It is not used again.
        assert!(!host.list_handles(&mut Vec::new(), None) && !host.port().unwrap().run(Time(0)));
    }
}

/// A turn may panic between counting what it submits and submitting that.
#[test]
fn a_lane_does_not_wait_for_what_a_panic_kept_it_from_submitting() {
    let device = Arc::clone(Device::ram(1 << 20).unwrap().backend());
    for runs_again in [true, false] {
        let host = host(&device);
        let mut faulty = open(&host, &device, Bios { submits: true, ..Bios::default() });
        host.engine().unwrap().panics = true;
        faulty.submit(Time(0), read(0));
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| faulty.run(Time(0))));
        assert!(panicked.is_err());
        if runs_again {
            faulty.run(Time(0));
        }
        drop(faulty);
    }
}

/// Counts how often it is rung.
#[derive(Default)]
struct Rings(AtomicUsize);

impl Bell for Rings {
    fn ring(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A lane below whose sleeps return at once; if it answers, its bios have completed then.
#[derive(Default)]
struct Quiet {
    held: Vec<Bio>,
    done: Vec<Bio>,
    answers: bool,
    bell: Arc<Rings>,
}

impl Lane for Quiet {
    fn submit(&mut self, _now: Time, bio: Bio) {
        self.held.push(bio);
    }

    fn take_done(&mut self, out: &mut Vec<Bio>) {
        out.append(&mut self.done);
    }

    fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    fn sleep(&mut self, _now: Time, _timeout: Option<Span>, _others: &[i32]) {
        if self.answers {
            self.done.append(&mut self.held);
        }
    }

    fn bell(&self) -> Option<Arc<dyn Bell>> {
        let bell: Arc<Rings> = Arc::clone(&self.bell);
        Some(bell)
    }

    fn wait_handles(&self, _out: &mut Vec<i32>) -> bool {
        true
    }
}

/// Bios that go to the lane's own lane, and end without the lock when they come back.
#[derive(Default)]
struct Reads {
    fresh: Vec<Bio>,
    out: usize,
    over: Vec<Bio>,
}

impl Reads {
    fn take_back(&mut self, base: &mut LaneBase<Shared>) -> bool {
        let came = base.came.len();
        base.own_out -= came as u32;
        self.out -= came;
        self.over.append(&mut base.came);
        came > 0
    }
}

impl LaneTasks for Reads {
    type Host = Shared;

    fn start(&mut self, _base: &LaneBase<Shared>, bio: Bio) -> Option<Bio> {
        self.fresh.push(bio);
        None
    }
    fn count(&self) -> usize {
        self.fresh.len() + self.out + self.over.len()
    }
    fn waits(&self) -> bool {
        self.out > 0
    }
    fn is_due(&self, _now: Time) -> bool {
        !self.fresh.is_empty()
    }
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
    fn turn(&mut self, _now: Time, base: &mut LaneBase<Shared>, _engine: &mut Steps) -> bool {
        self.take_back(base);
        base.has_seen();
        self.out += self.fresh.len();
        base.own_out += self.fresh.len() as u32;
        base.to_own.append(&mut self.fresh);
        false
    }
    fn finish_unlocked(&mut self, base: &mut LaneBase<Shared>) -> bool {
        self.take_back(base)
    }
    fn take_over(&mut self, _own_out: u32, give_back: impl FnMut(Bio)) {
        self.over.drain(..).for_each(give_back);
    }
    fn fail(&mut self, _base: &LaneBase<Shared>, _fault: Fault) {}
    fn cancel(&mut self, _now: Time, _number: u32, _which: &Cancel, _engine: &mut Steps) {}
    fn end(&mut self, base: &mut LaneBase<Shared>) {
        if let Ok(mut engine) = base.host.engine() {
            engine.lanes.leave(base.number);
        }
    }
}

fn quiet<T>(host: &Arc<Shared>, answers: bool, tasks: T) -> (GatedLane<HostLane<T>>, Arc<Rings>)
where
    T: LaneTasks<Host = Shared>,
{
    let bell = Arc::<Rings>::default();
    let own = Quiet { answers, bell: Arc::clone(&bell), ..Quiet::default() };
    let geometry = Geometry::new(1 << 20, Limits::unlimited(512));
    let gate = BarrierGate::new(Span::from_secs(30));
    let lane = HostLane::open(host, Box::new(own), (geometry, &gate), LaneUse::Synchronous, tasks);
    (lane.unwrap(), bell)
}

/// Three lanes sleep, of which the first listens. `end` ends the bio of the last one, which is not used after that. The lane that
/// listens from the end of the first one on must be the second: no thread would hear the bell of the last one.
fn leaves_the_sleepers<T>(tasks: T, end: impl FnOnce(&mut GatedLane<HostLane<T>>))
where
    T: LaneTasks<Host = Shared>,
{
    let host = host_over(Box::new(Quiet::default()));
    host.engine().unwrap().is_out = true;
    let (mut first, _) = quiet(&host, true, Reads::default());
    let (mut second, asleep) = quiet(&host, false, Reads::default());
    let (mut last, idle) = quiet(&host, true, tasks);
    let lanes: [&mut dyn Lane; 3] = [&mut first, &mut second, &mut last];
    for lane in lanes {
        lane.submit(Time(0), read(0));
        lane.sleep(Time(0), None, &[]);
    }
    let mut done = Vec::new();
    end(&mut last);
    last.take_done(&mut done);
    assert!(done.len() == 1 && last.is_idle());
    let rings = || [&asleep, &idle].map(|bell| bell.0.swap(0, Ordering::SeqCst));
    rings();
    first.run(Time(0));
    assert!(first.has_done());
    assert_eq!(rings(), [1, 0], "the one that still sleeps listens now");
    assert_eq!(second.next_wakeup(), Some(Time(0)));
}

#[test]
fn a_lane_that_has_ended_its_bio_without_the_lock_is_not_made_to_listen() {
    leaves_the_sleepers(Reads::default(), |lane| lane.run(Time(0)));
}

#[test]
fn a_lane_whose_bio_was_cancelled_is_not_made_to_listen() {
    leaves_the_sleepers(Bios { waits: true, ..Bios::default() }, |lane| {
        lane.cancel(Time(0), &Cancel::token(0))
    });
}
