//! Tables of parameters: the names, values and help texts of a device's arguments.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::ast::{ArgValue, Spec, Word};
use super::error::{did_you_mean, list, shown};
use super::parse::is_name;
use super::source::Source;
use super::suggest::closest;
use super::value::{
    ValueError, format_size, format_time, parse_bool, parse_choice, parse_int, parse_number, parse_size,
    parse_time,
};
use platter_block::params::{self, Unit};

/// One parameter of a device: a row of its table.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// The argument's name.
    pub name: &'static str,
    /// The kind of its values, and the allowed ones.
    pub kind: ArgumentKind,
    /// The value used when none is given, as a user would write it; empty if there is none.
    pub default: &'static str,
    /// One-line help text.
    pub help: &'static str,
}

impl Argument {
    /// A parameter of a kernel's kind, as an argument. Its default is written down and kept as long as the
    /// process lives: for parameters of tables, a bounded number of times.
    pub fn of(param: &params::Param) -> Argument {
        let default = match param.unit {
            Unit::Millis | Unit::Micros | Unit::Nanos => format!("{}{}", param.default, param.unit),
            Unit::Bytes => format_size(param.default.unsigned_abs()),
            Unit::Switch => (if param.default == 0 { "off" } else { "on" }).to_owned(),
            Unit::Requests | Unit::Count | Unit::Percent | Unit::Word => param.show(param.default),
        };
        Argument {
            name: param.name,
            kind: match param.words {
                [] => ArgumentKind::Number { unit: param.unit, min: param.min, max: param.max },
                words => ArgumentKind::Choice(words),
            },
            default: default.leak(),
            help: param.help,
        }
    }

    /// Whether there is a value when none is given.
    pub fn has_default(&self) -> bool {
        !self.default.is_empty()
    }
}

impl fmt::Display for Argument {
    /// The row in one line: `chunk: a size from 4K to 1G, default 64K (bytes on one disk before the next)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.kind)?;
        if self.has_default() {
            write!(f, ", default {}", self.default)?;
        }
        write!(f, " ({})", self.help)
    }
}

/// The kinds of values. Ranges include both of their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentKind {
    /// A number of bytes.
    Size {
        /// The least allowed, in bytes.
        min: u64,
        /// The most allowed, in bytes.
        max: u64,
    },
    /// A length of time.
    Time {
        /// The least allowed.
        min: Duration,
        /// The most allowed; `Duration::MAX` for no limit but that of the language, 2^64 - 1 ns.
        max: Duration,
    },
    /// A whole number.
    Int {
        /// The least allowed.
        min: u64,
        /// The most allowed.
        max: u64,
    },
    /// A number in a unit, as kernel parameters: `500` or, with its own unit, `500ms`.
    Number {
        /// The default unit.
        unit: Unit,
        /// The least allowed.
        min: i64,
        /// The most allowed.
        max: i64,
    },
    /// On or off.
    Bool,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any word that is UTF-8: the name of a model.
    Text,
    /// Any word, as the path of a file or device.
    Path,
    /// One of these words, which may have its own arguments: `elevator=cfq(quantum=8)`.
    Nested(Words),
    /// A device.
    Device,
}

/// Words that may become more while the program runs.
#[derive(Clone, Copy)]
pub struct Words(pub fn() -> &'static [&'static str]);

impl PartialEq for Words {
    fn eq(&self, other: &Words) -> bool {
        (self.0)() == (other.0)()
    }
}

impl Eq for Words {}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)().fmt(f)
    }
}

