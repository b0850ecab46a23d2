//! A worker at a model of the driver's queue.

use super::super::abi::{Request, op};
use super::super::port::Port;
use super::super::shared::Shared;
use super::*;
use crate::clients::Clients;
use crate::events::Event;
use crate::restart::FirstFlush;
use crate::served::Served;
use platter_block::time::Time;
use platter_disk::device::Device;
use platter_stack::filter::{BioView, Filter, Filtered};
use platter_wait::EventFd;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::BTreeMap;
use std::os::fd::AsRawFd;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

const SIZE: u64 = 1 << 20;
const DEPTH: u16 = 8;

/// What a request of the script expects.
enum Expect {
    Data(Vec<u8>),
    Result(i32),
}

/// A request of the script, and what is expected of it.
struct Step {
    request: Request,
    data: Vec<u8>,
    expect: Expect,
}

impl Step {
    fn new(op: u32, pos: u64, len: u64, expect: Expect) -> Step {
        let request = Request::new(op, (len / 512) as u32, pos / 512);
        Step { request, data: Vec::new(), expect }
    }

    /// The kernel sends flushes without a position.
    fn flush(result: i32) -> Step {
        let request = Request::new(op::FLUSH, 0, u64::MAX);
        Step { request, data: Vec::new(), expect: Expect::Result(result) }
    }

    fn at(self, sector: u64) -> Step {
        Step { request: Request::new(self.request.op(), 1, sector), ..self }
    }

    fn done(op: u32, pos: u64, len: u64) -> Step {
        Step::new(op, pos, len, Expect::Result(len as i32))
    }

    fn write(op: u32, pos: u64, data: Vec<u8>) -> Step {
        Step { data: data.clone(), ..Step::done(op, pos, data.len() as u64) }
    }
}

/// The kernel's side of a queue: it sends the steps, as many at a time as are independent, and checks the answers.
struct Kernel {
    steps: std::vec::IntoIter<Step>,
    next: Option<Step>,
    in_work: BTreeMap<u16, Step>,
    free: Vec<u16>,
    answered: usize,
    /// Answers that were not handed over.
    held: usize,
    event: OwnedFd,
}

impl Kernel {
    fn new(steps: Vec<Step>) -> Kernel {
        let event = eventfd(1, EventfdFlags::CLOEXEC).unwrap();
        let (free, answered, held) = ((0..DEPTH).collect(), 0, 0);
        let mut steps = steps.into_iter();
        Kernel { next: steps.next(), steps, in_work: BTreeMap::new(), free, answered, held, event }
    }

    /// Whether a request may be sent while the others are in work: it does not touch what they touch.
    fn is_independent(&self, step: &Step) -> bool {
        let is_apart = |other: &Step| {
            let (one, other) = (&step.request, &other.request);
            match (one.pos(), other.pos()) {
                (Some(one_pos), Some(pos)) => one_pos + one.len() <= pos || pos + other.len() <= one_pos,
                _ => false,
            }
        };
        self.in_work.values().all(is_apart)
    }
}

impl Port for Kernel {
    fn turn(&mut self, arrived: &mut Vec<u16>) -> Result<bool, Errno> {
        self.held = 0;
        while let Some(step) = self.next.take() {
            if !self.in_work.is_empty() && (self.free.is_empty() || !self.is_independent(&step)) {
                self.next = Some(step);
                break;
            }
            let tag = self.free.pop().unwrap();
            self.in_work.insert(tag, step);
            arrived.push(tag);
            self.next = self.steps.next();
        }
        Ok(self.next.is_some() || !self.in_work.is_empty())
    }

    fn request(&self, tag: u16) -> Request {
        self.in_work[&tag].request
    }

    fn take_data(&mut self, tag: u16, data: &mut [u8]) -> Result<(), Errno> {
        data.copy_from_slice(&self.in_work[&tag].data);
        Ok(())
    }

