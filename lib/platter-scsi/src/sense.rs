//! Sense data: why a command failed, in fixed or descriptor format (SPC-4, sense data).

mod failure;
mod words;

pub use failure::Failure;
pub use words::words;

use crate::layout::{bits, bytes_to_end, flag, number};
use crate::structure::{Decoded, Items, Structure, number_at, to_end};
use core::fmt;

/// What kind of failure it was: the sense key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(pub u8);

impl Key {
    /// NO SENSE.
    pub const NO_SENSE: Key = Key(0);
    /// MEDIUM ERROR.
    pub const MEDIUM_ERROR: Key = Key(3);
    /// HARDWARE ERROR.
    pub const HARDWARE_ERROR: Key = Key(4);
    /// ILLEGAL REQUEST.
    pub const ILLEGAL_REQUEST: Key = Key(5);
    /// NOT READY.
    pub const NOT_READY: Key = Key(2);
    /// UNIT ATTENTION.
    pub const UNIT_ATTENTION: Key = Key(6);
    /// DATA PROTECT.
    pub const DATA_PROTECT: Key = Key(7);
    /// ABORTED COMMAND.
    pub const ABORTED_COMMAND: Key = Key(0xb);
    /// MISCOMPARE.
    pub const MISCOMPARE: Key = Key(0xe);

    /// The name in the standard.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0x0 => "NO SENSE",
            0x1 => "RECOVERED ERROR",
            0x2 => "NOT READY",
            0x3 => "MEDIUM ERROR",
            0x4 => "HARDWARE ERROR",
            0x5 => "ILLEGAL REQUEST",
            0x6 => "UNIT ATTENTION",
            0x7 => "DATA PROTECT",
            0x8 => "BLANK CHECK",
            0x9 => "VENDOR SPECIFIC",
            0xa => "COPY ABORTED",
            0xb => "ABORTED COMMAND",
            0xd => "VOLUME OVERFLOW",
            0xe => "MISCOMPARE",
            0xf => "COMPLETED",
            _ => "reserved",
        }
    }
}

/// Fixed format, response codes 70h and 71h.
pub static FIXED: Structure = Structure {
    name: "fixed format sense data",
    standard: "SPC-4",
    fields: &[
        flag("VALID", 0, 7),
        bits("RESPONSE CODE", 0, 6, 7),
        flag("FILEMARK", 2, 7),
        flag("EOM", 2, 6),
        flag("ILI", 2, 5),
        flag("SDAT_OVFL", 2, 4),
        bits("SENSE KEY", 2, 3, 4),
        number("INFORMATION", 3, 4),
        number("ADDITIONAL SENSE LENGTH", 7, 1),
        number("COMMAND-SPECIFIC INFORMATION", 8, 4),
        number("ADDITIONAL SENSE CODE", 12, 1),
        number("ADDITIONAL SENSE CODE QUALIFIER", 13, 1),
        number("FIELD REPLACEABLE UNIT CODE", 14, 1),
        flag("SKSV", 15, 7),
        flag("C/D", 15, 6),
        flag("BPV", 15, 3),
        bits("BIT POINTER", 15, 2, 3),
        number("FIELD POINTER", 16, 2),
    ],
    length: |bytes| 8 + number_at(bytes, 7, 1),
    items: None,
};

/// Descriptor format, response codes 72h and 73h.
pub static DESCRIPTOR: Structure = Structure {
    name: "descriptor format sense data",
    standard: "SPC-4",
    fields: &[
        bits("RESPONSE CODE", 0, 6, 7),
        bits("SENSE KEY", 1, 3, 4),
        number("ADDITIONAL SENSE CODE", 2, 1),
        number("ADDITIONAL SENSE CODE QUALIFIER", 3, 1),
        flag("SDAT_OVFL", 4, 7),
        number("ADDITIONAL SENSE LENGTH", 7, 1),
    ],
    length: |bytes| 8 + number_at(bytes, 7, 1),
    items: Some(Items { start: |_| 8, end: to_end, each: descriptor }),
};

/// The layout of the descriptor that bytes begin with.
fn descriptor(bytes: &[u8]) -> &'static Structure {
    match bytes.first() {
        Some(0) => &INFORMATION,
        Some(1) => &COMMAND_SPECIFIC,
        Some(2) => &KEY_SPECIFIC,
        Some(3) => &REPLACEABLE_UNIT,
        Some(5) => &BLOCK_COMMANDS,
        _ => &OTHER,
    }
}

