//! Each driver with other results than its own: a transfer that the driver reports as short is completed or fails, an errno
//! reaches the program, and no byte counts as transferred that no result covers.

use platter::block::backend::LaneUse;
use platter::block::disk::{Disk, DiskChannel};
use platter::block::driver::{Completion, Driver, Geometry, Outstanding, Started};
use platter::block::fault::{Fault, Kind};
use platter::block::queue::Settings;
use platter::block::time::{Span, Time, VirtualClock};
use platter::disk::disk_backend::DiskSettings;
use platter::disk::drivers::{Choice, FileDisk, FileOptions};
use platter::disk::sys::OpenOptions;
use platter::sim::ideal::Ideal;
use platter::sim::medium::Medium;
use platter::sim::{SimDisk, World};
use platter::{Bio, Device, Error, Op};
use std::collections::BTreeMap;
use std::io::{IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, MutexGuard};

const SIZE: u64 = 1 << 20;
const PAGE: usize = 4096;

/// The result of a transfer of some bytes instead of the driver's own.
type Rule = fn(u64) -> Option<i64>;

#[derive(Default)]
struct Results {
    rule: Option<Rule>,
    /// Only the next transfer has another result.
    once: bool,
    /// Operation, position and result of each transfer that was reported.
    reported: Vec<(Op, u64, i64)>,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Results>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Results> {
        self.0.lock().unwrap()
    }

    fn set(&self, rule: Option<Rule>, once: bool) {
        *self.lock() = Results { rule, once, reported: Vec::new() };
    }

    /// Whether results of this operation cover a range.
    fn covers(&self, op: Op, pos: u64, len: u64) -> bool {
        let results = self.lock();
        let mut end = pos;
        let mut done: Vec<(u64, u64)> = (results.reported.iter())
            .filter(|(was, _, result)| *was == op && *result > 0)
            .map(|&(_, at, result)| (at, at + result as u64))
            .collect();
        done.sort_unstable();
        done.into_iter().for_each(|(from, to)| {
            if from <= end {
                end = end.max(to);
            }
        });
        end >= pos + len
    }
}

/// A channel whose results a rule replaces.
struct Bent {
    inner: Box<dyn Driver>,
    shared: Shared,
    taken: BTreeMap<u32, (Op, u64, u64)>,
    reaped: Vec<Completion>,
}

impl Driver for Bent {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        let taken = self.inner.queue(now, request);
        if taken && request.op.has_data() {
            self.taken.insert(request.tag, (request.op, request.pos, request.len));
        }
        taken
    }

    fn submit(&mut self, now: Time) {
        self.inner.submit(now);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        self.inner.reap(now, &mut self.reaped);
        for Completion { tag, mut result } in self.reaped.drain(..) {
            if let Some((op, pos, len)) = self.taken.remove(&tag) {
                let mut results = self.shared.lock();
                if let Some(other) = results.rule.and_then(|rule| rule(len)) {
                    result = other;
                    results.rule = results.rule.filter(|_| !results.once);
                }
                results.reported.push((op, pos, result));
            }
            done.push(Completion { tag, result });
        }
    }

    fn is_prompt(&self) -> bool {
        self.inner.is_prompt()
    }

    fn next_event(&self) -> Option<Time> {
        self.inner.next_event()
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        self.inner.wait(now, timeout);
    }

    fn wait_handle(&self) -> Option<i32> {
        self.inner.wait_handle()
    }

    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        self.inner.outstanding()
    }
}

/// A disk of one of the drivers, with such channels.
struct BentDisk {
    inner: Box<dyn Disk>,
    shared: Shared,
}

impl Disk for BentDisk {
    fn name(&self) -> Arc<str> {
        self.inner.name()
    }

    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn open_channel(&self, lane_use: LaneUse) -> Result<DiskChannel, Error> {
        let (channel, shared) = (self.inner.open_channel(lane_use)?, self.shared.clone());
        // SAFETY: it reports a request only after the channel has.
        let inner = unsafe { channel.into_driver() };
        Ok(DiskChannel::new(Bent { inner, shared, taken: BTreeMap::new(), reaped: Vec::new() }))
    }

    fn depth(&self) -> Option<u32> {
        self.inner.depth()
    }

    fn clock(&self) -> Option<Arc<VirtualClock>> {
        self.inner.clock()
    }
}

/// The drivers that are available here, each over a disk of its own.
fn disks(directory: &tempfile::TempDir) -> Vec<(&'static str, Box<dyn Disk>)> {
    let mut all: Vec<(&str, Box<dyn Disk>)> = Vec::new();
    for driver in ["uring", "aio", "threads"] {
        let path = directory.path().join(driver);
        std::fs::write(&path, vec![0; SIZE as usize]).unwrap();
        let disk = OpenOptions::read_write().open(&path).unwrap();
        let choice: Choice = driver.parse().unwrap();
        match FileDisk::new(disk, FileOptions::default().with_driver(choice)) {
            Ok(disk) => all.push((driver, Box::new(disk))),
            Err(why) if driver != "threads" => println!("left out: {why}"),
            Err(why) => panic!("{why}"),
        }
    }
    let model = Ideal { size: SIZE, latency: Span::from_micros(100), depth: 8, write_cache: true };
    let disk = SimDisk::new(&World::new(1), model.into(), Some(Medium::new()));
    all.push(("simulated", Box::new(disk.attach("simulated"))));
    all
}

