//! redb under power cuts: `cargo run --release -p platter-engines --example redb -- runs=20 transactions=40`.

use platter_engines::redb_store::{Commits, Load};
use platter_engines::report::{self, Options};
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match Options::usual(5, 12).read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let ways = [
        Commits::default(),
        Commits { two_phase: true, ..Commits::default() },
        Commits { quick_repair: true, ..Commits::default() },
    ];
    let mut is_well = true;
    for commits in ways {
        let load = |seed| Load { seed, transactions: options.transactions, commits, ..Load::default() };
        if options.selects(&load(options.seed)) {
            is_well &= report::print(options.seed, options.runs, load);
        }
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
