//! The fields of a block, typed and checked.

use super::error::ImportError;
use super::text::{Block, Kind, Value};

impl Block {
    pub(super) fn find(&self, key: &str) -> Option<&Value> {
        self.fields.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(super) fn get(&self, key: &str) -> Result<&Value, ImportError> {
        self.find(key).ok_or_else(|| {
            let expected = format!("`{key}` in `{}`", self.title());
            ImportError::new(&self.file, self.line, expected, "none")
        })
    }

    pub(super) fn title(&self) -> String {
        format!("{} {}", self.kind, self.name).trim_end().to_string()
    }

    /// A whole number in a range.
    pub(super) fn number(&self, key: &str, least: u32, most: u32) -> Result<u32, ImportError> {
        self.get(key)?.number(key, least, most)
    }

    pub(super) fn flag(&self, key: &str) -> Result<bool, ImportError> {
        Ok(self.number(key, 0, 1)? == 1)
    }

    /// A time in milliseconds, as nanoseconds.
    pub(super) fn time(&self, key: &str) -> Result<u64, ImportError> {
        self.get(key)?.nanoseconds(key, 1.0)
    }

    /// A time in milliseconds that may be negative, as nanoseconds.
    pub(super) fn signed_time(&self, key: &str) -> Result<i64, ImportError> {
        let value = self.get(key)?;
        match value.float() {
            Some(time) if time.abs() <= 1e6 => Ok((time * 1e6).round() as i64),
            _ => Err(value.error(format!("a number from -1000000 to 1000000 as `{key}`"))),
        }
    }

    pub(super) fn word(&self, key: &str) -> Result<&str, ImportError> {
        self.get(key)?.word(key)
    }

    pub(super) fn list(&self, key: &str) -> Result<&[Value], ImportError> {
        let value = self.get(key)?;
        match &value.kind {
            Kind::List(list) => Ok(list),
            _ => Err(value.error(format!("a list as `{key}`"))),
        }
    }
}

impl Value {
    pub(super) fn error(&self, expected: impl Into<String>) -> ImportError {
        let found = match &self.kind {
            Kind::Word(word) => format!("`{word}`"),
            Kind::List(list) => format!("a list of {}", list.len()),
            Kind::Block(block) => format!("a block `{}`", block.kind),
        };
        ImportError::new(&self.file, self.line, expected, found)
    }

    pub(super) fn word(&self, key: &str) -> Result<&str, ImportError> {
        match &self.kind {
            Kind::Word(word) => Ok(word),
            _ => Err(self.error(format!("a word as `{key}`"))),
        }
    }

    /// A whole number, perhaps written as `14.000000`.
    pub(super) fn number(&self, key: &str, least: u32, most: u32) -> Result<u32, ImportError> {
        let expected = || format!("a whole number from {least} to {most} as `{key}`");
        let value =
            self.float().filter(|value| value.fract() == 0.0).ok_or_else(|| self.error(expected()))?;
        if value < f64::from(least) || value > f64::from(most) {
            return Err(self.error(expected()));
        }
        Ok(value as u32)
    }

    /// A time in milliseconds, times `scale`, in nanoseconds: at most 1000 seconds.
    pub(super) fn nanoseconds(&self, key: &str, scale: f64) -> Result<u64, ImportError> {
        self.scaled(key, 1e6 * scale, 1e12)
    }

    /// A time in milliseconds, in picoseconds: at most 1000 seconds.
    pub(super) fn picoseconds(&self, key: &str) -> Result<u64, ImportError> {
        self.scaled(key, 1e9, 1e15)
    }

    fn scaled(&self, key: &str, scale: f64, most: f64) -> Result<u64, ImportError> {
        match self.float() {
            Some(value) if value >= 0.0 && value * scale <= most => Ok((value * scale).round() as u64),
            _ if scale > 0.0 => Err(self.error(format!("a number from 0 to {} as `{key}`", most / scale))),
            _ => Err(self.error(format!("a number of at least 0 as `{key}`"))),
        }
    }

    pub(super) fn float(&self) -> Option<f64> {
        match &self.kind {
            Kind::Word(word) => word.parse::<f64>().ok().filter(|value| value.is_finite()),
            _ => None,
        }
    }

    pub(super) fn block(&self, expected: &str) -> Result<&Block, ImportError> {
        match &self.kind {
            Kind::Block(block) => Ok(block),
            _ => Err(self.error(expected)),
        }
    }
}
