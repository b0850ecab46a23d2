//! `platter top`: the devices and clients of a running server.

use super::ctl::connect;
use crate::cli::{CliError, Context, Time};
use clap::{Args, ValueEnum};
use platter_bench::report::units::duration;
use platter_bench::report::{Column, Table};
use std::path::PathBuf;
use std::time::Duration;

mod sample;
mod screen;

use sample::{Rates, Sample};

/// The longest that a call may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of `platter top`.
#[derive(Args, Debug)]
#[command(after_help = "\
Shows rates of a server that was started with --control SOCKET, and renews them until q or Ctrl-C. Keys: s sorts by \
the next column, r reverses the order, up and down select the device whose I/O rate the sparkline shows.

Examples:
  platter top /run/platter/control.sock
  platter top --once --interval 5s /run/platter/control.sock

JSON (with --once): health, devices (name, iops, read_mib_per_s, write_mib_per_s, p50_ns, p99_ns, in_flight, \
hits_percent) and clients (client, device, peer, iops, read_mib_per_s, write_mib_per_s, in_flight); null where there was \
nothing to measure. Latencies are those of requests with the disks.")]
pub(crate) struct Top {
    /// The control socket of the server
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// Time between two readings, 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    interval: Time,
    /// Print one interval as plain tables
    #[arg(long)]
    once: bool,
    /// The column to sort by
    #[arg(long, value_enum, default_value_t = Sort::Iops)]
    sort: Sort,
}

/// A column to sort by; names ascend, numbers descend.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Name,
    Iops,
    Read,
    Write,
    P99,
    Depth,
}

fn interval(text: &str) -> Result<Time, String> {
    let time = Time::parse(text, "s")?;
    match time.value.as_millis() {
        100..=3_600_000 => Ok(time),
        _ => Err("it must be 100ms to 3600s".to_owned()),
    }
}

impl Top {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let mut call = connect(&self.socket, TIMEOUT)?;
        let before = Sample::take(&mut call)?;
        if !self.once {
            if context.json {
                return Err(CliError::usage("--json needs --once"));
            }
            return screen::run(call, before, self.interval.value, self.sort, context);
        }
        std::thread::sleep(self.interval.value);
        let mut rates = Sample::take(&mut call)?.since(&before);
        sort(&mut rates, self.sort, false);
        context.show(&rates, &to_text(&rates, context))
    }
}

/// Sorts both tables; clients have no latencies and stay in the order of their numbers by them.
fn sort(rates: &mut Rates, by: Sort, reversed: bool) {
    let Rates { devices, clients, .. } = rates;
    match by {
        Sort::Name => {
            devices.sort_by(|a, b| a.name.cmp(&b.name));
            clients.sort_by_key(|client| client.number);
        }
        Sort::Iops => {
            devices.sort_by(|a, b| b.iops.total_cmp(&a.iops));
            clients.sort_by(|a, b| b.iops.total_cmp(&a.iops));
        }
        Sort::Read => {
            devices.sort_by(|a, b| b.read_mib_per_s.total_cmp(&a.read_mib_per_s));
            clients.sort_by(|a, b| b.read_mib_per_s.total_cmp(&a.read_mib_per_s));
        }
        Sort::Write => {
            devices.sort_by(|a, b| b.write_mib_per_s.total_cmp(&a.write_mib_per_s));
            clients.sort_by(|a, b| b.write_mib_per_s.total_cmp(&a.write_mib_per_s));
        }
        Sort::P99 => {
            devices.sort_by_key(|device| std::cmp::Reverse(device.p99_ns));
            clients.sort_by_key(|client| client.number);
        }
        Sort::Depth => {
            devices.sort_by_key(|device| std::cmp::Reverse(device.in_flight));
            clients.sort_by_key(|client| std::cmp::Reverse(client.in_flight));
        }
    }
    if reversed {
        devices.reverse();
        clients.reverse();
    }
}

/// The titles of both tables.
const DEVICE_TITLES: [&str; 8] =
    ["device", "IOPS", "read MiB/s", "write MiB/s", "p50", "p99", "depth", "hits"];
const CLIENT_TITLES: [&str; 7] = ["client", "device", "peer", "IOPS", "read MiB/s", "write MiB/s", "depth"];

fn device_cells(row: &sample::DeviceRow) -> [String; 8] {
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), duration);
    [
        row.name.clone(),
        format!("{:.0}", row.iops),
        format!("{:.1}", row.read_mib_per_s),
        format!("{:.1}", row.write_mib_per_s),
        time(row.p50_ns),
        time(row.p99_ns),
        row.in_flight.to_string(),
        row.hits_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.0}%")),
    ]
}

fn client_cells(row: &sample::ClientRow) -> [String; 7] {
    [
        row.number.to_string(),
        row.device.clone(),
        row.peer.clone(),
        format!("{:.0}", row.iops),
        format!("{:.1}", row.read_mib_per_s),
        format!("{:.1}", row.write_mib_per_s),
        row.in_flight.to_string(),
    ]
}

fn to_text(rates: &Rates, context: &Context) -> String {
    let column = |title: &str| match title {
        "device" | "peer" => Column::text(title),
        _ => Column::number(title, ""),
    };
    let mut devices = Table::new(DEVICE_TITLES.map(column));
    rates.devices.iter().for_each(|row| _ = devices.row(device_cells(row)));
    let mut clients = Table::new(CLIENT_TITLES.map(column));
    rates.clients.iter().for_each(|row| _ = clients.row(client_cells(row)));
    let mut text = context.terminal.fact("health", &rates.health);
    text += &devices.to_text(context.terminal);
    if !rates.clients.is_empty() {
        text += &format!("\n{}", clients.to_text(context.terminal));
    }
    text
}
