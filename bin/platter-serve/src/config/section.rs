//! A table of the file while it is read: every value is checked against the table of keys.

use super::error::Found;
use super::keys::Key;
use super::kind::Kind;
use platter::spec::{closest, parse_size, parse_time};
use platter_block::text::excerpt;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longest piece of the file in a message, in characters.
const MOST_SHOWN: usize = 60;

/// A value and its place in the file.
pub(super) struct Placed<T> {
    pub(super) value: T,
    pub(super) span: Range<usize>,
}

/// A table with the keys that it may have.
pub(super) struct Section<'t, 'v> {
    name: String,
    keys: &'static [Key],
    table: &'v DeTable<'t>,
    span: Range<usize>,
}

impl<'t, 'v> Section<'t, 'v> {
    /// Checks that the table has no other keys.
    pub(super) fn new(
        name: &str,
        keys: &'static [Key],
        table: &'v DeTable<'t>,
        span: Range<usize>,
        found: &mut Found<'_>,
    ) -> Section<'t, 'v> {
        for key in table.keys() {
            let word: &str = key.get_ref();
            if !keys.iter().any(|known| known.name == word) {
                found.add(&key.span(), unknown(word, name, keys));
            }
        }
        Section { name: name.to_owned(), keys, table, span }
    }

    fn key(&self, name: &'static str) -> &'static Key {
        let key = self.keys.iter().find(|key| key.name == name);
        // A mistake of this module, which every test of the parser would show.
        key.unwrap_or_else(|| unreachable!("{name} is not among the keys of {}", self.name))
    }

    fn get(&self, name: &'static str) -> Option<(&'static Key, &'v Spanned<DeValue<'t>>)> {
        let key = self.key(name);
        self.table.get(name).map(|value| (key, value))
    }

    fn wrong(&self, key: &Key, value: &Spanned<DeValue<'_>>, found: &mut Found<'_>) {
        let message = format!("{} is {}; expected {}", key.name, shown(value.get_ref()), key.kind);
        found.add(&value.span(), message);
    }

    pub(super) fn text(&self, name: &'static str, found: &mut Found<'_>) -> Option<Placed<String>> {
        let (key, value) = self.get(name)?;
        match value.get_ref().as_str() {
            Some(text) if !text.is_empty() && !text.chars().any(char::is_control) => {
                Some(Placed { value: text.to_owned(), span: value.span() })
            }
            Some("") => {
                found.add(&value.span(), format!("{} is empty; leave it out or give a value", key.name));
                None
            }
            Some(_) => {
                found.add(&value.span(), format!("{} has control characters", key.name));
                None
            }
            None => {
                self.wrong(key, value, found);
                None
            }
        }
    }

    /// A text that must be there.
    pub(super) fn required(&self, name: &'static str, found: &mut Found<'_>) -> Option<Placed<String>> {
        if self.get(name).is_none() {
            found.add(&self.span, format!("{} has no {name}: {}", self.name, self.key(name).help));
        }
        self.text(name, found)
    }

    pub(super) fn switch(&self, name: &'static str, found: &mut Found<'_>) -> bool {
        let key = self.key(name);
        match self.get(name) {
            None => key.default == "true",
            Some((_, value)) => value.get_ref().as_bool().unwrap_or_else(|| {
                self.wrong(key, value, found);
                false
            }),
        }
    }

    pub(super) fn count(&self, name: &'static str, found: &mut Found<'_>) -> u64 {
        let key = self.key(name);
        let Some((_, value)) = self.get(name) else { return key.default.parse().unwrap_or(0) };
        let Kind::Count(least, most) = key.kind else { return 0 };
        match integer(value.get_ref()) {
            Some(number) if (least..=most).contains(&number) => number.unsigned_abs(),
            _ => {
                self.wrong(key, value, found);
                0
            }
        }
    }

    pub(super) fn size(&self, name: &'static str, found: &mut Found<'_>) -> u64 {
        let key = self.key(name);
        let Some((_, value)) = self.get(name) else { return parse_size(key.default).unwrap_or(0) };
        let Kind::Size(least, most) = key.kind else { return 0 };
        let bytes = match value.get_ref().as_str() {
            Some(text) => parse_size(text).ok(),
            None => integer(value.get_ref()).and_then(|number| u64::try_from(number).ok()),
        };
        match bytes {
            Some(bytes) if (least..=most).contains(&bytes) => bytes,
            _ => {
                self.wrong(key, value, found);
                0
            }
        }
    }

    pub(super) fn time(&self, name: &'static str, found: &mut Found<'_>) -> Duration {
        let key = self.key(name);
        let Some((_, value)) = self.get(name) else { return parse_time(key.default).unwrap_or_default() };
        let Kind::Time(most) = key.kind else { return Duration::ZERO };
        match value.get_ref().as_str().and_then(|text| parse_time(text).ok()) {
            Some(time) if time <= Duration::from_secs(most) => time,
            _ => {
                self.wrong(key, value, found);
                Duration::ZERO
            }
        }
    }

    /// A table of this one.
    pub(super) fn table(
        &self,
        name: &'static str,
        keys: &'static [Key],
        found: &mut Found<'_>,
    ) -> Option<Section<'t, 'v>> {
        let (key, value) = self.get(name)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong(key, value, found);
            return None;
        };
        let name = if self.name.is_empty() { name.to_owned() } else { format!("{}.{name}", self.name) };
        Some(Section::new(&name, keys, table, value.span(), found))
    }

    /// The tables by name below a key, in the order of the file.
    pub(super) fn tables(
        &self,
        name: &'static str,
        keys: &'static [Key],
        found: &mut Found<'_>,
    ) -> Vec<(Placed<String>, Section<'t, 'v>)> {
        let Some((key, value)) = self.get(name) else { return Vec::new() };
        let Some(all) = value.get_ref().as_table() else {
            self.wrong(key, value, found);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (word, value) in all.iter() {
            let own: &str = word.get_ref();
            let Some(table) = value.get_ref().as_table() else {
                let message = format!(
                    "{name}.{} is {}; expected a table",
                    excerpt(own, MOST_SHOWN),
                    shown(value.get_ref())
                );
                found.add(&value.span(), message);
                continue;
            };
            let section = format!("{name}.{}", excerpt(own, MOST_SHOWN));
            let section = Section::new(&section, keys, table, word.span(), found);
            sections.push((Placed { value: own.to_owned(), span: word.span() }, section));
        }
        sections.sort_by_key(|(name, _)| name.span.start);
        sections
    }
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn shown(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("\"{}\"", excerpt(text, MOST_SHOWN)),
        DeValue::Integer(number) => excerpt(number.as_str(), MOST_SHOWN),
        DeValue::Float(number) => excerpt(number.as_str(), MOST_SHOWN),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
        DeValue::Datetime(_) => "a date".to_owned(),
    }
}

fn unknown(word: &str, section: &str, keys: &[Key]) -> String {
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    let place = if section.is_empty() { "the file".to_owned() } else { section.to_owned() };
    let word_shown = excerpt(word, MOST_SHOWN);
    match closest(word, names.iter().copied()) {
        Some(near) => format!("{place} has no key {word_shown}; did you mean {near}?"),
        None => format!("{place} has no key {word_shown}; there are {}", names.join(", ")),
    }
}
