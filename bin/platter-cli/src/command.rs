//! The command line as a whole: the options that all verbs share, and the verb.

use crate::cli::{CliError, Common, Context, Exit, report};
use crate::verbs::Verb;
use clap::{CommandFactory, Parser};
use platter::registry::OpenError;
use platter::spec::conceal;
use std::ffi::OsString;
use std::process::ExitCode;

#[cfg(test)]
mod tests;

const AFTER_HELP: &str = "\
Device specs:
  A device is a path (/dev/sdb, disk.img) or a name with arguments: null(1T), ram(2G),
  file(/dev/sdb, elevator=deadline, depth=64). A layer takes devices as arguments:
  cache(size=1G, disk.img) is disk.img with a page cache. `platter list devices` shows them all.
  @FILE reads the spec from a file. Sizes take K, M, G, T, P (powers of 1024), times take ns, us, ms, s.

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
  130  interrupted by Ctrl-C (SIGINT); 143 by SIGTERM; 129 by SIGHUP. A second one ends the program at once.";

/// Platter, a block I/O layer in user space.
#[derive(Parser, Debug)]
#[command(name = "platter", version, after_help = AFTER_HELP, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

/// An argument with marks for the secrets in it: nothing that the command prints, serves or records can have them then.
fn without_secrets(arg: OsString) -> OsString {
    match arg.to_str() {
        Some(text) => conceal(text).into_owned().into(),
        None => arg,
    }
}

/// Parses the command line, runs the verb, reports its error.
pub(crate) fn main() -> ExitCode {
    platter_repro::policies::register_readahead();
    let cli = match Cli::try_parse_from(std::env::args_os().map(without_secrets)) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are "errors" with exit code 0. Nothing can be done when printing fails.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { Exit::Usage.code() } else { Exit::Done.code() });
        }
    };
    if matches!(cli.verb, Verb::Serve(_)) {
        // Before the first thread, because it changes the environment.
        platter_serve::inherited::take();
    }
    let context = Context::new(&cli.common, Cli::command);
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
