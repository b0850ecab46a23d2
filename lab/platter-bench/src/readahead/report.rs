//! Policies side by side: as text, JSON and a page with figures.

use super::{Cost, DISK, Io, Outcome, SSD};
use crate::cache_counts::readahead;
use crate::report::json::joined;
use crate::report::svg::{Axis, LineChart, Style};
use crate::report::units::{duration, percent, thousands};
use crate::report::{Column, HtmlReport, Table, Terminal};
use serde_json::{Value, json};

/// Results of policies for the same reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// A description of the reads, for people.
    pub reads: String,
    /// Each policy by name with its parameters, and its result.
    pub policies: Vec<(String, Outcome)>,
    /// Whether it was interrupted: the last policies are missing.
    pub interrupted: bool,
}

/// The first I/Os, that many of which the table shows.
const SHOWN: usize = 8;

impl Report {
    /// The table as text.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let partial = if self.interrupted { "PARTIAL: interrupted; policies are missing.\n" } else { "" };
        format!("{}{partial}\n{}", terminal.paragraph(&self.reads, 2), self.table().to_text(terminal))
    }

    /// Figures and first I/Os side by side.
    fn table(&self) -> Table {
        let mut table = Table::new(figure_columns().into_iter().chain([Column::text(FIRST_IOS)]));
        for (name, outcome) in &self.policies {
            table.row(figures(name, outcome).into_iter().chain([first_ios(&outcome.ios)]));
        }
        table
    }

    /// All of it for programs. Its keys are listed in `docs/command.md`.
    pub fn to_json(&self) -> Value {
        json!({
            "reads": self.reads,
            "interrupted": self.interrupted,
            "policies": self.policies.iter().map(|(name, outcome)| policy(name, outcome)).collect::<Vec<_>>(),
        })
    }

    /// The table, and the I/Os of each policy over time, as a page that needs nothing else.
    pub fn to_html(&self) -> String {
        let mut page = HtmlReport::new("platter readahead");
        page.paragraph(&self.reads);
        if self.interrupted {
            page.paragraph("Partial: the run was interrupted; policies are missing.");
        }
        let mut table = Table::new(figure_columns());
        for (name, outcome) in &self.policies {
            table.row(figures(name, outcome));
        }
        let mut ios = Table::new(["policy", FIRST_IOS].map(Column::text));
        for (name, outcome) in &self.policies {
            ios.row([name.clone(), first_ios(&outcome.ios)]);
        }
        page.table(&table).heading("First I/Os").table(&ios);
        page.heading("Sizes of I/Os over time");
        let note = "Time is counted in rounds of turns: in each every thread takes a page.";
        for (name, outcome) in &self.policies {
            let axes = (Axis::new("round"), Axis::new("pages").from_zero());
            let of = |sync| {
                let ios = outcome.ios.iter().filter(move |io| io.sync == sync);
                ios.map(|io| (io.round as f64, f64::from(io.pages)))
            };
            let chart = LineChart::new(name.as_str(), axes.0, axes.1)
                .series("waited for", Style::Points, of(true))
                .series("ahead", Style::Points, of(false));
            page.chart(&chart, note);
        }
        page.finish()
    }
}

/// Title of the column of I/Os.
const FIRST_IOS: &str = "first I/Os: page+pages";

fn figure_columns() -> Vec<Column> {
    vec![
        Column::text("policy"),
        Column::number("I/Os", ""),
        Column::number("waits", ""),
        Column::number("read", "pages"),
        Column::number("wasted", ""),
        Column::number("off", "misses"),
        Column::number("off", "hits"),
        Column::number("shrunk", ""),
        Column::number("asked", ""),
        Column::number("disk", ""),
        Column::number("ssd", ""),
    ]
}

fn figures(name: &str, outcome: &Outcome) -> Vec<String> {
    let counters = &outcome.counters;
    vec![
        name.to_owned(),
        thousands(outcome.ios.len() as u64),
        thousands(outcome.waits),
        thousands(outcome.pages_read),
        percent(100.0 * outcome.pages_wasted() as f64 / outcome.pages_read.max(1) as f64),
        thousands(counters.closed_by_miss),
        thousands(counters.closed_by_hit),
        thousands(counters.shrunk),
        thousands(counters.lookups),
        cost(&DISK, outcome),
        cost(&SSD, outcome),
    ]
}

fn cost(cost: &Cost, outcome: &Outcome) -> String {
    duration((cost.of(outcome) * 1000.0) as u64)
}

fn first_ios(ios: &[Io]) -> String {
    let shown = ios.iter().take(SHOWN).map(|io| format!("{}+{}", io.page, io.pages));
    let more = (ios.len() > SHOWN).then(|| "…".to_owned());
    shown.chain(more).collect::<Vec<_>>().join(" ")
}

fn policy(name: &str, outcome: &Outcome) -> Value {
    let of_it = json!({
        "policy": name,
        "pages_wasted": outcome.pages_wasted(),
        "disk_us": DISK.of(outcome),
        "ssd_us": SSD.of(outcome),
    });
    joined(joined(of_it, outcome), &readahead(&outcome.counters))
}
