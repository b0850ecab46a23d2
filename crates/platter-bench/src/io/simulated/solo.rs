//! One job alone, whose I/Os have one direction: the closed loop, in which the clock moves instead of waiting.

use platter_block::time::{Span, Time, VirtualClock};

use super::{IoError, Simulation, Troubles};
use crate::io::job::uniform;
use crate::io::tally::Tally;
use crate::io::worker::{Turns, Worker};
use crate::workload::Offsets;

/// Turns of the loop between two looks at the real clock.
const TURNS: u32 = 4096;

pub(super) struct Solo<'a> {
    worker: Worker,
    offsets: Offsets,
    latency: bool,
    time: VirtualTurns<'a>,
}

/// Time passes when there is nothing to do.
struct VirtualTurns<'a> {
    clock: &'a VirtualClock,
    left: u32,
    stuck: bool,
}

impl<'a> Solo<'a> {
    pub(super) fn new(worker: Worker, offsets: Offsets, clock: &'a VirtualClock, latency: bool) -> Self {
        Self { worker, offsets, latency, time: VirtualTurns { clock, left: 0, stuck: false } }
    }
}

impl Turns for VirtualTurns<'_> {
    #[inline(always)]
    fn turn<const LATENCY: bool>(&mut self, worker: &mut Worker, until: Time) -> usize {
        self.left = self.left.saturating_sub(1);
        let desk = &mut worker.desk;
        let completed = worker.channel.poll_at(desk.now, &mut worker.done);
        if completed > 0 {
            return completed;
        }
        // Time is about to pass: the job waits.
        worker.channel.unplug();
        match worker.channel.next_wakeup() {
            Some(at) => desk.now = at.clamp(desk.now + STALL, until),
            None => self.stuck = true,
        }
        self.clock.advance_to(desk.now);
        0
    }

    #[inline(always)]
    fn go_on(&self) -> bool {
        self.left > 0 && !self.stuck
    }
}

/// How far time advances when a device wants to be polled again at the same time.
pub(super) const STALL: Span = Span(1);

impl Simulation for Solo<'_> {
    fn run(&mut self, until: Time) -> Result<(), IoError> {
        (self.time.left, self.time.stuck) = (TURNS, false);
        uniform(&mut self.worker, &mut self.offsets, until, self.latency, &mut self.time);
        match self.time.stuck && self.worker.channel.outstanding() > 0 {
            true => Err(IoError::Stuck { ios: self.worker.channel.outstanding() }),
            false => Ok(()),
        }
    }

    fn now(&self) -> Time {
        self.worker.desk.now
    }

    fn outstanding(&self) -> usize {
        self.worker.channel.outstanding()
    }

    fn is_over(&self) -> bool {
        self.worker.is_over()
    }

    fn allow(&mut self, quota: &dyn Fn(u32) -> u64) {
        if self.worker.desk.failure.is_none() {
            self.worker.desk.left = quota(0).saturating_sub(self.outstanding() as u64);
        }
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.worker.tally
    }

    fn begin_reading_back(&mut self) -> bool {
        false
    }

    fn troubles(&mut self) -> Troubles {
        Troubles { failure: self.worker.desk.failure.take(), mismatch: None }
    }
}
