//! Values as people write them: sizes, times, numbers, switches, choices; and sizes and times written back.

use std::fmt;
use std::time::Duration;

use super::error::{did_you_mean, list, shown};
use super::suggest::closest;
use platter_block::params::Unit;

/// The kinds of [`ValueError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValueErrorKind {
    /// Not a value of the kind that is expected.
    Malformed,
    /// Of the right kind, but outside the allowed range, or too large to be represented.
    OutOfRange,
}

/// A value that cannot be read or is not allowed. `Display` gives one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// The kind of error.
    pub kind: ValueErrorKind,
    /// The error, in one line.
    pub message: String,
    /// Advice, if there is any, in one line.
    pub help: Option<String>,
}

impl ValueError {
    pub(super) fn malformed(expected: &str, text: &str, help: impl Into<String>) -> Self {
        let message = format!("expected {expected}, found `{}`", shown(text));
        ValueError { kind: ValueErrorKind::Malformed, message, help: Some(help.into()) }
    }

    pub(super) fn out_of_range(message: String) -> Self {
        ValueError { kind: ValueErrorKind::OutOfRange, message, help: None }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.help.iter().try_for_each(|help| write!(f, "; {help}"))
    }
}

impl std::error::Error for ValueError {}

const SIZE_HELP: &str =
    "a size is a number of bytes, optionally with K, M, G, T or P (powers of 1024): 4096, 64K, 1.5G";
const TIME_HELP: &str = "a time is a number with ns, us, ms or s: 250us, 1.5ms, 30s";

/// The size units from the largest, with the power of two of each.
const SIZE_UNITS: [(char, u32); 5] = [('P', 50), ('T', 40), ('G', 30), ('M', 20), ('K', 10)];
/// The time units from the largest, in nanoseconds.
const TIME_UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

/// Reads a size in bytes: `4096`, `512B`, `64K`, `64k`, `64KiB`, `1.5G`; K, M, G, T and P are powers of 1024.
///
/// # Errors
///
/// [`Malformed`](ValueErrorKind::Malformed) for anything else, for part of a byte, and for `KB` and its like,
/// which some read as 1000; [`OutOfRange`](ValueErrorKind::OutOfRange) beyond `u64`.
pub fn parse_size(text: &str) -> Result<u64, ValueError> {
    let malformed = |help: &str| ValueError::malformed("a size", text, help);
    let (number, unit) = Decimal::split(text).ok_or_else(|| malformed(SIZE_HELP))?;
    let mut letters = unit.chars();
    let shift = match letters.next().map(|c| c.to_ascii_uppercase()) {
        None => 0,
        Some('B') if letters.as_str().is_empty() => 0,
        Some(letter) => {
            let known = SIZE_UNITS.iter().find(|(name, _)| *name == letter);
            let &(_, shift) = known.ok_or_else(|| malformed(SIZE_HELP))?;
            match letters.as_str() {
                "" => shift,
                tail if tail.eq_ignore_ascii_case("ib") => shift,
                tail if tail.eq_ignore_ascii_case("b") => {
                    let help =
                        format!("{letter}B may mean 1000 or 1024: write {letter} or {letter}iB for 1024");
                    return Err(malformed(&help));
                }
                _ => return Err(malformed(SIZE_HELP)),
            }
        }
    };
    match number.times(1 << shift) {
        Scaled::Whole(bytes) => Ok(bytes),
        Scaled::Fraction => {
            Err(malformed("a size is a whole number of bytes, with at most 18 digits after the point"))
        }
        Scaled::TooLarge => {
            let message = format!("the size `{}` is larger than the largest, 16384P - 1", shown(text));
            Err(ValueError::out_of_range(message))
        }
    }
}

/// Reads a time: `100ns`, `250us`, `1.5ms`, `30s`; `0` needs no unit, every other number does.
///
/// # Errors
///
/// [`Malformed`](ValueErrorKind::Malformed) for anything else and for part of a nanosecond;
/// [`OutOfRange`](ValueErrorKind::OutOfRange) from 2^64 ns (584 years) on.
pub fn parse_time(text: &str) -> Result<Duration, ValueError> {
    let malformed = |help: &str| ValueError::malformed("a time", text, help);
    let (number, unit) = Decimal::split(text).ok_or_else(|| malformed(TIME_HELP))?;
    if unit.is_empty() && number.mantissa == 0 {
        return Ok(Duration::ZERO);
    }
    // Both code points of the micro sign are in use.
    let unit = if unit == "\u{b5}s" || unit == "\u{3bc}s" { "us" } else { unit };
    let known = TIME_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let &(_, scale) = known.ok_or_else(|| malformed(TIME_HELP))?;
    match number.times(scale) {
        Scaled::Whole(nanos) => Ok(Duration::from_nanos(nanos)),
        Scaled::Fraction => Err(malformed("the finest time is 1ns; at most 18 digits may follow the point")),
        Scaled::TooLarge => {
            let message = format!("the time `{}` is longer than the longest, {}ns", shown(text), u64::MAX);
            Err(ValueError::out_of_range(message))
        }
    }
}

/// Reads a whole number from 0 up, in decimal.
///
/// # Errors
///
/// [`Malformed`](ValueErrorKind::Malformed) for anything but digits; [`OutOfRange`](ValueErrorKind::OutOfRange)
/// beyond `u64`.
pub fn parse_int(text: &str) -> Result<u64, ValueError> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ValueError::malformed("a whole number", text, "write digits only, such as 64"));
    }
    text.parse().map_err(|_| {
        ValueError::out_of_range(format!(
            "the number `{}` is larger than the largest, {}",
            shown(text),
            u64::MAX
        ))
    })
}

