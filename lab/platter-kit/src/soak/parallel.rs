//! Concurrent runs, with the same results as sequential ones.

use super::plan::Plan;
use super::{Bug, Cells, Cover, Features, Finding, Found, Outcome, Report, carry_out, shrink};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// What to soak.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seed of the first run.
    pub seed: u64,
    /// Most runs.
    pub runs: u64,
    /// Threads; the result does not depend on them.
    pub threads: usize,
    /// A bug to build in.
    pub bug: Option<&'static Bug>,
    /// Start no run after this time. The number of runs then depends on the machine.
    pub time: Option<Duration>,
    /// Features that no run has.
    pub without: Features,
    /// Continue after a finding, and count findings by kind.
    pub all: bool,
    /// Look for a smaller plan with a finding of the same kind, which can take hundreds of runs on one thread.
    pub shrink: bool,
}

impl Default for Options {
    fn default() -> Options {
        let without = Features::default();
        Options { seed: 1, runs: 1000, threads: 1, bug: None, time: None, without, all: false, shrink: true }
    }
}

impl Options {
    /// The plan of a run.
    fn plan(&self, number: u64) -> Plan {
        Plan::new(self.seed.wrapping_add(number), self.without)
    }
}

/// What the threads share.
struct Shared<'a> {
    options: &'a Options,
    next: AtomicU64,
    /// Runs with this number and above are not needed any more.
    end: AtomicU64,
    merged: Mutex<Merged>,
    finished: AtomicU64,
    /// Threads that have not ended.
    working: AtomicUsize,
    stop: &'a AtomicBool,
    began: Instant,
}

/// Outcomes merged in the order of their runs, up to the first gap.
struct Merged {
    report: Report,
    /// What was found: the first finding of each kind with its run.
    found: Vec<(u64, Finding)>,
    /// Runs behind a gap.
    early: BTreeMap<u64, Outcome>,
    all: bool,
}

impl Merged {
    fn new(options: &Options) -> Merged {
        let report = Report {
            seed: options.seed,
            runs: 0,
            bug: options.bug.map(|bug| bug.name),
            without: options.without,
            found: Vec::new(),
            cover: Cover::default(),
            cells: Cells::default(),
            interrupted: false,
        };
        Merged { report, found: Vec::new(), early: BTreeMap::new(), all: options.all }
    }

    fn insert(&mut self, number: u64, outcome: Outcome) {
        self.early.insert(number, outcome);
        while (self.all || self.found.is_empty())
            && let Some(outcome) = self.early.remove(&self.report.runs)
        {
            self.merge(outcome);
        }
    }

    fn merge(&mut self, outcome: Outcome) {
        let number = self.report.runs;
        self.report.runs += 1;
        self.report.cover.add(&outcome.cover);
        self.report.cells.add(&outcome.cells);
        let Some(finding) = outcome.found else { return };
        let Finding { class: kind, what } = finding.clone();
        match self.report.found.iter_mut().find(|found| found.kind == kind) {
            Some(known) => known.times += 1,
            None => {
                self.report.found.push(Found { seed: 0, kind, times: 1, what, plan: String::new() });
                self.found.push((number, finding));
            }
        }
    }

    /// The report, with a plan for each kind of finding.
    fn finish(mut self, options: &Options) -> Report {
        for (found, (number, finding)) in self.report.found.iter_mut().zip(self.found) {
            let plan = options.plan(number);
            let (plan, finding) = match options.shrink {
                true => shrink::shrink(plan, finding, options.bug),
                false => (plan, finding),
            };
            if std::env::var_os(STORY).is_some() {
                carry_out(&Arc::new(plan.clone()), options.bug, true);
            }
            (found.seed, found.what, found.plan) = (plan.seed, finding.what, plan.to_string());
        }
        self.report
    }
}

impl Shared<'_> {
    /// The number of a run that is to be done now.
    fn take(&self) -> Option<u64> {
        let late = self.options.time.is_some_and(|most| self.began.elapsed() >= most);
        if late || self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.end.load(Ordering::Relaxed)).then_some(number)
    }

    fn work(&self) {
        while let Some(number) = self.take() {
            let outcome = carry_out(&Arc::new(self.options.plan(number)), self.options.bug, false);
            if outcome.found.is_some() && !self.options.all {
                self.end.fetch_min(number, Ordering::Relaxed);
            }
            self.merged.lock().unwrap_or_else(PoisonError::into_inner).insert(number, outcome);
            self.finished.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counts a thread that has ended, and wakes the one that shows progress, which many short soaks would wait for otherwise.
struct Ended<'a> {
    shared: &'a Shared<'a>,
    shown_by: &'a Thread,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.shared.working.fetch_sub(1, Ordering::AcqRel);
        self.shown_by.unpark();
    }
}

/// How often progress is shown.
const PROGRESS: Duration = Duration::from_millis(100);

/// Soaks until a run finds something, all runs are done, the time is over, or `stop` is set. `progress` is called
/// regularly with the number of finished runs.
pub fn run(options: &Options, stop: &AtomicBool, progress: &mut dyn FnMut(u64)) -> Report {
    let shared = Shared {
        options,
        next: AtomicU64::new(0),
        end: AtomicU64::new(options.runs),
        merged: Mutex::new(Merged::new(options)),
        finished: AtomicU64::new(0),
        working: AtomicUsize::new(options.threads.max(1)),
        stop,
        began: Instant::now(),
    };
    let shown_by = std::thread::current();
    let work = || {
        // Also if a run panics, so that it is passed on.
        let _ended = Ended { shared: &shared, shown_by: &shown_by };
        shared.work();
    };
    std::thread::scope(|scope| {
        (0..shared.working.load(Ordering::Relaxed)).for_each(|_| drop(scope.spawn(work)));
        while shared.working.load(Ordering::Acquire) > 0 {
            progress(shared.finished.load(Ordering::Relaxed));
            std::thread::park_timeout(PROGRESS);
        }
    });
    let mut merged = shared.merged.into_inner().unwrap_or_else(PoisonError::into_inner);
    merged.report.interrupted = stop.load(Ordering::Relaxed);
    merged.finish(options)
}

/// Environment variable: the plan of a finding is run once more and logs its events on standard error.
const STORY: &str = "PLATTER_SOAK_STORY";
