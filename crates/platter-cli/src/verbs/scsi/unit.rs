//! The device that a verb sends commands to.

use crate::cli::{CliError, Force, spec_arg};
use clap::Args;
use platter::registry::{self, Access};
use platter::scsi::LogicalUnit;
use platter::scsi::sense::Sense;
use platter::scsi::unit::{Response, Status};

/// `--on SPEC`.
#[derive(Args, Debug)]
pub(super) struct OnUnit {
    /// The device; it answers commands as a logical unit of the SCSI target in this program
    #[arg(long = "on", value_name = "SPEC", value_parser = spec_arg())]
    pub(super) spec: String,
    #[command(flatten)]
    force: Force,
}

impl OnUnit {
    /// Opens the device, for writing if the command may write.
    pub(super) fn open(&self, writes: bool) -> Result<LogicalUnit, CliError> {
        let access = self.force.access(if writes { Access::read_write() } else { Access::read() });
        Ok(LogicalUnit::new(registry::open(&self.spec, access)?))
    }
}

/// Why a command was not carried out; `None` if it was.
pub(super) fn failure(response: &Response) -> Option<String> {
    let status = response.status.name();
    match Sense::decode(&response.sense) {
        _ if response.status == Status::Good => None,
        Ok(sense) => Some(format!("{status}: {sense}")),
        Err(_) => Some(status.to_owned()),
    }
}
