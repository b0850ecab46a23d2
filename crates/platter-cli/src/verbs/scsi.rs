//! `platter scsi`: SCSI commands and what devices answer to them.

use crate::cli::{CliError, Context};
use clap::Subcommand;

mod decode;
mod hex;

/// The verbs for SCSI.
#[derive(Subcommand, Debug)]
pub(crate) enum Scsi {
    /// Decode a command, sense data or a page given as bytes
    Decode(decode::Decode),
}

impl Scsi {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Scsi::Decode(decode) => decode.run(context),
        }
    }
}
