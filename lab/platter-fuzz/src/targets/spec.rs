//! Device specs and readahead policies.

use super::{hold, text_of};
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use platter::registry::{self, find, names};
use platter::spec::{
    self, ArgValue, Args, Argument, ArgumentKind, Signature, Spec, SpecError, SpecErrorKind, Words,
};
use platter_block::params::Unit;
use std::time::Duration;

pub(super) const TARGET: Target = Target {
    name: "spec",
    summary: "device specs and readahead policies, with the arguments of every device",
    generate,
    mutate: |rng, input, other| text::mutate(rng, input, other, WORDS),
    read,
    memory: 8 << 20,
};

const WORDS: &[&str] = &[
    "(",
    ")",
    "()",
    ",",
    "=",
    "\"",
    "\\",
    "\\x",
    "\\xe9",
    "\\xE",
    "\\u{",
    "\\u{e9}",
    "\\u{110000}",
    "\\n",
    "\\\"",
    "#",
    "# c\n",
    " ",
    "\n",
    "\"a b\"",
    "\"\\x4",
    "file(",
    "ram(",
    "null(",
    "sim(",
    "raid0(",
    "concat(",
    "cache(",
    "partition(",
    "raid(",
    "md(",
    "limit(",
    "every(",
    "journal=",
    "nested=",
    "switch=on",
    "text=",
    "delay(",
    "error(",
    "verify(",
    "size=",
    "chunk=",
    "readahead=",
    "elevator=",
    "cfq(quantum=8)",
    "depth=",
    "path=",
    "64K",
    "1.5G",
    "250us",
    "30s",
    "0",
    "on",
    "off",
    "none",
    "deadline",
    "ondemand",
    "2.6.6+private",
    "2.6.7(runs=2.6.8)",
    "platter(streams=8)",
    "/dev/sdb",
    "a.img",
    "µs",
    "KB",
];

fn gap(rng: &mut Rng) -> &'static str {
    const GAPS: &[&str] = &[" ", "\n", "\t", " # (a, \"b\n"];
    if rng.one_in(4) { GAPS[rng.index(GAPS.len())] } else { "" }
}

/// A word in quotes, with escapes.
fn quoted(rng: &mut Rng) -> String {
    let bytes: Vec<u8> =
        (0..rng.below(6)).map(|_| if rng.one_in(2) { rng.any() as u8 } else { b'a' }).collect();
    let path =
        std::path::PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes));
    spec::quote_path(&path).into_owned()
}

/// A value that the parameter takes, mostly.
fn value(rng: &mut Rng, kind: &ArgumentKind, depth: u64) -> String {
    if rng.one_in(16) {
        return text::number(rng);
    }
    match kind {
        ArgumentKind::Size { min, max } => spec::format_size(rng.extreme(50).clamp(*min, *max)),
        ArgumentKind::Time { min, .. } => spec::format_time(Duration::from_nanos(rng.extreme(50)).max(*min)),
        ArgumentKind::Int { min, max } => rng.extreme(40).clamp(*min, *max).to_string(),
        ArgumentKind::Number { min, max, .. } => (rng.extreme(40) as i64).clamp(*min, *max).to_string(),
        ArgumentKind::Bool => (*rng.pick(&["on", "off", "1", "FALSE"])).to_owned(),
        ArgumentKind::Choice(words) => (*rng.pick(words)).to_owned(),
        ArgumentKind::Nested(words) => {
            let name = *rng.pick((words.0)());
            let param = registry::readahead_params(name).chain(registry::elevator_params(name)).next();
            match param {
                Some(param) if depth > 0 => {
                    format!("{name}({}={})", param.name, value(rng, &param.kind, depth - 1))
                }
                _ => name.to_owned(),
            }
        }
        ArgumentKind::Device => device(rng, depth),
        _ if rng.one_in(2) => quoted(rng),
        _ => (*rng.pick(&["a.img", "/dev/sdb", "cheetah9lp", "x-y_z", "é"])).to_owned(),
    }
}

/// A device of the fuzzer's own with a parameter of every kind, which no one real device has.
const EVERY: &str = "every";

