//! Ordinary requests as commands. They are made of bytes, since looking fields up by name would cost more than the rest of a
//! driver; a test compares them with the layouts.

use alloc::vec;
use alloc::vec::Vec;
use platter_block::bio::Op;
use platter_block::command::Transfer;

/// A command of at most 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    bytes: [u8; 16],
    len: usize,
}

impl Bytes {
    /// A command as it is. `None`: it is longer than 16 bytes.
    pub fn new(of: &[u8]) -> Option<Bytes> {
        let mut bytes = [0; 16];
        bytes.get_mut(..of.len())?.copy_from_slice(of);
        Some(Bytes { bytes, len: of.len() })
    }

    /// The bytes.
    pub fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&self.bytes)
    }
}

/// The command of an operation on `count` blocks of `block` bytes from `lba`, which way its data goes, and its own data, where
/// that is not the request's memory.
///
/// # Panics
/// For [`Op::Command`]: what the program sends is sent as it is.
pub fn command(op: Op, lba: u64, count: u32, fua: bool, block: usize) -> (Bytes, Transfer, Option<Vec<u8>>) {
    let flags = if fua { 1 << 3 } else { 0 };
    match op {
        Op::Read => (transfer([0x28, 0x88], lba, count, 0), Transfer::FromDevice, None),
        Op::Write => (transfer([0x2a, 0x8a], lba, count, flags), Transfer::ToDevice, None),
        Op::Flush => (ten(0x35), Transfer::None, None),
        Op::Discard => {
            let mut list = vec![0, 22, 0, 16, 0, 0, 0, 0];
            list.extend(lba.to_be_bytes());
            list.extend(count.to_be_bytes());
            list.extend([0; 4]);
            let mut unmap = ten(0x42);
            unmap.bytes[7..9].copy_from_slice(&(list.len() as u16).to_be_bytes());
            (unmap, Transfer::ToDevice, Some(list))
        }
        Op::Command => unreachable!("a program's command is sent as it is"),
        Op::WriteZeroes => (sixteen(0x93, lba, count, 0), Transfer::ToDevice, Some(vec![0; block])),
    }
}

fn ten(opcode: u8) -> Bytes {
    let mut bytes = [0; 16];
    bytes[0] = opcode;
    Bytes { bytes, len: 10 }
}

fn sixteen(opcode: u8, lba: u64, count: u32, flags: u8) -> Bytes {
    let mut bytes = [0; 16];
    (bytes[0], bytes[1]) = (opcode, flags);
    bytes[2..10].copy_from_slice(&lba.to_be_bytes());
    bytes[10..14].copy_from_slice(&count.to_be_bytes());
    Bytes { bytes, len: 16 }
}

/// A read or write: of ten bytes where position and length fit, which every disk takes.
fn transfer(opcodes: [u8; 2], lba: u64, count: u32, flags: u8) -> Bytes {
    match (u32::try_from(lba), u16::try_from(count)) {
        (Ok(lba), Ok(count)) => {
            let mut command = ten(opcodes[0]);
            command.bytes[1] = flags;
            command.bytes[2..6].copy_from_slice(&lba.to_be_bytes());
            command.bytes[7..9].copy_from_slice(&count.to_be_bytes());
            command
        }
        _ => sixteen(opcodes[1], lba, count, flags),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdb::{self, Cdb};

    #[test]
    fn bytes_are_those_of_the_layouts() {
        let cases: [(Op, u64, u32, bool, &'static cdb::Command, &str); 7] = [
            (Op::Read, 0x1234, 0xffff, false, &cdb::READ_10, "TRANSFER LENGTH"),
            (Op::Read, 1 << 32, 8, false, &cdb::READ_16, "TRANSFER LENGTH"),
            (Op::Read, 5, 0x10000, false, &cdb::READ_16, "TRANSFER LENGTH"),
            (Op::Write, u64::from(u32::MAX), 1, true, &cdb::WRITE_10, "TRANSFER LENGTH"),
            (Op::Write, 1 << 40, 0x1_0001, true, &cdb::WRITE_16, "TRANSFER LENGTH"),
            (Op::Write, 9, 9, false, &cdb::WRITE_10, "TRANSFER LENGTH"),
            (Op::WriteZeroes, 1 << 33, 77, false, &cdb::WRITE_SAME_16, "NUMBER OF LOGICAL BLOCKS"),
        ];
        for (op, lba, count, fua, row, length) in cases {
            let cdb = Cdb::new(row).with("LOGICAL BLOCK ADDRESS", lba).with(length, u64::from(count));
            let cdb = if fua { cdb.with("FUA", 1) } else { cdb };
            assert_eq!(command(op, lba, count, fua, 512).0.get(), cdb.bytes(), "{}", row.name);
        }
        assert_eq!(
            command(Op::Flush, 0, 0, false, 512).0.get(),
            Cdb::new(&cdb::SYNCHRONIZE_CACHE_10).bytes()
        );
        let (unmap, way, list) = command(Op::Discard, 0x0102_0304_0506, 0x0a0b, false, 512);
        assert_eq!(unmap.get(), Cdb::new(&cdb::UNMAP).with("PARAMETER LIST LENGTH", 24).bytes());
        let expected = [0, 22, 0, 16, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0x0a, 0x0b, 0, 0, 0, 0];
        assert_eq!((way, list.unwrap()), (Transfer::ToDevice, expected.to_vec()));
        assert_eq!(Bytes::new(&[0x7f; 32]), None);
        assert_eq!(Bytes::new(&[0x12, 0, 0, 0, 96, 0]).unwrap().get(), [0x12, 0, 0, 0, 96, 0]);
        assert_eq!(command(Op::WriteZeroes, 0, 1, false, 4096).2.unwrap().len(), 4096);
    }
}
