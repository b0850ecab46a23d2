//! `platter nvme list`: namespaces with their size and format.

use super::endpoint::{Endpoint, OnSpec, is_number};
use crate::cli::{CliError, Context};
use clap::Args;
use platter::nvme::command::{self, Effect, Entry};
use platter::nvme::identify::{self, cns};
use platter::nvme::structure::{Decoded, Value};
use platter_bench::report::{Column, Table};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `platter nvme list`.
#[derive(Args, Debug)]
#[command(after_help = "\
Without a device, the namespaces of all controllers /dev/nvmeN of the system are listed.

Examples:
  platter nvme list
  platter nvme list /dev/nvme0
  platter nvme list --on 'ram(1G)' --json

JSON: a list of objects: node, nsid, serial, model, firmware, size_bytes, used_bytes, block_bytes, metadata_bytes.")]
pub(crate) struct List {
    /// A controller of the system
    #[arg(value_name = "DEVICE", conflicts_with = "spec")]
    device: Option<PathBuf>,
    #[command(flatten)]
    on: OnSpec,
}

/// A namespace.
#[derive(Serialize)]
struct Row {
    node: String,
    nsid: u64,
    serial: String,
    model: String,
    firmware: String,
    size_bytes: u64,
    used_bytes: u64,
    block_bytes: u64,
    metadata_bytes: u64,
}

impl List {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let nodes = match (&self.device, &self.on.spec) {
            (None, None) => controllers().into_iter().map(Some).collect(),
            (device, _) => vec![device.clone()],
        };
        let mut rows = Vec::new();
        for node in nodes {
            rows.extend(namespaces(&Endpoint::open(node.as_deref(), &self.on, Effect::None)?)?);
        }
        context.show(&rows, &table(&rows).to_text(context.terminal))
    }
}

/// The controllers of the system, in the order of their numbers.
fn controllers() -> Vec<PathBuf> {
    let number = |path: &PathBuf| {
        let digits = path.file_name()?.to_str()?.strip_prefix("nvme")?;
        if is_number(digits) { digits.parse::<u32>().ok() } else { None }
    };
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<(u32, PathBuf)> = entries.filter_map(|path| Some((number(&path)?, path))).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn text(of: &Decoded<'_>, wanted: &str) -> String {
    match of.fields().find(|(name, _)| *name == wanted) {
        Some((_, Value::Text(text))) => text,
        _ => String::new(),
    }
}

fn namespaces(endpoint: &Endpoint) -> Result<Vec<Row>, CliError> {
    let identify = |value: u8, nsid: u64| {
        endpoint.ask(&Entry::new(&command::IDENTIFY).with("cns", value.into()).with("nsid", nsid))
    };
    let controller = identify(cns::CONTROLLER, 0)?;
    let controller = identify::CONTROLLER.decode(&controller);
    let names = ["sn", "mn", "fr"].map(|name| text(&controller, name));
    let list = identify(cns::ACTIVE_NAMESPACES, 0)?;
    let ids: Vec<u64> =
        identify::NAMESPACE_LIST.decode(&list).items().iter().filter_map(|id| id.get("nsid")).collect();
    let row = |nsid| {
        let data = identify(cns::NAMESPACE, nsid)?;
        let namespace = identify::NAMESPACE.decode(&data);
        let get = |name| namespace.get(name).unwrap_or(0);
        let format = identify::format(&data);
        let (block_bytes, metadata_bytes) = format.map_or((0, 0), |format| (format.data, format.metadata));
        let bytes = |blocks: u64| blocks.saturating_mul(block_bytes);
        let [serial, model, firmware] = names.clone();
        Ok(Row {
            node: endpoint.name().to_owned(),
            nsid,
            serial,
            model,
            firmware,
            size_bytes: bytes(get("nsze")),
            used_bytes: bytes(get("nuse")),
            block_bytes,
            metadata_bytes,
        })
    };
    ids.into_iter().map(row).collect()
}

fn table(rows: &[Row]) -> Table {
    let columns = ["node", "nsid", "serial", "model", "firmware", "bytes", "used bytes", "block", "metadata"];
    let mut table = Table::new(columns.map(Column::text));
    for row in rows {
        let names = [&row.serial, &row.model, &row.firmware].map(String::clone);
        let numbers = [row.size_bytes, row.used_bytes, row.block_bytes, row.metadata_bytes];
        let cells = [row.node.clone(), row.nsid.to_string()].into_iter().chain(names);
        table.row(cells.chain(numbers.map(|number| number.to_string())));
    }
    table
}
