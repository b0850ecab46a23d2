//! The parts that all verbs share: common options, and the output of results and errors.

use clap::{Args, ColorChoice};
use std::io::Write;

mod context;
mod error;
mod list;
mod on;
pub(crate) mod output;
pub(crate) mod progress;
mod signals;
mod size;
mod spec_arg;
mod time;

pub(crate) use context::Context;
pub(crate) use error::{CliError, Exit};
pub(crate) use list::split_list;
pub(crate) use on::{Force, On};
pub(crate) use size::Size;
pub(crate) use spec_arg::spec_arg;
pub(crate) use time::Time;

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

/// Prints the message of an error.
pub(crate) fn report(error: &CliError) {
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
