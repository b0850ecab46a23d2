//! `platter sim`: simulated disks, in virtual time.

use crate::cli::{CliError, Context};
use clap::Subcommand;

mod list;

/// What to do with them.
#[derive(Subcommand, Debug)]
pub(crate) enum Sim {
    /// Show the disks that can be simulated
    List(list::List),
}

impl Sim {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Sim::List(list) => list.run(context),
        }
    }
}
