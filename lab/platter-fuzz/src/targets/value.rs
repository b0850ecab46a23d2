//! Sizes, times, numbers, switches, identifiers, and test parameters of the command line.

use super::{hold, text_of};
use crate::rng::Rng;
use crate::run::{Target, Verdict, check_message};
use crate::text;
use platter::spec::{
    format_size, format_time, parse_bool, parse_choice, parse_int, parse_number, parse_size, parse_time,
};
use platter_bench::workload::Rw;
use platter_block::params::Unit;
use platter_kit::Plan;
use platter_sim::power::Lost;
use platter_stack::array_metadata::Uuid;
use std::fmt::Display;

pub(super) const TARGET: Target = Target {
    name: "value",
    summary: "sizes, times, numbers, switches, UUIDs, power cuts and kinds of load",
    generate,
    mutate: |rng, input, other| text::mutate(rng, input, other, WORDS),
    read,
    memory: 256 << 20,
};

const WORDS: &[&str] = &[
    "K",
    "M",
    "G",
    "T",
    "P",
    "k",
    "B",
    "KiB",
    "KB",
    "ns",
    "us",
    "µs",
    "μs",
    "ms",
    "s",
    ".",
    "0",
    "9",
    "000000000000000000",
    "5",
    "on",
    "OFF",
    "yes",
    "true",
    "io=",
    "lost=",
    "0/1:2+3",
    ",",
    "/",
    ":",
    "+",
    "-",
    "16384P",
    "18014398509481984K",
    "00112233",
    "randread",
    "readwrite",
];

const UNITS: &[Unit] = &[
    Unit::Count,
    Unit::Percent,
    Unit::Bytes,
    Unit::Switch,
    Unit::Millis,
    Unit::Micros,
    Unit::Nanos,
    Unit::Requests,
];

fn generate(rng: &mut Rng) -> Vec<u8> {
    let number = rng.extreme(64) >> rng.below(64);
    let fraction = "0123456789".repeat(1 + rng.below(6) as usize);
    let fraction = &fraction[..1 + rng.index(fraction.len())];
    let unit = *rng.pick(WORDS);
    let text = match rng.below(10) {
        0 => format!("{number}"),
        1 => format_size(number),
        2 => format_time(std::time::Duration::from_nanos(number)),
        3 => format!("{}.{fraction}{unit}", number >> 32),
        4 => format!("{number}{unit}"),
        5 => (*rng.pick(&[
            "on",
            "off",
            "Yes",
            "no",
            "TRUE",
            "false",
            "1",
            "0",
            "readwrite",
            "randtrim",
            "none",
        ]))
        .to_owned(),
        6 => format!(
            "io={number} lost={}/{}:{}+{}",
            rng.extreme(32),
            rng.extreme(8),
            rng.extreme(64),
            rng.below(9)
        ),
        7 => format!("0/1:2+3,{}/{}:{number}+{}", rng.below(3), rng.below(3), rng.extreme(12)),
        8 => Uuid(std::array::from_fn(|_| rng.any() as u8)).to_string(),
        _ => format!("{number}.{}{unit}", "0".repeat(rng.below(60) as usize)),
    };
    text.into_bytes()
}

/// Checks the error message, and counts accepted values.
fn tell<T, E: Display>(accepted: &mut bool, result: Result<T, E>) -> Result<Option<T>, String> {
    match result {
        Ok(value) => {
            *accepted = true;
            Ok(Some(value))
        }
        Err(error) => check_message(&error.to_string()).map(|()| None),
    }
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let text = text_of(input);
    let text = text.lines().next().unwrap_or_default();
    let mut any = false;
    if let Some(size) = tell(&mut any, parse_size(text))? {
        hold(parse_size(&format_size(size)) == Ok(size), || {
            format!("{size} bytes are written as another size")
        })?;
    }
    if let Some(time) = tell(&mut any, parse_time(text))? {
        hold(parse_time(&format_time(time)) == Ok(time), || format!("{time:?} is written as another time"))?;
    }
    if let Some(number) = tell(&mut any, parse_int(text))? {
        hold(text.trim_start_matches('0') == number.to_string().trim_start_matches('0'), || {
            format!("{text} is {number}")
        })?;
    }
    tell(&mut any, parse_bool(text))?;
    tell(&mut any, parse_choice(text, &["none", "deadline", "cfq"]))?;
    for unit in UNITS {
        tell(&mut any, parse_number(text, *unit))?;
    }
    if let Some(rw) = tell(&mut any, text.parse::<Rw>())? {
        hold(rw.to_string() == text || text == "readwrite", || format!("{text} is {rw}"))?;
    }
    if let Some(uuid) = tell(&mut any, text.parse::<Uuid>())? {
        let plain = |text: &str| text.replace(['-', ':'], "").to_lowercase();
        hold(plain(&uuid.to_string()) == plain(text), || format!("{text} is {uuid}"))?;
    }
    if let Some(lost) = tell(&mut any, text.parse::<Lost>())? {
        hold(lost.to_string().parse() == Ok(lost), || format!("{text} is written as other sectors"))?;
    }
    if let Some(plan) = tell(&mut any, text.parse::<Plan>())? {
        hold(plan.to_string().parse() == Ok(plan), || format!("{text} is written as another plan"))?;
    }
    Ok(if any { Verdict::Accepted } else { Verdict::Refused("no value of any kind".to_owned()) })
}
