//! Signatures that consist only of certain bytes at a certain offset.
//!
//! Offsets and bytes are from the headers and specifications of the on-disk formats. With [`checks`](super::checks) they are
//! all that libblkid of util-linux 2.41 knows (its names in the comments), and images of virtual machines.

use super::windows::Windows;
use super::{FindError, ReadAt, Signature};

/// A name, its possible offsets, and the bytes.
pub(super) struct Magic {
    pub(super) name: &'static str,
    pub(super) bytes: &'static [u8],
    /// Bytes from the start of the disk.
    pub(super) at: &'static [u64],
    /// Bytes back from the end of the disk, or from the end of its last whole sector of 512 bytes.
    pub(super) before_end: &'static [u64],
    /// What else must be there, relative to the magic: two bytes alone occur by chance.
    pub(super) with: &'static [(i64, &'static [u8])],
}

const fn at(name: &'static str, bytes: &'static [u8], at: &'static [u64]) -> Magic {
    Magic { name, bytes, at, before_end: &[], with: &[] }
}

const fn before_end(name: &'static str, bytes: &'static [u8], before_end: &'static [u64]) -> Magic {
    Magic { name, bytes, at: &[], before_end, with: &[] }
}

const fn around(
    name: &'static str,
    bytes: &'static [u8],
    at: &'static [u64],
    before_end: &'static [u64],
) -> Magic {
    Magic { name, bytes, at, before_end, with: &[] }
}

impl Magic {
    const fn with(self, with: &'static [(i64, &'static [u8])]) -> Magic {
        Magic { with, ..self }
    }

    /// The offsets at which the magic may be on a disk of `size` bytes.
    pub(super) fn offsets(&self, size: u64) -> impl Iterator<Item = u64> {
        let whole = size / 512 * 512;
        let ends = if whole == size { vec![size] } else { vec![size, whole] };
        let back = self.before_end;
        let from_end =
            ends.into_iter().flat_map(move |end| back.iter().filter_map(move |back| end.checked_sub(*back)));
        self.at.iter().copied().chain(from_end)
    }
}

/// Ten bytes before the end of a page of 4, 8, 16, 32 and 64 KiB.
const PAGE_ENDS: &[u64] = &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6];
/// Possible offsets of LUKS2's second header.
const LUKS2_SECOND: &[u64] =
    &[0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];
/// In bcachefs, whose superblock has a copy at 2 MiB and one before the end.
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
/// DRBD's metadata are in the last 4 KiB, its magic 60 bytes from their start.
const DRBD: &[u64] = &[4096 - 60];
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";
/// Of minix: zones are blocks, in versions 1 and 2, and in version 3.
const ZONES_1: &[(i64, &[u8])] = &[(-6, &[0, 0])];
const ZONES_3: &[(i64, &[u8])] = &[(-12, &[0, 0])];
/// The superblock of btrfs and its two copies.
const BTRFS: &[u64] = &[0x1_0040, 0x400_0040, 0x40_0000_0040];
/// The first descriptor of the volume recognition sequence (ECMA-167).
const RECOGNITION: &[u64] = &[0x8001];
/// The magic of UFS in its four possible superblocks.
const UFS: &[u64] = &[0x55c, 0x255c, 0x1_055c, 0x4_055c];
/// The magic of System V in its four possible superblocks.
const SYSV: &[u64] = &[0x3f8, 0x27f8, 0x3ff8, 0x4bf8];
/// Sectors from the end in which controllers of Promise keep their metadata.
const PROMISE: &[u64] = &[
    63 * 512,
    255 * 512,
    256 * 512,
    16 * 512,
    399 * 512,
    591 * 512,
    675 * 512,
    735 * 512,
    911 * 512,
    974 * 512,
    991 * 512,
    951 * 512,
    3087 * 512,
];

