//! `platter copy`: from any device to any other.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, exit_now};
use std::time::Instant;

mod args;
mod blocks;
mod compare;
mod ends;
mod map;
mod mapfile;
mod meter;
mod outcome;
mod pieces;
mod plan;
mod rescue;
mod stop;
mod totals;
mod transfer;
mod work;

pub(crate) use args::Copy;
use compare::Compare;
use ends::Ends;
use map::Status;
use meter::Meter;
use outcome::Outcome;
use plan::Plan;
use stop::{Stopped, Stopper};
use transfer::Transfer;
use work::Work;

/// Most memory for buffers, in bytes.
const MAX_MEMORY: u64 = 1 << 30;

impl Copy {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        if u64::from(self.depth) * self.bs.bytes > MAX_MEMORY {
            let message = "--depth times --bs is the memory for buffers: at most 1G";
            return Err(CliError::usage(format!("{message}, not {} times {}", self.depth, self.bs)));
        }
        let plan = Plan::new(self, context)?;
        let (start, mut stop) = (Instant::now(), Stopper::new(context));
        let mut work = Work::begin(&plan);
        let mut stopped = self.copy(context, &plan, &mut work, &mut stop)?.err();
        let complete = work.map.is_done() && work.flushed;
        if complete && matches!(stopped, Some(Stopped::Interrupted)) {
            // The signal came when everything was done.
            stopped = None;
        }
        let (mut compared, mut verified) = (0, false);
        if self.verify && stopped.is_none() {
            let (bytes, outcome) = self.verify(context, &plan, &work, &mut stop)?;
            (compared, verified, stopped) = (bytes, outcome.is_ok(), outcome.err());
        }
        let time = start.elapsed();
        let outcome = Outcome { copy: self, plan: &plan, work: &work, time, verified, compared, stopped };
        let error = outcome.error(&stop);
        match (context.json, outcome.summary()) {
            (true, _) => context.print_json(&outcome.to_json(error.as_ref()))?,
            (false, Some(summary)) => context.print(&format!("{summary}\n"))?,
            // The error describes how far the copy got.
            (false, None) => {}
        }
        match (error, &outcome.stopped) {
            // Closing the devices would wait for their I/O in flight.
            (Some(error), Some(Stopped::Abandoned(_))) => exit_now(&error),
            (Some(error), _) => Err(error),
            (None, _) => Ok(()),
        }
    }

    /// Copies and flushes. The inner result is why it ended before its end.
    fn copy(
        &self,
        context: &Context,
        plan: &Plan,
        work: &mut Work,
        stop: &mut Stopper<'_>,
    ) -> Result<Result<(), Stopped>, CliError> {
        let mut meter = Meter::new("copied", Progress::new(context.progress));
        let mut ends = Ends::open(plan, self.bs.bytes, self.depth)?;
        let moved = match self.rescue {
            Some(_) => rescue::run(self, plan, (&mut ends, work), stop, &mut meter),
            None => {
                let ranges = vec![(plan.start, plan.whole())];
                Transfer::new(plan, &mut ends, work, ranges, self.bs.bytes, None).run(stop, &mut meter)
            }
        };
        let moved = moved.and_then(|()| self.copy_tail(plan, work));
        let flushed = match &moved {
            Err(Stopped::Destination(_) | Stopped::Abandoned(_)) => Ok(()),
            _ => work.flush(&mut ends, stop, &mut meter),
        };
        let outcome = match (moved, flushed) {
            (Err(Stopped::Failed(error)), Err(Stopped::Destination(_)) | Ok(())) => {
                Err(Stopped::Failed(error))
            }
            (_, Err(stopped)) => Err(stopped),
            (moved, Ok(())) => moved,
        };
        if matches!(outcome, Err(Stopped::Abandoned(_))) {
            // Dropping them would wait for their I/O in flight.
            std::mem::forget(ends);
        }
        Ok(outcome)
    }

    /// Copies the incomplete block at the end of the source.
    fn copy_tail(&self, plan: &Plan, work: &mut Work) -> Result<(), Stopped> {
        // A rescue copies each block of the source that it can read.
        let unit = if self.rescue.is_some() { plan.source_unit } else { plan.unit };
        let mut pos = plan.whole();
        while pos < plan.size {
            let len = unit.min(plan.size - pos);
            self.copy_part(plan, work, pos, len)?;
            pos += len;
        }
        Ok(())
    }

    /// Copies less than a block.
    fn copy_part(&self, plan: &Plan, work: &mut Work, pos: u64, len: u64) -> Result<(), Stopped> {
        match work.map.status(pos) {
            Some(Status::Done) => return Ok(()),
            Some(Status::Bad) if self.retries == 0 => return Ok(()),
            _ => {}
        }
        let mut buffer = vec![0; len as usize];
        if let Err(error) = Context::unattended(|| plan.source.read_at(&mut buffer, pos)) {
            if self.rescue.is_none() {
                return Err(Stopped::source(&error));
            }
            work.map.mark_failed(pos, len, Status::Bad);
            return Ok(());
        }
        if plan.reads_as_zeroes && buffer.iter().all(|byte| *byte == 0) {
            work.totals.skipped += len;
        } else {
            plan.destination.write_at(&buffer, pos).map_err(|error| Stopped::destination(&error))?;
            work.totals.written += len;
        }
        work.done(pos, len);
        Ok(())
    }

    /// Compares the copied ranges. Returns the number of equal bytes, and why the comparison ended early.
    fn verify(
        &self,
        context: &Context,
        plan: &Plan,
        work: &Work,
        stop: &mut Stopper<'_>,
    ) -> Result<(u64, Result<(), Stopped>), CliError> {
        let mut meter = Meter::new("compared", Progress::new(context.progress));
        // Each comparison has a read in flight on both sides.
        let mut ends = Ends::open(plan, self.bs.bytes, self.depth.max(2))?;
        let (compared, outcome) =
            Compare::new(plan, &mut ends, &work.map, self.bs.bytes).run(stop, &mut meter);
        if matches!(outcome, Err(Stopped::Abandoned(_))) {
            std::mem::forget(ends);
        }
        Ok((compared, outcome))
    }
}
