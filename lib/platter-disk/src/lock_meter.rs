//! Measures the locks of the engine: how often each is taken, by which code, how long threads wait for it and hold it.
//!
//! Only while a [`LockMeter`] exists. At other times each lock costs one test of a flag when it is taken and one when
//! it is released. Metered locks read the clock two or three times, and so are held longer than others: compare
//! metered times only with each other, and count acquisitions rather than add up times.
//!
//! The scope of a lock is found from the type of what it protects and the stage from the source file that takes it, so
//! that locks carry no labels.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use platter_disk::{device::Device, lock_meter::LockMeter};
//! let disk = Device::ram(1 << 20)?;
//! let meter = LockMeter::start().ok_or("another meter is running")?;
//! disk.write_at(&[7; 4096], 0)?;
//! let readings = meter.finish();
//! assert!(readings.locks.iter().any(|lock| lock.scope == "lane pool" && lock.acquisitions > 0));
//! # Ok(())
//! # }
//! ```

use crate::clock;
use platter_block::time::{Span, Time};
use std::cell::RefCell;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether locks are measured.
static ON: AtomicBool = AtomicBool::new(false);
/// Whether a meter exists.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Number of the meter; what a thread recorded for an earlier one is not counted.
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// What each thread records, also of threads that have ended.
static RECORDS: Mutex<Vec<Arc<Mutex<Record>>>> = Mutex::new(Vec::new());

/// Type names and the scopes of the locks that protect values of these types.
const SCOPES: &[(&str, &str)] = &[
    ("::control::Control", "queue"),
    ("(platter_block::bio::Bio, platter_block::queue::", "inbox"),
    ("::mailbox::Mail", "mailbox"),
    ("::lanes::List", "list of lanes"),
    ("::poller::State", "poller"),
    ("::lane_pool::PoolState", "lane pool"),
    ("dyn platter_block::driver::Outstanding", "driver counts"),
    ("Vec<bool>", "thread numbers"),
    ("::service::", "service"),
    ("::future::", "future"),
    ("::callers::Callers", "devices"),
    ("platter_block::segment::Region", "regions"),
    ("::trace::Sink", "trace sinks"),
    ("::extent::State", "size"),
    ("::flushes::", "flushes"),
    ("::closing::Leftover", "leftovers"),
    ("::sync_io::", "synchronous call"),
    ("Vec<u64>", "blocks being changed"),
    ("String", "stall"),
    ("bool", "background work"),
];

/// Source files and the stages in which their code takes locks.
const STAGES: &[(&str, &str)] = &[
    ("disk_backend/lane/send.rs", "submit"),
    ("disk_backend/runner.rs", "dispatch"),
    ("disk_backend/control.rs", "dispatch"),
    ("disk_backend/lanes.rs", "complete"),
    ("disk_backend/listen.rs", "wait"),
    ("disk_backend/poller.rs", "wait"),
    ("disk_backend/lane/seldom.rs", "complete"),
    ("disk_backend/flushes.rs", "submit"),
    ("disk_backend/lane.rs", "wait"),
    ("disk_backend/scope.rs", "dispatch"),
    ("disk_backend/mailbox.rs", "complete"),
    ("fence.rs", "submit"),
    ("disk_backend/closing.rs", "dispatch"),
    ("disk_backend.rs", "settings"),
    ("callers.rs", "call"),
    ("background.rs", "settings"),
    ("disk_backend/extent.rs", "settings"),
    ("drivers/file_target/state.rs", "settings"),
    ("thread_number.rs", "settings"),
    ("lane_pool.rs", "call"),
    ("sync_io", "call"),
    ("future", "call"),
    ("service.rs", "service"),
];

/// A part of a run of the queue that lanes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Bios are examined before the lock is taken.
    Prepare,
    /// Bios enter the queue: checks, merging, requests, the elevator.
    Enqueue,
    /// Requests go to the driver, and completions come back.
    Dispatch,
    /// Completed bios go to the mailboxes of their lanes.
    Deliver,
    /// Sleeping threads are woken.
    Wake,
}

