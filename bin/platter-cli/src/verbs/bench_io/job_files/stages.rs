//! Runs a plan: stage after stage, the jobs of a stage side by side.

use super::mapping;
use super::targets::{Place, Targets};
use super::wrong;
use crate::cli::{CliError, Context, On};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};
use core::time::Duration;
use platter_bench::io::{self, Hooks, IoError, IoReport};
use platter_bench::stats::Seeded;
use platter_bench::workload::{DeviceFacts, JobOptions};
use platter_disk::device::Device;
use platter_jobs::{Plan, Planned};
use std::time::Instant;

/// How often a job that waits for its start looks whether the run is to end.
const LOOK: Duration = Duration::from_millis(10);

/// Jobs of a section that run as one: `numjobs` of them on a device, or one of them.
struct Work {
    /// Index of the section.
    section: usize,
    /// The first of the jobs among the section's.
    clone: u32,
    options: JobOptions,
    places: Vec<Place>,
}

/// What the jobs of a work did.
pub(super) struct JobResult {
    /// Index of the section in the plan.
    pub(super) section: usize,
    /// Number of the first job.
    pub(super) first: u32,
    pub(super) report: IoReport,
}

/// The works of a stage and their devices.
struct Stage {
    works: Vec<Work>,
    targets: Targets,
}

/// Runs all stages. What a later stage cannot do is refused before the first one starts.
pub(super) fn run(plan: &Plan, on: &On, context: &Context) -> Result<Vec<JobResult>, CliError> {
    let last = plan.jobs.last().map_or(0, |job| job.stage);
    let mut stages: Vec<Stage> =
        (0..=last).map(|stage| prepare(plan, stage, on)).collect::<Result<_, _>>()?;
    Targets::agree(stages.iter_mut().map(|stage| &mut stage.targets));
    for stage in &stages {
        check(plan, stage, on)?;
    }
    let began = Instant::now();
    let mut results = Vec::new();
    for mut stage in stages {
        if context.is_interrupted() {
            break;
        }
        let seed = stage.works.first().and_then(|work| work.options.seed).unwrap_or_default();
        stage.targets.open(on, seed, context)?;
        results.extend(run_stage(plan, &stage, began, context)?);
    }
    Ok(results)
}

fn prepare(plan: &Plan, stage: u32, on: &On) -> Result<Stage, CliError> {
    let mut targets = Targets::default();
    let mut works = Vec::new();
    for (section, planned) in plan.jobs.iter().enumerate().filter(|(_, planned)| planned.stage == stage) {
        let options = mapping::options(planned).map_err(wrong)?;
        for (clone, count) in parts(planned, on) {
            let places = targets.ask(planned, clone, on).map_err(wrong)?;
            works.push(Work {
                section,
                clone,
                options: JobOptions { numjobs: count, ..options.clone() },
                places,
            });
        }
    }
    Ok(Stage { works, targets })
}

/// Jobs of a section that have the same file and region are run as one work, others apart.
fn parts(planned: &Planned, on: &On) -> Vec<(u32, u32)> {
    let same_region = planned.offset(0).is_some() && planned.offset(0) == planned.offset(planned.numjobs - 1);
    let same_file = match on.specs.len() {
        0 => planned.driver() == "null" || planned.files(0) == planned.files(planned.numjobs - 1),
        count => count == 1,
    };
    match same_region && same_file {
        true => vec![(0, planned.numjobs)],
        false => (0..planned.numjobs).map(|clone| (clone, 1)).collect(),
    }
}

/// Looks whether the devices that are there can be opened and fit the jobs.
fn check(plan: &Plan, stage: &Stage, on: &On) -> Result<(), CliError> {
    let devices = stage.targets.check(on, 1)?;
    for work in &stage.works {
        let planned = &plan.jobs[work.section];
        for device in work.places.iter().filter_map(|&at| devices[at].as_ref()) {
            let options =
                mapping::on_device(planned, &work.options, work.clone, device.size()).map_err(wrong)?;
            let facts = facts_of(device);
            options.check(&facts).map_err(|error| match error.unfit {
                true => CliError::refused(mapping::refused(planned, &error).to_string()),
                false => wrong(mapping::refused(planned, &error)),
            })?;
        }
    }
    Ok(())
}

