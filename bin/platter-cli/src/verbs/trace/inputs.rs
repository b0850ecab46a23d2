//! The traces that a verb reads.

use crate::cli::progress::Progress;
use crate::cli::{CliError, Context, Exit};
use clap::{Args, ValueEnum};
use platter_bench::report::units::thousands;
use platter_traces::{Action, DETECT, Format, Input, Merged, Skipped, TABLE, TraceError};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

/// Records between two looks at the clock and at signals.
const EVERY: u64 = 4096;

/// Options of verbs that read traces.
#[derive(Args, Debug)]
pub(super) struct Reading {
    /// Format of the inputs [default: what their contents say, or their names]
    #[arg(long, value_name = "FORMAT", value_parser = parse_format)]
    from: Option<Format>,
    /// The event at which an I/O counts as one [default: queue, or the first later one that the trace has]
    #[arg(long, value_name = "EVENT")]
    at: Option<At>,
    /// Pass over what cannot be read, and count it
    #[arg(long)]
    keep_going: bool,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
enum At {
    Queue,
    Issue,
    Complete,
}

/// The format of a name.
pub(super) fn parse_format(name: &str) -> Result<Format, String> {
    let known = || TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    Format::by_name(name).ok_or_else(|| format!("unknown format; expected one of: {}", known()))
}

impl Reading {
    /// The event at which an I/O counts as one, if it was given.
    pub(super) fn at(&self) -> Option<Action> {
        self.at.map(|at| match at {
            At::Queue => Action::Queue,
            At::Issue => Action::Issue,
            At::Complete => Action::Complete,
        })
    }

    /// Opens the inputs.
    pub(super) fn open(&self, paths: &[PathBuf]) -> Result<Merged<'static>, CliError> {
        let inputs = paths.iter().map(|path| self.input(path)).collect::<Result<Vec<_>, CliError>>()?;
        Merged::new(inputs, self.keep_going).map_err(|error| CliError::usage(error.to_string()))
    }

    fn input(&self, path: &Path) -> Result<Input<'static>, CliError> {
        let shown = path.display().to_string();
        let cannot = |error: io::Error| CliError::new(Exit::CannotOpen, format!("{shown}: {error}"));
        // A named pipe waits for its writer, and what it reads for that.
        let (start, reader) = Context::unattended(|| -> io::Result<(Vec<u8>, Box<dyn Read>)> {
            let mut reader: Box<dyn Read> = match path.to_str() {
                Some("-") => Box::new(io::stdin()),
                _ => Box::new(File::open(path)?),
            };
            let mut start = Vec::new();
            Read::by_ref(&mut reader).take(DETECT as u64).read_to_end(&mut start)?;
            Ok((start, reader))
        })
        .map_err(cannot)?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let found = self.from.or_else(|| Format::detect(&start)).or_else(|| Format::of_name(&name));
        let format = found.ok_or_else(|| {
            let names = TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
            CliError::usage(format!(
                "{shown}: its format cannot be told from its contents; give --from, one of: {names}"
            ))
        })?;
        let whole = BufReader::with_capacity(256 << 10, io::Cursor::new(start).chain(reader));
        Ok(Input::new(&shown, format, whole))
    }
}

/// A record or an input is wrong.
pub(super) fn malformed(error: TraceError) -> CliError {
    CliError::failed(error.to_string())
}

/// Progress over the records, and a look at signals.
pub(super) struct Meter {
    progress: Progress,
    records: u64,
}

impl Meter {
    pub(super) fn new(context: &Context) -> Meter {
        Meter { progress: Progress::new(context.progress), records: 0 }
    }

    /// Counts a record. `false` when a signal asks to stop.
    pub(super) fn count(&mut self, context: &Context) -> bool {
        self.records += 1;
        if !self.records.is_multiple_of(EVERY) {
            return true;
        }
        if self.progress.is_due() {
            self.progress.show(&format!("{} records", thousands(self.records)));
        }
        !context.is_interrupted()
    }
}

/// Notes about what was not read.
pub(super) fn notes(context: &Context, merged: &Merged<'_>) {
    let passed = merged.passed();
    if let Some(first) = &passed.first {
        context.note(&format!(
            "{} records cannot be read and were passed over; the first: {first}",
            thousands(passed.records)
        ));
    }
    if passed.inputs > 0 {
        context.note(&format!("{} of the inputs were not read to their end", passed.inputs));
    }
    let Skipped { unknown, cgroups, data } = merged.skipped();
    let rows = [
        (unknown, "records of unknown actions were passed over"),
        (cgroups, "numbers of cgroups were left out"),
        (data, "records have data of commands or drivers, which was left out"),
    ];
    for (number, words) in rows.into_iter().filter(|row| row.0 > 0) {
        context.note(&format!("{} {words}", thousands(number)));
    }
}

/// The same as JSON.
pub(super) fn notes_json(merged: &Merged<'_>) -> Value {
    let (passed, skipped) = (merged.passed(), merged.skipped());
    json!({
        "bad_records": passed.records,
        "cut_inputs": passed.inputs,
        "first_error": passed.first.as_ref().map(ToString::to_string),
        "disorder": merged.disorder(),
        "unknown": skipped.unknown,
        "cgroups": skipped.cgroups,
        "data": skipped.data,
    })
}
