//! `platter nvme`: NVMe commands and what controllers answer to them.

use crate::cli::{CliError, Context};
use clap::Subcommand;

mod decode;
mod disk;
mod endpoint;
mod list;
mod query;
mod raw;
mod show;

/// The verbs for NVMe.
#[derive(Subcommand, Debug)]
pub(crate) enum Nvme {
    /// Decode a command, a completion, identify data or a log page given as bytes
    Decode(decode::Decode),
    /// Show what a controller says about itself
    Id(query::Id),
    /// Show what a namespace is
    Ns(query::Ns),
    /// List namespaces
    List(list::List),
    /// Show the SMART / Health Information of a controller
    Smart(query::Smart),
    /// Show a log page of a controller
    Log(query::Log),
    /// Send a command, with data from and to files
    Raw(raw::Raw),
}

impl Nvme {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        match self {
            Nvme::Decode(decode) => decode.run(context),
            Nvme::Id(id) => id.run(context),
            Nvme::Ns(ns) => ns.run(context),
            Nvme::List(list) => list.run(context),
            Nvme::Smart(smart) => smart.run(context),
            Nvme::Log(log) => log.run(context),
            Nvme::Raw(raw) => raw.run(context),
        }
    }
}
