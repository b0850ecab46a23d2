//! When a queue polls its ring, what it does with memory that a driver keeps, and what it leaves behind when it stops.

use super::*;
use crate::admission::{Bells, ClientShare};
use crate::clients::Clients;
use crate::qos::DeviceLimits;
use crate::restart::FirstFlush;
use crate::served::Served;
use crate::vhost::common::Call;
use crate::vhost::ring::Addresses;
use platter::raid::{self, Array};
use platter::registry::{self, Access};
use platter_block::backend::Backend;
use platter_block::lane::Bell;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_disk::disk_backend::{DiskBackend, DiskSettings};
use platter_sim::fault::{Blow, FaultPlan, Lands, Strike};
use platter_sim::ideal::Ideal;
use platter_sim::medium::Medium;
use platter_sim::{SimDisk, World};
use platter_wait::EventFd;
use rustix::event::{EventfdFlags, eventfd};
use std::sync::atomic::AtomicBool;

/// Places in the guest's memory.
const AT: Addresses = Addresses { descriptors: 0, available: 0x1000, used: 0x2000 };
const HEADERS: u64 = 0x3000;
const STATUSES: u64 = 0x4000;
const DATA: u64 = 0x5000;
const MEMORY: usize = 0x6000;
const SIZE: u16 = 8;

/// How long a disk has a request that it does not answer, which is much longer than the timeout of the device.
const HELD: Span = Span::from_secs(100);

/// A queue whose thread is the test, and its driver.
struct Rig {
    worker: Worker,
    memory: Arc<Memory>,
    kick: Arc<OwnedFd>,
    offered: u16,
}

fn rig() -> Rig {
    rig_of(Device::ram(1 << 20).unwrap())
}

fn rig_of(device: Device) -> Rig {
    let served = Arc::new(Served::new("disk", device).unwrap());
    let bells = Arc::new(Bells::default());
    let client = Arc::new(Clients::new(1).connect("vhost-user-blk", "disk", "guest", || {}).unwrap());
    let share = ClientShare::join(&served, &client, Arc::clone(&bells) as Arc<dyn Bell>);
    let common = Arc::new(Common {
        client,
        served,
        share,
        bells,
        log: Arc::new(|_| {}),
        first_flush: FirstFlush::default(),
        write_back: Arc::new(AtomicBool::new(true)),
        depth: usize::from(SIZE),
        failure: Arc::default(),
    });
    let memory = Arc::new(Memory::private(MEMORY).unwrap());
    let kick = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let worker = worker(common, &memory, &kick, 0);
    Rig { worker, memory, kick, offered: 0 }
}

/// A worker that begins with the available entry `next`.
fn worker(common: Arc<Common>, memory: &Arc<Memory>, kick: &Arc<OwnedFd>, next: u16) -> Worker {
    let mut ring = Ring::new(Arc::clone(memory), SIZE, AT, true).unwrap();
    ring.start_at(next);
    let queue = Queue { number: 0, ring, journal: None, recovered: Vec::new(), kick: Arc::clone(kick) };
    let line = Line::new(Arc::new(EventFd::new().unwrap()), &Arc::<Call>::default());
    Worker::new(common, line, queue).unwrap()
}

impl Rig {
    /// Writes a descriptor.
    fn put(&self, index: u16, address: u64, len: u32, flags: u16, next: u16) {
        let mut entry = address.to_le_bytes().to_vec();
        entry.extend(len.to_le_bytes());
        entry.extend([flags, next].map(u16::to_le_bytes).concat());
        assert!(self.memory.write(AT.descriptors + 16 * u64::from(index), &entry));
    }

    /// Makes a transfer of 512 bytes available: a read (0) or a write (1). The first one, the third and so on have status and
    /// data at place 0, the others at place 1.
    fn offer_transfer(&mut self, kind: u32, sector: u64) {
        self.offer_data(kind, sector, 512);
    }

