//! Where the fields of a structure lie.
//!
//! A structure is big-endian down to the bit (SCSI): a field begins at the most significant bit of a byte, or at one
//! further down, and goes on through the bytes that follow. Or it is little-endian down to the bit (NVMe): a field begins at
//! the least significant bit of a byte, or at one further up, and goes on in the same way. So one pair of functions reads and
//! writes every number.

use alloc::string::String;

/// How the bytes of a field are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An unsigned number of at most 64 bits.
    Number,
    /// An unsigned number of at most 128 bits.
    Wide,
    /// ASCII text, filled up with spaces.
    Text,
    /// Bytes without a meaning as a number.
    Bytes,
}

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The most significant one.
    Big,
    /// The least significant one.
    Little,
}

/// A field of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in the standard.
    pub name: &'static str,
    /// The byte in which the field begins.
    pub byte: u16,
    /// The bit in that byte where the field begins, 7 to 0: its most significant one in a big-endian structure, its least
    /// significant one in a little-endian one.
    pub bit: u8,
    /// Length in bits; 0: up to the end of the structure (text and bytes).
    pub bits: u16,
    /// How the bytes are meant.
    pub kind: Kind,
    /// Which byte of a number comes first.
    pub order: Order,
}

/// A field of whole bytes.
pub const fn number(name: &'static str, byte: u16, bytes: u16) -> Field {
    bits(name, byte, 7, bytes * 8)
}

/// A field that begins at bit `bit` of a byte.
pub const fn bits(name: &'static str, byte: u16, bit: u8, bits: u16) -> Field {
    Field { name, byte, bit, bits, kind: Kind::Number, order: Order::Big }
}

/// A field of one bit.
pub const fn flag(name: &'static str, byte: u16, bit: u8) -> Field {
    bits(name, byte, bit, 1)
}

/// Text of whole bytes.
pub const fn text(name: &'static str, byte: u16, bytes: u16) -> Field {
    Field { kind: Kind::Text, ..number(name, byte, bytes) }
}

/// Text up to the end of the structure.
pub const fn text_to_end(name: &'static str, byte: u16) -> Field {
    text(name, byte, 0)
}

/// Bytes without a meaning as a number.
pub const fn bytes(name: &'static str, byte: u16, bytes: u16) -> Field {
    Field { kind: Kind::Bytes, ..number(name, byte, bytes) }
}

/// Bytes up to the end of the structure.
pub const fn bytes_to_end(name: &'static str, byte: u16) -> Field {
    bytes(name, byte, 0)
}

/// Fields of structures whose numbers have the least significant byte first. Text and bytes are the same in both.
pub mod little {
    use super::{Field, Kind, Order};

    /// A field of whole bytes.
    pub const fn number(name: &'static str, byte: u16, bytes: u16) -> Field {
        bits(name, byte, 0, bytes * 8)
    }

    /// A field whose least significant bit is bit `bit` of a byte.
    pub const fn bits(name: &'static str, byte: u16, bit: u8, bits: u16) -> Field {
        Field { name, byte, bit, bits, kind: Kind::Number, order: Order::Little }
    }

    /// A field of one bit.
    pub const fn flag(name: &'static str, byte: u16, bit: u8) -> Field {
        bits(name, byte, bit, 1)
    }

    /// A number of 16 bytes.
    pub const fn wide(name: &'static str, byte: u16) -> Field {
        Field { kind: Kind::Wide, ..number(name, byte, 16) }
    }
}

impl Field {
    /// The bits of the field in the order of its structure: from the most significant bit of byte 0 on, or from the least
    /// significant one.
    const fn range(&self) -> core::ops::Range<usize> {
        let inside = match self.order {
            Order::Big => 7 - self.bit as usize,
            Order::Little => self.bit as usize,
        };
        let start = self.byte as usize * 8 + inside;
        start..start + self.bits as usize
    }

    /// Byte and mask of a bit that [`Field::range`] counts.
    const fn place(&self, at: usize) -> (usize, u8) {
        match self.order {
            Order::Big => (at / 8, 1 << (7 - at % 8)),
            Order::Little => (at / 8, 1 << (at % 8)),
        }
    }