/// Reads a number of `unit`, plain or with a unit that divides evenly: `500`, `500ms` or `0.5s` for
/// milliseconds, `64K` for bytes, `on` for a switch.
///
/// # Errors
///
/// [`Malformed`](ValueErrorKind::Malformed) for anything else; [`OutOfRange`](ValueErrorKind::OutOfRange)
/// beyond `i64`.
pub fn parse_number(text: &str, unit: Unit) -> Result<i64, ValueError> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let nanos = match unit {
        Unit::Millis => 1_000_000,
        Unit::Micros => 1000,
        _ => 1,
    };
    let number = match unit {
        Unit::Switch => u64::from(parse_bool(text)?),
        Unit::Bytes => parse_size(text)?,
        Unit::Millis | Unit::Micros | Unit::Nanos if !plain => {
            let time = parse_time(text)?.as_nanos();
            if !time.is_multiple_of(nanos) {
                let help = format!("write a whole number of {unit}");
                return Err(ValueError::malformed(&format!("a time in {unit}"), text, help));
            }
            u64::try_from(time / nanos).unwrap_or(u64::MAX)
        }
        _ => parse_int(text)?,
    };
    i64::try_from(number).map_err(|_| {
        ValueError::out_of_range(format!(
            "the number `{}` is larger than the largest, {}",
            shown(text),
            i64::MAX
        ))
    })
}

/// Reads a switch: `on`, `yes`, `true`, `1` or `off`, `no`, `false`, `0`.
///
/// # Errors
///
/// [`Malformed`](ValueErrorKind::Malformed) for anything else.
pub fn parse_bool(text: &str) -> Result<bool, ValueError> {
    const ON: [&str; 4] = ["on", "yes", "true", "1"];
    const OFF: [&str; 4] = ["off", "no", "false", "0"];
    let is_in = |words: [&str; 4]| words.iter().any(|word| word.eq_ignore_ascii_case(text));
    match (is_in(ON), is_in(OFF)) {
        (true, _) => Ok(true),
        (_, true) => Ok(false),
        _ => {
            let help = "write on, yes, true or 1, or else off, no, false or 0";
            Err(ValueError::malformed("on or off", text, help))
        }
    }
}

/// Finds `text` among `choices`; letter case counts.
///
/// # Errors
///
/// [`Malformed`](ValueErrorKind::Malformed) for anything else, with the choices and the nearest of them.
pub fn parse_choice<'c>(text: &str, choices: &[&'c str]) -> Result<&'c str, ValueError> {
    if let Some(choice) = choices.iter().find(|&&choice| choice == text) {
        return Ok(choice);
    }
    let choices = || choices.iter().copied();
    let mut help = format!("the choices are: {}", list(choices()));
    if let Some(near) = closest(text, choices()) {
        help = format!("{} {help}", did_you_mean(near));
    }
    Err(ValueError::malformed("one of the choices", text, help))
}

/// Writes a size with the largest unit that divides it: `64K`, `1T`, `513`; [`parse_size`] reads it back.
pub fn format_size(bytes: u64) -> String {
    platter_block::text::short_size(bytes)
}

/// Writes a time with the largest unit that divides it: `250us`, `30s`, `0`; [`parse_time`] reads it back
/// if it is shorter than 2^64 ns.
pub fn format_time(time: Duration) -> String {
    let nanos = time.as_nanos();
    let fits = |&&(_, scale): &&(&str, u64)| nanos.is_multiple_of(u128::from(scale));
    match TIME_UNITS.iter().find(fits) {
        Some((unit, scale)) if nanos > 0 => format!("{}{unit}", nanos / u128::from(*scale)),
        _ => "0".to_owned(),
    }
}

/// The most digits after the point that a number may have, trailing zeros aside.
const MAX_FRACTION_DIGITS: u32 = 18;

/// A number without sign: `mantissa / 10^digits`, held exactly.
struct Decimal {
    mantissa: u128,
    digits: u32,
}

/// A [`Decimal`] times a unit.
enum Scaled {
    Whole(u64),
    Fraction,
    TooLarge,
}

impl Decimal {
    /// Splits off the number at the start of `text`. `None` if there is none, or a point without digits on
    /// both of its sides.
    fn split(text: &str) -> Option<(Decimal, &str)> {
        let digits = |s: &str| s.bytes().take_while(u8::is_ascii_digit).count();
        let (whole, rest) = text.split_at(digits(text));
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(after) => after.split_at(digits(after)),
            None => ("0", rest),
        };
        if whole.is_empty() || fraction.is_empty() {
            return None;
        }
        let fraction = fraction.trim_end_matches('0');
        let all = whole.bytes().chain(fraction.bytes()).map(|b| u128::from(b - b'0'));
        // Saturation keeps a value that cannot be represented too large to be accepted, see `times`.
        let mantissa = all.fold(0u128, |sum, digit| sum.saturating_mul(10).saturating_add(digit));
        let digits = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
        Some((Decimal { mantissa, digits }, rest))
    }

    fn times(&self, unit: u64) -> Scaled {
        // With at most 18 digits after the point, every product whose result fits in 64 bits fits in 128.
        if self.digits > MAX_FRACTION_DIGITS {
            return Scaled::Fraction;
        }
        let divisor = 10u128.pow(self.digits);
        let Some(product) = self.mantissa.checked_mul(u128::from(unit)) else { return Scaled::TooLarge };
        match u64::try_from(product / divisor) {
            Err(_) => Scaled::TooLarge,
            Ok(_) if product % divisor != 0 => Scaled::Fraction,
            Ok(whole) => Scaled::Whole(whole),
        }
    }
}