    /// Makes a request for zeroes that take space available, from the begin of the disk on.
    fn offer_zeroes(&mut self, bytes: u64) {
        let range = [&[0u8; 8][..], &((bytes / 512) as u32).to_le_bytes(), &[0; 4]].concat();
        assert!(self.memory.write(DATA + 512 * u64::from(self.offered % 2), &range));
        self.offer_data(13, 0, 16);
    }

    fn offer_data(&mut self, kind: u32, sector: u64, len: u32) {
        let place = self.offered % 2;
        let (head, at) = (3 * place, u64::from(place));
        let header = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        assert!(self.memory.write(HEADERS + 16 * at, &header));
        assert!(self.memory.write(STATUSES + at, &[0xff]));
        self.put(head, HEADERS + 16 * at, 16, 1, head + 1);
        self.put(head + 1, DATA + 512 * at, len, if kind == 0 { 3 } else { 1 }, head + 2);
        self.put(head + 2, STATUSES + at, 1, 2, 0);
        let entry = AT.available + 4 + 2 * u64::from(self.offered % SIZE);
        assert!(self.memory.write(entry, &head.to_le_bytes()));
        self.offered += 1;
        assert!(self.memory.write(AT.available + 2, &self.offered.to_le_bytes()));
    }

    /// The status of the last transfer at a place.
    fn status(&self, at: u64) -> u8 {
        self.bytes::<1>(STATUSES + at)[0]
    }

    fn data(&self, at: u64) -> [u8; 512] {
        self.bytes(DATA + 512 * at)
    }

    fn bytes<const LEN: usize>(&self, guest: u64) -> [u8; LEN] {
        let mut bytes = [0u8; LEN];
        let place = self.memory.place_of_guest(guest, LEN).unwrap();
        self.memory.slice(place).copy_to(&mut bytes[..]);
        bytes
    }

    /// Makes flushes available, each of two descriptors.
    fn offer(&mut self, count: u16) {
        for _ in 0..count {
            let head = (self.offered % (SIZE / 2)) * 2;
            self.put(head, HEADERS, 16, 1, head + 1);
            self.put(head + 1, STATUSES + u64::from(head), 1, 2, 0);
            let entry = AT.available + 4 + 2 * u64::from(self.offered % SIZE);
            assert!(self.memory.write(HEADERS, &4u32.to_le_bytes()));
            assert!(self.memory.write(entry, &head.to_le_bytes()));
            self.offered += 1;
        }
        assert!(self.memory.write(AT.available + 2, &self.offered.to_le_bytes()));
    }

    /// Turns until all that was offered is answered. Returns after the last of them, before a sleep.
    fn work(&mut self) {
        while self.worker.ring.used_index() != self.offered {
            assert!(self.worker.turn(&mut None));
        }
        assert_eq!(self.worker.common.served.qos().running(), 0);
    }

    /// Turns until this many requests were answered.
    fn turn_to(&mut self, answered: u16) {
        while self.worker.ring.used_index() < answered {
            assert!(self.worker.turn(&mut None));
        }
    }

    /// Begins what was offered, and lets the time and the grace of a request pass that the disk does not answer.
    fn let_disk_fail(&mut self) {
        self.worker.take_all().unwrap();
        let clock = self.worker.channel.clock().clone();
        let begin = clock.now();
        for seconds in 0..3 {
            clock.simulated().unwrap().advance_to(begin + Span::from_secs(seconds));
            self.worker.channel.poll(&mut self.worker.bios.done);
        }
        assert!(self.worker.bios.done.is_empty());
    }

    /// Stops the queue and starts it again, as for a change of the guest's memory.
    fn restart(&mut self) {
        self.worker.line.end(Stop::Now);
        while self.worker.turn(&mut None) {}
        let (common, next) = (Arc::clone(&self.worker.common), self.worker.ring.next_index());
        self.worker = worker(common, &self.memory, &self.kick, next);
    }

    /// A turn without requests, whose sleep ends at once because the driver has notified the queue.
    fn sleep(&mut self) {
        rustix::io::write(&*self.kick, &1u64.to_ne_bytes()).unwrap();
        assert!(self.worker.turn(&mut None));
    }
}

