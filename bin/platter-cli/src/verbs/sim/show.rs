//! `platter sim show`: the properties of a simulated disk.

use super::disk::{self, Named};
use super::list;
use crate::cli::output::Page;
use crate::cli::{CliError, Context};
use clap::Args;
use derived::Derived;
use platter_bench::report::units::{bytes, thousands};
use platter_bench::report::{Column, Table};
use platter_sim::catalogue::{self, Choices, Kind, Value, describe_mechanical};
use platter_sim::disk::Policy;
use serde_json::json;
use std::path::PathBuf;

mod derived;
mod page;

/// Arguments of `platter sim show`.
#[derive(Args, Debug)]
#[command(after_help = "\
A disk of the catalogue names the source of each value; what no document gives is called estimated.

Examples:
  platter sim show cheetah9lp
  platter sim show man3367mp --report man3367mp.html
  platter sim show ./disk.diskspecs --parv system.parv --json

JSON: one object; docs/command.md has its keys. The exit status is 2 if a parameter file cannot be read; the
message names file, line and what was expected there.")]
pub(crate) struct Show {
    /// A disk of the catalogue, or the path of a parameter file of DiskSim
    disk: String,
    /// The parameter file with the bus, if it is not beside the disk's
    #[arg(long, value_name = "FILE")]
    parv: Option<PathBuf>,
    /// Also write a page with plots to this file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// All that there is to show.
struct Shown {
    name: String,
    summary: String,
    kind: &'static str,
    size: u64,
    queue: Policy,
    /// Facts that results of runs on it show too.
    limits: Vec<(&'static str, String)>,
    values: Vec<(Value, String)>,
    derived: Derived,
}

impl Show {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let shown = self.find()?;
        let page = Page::open(self.report.as_deref(), [])?;
        context.show(&shown.json(), &shown.text(context))?;
        page.write(|| page::html(&shown))
    }

    fn find(&self) -> Result<Shown, CliError> {
        match disk::find(&self.disk, self.parv.as_deref())? {
            Named::Model(row) => {
                let source = |source: Option<&str>| source.unwrap_or("not given").to_owned();
                let derived = match row.kind {
                    Kind::Mechanical(params) => Derived::mechanical(&params()).map_err(CliError::usage)?,
                    Kind::Flash(params) => Derived::flash(&params()).map_err(CliError::usage)?,
                    Kind::Cloud(_) | Kind::Ideal(_) => Derived::default(),
                };
                Ok(Shown {
                    name: row.name.to_owned(),
                    summary: row.summary.to_owned(),
                    kind: list::kind(row.kind),
                    size: list::size(row).unwrap_or(0),
                    queue: row.queue,
                    limits: row.facts(&Choices::default()),
                    values: row.values().into_iter().map(|(value, from)| (value, source(from))).collect(),
                    derived,
                })
            }
            Named::File(params) => {
                let derived = Derived::mechanical(&params).map_err(CliError::usage)?;
                let values = describe_mechanical(&params);
                let slow = catalogue::interface(&params, "the bus of the parameter files");
                Ok(Shown {
                    name: params.name.clone(),
                    summary: "read from a parameter file".to_owned(),
                    kind: "mechanical",
                    size: derived.sectors * 512,
                    queue: Policy::None,
                    limits: slow.into_iter().collect(),
                    values: values.into_iter().map(|value| (value, self.disk.clone())).collect(),
                    derived,
                })
            }
        }
    }
}

impl Shown {
    fn json(&self) -> serde_json::Value {
        let value = |(value, source): &(Value, String)| {
            json!({
                "group": value.group,
                "name": value.name,
                "value": value.value,
                "unit": value.unit,
                "source": source,
            })
        };
        json!({
            "name": self.name,
            "summary": self.summary,
            "kind": self.kind,
            "size": self.size,
            "queue": queue_name(self.queue),
            "values": self.values.iter().map(value).collect::<Vec<_>>(),
            "derived": self.derived.json(),
        })
    }

    /// Facts other than the values: name and fact.
    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = vec![
            ("what it is", self.summary.clone()),
            ("size", format!("{} ({} bytes)", bytes(self.size), thousands(self.size))),
        ];
        if self.kind == "mechanical" {
            facts.push(("queue in the drive", queue_name(self.queue).to_owned()));
        }
        facts.extend(self.derived.facts());
        facts.extend(self.limits.clone());
        facts
    }

    /// The values of each group, with the source that most of them have.
    fn groups(&self) -> Vec<(&'static str, &str, Table)> {
        let parts = self.values.chunk_by(|(a, _), (b, _)| a.group == b.group);
        let group = |values: &'_ [(Value, String)]| {
            let times = |source: &str| values.iter().filter(|(_, other)| other == source).count();
            let usual = values.iter().max_by_key(|(_, source)| times(source))?.1.as_str();
            let mut table =
                Table::new(["parameter", "value", "", "source, where it is another"].map(Column::text));
            for (value, source) in values {
                let other = if source == usual { "" } else { source };
                table.row([value.name.as_str(), &value.value, value.unit, other]);
            }
            let usual = self.values.iter().find(|(_, source)| source == usual)?.1.as_str();
            Some((values.first()?.0.group, usual, table))
        };
        parts.filter_map(group).collect()
    }

    fn text(&self, context: &Context) -> String {
        let mut text = format!("{}\n", context.heading(&self.name));
        for (name, fact) in self.facts() {
            text += &behind(2, &context.terminal.indented(2).fact(name, &fact));
        }
        for (name, source, table) in self.groups() {
            text += &format!("\n{}\n", context.heading(name));
            text += &context.terminal.paragraph(&format!("Source: {source}."), 0);
            text += &table.to_text(context.terminal);
        }
        if !self.derived.zones.is_empty() {
            text += &format!("\n{}\n", context.heading("zones"));
            text += &self.derived.zone_table().to_text(context.terminal);
        }
        text
    }
}

/// Lines behind an indent.
fn behind(indent: usize, lines: &str) -> String {
    lines.lines().map(|line| format!("{:indent$}{line}\n", "")).collect()
}

fn queue_name(queue: Policy) -> &'static str {
    match queue {
        Policy::None => "none",
        Policy::Fcfs => "fcfs",
        Policy::CLook => "clook",
        Policy::Sstf => "sstf",
        Policy::Sptf => "sptf",
    }
}
