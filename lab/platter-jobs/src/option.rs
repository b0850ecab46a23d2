//! The table of fio's options: what each takes, and what it means here.

mod ends;
mod place;
mod refused;
mod report;
mod shape;

use crate::value::read::Reader;
use crate::value::{Kind, Value};

/// What an option means here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// `bench io` carries it out.
    Done(&'static str),
    /// It is in the plan, and a run refuses any value but the default: what it is, and what to use instead.
    Planned(&'static str, &'static str),
    /// It changes nothing here: why.
    Idle(&'static str),
    /// A job file that has it is refused: what to use instead.
    Refused(&'static str),
}

/// An option.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// fio's name.
    pub name: &'static str,
    /// fio's other names of it.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub kind: Kind,
    /// fio's default, as a job file would have it; empty where there is none.
    pub default: &'static str,
    /// What it means here.
    pub meaning: Meaning,
}

impl Row {
    const fn new(name: &'static str, kind: Kind, default: &'static str, meaning: Meaning) -> Row {
        Row { name, aliases: &[], kind, default, meaning }
    }

    const fn or(self, aliases: &'static [&'static str]) -> Row {
        Row { aliases, ..self }
    }

    /// fio's default.
    pub fn default_value(&self) -> Option<Value> {
        if self.default.is_empty() {
            return None;
        }
        // A test reads the defaults of all rows.
        Reader::new(false).value(self.kind, self.default, None).ok()
    }

    /// Whether a job file may have it.
    pub fn is_refused(&self) -> bool {
        matches!(self.meaning, Meaning::Refused(_))
    }
}

const fn done(name: &'static str, kind: Kind, default: &'static str, what: &'static str) -> Row {
    Row::new(name, kind, default, Meaning::Done(what))
}

const fn planned(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    what: &'static str,
    instead: &'static str,
) -> Row {
    Row::new(name, kind, default, Meaning::Planned(what, instead))
}

const fn idle(name: &'static str, kind: Kind, default: &'static str, why: &'static str) -> Row {
    Row::new(name, kind, default, Meaning::Idle(why))
}

const fn refused(name: &'static str, instead: &'static str) -> Row {
    Row::new(name, Kind::Text, "", Meaning::Refused(instead))
}

const SWITCH: Kind = Kind::Switch;
const FLAG: Kind = Kind::Flag;
const COUNT: Kind = Kind::Integer(0, i64::MAX);
const ONE_UP: Kind = Kind::Integer(1, i64::MAX);
const PERCENT: Kind = Kind::Integer(0, 100);
const TEXT: Kind = Kind::Text;

/// The options, by what they are about.
static PARTS: [&[Row]; 5] = [shape::ROWS, place::ROWS, ends::ROWS, report::ROWS, refused::ROWS];

/// Every option, those that are refused last.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    PARTS.iter().flat_map(|part| part.iter())
}

/// How many options there are.
pub(crate) fn count() -> usize {
    PARTS.iter().map(|part| part.len()).sum()
}

/// The number and the row of an option, by any of its names.
pub(crate) fn find(name: &str) -> Option<(usize, &'static Row)> {
    rows().enumerate().find(|(_, row)| row.name == name || row.aliases.contains(&name))
}

/// The option whose name is nearest to an unknown one.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    // Longer names are no slips of the keyboard, and would take long to compare.
    if name.is_empty() || name.len() > 40 {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    let names = rows().flat_map(|row| [row.name].into_iter().chain(row.aliases.iter().copied()));
    let near = names.map(|known| (distance(&lower, known), known)).min()?;
    (near.0 <= 1 + name.len() / 4).then_some(near.1)
}

/// Number of changes of a letter that lead from one word to another.
fn distance(a: &str, b: &str) -> usize {
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut before = last[0];
        last[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let here = (before + usize::from(x != y)).min(last[j] + 1).min(last[j + 1] + 1);
            before = last[j + 1];
            last[j + 1] = here;
        }
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_defaults_are_values() {
        let mut seen = HashSet::new();
        for row in rows() {
            for name in [row.name].iter().chain(row.aliases) {
                assert!(seen.insert(*name), "{name}");
            }
            if !row.default.is_empty() {
                let read = Reader::new(false).value(row.kind, row.default, None);
                assert!(read.is_ok(), "{}: {read:?}", row.name);
            }
        }
        assert!(seen.len() > 220, "{}", seen.len());
    }

    #[test]
    fn a_slip_is_recognised() {
        assert_eq!(nearest("iodpeth"), Some("iodepth"));
        assert_eq!(nearest("BS"), Some("bs"));
        assert_eq!(nearest("blcoksize"), Some("blocksize"));
        assert_eq!(nearest("something_else"), None);
    }
}
