//! The report for people: a few lines of text, or a page.

use super::{IoReport, Stamps};
use crate::about;
use crate::cache_counts;
use crate::report::units::{bytes_short, duration, fixed, thousands, throughput};
use crate::report::{Column, HtmlReport, Table, Terminal};
use crate::stats::LatencySummary;
use crate::workload::{DEFAULT_SEED, JobOptions};
use platter_block::bio::Op;

impl IoReport {
    /// The report as lines of text, one fact a line.
    pub fn to_text(&self, terminal: impl Into<Terminal>) -> String {
        let terminal = terminal.into();
        let mut out = String::new();
        for device in &self.devices {
            out += &about::lines(&device.parts, terminal);
        }
        let partial = if self.partial { " (PARTIAL: interrupted)" } else { "" };
        out += &terminal.paragraph(&format!("{}{partial}", self.headline()), 2);
        if let Some(simulated) = self.simulated() {
            out += &terminal.paragraph(&simulated, 2);
        }
        out += &self.table().to_text(terminal);
        for (name, fact) in self.facts() {
            out += &terminal.fact(name, &fact);
        }
        out
    }

    /// The report as a page that needs nothing else.
    pub fn to_html(&self) -> String {
        let mut page = HtmlReport::new(&format!("platter bench io: {}", self.job.rw));
        self.show_results(&mut page);
        for device in &self.devices {
            page.heading(&device.name).facts(device.facts.iter().map(|(key, value)| (*key, value.as_str())));
        }
        let mut counters = Table::new([Column::text("counter"), Column::number("count", "")]);
        for (name, count) in self.counters.rows().filter(|(_, count)| *count > 0) {
            counters.row([name.to_owned(), count.to_string()]);
        }
        page.heading("Counters of the queues").table(&counters.group_thousands());
        page.finish()
    }

    /// What was run and measured, and the course of the run.
    pub(super) fn show_results(&self, page: &mut HtmlReport) {
        if self.partial {
            page.paragraph("Partial: the run was interrupted.");
        }
        if let Some(simulated) = self.simulated() {
            page.paragraph(&simulated);
        }
        page.paragraph(&self.headline()).table(&self.table()).facts(self.facts());
        if !self.series.parts.is_empty() {
            page.subheading("Over time");
            let note = format!("In parts of {}.", duration(self.series.interval.as_nanos() as u64));
            for chart in self.series.charts() {
                page.chart(&chart, &note);
            }
        }
    }

    fn headline(&self) -> String {
        format!(
            "{}: {} I/Os in {} s",
            self.job_line(),
            thousands(self.ios),
            fixed(self.wall.as_secs_f64(), 3)
        )
    }

    /// The job: direction, size and depth, and other options that are not defaults.
    pub(super) fn job_line(&self) -> String {
        let (job, usual) = (&self.job, JobOptions::default());
        let mut line = format!("{} bs={} iodepth={}", job.rw, bytes_short(job.bs), job.iodepth);
        let mut add = |name: &str, differs: bool, value: String| {
            if differs {
                line += &format!(" {name}={value}");
            }
        };
        add("numjobs", job.numjobs as usize != self.devices.len(), job.numjobs.to_string());
        add("rwmixread", job.rw.is_mixed() && job.rwmixread != usual.rwmixread, job.rwmixread.to_string());
        add("rate_iops", job.rate_iops.is_some(), job.rate_iops.unwrap_or(0).to_string());
        let process = job.rate_process;
        add(
            "rate_process",
            job.rate_iops.is_some() && process != usual.rate_process,
            process.name().to_owned(),
        );
        add("thinktime", !job.thinktime.is_zero(), format!("{:?}", job.thinktime));
        let blocks = job.thinktime_blocks;
        add("thinktime_blocks", blocks != usual.thinktime_blocks, blocks.to_string());
        add("norandommap", job.norandommap, "1".to_owned());
        add("verify", job.verify, "1".to_owned());
        add("direct", !job.direct, "0".to_owned());
        add("gtod_reduce", job.gtod_reduce, "1".to_owned());
        add("seed", self.seed != DEFAULT_SEED, self.seed.to_string());
        line
    }