#[test]
fn a_queue_polls_after_a_batch_and_not_after_single_requests() {
    let mut rig = rig();
    rig.offer(1);
    rig.work();
    rig.sleep();
    assert_eq!(rig.worker.polling.pause(), 0, "no poll");
    rig.offer(4);
    rig.work();
    rig.sleep();
    assert_eq!(rig.worker.polling.pause(), 1, "one poll in vain");
    for pause in [1, 3] {
        rig.offer(4);
        rig.work();
        rig.sleep();
        assert_eq!(rig.worker.polling.pause(), pause);
    }
}

#[test]
fn a_request_that_polling_finds_needs_no_notification() {
    // How long it polls follows from how long things took: on a busy machine it may not poll at all.
    let polls = || {
        let mut rig = rig();
        rig.offer(4);
        rig.work();
        rig.sleep();
        let asked_at = rig.worker.ring.next_index();
        assert_eq!(asked_at, 4);
        rig.worker.polling = Polling::default();
        rig.offer(4);
        rig.work();
        rig.offer(1);
        // As if the request came after the turn had found none.
        rig.worker.wait().unwrap();
        let polls = rig.worker.ring.notified_at() == asked_at;
        rig.work();
        polls
    };
    assert!((0..100).any(|_| polls()), "a notification is wanted each time");
}

/// In virtual time: a device with a timeout over a disk that has each request for much longer.
fn silent(world: &Arc<World>, elevator: &str) -> Device {
    let spec =
        format!("sim(ideal, stuck=1000000, stuck_for=100s, aborts=0, timeout=1s, elevator={elevator})");
    registry::open_in(world, &registry::parse(&spec).unwrap(), Access::read_write()).unwrap()
}

/// The driver has the guest's memory: the guest is answered when it has returned that, however late.
#[test]
fn memory_is_given_back_when_the_driver_has_returned_it() {
    for (elevator, kind) in [("none", 0), ("none", 1), ("deadline", 0), ("deadline", 1)] {
        for stops in [false, true] {
            let world = World::by_hand(1);
            let mut rig = rig_of(silent(&world, elevator));
            let case = format!("{elevator}, request {kind}, stops: {stops}");
            let begin = world.clock().now();
            rig.offer_transfer(kind, 0);
            assert!(rig.worker.turn(&mut None));
            if stops {
                rig.worker.line.end(Stop::Now);
            }
            while rig.worker.ring.used_index() == 0 {
                let goes_on = rig.worker.turn(&mut None);
                let is_answered = rig.worker.ring.used_index() == 1;
                assert!(goes_on || is_answered, "{case}: it ends although the driver has the memory");
            }
            assert!(world.clock().now().since(begin) >= HELD, "{case}: answered too early");
            assert_eq!(rig.status(0), 0, "{case}");
            assert_eq!(rig.worker.common.served.device().counters().timeouts, 0, "{case}");
        }
    }
}

fn ideal(size: u64) -> Ideal {
    Ideal { size, latency: Span::from_micros(100), depth: 32, write_cache: false }
}

fn simulated_disk(world: &Arc<World>) -> SimDisk {
    let model = ideal(16 << 20);
    let disk = SimDisk::new(world, model.into(), Some(Medium::new()));
    disk.set_faults(Some(FaultPlan { abort_chance: 0, ..FaultPlan::default() }));
    disk
}

fn with_timeout() -> DiskSettings {
    let mut settings = DiskSettings::default();
    settings.queue.timeout = Some(Span::from_secs(1));
    settings
}

