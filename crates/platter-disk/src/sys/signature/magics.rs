//! Signatures that consist only of certain bytes at a certain offset.
//!
//! Offsets and bytes are from the headers and specifications of the on-disk formats.

use super::windows::Windows;
use super::{FindError, ReadAt, Signature};

/// A name, its possible offsets, and the bytes.
struct Magic {
    name: &'static str,
    bytes: &'static [u8],
    /// Bytes from the start of the disk.
    at: &'static [u64],
    /// Bytes back from the end of the disk.
    before_end: &'static [u64],
}

const fn at(name: &'static str, bytes: &'static [u8], at: &'static [u64]) -> Magic {
    Magic { name, bytes, at, before_end: &[] }
}

const fn around(
    name: &'static str,
    bytes: &'static [u8],
    at: &'static [u64],
    before_end: &'static [u64],
) -> Magic {
    Magic { name, bytes, at, before_end }
}

/// Ten bytes before the end of a page of 4, 8, 16, 32 and 64 KiB.
const PAGE_ENDS: &[u64] = &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6];
/// Possible offsets of LUKS2's second header.
const LUKS2_SECOND: &[u64] =
    &[0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];
/// The superblock of btrfs and its two copies.
const BTRFS: &[u64] = &[0x1_0040, 0x400_0040, 0x40_0000_0040];

static MAGICS: &[Magic] = &[
    at("platter array", b"platter array\0\0\0", &[0x1000, 0x1_0000]),
    at("xfs", b"XFSB", &[0]),
    at("btrfs", b"_BHRfS_M", BTRFS),
    at("f2fs", &[0x10, 0x20, 0xf5, 0xf2], &[0x400, 0x1400]),
    at("ntfs", b"NTFS    ", &[3]),
    at("exfat", b"EXFAT   ", &[3]),
    at("jfs", b"JFS1", &[0x8000]),
    at("reiserfs", b"ReIsEr", &[0x1_0034]),
    at("apfs", b"NXSB", &[32]),
    at("erofs", &[0xe2, 0xe1, 0xf5, 0xe0], &[0x400]),
    at("squashfs", b"hsqs", &[0]),
    at("squashfs", b"sqsh", &[0]),
    at("iso9660", b"CD001", &[0x8001]),
    at("udf", b"BEA01", &[0x8001]),
    at("swap", b"SWAPSPACE2", PAGE_ENDS),
    at("swap", b"SWAP-SPACE", PAGE_ENDS),
    at("hibernation image", b"S1SUSPEND", PAGE_ENDS),
    at("hibernation image", b"S2SUSPEND", PAGE_ENDS),
    at("hibernation image", b"LINHIB0001", PAGE_ENDS),
    at("LUKS", b"LUKS\xba\xbe", &[0]),
    at("LUKS", b"SKUL\xba\xbe", LUKS2_SECOND),
    at("BitLocker", b"-FVE-FS-", &[3]),
    at("bcache", b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", &[0x1018]),
    at("bcachefs", b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef", &[0x1018]),
    at("Ceph BlueStore", b"bluestore block device", &[0]),
    around("GPT partition table", b"EFI PART", &[512, 4096], &[512, 4096]),
    at("qcow2 image", b"QFI\xfb", &[0]),
    at("VMDK image", b"KDMV", &[0]),
    at("VHDX image", b"vhdxfile", &[0]),
    around("VHD image", b"conectix", &[0], &[512]),
    at("VDI image", &[0x7f, 0x10, 0xda, 0xbe], &[0x40]),
];

pub(super) fn find<D: ReadAt + ?Sized>(
    disk: &mut Windows<'_, D>,
    found: &mut Vec<Signature>,
) -> Result<(), FindError> {
    for magic in MAGICS {
        let size = disk.size();
        let from_end = magic.before_end.iter().filter_map(|back| size.checked_sub(*back));
        for offset in magic.at.iter().copied().chain(from_end) {
            if disk.is(offset, magic.bytes)? {
                found.push(Signature { name: magic.name, offset });
            }
        }
    }
    Ok(())
}
