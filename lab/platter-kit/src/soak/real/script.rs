//! A wrapper around a real driver that injects faults, chosen by a seed.

#![allow(unsafe_code)]

use platter_block::bio::Op;
use platter_block::disk::{BlockingFlush, DiskChannel};
use platter_block::driver::{Completion, Driver, Outstanding, Started};
use platter_block::fault::{Fault, Status};
use platter_block::segment::{Region, RegionId};
use platter_block::time::{Span, Time};
use platter_sim::fault::TRANSIENT;
use platter_sim::rng::Rng;
use rustix::fd::BorrowedFd;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::late::LateFile;
use super::wake_timer::WakeTimer;
use crate::soak::feature::{Feature, Features};

const EIO: i64 = 5;
const ECANCELED: i64 = 125;

/// How long a request is stuck if it is not released.
const STUCK: Span = Span::from_millis(150);

/// Interval at which a channel checks whether stuck requests were released.
const LOOK: Span = Span::from_millis(5);

/// Counts of injected faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Requests that passed through.
    pub requests: u64,
    /// Requests whose completion came late.
    pub delayed: u64,
    /// Requests that were stuck until they were released.
    pub stuck: u64,
    /// Those of them that were writes and reached the disk only then.
    pub late: u64,
    /// Requests that failed with a transient error.
    pub transient: u64,
    /// Transfers of which a part was reported.
    pub short: u64,
    /// Requests that failed with EIO.
    pub errors: u64,
    /// Flushes on the threads of their callers, which are requests too.
    pub blocking_flushes: u64,
}

impl Done {
    /// Adds the counts of another script.
    pub fn add(&mut self, other: &Done) {
        self.requests += other.requests;
        self.delayed += other.delayed;
        self.stuck += other.stuck;
        self.late += other.late;
        self.transient += other.transient;
        self.short += other.short;
        self.errors += other.errors;
        self.blocking_flushes += other.blocking_flushes;
    }
}

struct ScriptState {
    rng: Rng,
    on: bool,
    without: Features,
    done: Done,
}

/// The faults of the requests of one disk, on all of its channels.
pub(super) struct Script {
    state: Mutex<ScriptState>,
    /// Incremented to release all stuck requests.
    released: AtomicU64,
    /// A second descriptor of the disk, for late writes.
    file: Option<LateFile>,
    /// Unit of transfers that are cut short.
    block: u64,
}

/// What happens to one request.
enum Fate {
    Good,
    /// Its completion is delayed by this time.
    Delay(Span),
    /// Its completion is kept until it is released.
    Stuck,
    /// As above, and a write reaches the disk only then.
    Late,
    /// It fails without reaching the disk.
    Fails(i64),
    /// It reaches the disk, but its result is replaced.
    Result(i64),
}

impl Script {
    pub(super) fn new(seed: u64, file: Option<LateFile>, block: u32, without: Features) -> Script {
        let state = ScriptState { rng: Rng::new(seed), on: true, without, done: Done::default() };
        Script { state: Mutex::new(state), released: AtomicU64::new(0), file, block: block.into() }
    }

    fn state(&self) -> MutexGuard<'_, ScriptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops injecting faults.
    pub(super) fn end(&self) {
        self.state().on = false;
        self.release();
    }

