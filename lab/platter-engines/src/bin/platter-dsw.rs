//! `platter-dsw`: records queries of TPC-H on SQLite for `platter bench dsw`.

use clap::Parser;
use platter_engines::dsw::{self, QUERIES, Sql};
use std::fs::Permissions;
use std::io::{Error, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Records which pages decision-support queries read, for `platter bench dsw`
///
/// TPC-H data is put into an SQLite database beside the recording, in a file without a name, and queries that scan are run
/// on it, each with an empty cache. Needs as much space as the data: about 130 MiB at scale 0.1.
#[derive(Parser)]
#[command(
    version,
    after_help = "Example:\n  platter-dsw dsw.recording && platter bench dsw --recording dsw.recording"
)]
struct Arguments {
    /// Scale of the data, 0.001 to 10; 1 is a gigabyte
    #[arg(long, value_name = "N", default_value_t = 0.1)]
    scale: f64,
    /// Only these queries, with commas between them: Q1,Q6
    #[arg(long, value_name = "NAME", num_args = 1, value_delimiter = ',', value_parser = parse_query)]
    query: Vec<&'static Sql>,
    /// No progress
    #[arg(short, long)]
    quiet: bool,
    /// The recording to write; one that is there is replaced
    file: PathBuf,
}

fn parse_query(name: &str) -> Result<&'static Sql, String> {
    let known = || QUERIES.iter().map(|query| query.name).collect::<Vec<_>>().join(", ");
    dsw::find(name).ok_or_else(|| format!("unknown query; expected one of: {}", known()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("platter-dsw: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let dir = match arguments.file.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    let queries = match arguments.query.is_empty() {
        true => QUERIES.iter().collect(),
        false => arguments.query.clone(),
    };
    let mut progress = |now: &str| {
        if !arguments.quiet {
            eprintln!("{now}");
        }
    };
    let (recording, _) =
        dsw::record(dir, arguments.scale, &queries, &mut progress).map_err(|error| error.to_string())?;
    let bytes = recording.to_bytes();
    write_whole(&arguments.file, dir, &bytes)
        .map_err(|error| format!("cannot write {}: {error}", arguments.file.display()))?;
    println!("{}: {} reads of {} queries", arguments.file.display(), recording.reads(), queries.len());
    Ok(())
}

/// Writes a file that is there completely or not at all.
fn write_whole(file: &Path, dir: &Path, bytes: &[u8]) -> Result<(), Error> {
    // As any other new file: the default is for secrets.
    let mode = Permissions::from_mode(0o666);
    let mut part = tempfile::Builder::new().permissions(mode).tempfile_in(dir)?;
    part.write_all(bytes)?;
    part.persist(file)?;
    Ok(())
}
