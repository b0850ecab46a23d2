//! Signatures that need more than a comparison of bytes at one offset.

use super::windows::Windows;
use super::{FindError, ReadAt, Signature};

pub(super) fn find<D: ReadAt + ?Sized>(
    disk: &mut Windows<'_, D>,
    found: &mut Vec<Signature>,
) -> Result<(), FindError> {
    ext(disk, found)?;
    boot_sector(disk, found)?;
    lvm(disk, found)?;
    md(disk, found)?;
    last_sector(disk, found)?;
    xfs_log(disk, found)?;
    labels(disk, found)?;
    zfs(disk, found)
}

fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// ext2, ext3 and ext4 share a superblock; their feature bits tell them apart
/// (Linux `Documentation/filesystems/ext4/super.rst`).
fn ext<D: ReadAt + ?Sized>(disk: &mut Windows<'_, D>, found: &mut Vec<Signature>) -> Result<(), FindError> {
    const SUPERBLOCK: u64 = 1024;
    const MAGIC: usize = 0x38;
    const HAS_JOURNAL: u32 = 0x4;
    const JOURNAL_DEVICE: u32 = 0x8;
    /// Incompatible and read-only-compatible features that ext3 already had.
    const EXT3_INCOMPAT: u32 = 0x2 | 0x4 | 0x10;
    const EXT3_RO_COMPAT: u32 = 0x1 | 0x2 | 0x4;
    /// The largest block is 64 KiB, 1024 shifted by this.
    const MAX_LOG_BLOCK: u32 = 6;

    let Some(sb) = disk.get(SUPERBLOCK, 0x68)? else { return Ok(()) };
    // Two bytes alone occur by chance: the block size must be plausible too.
    if le16(sb, MAGIC) != 0xef53 || le32(sb, 0x18) > MAX_LOG_BLOCK {
        return Ok(());
    }
    let (compat, incompat, ro_compat) = (le32(sb, 0x5c), le32(sb, 0x60), le32(sb, 0x64));
    let name = if incompat & JOURNAL_DEVICE != 0 {
        "ext3/ext4 external journal"
    } else if incompat & !EXT3_INCOMPAT != 0 || ro_compat & !EXT3_RO_COMPAT != 0 {
        "ext4"
    } else if compat & HAS_JOURNAL != 0 {
        "ext3"
    } else {
        "ext2"
    };
    found.push(Signature { name, offset: SUPERBLOCK + MAGIC as u64 });
    Ok(())
}

/// FAT and the MBR both end their first sector with 55 AA; a FAT or NTFS boot sector is not a partition
/// table.
fn boot_sector<D: ReadAt + ?Sized>(
    disk: &mut Windows<'_, D>,
    found: &mut Vec<Signature>,
) -> Result<(), FindError> {
    let Some(sector) = disk.get(0, 512)? else { return Ok(()) };
    if let Some(offset) = fat(sector) {
        found.push(Signature { name: "vfat", offset });
        return Ok(());
    }
    let other_file_system = matches!(&sector[3..11], b"NTFS    " | b"EXFAT   " | b"-FVE-FS-");
    if sector[510..] == [0x55, 0xaa] && !other_file_system {
        let entries = || sector[446..510].chunks_exact(16);
        // The first byte of an entry is 0x80 if active, else 0: any other value is boot code.
        if entries().all(|e| e[0] & 0x7f == 0) {
            let kinds: Vec<u8> = entries().map(|e| e[4]).collect();
            let name = match kinds.iter().find(|kind| **kind != 0) {
                Some(0xee) => "protective MBR",
                Some(_) => "MBR partition table",
                None => "MBR boot sector",
            };
            found.push(Signature { name, offset: 510 });
        }
    }
    Ok(())
}

/// The offset of the name of the FAT type, if this is a FAT boot sector: a jump, a plausible sector size, the
/// name.
fn fat(sector: &[u8]) -> Option<u64> {
    let jump = (sector[0] == 0xeb && sector[2] == 0x90) || sector[0] == 0xe9;
    let sector_size = le16(sector, 11);
    if !jump || !sector_size.is_power_of_two() || !(512..=4096).contains(&sector_size) {
        return None;
    }
    let names: [(usize, &[u8]); 6] =
        [(54, b"FAT12"), (54, b"FAT16"), (54, b"FAT  "), (54, b"MSDOS"), (82, b"FAT32"), (82, b"MSWIN")];
    names.iter().find(|(at, name)| sector[*at..].starts_with(name)).map(|(at, _)| *at as u64)
}

/// The label of an LVM2 physical volume is in one of the first four sectors.
fn lvm<D: ReadAt + ?Sized>(disk: &mut Windows<'_, D>, found: &mut Vec<Signature>) -> Result<(), FindError> {
    for offset in [0, 512, 1024, 1536] {
        if disk.is(offset, b"LABELONE")? && disk.is(offset + 24, b"LVM2 001")? {
            found.push(Signature { name: "LVM2 physical volume", offset });
        }
    }
    Ok(())
}

/// Superblocks of md arrays: 1.1 at the start, 1.2 at 4 KiB, 1.0 and 0.90 near the end
/// (Linux `include/uapi/linux/raid/md_p.h`).
fn md<D: ReadAt + ?Sized>(disk: &mut Windows<'_, D>, found: &mut Vec<Signature>) -> Result<(), FindError> {
    const MAGIC: u32 = 0xa92b_4efc;
    let mut places = vec![("md array member (1.1)", 0, 1), ("md array member (1.2)", 4096, 1)];
    // 1.0 starts 8 KiB before the end or up to 4 KiB earlier, on a multiple of 4 KiB.
    if let Some(sector) = (disk.size() / 512).checked_sub(16) {
        places.push(("md array member (1.0)", sector / 8 * 8 * 512, 1));
    }
    // 0.90 is in the last whole 64 KiB block; a partial block at the end does not count.
    if let Some(offset) = (disk.size() / 65536).checked_sub(1) {
        places.push(("md array member (0.90)", offset * 65536, 0));
    }
    for (name, offset, major) in places {
        let Some(sb) = disk.get(offset, 12)? else { continue };
        // 0.90 is in the byte order of the machine that wrote it.
        let big_endian = major == 0 && sb[..4] == MAGIC.to_be_bytes() && sb[4..8] == [0; 4];
        if big_endian || (le32(sb, 0) == MAGIC && le32(sb, 4) == major) {
            found.push(Signature { name, offset });
        }
    }
    Ok(())
}

