//! When a queue polls its ring.

use super::*;
use crate::clients::Clients;
use crate::restart::FirstFlush;
use crate::served::Served;
use crate::vhost::admission::{Admission, Bells, Wake};
use crate::vhost::common::Call;
use crate::vhost::ring::Addresses;
use platter_block::lane::Bell;
use platter_disk::device::Device;
use rustix::event::{EventfdFlags, eventfd};
use std::sync::atomic::AtomicBool;

/// Places in the guest's memory.
const AT: Addresses = Addresses { descriptors: 0, available: 0x1000, used: 0x2000 };
const HEADERS: u64 = 0x3000;
const STATUSES: u64 = 0x4000;
const SIZE: u16 = 8;

/// A queue whose thread is the test, and its driver.
struct Rig {
    worker: Worker,
    memory: Arc<Memory>,
    kick: Arc<OwnedFd>,
    offered: u16,
}

fn rig() -> Rig {
    let served = Arc::new(Served::new("disk", Device::ram(1 << 20).unwrap()).unwrap());
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
    let memory = Arc::new(Memory::private(0x5000).unwrap());
    let kick = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let ring = Ring::new(Arc::clone(&memory), SIZE, AT, true).unwrap();
    let queue = Queue { number: 0, ring, journal: None, recovered: Vec::new(), kick: Arc::clone(&kick) };
    let line = Line::new(Wake::new().unwrap(), &Arc::<Call>::default());
    let worker = Worker::new(common, line, queue).unwrap();
    Rig { worker, memory, kick, offered: 0 }
}

impl Rig {
    /// Makes flushes available, each of two descriptors.
    fn offer(&mut self, count: u16) {
        for _ in 0..count {
            let head = (self.offered % (SIZE / 2)) * 2;
            let put = |index: u16, address: u64, len: u32, flags: u16, next: u16| {
                let mut entry = address.to_le_bytes().to_vec();
                entry.extend(len.to_le_bytes());
                entry.extend([flags, next].map(u16::to_le_bytes).concat());
                assert!(self.memory.write(AT.descriptors + 16 * u64::from(index), &entry));
            };
            put(head, HEADERS, 16, 1, head + 1);
            put(head + 1, STATUSES + u64::from(head), 1, 2, 0);
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
