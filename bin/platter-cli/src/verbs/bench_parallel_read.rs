//! `platter bench parallel-read`: sequential reads of several devices at once, in three ways.

mod on;

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Exit};
use crate::verbs::bench_dm::parse_rung;
use clap::Args;
use platter::spec::parse_size;
use platter_bench::ladder::Rung;
use platter_bench::parallel_read::{self, Mode, Options, ParallelReadError, RAW_RUNG};

/// Arguments of `platter bench parallel-read`.
#[derive(Args, Debug)]
#[command(after_help = "\
Modes, as in Lincoln Dale's mail of July 2002:
  normal  reads of --normal-block through a cache; devices without one get cache(DEVICE)
  direct  reads of --block of the device, past the cache if its spec has one
  raw     as direct, with the I/O path of raw devices in Linux 2.4: a rung of the ladder (docs/ladder.md)

Published, MiB/s and CPU idle, of 8 disks on Fibre Channel of 2 Gbit/s, two processors of 733 MHz:
                                 normal (512 bytes)   direct (4 MiB)    /dev/rawN (4 MiB)
  2.4.19-pre8aa2                 105.27     0 %       190.47   ~55 %    176.86   ~62 %
  2.5.25                         134.81     0 %       194.61   ~93 %    193.84   ~92 %
  2.5.25 with direct-to-BIO      133.06     0 %       194.37   ~92 %    194.35   ~92 %
On 2.4 some disks finished up to half a minute before the last, on 2.5 all at almost the same time.

Devices are only read. CPU idle is measured for the whole machine, so run nothing else meanwhile.
Where direct I/O works, pages of a file in the kernel's cache do not change the result. Simulated
devices are refused, because they use no processors that could be measured.

Examples:
  platter bench parallel-read --on /dev/sdb /dev/sdc --size 10G
  platter bench parallel-read --on a.img --on b.img --mode direct raw --repeat 5 --json
  platter bench parallel-read --on 'cache(size=256M, window=1M, /dev/sdb)' --mode normal

JSON: one object; docs/fileio.md lists its keys.")]
pub(crate) struct ParallelRead {
    /// The devices, as specs, each read by its own thread
    #[arg(long = "on", value_name = "SPEC", num_args = 1..)]
    specs: Vec<String>,
    /// Only these modes [default: all three]
    #[arg(long, value_name = "MODE", num_args = 1.., value_parser = parse_mode)]
    mode: Vec<Mode>,
    /// Bytes to read of each device, from its beginning [default: all of it]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    size: Option<u64>,
    /// Bytes of a read with normal
    #[arg(long, value_name = "SIZE", default_value = "512", value_parser = parse_size)]
    normal_block: u64,
    /// Bytes of a read with direct and raw
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_size)]
    block: u64,
    /// Rung of the ladder that raw reads on
    #[arg(long, value_name = "RUNG", default_value = RAW_RUNG, value_parser = parse_rung)]
    raw_rung: &'static Rung,
    /// Rounds through the modes; results are medians
    #[arg(long, value_name = "N", default_value_t = 3)]
    repeat: u32,
}

fn parse_mode(text: &str) -> Result<Mode, String> {
    let found = Mode::ALL.into_iter().find(|mode| mode.name() == text);
    found.ok_or_else(|| "unknown mode; expected normal, direct or raw".to_owned())
}

impl ParallelRead {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        if self.specs.is_empty() {
            let message =
                "bench parallel-read needs devices: give them with --on, such as --on /dev/sdb /dev/sdc";
            return Err(CliError::usage(message));
        }
        let wanted = |mode: &Mode| self.mode.is_empty() || self.mode.contains(mode);
        let options = Options {
            modes: Mode::ALL.into_iter().filter(wanted).collect(),
            size: self.size,
            normal_block: self.normal_block,
            block: self.block,
            repeat: self.repeat,
        };
        let disks =
            on::disks(&self.specs, &options.modes, self.raw_rung).map_err(|error| stop(context, error))?;
        let mut progress = Progress::new(context.progress);
        let mut show = |state: parallel_read::Progress| {
            let (round, all) = state.round;
            progress.offer(|| format!("round {round} of {all}: {}", state.mode.name()));
        };
        let report = parallel_read::run(&disks, &options, context.stop_flag(), &mut show);
        progress.clear();
        let report = report.map_err(|error| stop(context, error))?;
        context.show(&report, &report.to_text(context.terminal))?;
        context.unless(report.interrupted, "interrupted: rounds are missing")
    }
}

fn stop(context: &Context, error: ParallelReadError) -> CliError {
    match error {
        ParallelReadError::Interrupted => context.interruption(error.to_string()),
        ParallelReadError::Option(message) => CliError::usage(message),
        ParallelReadError::Unfit(message) => CliError::refused(message),
        ParallelReadError::Open(error) => CliError::new(Exit::CannotOpen, error.to_string()),
        error => CliError::failed(error.to_string()),
    }
}
