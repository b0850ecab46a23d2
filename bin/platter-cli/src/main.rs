//! The `platter` command: see `platter --help`.

#![deny(unsafe_code)]

mod cli;
mod command;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    command::main()
}