    /// Releases all stuck requests.
    pub(super) fn release(&self) {
        self.released.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn done(&self) -> Done {
        self.state().done
    }

    fn decide(&self, op: Op, len: u64) -> Fate {
        let state = &mut *self.state();
        state.done.requests += 1;
        if !state.on {
            return Fate::Good;
        }
        let has = |feature| !state.without.has(feature);
        let (rng, done) = (&mut state.rng, &mut state.done);
        match rng.below(200) {
            0..10 if has(Feature::Spikes) => {
                done.delayed += 1;
                Fate::Delay(Span(rng.below(5_000_000)))
            }
            10..13 if has(Feature::Stuck) => {
                done.stuck += 1;
                let late = op == Op::Write && self.file.is_some() && rng.below(2) == 0;
                done.late += u64::from(late);
                if late { Fate::Late } else { Fate::Stuck }
            }
            13..18 if has(Feature::Transient) => {
                done.transient += 1;
                Fate::Fails(-i64::from(rng.pick(&TRANSIENT)))
            }
            18..22 if op.has_data() && len > self.block => {
                done.short += 1;
                let blocks = len / self.block;
                Fate::Result((rng.below(blocks) * self.block).max(self.block) as i64)
            }
            22 if has(Feature::Errors) => {
                done.errors += 1;
                if rng.below(2) == 0 { Fate::Fails(-EIO) } else { Fate::Result(-EIO) }
            }
            _ => Fate::Good,
        }
    }

    /// Flushes a disk on the thread of its caller, as `flush` does, but with a fault.
    pub(super) fn flush(&self, flush: &BlockingFlush, now: Time) -> Status {
        let failed = |result: i64| Err(Fault::from_errno(i32::try_from(-result).unwrap_or(EIO as i32)));
        self.state().done.blocking_flushes += 1;
        let fate = self.decide(Op::Flush, 0);
        match fate {
            Fate::Fails(result) => return failed(result),
            Fate::Delay(span) => self.block(span),
            Fate::Stuck | Fate::Late => self.block(STUCK),
            Fate::Good | Fate::Result(_) => {}
        }
        match (flush(now), fate) {
            (Ok(()), Fate::Result(result)) => failed(result),
            (status, _) => status,
        }
    }

    /// Blocks the thread for some time, or until stuck requests are released.
    fn block(&self, span: Span) {
        let (begin, epoch) = (Instant::now(), self.released.load(Ordering::SeqCst));
        while begin.elapsed() < Duration::from_nanos(span.0) && self.released.load(Ordering::SeqCst) == epoch
        {
            std::thread::park_timeout(Duration::from_nanos(LOOK.0));
        }
    }
}

/// A request that only the script still holds.
struct Held {
    due: Time,
    /// It ends when this has passed: [`Script::released`].
    epoch: u64,
    /// The result of the real driver, once known.
    result: Option<i64>,
    /// The data to write when it ends, and its position.
    late: Option<(u64, Vec<u8>)>,
}

/// A channel with a script.
pub(super) struct Scripted {
    // Dropped first: it waits until the kernel has given back all memory.
    inner: Box<dyn Driver>,
    script: Arc<Script>,
    held: BTreeMap<u32, Held>,
    /// Results to report instead of the real ones.
    results: BTreeMap<u32, i64>,
    ready: Vec<Completion>,
    reaped: Vec<Completion>,
    wake_timer: WakeTimer,
    /// Requests that the script keeps, for other threads.
    kept: Arc<AtomicU64>,
    tells: bool,
}

struct Kept {
    inner: Arc<dyn Outstanding>,
    kept: Arc<AtomicU64>,
}

impl Outstanding for Kept {
    fn outstanding(&self) -> u32 {
        self.inner.outstanding() + self.kept.load(Ordering::SeqCst) as u32
    }
}

impl Scripted {
    /// `tells`: other threads may ask what it has outstanding, where they may ask the real driver.
    pub(super) fn new(channel: DiskChannel, script: &Arc<Script>, tells: bool) -> Scripted {
        // SAFETY: a request is reported only after the driver has reported it, and the driver is dropped with the script.
        let inner = unsafe { channel.into_driver() };
        Scripted {
            inner,
            script: Arc::clone(script),
            held: BTreeMap::new(),
            results: BTreeMap::new(),
            ready: Vec::new(),
            reaped: Vec::new(),
            wake_timer: WakeTimer::default(),
            kept: Arc::new(AtomicU64::new(0)),
            tells,
        }
    }

    fn hold(&mut self, tag: u32, due: Time, result: Option<i64>, late: Option<(u64, Vec<u8>)>) {
        let epoch = self.script.released.load(Ordering::SeqCst);
        self.held.insert(tag, Held { due, epoch, result, late });
        self.count();
    }

    fn count(&mut self) {
        self.kept.store((self.held.len() + self.ready.len()) as u64, Ordering::SeqCst);
    }

    /// Moves ended requests to the completions to report.
    fn end_held(&mut self, now: Time) {
        let released = self.script.released.load(Ordering::SeqCst);
        let over = |held: &Held| held.result.is_some() && (held.due <= now || held.epoch < released);
        let tags: Vec<u32> = self.held.iter().filter(|(_, held)| over(held)).map(|(&tag, _)| tag).collect();
        for tag in tags {
            let Some(held) = self.held.remove(&tag) else { continue };
            let mut result = held.result.unwrap_or(-EIO);
            if let (Some((pos, data)), Some(file)) = (held.late, &self.script.file) {
                result = file.write(pos, &data).map_or(-EIO, |()| data.len() as i64);
            }
            self.ready.push(Completion { tag, result });
        }
    }

