//! `platter compare`: results of benchmarks side by side.

use super::trace::OutFile;
use crate::cli::{CliError, Context};
use clap::Args;
use platter_bench::compare::{self, CompareError, Comparison, Metric, Plan, Side};
use platter_bench::report::units::{change, fixed};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `platter compare`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each PATH is a result of `platter bench io --json` (also with --repeat or of a job file), one of fio \
(--output-format=json or json+), a file with several of them, or a directory of such files that end in .json: the runs \
of one thing. The first is the base; each other one is compared with it, job by job.

An interval is that of the ratio new/base: it comes from exchanging runs between the sides in all ways (a permutation \
test), so it holds for few runs and whatever their distribution. 4 to 7 runs of each are needed, depending on the number of \
figures; with fewer, blocks of the runs over time take their place if the results have them (`bench io`), and what differs from run to \
run is then not known. All intervals of a comparison hold together at --confidence: equal things look different in at \
most 5 of 100 comparisons. Interleave the runs (base, new, base, new, ...), so that a drift of the machine \
does not look like a difference, and give --paired then.

Examples:
  platter compare base.json new.json
  platter compare base/ new/ --metric iops,lat_p99_ns --fail-if-worse 5%
  platter compare fio-6.1.json fio-6.6.json --paired --report page.html

JSON: one object; docs/compare.md lists its keys. Exit status: 1 if --fail-if-worse is given and a figure is worse by more \
than that, or if that cannot be told.")]
pub(crate) struct Compare {
    /// Files or directories of results; the first is the base
    #[arg(value_name = "PATH", required = true, num_args = 2..)]
    paths: Vec<PathBuf>,
    /// Figures to compare: iops, mib_per_s, lat_mean_ns, lat_p50_ns, lat_p99_ns, lat_p999_ns, cpu_ns_per_io. More figures make the
    /// intervals wider
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = metric, default_value = "iops,lat_p50_ns,lat_p99_ns,cpu_ns_per_io")]
    metric: Vec<Metric>,
    /// Run i of the base and run i of the other belong together: they were measured one after the other
    #[arg(long)]
    paired: bool,
    /// The probability, in percent, that all intervals of a comparison are right: 50 to 99.99
    #[arg(long, value_name = "PERCENT", default_value = "95%", value_parser = confidence)]
    confidence: f64,
    /// Fail if a figure is worse by more than this, and that is no chance: 0 to 1000
    #[arg(long, value_name = "PERCENT", value_parser = loss)]
    fail_if_worse: Option<f64>,
    /// Also write the comparison to this file, as one HTML page with charts
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Replace a page that exists
    #[arg(long, requires = "report")]
    force: bool,
}

fn metric(text: &str) -> Result<Metric, String> {
    let known = || Metric::ALL.map(Metric::name).join(", ");
    Metric::named(text).ok_or_else(|| format!("there is no figure of this name; known are {}", known()))
}

/// A number of percent, with or without the sign.
fn percent(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let wrong = || format!("give percent from {} to {}, such as 5%", range.start(), range.end());
    number
        .parse()
        .ok()
        .filter(|value| range.contains(value))
        .map(|value: f64| value / 100.0)
        .ok_or_else(wrong)
}

fn confidence(text: &str) -> Result<f64, String> {
    percent(text, 50.0..=99.99)
}

fn loss(text: &str) -> Result<f64, String> {
    percent(text, 0.0..=1000.0)
}

impl Compare {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let report = self.report.as_deref();
        let page = report.map(|path| OutFile::create(path, self.force, &self.paths)).transpose()?;
        if page.as_ref().is_some_and(OutFile::is_stdout) {
            return Err(CliError::usage("--report -: the result goes to stdout; give the path of a file"));
        }
        let mut metrics = self.metric.clone();
        metrics.sort();
        metrics.dedup();
        let plan = Plan { metrics, paired: self.paired, confidence: self.confidence };
        let read = |path: &PathBuf| Context::unattended(|| Side::read(path));
        let sides = self.paths.iter().map(read).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let Some((base, others)) = sides.split_first() else {
            return Err(CliError::usage("give two results"));
        };
        let compared = others.iter().map(|new| compare::compare(base, new, &plan));
        let compared = compared.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        match context.json {
            true => context.print_json(&json!({
                "confidence_pct": self.confidence * 100.0,
                "paired": self.paired,
                "fail_if_worse_pct": self.fail_if_worse.map(|share| share * 100.0),
                "is_worse": self.fail_if_worse.map(|share| compared.iter().any(|one| one.losses(share).next().is_some())),
                "comparisons": compared.iter().map(Comparison::to_json).collect::<Vec<_>>(),
            }))?,
            false => {
                let texts: Vec<String> = compared.iter().map(|one| one.to_text(context.terminal)).collect();
                context.print(&texts.join("\n"))?;
            }
        }
        if let Some(mut page) = page {
            page.write(compare::page(&compared).as_bytes())?;
            page.keep()?;
        }
        self.judge(&compared)
    }

    /// Whether the result is what --fail-if-worse asks for.
    fn judge(&self, compared: &[Comparison]) -> Result<(), CliError> {
        let Some(most) = self.fail_if_worse else { return Ok(()) };
        let mut losses =
            compared.iter().flat_map(|one| one.losses(most).map(move |row| (&one.new.name, row)));
        let Some((name, row)) = losses.next() else { return Ok(()) };
        let (figure, more) = (format!("{name}: {} {}", row.job, row.metric.name()), losses.count());
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let most = format!("{} %", fixed(most * 100.0, 1));
        Err(CliError::failed(match row.ratio {
            Some(_) => {
                let by = change((row.estimate() - 1.0) * 100.0);
                format!("{figure} is worse by {by}, more than {most}{more}")
            }
            None => format!("{figure} is {}, so --fail-if-worse {most} cannot be told{more}", row.words()),
        }))
    }
}

fn failed(error: CompareError) -> CliError {
    CliError::failed(error.to_string())
}
