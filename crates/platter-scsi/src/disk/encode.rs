//! Requests as commands.

use super::slot::Bytes;
use crate::cdb;
use platter_block::bio::Op;

/// A request of whole blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) op: Op,
    pub(super) lba: u64,
    pub(super) blocks: u64,
    pub(super) fua: bool,
}

/// Bytes of the parameter list of an UNMAP with one descriptor.
const UNMAP_LIST: usize = 24;

/// What is sent with a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Out {
    /// The data of the request, or nothing.
    Own,
    /// A parameter list.
    List([u8; UNMAP_LIST]),
    /// A block of zeroes.
    ZeroBlock,
}

impl Wanted {
    /// The command, and what is sent with it. `None`: no command does this.
    pub(super) fn command(&self) -> Option<(Bytes, Out)> {
        let Wanted { op, lba, blocks, fua } = *self;
        let short = u32::try_from(lba).ok().zip(u16::try_from(blocks).ok());
        let fua = u8::from(fua) << 3;
        let bytes = match (op, short) {
            (Op::Read, Some((lba, blocks))) => ten(cdb::READ_10.opcode, 0, lba, blocks),
            (Op::Read, None) => sixteen(cdb::READ_16.opcode, 0, lba, blocks),
            (Op::Write, Some((lba, blocks))) => ten(cdb::WRITE_10.opcode, fua, lba, blocks),
            (Op::Write, None) => sixteen(cdb::WRITE_16.opcode, fua, lba, blocks),
            // No blocks: all of the medium.
            (Op::Flush, _) => ten(cdb::SYNCHRONIZE_CACHE_10.opcode, 0, 0, 0),
            // With a block of zeroes: not every unit takes NDOB, which would leave the block out.
            (Op::WriteZeroes, _) => sixteen(cdb::WRITE_SAME_16.opcode, 0, lba, blocks),
            (Op::Discard, _) => {
                let mut list = [0; UNMAP_LIST];
                list[1] = UNMAP_LIST as u8 - 2;
                list[3] = UNMAP_LIST as u8 - 8;
                list[8..16].copy_from_slice(&lba.to_be_bytes());
                list[16..20].copy_from_slice(&u32::try_from(blocks).ok()?.to_be_bytes());
                let bytes = Bytes::new(&[cdb::UNMAP.opcode, 0, 0, 0, 0, 0, 0, 0, UNMAP_LIST as u8, 0]);
                return Some((bytes, Out::List(list)));
            }
            _ => return None,
        };
        u32::try_from(blocks).ok()?;
        Some((bytes, if op == Op::WriteZeroes { Out::ZeroBlock } else { Out::Own }))
    }
}

fn ten(opcode: u8, flags: u8, lba: u32, blocks: u16) -> Bytes {
    let mut bytes = [0; 10];
    (bytes[0], bytes[1]) = (opcode, flags);
    bytes[2..6].copy_from_slice(&lba.to_be_bytes());
    bytes[7..9].copy_from_slice(&blocks.to_be_bytes());
    Bytes::new(&bytes)
}

fn sixteen(opcode: u8, flags: u8, lba: u64, blocks: u64) -> Bytes {
    let mut bytes = [0; 16];
    (bytes[0], bytes[1]) = (opcode, flags);
    bytes[2..10].copy_from_slice(&lba.to_be_bytes());
    bytes[10..14].copy_from_slice(&(blocks as u32).to_be_bytes());
    Bytes::new(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cdb::Cdb;

    #[test]
    fn commands_say_what_requests_want() {
        let field = |wanted: Wanted, name: &str| {
            let (bytes, _) = wanted.command().unwrap();
            let cdb = Cdb::decode(bytes.bytes()).unwrap();
            assert_eq!(cdb.reserved(), None, "{wanted:?}");
            (cdb.command().name, cdb.get("LOGICAL BLOCK ADDRESS"), cdb.get(name))
        };
        let at = |op, lba, blocks| Wanted { op, lba, blocks, fua: false };
        assert_eq!(field(at(Op::Read, 7, 9), "TRANSFER LENGTH"), ("READ (10)", Some(7), Some(9)));
        assert_eq!(field(at(Op::Read, 1 << 32, 9), "TRANSFER LENGTH"), ("READ (16)", Some(1 << 32), Some(9)));
        let long = at(Op::Write, 7, 1 << 16);
        assert_eq!(field(long, "TRANSFER LENGTH"), ("WRITE (16)", Some(7), Some(1 << 16)));
        assert_eq!(field(long, "FUA").2, Some(0));
        for lba in [3, 1 << 40] {
            let durable = Wanted { fua: true, ..at(Op::Write, lba, 1) };
            assert_eq!(field(durable, "FUA").2, Some(1));
        }
        let zeroes = at(Op::WriteZeroes, 5, 6);
        assert_eq!(field(zeroes, "NUMBER OF LOGICAL BLOCKS"), ("WRITE SAME (16)", Some(5), Some(6)));
        assert_eq!((field(zeroes, "NDOB").2, field(zeroes, "UNMAP").2), (Some(0), Some(0)));
        assert_eq!(field(at(Op::Flush, 0, 0), "NUMBER OF LOGICAL BLOCKS").2, Some(0));
        assert!(at(Op::Discard, 0, 1 << 32).command().is_none());
        assert!(at(Op::Read, 0, 1 << 32).command().is_none());
    }
}
