//! Structures that devices return: fields at fixed places, then perhaps a list of further structures.

use crate::layout::{self, Field, Kind};
use alloc::string::String;
use alloc::vec::Vec;
use platter_block::planted::{self, Planted};

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
    /// Structures that follow the fields, up to the end.
    pub items: Option<Items>,
}

/// A list inside a structure.
#[derive(Debug)]
pub struct Items {
    /// The byte where the first begins, given the bytes of the structure.
    pub start: fn(&[u8]) -> usize,
    /// The layout of the one that these bytes begin with; its own length tells where the next begins.
    pub each: fn(&[u8]) -> &'static Structure,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number.
    Number(u64),
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
    /// Looks at bytes as this structure. What follows the length that it states is not part of it.
    pub fn decode<'a>(&'static self, bytes: &'a [u8]) -> Decoded<'a> {
        let stated = (self.length)(bytes);
        let len = if planted::is_on(Planted::ScsiLength) { stated } else { stated.min(bytes.len()) };
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
                Kind::Text => Value::Text(field.text(bytes)?),
                Kind::Bytes => Value::Bytes(field.bytes(bytes)?),
            };
            Some((field.name, value))
        })
    }

    /// The structures of the list.
    pub fn items(&self) -> Vec<Decoded<'a>> {
        let Some(list) = &self.structure.items else { return Vec::new() };
        let mut rest = self.bytes.get((list.start)(self.bytes)..).unwrap_or_default();
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

/// A number of whole bytes at a place, 0 where the bytes end before it.
pub(crate) fn number_at(bytes: &[u8], at: usize, len: usize) -> usize {
    let found = bytes.get(at..at + len).unwrap_or_default();
    found.iter().fold(0, |value, byte| value << 8 | usize::from(*byte))
}