/// In virtual time: the disk does not answer a read. It is failed, and later requests fail at once; when it has answered, it works again.
#[test]
fn a_failed_disk_refuses_what_follows_until_it_has_answered() {
    let world = World::by_hand(1);
    let disk = simulated_disk(&world);
    let device = Device::from_disk(disk.attach("sim"), with_timeout(), None).unwrap();
    device.write_at(&[1; 512], 0).unwrap();
    let mut rig = rig_of(device);
    disk.strike(Strike { op: None, blow: Blow::Stuck(HELD, Lands::Late) });
    let begin = world.clock().now();
    rig.offer_transfer(0, 0);
    rig.let_disk_fail();
    rig.offer_transfer(0, 0);
    rig.turn_to(1);
    assert!(world.clock().now().since(begin) < Span::from_secs(4));
    assert_eq!((rig.status(0), rig.status(1)), (0xff, 1), "only the second one is answered");
    assert_eq!(disk.release_stuck(), 1);
    rig.work();
    assert_eq!((rig.status(0), rig.data(0)), (0, [1; 512]));
    rig.offer_transfer(0, 0);
    rig.work();
    assert_eq!((rig.status(0), rig.data(0)), (0, [1; 512]));
}

/// In virtual time: a path does not answer a write of the guest. The path is failed, and the disk goes on through the other one; the
/// write ends when the first path has returned it.
#[test]
fn a_guest_goes_on_through_another_path() {
    // In the middle of the disk, far from the record.
    const SECTOR: u64 = 16 << 10;
    let world = World::by_hand(1);
    let disk = simulated_disk(&world);
    let whole = Device::from_disk(disk.attach("sim"), DiskSettings::default(), None).unwrap();
    // The record proves that both paths lead to one disk.
    raid::create(std::slice::from_ref(&whole), &Array::default()).unwrap();
    let path = |name: &str| -> Arc<dyn Backend> {
        Arc::new(DiskBackend::new(disk.attach(name), with_timeout(), None).unwrap())
    };
    let paths = vec![path("a"), path("b")];
    let multipath = platter_stack::by_name("multipath").unwrap().make(&[], paths).unwrap();
    let mut rig = rig_of(Device::new(multipath));
    disk.strike(Strike { op: Some(Op::Write), blow: Blow::Stuck(HELD, Lands::Late) });
    let begin = world.clock().now();
    rig.offer_transfer(1, SECTOR);
    rig.let_disk_fail();
    assert!(rig.memory.write(DATA + 512, &[8; 512]));
    rig.offer_transfer(1, SECTOR + 8);
    rig.turn_to(1);
    assert_eq!((rig.status(0), rig.status(1)), (0xff, 0));
    let mut data = [0; 512];
    whole.read_at(&mut data, 512 * (SECTOR + 8)).unwrap();
    assert_eq!(data, [8; 512]);
    assert!(world.clock().now().since(begin) < Span::from_secs(10));
    assert_eq!(disk.release_stuck(), 1);
    rig.work();
    assert_eq!(rig.status(0), 0);
    rig.offer_transfer(1, SECTOR);
    rig.work();
    assert_eq!(rig.status(0), 0);
}

/// In virtual time: zeroes take their bytes from the bandwidth part by part, and the queue stops between two parts. They
/// start at once then, and the next request of the guest does not wait for the other parts.
#[test]
fn a_queue_that_stops_leaves_nothing_that_waits() {
    const PART: u64 = 32 << 20;
    let world = World::by_hand(1);
    let disk = SimDisk::new(&world, ideal(4 * PART).into(), None);
    let mut rig = rig_of(Device::from_disk(disk.attach("sim"), DiskSettings::default(), None).unwrap());
    let qos = Arc::clone(rig.worker.common.served.qos());
    qos.set_device(DeviceLimits { bandwidth: PART, ..DeviceLimits::default() }).unwrap();
    let begin = world.clock().now();
    rig.offer_zeroes(3 * PART);
    assert!(rig.worker.turn(&mut None));
    assert!(rig.worker.held.is_some() && qos.client(1).unwrap().waits);
    rig.restart();
    assert_eq!((rig.status(0), rig.worker.ring.used_index()), (0, 1));
    assert!(!qos.client(1).unwrap().waits);
    assert_eq!(qos.running(), 0);
    rig.offer_transfer(0, 0);
    rig.work();
    assert_eq!(rig.status(1), 0);
    let took = world.clock().now().since(begin).as_millis();
    assert!(
        (900..1500).contains(&took),
        "{took} ms: the part that was taken before the stop takes one second"
    );
}
