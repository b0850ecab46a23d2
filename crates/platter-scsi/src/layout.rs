//! Where the fields of a structure lie.
//!
//! SCSI structures are big-endian down to the bit: a field begins at the most significant bit of a byte, or at one further
//! down, and goes on through the bytes that follow. So one pair of functions reads and writes every number.

use alloc::string::String;

/// How the bytes of a field are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An unsigned number of at most 64 bits.
    Number,
    /// ASCII text, filled up with spaces.
    Text,
    /// Bytes up to the end of the structure.
    Bytes,
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in the standard.
    pub name: &'static str,
    /// The byte in which the field begins.
    pub byte: u16,
    /// The field's most significant bit in that byte, 7 to 0.
    pub bit: u8,
    /// Length in bits.
    pub bits: u16,
    /// How the bytes are meant.
    pub kind: Kind,
}

/// A field of whole bytes.
pub const fn number(name: &'static str, byte: u16, bytes: u16) -> Field {
    Field { name, byte, bit: 7, bits: bytes * 8, kind: Kind::Number }
}

/// A field that begins at bit `bit` of a byte.
pub const fn bits(name: &'static str, byte: u16, bit: u8, bits: u16) -> Field {
    Field { name, byte, bit, bits, kind: Kind::Number }
}

/// A field of one bit.
pub const fn flag(name: &'static str, byte: u16, bit: u8) -> Field {
    bits(name, byte, bit, 1)
}

/// Text of whole bytes.
pub const fn text(name: &'static str, byte: u16, bytes: u16) -> Field {
    Field { name, byte, bit: 7, bits: bytes * 8, kind: Kind::Text }
}

/// Text up to the end of the structure.
pub const fn text_to_end(name: &'static str, byte: u16) -> Field {
    text(name, byte, 0)
}

/// Bytes up to the end of the structure.
pub const fn bytes_to_end(name: &'static str, byte: u16) -> Field {
    Field { name, byte, bit: 7, bits: 0, kind: Kind::Bytes }
}

impl Field {
    /// The bits of the field, counted from the most significant bit of byte 0.
    const fn range(&self) -> core::ops::Range<usize> {
        let start = self.byte as usize * 8 + (7 - self.bit as usize);
        start..start + self.bits as usize
    }

    /// The byte after the last one of the field.
    pub const fn end(&self) -> usize {
        self.range().end.div_ceil(8)
    }

    /// The largest value of a number.
    pub const fn max(&self) -> u64 {
        if self.bits >= 64 { u64::MAX } else { (1 << self.bits) - 1 }
    }

    /// The number in a structure; `None` if the structure ends before the field does, or the field is not a number.
    pub fn get(&self, of: &[u8]) -> Option<u64> {
        if self.kind != Kind::Number || of.len() < self.end() {
            return None;
        }
        let step = |value, at: usize| value << 1 | u64::from(of[at / 8] >> (7 - at % 8) & 1);
        Some(self.range().fold(0, step))
    }

    /// The bytes of a field that is not a number, whole or as far as the structure reaches.
    pub fn bytes<'a>(&self, of: &'a [u8]) -> Option<&'a [u8]> {
        let end = if self.bits == 0 { of.len() } else { self.end().min(of.len()) };
        of.get(usize::from(self.byte)..end).filter(|_| self.kind != Kind::Number)
    }

    /// The text in a structure, without the spaces and zero bytes around it; `None` if the field is not text or begins
    /// after the structure's end. Bytes that are not printable ASCII become `.`.
    pub fn text(&self, of: &[u8]) -> Option<String> {
        let bytes = self.bytes(of).filter(|_| self.kind == Kind::Text)?;
        let printable = |&byte: &u8| match byte {
            0 => ' ',
            0x20..0x7f => char::from(byte),
            _ => '.',
        };
        Some(bytes.iter().map(printable).collect::<String>().trim().into())
    }

    /// Writes a number. `false`, and nothing is written, if it does not fit or the structure ends before the field does.
    #[must_use]
    pub fn set(&self, of: &mut [u8], value: u64) -> bool {
        if self.kind != Kind::Number || of.len() < self.end() || value > self.max() {
            return false;
        }
        for (left, at) in self.range().rev().enumerate() {
            let mask = 1 << (7 - at % 8);
            match value >> left & 1 {
                0 => of[at / 8] &= !mask,
                _ => of[at / 8] |= mask,
            }
        }
        true
    }

    /// Sets all bits of the field, as far as the structure reaches.
    pub(crate) fn fill(&self, of: &mut [u8]) {
        let reach = of.len() * 8;
        self.range().filter(|at| *at < reach).for_each(|at| of[at / 8] |= 1 << (7 - at % 8));
    }
}

/// The field of a name.
pub fn find(fields: &'static [Field], name: &str) -> Option<&'static Field> {
    fields.iter().find(|field| field.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What is set is read back, and no other bit changes.
        #[test]
        fn a_number_changes_only_its_bits(
            mut bytes in prop::collection::vec(any::<u8>(), 12..20),
            byte in 0u16..12, bit in 0u8..8, len in 1u16..=64, value in any::<u64>(),
        ) {
            let field = bits("FIELD", byte, bit, len);
            let before = bytes.clone();
            let fits = bytes.len() >= field.end() && value <= field.max();
            prop_assert_eq!(field.set(&mut bytes, value), fits);
            if fits {
                prop_assert_eq!(field.get(&bytes), Some(value));
            }
            for at in (0..bytes.len() * 8).filter(|at| !fits || !field.range().contains(at)) {
                prop_assert_eq!(bytes[at / 8] >> (7 - at % 8) & 1, before[at / 8] >> (7 - at % 8) & 1);
            }
        }
    }

    #[test]
    fn a_field_crosses_bytes_from_the_bit_where_it_begins() {
        // The logical block address of READ(6): five bits of byte 1, then bytes 2 and 3.
        let address = bits("LOGICAL BLOCK ADDRESS", 1, 4, 21);
        assert_eq!(address.get(&[8, 0xff, 0x12, 0x34, 1, 0]), Some(0x1f_1234));
    }
}
