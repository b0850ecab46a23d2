//! `platter copy`: from any device to any other.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Force};
use clap::{Args, ValueEnum};
use platter::spec::parse_size;
use serde_json::json;
use std::time::Instant;

mod blocks;
mod compare;
mod ends;
mod meter;
mod pieces;
mod plan;
mod transfer;

use compare::Compare;
use ends::Ends;
use meter::Meter;
use plan::Plan;
use transfer::{Totals, Transfer};

/// Most memory for buffers, in bytes.
const MAX_MEMORY: u64 = 1 << 30;

/// Arguments of `platter copy`.
#[derive(Args, Debug)]
#[command(after_help = "\
A destination file that is missing or empty is created with the source's size. Any other destination must be
at least as large as the source; what it has beyond stays as it is. One that holds a file system, a
partition table or a part of an array is refused without --force. What has been copied is durable when the
command ends.

Examples:
  platter copy /dev/sdb disk.img
  platter copy --verify disk.img 'file(/dev/sdb, depth=128)'
  platter copy --force 'partition(offset=1M, length=512M, /dev/sdb)' 'file(/dev/sdc, elevator=deadline)'

JSON: one object with source, destination, bytes (the source's size), bytes_written, bytes_zeroed (made zero
without being written), bytes_skipped (zeroes in a new file), seconds, mib_per_s, created, complete,
verified (true, or null where that was not asked for or not reached).")]
pub(crate) struct Copy {
    /// The device to read
    #[arg(value_name = "SRC")]
    source: String,
    /// The device to write
    #[arg(value_name = "DST")]
    destination: String,
    /// Size of one read or write
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = block_size)]
    bs: u64,
    /// Reads and writes in flight
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    depth: u32,
    /// Read both back afterwards and compare them
    #[arg(long)]
    verify: bool,
    /// What to do with zeroes
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Sparse::Auto)]
    sparse: Sparse,
    #[command(flatten)]
    force: Force,
}

/// What to do with zeroes and holes of the source.
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

fn block_size(text: &str) -> Result<u64, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    match (4096..=64 << 20).contains(&size) {
        true => Ok(size),
        false => Err("4K to 64M are possible".to_owned()),
    }
}

impl Copy {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        if u64::from(self.depth) * self.bs > MAX_MEMORY {
            let message = "--depth times --bs is the memory for buffers: at most 1G";
            return Err(CliError::usage(format!("{message}, not {} times {}", self.depth, self.bs)));
        }
        let plan = Plan::new(self, context)?;
        let start = Instant::now();
        let mut totals = Totals::default();
        let mut verified = false;
        let outcome = self.copy(context, &plan, &mut totals).and_then(|()| match self.verify {
            true => self.verify(context, &plan).map(|()| verified = true),
            false => Ok(()),
        });
        self.report(context, &plan, &totals, verified.then_some(true), start)?;
        outcome
    }

    fn copy(&self, context: &Context, plan: &Plan, totals: &mut Totals) -> Result<(), CliError> {
        let mut meter = Meter::new("copied", plan.size, Progress::new(context.progress));
        let ends = Ends::open(plan, self.bs, self.depth)?;
        Transfer::new(plan, ends, self.bs, totals).run(context, &mut meter)?;
        copy_tail(plan, totals)?;
        plan.destination.flush()?;
        Ok(())
    }

    fn verify(&self, context: &Context, plan: &Plan) -> Result<(), CliError> {
        let mut meter = Meter::new("compared", plan.size, Progress::new(context.progress));
        // Each comparison has a read in flight on both sides.
        let ends = Ends::open(plan, self.bs, self.depth.max(2))?;
        Compare::new(plan, ends, self.bs).run(context, &mut meter)?;
        compare::tail(plan)
    }

    fn report(
        &self,
        context: &Context,
        plan: &Plan,
        totals: &Totals,
        verified: Option<bool>,
        start: Instant,
    ) -> Result<(), CliError> {
        let time = start.elapsed();
        let complete = totals.sum() == plan.size;
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if context.json {
            return context.print_json(&json!({
                "source": self.source,
                "destination": self.destination,
                "bytes": plan.size,
                "bytes_written": totals.written,
                "bytes_zeroed": totals.zeroed,
                "bytes_skipped": totals.skipped,
                "seconds": time.as_secs_f64(),
                "mib_per_s": platter_bench::report::units::mib_per_s(totals.sum(), ns),
                "created": plan.created,
                "complete": complete,
                "verified": verified,
            }));
        }
        match complete {
            true => context.print(&format!("{}\n", meter::summary(totals, ns, verified.is_some()))),
            // The error says how far it got.
            false => Ok(()),
        }
    }
}

/// Copies what is less than a block at the end of the source.
fn copy_tail(plan: &Plan, totals: &mut Totals) -> Result<(), CliError> {
    let Some((pos, mut buffer)) = plan.tail() else { return Ok(()) };
    plan.source.read_at(&mut buffer, pos)?;
    if plan.reads_as_zeroes && buffer.iter().all(|byte| *byte == 0) {
        totals.skipped += buffer.len() as u64;
    } else {
        plan.destination.write_at(&buffer, pos)?;
        totals.written += buffer.len() as u64;
    }
    Ok(())
}
