//! `platter trace report`.

use super::inputs::{self, Meter, Reading, malformed};
use super::outfile::OutFile;
use super::{page, tables};
use crate::cli::{CliError, Context};
use clap::Args;
use platter_bench::report::json::joined;
use platter_traces::{Item, Report as Sum};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `platter trace report`.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(crate) struct Report {
    /// The traces, `-` for stdin; several become one, in order of time
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Also write the report to this file, as one HTML page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Replace a page that exists
    #[arg(long)]
    force: bool,
}

fn after_help() -> String {
    format!(
        "Stages are those of btt: q2q, q2g, q2m, g2i, i2d, m2d, d2c and q2c, as far as the trace has the events. Memory \
does not grow with the trace: p50 and p99 are exact to 1/64; reuse is that of a sample of blocks (SHARDS, FAST \
'15), and working sets are estimates (HyperLogLog, standard error 2.3 %).

{}
Examples:
  platter trace report sda.blktrace.*
  platter trace report sda.dump --json
  platter trace report hm_0.csv --html hm_0.html
  blkparse -i sda | platter trace report -

JSON: an object; docs/command.md lists its keys. Exit status: 1 if a record is malformed.",
        super::formats()
    )
}

impl Report {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let mut merged = self.reading.open(&self.paths)?;
        // Fail before the run if the page cannot be written.
        let html = self.html.as_deref();
        let page = html.map(|path| OutFile::create(path, self.force, &self.paths)).transpose()?;
        if page.as_ref().is_some_and(OutFile::is_stdout) {
            return Err(CliError::usage("--html -: the report goes to stdout; give the path of a file"));
        }
        merged.fill().map_err(malformed)?;
        let mut report = Sum::new(self.reading.at().unwrap_or_else(|| merged.basis()));
        let (mut meter, mut records, mut whole) = (Meter::new(context), 0u64, true);
        while let Some(item) = merged.next_item().map_err(malformed)? {
            records += 1;
            if let Item::Event(event) = item {
                report.add(&event);
            }
            if !meter.count(context) {
                whole = false;
                break;
            }
        }
        drop(meter);
        let summary = report.summary();
        inputs::notes(context, &merged);
        if context.json {
            let more = json!({ "partial": !whole, "records": records, "input": inputs::notes_json(&merged) });
            context.print_json(&joined(summary.to_json(), &more))?;
        } else {
            context.print(&tables::text(&summary, context.terminal))?;
        }
        if let Some(mut page) = page {
            let names: Vec<String> = self.paths.iter().map(|path| path.display().to_string()).collect();
            page.write(page::page(&summary, &names, whole).as_bytes())?;
            page.keep()?;
        }
        match whole {
            true => Ok(()),
            false => Err(context.interruption("interrupted: the report is partial")),
        }
    }
}