/// A value of some [`ArgumentKind`].
#[derive(Clone, Debug)]
pub(super) enum Value {
    Size(u64),
    Time(Duration),
    Int(u64),
    Number(i64),
    Bool(bool),
    Choice(&'static str),
    Text(String),
    Path(PathBuf),
    Nested(Spec),
    /// Not resolved yet, because that may fail with an error that has its own position.
    Device(ArgValue),
}

impl ArgumentKind {
    /// Reads a value of this kind and checks its range.
    pub(super) fn read(&self, value: &ArgValue, source: &Arc<Source>) -> Result<Value, ValueError> {
        let plain = || self.plain(value);
        let read = match *self {
            ArgumentKind::Size { .. } => Value::Size(parse_size(plain()?)?),
            ArgumentKind::Time { .. } => Value::Time(parse_time(plain()?)?),
            ArgumentKind::Int { .. } => Value::Int(parse_int(plain()?)?),
            ArgumentKind::Number { unit, .. } => Value::Number(parse_number(plain()?, unit)?),
            ArgumentKind::Bool => Value::Bool(parse_bool(plain()?)?),
            ArgumentKind::Choice(choices) => Value::Choice(choose(plain()?, choices)?),
            ArgumentKind::Text => Value::Text(plain()?.to_owned()),
            ArgumentKind::Path => Value::Path(path(value, self)?),
            ArgumentKind::Nested(Words(names)) => nested(value, names(), source)?,
            ArgumentKind::Device => Value::Device(value.clone()),
        };
        let allowed = match (*self, &read) {
            (ArgumentKind::Size { min, max }, Value::Size(n)) => (min..=max).contains(n),
            (ArgumentKind::Int { min, max }, Value::Int(n)) => (min..=max).contains(n),
            (ArgumentKind::Time { min, max }, Value::Time(t)) => (min..=max).contains(t),
            (ArgumentKind::Number { min, max, .. }, Value::Number(n)) => (min..=max).contains(n),
            _ => true,
        };
        if allowed {
            return Ok(read);
        }
        Err(ValueError::out_of_range(format!("expected {self}, found `{}`", shown(plain()?))))
    }

    /// The text of a value that must not have arguments.
    fn plain<'v>(&self, value: &'v ArgValue) -> Result<&'v str, ValueError> {
        match value {
            ArgValue::Word(word) if word.is_utf8() => Ok(word.text()),
            ArgValue::Word(word) => {
                let help = "only a path may have bytes that are not UTF-8 (\\xHH)";
                Err(ValueError::malformed(&self.to_string(), word.text(), help))
            }
            ArgValue::Spec(spec) => Err(with_arguments(self, spec)),
        }
    }
}

fn with_arguments(kind: &ArgumentKind, spec: &Spec) -> ValueError {
    let found = format!("{}(…)", spec.name());
    ValueError::malformed(&kind.to_string(), &found, "write a value without arguments")
}

fn path(value: &ArgValue, kind: &ArgumentKind) -> Result<PathBuf, ValueError> {
    match value {
        ArgValue::Word(word) => Ok(word.to_path()),
        ArgValue::Spec(spec) => Err(with_arguments(kind, spec)),
    }
}