    /// The bits from the least significant one on.
    fn rising(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        let range = self.range();
        let at = move |n| match self.order {
            Order::Big => range.end - 1 - n,
            Order::Little => range.start + n,
        };
        (0..usize::from(self.bits)).map(move |n| self.place(at(n)))
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
        (self.kind == Kind::Number).then(|| self.number(of)).flatten().map(|value| value as u64)
    }

    /// The same of a number of more than 64 bits.
    pub fn wide(&self, of: &[u8]) -> Option<u128> {
        (self.kind == Kind::Wide).then(|| self.number(of)).flatten()
    }

    /// The bytes of a number that has whole ones, which most have: they are moved at once, the others bit by bit.
    const fn whole(&self) -> Option<core::ops::Range<usize>> {
        let range = self.range();
        if range.start.is_multiple_of(8) && range.end.is_multiple_of(8) {
            Some(range.start / 8..range.end / 8)
        } else {
            None
        }
    }

    fn number(&self, of: &[u8]) -> Option<u128> {
        if let Some(whole) = self.whole() {
            let bytes = of.get(whole)?;
            let mut number = [0; 16];
            return Some(match self.order {
                Order::Big => {
                    number[16 - bytes.len()..].copy_from_slice(bytes);
                    u128::from_be_bytes(number)
                }
                Order::Little => {
                    number[..bytes.len()].copy_from_slice(bytes);
                    u128::from_le_bytes(number)
                }
            });
        }
        if of.len() < self.end() {
            return None;
        }
        let bit = |(n, (byte, mask)): (usize, (usize, u8))| u128::from(of[byte] & mask != 0) << n;
        Some(self.rising().enumerate().map(bit).sum())
    }

