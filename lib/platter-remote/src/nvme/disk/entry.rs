//! Ordinary requests as NVMe commands, and commands as the kernel's passthrough takes them. They are made of bytes, since
//! looking fields up by name would cost more than the rest of the driver; a test compares them with the layouts.

use platter_block::bio::Op;
use platter_block::command::MAX_BYTES;

/// Bytes of a range of Dataset Management.
pub(super) const RANGE: usize = 16;

/// The command of an operation on `count` blocks from `first`; 1 and more for all but a flush. Reads, writes and zeroes take at
/// most 65536.
pub(super) fn entry(op: Op, nsid: u32, first: u64, count: u64, fua: bool) -> [u8; MAX_BYTES] {
    let opcode = match op {
        Op::Flush => 0x00,
        Op::Write => 0x01,
        Op::Read => 0x02,
        Op::WriteZeroes => 0x08,
        Op::Discard => 0x09,
        Op::Command => unreachable!("a program's command is sent as it is"),
    };
    let mut entry = [0; MAX_BYTES];
    entry[0] = opcode;
    entry[4..8].copy_from_slice(&nsid.to_le_bytes());
    match op {
        // One range, to be deallocated.
        Op::Discard => entry[44] = 1 << 2,
        Op::Read | Op::Write | Op::WriteZeroes => {
            entry[40..48].copy_from_slice(&first.to_le_bytes());
            entry[48..50].copy_from_slice(&(count.wrapping_sub(1) as u16).to_le_bytes());
            entry[51] = if fua { 1 << 6 } else { 0 };
        }
        Op::Flush | Op::Command => {}
    }
    entry
}

/// The data of a Dataset Management with one range.
pub(super) fn range(first: u64, count: u32) -> [u8; RANGE] {
    let mut range = [0; RANGE];
    range[4..8].copy_from_slice(&count.to_le_bytes());
    range[8..16].copy_from_slice(&first.to_le_bytes());
    range
}

/// `struct nvme_uring_cmd`, in the 80 bytes that an entry of a ring has for it. The data is `len` bytes at `addr`, or `len`
/// pieces that a list at `addr` names.
pub(super) fn ring_command(entry: &[u8; MAX_BYTES], addr: u64, len: u32, timeout_ms: u32) -> [u8; 80] {
    let mut command = [0; 80];
    // Operation code and flags; the kernel sets the identifier.
    command[..2].copy_from_slice(&entry[..2]);
    command[4..16].copy_from_slice(&entry[4..16]);
    command[24..32].copy_from_slice(&addr.to_ne_bytes());
    command[36..40].copy_from_slice(&len.to_ne_bytes());
    command[40..64].copy_from_slice(&entry[40..64]);
    command[64..68].copy_from_slice(&timeout_ms.to_ne_bytes());
    command
}

/// The operations of `IORING_OP_URING_CMD` (`linux/nvme_ioctl.h`).
pub(super) mod operation {
    const fn number(number: u32) -> u32 {
        3 << 30 | 72 << 16 | (b'N' as u32) << 8 | number
    }

    pub(in super::super) const IO: u32 = number(0x80);
    pub(in super::super) const IO_VEC: u32 = number(0x81);
    pub(in super::super) const ADMIN: u32 = number(0x82);
    pub(in super::super) const ADMIN_VEC: u32 = number(0x83);
}

#[cfg(test)]
mod tests {
    use super::*;
    use platter_nvme::command::{self, Entry};

    #[test]
    fn bytes_are_those_of_the_layouts() {
        let on = |row, first: u64, count: u64| {
            Entry::new(row).with("nsid", 7).with("slba", first).with("nlb", count - 1)
        };
        for (op, row) in [
            (Op::Read, &command::READ),
            (Op::Write, &command::WRITE),
            (Op::WriteZeroes, &command::WRITE_ZEROES),
        ] {
            for (first, count) in [(0, 1), (0x0102_0304_0506, 0x0a0b), (u64::MAX, 65536)] {
                let wanted = on(row, first, count);
                assert_eq!(entry(op, 7, first, count, false), *wanted.bytes(), "{op:?}");
                let durable = wanted.with("fua", 1);
                assert_eq!(entry(op, 7, first, count, true), *durable.bytes(), "{op:?}");
            }
        }
        assert_eq!(entry(Op::Flush, 7, 9, 9, false), *Entry::new(&command::FLUSH).with("nsid", 7).bytes());
        let deallocate = Entry::new(&command::DATASET_MANAGEMENT).with("nsid", 7).with("ad", 1);
        assert_eq!(entry(Op::Discard, 7, 9, 9, false), *deallocate.bytes());
        assert_eq!(range(0x0102_0304, 77).to_vec(), platter_nvme::data::ranges([(0x0102_0304, 77)]));
    }

    /// The numbers and offsets that the C compiler makes of `linux/nvme_ioctl.h`.
    #[test]
    #[cfg(target_endian = "little")]
    fn a_command_of_a_ring_is_as_in_the_header() {
        use operation::{ADMIN, ADMIN_VEC, IO, IO_VEC};
        assert_eq!((IO, IO_VEC, ADMIN, ADMIN_VEC), (0xc048_4e80, 0xc048_4e81, 0xc048_4e82, 0xc048_4e83));
        let entry: [u8; MAX_BYTES] = core::array::from_fn(|n| n as u8);
        let command = ring_command(&entry, 0x1112_1314_1516_1718, 0x2122_2324, 0x3132_3334);
        assert_eq!(command[..16], [0, 1, 0, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(command[16..24], [0; 8], "no metadata");
        assert_eq!(command[24..32], [0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11]);
        assert_eq!(command[32..40], [0, 0, 0, 0, 0x24, 0x23, 0x22, 0x21]);
        assert_eq!(command[40..64], entry[40..64]);
        assert_eq!(command[64..], [0x34, 0x33, 0x32, 0x31, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
