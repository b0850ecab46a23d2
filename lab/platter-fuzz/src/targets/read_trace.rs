//! Traces of reads.

use super::{hold, text_of};
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use platter::spec::parse_size;
use platter_bench::readahead::{Read, trace};
use std::fmt::Write;

pub(super) const TARGET: Target = Target {
    name: "read-trace",
    summary: "traces of reads, as `readahead --trace` reads them",
    generate,
    mutate: |rng, input, other| text::mutate(rng, input, other, WORDS),
    read,
    memory: 4 << 20,
};

const WORDS: &[&str] = &[
    "#",
    "\n",
    " ",
    "\t",
    "0",
    "4K",
    "1.5G",
    "64P",
    "64P1",
    "4096",
    "4095",
    "-1",
    "4G",
    "72057594037927936",
];

/// Size of the device that the traces are of.
const END: u64 = 1 << 40;

fn generate(rng: &mut Rng) -> Vec<u8> {
    let mut text = "# thread handle offset length\n".to_owned();
    for _ in 0..rng.below(12) {
        let len = if rng.one_in(3) {
            format!("{}K", 1 + rng.below(512))
        } else {
            (1 + rng.extreme(20)).to_string()
        };
        let _ = writeln!(text, "{} {} {} {len}", rng.below(4), rng.below(4), rng.extreme(40));
    }
    text.into_bytes()
}

fn parse(text: &str, end: u64) -> Result<Vec<Read>, trace::TraceError> {
    trace::parse_within(text, |size| parse_size(size).map_err(|error| error.to_string()), end)
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let text = text_of(input);
    if let Ok(reads) = parse(&text, u64::MAX) {
        hold(reads.iter().all(|read| read.len > 0 && read.pos.checked_add(read.len).is_some()), || {
            format!("{reads:?}")
        })?;
    }
    let reads = match parse(&text, END) {
        Ok(reads) => reads,
        Err(error) => {
            hold((1..=text.lines().count()).contains(&error.line), || {
                format!("there is no line {}", error.line)
            })?;
            return Ok(Verdict::Refused(error.to_string()));
        }
    };
    hold(reads.iter().all(|read| read.pos < END && read.len <= 1 << 32), || format!("{reads:?}"))?;
    let line = |read: &Read| format!("{} {} {} {}\n", read.thread, read.handle, read.pos, read.len);
    let written: String = reads.iter().map(line).collect();
    hold(parse(&written, END).as_ref() == Ok(&reads), || format!("{written} is read as other reads"))?;
    Ok(Verdict::Accepted)
}
