//! Parameters: how elevators, drivers, layers and workloads describe what can be set.

use alloc::string::String;
use core::fmt;

/// What the number of a parameter counts.
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
    /// 0 or 1.
    Switch,
    /// One of the words of the parameter.
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
            Unit::Switch => "0/1",
            Unit::Word => "word",
        })
    }
}

/// One parameter: name, unit, default and range, for help, parsing and documentation.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Name, as the kernel has it where the kernel has it.
    pub name: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Default.
    pub default: i64,
    /// Smallest value allowed.
    pub min: i64,
    /// Largest value allowed.
    pub max: i64,
    /// One line.
    pub help: &'static str,
    /// For [`Unit::Word`]: the words, in the order of the values, which count from 0.
    pub words: &'static [&'static str],
}

impl Param {
    /// A number.
    pub const fn number(
        name: &'static str,
        unit: Unit,
        default: i64,
        (min, max): (i64, i64),
        help: &'static str,
    ) -> Param {
        Param { name, unit, default, min, max, help, words: &[] }
    }

    /// One of some words; the value is the place of the word. `default` too is a place.
    pub const fn word(
        name: &'static str,
        words: &'static [&'static str],
        default: usize,
        help: &'static str,
    ) -> Param {
        let max = words.len() as i64 - 1;
        Param { name, unit: Unit::Word, default: default as i64, min: 0, max, help, words }
    }

    /// A value as an operator reads it: the word, or the number.
    pub fn show(&self, value: i64) -> String {
        match usize::try_from(value).ok().and_then(|place| self.words.get(place)) {
            Some(word) => String::from(*word),
            None => alloc::format!("{value}"),
        }
    }
}

/// A parameter that was refused; the old value stands.
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
/// An unknown name (the known ones are listed) or a value out of range (the range is named).
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
        let unit = match p.unit {
            Unit::Word => alloc::format!("({})", p.words.join(", ")),
            unit => alloc::format!("{unit}"),
        };
        return Err(ParamError(alloc::format!(
            "{owner} parameter {name}={value} is out of range: {} to {} {unit}",
            p.min,
            p.max,
        )));
    }
    Ok(index)
}
