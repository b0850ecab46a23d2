//! `platter sim`: simulated disks, in virtual time.

use crate::cli::{CliError, Context};
use clap::Subcommand;

mod disk;
mod host;
mod list;
mod show;
mod soak;
mod validate;

/// The verbs for simulated disks.
#[derive(Subcommand, Debug)]
pub(crate) enum Sim {
    /// Show the disks that can be simulated, and the buses
    List(list::List),
    /// Show the parameters of a disk, their sources, and derived values
    Show(show::Show),
    /// Show the machines and kernels of published experiments
    #[command(subcommand)]
    Host(host::Host),
    /// Compare a simulated disk with a trace of a real one
    Validate(validate::Validate),
    /// Test random devices under faults and power cuts until a check fails
    Soak(soak::Soak),
}

impl Sim {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Sim::List(list) => list.run(context),
            Sim::Show(show) => show.run(context),
            Sim::Host(host) => host.run(context),
            Sim::Validate(validate) => validate.run(context),
            Sim::Soak(soak) => soak.run(context),
        }
    }
}
