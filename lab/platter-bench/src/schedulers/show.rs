//! The table for people.

use super::{Cell, MIXES, ProcessRow, Report};
use crate::device_stats::DeviceStats;
use crate::report::units::{duration, fixed};
use crate::report::{Column, HtmlReport, Table, Terminal};

impl Report {
    /// The table as text, by mix.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let mut out = terminal.paragraph(&self.headline(), 2);
        for (name, summary) in self.mixes() {
            out += &format!("\n{}\n", terminal.heading(name));
            out += &terminal.paragraph(summary, 0);
            out += &self.table(name).to_text(terminal);
        }
        out + "\n" + &terminal.fact("errors of the device", &self.errors_line())
    }

    /// The table as a page that needs nothing else.
    pub fn to_html(&self) -> String {
        let mut page = HtmlReport::new("platter bench schedulers");
        page.paragraph(&self.headline());
        for (name, summary) in self.mixes() {
            page.heading(name).paragraph(summary).table(&self.table(name));
        }
        page.paragraph(&format!("Errors of the device: {}.", self.errors_line()));
        page.finish()
    }

    /// Errors of the device in all cells.
    fn errors_line(&self) -> String {
        let mut all = DeviceStats::default();
        self.cells.iter().for_each(|cell| all.merge(&cell.device));
        all.errors_line()
    }

    fn headline(&self) -> String {
        let clock = if self.simulated { "virtual" } else { "real" };
        let partial = if self.interrupted { " (PARTIAL: interrupted)" } else { "" };
        let seconds = fixed(self.time.0 as f64 / 1e9, 1);
        format!("{}: at most {seconds} s of {clock} time for each cell, seed {}{partial}", self.on, self.seed)
    }

    /// The mixes of which there is a cell.
    fn mixes(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let has = |name| self.cells.iter().any(|cell| cell.mix == name);
        MIXES.iter().filter(move |mix| has(mix.name)).map(|mix| (mix.name, mix.summary))
    }

    fn table(&self, mix: &str) -> Table {
        let columns = [
            Column::text("elevator"),
            Column::number("all", "MiB/s"),
            Column::number("p50", ""),
            Column::number("p99", ""),
            Column::number("max", ""),
            Column::number("fairness", "Jain"),
            Column::number("through", "s"),
        ];
        let last = Column::text("processes: MiB/s (through after s)");
        let mut table = Table::new(columns.into_iter().chain(DeviceStats::columns()).chain([last]));
        for cell in self.cells.iter().filter(|cell| cell.mix == mix) {
            let cells = [
                cell.elevator.clone(),
                fixed(cell.mib_per_s, 2),
                duration(cell.lat_p50_ns),
                duration(cell.lat_p99_ns),
                duration(cell.lat_max_ns),
                fixed(cell.jain, 3),
                through(cell),
            ];
            table.row(cells.into_iter().chain(cell.device.cells()).chain([processes(cell)]));
        }
        table
    }
}

/// When the last of the processes in the foreground finished, if all of them did: the run ended then.
fn through(cell: &Cell) -> String {
    let last = cell.processes.iter().filter_map(|process| process.finish_s).reduce(f64::max);
    last.filter(|&last| last >= cell.took_s).map_or_else(|| "-".to_owned(), |seconds| fixed(seconds, 2))
}

/// Most processes that are listed one by one.
const LISTED: usize = 5;

fn processes(cell: &Cell) -> String {
    if cell.processes.len() <= LISTED {
        return cell.processes.iter().map(process).collect::<Vec<_>>().join(", ");
    }
    let rates = cell.processes.iter().map(|process| process.mib_per_s);
    let (least, most) =
        rates.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), x| (low.min(x), high.max(x)));
    format!("{} of {} to {}", cell.processes.len(), fixed(least, 2), fixed(most, 2))
}

fn process(row: &ProcessRow) -> String {
    let finish = row.finish_s.map(|seconds| format!(" ({})", fixed(seconds, 1))).unwrap_or_default();
    format!("{} {}{finish}", row.name, fixed(row.mib_per_s, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(took_s: f64, finishes: &[Option<f64>]) -> Cell {
        let row = |&finish_s| ProcessRow { name: "reader".to_owned(), finish_s, mib_per_s: 1.0 };
        Cell {
            elevator: "noop".to_owned(),
            mix: "readers",
            took_s,
            mib_per_s: 1.0,
            lat_p50_ns: 1,
            lat_p99_ns: 1,
            lat_max_ns: 1,
            jain: 1.0,
            processes: finishes.iter().map(row).collect(),
            device: DeviceStats::default(),
        }
    }

    #[test]
    fn a_mix_is_through_when_all_its_processes_have_finished() {
        assert_eq!(through(&cell(13.7, &[Some(13.6), Some(13.7)])), "13.70");
        // A writer in the background, without an end.
        assert_eq!(through(&cell(13.7, &[Some(13.7), None])), "13.70");
        // The time was over, and a reader was starved.
        assert_eq!(through(&cell(15.0, &[Some(13.6), Some(13.7), None])), "-");
        assert_eq!(through(&cell(15.0, &[None])), "-");
    }
}