    /// A note about virtual time on simulated devices.
    fn simulated(&self) -> Option<String> {
        let real = self.simulated?.real.as_secs_f64();
        Some(format!(
            "simulated: all times are virtual but the CPU's; it took {} s of real time, {} requests per second",
            fixed(real, 3),
            thousands(self.sim_requests_per_wall_s()?.round() as u64),
        ))
    }

    fn table(&self) -> Table {
        let mut table = Table::new([
            Column::text(""),
            Column::number("IOPS", "1/s"),
            Column::number("rate", "MiB/s"),
            Column::number("p50", ""),
            Column::number("p99", ""),
            Column::number("p99.9", ""),
            Column::number("mean", ""),
            Column::number("max", ""),
        ]);
        let times = |latency: Option<&LatencySummary>| match latency {
            None => ["-"; 5].map(str::to_owned),
            Some(l) => [l.p50_ns, l.p99_ns, l.p999_ns, l.mean_ns.round() as u64, l.max_ns].map(duration),
        };
        let mut row = |name: &str, iops: f64, mib_per_s: f64, latency: Option<&LatencySummary>| {
            let rate = throughput(mib_per_s).trim_end_matches(" MiB/s").to_owned();
            let cells = [name.to_owned(), thousands(iops.round() as u64), rate];
            table.row(cells.into_iter().chain(times(latency)));
        };
        for d in &self.directions {
            row(d.name, d.iops, d.mib_per_s, d.latency.as_ref());
        }
        if self.directions.len() != 1 {
            row("all", self.iops, self.mib_per_s, self.latency.as_ref());
        }
        for op in [Op::Read, Op::Write, Op::Discard, Op::Flush] {
            if let Some(latency) = self.device.latency(op) {
                let cells = [format!("device: {op}"), String::new(), String::new()];
                table.row(cells.into_iter().chain(times(Some(&latency))));
            }
        }
        table
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let usage = &self.usage;
        let stamps = match self.stamps {
            Stamps::Batch => "batch (one reading of the clock per batch of completions)",
            Stamps::Intended => "intended (from the intended start to the batch it came back with)",
            Stamps::Coarse => "coarse (gtod_reduce: no latencies)",
        };
        let counters = &self.counters;
        let missed = self.missed_ios.filter(|&ios| ios > 0);
        let clock = if self.simulated.is_some() { "virtual" } else { "wall" };
        let mut facts = vec![
            ("time per I/O", format!("{} ns ({clock}, all jobs together)", fixed(self.ns_per_io, 1))),
            (
                "CPU per I/O",
                format!(
                    "{} ns (user {}, system {} in all)",
                    fixed(self.cpu_ns_per_io, 1),
                    duration(usage.user_ns),
                    duration(usage.system_ns)
                ),
            ),
            (
                "context switches",
                format!("{} voluntary, {} involuntary", usage.voluntary_switches, usage.involuntary_switches),
            ),
            ("stamps", stamps.to_owned()),
        ];
        facts.extend(missed.map(|ios| {
            (
                "not started",
                format!("{} I/Os that were due before the end; they are in no figure", thousands(ios)),
            )
        }));
        facts.extend([(
            "counters",
            format!(
                "queued {}, dispatched {}, completed {}",
                thousands(counters.bios),
                thousands(counters.dispatches),
                thousands(counters.bios_completed)
            ),
        )]);
        facts.extend(self.cache.as_ref().map(|cache| ("cache", cache_counts::line(cache))));
        if self.job.verify {
            let found = format!("{} blocks checked, {} bad", thousands(self.verified), self.verify_errors);
            facts.push(("verification", found));
        }
        facts.push(("errors", self.errors().to_string()));
        facts.push(("errors of the device", self.device.errors_line()));
        facts.extend(self.first_error.as_ref().map(|error| ("first error", error.to_string())));
        facts.extend(self.first_mismatch.as_ref().map(|error| ("first bad block", error.clone())));
        facts
    }
}
