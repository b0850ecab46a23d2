//! Traces of block I/O. The first byte of an input chooses its format, the rest is the trace.

use super::hold;
use crate::bytes;
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use platter_traces::{
    Conversion, Event, Format, Input, Item, Loss, MOST_END, MOST_LENGTH, Merged, Place, Report, TABLE,
    TraceError,
};
use std::fmt::Write;

pub(super) const TARGET: Target = Target {
    name: "trace",
    summary: "traces of blktrace, blkparse, fio and public sets, converted and summed up",
    generate,
    mutate,
    read,
    memory: 64 << 20,
};

const WORDS: &[&str] = &[
    ",",
    "\n",
    " ",
    " + ",
    " / ",
    " <- (8,1) ",
    "[a]",
    "-1",
    "0",
    "1.5",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18014398509481984",
    "4294967295",
    "4294967296",
    "128166372003061629",
    "R",
    "W",
    "Read",
    "FWFSM",
    "UT",
    "wait",
    "sync",
    "trim",
    "fio version 2 iolog\n",
    "fio version 3 iolog\n",
    "Timestamp,Response,IOType,LUN,Offset,Size\n",
    "cmd,len,lbn,ts\n",
    "CPU0 (8,0):\n",
    "8,0    0        0     0.000000000     0  m   N text\n",
];

/// The format that the first byte of an input chooses, and another one to convert to.
fn formats(choice: u8) -> (Format, Format) {
    let count = TABLE.len();
    (TABLE[usize::from(choice) % count].format, TABLE[usize::from(choice) / count % count].format)
}

/// A trace as blkparse prints it.
fn events(rng: &mut Rng) -> String {
    let mut text = String::new();
    let mut time = rng.extreme(40);
    for sequence in 1..2 + rng.below(12) {
        time += rng.extreme(24);
        let (seconds, rest) = (time / 1_000_000_000, time % 1_000_000_000);
        let action = rng.pick(&["Q", "Q", "Q", "G", "I", "D", "C", "M", "F", "X", "A", "U", "P", "R"]);
        let kind = rng.pick(&["R", "W", "WS", "FWFS", "FN", "D", "RA", "RM", "N"]);
        let (device, sector, count) = (rng.below(3), rng.extreme(54), rng.below(64));
        let tail = match *action {
            "X" => format!("{sector} / {} [a]", sector + rng.below(64)),
            "A" => format!("{sector} + {count} <- (8,{}) {}", rng.below(4), rng.extreme(40)),
            "C" | "R" => format!("{sector} + {count} [{}]", rng.below(2)),
            "U" => format!("[a] {}", rng.below(9)),
            "P" => "[a]".to_owned(),
            _ => format!("{sector} + {count} [p{}]", rng.below(3)),
        };
        let _ = writeln!(
            text,
            "8,{device} {} {sequence} {seconds}.{rest:09} {} {action} {kind} {tail}",
            rng.below(2),
            rng.below(4)
        );
    }
    text
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let choice = rng.any() as u8;
    let text = events(rng);
    let mut input = vec![choice];
    match convert(Format::Blkparse, text.as_bytes(), formats(choice).0) {
        Ok((trace, _)) => input.extend(trace),
        // Events of a sector near the end of the range may be refused.
        Err(_) => input.extend(text.as_bytes()),
    }
    input
}

fn mutate(rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
    let Some((&choice, rest)) = input.split_first() else { return input.push(rng.any() as u8) };
    let mut trace = rest.to_vec();
    let other = other.get(1..).unwrap_or_default();
    if formats(choice).0 == Format::Blktrace {
        bytes::mutate(rng, &mut trace, other);
    } else {
        text::mutate(rng, &mut trace, other, WORDS);
    }
    if rng.one_in(80) {
        // A line longer than any that is read.
        trace.extend(std::iter::repeat_n(b'7', 70_000));
    }
    input.truncate(1);
    if rng.one_in(16) {
        input[0] = rng.any() as u8;
    }
    input.extend(trace);
}

fn convert(from: Format, trace: &[u8], to: Format) -> Result<(Vec<u8>, Loss), TraceError> {
    let merged = Merged::new(vec![Input::new("0", from, trace)], false)?;
    let mut conversion = Conversion::new(merged, to, None)?;
    let mut out = Vec::new();
    while conversion.step(&mut out)? {}
    Ok((out, conversion.loss().clone()))
}

/// An error names a place in the trace.
fn place(error: &TraceError, trace: &[u8]) -> Result<(), String> {
    let lines = trace.split(|byte| *byte == b'\n').count() as u64;
    let holds = match error.place {
        Place::Whole => true,
        Place::Line(line) => (1..=lines).contains(&line),
        Place::Record(record, byte) => record >= 1 && byte < trace.len() as u64,
    };
    hold(holds, || format!("{error:?} is in no place of the trace"))
}

fn within(event: &Event) -> Result<(), String> {
    let end = event.offset.checked_add(event.length);
    hold(event.length <= MOST_LENGTH && end.is_some_and(|end| end <= MOST_END), || format!("{event:?}"))
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let Some((&choice, trace)) = input.split_first() else {
        return Ok(Verdict::Refused("no format".to_owned()));
    };
    let (from, other) = formats(choice);
    Format::detect(trace);
    let mut source = from.read(trace, "0");
    let (mut first, mut ended) = (None, false);
    while !ended {
        match source.next() {
            Ok(Some(Item::Event(event))) => within(&event)?,
            Ok(Some(Item::Note(_))) => {}
            Ok(None) => ended = true,
            Err(error) => {
                place(&error, trace)?;
                ended = error.is_end;
                first.get_or_insert(error);
            }
        }
    }
    sum(from, trace)?;
    if let Some(error) = first {
        return Ok(Verdict::Refused(error.to_string()));
    }
    // Written in its own format, it stays as it is from then on; in another one, it can be read.
    let (once, _) = convert(from, trace, from).map_err(|error| error.to_string())?;
    let (twice, lost) = convert(from, &once, from).map_err(|error| format!("what was written: {error}"))?;
    hold(once == twice, || format!("{once:?} is written as {twice:?}"))?;
    // A latency that is empty stays so.
    let lost: Vec<_> = lost.rows().filter(|row| row.2 > 0 && row.0 != "latencies_unknown").collect();
    // Names of processes come out of the lines of blkparse.
    hold(from == Format::Blkparse || lost.is_empty(), || format!("{lost:?} is lost of what was written"))?;
    let (changed, _) = convert(from, trace, other).map_err(|error| error.to_string())?;
    convert(other, &changed, other).map_err(|error| format!("as {other:?}: {error}"))?;
    Ok(Verdict::Accepted)
}

/// Sums the trace up.
fn sum(from: Format, trace: &[u8]) -> Result<(), String> {
    let mut merged =
        Merged::new(vec![Input::new("0", from, trace)], true).map_err(|error| error.to_string())?;
    merged.fill().map_err(|error| error.to_string())?;
    let (basis, mut counted) = (merged.basis(), 0);
    let mut report = Report::new(basis);
    while let Some(item) = merged.next_item().map_err(|error| error.to_string())? {
        if let Item::Event(event) = item {
            counted += u64::from(event.action == basis);
            report.add(&event);
        }
    }
    let summary = report.summary();
    hold(summary.ios() == counted, || format!("{} I/Os of {counted} are counted", summary.ios()))?;
    let shown = summary.to_json().to_string();
    hold(!shown.contains("NaN") && !shown.contains("inf"), || shown.clone())
}