    fn give_data(&mut self, tag: u16, data: &[u8]) -> Result<(), Errno> {
        match &self.in_work[&tag].expect {
            Expect::Data(expected) => assert!(expected == data, "{:?}", self.in_work[&tag].request),
            Expect::Result(_) => panic!("{:?} has no data", self.in_work[&tag].request),
        }
        Ok(())
    }

    fn answer(&mut self, tag: u16, result: i32) {
        let step = self.in_work.remove(&tag).expect("a tag in work");
        let expected = match step.expect {
            Expect::Data(data) => data.len() as i32,
            Expect::Result(result) => result,
        };
        assert_eq!(result, expected, "{:?}", step.request);
        self.answered += 1;
        self.held += 1;
        self.free.push(tag);
    }

    /// Asked for before a sleep, in which the kernel would wait for answers that it has not got.
    fn descriptor(&self) -> RawFd {
        assert_eq!(self.held, 0, "answers that were not handed over");
        self.event.as_raw_fd()
    }
}

/// What a run has logged.
type Lines = Arc<Mutex<Vec<String>>>;

struct Rig {
    shared: Arc<Shared>,
    clients: Arc<Clients>,
    lines: Lines,
}

impl Rig {
    fn new(served: Served, first_flush: FirstFlush) -> Rig {
        let lines = Lines::default();
        let log = Arc::clone(&lines);
        let log: crate::events::Log =
            Arc::new(move |event: &Event<'_>| log.lock().unwrap().push(event.name().to_owned()));
        let shared = Shared::new(Arc::new(served), MAX_TRANSFER as usize, log, first_flush);
        Rig { shared, clients: Clients::new(8), lines }
    }

    /// Carries out the steps in one queue. Returns how many were answered.
    fn run(&self, steps: Vec<Step>) -> usize {
        let channel = self.shared.served.device().channel(usize::from(DEPTH)).unwrap();
        let client = self.clients.connect(KIND, "d", "queue", || {}).unwrap();
        let (wake, shared) = (Arc::new(EventFd::new().unwrap()), Arc::clone(&self.shared));
        shared.bells.add(&wake);
        let mut worker = Worker::new(Kernel::new(steps), channel, client, wake, shared, DEPTH);
        worker.run().unwrap();
        worker.end();
        assert_eq!(worker.client().counts.in_flight.load(Ordering::Relaxed), 0);
        assert!(worker.client().oldest(std::time::Instant::now()).is_none());
        assert_eq!(self.shared.served.qos().running(), 0);
        worker.port.answered
    }
}

fn ram() -> Served {
    Served::new("d", Device::ram(SIZE).unwrap()).unwrap()
}

/// Counts writes that nothing has made durable.
#[derive(Clone, Default)]
struct Volatile(Arc<AtomicU64>);

impl Filter for Volatile {
    fn start(&mut self, now: Time, _slot: usize, bio: &mut BioView<'_>) -> Result<Time, Fault> {
        match bio.op() {
            Op::Flush => self.0.store(0, Ordering::Relaxed),
            Op::Write if !bio.flags().contains(Flags::FUA) => {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        Ok(now)
    }
}

#[test]
fn durable_writes_are_durable() {
    let count = Volatile::default();
    let disk = Device::ram(SIZE).unwrap();
    let layer = Filtered::new("volatile", "", Arc::clone(disk.backend()), count.clone());
    let rig = Rig::new(Served::new("d", Device::new(Arc::new(layer))).unwrap(), FirstFlush::default());
    let volatile = |op_and_flags: u32| {
        count.0.store(0, Ordering::Relaxed);
        let zeroes = op_and_flags & 0xff == op::WRITE_ZEROES;
        let step = match zeroes {
            true => Step::done(op_and_flags, 0, SIZE),
            false => Step::write(op_and_flags, 4096, vec![7; 4096]),
        };
        assert_eq!(rig.run(vec![step]), 1);
        count.0.load(Ordering::Relaxed)
    };
    assert_eq!(volatile(op::WRITE), 1);
    assert_eq!(volatile(op::WRITE | op::FUA), 0);
    assert_eq!(volatile(op::WRITE_ZEROES | op::NOUNMAP | op::FUA), 0);
}

#[test]
fn random_requests_do_what_a_model_does() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(13);
    let mut below = |most: u64| random.next_u64() % most;
    let mut model = vec![0u8; SIZE as usize];
    let mut steps = Vec::new();
    for number in 0..3000u32 {
        let blocks = SIZE / 512;
        let from = below(blocks);
        let len = (below(blocks.min(128)) + 1).min(blocks - from) * 512;
        let pos = from * 512;
        let range = pos as usize..(pos + len) as usize;
        steps.push(match below(10) {
            0..4 => Step::new(op::READ, pos, len, Expect::Data(model[range].to_vec())),
            4..7 => {
                let data: Vec<u8> = (0..len).map(|at| (u64::from(number) + at / 512) as u8).collect();
                model[range].copy_from_slice(&data);
                Step::write(op::WRITE, pos, data)
            }
            7 => Step::flush(0),
            unmap => {
                model[range].fill(0);
                let flags = if unmap == 8 { op::NOUNMAP } else { 0 };
                Step::done(op::WRITE_ZEROES | flags, pos, len)
            }
        });
    }
    steps.push(Step::new(op::READ, 0, SIZE, Expect::Data(model)));
    let count = steps.len();
    let rig = Rig::new(ram(), FirstFlush::default());
    assert_eq!(rig.run(steps), count);
    assert!(rig.lines.lock().unwrap().is_empty());
    assert!(rig.clients.list().is_empty());
}

#[test]
fn what_cannot_be_done_is_refused() {
    let refused = |op: u32, pos: u64, len: u64, error: Errno| {
        Step::new(op, pos, len, Expect::Result(-error.raw_os_error()))
    };
    let most = u64::from(MAX_TRANSFER);
    let steps = vec![
        refused(op::READ, 0, most + 512, Errno::INVAL),
        refused(op::READ, 0, 0, Errno::INVAL),
        refused(op::READ, 0, 512, Errno::INVAL).at(u64::MAX / 512 + 1),
        refused(4, 0, 4096, Errno::OPNOTSUPP),
    ];
    let rig = Rig::new(ram(), FirstFlush::default());
    assert_eq!(rig.run(steps), 4);
    let rig = Rig::new(ram().read_only(), FirstFlush::default());
    let steps = [op::WRITE, op::DISCARD, op::WRITE_ZEROES].map(|op| refused(op, 0, 4096, Errno::ROFS));
    assert_eq!(rig.run(steps.into()), 3);
}

#[test]
fn the_first_flush_of_a_device_that_was_taken_over_fails_once() {
    let served = ram();
    let first = served.survivor();
    let rig = Rig::new(served, first);
    let failed = Step::flush(-Errno::IO.raw_os_error());
    assert_eq!(rig.run(vec![failed, Step::flush(0)]), 2);
    // Also not in another queue.
    assert_eq!(rig.run(vec![Step::flush(0)]), 1);
    assert_eq!(*rig.lines.lock().unwrap(), ["owed"]);
}

#[test]
fn what_has_not_started_is_left_to_the_next_server() {
    let rig = Rig::new(ram(), FirstFlush::default());
    rig.shared.hand_on();
    let channel = rig.shared.served.device().channel(usize::from(DEPTH)).unwrap();
    let client = rig.clients.connect(KIND, "d", "queue", || {}).unwrap();
    let kernel = Kernel::new(vec![Step::write(op::WRITE, 0, vec![1; 512])]);
    let mut worker = Worker::new(
        kernel,
        channel,
        client,
        Arc::new(EventFd::new().unwrap()),
        Arc::clone(&rig.shared),
        DEPTH,
    );
    worker.run().unwrap();
    assert_eq!((worker.port.answered, worker.port.in_work.len()), (0, 1));
}