/// As [`parse_choice`], but leaves the list of choices to the line about the parameter.
fn choose(text: &str, choices: &[&'static str]) -> Result<&'static str, ValueError> {
    parse_choice(text, choices).map_err(|error| {
        let help = closest(text, choices.iter().copied()).map(did_you_mean);
        ValueError { help, ..error }
    })
}

/// A name with or without arguments.
fn nested(value: &ArgValue, names: &[&'static str], source: &Arc<Source>) -> Result<Value, ValueError> {
    let spec = match value {
        ArgValue::Spec(spec) => spec.clone(),
        ArgValue::Word(Word { text, span, .. }) => Spec {
            name: text.clone(),
            name_span: span.clone(),
            args: Vec::new(),
            span: span.clone(),
            source: Arc::clone(source),
        },
    };
    choose(&spec.name, names)?;
    Ok(Value::Nested(spec))
}

impl fmt::Display for ArgumentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A bound that excludes nothing is not shown.
        let mut range = |what: &str, min: Option<String>, max: Option<String>| match (min, max) {
            (Some(min), Some(max)) => write!(f, "{what} from {min} to {max}"),
            (Some(min), None) => write!(f, "{what} of at least {min}"),
            (None, Some(max)) => write!(f, "{what} of at most {max}"),
            (None, None) => f.write_str(what),
        };
        match *self {
            ArgumentKind::Size { min, max } => {
                let (min, max) = ((min > 0).then_some(min), (max < u64::MAX).then_some(max));
                range("a size", min.map(format_size), max.map(format_size))
            }
            ArgumentKind::Int { min, max } => {
                // With an upper bound, a lower bound of 0 is shown too.
                let told = min > 0 || max < u64::MAX;
                let (min, max) = (told.then_some(min), (max < u64::MAX).then_some(max));
                range("a whole number", min.map(|n| n.to_string()), max.map(|n| n.to_string()))
            }
            ArgumentKind::Time { min, max } => {
                let longest = Duration::from_nanos(u64::MAX);
                let (min, max) = ((!min.is_zero()).then_some(min), (max < longest).then_some(max));
                range("a time", min.map(format_time), max.map(format_time))
            }
            ArgumentKind::Number { unit: Unit::Bytes, min, max } => {
                let least = (min > 0).then(|| format_size(min.unsigned_abs()));
                let above = max.unsigned_abs().saturating_add(1);
                // A round number that is not allowed itself is easier to read than the one before it.
                let below = max < i64::MAX && above.is_multiple_of(1 << 20);
                match least {
                    Some(least) if below => write!(f, "a size from {least} to below {}", format_size(above)),
                    None if below => write!(f, "a size below {}", format_size(above)),
                    least => {
                        range("a size", least, (max < i64::MAX).then(|| format_size(max.unsigned_abs())))
                    }
                }
            }
            ArgumentKind::Number { unit: Unit::Switch, .. } | ArgumentKind::Bool => f.write_str("on or off"),
            ArgumentKind::Number { unit: Unit::Count | Unit::Word, min, max } => {
                write!(f, "a number from {min} to {max}")
            }
            ArgumentKind::Number { unit: Unit::Percent, min, max } => {
                write!(f, "a percentage from {min} to {max}")
            }
            ArgumentKind::Number { unit: unit @ (Unit::Millis | Unit::Micros | Unit::Nanos), min, max } => {
                let time = |number: i64| format_time(times(unit, number.unsigned_abs()));
                range("a time", (min > 0).then(|| time(min)), (max < i64::MAX).then(|| time(max)))
            }
            ArgumentKind::Number { unit, min, max } => write!(f, "a number of {unit} from {min} to {max}"),
            ArgumentKind::Choice(choices) => write!(f, "one of {}", list(choices.iter().copied())),
            ArgumentKind::Text => f.write_str("a word"),
            ArgumentKind::Path => f.write_str("a path"),
            ArgumentKind::Nested(Words(names)) => {
                write!(f, "one of {}, with its arguments", list(names().iter().copied()))
            }
            ArgumentKind::Device => f.write_str("a device"),
        }
    }
}

/// The time that is `number` of a unit of time.
fn times(unit: Unit, number: u64) -> Duration {
    match unit {
        Unit::Nanos => Duration::from_nanos(number),
        Unit::Micros => Duration::from_micros(number),
        _ => Duration::from_millis(number),
    }
}

/// Checks the tables of one device, for tests of the tables.
///
/// # Errors
///
/// A line that names the wrong row and the error: a name that cannot be written or that two rows have, an
/// empty range or list, a default that its own kind refuses, or no help.
pub fn check_table(tables: &[&[Argument]]) -> Result<(), String> {
    let source = Arc::new(Source { text: String::new(), devices: Vec::new(), file: None });
    let mut names = BTreeSet::new();
    for param in tables.iter().copied().flatten() {
        let wrong = |what: &str| Err(format!("parameter `{}`: {what}", param.name));
        if !is_name(param.name) {
            return wrong("this name cannot be written");
        }
        if !names.insert(param.name) {
            return wrong("two rows have this name");
        }
        if param.help.is_empty() {
            return wrong("it has no help");
        }
        let possible = match param.kind {
            ArgumentKind::Size { min, max } | ArgumentKind::Int { min, max } => min <= max,
            ArgumentKind::Time { min, max } => min <= max,
            ArgumentKind::Number { min, max, .. } => min <= max,
            ArgumentKind::Choice(names) => !names.is_empty(),
            ArgumentKind::Nested(Words(names)) => !names().is_empty(),
            ArgumentKind::Bool | ArgumentKind::Text | ArgumentKind::Path | ArgumentKind::Device => true,
        };
        if !possible {
            return wrong("no value is allowed");
        }
        if param.has_default()
            && let Err(error) = param.kind.read(&default_value(param), &source)
        {
            return wrong(&format!("its default: {error}"));
        }
    }
    Ok(())
}

/// The default as if it had been written.
pub(super) fn default_value(param: &Argument) -> ArgValue {
    ArgValue::Word(Word::new(param.default.to_owned(), false, 0..0))
}
