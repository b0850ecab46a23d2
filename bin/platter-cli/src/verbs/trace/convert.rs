//! `platter trace convert`.

use super::inputs::{self, Meter, Reading, malformed, parse_format};
use super::outfile::OutFile;
use crate::cli::{CliError, Context};
use clap::Args;
use platter_bench::report::units::thousands;
use platter_traces::{Conversion, Format};
use serde_json::{Map, Value, json};
use std::path::PathBuf;

/// Bytes after which output is written.
const CHUNK: usize = 64 << 10;

/// Arguments of `platter trace convert`.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub(crate) struct Convert {
    /// The traces, `-` for stdin, and last the file to write, `-` for stdout
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Format of the output [default: what its name says]
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    to: Option<Format>,
    /// Replace a file that exists
    #[arg(long)]
    force: bool,
}

fn after_help() -> String {
    format!(
        "Several inputs, such as the files that blktrace writes for each processor, become one, in order of time. \
What the format of the output cannot hold is left out, counted, and reported on stderr.

{}
Examples:
  platter trace convert sda.blktrace.* sda.dump
  platter trace convert sda.dump sda.iolog
  platter trace convert --to msr sda.dump sda.csv
  platter trace convert --from reads --to alibaba reads.txt -

JSON: an object with `from`, `to`, `basis`, `records_read`, `records_written`, `lost` and `input`; docs/command.md lists the keys.
Exit status: 1 if a record is malformed, and then nothing is written.",
        super::formats()
    )
}

impl Convert {
    pub(super) fn run(&self, context: &Context) -> Result<(), CliError> {
        let (out, ins) = match self.paths.split_last() {
            Some((out, ins)) if !ins.is_empty() => (out, ins),
            _ => return Err(CliError::usage("give at least one trace, and last the file to write")),
        };
        let to =
            self.to.or_else(|| Format::of_name(&out.file_name()?.to_string_lossy())).ok_or_else(|| {
                CliError::usage(format!("{}: its name says no format; give --to", out.display()))
            })?;
        if context.json && out.to_str() == Some("-") {
            return Err(CliError::usage(
                "--json and the trace would both go to stdout; give a path for the trace",
            ));
        }
        let merged = self.reading.open(ins)?;
        let from = merged.format();
        let mut file = OutFile::create(out, self.force, ins)?;
        let mut conversion = Conversion::new(merged, to, self.reading.at()).map_err(malformed)?;
        let (mut meter, mut buffer) = (Meter::new(context), Vec::new());
        while conversion.step(&mut buffer).map_err(malformed)? {
            if buffer.len() >= CHUNK {
                file.write(&buffer)?;
                buffer.clear();
            }
            if !meter.count(context) {
                let read = thousands(conversion.records_read());
                return Err(
                    context.interruption(format!("interrupted after {read} records: nothing is written"))
                );
            }
        }
        file.write(&buffer)?;
        drop(meter);
        let is_stdout = file.is_stdout();
        file.keep()?;
        notes(context, &conversion, to);
        if context.json {
            return context.print_json(&to_json(&conversion, from, to));
        }
        match is_stdout {
            true => Ok(()),
            false => context.print(&format!(
                "{} records read, {} written to {} ({})\n",
                thousands(conversion.records_read()),
                thousands(conversion.records_written()),
                out.display(),
                to.row().name
            )),
        }
    }
}

/// What was lost, on stderr.
fn notes(context: &Context, conversion: &Conversion<'_>, to: Format) {
    inputs::notes(context, conversion.merged());
    let name = to.row().name;
    for (_, words, number) in conversion.loss().rows().filter(|row| row.2 > 0) {
        context.note(&format!("lost or changed in {name}: {words}: {}", thousands(number)));
    }
    if conversion.lacks_start() {
        context.note("the trace does not say when it began: times begin in 1970");
    }
    if conversion.lacks_times() {
        context.note("the trace has no times: all are 0");
    }
}

fn to_json(conversion: &Conversion<'_>, from: Option<Format>, to: Format) -> Value {
    let lost: Map<String, Value> =
        conversion.loss().rows().map(|(name, _, number)| (name.to_owned(), json!(number))).collect();
    json!({
        "from": from.map(|from| from.row().name),
        "to": to.row().name,
        "basis": conversion.basis().letters(),
        "records_read": conversion.records_read(),
        "records_written": conversion.records_written(),
        "lost": lost,
        "input": inputs::notes_json(conversion.merged()),
    })
}