macro_rules! descriptor {
    ($const:ident, $name:literal, $standard:literal, [$($field:expr),*]) => {
        static $const: Structure = Structure {
            name: $name,
            standard: $standard,
            fields: &[number("DESCRIPTOR TYPE", 0, 1), number("ADDITIONAL LENGTH", 1, 1), $($field),*],
            length: |bytes| 2 + number_at(bytes, 1, 1),
            items: None,
        };
    };
}

descriptor!(
    INFORMATION,
    "information sense data descriptor",
    "SPC-4",
    [flag("VALID", 2, 7), number("INFORMATION", 4, 8)]
);
descriptor!(
    COMMAND_SPECIFIC,
    "command-specific information sense data descriptor",
    "SPC-4",
    [number("COMMAND-SPECIFIC INFORMATION", 4, 8)]
);
descriptor!(
    KEY_SPECIFIC,
    "sense key specific sense data descriptor",
    "SPC-4",
    [
        flag("SKSV", 4, 7),
        flag("C/D", 4, 6),
        flag("BPV", 4, 3),
        bits("BIT POINTER", 4, 2, 3),
        number("FIELD POINTER", 5, 2)
    ]
);
descriptor!(
    REPLACEABLE_UNIT,
    "field replaceable unit sense data descriptor",
    "SPC-4",
    [number("FIELD REPLACEABLE UNIT CODE", 3, 1)]
);
descriptor!(BLOCK_COMMANDS, "block commands sense data descriptor", "SBC-3", [flag("ILI", 3, 5)]);
descriptor!(OTHER, "sense data descriptor", "SPC-4", [bytes_to_end("DATA", 2)]);

/// Why bytes are not sense data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Too few bytes to hold a sense key and its codes.
    Short {
        /// The bytes that there are.
        len: usize,
        /// The bytes that are needed.
        needed: usize,
    },
    /// The response code is not that of sense data.
    ResponseCode(u8),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Short { len, needed } => write!(f, "sense data of {len} bytes; it has at least {needed}"),
            Error::ResponseCode(code) => {
                write!(f, "sense data has a response code from 70h to 73h, not {code:02x}h")
            }
        }
    }
}

impl core::error::Error for Error {}

/// Sense data.
#[derive(Clone, Copy, Debug)]
pub struct Sense<'a>(Decoded<'a>);

impl<'a> Sense<'a> {
    /// Decodes sense data.
    ///
    /// # Errors
    /// Another response code than 70h to 73h, or no room for the sense key and, unless a device says so itself by the
    /// additional length, for the additional sense code.
    pub fn decode(bytes: &'a [u8]) -> Result<Sense<'a>, Error> {
        let (structure, needed) = match bytes.first().map(|code| code & 0x7f) {
            Some(0x70 | 0x71) => (&FIXED, 8),
            Some(0x72 | 0x73) => (&DESCRIPTOR, 8),
            Some(code) => return Err(Error::ResponseCode(code)),
            None => return Err(Error::Short { len: 0, needed: 8 }),
        };
        match bytes.len() {
            len if len < needed => Err(Error::Short { len, needed }),
            _ => Ok(Sense(structure.decode(bytes))),
        }
    }

    /// The fields by name.
    pub fn fields(&self) -> Decoded<'a> {
        self.0
    }

    /// The sense key.
    pub fn key(&self) -> Key {
        Key(self.0.get("SENSE KEY").unwrap_or(0) as u8)
    }

    /// The additional sense code and its qualifier; zeroes where the device sends none.
    pub fn code(&self) -> (u8, u8) {
        let byte = |name| self.0.get(name).unwrap_or(0) as u8;
        (byte("ADDITIONAL SENSE CODE"), byte("ADDITIONAL SENSE CODE QUALIFIER"))
    }

    /// Whether the failure is of an earlier command than the one that it came with.
    pub fn is_deferred(&self) -> bool {
        matches!(self.0.get("RESPONSE CODE"), Some(0x71 | 0x73))
    }

    /// The information field, where it is valid: of a medium error, the logical block address.
    pub fn information(&self) -> Option<u64> {
        let of = |part: &Decoded<'_>| part.get("INFORMATION").filter(|_| part.get("VALID") == Some(1));
        of(&self.0).or_else(|| self.0.items().iter().find_map(of))
    }

