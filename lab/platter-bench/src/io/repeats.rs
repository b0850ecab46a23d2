//! Several runs of one job, and how their results spread.

use serde_json::{Value, json};

use super::IoReport;
use crate::about;
use crate::report::units::{count, duration, fixed, throughput};
use crate::report::{Column, HtmlReport, Table, Terminal};
use crate::stats::Sample;

/// The runs of one job, one after the other.
#[derive(Debug, Clone)]
pub struct Repeats {
    /// How many were asked for; fewer have run if one failed or was interrupted.
    pub asked: u32,
    /// The runs.
    pub runs: Vec<IoReport>,
}

/// A figure of a run: its key, its value, and how that is shown.
type Figure = (&'static str, fn(&IoReport) -> Option<f64>, fn(f64) -> String);

const FIGURES: [Figure; 5] = [
    ("iops", |run| Some(run.iops), count),
    ("mib_per_s", |run| Some(run.mib_per_s), throughput),
    ("lat_p50_ns", |run| run.latency.as_ref().map(|latency| latency.p50_ns as f64), ns),
    ("lat_p99_ns", |run| run.latency.as_ref().map(|latency| latency.p99_ns as f64), ns),
    ("cpu_ns_per_io", |run| Some(run.cpu_ns_per_io), ns),
];

fn ns(value: f64) -> String {
    duration(value.round() as u64)
}

impl Repeats {
    /// A figure over the runs; `None` if a run has none.
    fn sample(&self, of: fn(&IoReport) -> Option<f64>) -> Option<Sample> {
        let values: Option<Vec<f64>> = self.runs.iter().map(of).collect();
        Sample::new(&values?).ok()
    }

    /// As one JSON object: the runs, and the medians of their figures.
    pub fn to_json(&self) -> Value {
        let median = |(key, of, _): &Figure| {
            ((*key).to_owned(), json!(self.sample(*of).map(|sample| sample.median())))
        };
        json!({
            "repeat": self.asked,
            "median": FIGURES.iter().map(median).collect::<serde_json::Map<_, _>>(),
            "runs": self.runs.iter().map(IoReport::to_json).collect::<Vec<_>>(),
        })
    }

    /// As text: what was run, and a line for each figure.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let Some(first) = self.runs.first() else { return String::new() };
        let mut out: String =
            first.devices.iter().map(|device| about::lines(&device.parts, terminal)).collect();
        out += &terminal.paragraph(&self.headline(first), 2);
        out + &self.table().to_text(terminal)
    }

    fn headline(&self, first: &IoReport) -> String {
        let partial = if self.runs.len() < self.asked as usize { " (PARTIAL)" } else { "" };
        format!("{}: {} of {} runs{partial}", first.job_line(), self.runs.len(), self.asked)
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text("figure"),
            Column::number("median", ""),
            Column::number("smallest", ""),
            Column::number("largest", ""),
            Column::number("spread", "%"),
        ]);
        for (key, of, shown) in FIGURES {
            let Some(sample) = self.sample(of) else { continue };
            let spread = sample.relative_spread().map_or_else(String::new, |spread| fixed(spread * 100.0, 1));
            let cells = [sample.median(), sample.min(), sample.max()].map(shown);
            table.row([key.to_owned()].into_iter().chain(cells).chain([spread]));
        }
        table
    }

    /// As a page: the spread of the figures, and each run.
    pub fn to_html(&self) -> String {
        let mut page = HtmlReport::new("platter bench io");
        let Some(first) = self.runs.first() else { return page.finish() };
        page.paragraph(&self.headline(first)).table(&self.table());
        for (run, number) in self.runs.iter().zip(1u32..) {
            page.heading(&format!("Run {number}"));
            run.show_results(&mut page);
        }
        page.finish()
    }
}
