//! `platter sim host`: the machines and kernels of published experiments.

use crate::cli::{CliError, Context};
use clap::{Args, Subcommand};
use platter_bench::report::{Column, Table};
use platter_repro::hosts::{HostModel, TABLE, by_name};

/// The verbs for simulated hosts.
#[derive(Subcommand, Debug)]
pub(crate) enum Host {
    /// Show a machine and its kernels, with the source of every parameter
    Show(Show),
}

/// Arguments of `platter sim host show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Hosts: dm2002, dsw2002, dale2002, intel2004, sgi2004. A parameter that a figure of the experiment sets is an input; what no
document gives is called chosen.

Examples:
  platter sim host show dm2002
  platter sim host show sgi2004 --json

JSON: one object; docs/command.md has its keys.")]
pub(crate) struct Show {
    /// The host
    name: String,
}

impl Host {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let Host::Show(Show { name }) = self;
        let names = || TABLE.iter().map(|host| host.name).collect::<Vec<_>>().join(", ");
        let unknown = || CliError::usage(format!("unknown host `{name}`; expected one of: {}", names()));
        let host = by_name(name).ok_or_else(unknown)?;
        context.show(host, &text(host, context))
    }
}

fn text(host: &HostModel, context: &Context) -> String {
    let mut out = context.terminal.fact(host.name, host.summary);
    for group in (host.parameters)().chunk_by(|one, other| one.group == other.group) {
        let mut table = Table::new(["parameter", "value", "", "source"].map(Column::text));
        for each in group {
            table.row([each.name, &each.value, each.unit, each.source].map(str::to_owned));
        }
        let heading = group.first().map_or("", |each| each.group);
        out += &format!("\n{}\n{}", context.heading(heading), table.to_text(context.terminal));
    }
    out
}