const fn param(name: &'static str, kind: ArgumentKind, default: &'static str) -> Argument {
    Argument { name, kind, default, help: "of one kind" }
}

const EVERY_KIND: &[Argument] = &[
    param("size", ArgumentKind::Size { min: 512, max: 1 << 30 }, "4K"),
    param("time", ArgumentKind::Time { min: Duration::from_nanos(5), max: Duration::MAX }, "1ms"),
    param("at-most", ArgumentKind::Time { min: Duration::ZERO, max: Duration::from_secs(5) }, ""),
    param("int", ArgumentKind::Int { min: 1, max: u64::MAX }, "7"),
    param("number", ArgumentKind::Number { unit: Unit::Millis, min: -5, max: i64::MAX }, ""),
    param("switch", ArgumentKind::Bool, "off"),
    param("choice", ArgumentKind::Choice(&["one", "two", "three"]), "one"),
    param("text", ArgumentKind::Text, ""),
    param("path", ArgumentKind::Path, ""),
    param("nested", ArgumentKind::Nested(Words(registry::readahead_names)), ""),
    param("journal", ArgumentKind::Device, ""),
    // An error in the table, which must not be reported as the user's.
    param("broken", ArgumentKind::Int { min: 1, max: 5 }, "six"),
];

/// The signature of a device, in the one of several shapes that `shape` chooses for the fuzzer's own.
fn signature(name: &str, shape: usize) -> Option<Signature> {
    if name == EVERY {
        let unnamed = [&["size", "path"][..], &["size"], &[], &["gone"]][shape % 4];
        let devices = [1..=3, 0..=0, 2..=usize::MAX, 1..=usize::MAX, 2..=2, 1..=1][shape % 6].clone();
        return Some(Signature { unnamed, tables: &[EVERY_KIND], devices });
    }
    find(name).map(|row| row.signature())
}

fn known() -> Vec<&'static str> {
    names().into_iter().chain([EVERY]).collect()
}

fn device(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 || rng.one_in(8) {
        return if rng.one_in(2) {
            quoted(rng)
        } else {
            (*rng.pick(&["null", "/dev/sdb", "a.img"])).to_owned()
        };
    }
    let name = *rng.pick(&known());
    let shape = rng.index(12);
    let Some(Signature { unnamed, tables, devices }) = signature(name, shape) else { return name.to_owned() };
    let params: Vec<&Argument> = tables.iter().copied().flatten().collect();
    let mut args = Vec::new();
    for _ in 0..rng.below(4) {
        if !params.is_empty() {
            let param = rng.pick(&params);
            let text = value(rng, &param.kind, depth - 1);
            let (before, after) = (gap(rng), gap(rng));
            args.push(format!("{}{before}={after}{text}", param.name));
        }
    }
    if let Some(first) = unnamed.first().and_then(|name| params.iter().find(|param| param.name == *name))
        && rng.one_in(2)
    {
        args.insert(0, value(rng, &first.kind, depth - 1));
    }
    let least = *devices.start() as u64;
    for _ in 0..least + rng.below(2) {
        args.push(device(rng, depth - 1));
    }
    let (before, after) = (gap(rng), gap(rng));
    format!("{before}{}({after}{})", name, args.join(","))
}

fn generate(rng: &mut Rng) -> Vec<u8> {
    let text = match rng.below(16) {
        0 => {
            let name = *rng.pick(registry::readahead_names());
            let params: Vec<_> = registry::readahead_params(name).collect();
            if params.is_empty() {
                name.to_owned()
            } else {
                let param = rng.pick(&params);
                format!("{name}({}={})", param.name, value(rng, &param.kind, 2))
            }
        }
        1 => {
            let deep = rng.below(80) as usize;
            format!("{}null{}", "limit(".repeat(deep), ")".repeat(deep))
        }
        _ => {
            let depth = rng.range(1, 4);
            device(rng, depth)
        }
    };
    text.into_bytes()
}

