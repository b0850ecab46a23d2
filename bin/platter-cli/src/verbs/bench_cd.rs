//! `platter bench cd`: the writing of a CD, by commands that are mapped or copied.

use crate::cli::{CliError, Context};
use clap::Args;
use platter::spec::{parse_size, parse_time};
use platter_bench::cd::{self, Report, Settings, Stall, WAYS};
use platter_block::time::Span;
use std::time::Duration;

/// Bytes of a block of a CD.
const BLOCK: u64 = 2048;

/// Arguments of `platter bench cd`.
#[derive(Args, Debug)]
#[command(after_help = "\
A program sends WRITE (10) commands to a simulated writer, whose buffer the laser drains at a constant
rate. If the source of the data pauses for longer than the program's and the writer's buffers last,
the writer's buffer is empty before the end: an underrun.

An illustration of Axboe's talk of 2004, which names CD writing and gives no number: the inputs are
chosen, not published. Time is virtual and the same everywhere; processor time is of this machine.

Examples:
  platter bench cd
  platter bench cd --speed 52 --stall 2s --stall-every 5s
  platter bench cd --packet 32K --buffer 512K --json

Keys of the JSON are in docs/command.md.")]
pub(crate) struct Cd {
    /// Speed of the writer; 1 is 150 KiB/s
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=72))]
    speed: u32,
    /// Buffer of the writer
    #[arg(long, value_name = "SIZE", default_value = "2M", value_parser = parse_size)]
    buffer: u64,
    /// Bytes to write
    #[arg(long, value_name = "SIZE", default_value = "100M", value_parser = parse_size)]
    size: u64,
    /// Bytes of a command
    #[arg(long, value_name = "SIZE", default_value = "62K", value_parser = parse_size)]
    packet: u64,
    /// Commands in flight
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    depth: u32,
    /// Buffer of the program
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = parse_size)]
    fifo: u64,
    /// Bytes that the source delivers in a second
    #[arg(long, value_name = "SIZE", default_value = "10M", value_parser = parse_size)]
    source: u64,
    /// Length of the source's pauses [default: none]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    stall: Option<Duration>,
    /// Mean time between them
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_time, requires = "stall")]
    stall_every: Duration,
    /// Seed of the pauses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

fn span(time: Duration) -> Span {
    Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

impl Cd {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let settings = self.settings()?;
        let mut report = Report { speed: self.speed, runs: Vec::new(), interrupted: false };
        for (name, memory) in WAYS {
            let run = cd::run(settings, name, memory, context.stop_flag());
            match run.map_err(|error| CliError::failed(error.to_string()))? {
                Some(run) => report.runs.push(run),
                None => report.interrupted = true,
            }
        }
        match context.json {
            true => context.print_json(&report.to_json())?,
            false => context.print(&report.to_text())?,
        }
        match report.interrupted {
            true => Err(context.interruption("interrupted: CDs are missing")),
            false => Ok(()),
        }
    }

    fn settings(&self) -> Result<Settings, CliError> {
        let check = |name: &str, value: u64, least: u64, most: u64| {
            let fits = (least..=most).contains(&value) && value.is_multiple_of(BLOCK);
            let wrong = || format!("--{name} {value}: expected a multiple of {BLOCK} from {least} to {most}");
            fits.then_some(()).ok_or_else(|| CliError::usage(wrong()))
        };
        check("packet", self.packet, BLOCK, 65536)?;
        check("size", self.size, BLOCK, 80 * 60 * 75 * BLOCK)?;
        check("buffer", self.buffer, self.packet.next_multiple_of(BLOCK), 1 << 30)?;
        check("fifo", self.fifo, self.packet, 1 << 30)?;
        if self.source == 0 {
            return Err(CliError::usage("--source 0: expected at least 1 byte per second"));
        }
        let stall = self.stall.map(|length| Stall { every: span(self.stall_every), length: span(length) });
        Ok(Settings {
            speed: self.speed,
            buffer: self.buffer,
            size: self.size,
            packet: self.packet,
            depth: self.depth,
            fifo: self.fifo,
            source: self.source,
            stall,
            seed: self.seed,
        })
    }
}
