//! Runs the reads of threads that take turns.

use super::Read;
use super::cache::{Cache, Found};
use super::machine::{Io, Machine};
use platter_cache::readahead::{Access, Call, Counters, Pages, Readahead, ReadaheadType, Settings, Window};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of a policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The I/Os, in their order.
    pub ios: Vec<Io>,
    /// The windows that the policy requested, and pages that were read alone because it did not.
    #[serde(skip)]
    pub windows: Vec<Window>,
    /// The policy's counters, over all handles.
    #[serde(skip)]
    pub counters: Counters,
    /// Reads.
    pub reads: u64,
    /// Pages read from the device.
    pub pages_read: u64,
    /// Those of them that a read then took. A page that was lost and read again counts twice.
    pub pages_used: u64,
    /// Those that left the cache before any read took them.
    pub evicted_unused: u64,
    /// Times that a thread waited for a page.
    pub waits: u64,
    /// Rounds of turns until all threads were through.
    pub rounds: u64,
}

impl Outcome {
    /// Pages that were read for nothing.
    pub fn pages_wasted(&self) -> u64 {
        self.pages_read - self.pages_used
    }
}

/// A read that runs.
struct Running {
    call: Call,
    handle: u32,
    /// The next page to look up.
    page: u64,
    /// The page that the thread waits for, and the round in which it becomes available.
    waits_for: Option<(u64, u64)>,
}

struct Thread {
    reads: VecDeque<Read>,
    running: Option<Running>,
}

struct Handle {
    policy: Box<dyn Readahead>,
    /// Reads that run on it.
    running: u32,
}

/// Runs `reads` with the policy of `row`. Reads of one thread are sequential; threads take turns in the order
/// of their numbers. Reads past the end of the device stop there.
pub fn run(row: &ReadaheadType, settings: &Settings, machine: &Machine, reads: &[Read]) -> Outcome {
    play(row, settings, machine, reads, &AtomicBool::new(false)).0
}

/// [`run`], stopped when `cancel` becomes true; then `None`.
pub fn run_unless(
    row: &ReadaheadType,
    settings: &Settings,
    machine: &Machine,
    reads: &[Read],
    cancel: &AtomicBool,
) -> Option<Outcome> {
    let (outcome, complete) = play(row, settings, machine, reads, cancel);
    complete.then_some(outcome)
}

/// The result of the reads, and whether all of them were run.
fn play(
    row: &ReadaheadType,
    settings: &Settings,
    machine: &Machine,
    reads: &[Read],
    cancel: &AtomicBool,
) -> (Outcome, bool) {
    let mut cache = Cache::new(&Machine { latency: machine.latency.max(1), ..machine.clone() });
    let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
    let mut handles: BTreeMap<u32, Handle> = BTreeMap::new();
    for read in reads {
        let new = || Thread { reads: VecDeque::new(), running: None };
        threads.entry(read.thread).or_insert_with(new).reads.push_back(*read);
        let new = || {
            let mut policy = (row.make)(settings);
            policy.advise(machine.hint);
            Handle { policy, running: 0 }
        };
        handles.entry(read.handle).or_insert_with(new);
    }
    let mut waits = 0;
    let mut threads: Vec<Thread> = threads.into_values().collect();
    while !threads.is_empty() && !cancel.load(Ordering::Relaxed) {
        for thread in &mut threads {
            thread.turn(&mut cache, &mut handles, &mut waits);
        }
        threads.retain(|thread| thread.running.is_some() || !thread.reads.is_empty());
        cache.round += 1;
    }
    let counters = handles.values().map(|handle| handle.policy.counters()).fold(Counters::default(), add);
    let complete = threads.is_empty();
    let outcome = Outcome {
        counters,
        reads: reads.len() as u64,
        pages_read: cache.pages_read,
        pages_used: cache.pages_used,
        evicted_unused: cache.evicted_unused,
        waits,
        rounds: cache.round,
        ios: cache.ios,
        windows: cache.windows,
    };
    (outcome, complete)
}

fn add(a: Counters, b: Counters) -> Counters {
    Counters {
        closed_by_miss: a.closed_by_miss + b.closed_by_miss,
        closed_by_hit: a.closed_by_hit + b.closed_by_hit,
        shrunk: a.shrunk + b.shrunk,
        contiguous: a.contiguous + b.contiguous,
        random: a.random + b.random,
        windows: a.windows + b.windows,
        lookups: a.lookups + b.lookups,
    }
}

impl Thread {
    /// One page, unless the thread waits.
    fn turn(&mut self, cache: &mut Cache, handles: &mut BTreeMap<u32, Handle>, waits: &mut u64) {
        if let Some(running) = &mut self.running
            && let Some((page, ready)) = running.waits_for
        {
            if ready > cache.round {
                return;
            }
            running.waits_for = None;
            cache.take(page);
            self.finish(handles);
        }
        if self.running.is_none() {
            self.begin(cache, handles);
        }
        let Some(running) = &mut self.running else { return };
        let Some(handle) = handles.get_mut(&running.handle) else { return };
        let page = running.page;
        let ready = running.look(&mut *handle.policy, cache);
        running.page += 1;
        if ready > cache.round {
            *waits += 1;
            running.waits_for = Some((page, ready));
        } else {
            cache.take(page);
            self.finish(handles);
        }
    }

    /// Begins the next read that has pages on the device, if its handle is free.
    fn begin(&mut self, cache: &mut Cache, handles: &mut BTreeMap<u32, Handle>) {
        while let Some(read) = self.reads.front() {
            let on_device = (cache.end() * platter_block::resident::PAGE).saturating_sub(read.pos);
            let access = Access::new(read.pos, read.len.min(on_device));
            if access.pages == 0 {
                self.reads.pop_front();
                continue;
            }
            let Some(handle) = handles.get_mut(&read.handle) else { return };
            if handle.policy.exclusive() && handle.running > 0 {
                return;
            }
            handle.running += 1;
            let mut call = Call::new(access);
            handle.policy.begin(&mut call, cache);
            self.running = Some(Running { call, handle: read.handle, page: access.first, waits_for: None });
            self.reads.pop_front();
            return;
        }
    }

    /// Ends the read if all of its pages were taken.
    fn finish(&mut self, handles: &mut BTreeMap<u32, Handle>) {
        let Some(running) = &mut self.running else { return };
        if running.page < running.call.access.end() {
            return;
        }
        if let Some(handle) = handles.get_mut(&running.handle) {
            handle.policy.end(&mut running.call);
            handle.running -= 1;
        }
        self.running = None;
    }
}

impl Running {
    /// Looks up the next page as a read call does. Returns the round in which it is available.
    fn look(&mut self, policy: &mut dyn Readahead, cache: &mut Cache) -> u64 {
        let (call, page) = (&mut self.call, self.page);
        cache.caller = (self.handle, call.access.first..call.access.end());
        let every = policy.every_page();
        if every {
            policy.page(call, page, cache);
        }
        let mut found = cache.look(page);
        if found == Found::Missing {
            policy.missing(call, page, cache);
            found = match cache.look(page) {
                Found::Missing => {
                    cache.read(Window { first: page, count: 1, mark: None, sync: true });
                    cache.look(page)
                }
                Found::Page { ready, marked } => {
                    if marked {
                        policy.found(call, page, true, true, cache);
                    }
                    Found::Page { ready, marked }
                }
            };
        } else if let Found::Page { ready, marked } = found
            && (every || marked)
        {
            policy.found(call, page, ready > cache.round, marked, cache);
        }
        match found {
            Found::Page { ready, .. } => ready,
            Found::Missing => cache.round,
        }
    }
}
