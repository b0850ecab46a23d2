//! `platter bench nbd`: what the NBD server costs, and what copies would.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Force, spec_arg};
use clap::Args;
use platter::registry::{self, Access};
use platter::spec::{parse_size, parse_time};
use platter_bench::nbd::{self, NbdBenchError, Options, Transfer};
use std::time::Duration;

/// Arguments of `platter bench nbd`.
#[derive(Args, Debug)]
#[command(after_help = "\
Server and client run in this process, over a Unix socket. Each point is measured in two ways that alternate:
direct (the socket sends and receives the memory of the requests) and copying (all payload passes through two
buffers more, as in a server that copies).

  platter bench nbd
  platter bench nbd --on 'cache(size=1G, disk.img)' --transfer read --block 4K --depth 32 --connections 2 --json

Writes overwrite random parts of the device. JSON: one object; docs/nbd-copies.md lists its keys.")]
pub(crate) struct Nbd {
    /// The device that is served
    #[arg(long, value_name = "SPEC", default_value = "ram(64M)", value_parser = spec_arg())]
    on: String,
    #[command(flatten)]
    force: Force,
    /// Only these transfers [default: read write]
    #[arg(long, value_name = "NAME", num_args = 1.., value_parser = parse_transfer)]
    transfer: Vec<Transfer>,
    /// Bytes of a request [default: 4K 128K]
    #[arg(long, value_name = "SIZE", num_args = 1.., value_parser = parse_size)]
    block: Vec<u64>,
    /// Requests of a connection at a time [default: 1 32]
    #[arg(long, value_name = "N", num_args = 1..)]
    depth: Vec<usize>,
    /// Connections, each with a thread of the client and one of the server
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: usize,
    /// Duration of a measurement
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_time)]
    runtime: Duration,
    /// Rounds through all points; results are medians
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeat: u32,
}

fn parse_transfer(name: &str) -> Result<Transfer, String> {
    match name {
        "read" => Ok(Transfer::Read),
        "write" => Ok(Transfer::Write),
        _ => Err("unknown transfer; expected read or write".to_owned()),
    }
}

impl Nbd {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let options = self.options();
        let writes = options.transfers.contains(&Transfer::Write);
        let access = self.force.access(if writes { Access::read_write() } else { Access::read() });
        let device = registry::open(&self.on, access)?;
        let mut progress = Progress::new(context.progress);
        let mut show = |text: &str| progress.offer(|| text.to_owned());
        let report = nbd::run(&self.on, &device, &options, context.stop_flag(), &mut show);
        progress.clear();
        let report = report.map_err(|error| stop(context, error))?;
        context.show(&report.to_json(), &report.to_text(context.terminal))?;
        context.unless(report.interrupted, "interrupted: rounds are missing")
    }

    fn options(&self) -> Options {
        let mut options = Options::default()
            .with_connections(self.connections)
            .with_runtime(self.runtime)
            .with_repeat(self.repeat);
        if !self.transfer.is_empty() {
            options = options.with_transfers(self.transfer.clone());
        }
        if !self.block.is_empty() {
            options = options.with_blocks(self.block.clone());
        }
        if !self.depth.is_empty() {
            options = options.with_depths(self.depth.clone());
        }
        options
    }
}

fn stop(context: &Context, error: NbdBenchError) -> CliError {
    match error {
        NbdBenchError::Interrupted => context.interruption(error.to_string()),
        NbdBenchError::Option(message) => CliError::usage(message),
        NbdBenchError::Unfit(message) => CliError::refused(message),
        error => CliError::failed(error.to_string()),
    }
}
