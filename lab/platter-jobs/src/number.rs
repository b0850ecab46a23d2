//! Numbers as job files spell them: sizes, counts and times, with arithmetic.
//!
//! fio takes the longest beginning that it understands and says nothing of the rest, so that `1.5k` is 1 and `2min` is 2 us.
//! Here such a value is refused, and the message says what fio would have read.

use crate::complaint::quote;
use core::iter::Peekable;
use core::str::Chars;

/// Deepest nesting of parentheses.
const MOST_DEPTH: u32 = 64;

/// The unit of a number that has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A count, or bytes: suffixes are powers of 1024, or of 1000 with `kb_base=1000`.
    One,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// Microseconds.
    Micros,
}

impl Unit {
    fn is_time(self) -> bool {
        self != Self::One
    }

    fn nanos(self) -> i128 {
        match self {
            Self::One => 1,
            Self::Seconds => 1_000_000_000,
            Self::Millis => 1_000_000,
            Self::Micros => 1_000,
        }
    }
}

/// How numbers are read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) unit: Unit,
    /// `kb_base=1000`.
    pub(crate) decimal: bool,
}

/// A number, and what is to be said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) value: i128,
    pub(crate) note: Option<String>,
}

/// A value without the comment behind it, and the comment.
pub(crate) fn cut_comment(text: &str) -> (&str, Option<&str>) {
    match text.find(['#', ';']) {
        Some(at) => (text[..at].trim_end(), Some(&text[at..])),
        None => (text.trim_end(), None),
    }
}

/// Reads one number. Times come in nanoseconds.
///
/// # Errors
/// What is wrong, and what fio would have read.
pub(crate) fn read(text: &str, rules: Rules) -> Result<Number, String> {
    let (body, comment) = cut_comment(text);
    let mut note = comment
        .map(|comment| format!("the text after the number is ignored, here as by fio: {}", quote(comment)));
    if body.is_empty() {
        return Err("the number is missing".to_owned());
    }
    if let Some(number) = plain(body, rules)? {
        if let Some(said) = number.note {
            note = Some(said);
        }
        return Ok(Number { value: number.value, note });
    }
    let whole = body.strip_prefix('-').unwrap_or(body);
    if !whole.contains(['+', '*', '/', '(', ')', '^', '-', '%']) {
        return Err(strange(body, rules));
    }
    let mut sum = Sum { rest: body.chars().peekable(), rules, depth: 0 };
    let value = sum.all().map_err(|problem| format!("\"{}\" cannot be computed: {problem}", quote(body)))?;
    let note = match body.starts_with('(') {
        true => {
            format!("computed: {value}; a fio that was built without arithmetic, as many are, refuses it")
        }
        false => format!("computed: {value}; fio would read {}", by_fio(body, rules)),
    };
    Ok(Number { value, note: Some(note) })
}

/// A number with one suffix, or none; `None` if it is something else.
fn plain(text: &str, rules: Rules) -> Result<Option<Number>, String> {
    let (sign, rest) = match (text.strip_prefix('-'), text.strip_prefix('+')) {
        (Some(rest), _) => (-1, rest),
        (_, Some(rest)) => (1, rest),
        _ => (1, text),
    };
    let Some((digits, suffix)) = split_digits(rest) else { return Ok(None) };
    let suffix = suffix.trim_start();
    if !suffix.chars().all(|c| c.is_ascii_alphabetic()) {
        return Ok(None);
    }
    let Some(factor) = factor(suffix, rules) else { return Ok(None) };
    let number = value_of(digits).and_then(|value| value.checked_mul(factor)).filter(|&n| n < 1 << 100);
    let value = number.ok_or_else(|| format!("\"{}\" is too large", quote(text)))? * sign;
    let trap = !rules.unit.is_time() && suffix.len() == 3;
    let blank = rest.len() > digits.len() + suffix.len();
    let note = match (trap, blank) {
        (true, _) => Some(format!(
            "{value}: fio takes the three-letter suffixes as the other kind, so that KiB is 1000 with kb_base=1024 and 1024 with \
             kb_base=1000; so it is here. Write k for the kind of kb_base"
        )),
        (false, true) => Some(format!("read as {value}; fio would read {}", by_fio(text, rules))),
        (false, false) => None,
    };
    Ok(Some(Number { value, note }))
}

/// The digits that a text begins with, decimal or hexadecimal.
fn split_digits(text: &str) -> Option<(&str, &str)> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let is_hex = hex.is_some_and(|hex| hex.starts_with(|c: char| c.is_ascii_hexdigit()));
    let end = match (is_hex, hex) {
        (true, Some(hex)) => 2 + hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len()),
        _ => text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()),
    };
    (end > 0).then(|| text.split_at(end))
}