impl Part {
    const ALL: [(Part, &'static str); 5] = [
        (Part::Prepare, "prepare"),
        (Part::Enqueue, "enqueue"),
        (Part::Dispatch, "dispatch"),
        (Part::Deliver, "deliver"),
        (Part::Wake, "wake"),
    ];
}

/// Use of the locks of one scope by one place in the code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockUse {
    /// What the lock protects; the name of its type if that has no name here.
    pub scope: &'static str,
    /// What the code that takes it does.
    pub stage: &'static str,
    /// The place in the code: file and line.
    pub place: String,
    /// How often the lock was taken.
    pub acquisitions: u64,
    /// How often a thread had to wait for it.
    pub contended: u64,
    /// How often a thread found it taken and left its work to the thread that held it.
    pub left_to_holder: u64,
    /// Nanoseconds that threads waited for it.
    pub wait_ns: u64,
    /// Nanoseconds for which it was held.
    pub hold_ns: u64,
    /// Nanoseconds for which it was held at most at once.
    pub longest_hold_ns: u64,
}

/// Time spent in a part of the runs of the queue that lanes share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartUse {
    /// Name of the part.
    pub part: &'static str,
    /// How often it was carried out.
    pub runs: u64,
    /// Nanoseconds that it took.
    pub ns: u64,
}

/// What a [`LockMeter`] has measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readings {
    /// By scope and place.
    pub locks: Vec<LockUse>,
    /// The parts of the runs of shared queues, in their order. Devices without an elevator have none.
    pub parts: Vec<PartUse>,
}

/// Measures all locks of the engine in this process until it is finished or dropped.
#[derive(Debug)]
pub struct LockMeter(());

impl LockMeter {
    /// Starts measuring; `None`: another meter exists.
    pub fn start() -> Option<LockMeter> {
        if TAKEN.swap(true, Ordering::SeqCst) {
            return None;
        }
        quiet(&RECORDS).clear();
        NUMBER.fetch_add(1, Ordering::SeqCst);
        ON.store(true, Ordering::SeqCst);
        Some(LockMeter(()))
    }

    /// Ends the measurement. Locks that are held at this moment count as taken; their time does not count.
    pub fn finish(self) -> Readings {
        ON.store(false, Ordering::SeqCst);
        let mut readings = Readings::default();
        let mut parts = [(0, 0); Part::ALL.len()];
        for record in quiet(&RECORDS).iter() {
            let record = quiet(record);
            record.rows.iter().for_each(|row| add(&mut readings.locks, row));
            for (sum, (runs, ns)) in parts.iter_mut().zip(record.parts) {
                *sum = (sum.0 + runs, sum.1 + ns);
            }
        }
        readings.locks.sort_by(|a, b| (a.scope, &a.place).cmp(&(b.scope, &b.place)));
        let rows = Part::ALL.iter().zip(parts).filter(|(_, (runs, _))| *runs > 0);
        readings.parts = rows.map(|((_, part), (runs, ns))| PartUse { part, runs, ns }).collect();
        readings
    }
}

impl Drop for LockMeter {
    fn drop(&mut self) {
        ON.store(false, Ordering::SeqCst);
        TAKEN.store(false, Ordering::SeqCst);
    }
}

