//! Structures that devices return: fields at fixed places, then perhaps a list of further structures.

use crate::layout::{self, Field, Kind};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// The layout of a structure.
#[derive(Debug)]
pub struct Structure {
    /// The name in the standard.
    pub name: &'static str,
    /// The standard that defines it.
    pub standard: &'static str,
    /// Fields at fixed places.
    pub fields: &'static [Field],
    /// Length that the structure states for itself, given its bytes.
    pub length: fn(&[u8]) -> usize,
    /// Structures that follow the fields.
    pub items: Option<Items>,
}

/// A list inside a structure.
#[derive(Debug)]
pub struct Items {
    /// The byte where the first begins, given the bytes of the structure.
    pub start: fn(&[u8]) -> usize,
    /// The byte after the last, given the same; [`to_end`] for those that reach to the end of the structure.
    pub end: fn(&[u8]) -> usize,
    /// The layout of the one that these bytes begin with; its own length tells where the next begins.
    pub each: fn(&[u8]) -> &'static Structure,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
    /// A number of more than 64 bits.
    Wide(u128),
    /// Text.
    Text(String),
    /// Bytes without a meaning that is known here.
    Bytes(&'a [u8]),
}

/// Bytes, seen through a layout. They may end early: a device returns no more than the allocation length.
#[derive(Clone, Copy, Debug)]
pub struct Decoded<'a> {
    structure: &'static Structure,
    bytes: &'a [u8],
}

impl Structure {
    /// A structure of `len` bytes that are zero.
    pub fn build(&'static self, len: usize) -> Built {
        self.edit(vec![0; len])
    }

    /// Bytes whose fields can be set; the others stay as they are.
    pub const fn edit(&'static self, bytes: Vec<u8>) -> Built {
        Built { structure: self, bytes }
    }

    /// Looks at bytes as this structure. What follows the length that it states is not part of it.
    pub fn decode<'a>(&'static self, bytes: &'a [u8]) -> Decoded<'a> {
        let len = (self.length)(bytes).min(bytes.len());
        Decoded { structure: self, bytes: &bytes[..len] }
    }
}

impl<'a> Decoded<'a> {
    /// The layout.
    pub fn structure(&self) -> &'static Structure {
        self.structure
    }

    /// The bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The number of a name; `None` if the layout has none of this name or the bytes end before it.
    pub fn get(&self, name: &str) -> Option<u64> {
        layout::find(self.structure.fields, name)?.get(self.bytes)
    }

    /// Fields and values. Those that the bytes do not reach are left out.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Value<'a>)> + use<'a> {
        let bytes = self.bytes;
        self.structure.fields.iter().filter_map(move |field| {
            let value = match field.kind {
                Kind::Number => Value::Number(field.get(bytes)?),
                Kind::Wide => Value::Wide(field.wide(bytes)?),
                Kind::Text => Value::Text(field.text(bytes)?),
                Kind::Bytes => Value::Bytes(field.bytes(bytes)?),
            };
            Some((field.name, value))
        })
    }

    /// The bytes of the list; none if the structure has no list or ends before it.
    pub fn list(&self) -> &'a [u8] {
        let Some(list) = &self.structure.items else { return &[] };
        let end = (list.end)(self.bytes).min(self.bytes.len());
        self.bytes.get((list.start)(self.bytes)..end).unwrap_or_default()
    }

    /// The structures of the list.
    pub fn items(&self) -> Vec<Decoded<'a>> {
        let Some(list) = &self.structure.items else { return Vec::new() };
        let mut rest = self.list();
        let mut all = Vec::new();
        while !rest.is_empty() {
            let item = (list.each)(rest).decode(rest);
            // A structure that states no length would never end.
            let len = item.bytes.len().max(1);
            all.push(item);
            rest = &rest[len..];
        }
        all
    }
}

/// A structure with bytes of its own, whose fields can be set.
#[derive(Clone, Debug)]
pub struct Built {
    structure: &'static Structure,
    bytes: Vec<u8>,
}

impl Built {
    /// Sets a field. `false`, and nothing changes, if the structure has none of this name, the value does not fit, or the
    /// field is of another kind.
    #[must_use]
    pub fn set(&mut self, name: &str, value: &Value<'_>) -> bool {
        let Some(field) = layout::find(self.structure.fields, name) else { return false };
        match value {
            Value::Number(value) => field.set(&mut self.bytes, *value),
            Value::Wide(value) => field.set_wide(&mut self.bytes, *value),
            Value::Text(text) => field.set_bytes(&mut self.bytes, text.as_bytes()),
            Value::Bytes(bytes) => field.set_bytes(&mut self.bytes, bytes),
        }
    }

    /// Sets a number; one above the field's range becomes its largest value.
    ///
    /// # Panics
    /// If the structure has no number of this name inside its bytes.
    #[must_use]
    pub fn with(mut self, name: &str, value: u64) -> Built {
        let field = layout::find(self.structure.fields, name);
        let set = field.is_some_and(|field| field.set(&mut self.bytes, value.min(field.max())));
        self.must(set, name)
    }

    /// Sets a number of more than 64 bits.
    ///
    /// # Panics
    /// As [`Built::with`].
    #[must_use]
    pub fn with_wide(mut self, name: &str, value: u128) -> Built {
        let set = self.set(name, &Value::Wide(value));
        self.must(set, name)
    }

    /// Sets text or bytes, of which as many are used as the field has.
    ///
    /// # Panics
    /// As [`Built::with`].
    #[must_use]
    pub fn with_bytes(mut self, name: &str, value: &[u8]) -> Built {
        let set = layout::find(self.structure.fields, name).is_some_and(|field| {
            let room = if field.bits == 0 { value.len() } else { usize::from(field.bits / 8) };
            field.set_bytes(&mut self.bytes, &value[..value.len().min(room)])
        });
        self.must(set, name)
    }

    fn must(self, set: bool, name: &str) -> Built {
        let (structure, len) = (self.structure.name, self.bytes.len());
        assert!(set, "{structure} has no such field {name} within {len} bytes");
        self
    }

    /// The bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// The end of a list that reaches to the end of its structure.
pub const fn to_end(bytes: &[u8]) -> usize {
    bytes.len()
}

/// A big-endian number of whole bytes at a place, 0 where the bytes end before it.
pub fn number_at(bytes: &[u8], at: usize, len: usize) -> usize {
    let found = bytes.get(at..at + len).unwrap_or_default();
    found.iter().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

/// The same of a little-endian number.
pub fn little_at(bytes: &[u8], at: usize, len: usize) -> usize {
    let found = bytes.get(at..at + len).unwrap_or_default();
    found.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}
