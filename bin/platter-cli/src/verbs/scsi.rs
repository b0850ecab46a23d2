//! `platter scsi`: SCSI commands and what devices answer to them.

use crate::cli::{CliError, Context};
use clap::Subcommand;

mod decode;
mod query;
mod raw;
mod sense;
mod unit;

/// The verbs for SCSI.
#[derive(Subcommand, Debug)]
pub(crate) enum Scsi {
    /// Decode a command, sense data or a page given as bytes
    Decode(decode::Decode),
    /// Show the standard INQUIRY data of a device
    Inq(query::Inq),
    /// Show a page of vital product data of a device
    Vpd(query::Vpd),
    /// Show the capacity of a device
    Readcap(query::Readcap),
    /// Show the logical units behind a device
    Luns(query::Luns),
    /// Show the mode pages of a device
    Modes(query::Modes),
    /// Show what a device has to say besides the answers to commands: unit attentions, and whether it is ready
    Sense(query::SenseArgs),
    /// Show a log page of a device
    Log(query::Log),
    /// Send a command, with data from and to files
    Raw(raw::Raw),
}

impl Scsi {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Scsi::Decode(decode) => decode.run(context),
            Scsi::Inq(inq) => inq.run(context),
            Scsi::Vpd(vpd) => vpd.run(context),
            Scsi::Readcap(readcap) => readcap.run(context),
            Scsi::Luns(luns) => luns.run(context),
            Scsi::Modes(modes) => modes.run(context),
            Scsi::Sense(sense) => sense.run(context),
            Scsi::Log(log) => log.run(context),
            Scsi::Raw(raw) => raw.run(context),
        }
    }
}
