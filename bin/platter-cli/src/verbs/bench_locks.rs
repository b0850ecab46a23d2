//! `platter bench locks`: how the engine's locks are used.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, On};
use clap::Args;
use platter::registry::Access;
use platter::spec::{parse_size, parse_time};
use platter_bench::locks::{self, Caller, LocksError, Options};
use platter_sim::World;
use std::time::Duration;

/// What is measured without `--on`: the queue that all lanes share, with and without requests prepared outside its
/// lock, beside lanes with queues of their own.
const DEFAULTS: [&str; 3] = ["null(1T)", "null(1T, elevator=noop)", "null(1T, elevator=noop, prebuild=off)"];

/// Arguments of `platter bench locks`.
#[derive(Args, Debug)]
#[command(after_help = "\
Callers: sync (synchronous calls), future (one future at a time on each thread), channel (a channel
for each thread, which waits for each read).

Rates are in proportion to the first device. To compare settings, give the same device several times:
  platter bench locks --on 'file(a.img)' 'file(a.img, elevator=deadline)' --caller sync --threads 64
  platter bench locks --on 'null(1T, lock=all)' 'null(1T)' --json

Published, on 8 processors with 2.4.17 (OLS 2002, Tables 5 and 6), for io_request_lock:
              acquisitions   utilization   mean hold   mean spin   % CPU spinning
  one lock      15,640,659        50.2 %      5.2 us       65 us             66.2
  per queue      2,490,263        39.6 %      8.7 us       32 us              7.6

Devices are only read. Locks are metered in the whole process. On a virtual machine a thread can lose
its processor while it holds a lock: see the longest hold, and compare counts rather than times.

JSON: one object; docs/locks.md lists its keys.")]
pub(crate) struct Locks {
    #[command(flatten)]
    on: On,
    /// Only these callers [default: all three]
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = parse_caller)]
    caller: Vec<Caller>,
    /// Numbers of threads [default: 1 4 16 64]
    #[arg(long, value_name = "N", num_args = 1..)]
    threads: Vec<usize>,
    /// Bytes of a read
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = parse_size)]
    block: u64,
    /// Duration of a measurement
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_time)]
    runtime: Duration,
    /// Rounds through all points; results are medians
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeat: u32,
}

fn parse_caller(name: &str) -> Result<Caller, String> {
    Caller::by_name(name).ok_or_else(|| "unknown caller; expected sync, future or channel".to_owned())
}

impl Locks {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let specs = match self.on.specs.is_empty() {
            true => DEFAULTS.iter().map(|&spec| spec.to_owned()).collect(),
            false => self.on.specs.clone(),
        };
        let on = On { specs, force: self.on.force };
        let devices = on.open_in(&World::new(1), Access::read())?;
        let devices: Vec<_> = on.specs.into_iter().zip(devices).collect();
        let mut options =
            Options::default().with_block(self.block).with_runtime(self.runtime).with_repeat(self.repeat);
        if !self.caller.is_empty() {
            options = options.with_callers(self.caller.clone());
        }
        if !self.threads.is_empty() {
            options = options.with_threads(self.threads.clone());
        }
        let mut progress = Progress::new(context.progress);
        let mut show = |text: &str| progress.offer(|| text.to_owned());
        let report = locks::run(&devices, &options, context.stop_flag(), &mut show);
        progress.clear();
        let report = report.map_err(|error| stop(context, error))?;
        context.show(&report.to_json(), &report.to_text(context.terminal))?;
        context.unless(report.interrupted, "interrupted: rounds are missing")
    }
}

fn stop(context: &Context, error: LocksError) -> CliError {
    match error {
        LocksError::Interrupted => context.interruption(error.to_string()),
        LocksError::Option(message) => CliError::usage(message),
        LocksError::Unfit(message) => CliError::refused(message),
        error => CliError::failed(error.to_string()),
    }
}
