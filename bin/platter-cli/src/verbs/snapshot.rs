//! `platter snapshot`: what is done with a snapshot as a whole.

use crate::cli::{CliError, Context};
use clap::Subcommand;

mod merge;

/// The verbs for snapshots.
#[derive(Subcommand, Debug)]
pub(crate) enum SnapshotVerb {
    /// Copy a snapshot back to its origin, and end it
    Merge(merge::Merge),
}

impl SnapshotVerb {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            SnapshotVerb::Merge(merge) => merge.run(context),
        }
    }
}
