//! The report for a terminal.

use super::{Point, Report};
use crate::report::units::{fixed, percent, rate};
use crate::report::{Column, Table, Terminal};
use crate::stats::Sample;

/// Counters that are calls for a read, as in the paper's Table 8, and their titles.
const CALLS: [(&str, &str); 6] = [
    ("bios", "bios"),
    ("requests", "requests"),
    ("back_merges", "merges"),
    ("dispatches", "dispatches"),
    ("completions", "completions"),
    ("requeues", "requeues"),
];

impl Report {
    /// The report as text.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let mut out = terminal.heading("Locks of the engine (docs/locks.md)") + "\n";
        let method = format!(
            "Each thread reads {} bytes at random positions, one read at a time. Rates, processor time and switches are \
             medians of {} rounds without the meter; the locks were metered in runs of their own. A reading of the \
             clock costs {} ns, and each metered acquisition reads it twice or more.",
            self.options.block, self.options.repeat, self.clock_ns
        );
        out += &terminal.paragraph(&method, 0);
        out += &format!("\n{}", self.overview().to_text(terminal));
        for point in self.points.iter().filter(|point| self.is_largest(point)) {
            out += &format!("\n{}\n", terminal.heading(&point.describe()));
            if point.locks.is_empty() {
                out += &terminal.paragraph("No lock was taken.", 0);
            } else {
                out += &locks(point).to_text(terminal);
            }
            if !point.parts.is_empty() {
                out += &format!("\n{}", parts(point).to_text(terminal));
            }
        }
        out + &format!("\n{}", self.calls().to_text(terminal))
    }

    /// Whether the point has the most threads; only these are shown in detail.
    fn is_largest(&self, point: &Point) -> bool {
        self.points.iter().all(|other| other.caller != point.caller || other.threads <= point.threads)
    }

    fn overview(&self) -> Table {
        let mut table = Table::new([
            Column::text("device"),
            Column::text("caller"),
            Column::number("threads", ""),
            Column::number("reads", "/s"),
            Column::number("to first", ""),
            Column::number("CPU", "ns/read"),
            Column::number("switches", "/read"),
            Column::number("locks", "/read"),
            Column::number("contended", "%"),
            Column::number("wait", "ns/read"),
        ]);
        for point in &self.points {
            let median = |sample: Option<Sample>| sample.map_or(0.0, |sample| sample.median());
            let ratio = self.first(point).and_then(|first| point.ratio(first));
            let (taken, waited) = (point.per_io(|l| l.acquisitions), point.per_io(|l| l.contended));
            table.row([
                point.on.clone(),
                point.caller.name().to_owned(),
                point.threads.to_string(),
                rate(median(point.ios_per_s())),
                fixed(median(ratio), 2),
                fixed(median(point.cpu_ns_per_io()), 0),
                fixed(median(point.switches_per_io()), 2),
                fixed(taken, 2),
                percent(100.0 * waited / taken.max(f64::MIN_POSITIVE)),
                fixed(point.per_io(|l| l.wait_ns), 0),
            ]);
        }
        table
    }

    fn calls(&self) -> Table {
        let names = CALLS.iter().map(|(_, title)| Column::number(*title, "/read"));
        let first = [Column::text("device"), Column::text("caller"), Column::number("threads", "")];
        let mut table = Table::new(first.into_iter().chain(names));
        for point in &self.points {
            let count = |name: &str| point.counters.rows().find(|row| row.0 == name).map_or(0, |row| row.1);
            let per_io =
                |(name, _): &(&str, &str)| fixed(count(name) as f64 / point.ios_metered.max(1) as f64, 2);
            let own = [point.on.clone(), point.caller.name().to_owned(), point.threads.to_string()];
            table.row(own.into_iter().chain(CALLS.iter().map(per_io)));
        }
        table
    }
}

fn mean(sum: u64, count: u64) -> f64 {
    sum as f64 / count.max(1) as f64
}

fn locks(point: &Point) -> Table {
    let mut table = Table::new([
        Column::text("lock"),
        Column::text("stage"),
        Column::text("taken in"),
        Column::number("taken", "/read"),
        Column::number("contended", "%"),
        Column::number("left", "/read"),
        Column::number("hold", "ns"),
        Column::number("longest", "us"),
        Column::number("wait", "ns"),
        Column::number("held", "% of time"),
    ]);
    for lock in &point.locks {
        let time = point.time_metered.as_nanos().max(1) as f64;
        table.row([
            lock.scope.to_owned(),
            lock.stage.to_owned(),
            lock.place.clone(),
            fixed(mean(lock.acquisitions, point.ios_metered), 2),
            percent(100.0 * mean(lock.contended, lock.acquisitions)),
            fixed(mean(lock.left_to_holder, point.ios_metered), 2),
            fixed(mean(lock.hold_ns, lock.acquisitions), 0),
            fixed(lock.longest_hold_ns as f64 / 1e3, 0),
            fixed(mean(lock.wait_ns, lock.contended), 0),
            percent(100.0 * lock.hold_ns as f64 / time),
        ]);
    }
    table
}

fn parts(point: &Point) -> Table {
    let mut table = Table::new([
        Column::text("part of a run of the shared queue"),
        Column::number("runs", "/read"),
        Column::number("time", "ns/read"),
    ]);
    for part in &point.parts {
        let ios = point.ios_metered;
        table.row([part.part.to_owned(), fixed(mean(part.runs, ios), 2), fixed(mean(part.ns, ios), 0)]);
    }
    table
}
