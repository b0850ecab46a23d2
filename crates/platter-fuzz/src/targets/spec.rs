//! Device specs and readahead policies.

use super::{hold, text_of};
use crate::rng::Rng;
use crate::run::{Target, Verdict};
use crate::text;
use platter::registry::{self, find, names, table};
use platter::spec::{self, ArgValue, Args, ParamKind, Spec, SpecError};
use platter_block::planted::Planted;

pub(super) const TARGET: Target = Target {
    name: "spec",
    summary: "device specs and readahead policies, with the arguments of every device",
    generate,
    mutate: |rng, input, other| text::mutate(rng, input, other, WORDS),
    read,
    memory: 8 << 20,
    planted: Planted::SpecByte,
};

const WORDS: &[&str] = &[
    "(", ")", "()", ",", "=", "\"", "\\", "\\x", "\\xe9", "\\xE", "\\u{", "\\u{e9}", "\\u{110000}", "\\n", "\\\"", "#", "# c\n",
    " ", "\n", "\"a b\"", "\"\\x4", "file(", "ram(", "null(", "sim(", "raid0(", "concat(", "cache(", "partition(", "raid(", "md(",
    "limit(", "delay(", "error(", "verify(", "size=", "chunk=", "readahead=", "elevator=", "cfq(quantum=8)", "depth=", "path=", "64K", "1.5G", "250us", "30s", "0",
    "on", "off", "none", "deadline", "ondemand", "2.6.6+private", "2.6.7(runs=2.6.8)", "platter(streams=8)", "/dev/sdb", "a.img", "µs", "KB",
];

fn gap(rng: &mut Rng) -> &'static str {
    if rng.one_in(4) { *rng.pick(&[" ", "\n", "\t", " # (a, \"b\n"]) } else { "" }
}

/// A word in quotes, with escapes.
fn quoted(rng: &mut Rng) -> String {
    let bytes: Vec<u8> = (0..rng.below(6)).map(|_| if rng.one_in(2) { rng.any() as u8 } else { b'a' }).collect();
    let path = std::path::PathBuf::from(<std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(bytes));
    spec::quote_path(&path).into_owned()
}

/// A value that the parameter takes, mostly.
fn value(rng: &mut Rng, kind: &ParamKind, depth: u64) -> String {
    if rng.one_in(16) {
        return text::number(rng);
    }
    match kind {
        ParamKind::Size { min, max } => spec::format_size(rng.extreme(50).clamp(*min, *max)),
        ParamKind::Time { min, .. } => {
            spec::format_time(std::time::Duration::from_nanos(rng.extreme(50)).max(*min))
        }
        ParamKind::Int { min, max } => rng.extreme(40).clamp(*min, *max).to_string(),
        ParamKind::Number { min, max, .. } => (rng.extreme(40) as i64).clamp(*min, *max).to_string(),
        ParamKind::Bool => (*rng.pick(&["on", "off", "1", "FALSE"])).to_owned(),
        ParamKind::Choice(words) => (*rng.pick(words)).to_owned(),
        ParamKind::Nested(words) => {
            let name = *rng.pick((words.0)());
            let param = registry::readahead_params(name).chain(registry::elevator_params(name)).next();
            match param {
                Some(param) if depth > 0 => format!("{name}({}={})", param.name, value(rng, &param.kind, depth - 1)),
                _ => name.to_owned(),
            }
        }
        ParamKind::Device => device(rng, depth),
        _ if rng.one_in(2) => quoted(rng),
        _ => (*rng.pick(&["a.img", "/dev/sdb", "cheetah9lp", "x-y_z", "é"])).to_owned(),
    }
}

fn device(rng: &mut Rng, depth: u64) -> String {
    if depth == 0 || rng.one_in(8) {
        return if rng.one_in(2) { quoted(rng) } else { (*rng.pick(&["null", "/dev/sdb", "a.img"])).to_owned() };
    }
    let row = rng.pick(table());
    let params: Vec<_> = row.params().collect();
    let mut args = Vec::new();
    for _ in 0..rng.below(4) {
        if !params.is_empty() {
            let param = rng.pick(&params);
            let text = value(rng, &param.kind, depth - 1);
            let (before, after) = (gap(rng), gap(rng));
            args.push(format!("{}{before}={after}{text}", param.name));
        }
    }
    let least = *row.devices.start() as u64;
    for _ in 0..least + rng.below(2) {
        args.push(device(rng, depth - 1));
    }
    let (before, after) = (gap(rng), gap(rng));
    format!("{before}{}({after}{})", row.name, args.join(","))
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

/// Reads all arguments of a device, and those of the devices that it stands on.
fn read_args(spec: &Spec) -> Result<(), SpecError> {
    let Some(row) = find(spec.name()) else { return Err(spec.reject("no such device")) };
    let mut args = Args::new(spec, &row.signature())?;
    for param in row.params().filter(|param| !param.name.is_empty()) {
        let name = param.name;
        let result = match param.kind {
            ParamKind::Size { .. } => args.size(name).map(drop),
            ParamKind::Time { .. } => args.time(name).map(drop),
            ParamKind::Int { .. } => args.int(name).map(drop),
            ParamKind::Number { .. } => args.number(name).map(drop),
            ParamKind::Bool => args.flag(name).map(drop),
            ParamKind::Choice(_) => args.one_of(name).map(drop),
            ParamKind::Text => args.text(name).map(drop),
            ParamKind::Path => args.path(name).map(drop),
            ParamKind::Nested(_) => args.nested(name).map(drop),
            ParamKind::Device => args.device(name).map(drop),
            _ => Ok(()),
        };
        result?;
        if let Some(typed) = args.typed(name) {
            drop(args.reject(name, typed).to_string());
        }
    }
    for member in args.devices() {
        read_args(&member)?;
    }
    args.finish()
}

/// Everything that is asked of an argument.
fn look_at(spec: &Spec, len: usize) -> Result<(), String> {
    hold(spec.span().end <= len, || format!("{:?} is past the end of {len} bytes", spec.span()))?;
    for arg in spec.args() {
        hold(arg.span().end <= len && arg.value().span().start >= arg.span().start, || format!("{:?}", arg.span()))?;
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
    let spec = match spec::parse(&text, &names()) {
        Ok(spec) => spec,
        Err(error) => return told(&text, &error),
    };
    let written = spec.to_string();
    let again = spec::parse(&written, &names()).map_err(|error| format!("{written:?} is refused: {error}"))?;
    hold(again == spec && again.to_string() == written, || format!("{written:?} is another spec"))?;
    look_at(&spec, text.len())?;
    drop(registry::paths(&spec));
    match read_args(&spec) {
        Ok(()) => Ok(Verdict::Accepted),
        Err(error) => told(&text, &error),
    }
}
