//! The status of a layer: named values with units, in one form for programs, reports and servers.
//!
//! A layer returns the list from [`Managed::status`](crate::capability::Managed::status).

use crate::params::{Param, Unit};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// The value of an item of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A number, in the unit of the item.
    Number(u64),
    /// Whether something is so.
    Switch(bool),
    /// One of a few words, or the text of an error.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Switch(true) => f.write_str("yes"),
            Value::Switch(false) => f.write_str("no"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// One item of the status of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// Its name: words in lower case, with spaces between them, unique in the status.
    pub name: &'static str,
    /// The value.
    pub value: Value,
    /// The unit of a number; [`Unit::Switch`] or [`Unit::Word`] for the others.
    pub unit: Unit,
    /// Description of one line.
    pub help: &'static str,
}

impl Item {
    /// A number with a unit.
    pub fn number(name: &'static str, unit: Unit, value: u64, help: &'static str) -> Item {
        Item { name, value: Value::Number(value), unit, help }
    }

    /// Whether something is so.
    pub fn switch(name: &'static str, value: bool, help: &'static str) -> Item {
        Item { name, value: Value::Switch(value), unit: Unit::Switch, help }
    }

    /// A word or a text.
    pub fn text(name: &'static str, value: impl Into<String>, help: &'static str) -> Item {
        Item { name, value: Value::Text(value.into()), unit: Unit::Word, help }
    }

    /// The name as a key of JSON and of other tables: underscores instead of spaces and hyphens.
    pub fn key(&self) -> String {
        self.name.replace([' ', '-'], "_")
    }

    /// The item as a fact for reports, see [`Backend::facts`](crate::backend::Backend::facts).
    pub fn fact(&self) -> (&'static str, String) {
        (self.name, self.value.to_string())
    }
}

/// The status of one layer of a stack, and its parameters that can be set while it is open.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LayerStatus {
    /// Name of the device that the layer shows.
    pub device: Arc<str>,
    /// The items, in the order of the layer.
    pub items: Vec<Item>,
    /// Parameters and their values.
    pub params: Vec<(Param, i64)>,
}

impl LayerStatus {
    /// The value of the item with this name.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.items.iter().find(|item| item.name == name).map(|item| &item.value)
    }

    /// The number with this name; `None` if there is none, or the item is no number.
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.value(name)? {
            Value::Number(number) => Some(*number),
            Value::Switch(_) | Value::Text(_) => None,
        }
    }

    /// The word or text with this name; `None` if there is none, or the item is no text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name)? {
            Value::Text(text) => Some(text),
            Value::Number(_) | Value::Switch(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_type() {
        let items = Vec::from([
            Item::number("dirty bytes", Unit::Bytes, 4096, "bytes"),
            Item::switch("paused", true, "whether it is paused"),
            Item::text("state", "merging", "state"),
        ]);
        let facts: Vec<(&str, String)> = items.iter().map(Item::fact).collect();
        assert_eq!(facts[0], ("dirty bytes", "4096".to_string()));
        assert_eq!((facts[1].1.as_str(), facts[2].1.as_str()), ("yes", "merging"));
        assert_eq!(items[0].key(), "dirty_bytes");
        let errors = Item::number("write-back errors", Unit::Count, 1, "errors");
        assert_eq!(errors.key(), "write_back_errors");
        let status = LayerStatus { device: Arc::from("a"), items, params: Vec::new() };
        assert_eq!((status.number("dirty bytes"), status.number("state")), (Some(4096), None));
        assert_eq!((status.text("state"), status.text("dirty bytes")), (Some("merging"), None));
        assert_eq!(status.value("paused"), Some(&Value::Switch(true)));
        assert_eq!(status.value("unknown"), None);
    }
}
