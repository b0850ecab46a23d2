//! `platter sim list`: the disks that can be simulated and the buses, from their tables.

use crate::cli::{CliError, Context};
use clap::Args;
use platter_sim::catalogue::{self, Choices, DiskModel, Kind};
use platter_sim::{bus, catalogue::TABLE};
use serde_json::{Value, json};

/// Arguments of `platter sim list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter sim list
  platter sim list --buses
  platter info 'sim(cheetah9lp)'

JSON: a list of objects with `name` and `summary`; disks also have `kind` (mechanical, flash, cloud
or ideal) and `size` (bytes), buses `bytes_per_s` and `source`.")]
pub(crate) struct List {
    /// The buses that disks can share, not the disks
    #[arg(long)]
    buses: bool,
}

impl List {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        if context.json {
            let rows: Value = match self.buses {
                true => bus::TABLE.iter().map(json_of_bus).collect(),
                false => TABLE.iter().map(json_of).collect(),
            };
            return context.print_json(&rows);
        }
        let line = |name: &str, summary: &str| {
            let text = context.terminal.fact(name, summary);
            text.replacen(name, &context.heading(name), 1)
        };
        context.print(&match self.buses {
            true => bus::TABLE.iter().map(|row| line(row.name, row.summary)).collect::<String>(),
            false => TABLE.iter().map(|row| line(row.name, row.summary)).collect(),
        })
    }
}

fn json_of(row: &DiskModel) -> Value {
    json!({ "name": row.name, "summary": row.summary, "kind": kind(row.kind), "size": size(row) })
}

fn json_of_bus(row: &bus::BusModel) -> Value {
    json!({
        "name": row.name,
        "summary": row.summary,
        "bytes_per_s": row.params.rate,
        "source": row.source,
    })
}

/// The kind of a disk, in a word.
pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Mechanical(_) => "mechanical",
        Kind::Flash(_) => "flash",
        Kind::Cloud(_) => "cloud",
        Kind::Ideal(_) => "ideal",
    }
}

/// Bytes of a disk; `None` if it cannot be made.
pub(super) fn size(row: &catalogue::DiskModel) -> Option<u64> {
    row.make(Choices::default()).ok().map(|model| model.geometry().size)
}