    /// The byte, and perhaps the bit in it, that an ILLEGAL REQUEST points at.
    pub fn field_pointer(&self) -> Option<FieldPointer> {
        let of = |part: &Decoded<'_>| {
            let byte = part.get("FIELD POINTER").filter(|_| part.get("SKSV") == Some(1))?;
            let bit = part.get("BIT POINTER").filter(|_| part.get("BPV") == Some(1));
            Some(FieldPointer {
                in_command: part.get("C/D") == Some(1),
                byte: byte as u16,
                bit: bit.map(|bit| bit as u8),
            })
        };
        let found = of(&self.0).or_else(|| self.0.items().iter().find_map(of));
        found.filter(|_| self.key() == Key::ILLEGAL_REQUEST)
    }
}

/// The place of a wrong value (SPC-4, field pointer sense key specific data).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPointer {
    /// In the command, not in the data sent with it.
    pub in_command: bool,
    /// The byte.
    pub byte: u16,
    /// The most significant bit of the field.
    pub bit: Option<u8>,
}

impl fmt::Display for FieldPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "byte {} of the {}",
            self.byte,
            if self.in_command { "command" } else { "parameter list" }
        )?;
        self.bit.map_or(Ok(()), |bit| write!(f, ", bit {bit}"))
    }
}

/// One line: the sense key, the additional sense in words, and where.
impl fmt::Display for Sense<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asc, ascq) = self.code();
        write!(f, "{}, ", self.key().name())?;
        match words(asc, ascq) {
            Some(words) => f.write_str(words)?,
            None => write!(f, "additional sense code {asc:02x}h, qualifier {ascq:02x}h")?,
        }
        if let Some(pointer) = self.field_pointer() {
            write!(f, " ({pointer})")?;
        }
        match self.information() {
            Some(at) if self.key() == Key::MEDIUM_ERROR => write!(f, ", at logical block {at}")?,
            Some(value) => write!(f, ", information {value}")?,
            None => {}
        }
        if self.is_deferred() { f.write_str(", of an earlier command") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    #[test]
    fn a_medium_error_names_its_block_in_both_formats() {
        let fixed = [0xf0, 0, 3, 0, 0, 0x10, 0, 10, 0, 0, 0, 0, 0x11, 0, 0, 0, 0, 0];
        let descriptor = [0x72, 3, 0x11, 0, 0, 0, 0, 12, 0, 10, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x10, 0];
        for bytes in [&fixed[..], &descriptor[..]] {
            let sense = Sense::decode(bytes).unwrap();
            assert_eq!((sense.key(), sense.code(), sense.information()), (Key(3), (0x11, 0), Some(0x1000)));
            assert_eq!(sense.to_string(), "MEDIUM ERROR, UNRECOVERED READ ERROR, at logical block 4096");
        }
    }

    #[test]
    fn an_illegal_request_points_at_the_bit() {
        let fixed = [0x70, 0, 5, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x24, 0, 0, 0xcb, 0, 1];
        let descriptor = [0x72, 5, 0x24, 0, 0, 0, 0, 8, 2, 6, 0, 0, 0xcb, 0, 1, 0];
        for bytes in [&fixed[..], &descriptor[..]] {
            let words = Sense::decode(bytes).unwrap().to_string();
            assert_eq!(words, "ILLEGAL REQUEST, INVALID FIELD IN CDB (byte 1 of the command, bit 3)");
        }
    }

    #[test]
    fn sense_cut_off_before_its_codes_still_has_its_key() {
        let sense = Sense::decode(&[0x70, 0, 6, 0, 0, 0, 0, 10]).unwrap();
        assert_eq!((sense.key(), sense.code()), (Key(6), (0, 0)));
        assert_eq!(Sense::decode(&[0x70, 0, 6]).err(), Some(Error::Short { len: 3, needed: 8 }));
        assert_eq!(Sense::decode(&[0x45; 18]).err(), Some(Error::ResponseCode(0x45)));
    }

    proptest! {
        /// No bytes make the decoder panic, and what it says of the key and the codes is what the bytes hold.
        #[test]
        fn any_bytes_can_be_looked_at(mut bytes in prop::collection::vec(any::<u8>(), 0..64), format in 0x70u8..0x74) {
            if let Some(first) = bytes.first_mut() {
                *first = *first & 0x80 | format;
            }
            let Ok(sense) = Sense::decode(&bytes) else { return Ok(()) };
            prop_assert!(!sense.to_string().is_empty());
            let (key, asc) = if format < 0x72 { (2, 12) } else { (1, 2) };
            prop_assert_eq!(sense.key(), Key(bytes[key] & 0xf));
            let held = sense.fields().bytes().get(asc).copied().unwrap_or(0);
            prop_assert_eq!(sense.code().0, held);
        }
    }
}