fn value_of(digits: &str) -> Option<i128> {
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

/// The factor of a suffix.
fn factor(suffix: &str, rules: Rules) -> Option<i128> {
    let lower = suffix.to_ascii_lowercase();
    if rules.unit.is_time() {
        return Some(match lower.as_str() {
            "" => rules.unit.nanos(),
            "d" => 86_400_000_000_000,
            "h" => 3_600_000_000_000,
            "m" => 60_000_000_000,
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" => 1_000,
            _ => return None,
        });
    }
    if matches!(lower.as_str(), "" | "b") {
        return Some(1);
    }
    let power = "kmgtp".find(lower.chars().next()?)? as u32 + 1;
    let base: i128 = match (&lower[1..], rules.decimal) {
        ("" | "b" | "i", false) | ("ib", true) => 1024,
        ("" | "b" | "i", true) | ("ib", false) => 1000,
        _ => return None,
    };
    Some(base.pow(power))
}

/// What is wrong with a text that is no number.
fn strange(text: &str, rules: Rules) -> String {
    let suffixes = match rules.unit.is_time() {
        true => "a whole number with d, h, m, s, ms or us",
        false => "a whole number, with k, m, g, t or p",
    };
    match split_digits(text) {
        Some(_) => {
            format!("\"{}\" is not {suffixes}; fio would silently read {}", quote(text), by_fio(text, rules))
        }
        None => format!("\"{}\" is not {suffixes}", quote(text)),
    }
}

/// What fio takes a number to be: its beginning, of a range or difference the last part.
fn by_fio(text: &str, rules: Rules) -> String {
    let part = text.rsplit(['-', ':']).next().unwrap_or(text);
    let Some((digits, rest)) = split_digits(part) else { return "something else".to_owned() };
    let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let known = factor(&rest[..letters], rules).filter(|_| letters == rest.len() || !rules.unit.is_time());
    let us = |n: i128| format!("{} us", n / 1000);
    match (value_of(digits), known, rules.unit.is_time()) {
        (Some(value), Some(factor), false) => value.saturating_mul(factor).to_string(),
        (Some(value), None, false) => value.to_string(),
        (Some(value), Some(factor), true) => us(value.saturating_mul(factor)),
        // It knows the suffix of the whole text only, and takes the digits as microseconds if it is none.
        (Some(value), None, true) if rest.starts_with(|c: char| c.is_ascii_digit() || c.is_alphabetic()) => {
            format!("{value} us")
        }
        (Some(value), None, true) => us(value.saturating_mul(rules.unit.nanos())),
        (None, ..) => "something else".to_owned(),
    }
}

/// Arithmetic: + - * / % ^ and parentheses, on whole numbers with suffixes. `^` binds to the right, before a sign.
struct Sum<'t> {
    rest: Peekable<Chars<'t>>,
    rules: Rules,
    depth: u32,
}

impl Sum<'_> {
    fn all(&mut self) -> Result<i128, String> {
        let value = self.terms()?;
        match self.look() {
            None => Ok(value),
            Some(c) => Err(format!("\"{}\" is out of place", quote(&c.to_string()))),
        }
    }

    fn look(&mut self) -> Option<char> {
        while self.rest.next_if(|c| c.is_whitespace()).is_some() {}
        self.rest.peek().copied()
    }

    fn take(&mut self, any: &[char]) -> Option<char> {
        let found = self.look().filter(|c| any.contains(c));
        if found.is_some() {
            self.rest.next();
        }
        found
    }

    fn terms(&mut self) -> Result<i128, String> {
        let mut value = self.factors()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let next = self.factors()?;
            let next = if sign == '+' { value.checked_add(next) } else { value.checked_sub(next) };
            value = bounded(next)?;
        }
        Ok(value)
    }

    fn factors(&mut self) -> Result<i128, String> {
        let mut value = self.power()?;
        while let Some(sign) = self.take(&['*', '/', '%']) {
            let next = self.power()?;
            if sign != '*' && next == 0 {
                return Err("division by zero".to_owned());
            }
            value = bounded(match sign {
                '*' => value.checked_mul(next),
                '/' => value.checked_div(next),
                _ => value.checked_rem(next),
            })?;
        }
        Ok(value)
    }

    fn power(&mut self) -> Result<i128, String> {
        let base = self.atom()?;
        if self.take(&['^']).is_none() {
            return Ok(base);
        }
        self.deeper()?;
        let exponent = self.power()?;
        self.depth -= 1;
        let exponent = u32::try_from(exponent).map_err(|_| "an exponent is from 0 to 2^32".to_owned())?;
        bounded(base.checked_pow(exponent))
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MOST_DEPTH { Err(format!("more than {MOST_DEPTH} levels")) } else { Ok(()) }
    }

    fn atom(&mut self) -> Result<i128, String> {
        if self.take(&['-']).is_some() {
            self.deeper()?;
            let value = self.atom()?;
            self.depth -= 1;
            return Ok(-value);
        }
        if self.take(&['(']).is_some() {
            self.deeper()?;
            let value = self.terms()?;
            self.depth -= 1;
            return self.take(&[')']).map(|_| value).ok_or_else(|| "a ) is missing".to_owned());
        }
        self.look();
        let mut word = String::new();
        while let Some(c) = self.rest.next_if(char::is_ascii_alphanumeric) {
            word.push(c);
        }
        if word.is_empty() {
            return Err("a number is missing".to_owned());
        }
        match plain(&word, self.rules)? {
            Some(number) => bounded(Some(number.value)),
            None => Err(strange(&word, self.rules)),
        }
    }
}

