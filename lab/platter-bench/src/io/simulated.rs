//! The workload on simulated devices: all jobs on one thread, in virtual time.
//!
//! The jobs of a device share one channel and are identified by the tokens of their bios, so that a job costs
//! little more than its bios, and a device is polled only when it has an event. The clock advances to the
//! earliest event of any device or start of any job.

mod many;
mod solo;

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use platter_block::time::{Span, Time, VirtualClock};
use platter_disk::clock::Clock;
use platter_disk::device::Device;

use super::IoError;
use super::hooks::{Hooks, Progress, TICK};
use super::outcome::Outcome;
use super::plan::{Course, Plan, span};
use super::report::Simulated;
use super::series;
use super::tally::Tally;
use super::usage::Usage;
use crate::load::{Load, Pause, Work};
use many::Many;
use solo::Solo;

/// The clock that all devices share, if they are simulated.
pub(crate) fn shared_clock(devices: &[Device]) -> Result<Option<Arc<VirtualClock>>, IoError> {
    let mut clocks = devices.iter().map(|device| match device.clock() {
        Clock::Host => None,
        Clock::Virtual(clock) => Some(clock),
    });
    let first = clocks.next().flatten();
    let same = clocks.all(|clock| match (&first, &clock) {
        (None, None) => true,
        (Some(first), Some(clock)) => Arc::ptr_eq(first, clock),
        _ => false,
    });
    if same { Ok(first) } else { Err(IoError::Clocks) }
}

/// Jobs in virtual time.
trait Simulation: Work<Error = IoError> {
    /// Lets each job that has not failed start up to `quota` I/Os, including those in flight, and starts them.
    fn allow(&mut self, load: &mut Load, quota: &dyn Fn(u32) -> u64) -> Result<(), IoError>;
    /// I/Os that were due before `end`, and were not started.
    fn missed(&self, end: Time) -> u64;
    fn tally(&mut self) -> &mut Tally;
    /// Makes the jobs read back their writes; returns whether there are any.
    fn begin_reading_back(&mut self, load: &mut Load) -> Result<bool, IoError>;
    /// The first failure and the first bad block.
    fn troubles(&mut self) -> Troubles;
}

#[derive(Default)]
struct Troubles {
    failure: Option<platter_block::fault::Error>,
    mismatch: Option<String>,
}

/// The result of a simulated run.
pub(super) struct Run {
    pub(super) outcome: Outcome,
    pub(super) simulated: Simulated,
}

/// Runs the jobs on simulated devices, which share a clock.
pub(super) fn run(plan: &Plan<'_>, hooks: Hooks<'_>) -> Result<Run, IoError> {
    let load = Load::new(plan.device(0).clock(), plan.devices() as u32, plan.job.numjobs);
    if plan.job.numjobs == 1
        && let Course::Uniform(offsets) = plan.course(0, load.now().0)?
    {
        let solo = Solo { worker: plan.open_worker(0)?, offsets, latency: !plan.job.gtod_reduce };
        return Director::new(plan, load, solo, hooks).direct();
    }
    let many = Many::new(plan, load.now())?;
    Director::new(plan, load, many, hooks).direct()
}

/// Leads a simulation through ramp, measurement, drain and reading back.
struct Director<'p, 'a, S> {
    plan: &'p Plan<'p>,
    load: Load,
    simulation: S,
    progress: Option<&'a mut dyn FnMut(&Progress)>,
    start: Time,
    began: Instant,
    last: (Instant, Time, u64),
    ramp_ios: u64,
    ramping: bool,
    cancelled: bool,
}

impl<'p, 'a, S: Simulation> Director<'p, 'a, S> {
    fn new(plan: &'p Plan<'p>, load: Load, simulation: S, hooks: Hooks<'a>) -> Self {
        let (began, start) = (Instant::now(), load.now());
        let last = (began, start, 0);
        Self {
            plan,
            load,
            simulation,
            progress: hooks.progress,
            start,
            began,
            last,
            ramp_ios: 0,
            ramping: false,
            cancelled: false,
        }
    }

    fn direct(mut self) -> Result<Run, IoError> {
        let ramp = span(self.plan.job.ramp_time);
        if ramp > Span::ZERO {
            self.ramping = true;
            self.simulation.allow(&mut self.load, &|_| u64::MAX)?;
            self.run_until(self.start + ramp)?;
            self.ramp_ios = self.simulation.tally().all();
            self.simulation.tally().forget();
            self.ramping = false;
        }
        let (begin, real, before) = (self.load.now(), Instant::now(), Usage::now());
        if !self.cancelled {
            let plan = self.plan;
            self.simulation.allow(&mut self.load, &|job| plan.quota(job))?;
            let until = plan.job.runtime.map_or(Time(u64::MAX), |runtime| begin + span(runtime));
            self.simulation.tally().begin_intervals(begin, series::interval(plan.job));
            self.run_until(until)?;
        }
        let stopped = self.load.now();
        let missed = self.simulation.missed(stopped);
        self.drain()?;
        self.simulation.tally().finish_intervals(stopped);
        let (end, after) = (self.load.now(), Usage::now());
        let simulated = Simulated { real: real.elapsed() };
        self.read_back()?;
        let Troubles { failure, mismatch } = self.simulation.troubles();
        let outcome = Outcome {
            tally: self.simulation.tally().clone(),
            ramp_ios: self.ramp_ios,
            missed,
            begin,
            end,
            used: [before, after],
            failure,
            mismatch,
            cancelled: self.cancelled,
        };
        Ok(Run { outcome, simulated })
    }

    fn run_until(&mut self, until: Time) -> Result<(), IoError> {
        while !self.cancelled && self.load.run(&mut self.simulation, until)? == Pause::Events {
            self.look_around();
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<(), IoError> {
        self.simulation.allow(&mut self.load, &|_| 0)?;
        while self.load.run(&mut self.simulation, Time(u64::MAX))? == Pause::Events {}
        Ok(())
    }

    /// Reads back the blocks that a verified job wrote. This is not part of the measurement.
    fn read_back(&mut self) -> Result<(), IoError> {
        if self.cancelled
            || !self.plan.job.rw.writes()
            || !self.simulation.begin_reading_back(&mut self.load)?
        {
            return Ok(());
        }
        let measured = self.simulation.tally().clone();
        self.run_until(Time(u64::MAX))?;
        self.drain()?;
        let tally = self.simulation.tally();
        (tally.ios, tally.latency) = (measured.ios, measured.latency);
        Ok(())
    }

    fn look_around(&mut self) {
        self.cancelled |= self.plan.cancel.load(Relaxed);
        let now = Instant::now();
        let (before, then, had) = self.last;
        if now.duration_since(before) < TICK {
            return;
        }
        let Some(progress) = &mut self.progress else { return };
        let virtual_now = self.load.now();
        let ios = self.ramp_ios + self.simulation.tally().all();
        let passed = virtual_now.since(then).0.max(1) as f64 / 1e9;
        let iops = (ios - had) as f64 / passed;
        progress(&Progress {
            elapsed: now - self.began,
            simulated: Some(Duration::from_nanos(virtual_now.since(self.start).0)),
            ramping: self.ramping,
            ios,
            iops,
            mib_per_s: iops * self.plan.job.bs as f64 / f64::from(1 << 20),
        });
        self.last = (now, virtual_now, ios);
    }
}
