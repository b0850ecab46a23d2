//! `platter bench`: the benchmarks.

use super::bench_io;
use crate::cli::{CliError, Context};
use clap::Subcommand;

/// Which benchmark.
#[derive(Subcommand, Debug)]
pub(crate) enum Bench {
    /// The general workload, with fio's options
    Io(Box<bench_io::Io>),
}

impl Bench {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Bench::Io(io) => io.run(context),
        }
    }
}