    /// When to check the held requests again.
    fn alarm(&self, now: Time) -> Option<Span> {
        if !self.ready.is_empty() {
            return Some(Span::ZERO);
        }
        let first =
            self.held.values().filter(|held| held.result.is_some()).map(|held| held.due.since(now)).min();
        first.map(|span| span.min(LOOK))
    }
}

/// A descriptor of a driver, for a call that only looks at it.
fn borrowed(fd: i32) -> BorrowedFd<'static> {
    // SAFETY: the driver owns it and lives as long as the channel around it, whose descriptors are dropped with it.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Copies the data of a write.
fn copy(request: &Started<'_>) -> Vec<u8> {
    let mut data = vec![0; request.len as usize];
    let mut at = 0;
    request.for_each_segment(|segment| {
        let end = at + segment.len() as usize;
        if let Some(part) = data.get_mut(at..end) {
            // SAFETY: a driver may touch a request's memory from `queue` until it reports the completion, and this runs
            // inside `queue`; `part` is as long as the segment.
            unsafe { segment.copy_to(part) };
        }
        at = end;
    });
    data
}

impl Driver for Scripted {
    fn queue(&mut self, now: Time, request: &Started<'_>) -> bool {
        // A refused request is queued again later; its fault is chosen then.
        let fate = self.script.decide(request.op, request.len);
        let tag = request.tag;
        match fate {
            Fate::Fails(result) => self.ready.push(Completion { tag, result }),
            Fate::Late => self.hold(tag, now + STUCK, Some(0), Some((request.pos, copy(request)))),
            _ if !self.inner.queue(now, request) => return false,
            Fate::Good => {}
            Fate::Delay(span) => self.hold(tag, now + span, None, None),
            Fate::Stuck => self.hold(tag, now + STUCK, None, None),
            Fate::Result(result) => {
                self.results.insert(tag, result);
            }
        }
        self.count();
        self.wake_timer.set(self.alarm(now));
        true
    }

    fn submit(&mut self, now: Time) {
        self.inner.submit(now);
    }

    fn reap(&mut self, now: Time, done: &mut Vec<Completion>) {
        let mut reaped = std::mem::take(&mut self.reaped);
        self.inner.reap(now, &mut reaped);
        for Completion { tag, result } in reaped.drain(..) {
            let result = match self.results.remove(&tag) {
                // A transfer that failed is not a short one.
                Some(other) if result >= 0 || other < 0 => other,
                _ => result,
            };
            match self.held.get_mut(&tag) {
                Some(held) => held.result = Some(result),
                None => self.ready.push(Completion { tag, result }),
            }
        }
        self.reaped = reaped;
        self.end_held(now);
        done.append(&mut self.ready);
        self.count();
        self.wake_timer.set(self.alarm(now));
    }

    fn next_event(&self) -> Option<Time> {
        // What is held is shown by the timer.
        self.inner.next_event()
    }

    fn wait(&mut self, now: Time, timeout: Option<Span>) {
        let alarm = self.alarm(now);
        if alarm == Some(Span::ZERO) {
            return self.inner.submit(now);
        }
        self.inner.wait(now, timeout.into_iter().chain(alarm).min());
    }

    fn wait_handle(&self) -> Option<i32> {
        let handle = self.wake_timer.with(borrowed(self.inner.wait_handle()?));
        if self.kept.load(Ordering::SeqCst) > 0 {
            self.wake_timer.set(Some(LOOK));
        }
        handle
    }

    fn cancel(&mut self, now: Time, tag: u32) -> bool {
        match self.held.get_mut(&tag) {
            // It did not reach the disk, and now cannot.
            Some(held) if held.late.is_some() => {
                held.late = None;
                (held.result, held.due) = (Some(-ECANCELED), now);
                true
            }
            Some(_) => false,
            None => self.inner.cancel(now, tag),
        }
    }

    fn given_up(&mut self, now: Time, tag: u32) {
        if self.held.contains_key(&tag) {
            self.cancel(now, tag);
        } else {
            self.inner.given_up(now, tag);
        }
    }

    fn is_dead(&self) -> bool {
        self.inner.is_dead()
    }

    fn outstanding(&self) -> Option<Arc<dyn Outstanding>> {
        let inner = self.inner.outstanding().filter(|_| self.tells)?;
        Some(Arc::new(Kept { inner, kept: Arc::clone(&self.kept) }))
    }

    fn register(&mut self, region: &Region) -> bool {
        self.inner.register(region)
    }

    fn unregister(&mut self, region: RegionId) {
        self.inner.unregister(region);
    }
}