/// What a job is checked against.
fn facts_of(device: &Device) -> DeviceFacts {
    let geometry = device.geometry();
    DeviceFacts {
        size: geometry.size,
        logical_block: u64::from(geometry.limits.logical_block),
        writable: !geometry.features.read_only,
        simulated: device.clock().simulated().is_some(),
    }
}

fn run_stage(
    plan: &Plan,
    stage: &Stage,
    began: Instant,
    context: &Context,
) -> Result<Vec<JobResult>, CliError> {
    let cancel = context.stop_flag();
    if stage.targets.are_simulated() {
        refuse_in_virtual_time(plan, stage)?;
    }
    // How many works of each section have not ended.
    let left: Vec<AtomicUsize> = plan.jobs.iter().map(|_| AtomicUsize::new(0)).collect();
    for work in &stage.works {
        left[work.section].fetch_add(1, Relaxed);
    }
    let one = |work: &Work| -> Result<Option<JobResult>, CliError> {
        let planned = &plan.jobs[work.section];
        let devices = stage.targets.devices(&work.places);
        let _end = Ended(&left[work.section]);
        let start = began + delay(planned, work.clone);
        let waits = || planned.wait_for.is_some_and(|at| left[at].load(Acquire) > 0);
        if !wait_while(|| waits() || Instant::now() < start, cancel) {
            return Ok(None);
        }
        let report = run_work(planned, work, &devices, cancel)?;
        Ok(Some(JobResult { section: work.section, first: planned.first + work.clone, report }))
    };
    let all: Vec<Result<Option<JobResult>, CliError>> = match &stage.works[..] {
        [work] => vec![one(work)],
        works => std::thread::scope(|scope| {
            let one = &one;
            let threads: Vec<_> = works.iter().map(|work| scope.spawn(move || one(work))).collect();
            let panicked =
                || Err(CliError::failed("a job ended in a panic; this is a mistake in the program"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
        }),
    };
    all.into_iter().filter_map(Result::transpose).collect()
}

fn run_work(
    planned: &Planned,
    work: &Work,
    devices: &[Device],
    cancel: &AtomicBool,
) -> Result<IoReport, CliError> {
    let size = devices.first().map_or(0, Device::size);
    let options = mapping::on_device(planned, &work.options, work.clone, size).map_err(wrong)?;
    let seed = options.effective_seed(0);
    io::run(&options, devices, seed, Hooks::none(cancel)).map_err(|error| match error {
        IoError::Job(error) => wrong(mapping::refused(planned, &error)),
        error => CliError::failed(format!("{}: {error}", planned.job.place())),
    })
}

/// Jobs that would have to share virtual time.
fn refuse_in_virtual_time(plan: &Plan, stage: &Stage) -> Result<(), CliError> {
    if let [_, second, ..] = &stage.works[..] {
        let problem = "several different jobs at once are not possible on simulated devices";
        let job = &plan.jobs[second.section].job;
        return Err(wrong(job.refuse(
            "stonewall",
            problem,
            "give the job stonewall, or equal jobs with numjobs=",
        )));
    }
    for work in &stage.works {
        let planned = &plan.jobs[work.section];
        if planned.delay_ns != [0; 2] {
            let problem = "simulated devices have a time of their own, which begins with the job";
            return Err(wrong(planned.job.refuse("startdelay", problem, "leave it out")));
        }
    }
    Ok(())
}

/// When the job starts after the run has: as with fio, by chance where a range is given.
fn delay(planned: &Planned, clone: u32) -> Duration {
    let [low, high] = planned.delay_ns;
    let span = high.saturating_sub(low);
    let by_chance = Seeded::stream(1, u64::from(planned.first + clone)).next_u64();
    Duration::from_nanos(low + by_chance.checked_rem(span.saturating_add(1)).unwrap_or(0))
}

/// Says that a work has ended, however that came.
struct Ended<'l>(&'l AtomicUsize);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Release);
    }
}

/// Sleeps while that holds; whether the run goes on.
fn wait_while(holds: impl Fn() -> bool, cancel: &AtomicBool) -> bool {
    while !cancel.load(Relaxed) {
        if !holds() {
            return true;
        }
        std::thread::sleep(LOOK);
    }
    false
}
