//! The report for a terminal: SysBench's summary as tables.

use super::{Latency, Report};
use crate::about;
use crate::cache_counts;
use crate::report::units::{bytes, bytes_short, duration, fixed, thousands};
use crate::report::{Column, Table, Terminal};

impl Report {
    /// The report for a terminal.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let mut text = match &self.device {
            Some(device) => about::lines(&device.parts, terminal),
            None => format!("{}\n", self.on),
        };
        self.headline().iter().for_each(|line| text += &terminal.paragraph(line, 2));
        text += "\n";
        text += &self.operations().to_text(terminal);
        text += "\n";
        text += &self.latencies().to_text(terminal);
        if let Some(device) = self.device.as_ref().filter(|device| device.stats.latency_of_data().is_some()) {
            text += "\n";
            text += &device.stats.table().to_text(terminal);
        }
        text += "\n";
        self.facts().iter().for_each(|(name, value)| text += &terminal.fact(name, value));
        text
    }

    /// The configuration of the run, line by line.
    fn headline(&self) -> Vec<String> {
        let plan = &self.plan;
        let size = bytes_short(plan.file_size());
        let mut lines = vec![format!(
            "{}: {} files of {size}, blocks of {}, {} threads, {}",
            plan.mode.name(),
            plan.files,
            bytes_short(plan.block),
            plan.threads,
            plan.io_mode.name(),
        )];
        if let Some(real) = self.simulated {
            let real = fixed(real.as_secs_f64(), 3);
            lines.push(format!("simulated: times are virtual; it took {real} s of real time"));
        }
        if self.interrupted {
            lines.push("interrupted: the result is partial".to_owned());
        }
        lines
    }

    fn operations(&self) -> Table {
        let mut table = Table::new([
            Column::text("operation"),
            Column::number("count", ""),
            Column::number("rate", "1/s"),
            Column::number("rate", "MiB/s"),
        ]);
        let rows = [
            ("reads", self.reads, self.reads_per_s(), Some(self.read_mib_per_s())),
            ("writes", self.writes, self.writes_per_s(), Some(self.written_mib_per_s())),
            ("fsyncs", self.fsyncs, self.fsyncs_per_s(), None),
        ];
        for (name, count, rate, mib) in rows {
            let mib = mib.map_or("-".to_owned(), |mib| fixed(mib, 2));
            table.row([name.to_owned(), thousands(count), fixed(rate, 2), mib]);
        }
        table.group_thousands()
    }

    fn latencies(&self) -> Table {
        let names = ["min", "avg", "p50", "p95", "p99", "max"];
        let columns = names.map(|name| Column::number(name, ""));
        let mut table = Table::new([Column::text("latency")].into_iter().chain(columns));
        let mut row = |name: &str, latency: &Option<Latency>| {
            let Some(l) = latency else { return };
            let mean = l.mean_ns.round() as u64;
            let cells = [l.min_ns, mean, l.p50_ns, l.p95_ns, l.p99_ns, l.max_ns].map(duration);
            table.row([name.to_owned()].into_iter().chain(cells));
        };
        row("events", &self.latency);
        for (name, latency) in ["reads", "writes", "fsyncs"].into_iter().zip(&self.latency_by_kind) {
            row(name, latency);
        }
        table
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let usage = &self.usage;
        let mut facts = vec![
            ("total time", format!("{} s", fixed(self.seconds(), 4))),
            ("events", format!("{} ({})", thousands(self.events), self.plan.count.name())),
            ("processor", format!("{} user, {} system", duration(usage.user_ns), duration(usage.system_ns))),
        ];
        if let Some(device) = &self.device {
            let counters = &device.counters;
            let size = self.mean_request_bytes().map_or("-".to_owned(), |size| bytes(size.round() as u64));
            facts.push((
                "device",
                format!(
                    "{} requests of {size} on average, {} flushes",
                    thousands(counters.completions),
                    thousands(counters.flushes)
                ),
            ));
            facts.push(("errors of the device", device.stats.errors_line()));
            if let Some(cache) = &device.cache {
                facts.push(("cache", cache_counts::line(cache)));
            }
        }
        facts
    }
}
