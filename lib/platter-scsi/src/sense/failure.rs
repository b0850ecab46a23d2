//! Sense data that a device makes.

use super::{FieldPointer, Key};
use alloc::vec;
use alloc::vec::Vec;

impl FieldPointer {
    /// SKSV, C/D, BPV and BIT POINTER.
    fn flags(&self) -> u8 {
        0x80 | u8::from(self.in_command) << 6 | self.bit.map_or(0, |bit| 8 | bit)
    }
}

/// Why a command failed, as a device says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The sense key.
    pub key: Key,
    /// Additional sense code and its qualifier.
    pub code: (u8, u8),
    /// The information field: of a medium error the logical block address, of a miscompare the offset in the data.
    pub information: Option<u64>,
    /// The wrong value, of an ILLEGAL REQUEST.
    pub pointer: Option<FieldPointer>,
}

impl Failure {
    /// A failure without further information.
    pub const fn new(key: Key, asc: u8, ascq: u8) -> Failure {
        Failure { key, code: (asc, ascq), information: None, pointer: None }
    }

    /// The same, with the information field.
    #[must_use]
    pub const fn with_information(self, information: u64) -> Failure {
        Failure { information: Some(information), ..self }
    }

    /// The same, with the place of the wrong value.
    #[must_use]
    pub const fn with_pointer(self, pointer: FieldPointer) -> Failure {
        Failure { pointer: Some(pointer), ..self }
    }

    /// Descriptor format sense data.
    pub fn to_descriptor(&self) -> Vec<u8> {
        let mut bytes = vec![0x72, self.key.0 & 0xf, self.code.0, self.code.1, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend([0x00, 10, 0x80, 0]);
            bytes.extend(information.to_be_bytes());
        }
        if let Some(pointer) = self.pointer {
            let [high, low] = pointer.byte.to_be_bytes();
            bytes.extend([0x02, 6, 0, 0, pointer.flags(), high, low, 0]);
        }
        bytes[7] = bytes.len() as u8 - 8;
        bytes
    }

    /// Fixed format sense data. Information beyond 32 bits does not fit and is left out, as SPC-4 wants it.
    pub fn to_fixed(&self) -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[0] = 0x70;
        bytes[2] = self.key.0 & 0xf;
        bytes[7] = 10;
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        (bytes[12], bytes[13]) = self.code;
        if let Some(pointer) = self.pointer {
            bytes[15] = pointer.flags();
            bytes[16..18].copy_from_slice(&pointer.byte.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sense::Sense;
    use proptest::prelude::*;

    proptest! {
        /// What a device says is what an initiator reads.
        #[test]
        fn sense_data_is_read_back(
            asc in any::<u8>(), ascq in any::<u8>(), information in prop::option::of(any::<u64>()),
            pointer in prop::option::of((any::<bool>(), any::<u16>(), prop::option::of(0u8..8))),
        ) {
            let mut failure = Failure::new(Key::ILLEGAL_REQUEST, asc, ascq);
            failure.information = information;
            failure.pointer = pointer.map(|(in_command, byte, bit)| FieldPointer { in_command, byte, bit });
            let bytes = failure.to_fixed();
            let sense = Sense::decode(&bytes).unwrap();
            prop_assert_eq!((sense.key(), sense.code()), (failure.key, failure.code));
            prop_assert_eq!(sense.information(), information.filter(|value| *value <= u64::from(u32::MAX)));
            prop_assert_eq!(sense.field_pointer(), failure.pointer);
            let bytes = failure.to_descriptor();
            let sense = Sense::decode(&bytes).unwrap();
            prop_assert_eq!((sense.key(), sense.code()), (failure.key, failure.code));
            prop_assert_eq!((sense.information(), sense.field_pointer()), (information, failure.pointer));
        }
    }
}
