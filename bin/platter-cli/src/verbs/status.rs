//! `platter status`: a running server at one moment.

use super::ctl::{self, connect, failed};
use crate::cli::{CliError, Context};
use clap::Args;
use platter_bench::report::units::{bytes, bytes_short, thousands};
use platter_bench::report::{Column, Table};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// A server that does not answer for this long is not well.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Arguments of `platter status`.
#[derive(Args, Debug)]
#[command(after_help = "\
Shows the devices, exports and clients of a server that was started with --control SOCKET, and whether its I/O makes \
progress, and what is wrong: failed flushes, errors of write-back, disks that shrank or are gone, clients that were refused. The exit \
status is 1 if it has stalled: an I/O is older than stall_after of the configuration. It is 0 if it is degraded: look at health.

Example:
  platter status /run/platter/control.sock

JSON: server, health, devices, exports, clients; docs/control.md has the keys.")]
pub(crate) struct Status {
    /// The control socket of the server
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
}

impl Status {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let status = connect(&self.socket, TIMEOUT)?.call("server.status", json!({})).map_err(failed)?;
        context.show(&status, &text(&status, context))?;
        match status["health"]["status"].as_str() {
            Some("stalled") => Err(CliError::failed(stalled(&status["health"]))),
            _ => Ok(()),
        }
    }
}

fn stalled(health: &Value) -> String {
    let devices = health["devices"].as_array().into_iter().flatten();
    let of = |device: &Value| {
        let age = device["oldest_io_seconds"].as_f64().unwrap_or(0.0);
        format!("{} has an I/O that is {age:.0} s old", word(&device["name"]))
    };
    let list: Vec<String> = devices.filter(|device| device["status"] == "stalled").map(of).collect();
    format!("the server has stalled: {}", list.join(", "))
}

fn word(value: &Value) -> String {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn text(status: &Value, context: &Context) -> String {
    let server = &status["server"];
    let head = format!(
        "version {}, process {}, up for {} s, clients: {} of {}, health: {}",
        word(&server["version"]),
        number(&server["pid"]),
        thousands(number(&server["uptime_seconds"])),
        number(&server["clients"]),
        number(&server["clients_max"]),
        word(&status["health"]["status"]),
    );
    let mut text = context.terminal.fact("server", &head);
    for problem in status["health"]["problems"].as_array().into_iter().flatten() {
        text += &context
            .terminal
            .fact("problem", &format!("{} ({})", word(&problem["text"]), word(&problem["kind"])));
    }
    let rows = |key: &str| status[key].as_array().cloned().unwrap_or_default();

    let columns = [
        Column::text("device"),
        Column::number("size", ""),
        Column::text("access"),
        Column::text("elevator"),
    ];
    let mut table =
        Table::new(columns.into_iter().chain(["clients", "in flight"].map(|name| Column::number(name, ""))));
    for device in rows("devices") {
        let access = if device["read_only"] == true { "read" } else { "read-write" };
        table.row([
            word(&device["name"]),
            bytes(number(&device["size_bytes"])),
            access.to_owned(),
            word(&device["elevator"]),
            thousands(number(&device["clients"])),
            thousands(number(&device["in_flight"])),
        ]);
    }
    text += &format!("\n{}", table.to_text(context.terminal));

    text += &layers(&rows("devices"), context);

    let mut table = Table::new(["export", "kind", "address"].map(Column::text));
    for export in rows("exports") {
        table.row([word(&export["name"]), word(&export["kind"]), word(&export["address"])]);
    }
    text += &format!("\n{}", table.to_text(context.terminal));

    let clients = rows("clients");
    if clients.is_empty() {
        return text;
    }
    let columns = [Column::number("client", ""), Column::text("device"), Column::text("peer")];
    let numbers = ["read", "written", "errors", "in flight"].map(|name| Column::number(name, ""));
    let mut table = Table::new(columns.into_iter().chain(numbers));
    for client in clients {
        table.row([
            number(&client["client"]).to_string(),
            word(&client["device"]),
            word(&client["peer"]),
            bytes_short(number(&client["read_bytes"])),
            bytes_short(number(&client["written_bytes"])),
            thousands(number(&client["errors"])),
            thousands(number(&client["in_flight"])),
        ]);
    }
    text + &format!("\n{}", table.to_text(context.terminal))
}

/// The status of the layers of the devices: a line for each item.
fn layers(devices: &[Value], context: &Context) -> String {
    let of = |device: &Value| -> Vec<(String, Value)> {
        let layers = device["layers"].as_array().cloned().unwrap_or_default();
        layers.into_iter().map(|layer| (word(&device["name"]), layer)).collect()
    };
    let all: Vec<(String, Value)> = devices.iter().flat_map(of).collect();
    let rows = all.iter().map(|(device, layer)| (device.as_str(), layer));
    ctl::layers(rows, None, context.terminal).map_or_else(String::new, |table| format!("\n{table}"))
}
