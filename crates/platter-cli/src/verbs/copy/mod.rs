//! `platter copy`: from any device to any other.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Force, Size, exit_now, spec_arg};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Instant;

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

/// Arguments of `platter copy`.
#[derive(Args, Debug)]
#[command(after_help = "\
A destination file that is missing or empty is created with the source's size. Any other destination must be \
at least as large as the source; what it has beyond that stays as it is. A destination that holds a file system, a \
partition table or a part of an array is refused without --force. What has been copied is durable when the \
command ends. A copy that ends early prints the offset from which to continue with --start.

With --rescue the copy continues past what cannot be read: large reads first, then smaller ones where those failed, \
then single blocks. MAPFILE records what is copied and what cannot be read, in the format of GNU ddrescue. The same \
command given again continues where the last one ended. What cannot be read is not written: in a new file it reads as \
zeroes. The exit status is then 1.

The first Ctrl-C stops the copy. It waits at most 5 s for the I/O that the devices still have.

Examples:
  platter copy /dev/sdb disk.img
  platter copy --verify disk.img 'file(copy.img, depth=128)'
  platter copy --rescue disk.map /dev/sdb disk.img
  platter copy 'partition(number=1, /dev/sdb)' 'file(part.img, elevator=deadline)'

JSON: one object with source, destination, bytes (the source's size), start_offset, resume_offset (the first byte \
that is not copied), bytes_written, bytes_zeroed (made zero without being written), bytes_skipped (zeroes in a new \
file), bytes_bad and bad (ranges that cannot be read: offset, bytes), map, seconds, mib_per_s, created, flushed, \
complete, interrupted, error, verified (true, or null if not asked for or not reached).")]
pub(crate) struct Copy {
    /// The device to read
    #[arg(value_name = "SRC", value_parser = spec_arg())]
    source: String,
    /// The device to write
    #[arg(value_name = "DST", value_parser = spec_arg())]
    destination: String,
    /// Size of one read or write
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = block_size)]
    bs: Size,
    /// Reads and writes in flight
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    /// Begin at this offset; an earlier run has copied everything before it
    #[arg(long, value_name = "OFFSET", default_value = "0", conflicts_with = "rescue", value_parser = sectors)]
    start: Size,
    /// Continue past unreadable ranges, and keep a map of them in MAPFILE
    #[arg(long, value_name = "MAPFILE")]
    rescue: Option<PathBuf>,
    /// How often to retry single blocks that cannot be read
    #[arg(long, value_name = "N", default_value_t = 0, requires = "rescue", value_parser = clap::value_parser!(u32).range(0..=1000))]
    retries: u32,
    /// Read both back afterwards and compare them
    #[arg(long)]
    verify: bool,
    /// How to handle zeroes
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Sparse::Auto)]
    sparse: Sparse,
    #[command(flatten)]
    force: Force,
}

/// How to handle zeroes and holes of the source.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Sparse {
    /// Holes of a source file are made zero at the destination without being copied, and nothing that is
    /// zero is written to a new file
    Auto,
    /// Blocks of zeroes too are made zero without being written
    Always,
    /// Write everything
    Never,
}

fn block_size(text: &str) -> Result<Size, String> {
    let size = sectors(text)?;
    match (4096..=64 << 20).contains(&size.bytes) {
        true => Ok(size),
        false => Err("4K to 64M are possible".to_owned()),
    }
}

/// A size of whole sectors: no device has smaller blocks.
fn sectors(text: &str) -> Result<Size, String> {
    let size: Size = text.parse()?;
    match size.bytes.is_multiple_of(512) {
        true => Ok(size),
        false => Err("it must be a multiple of 512".to_owned()),
    }
}

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
        let Some((pos, mut buffer)) = plan.tail() else { return Ok(()) };
        match work.map.status(pos) {
            Some(Status::Done) => return Ok(()),
            Some(Status::Bad) if self.retries == 0 => return Ok(()),
            _ => {}
        }
        let len = buffer.len() as u64;
        if let Err(error) = plan.source.read_at(&mut buffer, pos) {
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