/// Runs a test over each driver, with a queue of the channel's own and with one that all share.
fn on_each(test: impl Fn(&str, &Device, &Shared)) {
    for elevator in ["none", "deadline"] {
        let directory = tempfile::tempdir().unwrap();
        for (name, inner) in disks(&directory) {
            let shared = Shared::default();
            let disk = BentDisk { inner, shared: shared.clone() };
            let elevator = platter::elevators::by_name(elevator).map(|row| (row.make)());
            let settings = DiskSettings::default().with_queue(Settings::default());
            let name = format!("{name}, {}", elevator.as_ref().map_or("none", |it| it.name()));
            let device = Device::from_disk(disk, settings, elevator).unwrap();
            test(&name, &device, &shared);
        }
    }
}

#[derive(Clone, Copy)]
#[repr(align(4096))]
struct Page([u8; PAGE]);

/// Aligned memory; every other page is used, so that it is a list of pieces.
struct Pieces(Vec<Page>);

impl Pieces {
    fn new(count: usize, byte: impl Fn(usize) -> u8) -> Pieces {
        Pieces((0..2 * count).map(|at| Page([byte(at / 2); PAGE])).collect())
    }

    fn all_are(&self, byte: impl Fn(usize) -> u8) -> bool {
        self.0.iter().step_by(2).enumerate().all(|(at, page)| page.0.iter().all(|&is| is == byte(at)))
    }
}

/// One synchronous call.
fn call(device: &Device, op: Op, pos: u64, memory: &mut Pieces) -> Result<(), Fault> {
    let result = match op {
        Op::Read => {
            let mut slices: Vec<_> =
                memory.0.iter_mut().step_by(2).map(|p| IoSliceMut::new(&mut p.0)).collect();
            device.read_vectored_at(&mut slices, pos)
        }
        _ => {
            let slices: Vec<_> = memory.0.iter().step_by(2).map(|page| IoSlice::new(&page.0)).collect();
            device.write_vectored_at(&slices, pos)
        }
    };
    result.map_err(|error| error.fault)
}

const SECTOR: i64 = 512;

/// Results that are shorter than the transfer: the rule, and how much it reports of a long one.
const SHORT: [(Rule, i64); 7] = [
    (|_| Some(0), 0),
    (|_| Some(1), 1),
    (|len| Some((SECTOR - 1).min(len as i64)), SECTOR - 1),
    (|len| Some(SECTOR.min(len as i64)), SECTOR),
    (|len| Some((SECTOR + 1).min(len as i64)), SECTOR + 1),
    (|len| Some((PAGE as i64 + 1).min(len as i64)), PAGE as i64 + 1),
    (|len| Some(len as i64 - 1), i64::MAX),
];

/// Checks the outcome of a transfer of a range whose driver reported as little as `reported` of each part of it, or only of
/// the first.
fn check(what: &str, unit: i64, reported: i64, once: bool, result: Result<(), Fault>, covered: bool) {
    match result {
        Ok(()) => assert!(covered, "{what}: succeeded, and results do not cover it"),
        Err(fault) => assert_eq!(fault.kind, Kind::Short, "{what}"),
    }
    // A block at a time gets to the end; less than a block never does, and one block less a byte does not.
    let progress = reported >= unit && reported != i64::MAX;
    if progress {
        assert_eq!(result, Ok(()), "{what}: it could have been completed");
    } else if !once {
        assert!(result.is_err(), "{what}: it cannot have been completed");
    }
}

/// Pieces of memory in one bio, by synchronous calls.
#[test]
fn a_short_transfer_of_many_pieces_is_completed_or_fails() {
    on_each(|name, device, shared| {
        let unit = i64::from(device.geometry().limits.logical_block);
        for (nth, (rule, reported)) in SHORT.into_iter().enumerate() {
            for once in [true, false] {
                let what = format!("{name}: {reported} bytes, once {once}");
                let (pos, byte) = (nth as u64 * 65536, |at: usize| (nth * 16 + at + 1) as u8);
                shared.set(Some(rule), once);
                let written = call(device, Op::Write, pos, &mut Pieces::new(4, byte));
                let covered = shared.covers(Op::Write, pos, 4 * PAGE as u64);
                check(&what, unit, reported, once, written, covered);
                shared.set(None, false);
                call(device, Op::Write, pos, &mut Pieces::new(4, byte)).unwrap();
                let mut back = Pieces::new(4, |_| 0xee);
                shared.set(Some(rule), once);
                let read = call(device, Op::Read, pos, &mut back);
                let covered = shared.covers(Op::Read, pos, 4 * PAGE as u64);
                check(&what, unit, reported, once, read, covered);
                assert!(read.is_err() || back.all_are(byte), "{what}");
            }
        }
    });
}