/// Metadata of controllers in the last sector with a short magic, and a checksum that makes it sure.
fn last_sector<D: ReadAt + ?Sized>(
    disk: &mut Windows<'_, D>,
    found: &mut Vec<Signature>,
) -> Result<(), FindError> {
    let Some(offset) = (disk.size() / 512).checked_sub(1).map(|sector| sector * 512) else { return Ok(()) };
    let Some(sector) = disk.get(offset, 512)? else { return Ok(()) };
    let sum16 = |len: usize| (0..len / 2).fold(0u16, |sum, word| sum.wrapping_add(le16(sector, word * 2)));
    // 50 bytes, then their sum.
    let via = sector[..50].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    if le16(sector, 0) == 0xaa55 && sector[2] <= 2 && via == sector[50] {
        found.push(Signature { name: "VIA RAID member", offset });
    }
    // The first 0x13e bytes and the word behind them have the sum 0.
    if le32(sector, 0x60) == 0x2f00_0000 && sum16(0x140) == 0 {
        found.push(Signature { name: "Silicon Image RAID member", offset: offset + 0x60 });
    }
    // 128 bytes have the sum 0, or 1.
    if sector.starts_with(b"JM") && sum16(0x80) <= 1 && sector[0x30] <= 5 {
        found.push(Signature { name: "JMicron RAID member", offset });
    }
    Ok(())
}

/// A log of XFS on a device of its own: a record begins in one of the first 512 sectors. A file system of XFS has its log
/// further behind.
fn xfs_log<D: ReadAt + ?Sized>(
    disk: &mut Windows<'_, D>,
    found: &mut Vec<Signature>,
) -> Result<(), FindError> {
    const SECTORS: u64 = 512;
    let len = (SECTORS * 512).min(disk.size());
    let Some(log) = disk.get(0, len as usize)? else { return Ok(()) };
    let be32 = |sector: &[u8], at: usize| le32(sector, at).swap_bytes();
    let is_record = |sector: &[u8]| {
        be32(sector, 0) == 0xfeed_babe && (1..=3).contains(&be32(sector, 8)) && be32(sector, 12) > 0
    };
    if let Some(sector) = log.chunks_exact(512).position(is_record) {
        found.push(Signature { name: "xfs external log", offset: sector as u64 * 512 });
    }
    Ok(())
}

/// Partition tables in the first sector without a magic that is long enough: that of Sun has a checksum, that of Atari is
/// known by its partitions.
fn labels<D: ReadAt + ?Sized>(
    disk: &mut Windows<'_, D>,
    found: &mut Vec<Signature>,
) -> Result<(), FindError> {
    let sectors = disk.size() / 512;
    let Some(sector) = disk.get(0, 512)? else { return Ok(()) };
    let words = || sector.chunks_exact(2).map(|word| u16::from_be_bytes([word[0], word[1]]));
    if sector[508..510] == [0xda, 0xbe] && words().fold(0, |sum, word| sum ^ word) == 0 {
        found.push(Signature { name: "Sun disk label", offset: 508 });
    }
    let be32 = |at: usize| u64::from(le32(sector, at).swap_bytes());
    let all = be32(0x1c2);
    let is_partition = |at: &usize| {
        let (start, size) = (be32(at + 4), be32(at + 8));
        let named = sector[at + 1..at + 4].iter().all(u8::is_ascii_alphanumeric);
        sector[*at] & 1 == 1 && named && start > 0 && size > 0 && start + size <= all
    };
    let mut partitions = [0x1c6, 0x1d2, 0x1de, 0x1ea].into_iter();
    if (2..=sectors.min(i32::MAX as u64)).contains(&all)
        && let Some(at) = partitions.find(is_partition)
    {
        found.push(Signature { name: "Atari partition table", offset: at as u64 });
    }
    Ok(())
}

/// A ZFS member has four labels of 256 KiB, two at each end; the second half of each is a ring of
/// uberblocks, 1 KiB or more apart (OpenZFS `include/sys/vdev_impl.h`, `uberblock_impl.h`).
fn zfs<D: ReadAt + ?Sized>(disk: &mut Windows<'_, D>, found: &mut Vec<Signature>) -> Result<(), FindError> {
    const LABEL: u64 = 256 << 10;
    const RING: u64 = 128 << 10;
    const MAGIC: u64 = 0x00ba_b10c;
    let aligned_end = disk.size() / LABEL * LABEL;
    let from_end = [2 * LABEL, LABEL].into_iter().filter_map(|back| aligned_end.checked_sub(back));
    for label in [0, LABEL].into_iter().chain(from_end) {
        let Some(ring) = disk.get(label + RING, RING as usize)? else { continue };
        let is_uberblock = |slot: &[u8]| slot[..8] == MAGIC.to_le_bytes() || slot[..8] == MAGIC.to_be_bytes();
        if let Some(slot) = ring.chunks_exact(1024).position(is_uberblock) {
            found.push(Signature { name: "ZFS label", offset: label + RING + slot as u64 * 1024 });
        }
    }
    Ok(())
}
