//! The report for people: a few lines of text.

use super::account::{Count, Fates};
use super::options::{Mode, ReplayOptions};
use super::report::ReplayReport;
use crate::about;
use crate::report::units::{bytes, duration, fixed, percent, thousands, throughput};
use crate::report::{Column, Table, Terminal};
use crate::stats::LatencySummary;

impl ReplayReport {
    /// The report as text.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let mut out: String =
            self.devices.iter().map(|device| about::lines(&device.parts, terminal)).collect();
        let partial = if self.partial { " (PARTIAL: interrupted)" } else { "" };
        out += &terminal.paragraph(&format!("{}{partial}", self.headline()), 2);
        for table in [self.fates(), self.times()] {
            out.push('\n');
            out += &table.to_text(terminal);
        }
        out.push('\n');
        for (name, fact) in self.facts() {
            out += &terminal.fact(name, &fact);
        }
        out
    }

    /// What was replayed, in a sentence.
    pub(super) fn headline(&self) -> String {
        let clock = if self.real.is_some() { " of virtual time" } else { "" };
        format!(
            "{} of the trace in {}{clock}: {} I/Os, {}",
            duration(ns(self.trace)),
            duration(ns(self.wall)),
            thousands(self.ios),
            how(&self.options)
        )
    }

    /// What became of each kind.
    pub(super) fn fates(&self) -> Table {
        let mut table = Table::new([
            Column::text("kind"),
            Column::number("in the trace", ""),
            Column::number("replayed", ""),
            Column::number("changed", ""),
            Column::number("skipped", ""),
            Column::number("errors", ""),
        ]);
        let row = |table: &mut Table, words: &str, fates: &Fates, errors: String| {
            let counts = [fates.trace, fates.replayed, fates.changed, fates.skipped].map(cell);
            table.row([words.to_owned()].into_iter().chain(counts).chain([errors]));
        };
        for kind in self.kinds.iter().filter(|kind| kind.fates.trace.ios > 0) {
            row(&mut table, kind.words, &kind.fates, thousands(kind.errors));
        }
        for (at, (_, words, fates)) in self.marks.iter().filter(|mark| mark.2.trace.ios > 0).enumerate() {
            if at == 0 {
                table.rule();
            }
            row(&mut table, words, fates, String::new());
        }
        table
    }

    /// Issue-time errors and latencies.
    pub(super) fn times(&self) -> Table {
        let columns = ["p50", "p99", "p99.9", "mean", "max"].map(|name| Column::number(name, ""));
        let mut table = Table::new([Column::text("")].into_iter().chain(columns));
        let mut row = |words: String, summary: Option<&LatencySummary>| {
            let Some(s) = summary else { return };
            let cells = [s.p50_ns, s.p99_ns, s.p999_ns, s.mean_ns.round() as u64, s.max_ns].map(duration);
            table.row([words].into_iter().chain(cells));
        };
        row("started late by".to_owned(), self.lateness.as_ref().map(|lateness| &lateness.delay));
        for kind in &self.kinds {
            row(format!("latency of {}", kind.words), kind.latency.as_ref());
            row(format!("in the trace: {}", kind.words), kind.trace_latency.as_ref());
        }
        table
    }

    /// Everything else.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if let (Some(lateness), Some(pct)) = (&self.lateness, self.late_pct()) {
            let threshold = duration(ns(self.options.late));
            facts.push((
                "late",
                format!("{} of {} started more than {threshold} late", percent(pct), thousands(lateness.ios)),
            ));
        }
        let trace = match self.trace_depths.max() {
            0 => String::new(),
            most => format!("; in the trace {}", thousands(most.into())),
        };
        facts.push(("in flight", format!("at most {}{trace}", thousands(self.depths.max().into()))));
        facts.push((
            "throughput",
            format!(
                "{} I/Os per second, {}",
                thousands(self.iops().round() as u64),
                throughput(self.mib_per_s())
            ),
        ));
        let counts = [
            (
                self.held,
                "held back",
                "I/Os had to wait because as many as --depth allows were in flight, or for memory",
            ),
            (self.waits, "not read in time", "times an I/O was waited for"),
            (self.moved, "moved", "I/Os are in another place than in the trace"),
            (self.elsewhere, "other devices", "I/Os of devices of the trace that were not replayed"),
        ];
        for (count, name, words) in counts.into_iter().filter(|row| row.0 > 0) {
            facts.push((name, format!("{} {words}", thousands(count))));
        }
        for device in &self.devices {
            let of = device.of.as_deref().unwrap_or("nothing");
            facts.push(("device", format!("{} for {of}: {}", device.name, cell(device.started))));
        }
        if let Some(real) = self.real {
            facts.push(("simulated", format!("it took {} s of real time", fixed(real.as_secs_f64(), 3))));
        }
        facts.push(("errors", thousands(self.errors)));
        facts.extend(self.first_error.as_ref().map(|error| ("first error", error.to_string())));
        facts
    }
}

fn ns(time: core::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// I/Os and bytes.
fn cell(count: Count) -> String {
    match count.ios {
        0 => "0".to_owned(),
        ios if count.bytes == 0 => thousands(ios),
        ios => format!("{} ({})", thousands(ios), bytes(count.bytes)),
    }
}

/// How it was replayed.
fn how(options: &ReplayOptions) -> String {
    let speed =
        if options.speed == 1.0 { String::new() } else { format!(", {} times as fast", options.speed) };
    match options.mode {
        Mode::Open => format!("at the times of the trace{speed}"),
        Mode::Closed => format!("with {} in flight", options.depth),
        Mode::Dependency => format!("after the completions that they followed in the trace{speed}"),
    }
}
