//! `platter trace`: traces of block I/O that other programs have made.

use crate::cli::{CliError, Context};
use clap::Subcommand;
use platter_traces::TABLE;

mod convert;
mod inputs;
mod outfile;
mod page;
mod replay;
mod report;
mod tables;

pub(super) use outfile::OutFile;

/// The verbs for traces.
#[derive(Subcommand, Debug)]
pub(crate) enum Trace {
    /// Write traces in another format, and count what that cannot hold
    Convert(convert::Convert),
    /// Sum traces up: times of each stage as in btt, kinds, sizes, seeks, reuse, working set
    Report(report::Report),
    /// Replay traces on devices, real or simulated: at their times, scaled, in a closed loop, or by what they waited for
    Replay(Box<replay::Replay>),
}

impl Trace {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Trace::Convert(convert) => convert.run(context),
            Trace::Report(report) => report.run(context),
            Trace::Replay(replay) => replay.run(context),
        }
    }
}

/// The formats, from their table.
fn formats() -> String {
    let mut text = String::from("Formats:\n");
    for row in TABLE {
        text += &format!("  {:9} {}\n", row.name, row.summary);
    }
    text
}