pub(super) static MAGICS: &[Magic] = &[
    at("platter array", b"platter array\0\0\0", &[0x1000, 0x1_0000]),
    at("platter array (raid1)", b"platter mirror\0\0", &[0x1000, 0x1_0000]),
    at("xfs", b"XFSB", &[0]),
    at("btrfs", b"_BHRfS_M", BTRFS),
    at("f2fs", &[0x10, 0x20, 0xf5, 0xf2], &[0x400, 0x1400]),
    at("ntfs", b"NTFS    ", &[3]),
    at("exfat", b"EXFAT   ", &[3]),
    at("jfs", b"JFS1", &[0x8000]),
    at("reiserfs", b"ReIsEr", &[0x2014, 0x2034, 0x1_0034]),
    at("reiser4", b"ReIsEr4", &[0x1_0000]),
    at("apfs", b"NXSB", &[32]),
    at("erofs", &[0xe2, 0xe1, 0xf5, 0xe0], &[0x400]),
    at("squashfs", b"hsqs", &[0]),
    at("squashfs", b"sqsh", &[0]),
    at("iso9660", b"CD001", &[0x8001]),
    at("iso9660 (High Sierra)", b"CDROM", &[0x8009]),
    at("udf", b"BEA01", RECOGNITION),
    at("udf", b"BOOT2", RECOGNITION),
    at("udf", b"CDW02", RECOGNITION),
    at("udf", b"NSR02", RECOGNITION),
    at("udf", b"NSR03", RECOGNITION),
    at("udf", b"TEA01", RECOGNITION),
    at("swap", b"SWAPSPACE2", PAGE_ENDS),
    at("swap", b"SWAP-SPACE", PAGE_ENDS),
    at("hibernation image", b"S1SUSPEND", PAGE_ENDS),
    at("hibernation image", b"S2SUSPEND", PAGE_ENDS),
    at("hibernation image", b"ULSUSPEND", PAGE_ENDS),
    at("hibernation image", b"LINHIB0001", PAGE_ENDS),
    at("hibernation image", b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c", &[0]),
    at("LUKS", b"LUKS\xba\xbe", &[0]),
    at("LUKS", b"SKUL\xba\xbe", LUKS2_SECOND),
    at("BitLocker", b"-FVE-FS-", &[3]),
    at("bcache", b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81", &[0x1018]),
    around("bcachefs", BCACHEFS, &[0x1018, 0x20_0018], &[(1 << 20) - 24]),
    at("Ceph BlueStore", b"bluestore block device", &[0]),
    around("GPT partition table", b"EFI PART", &[512, 4096], &[512, 4096]),
    // File systems.
    at("VMFS", b"\x5e\xf1\xab\x2f", &[0x20_0000]),
    at("HFS", b"BD", &[0x400]).with(&[(23, &[0])]),
    at("HFS+", b"H+\x00\x04", &[0x400]),
    at("HFS+", b"HX\x00\x05", &[0x400]),
    at("minix", b"\x7f\x13", &[0x410]).with(ZONES_1),
    at("minix", b"\x8f\x13", &[0x410]).with(ZONES_1),
    at("minix", b"\x13\x7f", &[0x410]).with(ZONES_1),
    at("minix", b"\x13\x8f", &[0x410]).with(ZONES_1),
    at("minix", b"\x68\x24", &[0x410]).with(ZONES_1),
    at("minix", b"\x78\x24", &[0x410]).with(ZONES_1),
    at("minix", b"\x24\x68", &[0x410]).with(ZONES_1),
    at("minix", b"\x24\x78", &[0x410]).with(ZONES_1),
    at("minix", b"\x5a\x4d", &[0x418]).with(ZONES_3),
    at("minix", b"\x4d\x5a", &[0x418]).with(ZONES_3),
    at("ufs", b"\x54\x19\x01\x00", UFS),
    at("ufs", b"\x00\x01\x19\x54", UFS),
    at("ufs", b"\x19\x01\x54\x19", UFS),
    at("ufs", b"\x19\x54\x01\x19", UFS),
    at("ufs", b"\x12\x56\x19\x00", UFS),
    at("ufs", b"\x00\x19\x56\x12", UFS),
    at("ufs", b"\x14\x50\x09\x00", UFS),
    at("ufs", b"\x00\x09\x50\x14", UFS),
    at("ufs", b"\x95\x21\x61\x00", UFS),
    at("ufs", b"\x00\x61\x21\x95", UFS),
    at("ufs", b"\x94\x19\x23\x05", UFS),
    at("ufs", b"\x05\x23\x19\x94", UFS),
    at("sysv", b"\x20\x7e\x18\xfd", SYSV),
    at("sysv", b"\xfd\x18\x7e\x20", SYSV),
    at("xenix", b"\x2b\x55\x44", &[0x800]),
    at("xenix", b"\x44\x55\x2b", &[0x800]),
    at("hpfs", b"\x49\xe8\x95\xf9", &[0x2000]),
    at("ReFS", b"\0\0\0ReFS\0", &[0]),
    at("cramfs", b"\x45\x3d\xcd\x28", &[0]),
    at("cramfs", b"\x28\xcd\x3d\x45", &[0]),
    at("romfs", b"-rom1fs-", &[0]),
    at("gfs", b"\x01\x16\x19\x70", &[0x1_0000]),
    at("ocfs", b"OracleCFS", &[0x2000]),
    at("ocfs2", b"OCFSV2", &[0x400, 0x800, 0x1000, 0x2000]),
    at("Oracle ASM", b"ORCLDISK", &[32]),
    at("vxfs", b"\xf5\xfc\x01\xa5", &[0x400]),
    at("vxfs", b"\xa5\x01\xfc\xf5", &[0x2000]),
    at("NetWare NSS", b"SPB5", &[0x1000]),
    at("ubifs", b"\x31\x18\x10\x06", &[0]),
    at("UBI", b"UBI#", &[0]),
    at("bfs", b"\xce\xfa\xad\x1b", &[0]),
    at("befs", b"BFS1", &[0x20, 0x220]),
    at("befs", b"1SFB", &[0x20, 0x220]),
    around("nilfs2", b"\x34\x34", &[0x406], &[8 * 512 - 6]).with(&[(-6, &[2, 0, 0, 0])]),
    at("exfs", b"EXFS", &[0]),
    at("zonefs", b"SFOZ", &[0]),
    at("mpool", b"mpoolDev", &[0]),
    // Members of arrays, and what volume managers keep.
    at("VMFS volume member", b"\x0d\xd0\x01\xc0", &[0x10_0000]),
    before_end("Intel RAID member", b"Intel Raid ISM Cfg Sig. ", &[2 * 512, 2 * 4096]),
    before_end("DDF RAID member", b"\xde\x11\xde\x11", &[512, 257 * 512]),
    before_end("DDF RAID member", b"\x11\xde\x11\xde", &[512, 257 * 512]),
    before_end("LSI MegaRAID member", b"$XIDE$", &[512]),
    before_end("NVIDIA RAID member", b"NVIDIA  ", &[2 * 512]),
    before_end("Promise FastTrak member", b"Promise Technology, Inc.", PROMISE),
    before_end("HighPoint 45x RAID member", b"\xf3\x16\x78\x5a", &[11 * 512]),
    before_end("HighPoint 45x RAID member", b"\xfd\x16\x78\x5a", &[11 * 512]),
    at("HighPoint 37x RAID member", b"\xf0\x16\x78\x5a", &[0x1220]),
    at("HighPoint 37x RAID member", b"\xfd\x16\x78\x5a", &[0x1220]),
    before_end("Adaptec RAID member", b"\x37\xfc\x4d\x1e", &[512]),
    before_end("DRBD", b"\x83\x74\x02\x6b", DRBD),
    before_end("DRBD", b"\x83\x74\x02\x6c", DRBD),
    before_end("DRBD", b"\x83\x74\x02\x6d", DRBD),
    at("DRBD control volume", b"$DRBDmgr=q", &[0]),
    at("DRBD proxy log", b"DRBDdlh*", &[0]),
    at("LVM1 physical volume", b"HM\x01\x00", &[0]),
    at("LVM1 physical volume", b"HM\x02\x00", &[0]),
    at("device-mapper snapshot store", b"SnAp", &[0]),
    at("dm-verity hashes", b"verity\0\0", &[0]),
    at("dm-integrity", b"integrt\0", &[0]),
    at("VDO", b"dmvdo001", &[0]),
    at("Stratis", STRATIS, &[512 + 4, 9 * 512 + 4]),
    at("FileVault 2", b"CS\x01\0\0\0", &[88]).with(&[(-80, &[1, 0])]),
    // Partition tables.
    at("BSD disk label", b"\x57\x45\x56\x82", &[64, 128, 512]),
    at("SGI disk label", b"\x0b\xe5\xa9\x41", &[0]),
    at("AIX disk label", b"\xc9\xc2\xd4\xc1", &[0]),
    at("Solaris disk label", b"\xee\xde\x0d\x60", &[512 + 12]),
    at("UnixWare disk label", b"\x0d\x60\xe5\xca", &[29 * 512 + 4]),
    at("Ultrix disk label", b"\x57\x29\x03\x00\x01\x00\x00\x00", &[31 * 512 + 440]),
    // The size of a block is a multiple of 512.
    at("Apple partition table", b"ER", &[0]).with(&[(3, &[0]), (512, b"PM")]),
    at("Apple partition table", b"ER", &[0]).with(&[(3, &[0]), (2048, b"PM")]),
    // Images of virtual machines.
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
    let size = disk.size();
    for magic in MAGICS {
        for offset in magic.offsets(size) {
            if disk.is(offset, magic.bytes)? && is_with(disk, magic, offset)? {
                found.push(Signature { name: magic.name, offset });
            }
        }
    }
    Ok(())
}

fn is_with<D: ReadAt + ?Sized>(disk: &mut Windows<'_, D>, magic: &Magic, at: u64) -> Result<bool, FindError> {
    for (relative, bytes) in magic.with {
        match at.checked_add_signed(*relative) {
            Some(offset) if disk.is(offset, bytes)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}
