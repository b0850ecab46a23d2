//! `platter bench fileio`: SysBench's fileio test.

mod options;

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, On};
use clap::Args;
use platter::registry::Access;
use platter_bench::fileio::{self, FileioError, Hooks, Report};
use platter_bench::report::units::{fixed, thousands};
use platter_disk::sys::Direct;
use platter_sim::World;
use std::path::PathBuf;

/// Arguments of `platter bench fileio`.
#[derive(Args, Debug)]
#[command(after_help = "\
Options have SysBench's names and meanings. The defaults are those of the test of May 2004:
16 threads, 10000 requests, rndrw at 1.5 reads to a write, 16 KiB, 128 files, 3 GiB, an fsync of
every file each 100 requests. SysBench 1.0.20 has other defaults: one thread, 2 GiB, 10 seconds,
no limit of events, no default mode. --events counts reads and writes, as in 2004; 1.0.20 counts
each fsync too, as --count all does: its 22800 events are 10000 reads and writes.
Sizes take K, M, G, T, P (powers of 1024), times ns, us, ms, s.

With --dir, missing files are created in the directory and removed at the end; files that SysBench
created are used and kept. With --on, each file is a range of the device, and the test uses Platter:
the cache, the elevator and the driver that the spec names. The contents of the device are
overwritten unless the mode only reads; a device that holds a file system or is in use is refused.
Simulated devices run in virtual time.

Examples:
  platter bench fileio --dir . --file-total-size 1G
  platter bench fileio --dir /mnt/files --file-extra-flags direct --file-test-mode rndrd --time 10 --json
  platter bench fileio --on 'file(disk.img, create=3G)'
  platter bench fileio --on 'cache(size=192M, sim(ide2004, elevator=deadline))' --json

JSON: one object; docs/fileio.md lists its keys. Ctrl-C ends the run; the results until
then are printed and marked as interrupted.")]
pub(crate) struct Fileio {
    /// Use files in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "specs")]
    dir: Option<PathBuf>,
    /// Keep the files that were created in --dir
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    options: options::Options,
}

impl Fileio {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        if self.keep && self.dir.is_none() {
            return Err(CliError::usage("--keep applies to files created in --dir; give a directory"));
        }
        let mut plan = self.options.plan();
        let report = match (&self.dir, &self.on.specs[..]) {
            (Some(dir), _) => self.watched(context, |hooks| fileio::run_in(dir, self.keep, &plan, hooks))?,
            (None, [_]) => {
                let world = World::new(plan.seed);
                // Data that is not read back need not be stored.
                let write = plan.mode.writes();
                let direct = plan.extra_flags.direct.then_some(Direct::Require);
                let access = Access { write, forget: true, direct, ..Access::default() };
                let devices = self.on.open_in(&world, access)?;
                let device = devices.first().ok_or_else(no_place)?;
                self.options.fit(&mut plan, device.size()).map_err(|error| fail(context, error))?;
                self.watched(context, |hooks| fileio::run(device, &plan, hooks))?
            }
            (None, []) => return Err(no_place()),
            (None, specs) => {
                let message = format!("--on {}: bench fileio takes one device", specs.join(" "));
                return Err(CliError::usage(message));
            }
        };
        context.show(&report.to_json(), &report.to_text(context.terminal))?;
        context.unless(report.interrupted, "interrupted: the result is partial")
    }

    /// Runs with progress on stderr.
    fn watched(
        &self,
        context: &Context,
        run: impl FnOnce(Hooks<'_>) -> Result<Report, FileioError>,
    ) -> Result<Report, CliError> {
        let mut progress = Progress::new(context.progress);
        let mut show = |state: &fileio::Progress| {
            if progress.is_due() {
                let time = state.simulated.unwrap_or(state.elapsed).as_secs_f64();
                let kind = if state.simulated.is_some() { " virtual" } else { "" };
                progress.show(&format!(
                    "{} requests in {} s{kind}",
                    thousands(state.requests),
                    fixed(time, 1)
                ));
            }
        };
        let hooks = Hooks { progress: Some(&mut show), cancel: context.stop_flag() };
        let report = run(hooks);
        progress.clear();
        report.map_err(|error| fail(context, error))
    }
}

fn no_place() -> CliError {
    CliError::usage(
        "bench fileio needs a place: give a directory with --dir, such as --dir ., or a device with --on, such as \
         --on 'ram(256M)'",
    )
}

fn fail(context: &Context, error: FileioError) -> CliError {
    match error {
        FileioError::Option(message) => CliError::usage(message),
        FileioError::Unfit(message) => CliError::refused(message),
        FileioError::Interrupted => context.interruption(error.to_string()),
        error => CliError::failed(error.to_string()),
    }
}
