//! The life of one job, on its own thread: ready, ramp, measurement, drain, reading back.

use core::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;

use platter_block::time::{Span, Time};
use platter_disk::clock;

use super::IoError;
use super::outcome::Outcome;
use super::plan::{Course, Plan, span};
use super::series;
use super::usage::Usage;
use super::worker::Worker;
use crate::workload::Offsets;

/// How long a job runs between two looks at the cancel flag.
const SLICE: Span = Span::from_millis(10);

/// The stages of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It could start now.
    Ready,
    /// It never will.
    GaveUp,
    /// Everything that is measured has happened.
    Measured,
}

/// Reports each stage once, even if the job ends early.
pub(super) struct Announcer {
    to: Sender<Stage>,
    told: Option<Stage>,
}

impl Announcer {
    pub(super) fn new(to: Sender<Stage>) -> Self {
        Self { to, told: None }
    }

    fn tell(&mut self, stage: Stage) {
        self.told = Some(stage);
        // The receiver is dropped only when the run is aborted.
        let _ = self.to.send(stage);
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        match self.told {
            None => self.tell(Stage::GaveUp),
            Some(Stage::Ready) => self.tell(Stage::Measured),
            Some(Stage::GaveUp | Stage::Measured) => {}
        }
    }
}

/// Runs job number `index`. `None` if the run was called off before it began.
pub(super) fn work(
    plan: &Plan<'_>,
    index: u32,
    mut announcer: Announcer,
) -> Result<Option<Outcome>, IoError> {
    let worker = plan.open_worker(index)?;
    announcer.tell(Stage::Ready);
    if !plan.gate.wait() {
        return Ok(None);
    }
    let start = clock::now();
    let course = plan.course(index, start.0)?;
    let mut job =
        Running { plan, index, worker, course, ramp_ios: 0, stopped: Default::default(), cancelled: false };
    job.worker.desk.now = start;
    let begin = job.ramp(start);
    let before = Usage::now();
    job.measure(begin);
    let (end, after) = (clock::now(), Usage::now());
    announcer.tell(Stage::Measured);
    let missed = job.missed();
    job.read_back();
    let mismatch = match &job.course {
        Course::Careful(careful) => careful.first_mismatch(),
        Course::Uniform(_) => None,
    };
    let Running { worker, ramp_ios, cancelled, .. } = job;
    Ok(Some(Outcome {
        tally: worker.tally,
        ramp_ios,
        missed,
        begin,
        end,
        used: [before, after],
        failure: worker.desk.failure,
        mismatch,
        cancelled,
    }))
}

struct Running<'a> {
    plan: &'a Plan<'a>,
    index: u32,
    worker: Worker,
    course: Course,
    ramp_ios: u64,
    /// How many I/Os were left when no more were started, and when that was.
    stopped: (u64, Time),
    cancelled: bool,
}

impl Running<'_> {
    /// Runs for the ramp time and forgets it; when that was.
    fn ramp(&mut self, start: Time) -> Time {
        let ramp = span(self.plan.job.ramp_time);
        if ramp == Span::ZERO {
            return start;
        }
        self.worker.desk.left = u64::MAX;
        self.run_until(start + ramp);
        self.ramp_ios = self.worker.tally.all();
        self.worker.tally.forget();
        self.worker.desk.now
    }

    /// Runs until the end of the job, and until nothing is in flight any more.
    fn measure(&mut self, begin: Time) {
        if !self.cancelled && self.worker.desk.failure.is_none() {
            // I/Os in flight at the end of the ramp time complete now, and count.
            let in_flight = self.worker.channel.outstanding() as u64;
            self.worker.desk.left = self.plan.quota(self.index).saturating_sub(in_flight);
        }
        self.worker.tally.begin_intervals(begin, series::interval(self.plan.job));
        let until = self.plan.job.runtime.map_or(Time(u64::MAX), |runtime| begin + span(runtime));
        self.run_until(until);
        self.stopped = (self.worker.desk.left, self.worker.desk.now.min(until));
        self.drain();
        self.worker.tally.finish_intervals(self.worker.desk.now.min(until));
    }

    /// I/Os of an open loop that were due before the end, and were not started.
    fn missed(&self) -> u64 {
        let (left, end) = self.stopped;
        match &self.course {
            Course::Careful(careful) => careful.missed(left, end),
            Course::Uniform(_) => 0,
        }
    }

    fn drain(&mut self) {
        self.worker.desk.left = 0;
        while self.worker.channel.outstanding() > 0 {
            self.slice(clock::now() + SLICE);
        }
        self.publish();
    }

    /// Runs slice by slice until `until`, until the job ends or until it is cancelled.
    fn run_until(&mut self, until: Time) {
        while self.worker.desk.now < until && !self.worker.is_over() {
            if self.plan.cancel.load(Relaxed) {
                self.cancelled = true;
                return;
            }
            let end = self.worker.desk.now + SLICE;
            self.slice(end.min(until));
            self.publish();
        }
    }

    fn publish(&self) {
        self.plan.completed[self.index as usize].store(self.ramp_ios + self.worker.tally.all(), Relaxed);
    }

    fn slice(&mut self, until: Time) {
        match &mut self.course {
            Course::Uniform(offsets) => {
                uniform(&mut self.worker, offsets, until, !self.plan.job.gtod_reduce);
            }
            Course::Careful(careful) => careful.run(&mut self.worker, until),
        }
    }

    /// Reads back the blocks that a verified job wrote. This is not part of the measurement.
    fn read_back(&mut self) {
        if self.cancelled || self.worker.desk.failure.is_some() || !self.plan.job.rw.writes() {
            return;
        }
        let Course::Careful(careful) = &mut self.course else { return };
        let blocks = careful.begin_reading_back();
        if blocks == 0 {
            return;
        }
        let measured = self.worker.tally.clone();
        self.worker.desk.left = blocks;
        self.run_until(Time(u64::MAX));
        self.drain();
        let tally = &mut self.worker.tally;
        (tally.ios, tally.latency) = (measured.ios, measured.latency);
    }
}

/// Runs the closed loop: one for each generator, with and without latency, since the loop itself decides nothing.
fn uniform(worker: &mut Worker, offsets: &mut Offsets, until: Time, latency: bool) {
    match (offsets, latency) {
        (Offsets::Sequential(o), true) => worker.closed_loop::<true>(o, until),
        (Offsets::Sequential(o), false) => worker.closed_loop::<false>(o, until),
        (Offsets::Random(o), true) => worker.closed_loop::<true>(o, until),
        (Offsets::Random(o), false) => worker.closed_loop::<false>(o, until),
        (Offsets::RandomMap(o), true) => worker.closed_loop::<true>(o, until),
        (Offsets::RandomMap(o), false) => worker.closed_loop::<false>(o, until),
    }
}