/// Adds a row to the row of the same scope and place.
fn add(locks: &mut Vec<LockUse>, row: &Row) {
    let file = row.place.file();
    let find = |table: &[(&str, &'static str)], text: &str| {
        table.iter().find(|(part, _)| text.contains(part)).map(|(_, name)| *name)
    };
    let scope = match (row.of, find(SCOPES, row.of)) {
        ("()", _) if file.ends_with("disk_backend/scope.rs") => "adapter",
        ("()", _) if file.ends_with("disk_backend/parker.rs") => "parker",
        ("()", _) if file.ends_with("file_target/state.rs") => "size",
        (of, None) => of,
        (_, Some(scope)) => scope,
    };
    let stage = find(STAGES, file).unwrap_or("other");
    let short = file.rsplit_once("src/").map_or(file, |(_, short)| short);
    let place = format!("{short}:{}", row.place.line());
    let at = locks.iter().position(|lock| lock.scope == scope && lock.place == place);
    let at = at.unwrap_or_else(|| {
        locks.push(LockUse {
            scope,
            stage,
            place,
            acquisitions: 0,
            contended: 0,
            left_to_holder: 0,
            wait_ns: 0,
            hold_ns: 0,
            longest_hold_ns: 0,
        });
        locks.len() - 1
    });
    let lock = &mut locks[at];
    lock.acquisitions += row.acquisitions;
    lock.contended += row.contended;
    lock.left_to_holder += row.left_to_holder;
    lock.wait_ns += row.wait_ns;
    lock.hold_ns += row.hold_ns;
    lock.longest_hold_ns = lock.longest_hold_ns.max(row.longest_hold_ns);
}

/// Use of the locks around values of the type `of` by one place.
struct Row {
    of: &'static str,
    place: &'static Location<'static>,
    acquisitions: u64,
    contended: u64,
    left_to_holder: u64,
    wait_ns: u64,
    hold_ns: u64,
    longest_hold_ns: u64,
}

#[derive(Default)]
struct Record {
    rows: Vec<Row>,
    /// Runs and nanoseconds of each part.
    parts: [(u64, u64); Part::ALL.len()],
}

/// A thread's part of the measurement.
struct Thread {
    number: u64,
    record: Arc<Mutex<Record>>,
    /// The locks that the thread holds, the last one at the end: index of its row, and since when it is held.
    held: Vec<(usize, Time)>,
}

thread_local! {
    static THREAD: RefCell<Option<Thread>> = const { RefCell::new(None) };
}

/// The tables of the meter are not locks of the engine, and consistent between calls.
fn quiet<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Visits this thread's part of the measurement. Not while the thread ends.
fn with_thread(visit: impl FnOnce(&mut Thread)) {
    let _ = THREAD.try_with(|thread| {
        let mut thread = thread.borrow_mut();
        let number = NUMBER.load(Ordering::SeqCst);
        if thread.as_ref().is_none_or(|thread| thread.number != number) {
            let record = Arc::<Mutex<Record>>::default();
            quiet(&RECORDS).push(Arc::clone(&record));
            *thread = Some(Thread { number, record, held: Vec::new() });
        }
        if let Some(thread) = thread.as_mut() {
            visit(thread);
        }
    });
}

impl Record {
    fn row(&mut self, of: &'static str, place: &'static Location<'static>) -> usize {
        let found = self.rows.iter().position(|row| std::ptr::eq(row.place, place) && row.of == of);
        found.unwrap_or_else(|| {
            self.rows.push(Row {
                of,
                place,
                acquisitions: 0,
                contended: 0,
                left_to_holder: 0,
                wait_ns: 0,
                hold_ns: 0,
                longest_hold_ns: 0,
            });
            self.rows.len() - 1
        })
    }
}

/// Whether locks are measured.
#[inline]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// How a lock was taken.
pub(crate) enum Taken {
    /// It was free.
    AtOnce,
    /// The thread has waited for it since this time.
    Since(Time),
    /// It was not: its holder does the work.
    Not,
}

/// The thread has taken a lock around a value of type `T`, or has tried to.
#[cold]
pub(crate) fn taken<T: ?Sized>(place: &'static Location<'static>, taken: &Taken) {
    let now = clock::now();
    with_thread(|thread| {
        let mut record = quiet(&thread.record);
        let index = record.row(std::any::type_name::<T>(), place);
        let row = &mut record.rows[index];
        match taken {
            Taken::Not => {
                row.left_to_holder += 1;
                return;
            }
            Taken::AtOnce => {}
            Taken::Since(asked) => {
                row.contended += 1;
                row.wait_ns += now.since(*asked).0;
            }
        }
        row.acquisitions += 1;
        drop(record);
        thread.held.push((index, clock::now()));
    });
}

/// A lock as long as it is held. Locks are released in the reverse order of their acquisition.
pub(crate) struct Hold(());

impl Hold {
    #[inline]
    pub(crate) fn begin() -> Hold {
        Hold(())
    }
}

impl Drop for Hold {
    #[inline]
    fn drop(&mut self) {
        if is_on() {
            released();
        }
    }
}

#[cold]
fn released() {
    let now = clock::now();
    with_thread(|thread| {
        // None if it was taken before the measurement began.
        let Some((index, since)) = thread.held.pop() else { return };
        let held = now.since(since).0;
        if let Some(row) = quiet(&thread.record).rows.get_mut(index) {
            row.hold_ns += held;
            row.longest_hold_ns = row.longest_hold_ns.max(held);
        }
    });
}

/// Measures the parts of a run of the shared queue, one after another.
pub(crate) struct Parts(Option<Time>);

impl Parts {
    #[inline]
    pub(crate) fn begin() -> Parts {
        Parts(is_on().then(clock::now))
    }

    /// The part has ended, and the next one begins.
    #[inline]
    pub(crate) fn end(&mut self, part: Part) {
        if let Some(since) = &mut self.0 {
            end_part(since, part);
        }
    }
}

#[cold]
fn end_part(since: &mut Time, part: Part) {
    let now = clock::now();
    with_thread(|thread| {
        let (runs, ns) = &mut quiet(&thread.record).parts[part as usize];
        *runs += 1;
        *ns += now.since(*since).0;
    });
    *since = clock::now();
}

/// What a reading of the clock costs: the error of each measured time.
pub fn clock_cost() -> Span {
    const READINGS: u32 = 1000;
    let begin = clock::now();
    (0..READINGS).for_each(|_| {
        std::hint::black_box(clock::now());
    });
    Span(clock::now().since(begin).0 / u64::from(READINGS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync;

    /// The source files below a folder.
    fn files(folder: &std::path::Path, out: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { files(&path, out) } else { out.push(path) }
        }
    }

    #[test]
    fn every_file_that_takes_locks_has_a_stage() {
        let mut all = Vec::new();
        files(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
        let mut takers = 0;
        for path in all {
            let (name, text) = (path.to_str().unwrap(), std::fs::read_to_string(&path).unwrap());
            let code = text.split("#[cfg(test)]").next().unwrap();
            let calls = [" lock(&", "*lock(&", "(lock(&", "try_lock("];
            let takes = code.contains("use crate::sync::") && calls.iter().any(|call| code.contains(call));
            if takes && !name.ends_with("/lock_meter.rs") && !name.contains("/tests") {
                takers += 1;
                assert!(STAGES.iter().any(|(part, _)| name.contains(part)), "give {name} a row in STAGES");
            }
        }
        assert!(takers > 10, "{takers}");
    }

    /// Tests of the same process take locks too, so only locks around a type of this test are looked at.
    struct Mine;

    #[test]
    fn a_meter_counts_holders_waiters_and_threads_that_leave_their_work() {
        let meter = loop {
            match LockMeter::start() {
                Some(meter) => break meter,
                None => std::thread::yield_now(),
            }
        };
        assert!(LockMeter::start().is_none());
        let mutex = sync::Mutex::new(Mine);
        let held = sync::lock(&mutex);
        let asks = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(mutex.try_lock().is_err());
                asks.wait();
                drop(sync::lock(&mutex));
            });
            asks.wait();
            drop(held);
        });
        let readings = meter.finish();
        let of = std::any::type_name::<Mine>();
        let mine: Vec<&LockUse> = readings.locks.iter().filter(|lock| lock.scope == of).collect();
        assert_eq!(mine.iter().map(|lock| lock.acquisitions).sum::<u64>(), 2);
        assert_eq!(mine.iter().map(|lock| lock.left_to_holder).sum::<u64>(), 1);
        assert!(mine.iter().all(|lock| lock.place.starts_with("lock_meter.rs:")), "{mine:?}");
        assert!(mine.iter().any(|lock| lock.hold_ns >= lock.longest_hold_ns && lock.hold_ns > 0));
        drop(LockMeter::start().map(LockMeter::finish));
    }
}
