//! The frame of the command: options that all verbs share, how results and errors leave it.

use clap::{Args, ColorChoice, Parser};
use platter::registry::OpenError;
use std::io::Write;
use std::process::ExitCode;

mod context;
mod error;
mod on;
pub(crate) mod progress;
mod signals;
mod size;
mod spec_arg;
mod time;

pub(crate) use context::Context;
pub(crate) use error::{CliError, Exit};
pub(crate) use on::{Force, On};
pub(crate) use size::Size;
pub(crate) use spec_arg::spec_arg;
pub(crate) use time::Time;

use crate::verbs::Verb;

const AFTER_HELP: &str = "\
Device specs:
  A device is a path (/dev/sdb, disk.img) or a name with arguments: null(1T), ram(2G),
  file(/dev/sdb, elevator=deadline, depth=64). `platter list devices` shows them all.
  @FILE reads the spec from a file. Sizes take K, M, G, T (powers of 1024), times take us, ms, s.

Examples:
  platter info /dev/sdb
  platter list elevators
  platter copy --verify /dev/sdb 'file(disk.img, depth=128)'

Exit status:
  0    done
  1    the run failed: an I/O error, a comparison that did not match
  2    wrong usage: the command line, a device spec or a parameter file is wrong in itself
  3    a device cannot be opened: it is missing, in use, holds data, or lacks a member
  4    refused: the devices do not allow what was asked for
  130  interrupted by Ctrl-C (SIGINT); 143 by SIGTERM. A second one ends the program at once.";

/// Platter, a block I/O layer in user space.
#[derive(Parser, Debug)]
#[command(name = "platter", version, after_help = AFTER_HELP, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

/// Options of every verb.
#[derive(Args, Debug, Clone)]
pub(crate) struct Common {
    /// Print the result as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// When to use colour; NO_COLOR in the environment turns `auto` off
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorChoice,
    /// No progress on stderr
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// I/O scheduler of disks whose spec has no `elevator=`, such as deadline or cfq(quantum=8) [env:
    /// PLATTER_ELEVATOR]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) default_elevator: Option<String>,
}

/// Parses the command line, runs the verb, reports its error.
pub(crate) fn main() -> ExitCode {
    platter_repro::policies::register_readahead();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are "errors" with exit code 0. Nothing can be done when printing fails.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { Exit::Done.code() });
        }
    };
    let context = Context::new(&cli.common);
    let default = cli.common.default_elevator.as_deref().map_or(Ok(()), platter::set_default_elevator);
    match default
        .map_err(|error| CliError::from(OpenError::from(error)))
        .and_then(|()| cli.verb.run(&context))
    {
        Ok(()) => ExitCode::from(Exit::Done.code()),
        Err(error) => {
            report(&error);
            ExitCode::from(error.exit().code())
        }
    }
}

fn report(error: &CliError) {
    if let Some(message) = error.message() {
        // Without a stderr the exit status has to do.
        let _ = writeln!(std::io::stderr(), "platter: {message}");
    }
}

/// Reports an error and ends the process at once, without waiting for I/O that devices still have.
pub(crate) fn exit_now(error: &CliError) -> ! {
    report(error);
    std::process::exit(error.exit().code().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The commands whose help is checked, with their subcommands.
    const CHECKED: [&str; 4] = ["copy", "info", "list", "raid"];

    #[test]
    fn help_leaves_the_breaking_of_lines_to_the_terminal() {
        let command = Cli::command();
        let verbs = command.get_subcommands().filter(|verb| CHECKED.contains(&verb.get_name()));
        let all: Vec<_> = verbs.flat_map(|verb| verb.get_subcommands().chain([verb])).collect();
        assert_eq!(all.len(), 7);
        for verb in all {
            let help = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
            for paragraph in help.split("\n\n") {
                // Examples and tables are indented.
                let broken = paragraph.lines().skip(1).find(|line| !line.starts_with("  "));
                assert_eq!(broken, None, "{}: a paragraph is broken by hand", verb.get_name());
            }
        }
    }
}
