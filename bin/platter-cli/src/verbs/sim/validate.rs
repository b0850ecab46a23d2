//! `platter sim validate`: a simulated disk against a trace of a real one.

use super::disk::{self, Named};
use crate::cli::output::Page;
use crate::cli::{CliError, Context};
use clap::Args;
use platter_bench::report::units::{change, fixed, percent};
use platter_bench::report::{Column, Table, Terminal};
use platter_sim::catalogue::Kind;
use platter_sim::validate::{self, Compared, Validation};
use serde_json::{Value, json};
use std::path::PathBuf;

mod page;

/// Arguments of `platter sim validate`.
#[derive(Args, Debug)]
#[command(after_help = "\
A line of the trace is one request: R or W, a word, first sector, sectors, the measured service time and the time
to the next request, both in microseconds. One request is outstanding at a time. The distance is the
root mean square of the horizontal distance between the two distributions; the demerit figure is its share of the
real mean. For traces of DiskSim's validation suite whose figures are known, those of DiskSim are shown beside.

Examples:
  platter sim validate --disk cheetah9LP.diskspecs --trace cheetah9LP.trace
  platter sim validate --disk ibm18es --trace ibm18es.trace --report ibm18es.html --json

JSON: one object; docs/command.md has its keys. The exit status is 2 if a file cannot be read; the message names
file, line and what was expected there.")]
pub(crate) struct Validate {
    /// A mechanical disk of the catalogue, or the path of a parameter file of DiskSim
    #[arg(long, value_name = "FILE|NAME")]
    disk: String,
    /// The trace of the real disk
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// The parameter file with the bus, if it is not beside the disk's
    #[arg(long, value_name = "FILE")]
    parv: Option<PathBuf>,
    /// Also write a page with the two distributions to this file
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

impl Validate {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let params = match disk::find(&self.disk, self.parv.as_deref())? {
            Named::File(params) => *params,
            Named::Model(row) => match row.kind {
                Kind::Mechanical(params) => params(),
                _ => {
                    let wrong = format!(
                        "--disk {}: expected a mechanical disk; `platter sim list --json` has kinds",
                        row.name
                    );
                    return Err(CliError::usage(wrong));
                }
            },
        };
        let model = validate::disk(params).map_err(|error| CliError::usage(error.to_string()))?;
        let trace = validate::load_trace(&self.trace, model.sectors())
            .map_err(|error| CliError::usage(error.to_string()))?;
        let page = Page::open(self.report.as_deref(), [])?;
        let result = validate::replay(model, &trace);
        context.show(&self.json(&result), &text(&result, context.terminal))?;
        page.write(|| page::html(&self.disk, &self.trace.to_string_lossy(), &result))
    }

    fn json(&self, result: &Validation) -> Value {
        let mut object = json!({
            "disk": self.disk,
            "trace": self.trace.to_string_lossy(),
            "within_250us_read_pct": result.within_250us_read_pct,
            "correlation": result.correlation,
        });
        for (end, part) in [("", &result.all), ("_read", &result.reads), ("_write", &result.writes)] {
            object[format!("requests{end}")] = json!(part.requests);
            object[format!("real_mean_ms{end}")] = json!(of_requests(part, part.real_mean_ms));
            object[format!("sim_mean_ms{end}")] = json!(of_requests(part, part.sim_mean_ms));
            object[format!("rms_ms{end}")] = json!(of_requests(part, part.rms_ms));
            object[format!("demerit{end}")] = json!(of_mean(part, part.demerit));
        }
        let known = validate::disksim(&result.all);
        object["disksim_mean_ms"] = json!(known.map(|known| known.mean_ms));
        for (place, end) in ["", "_read", "_write"].into_iter().enumerate() {
            object[format!("disksim_rms_ms{end}")] = json!(known.map(|known| known.rms_ms[place]));
        }
        object
    }
}

/// A figure of a part of the trace, if it has any requests.
fn of_requests(part: &Compared, figure: f64) -> Option<f64> {
    (part.requests > 0).then_some(figure)
}

/// A figure that is a share of the real mean, if that is not 0.
fn of_mean(part: &Compared, figure: f64) -> Option<f64> {
    (part.real_mean_ms > 0.0).then_some(figure)
}

/// The figures as a table.
fn table(result: &Validation) -> Table {
    let mut table = Table::new([
        Column::text(""),
        Column::number("requests", ""),
        Column::number("real mean", "ms"),
        Column::number("simulated mean", "ms"),
        Column::number("difference", ""),
        Column::number("distance", "ms"),
        Column::number("demerit", ""),
        Column::number("of DiskSim: mean", "ms"),
        Column::number("distance", "ms"),
    ]);
    let known = validate::disksim(&result.all);
    let parts = [("all", &result.all), ("reads", &result.reads), ("writes", &result.writes)];
    for (place, (name, part)) in parts.into_iter().enumerate() {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| fixed(value, 3));
        let Compared { requests, real_mean_ms, sim_mean_ms, rms_ms, demerit } = *part;
        table.row([
            name.to_owned(),
            requests.to_string(),
            figure(of_requests(part, real_mean_ms)),
            figure(of_requests(part, sim_mean_ms)),
            of_mean(part, part.mean_error_pct()).map_or_else(|| "-".to_owned(), change),
            figure(of_requests(part, rms_ms)),
            figure(of_mean(part, demerit)),
            figure(known.filter(|_| place == 0).map(|known| known.mean_ms)),
            figure(known.map(|known| known.rms_ms[place])),
        ]);
    }
    table.group_thousands()
}

/// Facts other than the table.
fn facts(result: &Validation) -> [(&'static str, String); 2] {
    [
        ("reads within 0.25 ms of the real disk", percent(result.within_250us_read_pct)),
        ("correlation, request by request", fixed(result.correlation, 3)),
    ]
}

fn text(result: &Validation, terminal: Terminal) -> String {
    let mut text = table(result).to_text(terminal);
    text.push('\n');
    for (name, fact) in facts(result) {
        text += &terminal.fact(name, &fact);
    }
    text
}
