//! SQLite under power cuts: `cargo run --release -p platter-engines --example sqlite -- runs=20 transactions=20`.

use platter_engines::report::{self, Options};
use platter_engines::sqlite::{Journal, Load, Synchronous};
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match Options::usual(3, 6).read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let ways = [
        (Journal::Delete, Synchronous::Extra),
        (Journal::Truncate, Synchronous::Full),
        (Journal::Persist, Synchronous::Full),
        (Journal::Wal, Synchronous::Full),
        (Journal::Wal, Synchronous::Normal),
    ];
    let mut is_well = true;
    for (journal, synchronous) in ways {
        let load =
            |seed| Load { seed, transactions: options.transactions, journal, synchronous, ..Load::default() };
        if options.selects(&load(options.seed)) {
            is_well &= report::print(options.seed, options.runs, load);
        }
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