fn bounded(value: Option<i128>) -> Result<i128, String> {
    value.filter(|n| n.unsigned_abs() < 1 << 100).ok_or_else(|| "the result is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: Rules = Rules { unit: Unit::One, decimal: false };

    fn number(text: &str, rules: Rules) -> Result<i128, String> {
        read(text, rules).map(|number| number.value)
    }

    #[test]
    fn sizes_are_those_of_fio() {
        let decimal = Rules { decimal: true, ..BYTES };
        for (text, binary, by_thousand) in [
            ("4k", 4096, 4000),
            ("4K", 4096, 4000),
            ("4kb", 4096, 4000),
            ("4ki", 4096, 4000),
            ("4KiB", 4000, 4096),
            ("1m", 1 << 20, 1_000_000),
            ("2g", 2 << 30, 2_000_000_000),
            ("0x1000", 4096, 4096),
            ("010", 10, 10),
            ("4b", 4, 4),
            ("+4k", 4096, 4000),
            ("7", 7, 7),
        ] {
            assert_eq!(number(text, BYTES), Ok(binary), "{text}");
            assert_eq!(number(text, decimal), Ok(by_thousand), "{text}");
        }
    }

    #[test]
    fn what_fio_would_misread_is_refused_with_what_it_would_read() {
        for (text, fio) in [("1.5k", "read 1"), ("4q", "read 4"), ("4 jobs", "read 4"), ("1,000", "read 1")] {
            let error = number(text, BYTES).unwrap_err();
            assert!(error.ends_with(fio), "{error}");
        }
        let seconds = Rules { unit: Unit::Seconds, decimal: false };
        for (text, fio) in
            [("1min", "read 1 us"), ("1h30m", "read 1 us"), ("1.5", "read 1000000 us"), ("2sec", "read 2 us")]
        {
            let error = number(text, seconds).unwrap_err();
            assert!(error.ends_with(fio), "{text}: {error}");
        }
        assert!(number("k", BYTES).is_err() && number("", BYTES).is_err() && number("# x", BYTES).is_err());
    }

    #[test]
    fn times_have_units() {
        let rules = |unit| Rules { unit, decimal: false };
        for (text, unit, ns) in [
            ("5", Unit::Seconds, 5_000_000_000),
            ("5", Unit::Micros, 5_000),
            ("5", Unit::Millis, 5_000_000),
            ("1m", Unit::Seconds, 60_000_000_000),
            ("2M", Unit::Seconds, 120_000_000_000),
            ("1d", Unit::Seconds, 86_400_000_000_000),
            ("10ms", Unit::Micros, 10_000_000),
        ] {
            assert_eq!(number(text, rules(unit)), Ok(ns), "{text}");
        }
    }

    #[test]
    fn arithmetic_is_done_and_said() {
        for (text, value) in [
            ("4096*4", 16384),
            ("(4*1024)", 4096),
            ("1m-4k", 1044480),
            ("2+3*4", 14),
            ("(2+3)*4", 20),
            ("2^3^2", 512),
            ("7/2", 3),
            ("(7%4)", 3),
            ("-(3-5)", 2),
            ("10*10*1000*7", 700_000),
        ] {
            let read = read(text, BYTES).unwrap();
            assert_eq!(read.value, value, "{text}");
            assert!(read.note.is_some(), "{text}");
        }
        assert!(read("8*4k", BYTES).unwrap().note.unwrap().ends_with("fio would read 8"));
        assert!(read("1m-4k", BYTES).unwrap().note.unwrap().ends_with("fio would read 4096"));
        let deep = format!("{}1{}", "(".repeat(1000), ")".repeat(1000));
        let powers = "2^".repeat(10_000) + "2";
        for text in ["1/0", "1%0", "(1", "1)", "1+", "9^99", "2^-1", "p*p", &deep, &powers, "(1)2"] {
            assert!(read(text, BYTES).is_err(), "{text}");
        }
    }

    #[test]
    fn a_comment_behind_a_number_is_left_out_and_said() {
        let read = read("64k # note", BYTES).unwrap();
        assert_eq!(read.value, 65536);
        assert!(read.note.unwrap().contains("ignored"));
    }
}