/// Reads all arguments of a device, and those of the devices below it.
fn read_args(spec: &Spec, shape: usize) -> Result<(), SpecError> {
    let Some(signature) = signature(spec.name(), shape) else { return Err(spec.reject("no such device")) };
    let params: Vec<&Argument> = signature.tables.iter().copied().flatten().collect();
    let mut args = Args::new(spec, &signature)?;
    for Argument { name, kind, .. } in params.into_iter().filter(|param| !param.name.is_empty()) {
        // A device reads only arguments that have an effect together with the others.
        if *name == "text" && !args.is_given("switch") || *name == "broken" && !shape.is_multiple_of(8) {
            continue;
        }
        match kind {
            ArgumentKind::Size { .. } => args.optional(name, Args::size).map(drop),
            ArgumentKind::Time { .. } => args.optional(name, Args::time).map(drop),
            ArgumentKind::Int { .. } => args.optional(name, Args::int).map(drop),
            ArgumentKind::Number { .. } => args.optional(name, Args::number).map(drop),
            ArgumentKind::Bool => args.optional(name, Args::flag).map(drop),
            ArgumentKind::Choice(_) => args.optional(name, Args::one_of).map(drop),
            ArgumentKind::Text => args.optional(name, Args::text).map(drop),
            ArgumentKind::Path => args.optional(name, Args::path).map(drop),
            ArgumentKind::Nested(_) => args.optional(name, Args::nested).map(drop),
            ArgumentKind::Device => args.optional(name, Args::device).map(drop),
            _ => Ok(()),
        }?;
        if let Some(typed) = args.typed(name) {
            drop(args.reject(name, typed).to_string());
            drop(args.unfit(name, typed).to_string());
        }
    }
    for wrong in [args.size("gone").err(), args.flag("size").err()].into_iter().flatten() {
        // Both are errors of a device, unless it has a switch called size.
        debug_assert!(wrong.kind() == SpecErrorKind::Table || wrong.kind() == SpecErrorKind::MissingArgument);
    }
    if !shape.is_multiple_of(3) {
        for member in args.devices() {
            read_args(&member, shape)?;
        }
    }
    args.finish()
}

/// Queries an argument in all ways.
fn look_at(spec: &Spec, len: usize) -> Result<(), String> {
    hold(spec.span().end <= len, || format!("{:?} is past the end of {len} bytes", spec.span()))?;
    for arg in spec.args() {
        hold(arg.span().end <= len && arg.value().span().start >= arg.span().start, || {
            format!("{:?}", arg.span())
        })?;
        match arg.value() {
            ArgValue::Word(word) => {
                let path = word.to_path();
                let again = spec::parse(&format!("file({})", spec::quote_path(&path)), &["file"]);
                let same = again.is_ok_and(|spec| matches!(spec.args(), [arg] if matches!(arg.value(), ArgValue::Word(again) if again.to_path() == path && again.is_utf8() == word.is_utf8())));
                hold(same, || format!("the path {path:?} is another one when it is quoted"))?;
            }
            ArgValue::Spec(spec) => look_at(spec, len)?,
        }
    }
    Ok(())
}

fn told(text: &str, error: &SpecError) -> Result<Verdict, String> {
    hold(text.get(error.span()).is_some(), || format!("{:?} is no part of {text:?}", error.span()))?;
    let shown = error.to_string();
    hold(shown.starts_with(error.message()), || format!("{shown:?} does not begin with its message"))?;
    Ok(Verdict::Refused(shown))
}

fn read(input: &[u8]) -> Result<Verdict, String> {
    let text = text_of(input);
    if let Err(error) = registry::parse_readahead(&text) {
        told(&text, &error)?;
    }
    let spec = match spec::parse(&text, &known()) {
        Ok(spec) => spec,
        Err(error) => return told(&text, &error),
    };
    let written = spec.to_string();
    let again =
        spec::parse(&written, &known()).map_err(|error| format!("{written:?} is refused: {error}"))?;
    hold(again == spec && again.to_string() == written, || format!("{written:?} is another spec"))?;
    look_at(&spec, text.len())?;
    drop(registry::paths(&spec));
    match read_args(&spec, input.len() % 12) {
        Ok(()) => Ok(Verdict::Accepted),
        Err(error) => told(&text, &error),
    }
}
