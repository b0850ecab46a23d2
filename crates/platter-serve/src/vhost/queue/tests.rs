//! When a queue polls its ring, and when it gives memory back.

use super::*;
use crate::clients::Clients;
use crate::restart::FirstFlush;
use crate::served::Served;
use crate::vhost::admission::{Admission, Bells, Wake};
use crate::vhost::common::Call;
use crate::vhost::ring::Addresses;
use platter::registry::{self, Access};
use platter_block::lane::Bell;
use platter_block::time::Span;
use platter_disk::device::Device;
use platter_sim::World;
use rustix::event::{EventfdFlags, eventfd};
use std::sync::atomic::AtomicBool;

/// Places in the guest's memory.
const AT: Addresses = Addresses { descriptors: 0, available: 0x1000, used: 0x2000 };
const HEADERS: u64 = 0x3000;
const STATUSES: u64 = 0x4000;
const DATA: u64 = 0x5000;
const MEMORY: usize = 0x6000;
const SIZE: u16 = 8;

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
    let share = served.qos().join(1, Arc::clone(&bells) as Arc<dyn Bell>);
    let common = Arc::new(Common {
        client: Arc::new(Clients::new(1).connect("vhost-user-blk", "disk", "guest", || {}).unwrap()),
        served,
        admission: Arc::new(Admission::new(share, bells)),
        log: Arc::new(|_| {}),
        first_flush: FirstFlush::default(),
        write_back: Arc::new(AtomicBool::new(true)),
        depth: usize::from(SIZE),
        reported: Arc::default(),
    });
    let memory = Arc::new(Memory::private(MEMORY).unwrap());
    let kick = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let ring = Ring::new(Arc::clone(&memory), SIZE, AT, true).unwrap();
    let queue = Queue { number: 0, ring, journal: None, recovered: Vec::new(), kick: Arc::clone(&kick) };
    let line = Line::new(Wake::new().unwrap(), &Arc::<Call>::default());
    let worker = Worker::new(common, line, queue).unwrap();
    Rig { worker, memory, kick, offered: 0 }
}

impl Rig {
    /// Writes a descriptor.
    fn put(&self, index: u16, address: u64, len: u32, flags: u16, next: u16) {
        let mut entry = address.to_le_bytes().to_vec();
        entry.extend(len.to_le_bytes());
        entry.extend([flags, next].map(u16::to_le_bytes).concat());
        assert!(self.memory.write(AT.descriptors + 16 * u64::from(index), &entry));
    }

    /// Makes one transfer of 512 bytes at the beginning of the disk available: a read (0) or a write (1).
    fn offer_transfer(&mut self, kind: u32) {
        assert!(self.memory.write(HEADERS, &[&kind.to_le_bytes()[..], &[0; 12]].concat()));
        assert!(self.memory.write(STATUSES, &[0xff]));
        self.put(0, HEADERS, 16, 1, 1);
        self.put(1, DATA, 512, if kind == 0 { 3 } else { 1 }, 2);
        self.put(2, STATUSES, 1, 2, 0);
        assert!(self.memory.write(AT.available + 4, &0u16.to_le_bytes()));
        self.offered = 1;
        assert!(self.memory.write(AT.available + 2, &self.offered.to_le_bytes()));
    }

    /// The status of the transfer.
    fn status(&self) -> u8 {
        let mut status = [0u8];
        let place = self.memory.place_of_guest(STATUSES, 1).unwrap();
        self.memory.slice(place).copy_to(&mut status);
        status[0]
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
    assert_eq!(rig.worker.ring.notified_at(), asked_at, "the index at which a notification is wanted");
    rig.work();
}

/// In virtual time: the disk has each request for much longer than the timeout of the device.
#[test]
fn memory_is_given_back_when_the_driver_has_returned_it() {
    const HELD: Span = Span::from_secs(100);
    for (elevator, kind) in [("none", 0), ("none", 1), ("deadline", 0), ("deadline", 1)] {
        for stops in [false, true] {
            let world = World::by_hand(1);
            let spec = format!(
                "sim(ideal, stuck=1000000, stuck_for=100s, aborts=0, timeout=1s, elevator={elevator})"
            );
            let spec = registry::parse(&spec).unwrap();
            let mut rig = rig_of(registry::open_in(&world, &spec, Access::read_write()).unwrap());
            let case = format!("{elevator}, request {kind}, stops: {stops}");
            let begin = world.clock().now();
            rig.offer_transfer(kind);
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
            assert_eq!(rig.status(), 0, "{case}");
            assert_eq!(rig.worker.common.served.device().counters().timeouts, 0, "{case}");
        }
    }
}
