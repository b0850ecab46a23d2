//! Starts the jobs, watches them, and adds up their results.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::Instant;

use platter_disk::device::Device;

use super::counts::Counts;
use super::hooks::{Hooks, Progress, TICK};
use super::job::{Announcer, Stage, work};
use super::outcome::Outcome;
use super::plan::Plan;
use super::report::{Measured, build};
use super::simulated::{self, Run, shared_clock};
use super::{IoError, IoReport};
use crate::workload::JobOptions;

/// Runs the job `numjobs` times in parallel, job number i on device number i modulo their number, and reports
/// the total results. `seed` is that of the run ([`JobOptions::effective_seed`]).
///
/// # Errors
/// Options that contradict each other or do not fit the devices; buffers, channels or threads that cannot be
/// allocated. A failed I/O is not an error; it is in the report.
pub fn run(job: &JobOptions, devices: &[Device], seed: u64, hooks: Hooks<'_>) -> Result<IoReport, IoError> {
    let clock = shared_clock(devices)?;
    let plan = Plan::new(job, devices, seed, hooks.cancel)?;
    let before = Counts::before(devices);
    if clock.is_some() {
        let Run { outcome, simulated } = simulated::run(&plan, hooks)?;
        let counts = Counts::of(devices).since(&before);
        let measured = Measured { outcomes: vec![outcome], counts, simulated: Some(simulated) };
        return Ok(build(job, devices, seed, measured));
    }
    let (send, stages) = channel();
    std::thread::scope(|scope| {
        let mut threads: Vec<ScopedJoinHandle<'_, _>> = Vec::with_capacity(job.numjobs as usize);
        let mut failure = None;
        for index in 0..job.numjobs {
            let (announcer, plan) = (Announcer::new(send.clone()), &plan);
            let builder = Builder::new().name(format!("job{index}"));
            match builder.spawn_scoped(scope, move || work(plan, index, announcer)) {
                Ok(thread) => threads.push(thread),
                Err(source) => {
                    failure = Some(IoError::Thread { job: index, source });
                    break;
                }
            }
        }
        drop(send);
        let all_ready = failure.is_none() && are_ready(&stages, threads.len());
        let watch = Watch::start(&plan, hooks.progress);
        plan.gate.open(all_ready);
        if all_ready {
            watch.until_measured(&stages, threads.len());
        }
        let outcomes = collect(threads);
        if let Some(failure) = failure {
            return Err(failure);
        }
        let outcomes: Vec<Outcome> = outcomes?.into_iter().flatten().collect();
        let counts = Counts::of(devices).since(&before);
        let measured = Measured { outcomes, counts, simulated: None };
        Ok(build(job, devices, seed, measured))
    })
}

/// Waits until each job is ready or has given up; whether all are ready.
fn are_ready(stages: &Receiver<Stage>, jobs: usize) -> bool {
    (0..jobs).all(|_| stages.recv() == Ok(Stage::Ready))
}

fn collect(
    threads: Vec<ScopedJoinHandle<'_, Result<Option<Outcome>, IoError>>>,
) -> Result<Vec<Option<Outcome>>, IoError> {
    // All threads are joined, whatever the result of the first.
    let results: Vec<_> = threads.into_iter().map(ScopedJoinHandle::join).collect();
    let results = results.into_iter().zip(0u32..);
    results.map(|(result, job)| result.unwrap_or(Err(IoError::Panicked { job }))).collect()
}

/// The caller's thread while the jobs run.
struct Watch<'p, 'a> {
    plan: &'p Plan<'p>,
    progress: Option<&'a mut dyn FnMut(&Progress)>,
    start: Instant,
    ramp: Duration,
    last: (Instant, u64),
}

impl<'p, 'a> Watch<'p, 'a> {
    fn start(plan: &'p Plan<'p>, progress: Option<&'a mut dyn FnMut(&Progress)>) -> Self {
        let start = Instant::now();
        Self { plan, progress, start, ramp: plan.job.ramp_time, last: (start, 0) }
    }

    /// Reports progress until all jobs have been measured.
    fn until_measured(mut self, stages: &Receiver<Stage>, jobs: usize) {
        let mut measured = 0;
        let mut tick = self.start + TICK;
        while measured < jobs {
            match stages.recv_timeout(tick.saturating_duration_since(Instant::now())) {
                Ok(Stage::Measured) => measured += 1,
                Ok(Stage::Ready | Stage::GaveUp) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    self.report(now, now.duration_since(self.start) < self.ramp);
                    tick += TICK;
                }
            }
        }
    }

    fn report(&mut self, now: Instant, ramping: bool) {
        let Some(progress) = &mut self.progress else { return };
        let ios: u64 = self.plan.completed.iter().map(|n| n.load(Relaxed)).sum();
        let (before, had) = self.last;
        let iops = (ios - had) as f64 / now.duration_since(before).as_secs_f64();
        self.last = (now, ios);
        let mib_per_s = iops * self.plan.job.bs as f64 / f64::from(1 << 20);
        let elapsed = now - self.start;
        progress(&Progress { elapsed, simulated: None, ramping, ios, iops, mib_per_s });
    }
}
