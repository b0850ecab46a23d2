//! From text to values.

mod shapes;

use super::{ACCESS, Access, Amount, Kind, MOST_BYTES, STEADY, Steady, Value};
use crate::complaint::quote;
use crate::engine;
use crate::number::{self, Rules, Unit, cut_comment};
use core::fmt::Display;

/// Most names of files of a job.
pub(crate) const MOST_FILES: usize = 4096;

/// Reads values, and keeps what is to be said of them.
pub(crate) struct Reader {
    /// `kb_base=1000`.
    pub(crate) decimal: bool,
    pub(crate) notes: Vec<String>,
}

impl Reader {
    pub(crate) fn new(decimal: bool) -> Self {
        Self { decimal, notes: Vec::new() }
    }

    /// Reads a value of this kind. Of values for three directions, those that the text leaves out stay as in `before`.
    ///
    /// # Errors
    /// What is wrong.
    pub(crate) fn value(&mut self, kind: Kind, text: &str, before: Option<&Value>) -> Result<Value, String> {
        Ok(match kind {
            Kind::Switch | Kind::Flag => Value::Switch(self.switch(text)?),
            Kind::Integer(least, most) => Value::Integer(self.integer(text, least, most)?),
            Kind::Integers(least, most) => {
                let old = before.and_then(|v| if let Value::Integers(old) = v { Some(*old) } else { None });
                Value::Integers(
                    self.three(text, old.unwrap_or_default(), |r, part| r.integer(part, least, most))?,
                )
            }
            Kind::Size(least, most) => Value::Size(self.size(text, least, most)?),
            Kind::Amount(percent) => Value::Amount(self.amount(text, percent)?),
            Kind::SizeRange => {
                Value::SizeRange(self.range(text, false, |r, part| r.size(part, 1, MOST_BYTES))?)
            }
            Kind::Blocks => Value::Blocks(self.three(text, blocks_of(before), |r, part| {
                r.size(part, 1, MOST_BYTES).map(|size| [size; 2])
            })?),
            Kind::BlockRanges => Value::Blocks(self.three(text, blocks_of(before), |r, part| {
                r.range(part, true, |r, end| r.size(end, 1, MOST_BYTES))
            })?),
            Kind::Split => Value::Split(shapes::split(self, text)?),
            Kind::Time(unit) => Value::Time(self.time(text, unit)?),
            Kind::TimeRange => {
                Value::TimeRange(self.range(text, false, |r, part| r.time(part, Unit::Seconds))?)
            }
            Kind::Word(words) => Value::Word(self.word(text, words)?),
            Kind::Text | Kind::Label => Value::Text(self.text(text)),
            Kind::Floats(count, least, most) => Value::Floats(self.floats(text, count, [least, most])?),
            Kind::Files => Value::Files(self.files(text)?),
            Kind::Access => Value::Access(self.access(text)?),
            Kind::Distribution => Value::Distribution(shapes::distribution(self, text)?),
            Kind::Engine => Value::Engine(engine::find(self.first_word(text)?)?),
            Kind::Steady => Value::Steady(self.steady(text)?),
        })
    }

    fn number(&mut self, text: &str, unit: Unit) -> Result<i128, String> {
        let number = number::read(text, Rules { unit, decimal: self.decimal })?;
        self.notes.extend(number.note);
        Ok(number.value)
    }

    pub(super) fn integer(&mut self, text: &str, least: i64, most: i64) -> Result<i64, String> {
        let value = self.number(text, Unit::One)?;
        let within = i64::try_from(value).ok().filter(|n| (least..=most).contains(n));
        within.ok_or_else(|| outside(value, least, most))
    }

    pub(super) fn size(&mut self, text: &str, least: u64, most: u64) -> Result<u64, String> {
        let value = self.number(text, Unit::One)?;
        let within = u64::try_from(value).ok().filter(|n| (least..=most).contains(n));
        within.ok_or_else(|| outside(value, least, most))
    }

    fn time(&mut self, text: &str, unit: Unit) -> Result<u64, String> {
        let value = self.number(text, unit)?;
        let within = u64::try_from(value).ok().filter(|&ns| ns <= MOST_BYTES / 2);
        within.ok_or_else(|| format!("{} is not a time from 0 to 146 years", quote(text)))
    }

    fn amount(&mut self, text: &str, most: u32) -> Result<Amount, String> {
        let (body, comment) = cut_comment(text);
        let ends = |unit: char| {
            body.strip_suffix(unit)
                .filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        };
        if let Some(percent) = ends('%') {
            self.notes
                .extend(comment.map(|text| format!("the text after the value is ignored: {}", quote(text))));
            let within = percent.parse().ok().filter(|n| (1..=most).contains(n));
            return within
                .map(Amount::Percent)
                .ok_or_else(|| format!("{percent} % is not from 1 to {most} %"));
        }
        match ends('z') {
            Some(zones) => {
                zones.parse().map(Amount::Zones).map_err(|_| format!("{zones} zones are too many"))
            }
            None => self.size(text, 0, MOST_BYTES).map(Amount::Bytes),
        }
    }

