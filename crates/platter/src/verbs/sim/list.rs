//! `platter sim list`: the disks that can be simulated, from their table.

use crate::cli::{CliError, Context};
use clap::Args;
use platter_sim::catalogue;
use serde_json::{Value, json};

/// Arguments of `platter sim list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter sim list
  platter info 'sim(ideal)'

JSON: a list of objects with `name` and `summary`.")]
pub(crate) struct List {}

impl List {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        if context.json {
            let rows = catalogue::TABLE.iter();
            let rows: Value = rows.map(|row| json!({ "name": row.name, "summary": row.summary })).collect();
            return context.print_json(&rows);
        }
        let line = |row: &catalogue::Row| format!("{}: {}\n", context.heading(row.name), row.summary);
        context.print(&catalogue::TABLE.iter().map(line).collect::<String>())
    }
}
