//! `platter snapshot merge`.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Force, Size, spec_arg};
use clap::Args;
use platter::registry::{self, Access};
use platter_bench::report::units::bytes_short;
use platter_disk::device::Device;
use platter_stack::LayerError;
use platter_stack::kit;
use platter_stack::snapshot::Snapshot;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the merge is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Arguments of `platter snapshot merge`.
#[derive(Args, Debug)]
#[command(after_help = "\
Copies everything in the store of a snapshot back to the origin. Then the origin has the contents of the snapshot, and the \
snapshot has ended. Changes of the origin since the snapshot was made are lost. A merge that is interrupted, by a signal or \
a power cut, continues when the command is run again; until then the origin and the snapshot can only be opened with \
snapshot-merge. Refused are devices in use, a store without a snapshot or of another origin, and a snapshot that is invalid.

Examples:
  platter snapshot merge disk.img store.img
  platter snapshot merge --rate 100M /dev/vg/disk /dev/vg/store

JSON: an object with origin, store, merged_bytes and total_bytes of this run, seconds, and merged: whether the snapshot has \
ended.

Exit status 4: the store is of another origin, holds no snapshot, or the snapshot is invalid.")]
pub(crate) struct Merge {
    /// The device that the snapshot was made of
    #[arg(value_name = "ORIGIN", value_parser = spec_arg())]
    origin: String,
    /// The store of the snapshot
    #[arg(value_name = "STORE", value_parser = spec_arg())]
    store: String,
    /// Most bytes that are copied back each second
    #[arg(long, value_name = "SIZE")]
    rate: Option<Size>,
    /// Accept an origin that is another file than the one the snapshot was made of, if its contents fit
    #[arg(long)]
    moved: bool,
    #[command(flatten)]
    force: Force,
}

impl Merge {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let access = self.force.access(Access::read_write());
        let origin = registry::open(&self.origin, access)?;
        let store = registry::open(&self.store, access)?;
        let (begin, rate) = (Instant::now(), self.rate.as_ref().map_or(0, |rate| rate.bytes));
        let (below, kept) = (Arc::clone(origin.backend()), Arc::clone(store.backend()));
        let snapshot = Snapshot::merge(below, kept, self.moved, rate).map_err(failed)?;
        let device = Device::new(Arc::clone(&snapshot.view));
        let end = wait(&snapshot, context);
        let flushed = device.flush();
        let merged = matches!(end.result, Some(Ok(()))) && flushed.is_ok();
        let (done, total, seconds) = (end.done, end.total, begin.elapsed().as_secs_f64());
        if context.json {
            context.print_json(&json!({
                "origin": *origin.name(),
                "store": *store.name(),
                "merged_bytes": done,
                "total_bytes": total,
                "seconds": seconds,
                "merged": merged,
            }))?;
        }
        let far = format!("{} of {} were copied back", bytes_short(done), bytes_short(total));
        match end.result {
            Some(Err(fault)) => Err(CliError::failed(format!("the merge stopped: {fault}; {far}"))),
            None => {
                Err(context.interruption(format!("interrupted: {far}; run the command again to continue")))
            }
            Some(Ok(())) if merged && !context.json => {
                context.print(&format!("merged: {} in {seconds:.1} s\n", bytes_short(done)))
            }
            Some(Ok(())) => flushed.map_err(CliError::from),
        }
    }
}

/// Waits until the merge has ended or the user requests a stop. Then the piece that was begun may still be finished.
fn wait(snapshot: &Snapshot, context: &Context) -> kit::Progress {
    let mut progress = Progress::new(context.progress);
    context.stop_flag();
    loop {
        let now = snapshot.progress();
        if now.result.is_some() {
            return now;
        }
        if context.is_interrupted() {
            snapshot.pause(true);
            return snapshot.progress();
        }
        if progress.is_due() {
            let share = (now.done * 100).checked_div(now.total).unwrap_or(0);
            let (done, total) = (bytes_short(now.done), bytes_short(now.total));
            progress.show(&format!("merged {done} of {total} ({share} %)"));
        }
        std::thread::sleep(LOOK);
    }
}

/// An error of opening the snapshot, with the exit status that it means.
fn failed(error: LayerError) -> CliError {
    match error {
        LayerError::Device(error) => error.into(),
        other => CliError::refused(other.to_string()),
    }
}
