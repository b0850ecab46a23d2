//! `platter raid`: arrays whose members carry a description of the array.

use crate::cli::{CliError, Context};
use clap::Subcommand;
use platter::raid::RaidError;

mod check;
mod create;
mod examine;
mod examine_logs;
mod examine_md;
mod wipe;

/// The verbs for arrays.
#[derive(Subcommand, Debug)]
pub(crate) enum Raid {
    /// Compare the mirrors or the parity of an array of Linux md
    Check(check::Check),
    /// Create an array from devices
    Create(create::Create),
    /// Show the arrays of Platter and of Linux md to which devices belong
    Examine(examine::Examine),
    /// Remove the records of Platter's arrays from devices
    Wipe(wipe::Wipe),
}

impl Raid {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Raid::Check(check) => check.run(context),
            Raid::Create(create) => create.run(context),
            Raid::Examine(examine) => examine.run(context),
            Raid::Wipe(wipe) => wipe.run(context),
        }
    }
}

/// An error of an array with the exit status that it means.
fn failed(error: RaidError) -> CliError {
    match error {
        RaidError::Device(error) => error.into(),
        RaidError::Argument(what) => CliError::usage(what),
        other => CliError::refused(other.to_string()),
    }
}
