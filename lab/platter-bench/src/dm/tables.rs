//! The tables of a report, for the terminal and for the page.

use super::options::READ_BYTES;
use super::paper::{self, DESCRIPTOR_SPACE};
use super::results::{change_pct, descriptors};
use super::{Call, Medium, Report};
use crate::device_stats::DeviceStats;
use crate::ladder::{self, Switches, Unit};
use crate::report::units::{self, fixed};
use crate::report::{Column, Table};
use crate::stats::Sample;

/// Half of the distance between the lowest and the highest round, in percent of the median.
pub(crate) fn spread(sample: &Sample) -> String {
    match sample.relative_spread() {
        Some(spread) if sample.count() > 1 => fixed(spread * 50.0, 0),
        _ => String::new(),
    }
}

pub(crate) fn change(before: Option<f64>, after: f64) -> String {
    let pct = before.and_then(|before| change_pct(before, after));
    pct.map_or_else(String::new, |pct| units::change(pct).trim_end_matches(" %").to_owned())
}

/// Table 3: throughput and idle time, with the paper's results.
pub(super) fn table_3(medium: &Medium, call: Call) -> Table {
    let mut table = Table::new([
        Column::text(call.name()),
        Column::number("rate", "MiB/s"),
        Column::number("±", "%"),
        Column::number("change", "%"),
        Column::number("CPU idle", "%"),
        Column::number("change", "%"),
        Column::number("2002: rate", "MB/s"),
        Column::number("2002: change", "%"),
        Column::number("2002: CPU idle", "%"),
        Column::number("2002: change", "%"),
    ]);
    let (mut last_rate, mut last_idle) = (None, None);
    for cell in medium.cells_with(call) {
        let (rate, idle) = (cell.mib_per_s(), cell.cpu_idle_pct().map(|idle| idle.median()));
        let mut row = vec![
            cell.rung.name.to_owned(),
            fixed(rate.median(), 0),
            spread(&rate),
            change(last_rate, rate.median()),
            idle.map_or_else(|| "n/a".to_owned(), |idle| fixed(idle, 0)),
            idle.map_or_else(String::new, |idle| change(last_idle, idle)),
        ];
        (last_rate, last_idle) = (Some(rate.median()), idle);
        if let Some(paper) = paper::find(call, cell.rung.name) {
            let signed = |pct: Option<i32>| pct.map_or_else(String::new, |pct| format!("{pct:+}"));
            row.extend([paper.mb_per_s.to_string(), signed(paper.rate_change)]);
            row.extend([paper.idle_pct.to_string(), signed(paper.idle_change)]);
        }
        table.row(row);
    }
    table.group_thousands()
}

/// The savings of each rung.
pub(super) fn savings(medium: &Medium, call: Call) -> Table {
    let columns = [
        Column::text(call.name()),
        Column::number("CPU/read", "ns"),
        Column::number("±", "%"),
        Column::number("change", "%"),
        Column::number("bios", "/read"),
        Column::number("waits", "/read"),
        Column::number("copied", "KiB/read"),
        Column::number("locks", "/read"),
        Column::number("lock wait", "%"),
        Column::number("descriptor", "bytes"),
        Column::number("devices", "in 128 MiB"),
    ];
    let mut table = Table::new(columns.into_iter().chain(DeviceStats::columns()));
    let mut last = None;
    for cell in medium.cells_with(call) {
        let cpu = cell.cpu_ns_per_read();
        let copied = cell.bytes_bounced() as f64 / cell.calls().max(1) as f64 / 1024.0;
        let bytes = cell.descriptor_bytes();
        let cells = [
            cell.rung.name.to_owned(),
            fixed(cpu.median(), 0),
            spread(&cpu),
            change(last, cpu.median()),
            short(cell.bios_per_call()),
            short(cell.waits_per_call()),
            short(copied),
            short(cell.locks_per_call()),
            fixed(cell.lock_wait_pct().median(), 1),
            bytes.to_string(),
            (DESCRIPTOR_SPACE / bytes.max(1) as u64).to_string(),
        ];
        table.row(cells.into_iter().chain(cell.device().cells()));
        last = Some(cpu.median());
    }
    table.group_thousands()
}

/// A count that is whole unless something is odd.
pub(crate) fn short(count: f64) -> String {
    fixed(count, if count.fract() < 0.005 { 0 } else { 2 })
}

/// The rungs and their meanings.
pub(super) fn rungs() -> Table {
    let columns = ["rung", "adds", "in the kernel", "here"];
    let mut table = Table::new(columns.map(Column::text));
    for row in ladder::TABLE {
        table.row([row.name, row.adds, row.kernel, row.here]);
    }
    table
}

/// The memory rung: descriptors of open devices.
pub(super) fn memory() -> Table {
    let mut table = Table::new([
        Column::text("descriptor of an open device"),
        Column::number("size", "bytes"),
        Column::number("fit in 128 MiB", "devices"),
    ]);
    for (name, bytes, devices) in descriptors() {
        table.row([name.to_owned(), bytes.to_string(), devices.to_string()]);
    }
    table.group_thousands()
}

/// The disks, in one line.
pub(super) fn about(medium: &Medium) -> String {
    let facts: Vec<String> = medium.facts.iter().map(|(name, fact)| format!("{name} {fact}")).collect();
    format!("{}: {}", medium.about, facts.join(", "))
}

/// How it was measured, in one line.
pub(super) fn method(report: &Report) -> String {
    let rounds = |medium: &Medium| medium.cells.iter().map(|cell| cell.rounds()).max();
    let rounds: Vec<String> =
        report.media.iter().filter_map(|m| Some(format!("{} on {}", rounds(m)?, m.on))).collect();
    let of = format!("medians of rounds ({}), ± half their range", rounds.join(", "));
    format!("One worker for each disk, sequential reads of {}; {of}.", units::bytes(READ_BYTES as u64))
}

/// That figures are missing, where they are.
pub(super) fn partial(report: &Report) -> Option<String> {
    let rounds = |medium: &Medium| medium.cells.iter().map(|cell| cell.rounds()).min().unwrap_or(0);
    let done = report.media.last().map_or(0, rounds);
    report.interrupted.then(|| {
        let all = report.options.repeat;
        format!(
            "PARTIAL: interrupted; the last kind of disks has {done} of {all} rounds, others may be missing."
        )
    })
}

/// How to interpret the figures.
pub(super) fn reading(report: &Report) -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let mut text = format!(
        "Each rung has the real cost of its mechanism, without artificial delays. The paper's machine had eight \
         processors of 700 MHz and 32 disks that were slower than its bus: there the lowest rungs could not keep \
         the disks busy. Here ({processors} processors, {} workers) a modern core queues far faster than most \
         disks deliver, so on files the rate is mostly the disk's, and the savings of a rung show in CPU/read \
         and idle time. On ram the copy that represents the disk keeps the processors busy: idle time is \
         meaningless there, and CPU/read is the best measure. The waits for locks depend on how many processors \
         share them. SBIRV affects readv only: a read does the same work on SBIR and SBIRV.",
        report.options.disks,
    );
    if report
        .media
        .iter()
        .flat_map(|m| &m.cells)
        .any(|cell| is_coarse(&cell.rung.switches, cell.bios_per_call()))
    {
        text +=
            " A disk with blocks larger than 512 bytes has units of a block instead of a sector below SBIR.";
    }
    text
}

fn is_coarse(switches: &Switches, bios: f64) -> bool {
    switches.unit == Unit::Sector && bios < (READ_BYTES / 512) as f64 * 0.99
}