    /// `a-b` or `a:b`; without `both`, `a` alone too.
    fn range(
        &mut self,
        text: &str,
        both: bool,
        mut end: impl FnMut(&mut Self, &str) -> Result<u64, String>,
    ) -> Result<[u64; 2], String> {
        let (body, _) = cut_comment(text);
        let Some((low, high)) = body.split_once(['-', ':']) else {
            if both {
                return Err(format!(
                    "\"{}\" is not a range; give two sizes with a dash, such as 4k-64k",
                    quote(body)
                ));
            }
            return end(self, text).map(|one| [one; 2]);
        };
        let range = [end(self, low)?, end(self, high)?];
        match range[0] <= range[1] {
            true => Ok(range),
            // fio exchanges the ends.
            false if both => Ok([range[1], range[0]]),
            false => Err(format!("\"{}\" begins above its end", quote(body))),
        }
    }

    /// Values for reads, writes, trims. One is for all three; of two, the second is for writes and trims.
    fn three<T: Copy>(
        &mut self,
        text: &str,
        before: [T; 3],
        mut one: impl FnMut(&mut Self, &str) -> Result<T, String>,
    ) -> Result<[T; 3], String> {
        let (body, comment) = cut_comment(text);
        self.notes
            .extend(comment.map(|text| format!("the text after the value is ignored: {}", quote(text))));
        let parts: Vec<&str> = body.splitn(5, ',').collect();
        if parts.len() > 3 {
            let given = quote(body);
            return Err(format!("\"{given}\" has more than three values; there are reads, writes and trims"));
        }
        let mut all = before;
        let mut seen = false;
        for (at, part) in parts.iter().enumerate() {
            if part.trim().is_empty() {
                continue;
            }
            seen = true;
            let value = one(self, part.trim())?;
            match (parts.len(), at) {
                (1, _) => all = [value; 3],
                (2, 1) => all[1..].fill(value),
                _ => all[at] = value,
            }
        }
        if seen { Ok(all) } else { Err("the value is missing".into()) }
    }

    fn switch(&mut self, text: &str) -> Result<bool, String> {
        match self.number(text, Unit::One)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(format!("{other} is neither 0 nor 1")),
        }
    }

    /// The first word; only a comment may follow.
    fn first_word<'t>(&mut self, text: &'t str) -> Result<&'t str, String> {
        let (body, comment) = cut_comment(text);
        self.notes.extend(
            comment.map(|text| format!("the text after the word is ignored, as by fio: {}", quote(text))),
        );
        match body.split_once(char::is_whitespace) {
            Some((word, rest)) => Err(format!(
                "\"{}\" follows {}; fio would silently ignore it",
                quote(rest.trim()),
                quote(word)
            )),
            None if body.is_empty() => Err("the value is missing".into()),
            None => Ok(body),
        }
    }

    fn word(&mut self, text: &str, words: &'static [&'static str]) -> Result<&'static str, String> {
        let given = self.first_word(text)?;
        let found = words.iter().find(|&&word| word == given);
        found.copied().ok_or_else(|| format!("\"{}\" is not one of {}", quote(given), words.join(", ")))
    }

    fn text(&mut self, text: &str) -> String {
        if text.contains(" #") || text.contains(" ;") {
            self.notes.push(format!(
                "the comment is part of the value, here as with fio: \"{}\"; put it on a line of its own",
                quote(text)
            ));
        }
        text.to_owned()
    }

    fn files(&mut self, text: &str) -> Result<Vec<String>, String> {
        let text = self.text(text);
        let mut files = vec![String::new()];
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let last = files.len() - 1;
            match c {
                '\\' if chars.peek() == Some(&':') => files[last].extend(chars.next()),
                ':' => files.push(String::new()),
                c => files[last].push(c),
            }
        }
        files.retain(|file| !file.is_empty());
        if files.is_empty() {
            return Err("the name is missing".into());
        }
        if files.len() > MOST_FILES {
            return Err(format!("{} names are too many; at most {MOST_FILES}", files.len()));
        }
        Ok(files)
    }

    pub(super) fn float(&mut self, text: &str, [least, most]: [f64; 2]) -> Result<f64, String> {
        let value: Option<f64> = text.trim().parse().ok().filter(|n| (least..=most).contains(n));
        value.ok_or_else(|| format!("\"{}\" is not a number from {least} to {most}", quote(text)))
    }

    fn floats(&mut self, text: &str, count: usize, ends: [f64; 2]) -> Result<Vec<f64>, String> {
        let (body, comment) = cut_comment(text);
        self.notes
            .extend(comment.map(|text| format!("the text after the value is ignored: {}", quote(text))));
        let parts: Vec<&str> = body.split(':').collect();
        if parts.len() > count {
            return Err(format!("{} numbers are too many; at most {count}", parts.len()));
        }
        parts.into_iter().map(|part| self.float(part, ends)).collect()
    }

    fn access(&mut self, text: &str) -> Result<Access, String> {
        let given = self.first_word(text)?;
        let (word, modifier) = match given.split_once(':') {
            Some((word, modifier)) => (word, Some(modifier)),
            None => (given, None),
        };
        let word = ACCESS.iter().find(|&&known| known == word).copied();
        let word = word.ok_or_else(|| format!("\"{}\" is not one of {}", quote(given), ACCESS.join(", ")))?;
        let word = if word == "readwrite" { "rw" } else { word };
        let least = if word.starts_with("rand") { 1 } else { i64::MIN };
        let modifier = modifier.map(|text| self.integer(text, least, i64::MAX)).transpose()?;
        Ok(Access { word, modifier })
    }

    fn steady(&mut self, text: &str) -> Result<Steady, String> {
        let given = self.first_word(text)?;
        let (word, limit) = given.split_once(':').ok_or("the limit is missing, such as iops:5%")?;
        let word = STEADY.iter().find(|&&known| known == word).copied();
        let word = word.ok_or_else(|| format!("\"{}\" is not one of {}", quote(given), STEADY.join(", ")))?;
        let percent = limit.ends_with('%');
        let limit = self.float(limit.trim_end_matches('%'), [0.0, f64::MAX])?;
        Ok(Steady { word, limit, percent })
    }
}

