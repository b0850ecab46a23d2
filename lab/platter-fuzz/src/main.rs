//! The command that fuzzes.

use clap::Parser;
use platter_fuzz::campaign::{self, Campaign, Finding};
use platter_fuzz::edges;
use platter_fuzz::guard;
use platter_fuzz::input_name;
use platter_fuzz::run::Target;
use platter_fuzz::targets;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Fuzzes every parser of untrusted bytes. Continues where the last run stopped.
#[derive(Parser)]
#[command(
    name = "platter-fuzz",
    after_help = "Exit status: 0 nothing found, 1 a bug was found, 2 it could not run."
)]
struct Options {
    /// Fuzz only these formats; --list shows them
    #[arg(long, value_name = "NAME")]
    target: Vec<String>,
    /// Stop after this many seconds, shared evenly by the formats
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Stop after this many runs of each format, however long they take
    #[arg(long, value_name = "N")]
    runs: Option<u64>,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Folder for the number of the next run of each format, the inputs that took new branches and those that show a bug
    #[arg(long, value_name = "DIR", default_value = "target/fuzz")]
    state: PathBuf,
    /// Parse these inputs of the one --target, and print the result of each
    #[arg(long, value_name = "FILE", num_args = 1..)]
    replay: Vec<PathBuf>,
    /// Rewrite the committed corpus of each format from itself and the inputs in --state; needs
    /// scripts/fuzz-long
    #[arg(long)]
    minimise: bool,
    /// List the formats
    #[arg(long)]
    list: bool,
}

/// Most attempts to shrink an input.
const SHRINK: u32 = 2000;

fn main() -> ExitCode {
    let options = Options::parse();
    match chosen(&options).and_then(|all| carry_out(&options, &all).map_err(|error| error.to_string())) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(wrong) => {
            eprintln!("platter-fuzz: {wrong}");
            ExitCode::from(2)
        }
    }
}

fn chosen(options: &Options) -> Result<Vec<&'static Target>, String> {
    if options.target.is_empty() {
        return Ok(targets::ALL.iter().collect());
    }
    let known = |name: &String| {
        targets::by_name(name).ok_or_else(|| format!("there is no format {name}; see --list"))
    };
    options.target.iter().map(known).collect()
}

/// Whether nothing was found.
fn carry_out(options: &Options, all: &[&'static Target]) -> io::Result<bool> {
    if options.list {
        all.iter().for_each(|target| println!("{:<14} {}", target.name, target.summary));
        return Ok(true);
    }
    guard::start(options.state.join("found"));
    if !options.replay.is_empty() {
        let [target] = all else {
            return Err(io::Error::other("--replay needs one --target, that of the inputs"));
        };
        return replay(target, &options.replay);
    }
    if options.minimise {
        return minimise(options, all).map(|()| true);
    }
    let mut clean = true;
    for target in all {
        clean &= fuzz(options, target, all.len() as u32)?;
    }
    Ok(clean)
}

fn replay(target: &Target, files: &[PathBuf]) -> io::Result<bool> {
    let mut clean = true;
    for file in files {
        let told = platter_fuzz::run::run(target, &fs::read(file)?);
        clean &= told.is_ok();
        match told {
            Ok((verdict, usage)) => println!("{}: {verdict:?}, {usage:?}", file.display()),
            Err(wrong) => println!("{}: BUG: {wrong}", file.display()),
        }
    }
    Ok(clean)
}

/// The committed corpus and the inputs kept by earlier runs.
fn corpus(options: &Options, target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let mut inputs = campaign::inputs_in(&campaign::committed().join(target.name))?;
    inputs.extend(campaign::inputs_in(&options.state.join(target.name))?);
    Ok(inputs)
}

fn fuzz(options: &Options, target: &'static Target, share: u32) -> io::Result<bool> {
    fs::create_dir_all(&options.state)?;
    let place = options.state.join(format!("{}.{}.next", target.name, options.seed));
    let first = fs::read_to_string(&place).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let mut campaign = Campaign::new(target, options.seed, corpus(options, target)?);
    if edges::are_counted() {
        campaign = campaign.keeping(options.state.join(target.name));
    }
    let begun = Instant::now();
    let time = Duration::from_secs(options.seconds) / share;
    // The clock is read once in 32 runs.
    let go_on = |run: u64| match options.runs {
        Some(runs) => run < first + runs,
        None => !run.is_multiple_of(32) || begun.elapsed() < time,
    };
    println!("{:<14} seed {}, from run {first}", target.name, options.seed);
    let result = campaign.replay().and_then(|()| campaign.runs(first, go_on));
    let tally = campaign.tally();
    let edges = if tally.edges > 0 { format!(", {} branches", tally.edges) } else { String::new() };
    println!(
        "{:<14} {} runs in {:.1} s, {} accepted, {} KiB at most{edges}",
        "",
        tally.runs,
        begun.elapsed().as_secs_f64(),
        tally.accepted,
        tally.peak >> 10
    );
    match result {
        Ok(next) => fs::write(&place, format!("{next}\n")).map(|()| true),
        Err(finding) => {
            if let Some(run) = finding.run {
                // Continues after the run that was found.
                fs::write(&place, format!("{}\n", run + 1))?;
            }
            report(&options.state, target, finding)
        }
    }
}

fn report(state: &Path, target: &Target, finding: Finding) -> io::Result<bool> {
    let run = finding.run.map_or("an input of the corpus".to_owned(), |run| format!("run {run}"));
    let small = campaign::shrink(target, finding, SHRINK);
    let folder = state.join("found").join(target.name);
    fs::create_dir_all(&folder)?;
    let path = folder.join(input_name::name_of(&small.input));
    fs::write(&path, &small.input)?;
    println!("{:<14} BUG in {run}: {}", "", small.wrong);
    println!("{:<14} again: platter-fuzz --target {} --replay {}", "", target.name, path.display());
    Ok(false)
}

fn minimise(options: &Options, all: &[&'static Target]) -> io::Result<()> {
    if !edges::are_counted() {
        return Err(io::Error::other(
            "branches are not counted: use scripts/fuzz-long, which builds with counters",
        ));
    }
    for target in all {
        let inputs = corpus(options, target)?;
        let count = inputs.len();
        let kept = campaign::minimised(target, inputs);
        let folder = campaign::committed().join(target.name);
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            // An input that once showed a bug has a name that identifies the bug, and is kept.
            let name = entry.file_name();
            if name.len() == 16 && name.to_str().is_some_and(|name| u64::from_str_radix(name, 16).is_ok()) {
                fs::remove_file(entry.path())?;
            }
        }
        for input in &kept {
            fs::write(folder.join(input_name::name_of(input)), input)?;
        }
        println!("{:<14} {} of {count} inputs", target.name, kept.len());
    }
    Ok(())
}
