//! The points as a table.

use super::{Harness, Point};
use crate::device_stats::DeviceStats;
use crate::report::units::{bytes, fixed};
use crate::report::{Column, Table, Terminal};
use serde::Serialize;

/// A finished run. The keys of its JSON are listed in `docs/command.md`.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "benchmark", rename = "chunked")]
pub struct Report {
    /// The disks, as they were named.
    pub on: Vec<String>,
    /// Whether time was virtual.
    pub simulated: bool,
    /// How each point was measured.
    #[serde(flatten)]
    pub harness: Harness,
    /// The points.
    pub points: Vec<Point>,
    /// Whether points are missing because the run was interrupted.
    pub interrupted: bool,
}

impl Report {
    /// How it was measured, in a sentence.
    pub(super) fn method(&self) -> String {
        let time = if self.simulated { "virtual" } else { "real" };
        let part = if self.interrupted { " The run was interrupted: points are missing." } else { "" };
        format!(
            "Medians and quartiles of {} samples of each process, each of at least {} ms of {time} time; MiB/s of all \
             disks together.{part}",
            self.harness.samples,
            fixed(self.harness.enough.0 as f64 / 1e6, 1),
        )
    }

    /// Errors of the disks at all points, as a line.
    pub fn errors_line(&self) -> String {
        let mut all = DeviceStats::default();
        self.points.iter().for_each(|point| all.merge(&point.device));
        all.errors_line()
    }

    /// The points as a table.
    pub fn table(&self) -> Table {
        let columns = [
            Column::text("personality"),
            Column::text("rw"),
            Column::number("disks", ""),
            Column::text("stripe"),
            Column::text("chunk"),
            Column::text("request"),
            Column::number("median", "MiB/s"),
            Column::number("Q1", "MiB/s"),
            Column::number("Q3", "MiB/s"),
        ];
        let mut table = Table::new(columns.into_iter().chain(DeviceStats::columns()));
        let mut last = None;
        for point in &self.points {
            let cell = &point.cell;
            if last.replace(cell.personality).is_some_and(|last| last != cell.personality) {
                table.rule();
            }
            let [low, median, high] = point.quartiles.map(|rate| fixed(rate, 2));
            let cells = [
                cell.personality.name().to_owned(),
                if cell.write { "write" } else { "read" }.to_owned(),
                cell.disks.to_string(),
                cell.stripe().map_or("-".to_owned(), bytes),
                cell.chunk().map_or("stream".to_owned(), bytes),
                bytes(cell.request),
                median,
                low,
                high,
            ];
            table.row(cells.into_iter().chain(point.device.cells()));
        }
        table
    }

    /// The report for a terminal.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        format!(
            "{}\n{}{}",
            self.table().to_text(terminal),
            terminal.paragraph(&self.method(), 0),
            terminal.fact("errors of the disks", &self.errors_line())
        )
    }
}