fn blocks_of(before: Option<&Value>) -> [[u64; 2]; 3] {
    match before {
        Some(Value::Blocks(old)) => *old,
        _ => [[4096; 2]; 3],
    }
}

fn outside(value: i128, least: impl Display, most: impl Display) -> String {
    format!("{value} is not from {least} to {most}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kind: Kind, text: &str) -> Result<Value, String> {
        Reader::new(false).value(kind, text, None)
    }

    #[test]
    fn values_for_three_directions_are_those_of_fio() {
        let k = |read: u64, write: u64, trim: u64| Value::Blocks([read, write, trim].map(|k| [k << 10; 2]));
        for (text, value) in [
            ("4k,8k", k(4, 8, 8)),
            (",8k", k(4, 8, 8)),
            ("8k,", k(8, 4, 4)),
            (",8k,", k(4, 8, 4)),
            ("4k,8k,16k", k(4, 8, 16)),
            ("64K # one", k(64, 64, 64)),
        ] {
            assert_eq!(read(Kind::Blocks, text), Ok(value), "{text}");
        }
        for text in ["", ",", "0", "-1", "9223372036854775808", "1,2,3,4", "4k:8k", "\"4k\"", "50%"] {
            assert!(read(Kind::Blocks, text).is_err(), "{text}");
        }
        let before = k(16, 16, 16);
        assert_eq!(Reader::new(false).value(Kind::Blocks, "8k,", Some(&before)), Ok(k(8, 16, 16)));
        let ranges = Value::Blocks([[4096, 16384], [8192, 32768], [8192, 32768]]);
        assert_eq!(read(Kind::BlockRanges, "4k-16k,8k:32k"), Ok(ranges));
        assert!(read(Kind::BlockRanges, "4k").unwrap_err().contains("not a range"));
    }

    #[test]
    fn amounts_are_sizes_percentages_or_zones() {
        let amount = |text| read(Kind::Amount(100), text);
        assert_eq!(amount("50%"), Ok(Value::Amount(Amount::Percent(50))));
        assert_eq!(amount("2z"), Ok(Value::Amount(Amount::Zones(2))));
        assert_eq!(amount("1g"), Ok(Value::Amount(Amount::Bytes(1 << 30))));
        for text in ["0%", "101%", "%", "-1", "99999999999%", "9999999999999999999999z"] {
            assert!(amount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn words_and_files_are_read_as_fio_does() {
        let access = |text| read(Kind::Access, text);
        assert_eq!(access("readwrite"), Ok(Value::Access(Access { word: "rw", modifier: None })));
        assert_eq!(access("read:-8k"), Ok(Value::Access(Access { word: "read", modifier: Some(-8192) })));
        assert_eq!(access("write # a/b"), Ok(Value::Access(Access { word: "write", modifier: None })));
        for text in ["READ", "rand", "randread:0", "write b", ""] {
            assert!(access(text).is_err(), "{text}");
        }
        let files = |text| read(Kind::Files, text);
        assert_eq!(files(r"a:b\:c"), Ok(Value::Files(vec!["a".into(), "b:c".into()])));
        assert!(files("").is_err() && files("::").is_err());
        let steady = Steady { word: "iops_slope", limit: 0.1, percent: true };
        assert_eq!(read(Kind::Steady, "iops_slope:0.1%"), Ok(Value::Steady(steady)));
        assert!(read(Kind::Floats(2, 0.0, 100.0), "1:2:3").is_err());
        assert_eq!(read(Kind::Floats(3, 0.0, 100.0), "99:99.9"), Ok(Value::Floats(vec![99.0, 99.9])));
        assert!(read(Kind::Floats(3, 0.0, 100.0), "nan").is_err());
        assert_eq!(read(Kind::TimeRange, "1s-2s"), Ok(Value::TimeRange([1_000_000_000, 2_000_000_000])));
    }
}
