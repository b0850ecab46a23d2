//! A report for the terminal.

use super::{Medium, PREFETCH_BYTES, Report, paper};
use crate::device_stats::DeviceStats;
use crate::dm::{change, short, spread};
use crate::report::units::{self, fixed};
use crate::report::{Column, Table, Terminal};

/// The report as text.
pub fn text(report: &Report, terminal: impl Into<Terminal>) -> String {
    let terminal = terminal.into();
    let mut out = terminal.heading("DSW, up the ladder of the 2002 paper (docs/dsw.md)") + "\n";
    for (name, fact) in &report.machine {
        out += &terminal.fact(name, fact);
    }
    out += &terminal.fact("database", &database(report));
    out += &terminal.fact("queries", &queries(report));
    out += &terminal.paragraph(&method(report), 0);
    if report.interrupted {
        out += &terminal.paragraph("PARTIAL: interrupted; the last rounds are missing.", 0);
    }
    for medium in report.media.iter().filter(|medium| !medium.cells.is_empty()) {
        out += &format!("\n{}\n", terminal.heading(&format!("On {}", medium.about)));
        for (name, fact) in &medium.facts {
            out += &terminal.fact(name, fact);
        }
        out += &("\n".to_owned() + &table_2(medium).to_text(terminal));
        out += &("\n".to_owned() + &costs(medium).to_text(terminal));
        out += &terminal.fact("errors of the disks", &medium.errors_line());
    }
    out + "\n" + &terminal.paragraph(READING, 0)
}

const READING: &str = "The rate stands for the paper's metric, which is not described further. `query` is the share of \
    the processors' time that the agents computed as recorded, like the paper's user time; the rest that is not idle is \
    I/O. A single page is one buffer on every rung; SBIRV shortens calls of several pages only.";

fn database(report: &Report) -> String {
    let (scale, bytes, page) = report.database;
    format!("TPC-H, scale {scale}: {} in pages of {}", units::bytes(bytes), units::bytes(page.into()))
}

fn queries(report: &Report) -> String {
    let named = |(name, reads): &(String, u64)| format!("{name} {reads}");
    let list: Vec<_> = report.queries.iter().map(named).collect();
    format!("{}; pages read", list.join(", "))
}

/// How it was measured, in one paragraph.
fn method(report: &Report) -> String {
    let options = &report.options;
    let rounds = |medium: &Medium| medium.cells.iter().map(|cell| cell.rounds()).max();
    let rounds: Vec<String> =
        report.media.iter().filter_map(|m| Some(format!("{} on {}", rounds(m)?, m.on))).collect();
    format!(
        "{} agents replay the queries, each from another one on; pages that follow each other become a readv of up to {}; \
         the recorded processor time is spent times {}. Medians of rounds ({}), ± half their range.",
        options.agents,
        units::bytes(PREFETCH_BYTES),
        options.compute,
        rounds.join(", ")
    )
}

/// Table 2, with the paper's results.
fn table_2(medium: &Medium) -> Table {
    let mut table = Table::new([
        Column::text("rung"),
        Column::number("rate", "MiB/s"),
        Column::number("±", "%"),
        Column::number("change", "%"),
        Column::number("query", "%"),
        Column::number("CPU idle", "%"),
        Column::number("2002: change", "%"),
        Column::number("2002: user", "%"),
        Column::number("2002: CPU idle", "%"),
    ]);
    let mut last = None;
    for cell in &medium.cells {
        let rate = cell.mib_per_s();
        let idle = cell.cpu_idle_pct().map_or_else(|| "n/a".to_owned(), |idle| fixed(idle.median(), 0));
        let mut row = vec![
            cell.rung.name.to_owned(),
            fixed(rate.median(), 0),
            spread(&rate),
            change(last, rate.median()),
            fixed(cell.cpu_query_pct().median(), 0),
            idle,
        ];
        if let Some(paper) = paper::find(cell.rung.name) {
            row.push(paper.increase_pct.map_or_else(String::new, |pct| format!("+{pct}")));
            row.extend([paper.cpu_user_pct.to_string(), paper.cpu_idle_pct.to_string()]);
        }
        table.row(row);
        last = Some(rate.median());
    }
    table.group_thousands()
}

/// What a call costs on each rung.
fn costs(medium: &Medium) -> Table {
    let columns = [
        Column::text("rung"),
        Column::number("calls", "/s"),
        Column::number("I/O CPU", "ns/call"),
        Column::number("±", "%"),
        Column::number("pages", "/call"),
        Column::number("bios", "/call"),
        Column::number("waits", "/call"),
        Column::number("copied", "KiB/call"),
        Column::number("locks", "/call"),
        Column::number("lock wait", "%"),
    ];
    let mut table = Table::new(columns.into_iter().chain(DeviceStats::columns()));
    for cell in &medium.cells {
        let (cpu, calls) = (cell.io_cpu_ns_per_call(), cell.calls().max(1) as f64);
        let cells = [
            cell.rung.name.to_owned(),
            fixed(cell.calls_per_s().median(), 0),
            fixed(cpu.median(), 0),
            spread(&cpu),
            short(cell.pages() as f64 / calls),
            short(cell.bios_per_call()),
            short(cell.waits_per_call()),
            short(cell.bytes_bounced() as f64 / calls / 1024.0),
            short(cell.locks_per_call()),
            fixed(cell.lock_wait_pct().median(), 1),
        ];
        table.row(cells.into_iter().chain(cell.device().cells()));
    }
    table.group_thousands()
}
