//! Traces of measured service times.

use super::{hold, text_of};
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use platter_block::bio::Op;
use platter_sim::validate::{Traced, parse_trace};
use std::fmt::Write;
use std::path::Path;

pub(super) const TARGET: Target = Target {
    name: "service-trace",
    summary: "traces of service times, as `sim validate` reads them",
    generate,
    mutate: |rng, input, other| text::mutate(rng, input, other, WORDS),
    read,
    memory: 4 << 20,
};

const WORDS: &[&str] = &[
    "R",
    "W",
    "Miss",
    "Hit",
    " ",
    "\n",
    "\t",
    "18446744073709551615",
    "4294967295",
    "0",
    "1e11",
    "999999999999",
    "0.0005",
];

/// Sectors of the disk that the traces are of.
const SECTORS: u64 = 1 << 40;

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..rng.below(12) {
        let (op, word) = (*rng.pick(&["R", "W"]), *rng.pick(&["Miss", "Hit"]));
        let bits = if rng.one_in(16) { 41 } else { 39 };
        let (sector, sectors) = (rng.extreme(bits), 1 + rng.below(300));
        let _ = writeln!(
            text,
            "{op} {word} {sector} {sectors} {}.{:03} {}",
            rng.extreme(24),
            rng.below(1000),
            rng.below(5000)
        );
    }
    text.into_bytes()
}

/// The text of requests; reading it gives them again.
fn written(trace: &[Traced]) -> String {
    let mut text = String::new();
    for request in trace {
        let Traced { sector, sectors, measured, gap, .. } = request;
        let op = if request.op == Op::Read { "R" } else { "W" };
        let micros = |nanos: &u64| format!("{}.{:03}", nanos / 1000, nanos % 1000);
        let _ = writeln!(text, "{op} x {sector} {sectors} {} {}", micros(measured), micros(gap));
    }
    text
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let text = text_of(input);
    let trace = match parse_trace(&text, Path::new("disk.trace"), SECTORS) {
        Ok(trace) => trace,
        Err(error) => {
            hold(error.line as usize <= text.lines().count(), || format!("there is no line {}", error.line))?;
            return Ok(Verdict::Refused(error.to_string()));
        }
    };
    let inside =
        |request: &Traced| request.sectors > 0 && request.sector + u64::from(request.sectors) <= SECTORS;
    hold(trace.iter().all(inside), || format!("{trace:?}"))?;
    let again = parse_trace(&written(&trace), Path::new("again"), SECTORS);
    hold(again.as_ref() == Ok(&trace), || format!("{trace:?} is written as {again:?}"))?;
    Ok(Verdict::Accepted)
}
