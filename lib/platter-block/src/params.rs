//! Parameters: how elevators, drivers, layers and workloads describe their settings.

use crate::text;
use alloc::string::String;
use core::fmt;

/// The unit of a parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
    /// Nanoseconds.
    Nanos,
    /// Bytes.
    Bytes,
    /// Requests.
    Requests,
    /// A plain count.
    Count,
    /// Parts of a hundred.
    Percent,
    /// 0 or 1.
    Switch,
    /// One of the parameter's words.
    Word,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Millis => "ms",
            Unit::Micros => "us",
            Unit::Nanos => "ns",
            Unit::Bytes => "bytes",
            Unit::Requests => "requests",
            Unit::Count => "count",
            Unit::Percent => "percent",
            Unit::Switch => "0/1",
            Unit::Word => "word",
        })
    }
}

/// One parameter: name, unit, default and range, for help, parsing and documentation.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name; the kernel's name if the kernel has the parameter.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Default.
    pub default: i64,
    /// Smallest value allowed.
    pub min: i64,
    /// Largest value allowed.
    pub max: i64,
    /// Description of one line.
    pub help: &'static str,
    /// For [`Unit::Word`]: the words, in the order of the values, which count from 0.
    pub words: &'static [&'static str],
}

impl Param {
    /// A parameter with a numeric value.
    pub const fn number(
        name: &'static str,
        unit: Unit,
        default: i64,
        (min, max): (i64, i64),
        help: &'static str,
    ) -> Param {
        Param { name, unit, default, min, max, help, words: &[] }
    }

    /// A parameter with one of `words` as its value; values and `default` are indices into `words`.
    pub const fn word(
        name: &'static str,
        words: &'static [&'static str],
        default: usize,
        help: &'static str,
    ) -> Param {
        let max = words.len() as i64 - 1;
        Param { name, unit: Unit::Word, default: default as i64, min: 0, max, help, words }
    }

    /// A value as shown to operators: the word, or the number.
    pub fn show(&self, value: i64) -> String {
        match usize::try_from(value).ok().and_then(|place| self.words.get(place)) {
            Some(word) => String::from(*word),
            None => alloc::format!("{value}"),
        }
    }
}

/// A parameter was refused; the old value stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamError(pub String);

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for ParamError {}

/// Finds a parameter in a table and checks a value against its range.
///
/// # Errors
/// The name is unknown (the message lists the known names) or the value is out of range (the message gives
/// the range).
pub fn check(owner: &str, table: &[Param], name: &str, value: i64) -> Result<usize, ParamError> {
    let Some(index) = table.iter().position(|p| p.name == name) else {
        let mut known = String::new();
        for p in table {
            if !known.is_empty() {
                known.push_str(", ");
            }
            known.push_str(p.name);
        }
        if known.is_empty() {
            known.push_str("none");
        }
        return Err(ParamError(alloc::format!("{owner} has no parameter \"{name}\"; it has: {known}")));
    };
    let p = &table[index];
    if value < p.min || value > p.max {
        let range = match p.unit {
            Unit::Word => alloc::format!("{} to {} ({})", p.min, p.max, p.words.join(", ")),
            Unit::Bytes => {
                let [min, max] = [p.min, p.max].map(|bound| text::short_size(bound.unsigned_abs()));
                alloc::format!("{min} to {max}")
            }
            unit => alloc::format!("{} to {} {unit}", p.min, p.max),
        };
        return Err(ParamError(alloc::format!("{owner} parameter {name}={value} is out of range: {range}")));
    }
    Ok(index)
}
