//! `platter list`: the names of things, from the tables.

use crate::cli::{CliError, Context};
use clap::{Args, ValueEnum};
use platter::registry;
use platter::spec;
use platter_bench::report::json::pairs;
use platter_bench::report::{Column, Table, Terminal};
use platter_bench::workload::Rw;
use platter_cache::readahead;
use platter_disk::drivers::table::{self as drivers, Medium};
use serde::{Serialize, Serializer};

/// Arguments of `platter list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  platter list devices
  platter list elevators --json

JSON: a list of objects with `name`, `summary` and `params`, a list of {name, kind, default, help}; \
default is null where there is none. Devices and layers also have `example`, drivers `medium`, \
`since` and `durability`, readahead policies `source`, devices `shape` (disk or layer).")]
pub(crate) struct List {
    /// What to list
    what: What,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum What {
    /// I/O schedulers: elevator=NAME
    Elevators,
    /// Interfaces to the system: driver=NAME
    Drivers,
    /// Readahead policies of page caches: readahead=NAME
    Readahead,
    /// Devices built on other devices
    Layers,
    /// Everything that a device spec can name
    Devices,
    /// Workloads of `bench io --rw`
    Workloads,
}

/// Something with a name.
#[derive(Serialize)]
struct Entry {
    name: &'static str,
    summary: String,
    params: Vec<Parameter>,
    /// Further information: key and value.
    #[serde(flatten, serialize_with = "pairs")]
    more: Vec<(&'static str, String)>,
}

#[derive(Serialize)]
struct Parameter {
    name: &'static str,
    /// The values that it may have, with their unit.
    kind: String,
    /// Empty where there is none.
    #[serde(serialize_with = "unless_empty")]
    default: String,
    help: &'static str,
}

impl List {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let entries = match self.what {
            What::Elevators => elevators(),
            What::Drivers => drivers(),
            What::Readahead => readahead(),
            What::Layers => devices(|row| row.shape == registry::Shape::Layer),
            What::Devices => devices(|_| true),
            What::Workloads => workloads(),
        };
        context.show(&entries, &to_text(&entries, context))
    }
}

fn unless_empty<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    (!text.is_empty()).then_some(text).serialize(serializer)
}

fn elevators() -> Vec<Entry> {
    let summary = |name: &str| match platter_disk::elevators::by_name(name) {
        Some(row) => row.summary.to_owned(),
        None => "first come, first served, without a lock: each thread has a queue of its own".to_owned(),
    };
    let entry = |name: &&'static str| Entry {
        name,
        summary: summary(name),
        params: registry::elevator_params(name).map(of_spec).collect(),
        more: Vec::new(),
    };
    registry::elevator_names().iter().map(entry).collect()
}

fn drivers() -> Vec<Entry> {
    let entry = |row: &drivers::BuiltInDriver| Entry {
        name: row.name,
        summary: row.summary.to_owned(),
        params: row.params.iter().map(of_driver).collect(),
        more: vec![
            ("medium", (if row.medium == Medium::Size { "size" } else { "path" }).to_owned()),
            ("since", row.since.to_owned()),
            ("durability", row.durability.to_owned()),
        ],
    };
    drivers::TABLE.iter().map(entry).collect()
}

fn readahead() -> Vec<Entry> {
    let entry = |row: &readahead::ReadaheadType| Entry {
        name: row.name,
        summary: row.summary.to_owned(),
        params: registry::readahead_params(row.name).map(of_spec).collect(),
        more: vec![("source", row.source.to_owned())],
    };
    readahead::all().into_iter().map(entry).collect()
}

fn devices(wanted: impl Fn(&registry::DeviceType) -> bool) -> Vec<Entry> {
    let entry = |row: &registry::DeviceType| Entry {
        name: row.name,
        summary: row.summary.to_owned(),
        params: row.params().map(of_spec).collect(),
        more: vec![
            ("shape", (if row.shape == registry::Shape::Disk { "disk" } else { "layer" }).to_owned()),
            ("example", row.example.clone()),
        ],
    };
    registry::table().into_iter().filter(|row| wanted(row)).map(entry).collect()
}

fn workloads() -> Vec<Entry> {
    let entry = |rw: Rw| Entry {
        name: rw.name(),
        summary: format!("{} {}", if rw.is_random() { "random" } else { "sequential" }, doing(rw)),
        params: Vec::new(),
        more: Vec::new(),
    };
    Rw::ALL.into_iter().map(entry).collect()
}

fn doing(rw: Rw) -> &'static str {
    match rw {
        _ if rw.is_mixed() => "reads and writes, mixed according to --rwmixread",
        _ if rw.trims() => "discards",
        _ if rw.writes() => "writes",
        _ => "reads",
    }
}

fn of_spec(param: &'static spec::Argument) -> Parameter {
    Parameter {
        name: param.name,
        kind: param.kind.to_string(),
        default: param.default.to_owned(),
        help: param.help,
    }
}

fn of_driver(param: &'static platter_block::params::Param) -> Parameter {
    let spec::Argument { name, kind, default, help } = spec::Argument::of(param);
    Parameter { name, kind: kind.to_string(), default: default.to_owned(), help }
}

impl Parameter {
    /// All of it, where a table would be too wide.
    fn paragraph(&self, terminal: Terminal) -> String {
        let default =
            if self.default.is_empty() { String::new() } else { format!(", default {}", self.default) };
        terminal.paragraph(&format!("{}: {} ({}{default})", self.name, self.help, self.kind), 4)
    }
}

impl Entry {
    fn table(&self) -> Table {
        let columns = ["parameter", "values", "default", "meaning"];
        let mut table = Table::new(columns.map(Column::text));
        for param in &self.params {
            table.row([param.name, &param.kind, &param.default, param.help]);
        }
        table
    }
}

fn to_text(entries: &[Entry], context: &Context) -> String {
    let mut text = String::new();
    let below = context.terminal.indented(2);
    for (i, entry) in entries.iter().enumerate() {
        // Entries without parameters make one paragraph.
        if i > 0 && !(entry.params.is_empty() && entries[i - 1].params.is_empty()) {
            text.push('\n');
        }
        let head = context.terminal.fact(entry.name, &entry.summary);
        text += &head.replacen(entry.name, &context.heading(entry.name), 1);
        for (key, value) in entry.more.iter().filter(|(_, value)| !value.is_empty()) {
            text += &indented(&below.fact(key, value));
        }
        let table = entry.table();
        if !entry.params.is_empty() && table.fits(below) {
            text += &indented(&table.to_text(below));
        } else {
            entry.params.iter().for_each(|param| text += &indented(&param.paragraph(below)));
        }
    }
    text
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect()
}