/// Eight bios of a page that are sent together.
fn send_together(device: &Device, op: Op, pos: u64) -> Vec<Bio> {
    let pool = platter::Pool::new(8, PAGE, PAGE).unwrap();
    let mut channel = device.channel(8).unwrap();
    for at in 0..8 {
        let mut memory = pool.take().unwrap();
        memory.fill(at as u8 + 1);
        let place = pos + at * PAGE as u64;
        let bio = if op == Op::Read { Bio::read(place, memory) } else { Bio::write(place, memory) };
        let mut bio = bio.unwrap();
        bio.set_token(at);
        channel.submit(bio).unwrap();
    }
    let mut done = Vec::new();
    while channel.outstanding() > 0 {
        channel.wait(&mut done, None);
    }
    done
}

/// Bios that became one request: each completes only when results cover it.
#[test]
fn a_short_transfer_of_merged_bios_completes_those_that_it_covers() {
    on_each(|name, device, shared| {
        let unit = i64::from(device.geometry().limits.logical_block);
        let merges = || device.counters().back_merges + device.counters().front_merges;
        for (rule, reported) in SHORT {
            for (op, once) in [(Op::Write, true), (Op::Write, false), (Op::Read, true), (Op::Read, false)] {
                let what = format!("{name}: {op} of {reported} bytes, once {once}");
                let before = merges();
                shared.set(Some(rule), once);
                let done = send_together(device, op, 65536);
                assert!(merges() > before, "{what}: they were merged");
                assert_eq!(done.len(), 8, "{what}");
                for bio in done {
                    let pos = 65536 + bio.token() * PAGE as u64;
                    let covered = shared.covers(op, pos, PAGE as u64);
                    check(&what, unit, reported, true, bio.status(), covered);
                    assert!(once || reported >= unit || bio.status().is_err(), "{what}");
                }
            }
        }
    });
}

/// More bytes than were asked for: nothing that the driver says about this transfer is believed.
#[test]
fn a_transfer_of_too_much_fails() {
    on_each(|name, device, shared| {
        for rule in
            [(|len| Some(len as i64 + 1)) as Rule, |len| Some(len as i64 + SECTOR), |_| Some(i64::MAX)]
        {
            for op in [Op::Write, Op::Read] {
                shared.set(Some(rule), false);
                let result = call(device, op, 8192, &mut Pieces::new(2, |_| 1));
                assert_eq!(result.map_err(|fault| fault.kind), Err(Kind::Contract), "{name} {op}");
                for bio in send_together(device, op, 65536) {
                    assert_eq!(bio.status().map_err(|fault| fault.kind), Err(Kind::Contract), "{name} {op}");
                }
            }
        }
    });
}

/// One errno of each kind, through each driver; those that pass after a retry only in virtual time, because the retries take
/// some seconds.
#[test]
fn an_errno_keeps_its_number_and_has_its_kind() {
    const ERRNOS: [(Rule, i32, Kind); 14] = [
        (|_| Some(-5), 5, Kind::Io),
        (|_| Some(-61), 61, Kind::Io),
        (|_| Some(-67), 67, Kind::Io),
        (|_| Some(-28), 28, Kind::NoSpace),
        (|_| Some(-27), 27, Kind::NoSpace),
        (|_| Some(-19), 19, Kind::Gone),
        (|_| Some(-30), 30, Kind::ReadOnly),
        (|_| Some(-95), 95, Kind::Unsupported),
        (|_| Some(-74), 74, Kind::Corrupt),
        (|_| Some(-84), 84, Kind::Corrupt),
        (|_| Some(-110), 110, Kind::TimedOut),
        (|_| Some(-4), 4, Kind::Io),
        (|_| Some(-11), 11, Kind::WouldBlock),
        (|_| Some(-12), 12, Kind::NoMemory),
    ];
    on_each(|name, device, shared| {
        for (rule, errno, kind) in ERRNOS {
            if [4, 11, 12].contains(&errno) && !name.starts_with("simulated") {
                continue;
            }
            for op in [Op::Write, Op::Read] {
                shared.set(Some(rule), false);
                let fault = call(device, op, 8192, &mut Pieces::new(2, |_| 1)).unwrap_err();
                assert_eq!((fault.kind, fault.errno()), (kind, errno), "{name} {op}");
                for bio in send_together(device, op, 65536) {
                    let fault = bio.status().unwrap_err();
                    assert_eq!((fault.kind, fault.errno()), (kind, errno), "{name} {op}, merged");
                }
            }
        }
        shared.set(None, false);
        call(device, Op::Write, 8192, &mut Pieces::new(2, |_| 1)).unwrap();
    });
}