    /// The bytes of a field that is not a number, whole or as far as the structure reaches.
    pub fn bytes<'a>(&self, of: &'a [u8]) -> Option<&'a [u8]> {
        let end = if self.bits == 0 { of.len() } else { self.end().min(of.len()) };
        of.get(usize::from(self.byte)..end).filter(|_| matches!(self.kind, Kind::Text | Kind::Bytes))
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
        self.kind == Kind::Number && value <= self.max() && self.put(of, value.into())
    }

    /// The same of a number of more than 64 bits.
    #[must_use]
    pub fn set_wide(&self, of: &mut [u8], value: u128) -> bool {
        self.kind == Kind::Wide && self.put(of, value)
    }

    fn put(&self, of: &mut [u8], value: u128) -> bool {
        if of.len() < self.end() {
            return false;
        }
        if let Some(whole) = self.whole() {
            let bytes = &mut of[whole];
            let len = bytes.len();
            match self.order {
                Order::Big => bytes.copy_from_slice(&value.to_be_bytes()[16 - len..]),
                Order::Little => bytes.copy_from_slice(&value.to_le_bytes()[..len]),
            }
            return true;
        }
        for (n, (byte, mask)) in self.rising().enumerate() {
            match value >> n & 1 {
                0 => of[byte] &= !mask,
                _ => of[byte] |= mask,
            }
        }
        true
    }

    /// Writes text, filled up with spaces, or bytes, filled up with zeroes; characters that are not printable ASCII become
    /// spaces. `false`, and nothing is written, if they are longer than the field, or than what the structure has of it.
    #[must_use]
    pub fn set_bytes(&self, of: &mut [u8], value: &[u8]) -> bool {
        let fill = match self.kind {
            Kind::Text => b' ',
            Kind::Bytes => 0,
            Kind::Number | Kind::Wide => return false,
        };
        let end = if self.bits == 0 { of.len() } else { self.end().min(of.len()) };
        let Some(own) = of.get_mut(usize::from(self.byte)..end) else { return false };
        if value.len() > own.len() {
            return false;
        }
        let shown = |byte: u8| match self.kind {
            Kind::Text if !matches!(byte, 0x20..0x7f) => b' ',
            _ => byte,
        };
        own.fill(fill);
        own.iter_mut().zip(value).for_each(|(to, from)| *to = shown(*from));
        true
    }

    /// Sets all bits of the field, as far as the structure reaches.
    pub fn fill(&self, of: &mut [u8]) {
        let reach = of.len();
        self.rising().filter(|(byte, _)| *byte < reach).for_each(|(byte, mask)| of[byte] |= mask);
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
            byte in 0u16..12, bit in 0u8..8, len in 1u16..=64, value in any::<u64>(), is_little in any::<bool>(),
        ) {
            let field = if is_little { little::bits("FIELD", byte, bit, len) } else { bits("FIELD", byte, bit, len) };
            let before = bytes.clone();
            let fits = bytes.len() >= field.end() && value <= field.max();
            prop_assert_eq!(field.set(&mut bytes, value), fits);
            if fits {
                prop_assert_eq!(field.get(&bytes), Some(value));
            }
            for at in (0..bytes.len() * 8).filter(|at| !fits || !field.range().contains(at)) {
                let (byte, mask) = field.place(at);
                prop_assert_eq!(bytes[byte] & mask, before[byte] & mask);
            }
        }

        /// Whole bytes are the numbers of the machine's own conversions.
        #[test]
        fn whole_bytes_are_integers_of_their_order(bytes in any::<[u8; 16]>(), value in any::<u128>()) {
            let own: [u8; 8] = core::array::from_fn(|n| bytes[n + 3]);
            prop_assert_eq!(number("FIELD", 3, 8).get(&bytes), Some(u64::from_be_bytes(own)));
            prop_assert_eq!(little::number("FIELD", 3, 8).get(&bytes), Some(u64::from_le_bytes(own)));
            let (wide, mut written) = (little::wide("FIELD", 0), bytes);
            prop_assert_eq!((wide.wide(&bytes), wide.get(&bytes)), (Some(u128::from_le_bytes(bytes)), None));
            prop_assert!(wide.set_wide(&mut written, value));
            prop_assert_eq!(written, value.to_le_bytes());
        }
    }

    #[test]
    fn a_field_crosses_bytes_from_the_bit_where_it_begins() {
        // The logical block address of READ(6): five bits of byte 1, then bytes 2 and 3.
        let address = bits("LOGICAL BLOCK ADDRESS", 1, 4, 21);
        assert_eq!(address.get(&[8, 0xff, 0x12, 0x34, 1, 0]), Some(0x1f_1234));
    }

    #[test]
    fn a_little_endian_field_crosses_bytes_from_the_bit_where_it_begins() {
        // Number of logical blocks, then protection information in the high bits of the dword (NVM command set, Write).
        let information = little::bits("prinfo", 3, 2, 4);
        assert_eq!(information.get(&[0, 0, 0, 0b0010_1000]), Some(0b1010));
        assert_eq!(little::bits("field", 0, 4, 8).get(&[0xa5, 0x0b]), Some(0xba));
    }

    #[test]
    fn text_and_bytes_are_filled_up_and_never_cut() {
        let mut of = [0xff; 6];
        assert!(text("sn", 1, 4).set_bytes(&mut of, b"a\nb"));
        assert_eq!(of, [0xff, b'a', b' ', b'b', b' ', 0xff]);
        assert!(bytes("eui64", 4, 2).set_bytes(&mut of, &[7]));
        assert_eq!(of[4..], [7, 0]);
        assert!(!bytes("eui64", 4, 2).set_bytes(&mut of, &[1, 2, 3]));
        // The structure has two bytes of the field, or none.
        assert!(
            bytes("nguid", 4, 16).set_bytes(&mut of, &[7])
                && !bytes("nguid", 4, 16).set_bytes(&mut of, &[7; 3])
        );
        assert!(!bytes("nguid", 7, 16).set_bytes(&mut of, &[1]));
        assert!(!number("nsze", 0, 2).set_bytes(&mut of, &[1]));
        assert_eq!(of[4..], [7, 0]);
    }
}
