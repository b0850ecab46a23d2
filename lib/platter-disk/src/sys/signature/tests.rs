//! Every signature on a handmade image, and on images made by mkfs if it is installed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use super::magics::{MAGICS, Magic};
use super::*;
use crate::sys::opened::FdReader;
use crate::sys::testing::{image, run, skip};

/// A disk of zeroes with a few bytes set, and unreadable ranges.
struct Sparse {
    size: u64,
    bytes: BTreeMap<u64, u8>,
    bad: Option<u64>,
    reads: RefCell<Vec<(u64, usize)>>,
}

impl Sparse {
    fn new(size: u64) -> Self {
        Sparse { size, bytes: BTreeMap::new(), bad: None, reads: RefCell::default() }
    }

    fn with(size: u64, parts: &[(u64, &[u8])]) -> Self {
        let mut disk = Sparse::new(size);
        for (at, bytes) in parts {
            disk.bytes.extend(bytes.iter().enumerate().map(|(i, b)| (at + i as u64, *b)));
        }
        disk
    }

    fn names(&self) -> Vec<&'static str> {
        find(self).unwrap().iter().map(|s| s.name).collect()
    }
}

impl ReadAt for Sparse {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset + buf.len() as u64;
        assert!(end <= self.size, "read past the end");
        self.reads.borrow_mut().push((offset, buf.len()));
        if self.bad.is_some_and(|bad| (offset..end).contains(&bad)) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        for (at, byte) in self.bytes.range(offset..end) {
            buf[(at - offset) as usize] = *byte;
        }
        Ok(())
    }
}

const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

/// An image with one signature: name, size of the disk, contents, and the offset reported.
type Case = (&'static str, u64, Vec<(u64, Vec<u8>)>, u64);

fn simple(name: &'static str, at: u64, bytes: &[u8]) -> Case {
    (name, 64 * MIB, vec![(at, bytes.to_vec())], at)
}

fn md(name: &'static str, size: u64, at: u64, major: u32) -> Case {
    let mut sb = 0xa92b_4efc_u32.to_le_bytes().to_vec();
    sb.extend(major.to_le_bytes());
    (name, size, vec![(at, sb)], at)
}

fn ext(name: &'static str, compat: u32, incompat: u32, ro_compat: u32) -> Case {
    let mut features = compat.to_le_bytes().to_vec();
    features.extend(incompat.to_le_bytes());
    features.extend(ro_compat.to_le_bytes());
    let parts = vec![(1024 + 0x18, vec![2, 0, 0, 0]), (1080, vec![0x53, 0xef]), (1024 + 0x5c, features)];
    (name, 8 * MIB, parts, 1080)
}

fn boot(name: &'static str, parts: &[(u64, &[u8])], offset: u64) -> Case {
    let mut parts: Vec<(u64, Vec<u8>)> = parts.iter().map(|(at, b)| (*at, b.to_vec())).collect();
    parts.push((510, vec![0x55, 0xaa]));
    (name, 8 * MIB, parts, offset)
}

fn filesystems() -> Vec<Case> {
    let partition = |kind: u8| [0x80, 1, 1, 0, kind, 0xfe, 0xff, 0xff, 63, 0, 0, 0, 0, 16, 0, 0];
    vec![
        ext("ext2", 0, 0x2, 0x1),
        ext("ext3", 0x4, 0x2 | 0x4, 0x3),
        ext("ext4", 0x4, 0x2 | 0x40, 0x3),
        ext("ext4", 0, 0x2, 0x400),
        ext("ext3/ext4 external journal", 0, 0x8, 0),
        simple("xfs", 0, b"XFSB"),
        simple("btrfs", 65536 + 64, b"_BHRfS_M"),
        ("btrfs", TIB, vec![(64 * MIB + 64, b"_BHRfS_M".to_vec())], 64 * MIB + 64),
        ("btrfs", TIB, vec![(TIB / 4 + 64, b"_BHRfS_M".to_vec())], TIB / 4 + 64),
        simple("f2fs", 1024, &0xf2f5_2010_u32.to_le_bytes()),
        simple("f2fs", 4096 + 1024, &0xf2f5_2010_u32.to_le_bytes()),
        boot("vfat", &[(0, b"\xeb\x3c\x90mkfs.fat\x00\x02"), (54, b"FAT16   ")], 54),
        boot("vfat", &[(0, b"\xeb\x58\x90mkfs.fat\x00\x10"), (82, b"FAT32   ")], 82),
        boot("ntfs", &[(0, b"\xeb\x52\x90NTFS    \x00\x02")], 3),
        boot("exfat", &[(0, b"\xeb\x76\x90EXFAT   ")], 3),
        boot("BitLocker", &[(0, b"\xeb\x58\x90-FVE-FS-")], 3),
        boot("MBR partition table", &[(446, &partition(0x83))], 510),
        boot("MBR partition table", &[(494, &partition(0x07))], 510),
        boot("protective MBR", &[(446, &partition(0xee))], 510),
        boot("MBR boot sector", &[(0, b"\xfa\x31\xc0")], 510),
        simple("reiserfs", 65536 + 52, b"ReIsEr2Fs"),
        simple("jfs", 32768, b"JFS1"),
        simple("apfs", 32, b"NXSB"),
        simple("erofs", 1024, &0xe0f5_e1e2_u32.to_le_bytes()),
        simple("squashfs", 0, b"hsqs"),
        simple("squashfs", 0, b"sqsh"),
        simple("iso9660", 16 * 2048 + 1, b"CD001"),
        simple("udf", 16 * 2048 + 1, b"BEA01"),
    ]
}

fn array_members() -> Vec<Case> {
    let big_endian = vec![0xa9, 0x2b, 0x4e, 0xfc, 0, 0, 0, 0, 0, 0, 0, 90];
    vec![
        md("md array member (1.1)", 64 * MIB, 0, 1),
        md("md array member (1.2)", 64 * MIB, 4096, 1),
        md("md array member (1.0)", 64 * MIB, 64 * MIB - 8192, 1),
        md("md array member (1.0)", 64 * MIB + 3 * 512, 64 * MIB - 8192, 1),
        md("md array member (0.90)", 64 * MIB, 64 * MIB - 65536, 0),
        md("md array member (0.90)", 64 * MIB + 5 * 512, 64 * MIB - 65536, 0),
        ("md array member (0.90)", 64 * MIB, vec![(64 * MIB - 65536, big_endian)], 64 * MIB - 65536),
    ]
}

fn cases() -> Vec<Case> {
    let bcache = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
    let bcachefs = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
    let mut cases = vec![
        simple("hibernation image", 4086, b"S1SUSPEND"),
        simple("hibernation image", 4086, b"S2SUSPEND"),
        simple("hibernation image", 4086, b"LINHIB0001"),
        simple("LUKS", 0, b"LUKS\xba\xbe\x00\x02"),
        simple("LUKS", 4 * MIB, b"SKUL\xba\xbe\x00\x02"),
        simple("bcache", 4096 + 24, bcache),
        simple("bcachefs", 4096 + 24, bcachefs),
        simple("Ceph BlueStore", 0, b"bluestore block device\n"),
        simple("GPT partition table", 512, b"EFI PART"),
        simple("GPT partition table", 4096, b"EFI PART"),
        simple("GPT partition table", 64 * MIB - 512, b"EFI PART"),
        simple("GPT partition table", 64 * MIB - 4096, b"EFI PART"),
        simple("qcow2 image", 0, b"QFI\xfb"),
        simple("VMDK image", 0, b"KDMV"),
        simple("VHDX image", 0, b"vhdxfile"),
        simple("VHD image", 64 * MIB - 512, b"conectix"),
        simple("VDI image", 64, &0xbeda_107f_u32.to_le_bytes()),
    ];
    cases.extend(filesystems());
    cases.extend(array_members());
    for page in [4096, 8192, 16384, 32768, 65536] {
        cases.push(simple("swap", page - 10, b"SWAPSPACE2"));
        cases.push(simple("swap", page - 10, b"SWAP-SPACE"));
    }
    for sector in 0..4 {
        let label = b"LABELONE\x01\0\0\0\0\0\0\0\x12\x34\x56\x78\x20\0\0\0LVM2 001";
        cases.push(simple("LVM2 physical volume", sector * 512, label));
    }
    let size = 64 * MIB + 100 * 1024;
    for label in [0, MIB / 4, 64 * MIB - MIB / 2, 64 * MIB - MIB / 4] {
        let at = label + 128 * 1024 + 7 * 4096;
        cases.push(("ZFS label", size, vec![(at, 0x00ba_b10c_u64.to_le_bytes().to_vec())], at));
        cases.push(("ZFS label", size, vec![(at, 0x00ba_b10c_u64.to_be_bytes().to_vec())], at));
    }
    cases
}

fn disk_of((_, size, parts, _): &Case) -> Sparse {
    let parts: Vec<(u64, &[u8])> = parts.iter().map(|(at, b)| (*at, b.as_slice())).collect();
    Sparse::with(*size, &parts)
}

#[test]
fn each_signature_is_found_alone_and_where_it_is() {
    for case in cases() {
        let found = find(&disk_of(&case)).unwrap();
        assert_eq!(found, [Signature { name: case.0, offset: case.3 }], "{case:?}");
    }
}

#[test]
fn one_wrong_bit_in_any_byte_of_a_magic_is_not_a_signature() {
    for case in cases().iter().filter(|c| c.2.len() == 1 && !c.0.starts_with("LVM2")) {
        let mut disk = disk_of(case);
        *disk.bytes.get_mut(&case.3).unwrap() ^= 1;
        assert!(find(&disk).unwrap().is_empty(), "{case:?}");
    }
}

/// An image with one row of the table at one of its places.
fn image_of(magic: &Magic, size: u64, at: u64) -> Sparse {
    let with = magic.with.iter().map(|(relative, bytes)| (at.checked_add_signed(*relative).unwrap(), *bytes));
    Sparse::with(size, &with.chain([(at, magic.bytes)]).collect::<Vec<_>>())
}

#[test]
fn each_row_of_the_table_is_found_at_each_of_its_places() {
    for magic in MAGICS {
        // Also a file that ends inside a sector, and one inside a block.
        for size in [TIB, 64 * MIB, 64 * MIB + 512, 64 * MIB + 1000] {
            for at in magic.offsets(size).filter(|at| at + magic.bytes.len() as u64 <= size) {
                let here = Signature { name: magic.name, offset: at };
                let mut disk = image_of(magic, size, at);
                assert!(find(&disk).unwrap().contains(&here), "{here} of {size}");
                if size != 64 * MIB {
                    continue;
                }
                for byte in disk.bytes.keys().copied().collect::<Vec<_>>() {
                    let old = disk.bytes.insert(byte, disk.bytes[&byte] ^ 0x20).unwrap();
                    assert!(
                        !find(&disk).unwrap().contains(&here),
                        "{here} of {size} with byte {byte} changed"
                    );
                    disk.bytes.insert(byte, old);
                }
            }
        }
    }
}

/// Sets the word at `at` so that the words of the first `len` bytes have the sum 0.
fn sum_to_zero(sector: &mut [u8], len: usize, at: usize) {
    let words = sector[..len].chunks_exact(2).map(|word| u16::from_le_bytes([word[0], word[1]]));
    let sum = words.fold(0u16, u16::wrapping_add);
    sector[at..at + 2].copy_from_slice(&sum.wrapping_neg().to_le_bytes());
}

#[test]
fn what_is_known_by_more_than_its_magic_is_found() {
    let end = 64 * MIB - 512;
    let mut via = vec![0x55, 0xaa, 1];
    via.resize(51, 3);
    via[50] = via[..50].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let mut silicon = vec![7; 0x140];
    silicon[0x60..0x64].copy_from_slice(&0x2f00_0000u32.to_le_bytes());
    silicon[0x13e..].fill(0);
    sum_to_zero(&mut silicon, 0x140, 0x13e);
    let mut jmicron = vec![0; 0x80];
    jmicron[..4].copy_from_slice(b"JM\x01\x02");
    jmicron[0x30] = 5;
    sum_to_zero(&mut jmicron, 0x80, 4);
    let mut log = vec![0xfe, 0xed, 0xba, 0xbe, 0, 0, 0, 9, 0, 0, 0, 2];
    log.extend([0, 0, 2, 0]);
    let mut sun = vec![0; 512];
    sun[..4].copy_from_slice(b"SUN4");
    sun[508..510].copy_from_slice(&[0xda, 0xbe]);
    let sum = sun.chunks_exact(2).fold([0, 0], |sum, word| [sum[0] ^ word[0], sum[1] ^ word[1]]);
    sun[510..].copy_from_slice(&sum);
    let atari = [&[0, 0, 16, 0][..], b"\x01GEM", &[0, 0, 0, 2, 0, 0, 4, 0]].concat();
    for (name, at, bytes, magic) in [
        ("VIA RAID member", end, via, end),
        ("Silicon Image RAID member", end, silicon, end + 0x60),
        ("JMicron RAID member", end, jmicron, end),
        ("xfs external log", 0, log.clone(), 0),
        ("xfs external log", 511 * 512, log, 511 * 512),
        ("Sun disk label", 0, sun, 508),
        ("Atari partition table", 0x1c2, atari, 0x1c6),
    ] {
        let mut disk = Sparse::with(64 * MIB, &[(at, &bytes)]);
        assert_eq!(find(&disk).unwrap(), [Signature { name, offset: magic }]);
        *disk.bytes.get_mut(&magic).unwrap() ^= 1;
        assert!(find(&disk).unwrap().is_empty(), "{name}");
    }
}

#[test]
fn several_are_found_in_order() {
    let disk = Sparse::with(
        64 * MIB,
        &[
            (510, &[0x55, 0xaa]),
            (450, &[0xee]),
            (512, b"EFI PART"),
            (64 * MIB - 512, b"EFI PART"),
            (1080, &[0x53, 0xef]),
        ],
    );
    let names = ["protective MBR", "GPT partition table", "ext2", "GPT partition table"];
    assert_eq!(disk.names(), names);
}

#[test]
fn chance_bytes_are_not_signatures() {
    // An ext magic with an impossible block size; 55 AA after data that cannot be a partition table; a label
    // that is not LVM2's; an md magic of an unknown version.
    let parts: [(u64, &[u8]); 7] = [
        (1080, &[0x53, 0xef]),
        (1024 + 0x18, &[7]),
        (510, &[0x55, 0xaa]),
        (446, &[0x13]),
        (512, b"LABELONE"),
        (4096, &[0xfc, 0x4e, 0x2b, 0xa9, 2]),
        (0, &[0xeb, 0, 0x90]),
    ];
    assert!(Sparse::with(64 * MIB, &parts).names().is_empty());
}

#[test]
fn disks_of_any_size_can_be_looked_at() {
    for size in
        [0, 1, 511, 512, 513, 4095, 4096, 8192, 65536, 300_000, MIB, MIB + 1, 5 * MIB + 77, 3 * TIB + 512]
    {
        assert!(Sparse::new(size).names().is_empty(), "{size}");
    }
}

#[test]
fn reads_are_few_and_aligned() {
    let disk = Sparse::new(3 * TIB + 12345);
    assert!(find(&disk).unwrap().is_empty());
    let reads = disk.reads.borrow();
    let total: usize = reads.iter().map(|(_, len)| len).sum();
    assert!(total <= 2 * MIB as usize + 64 * 4096, "{total} bytes");
    for (offset, len) in reads.iter() {
        let at_end = offset + *len as u64 == disk.size;
        assert!(offset % 4096 == 0 && (len % 4096 == 0 || at_end), "{offset} {len}");
    }
}

#[test]
fn what_cannot_be_read_is_an_error_that_says_where() {
    let mut disk = Sparse::new(64 * MIB);
    disk.bad = Some(64 * MIB - 1);
    let e = find(&disk).unwrap_err();
    assert_eq!((e.offset, e.source.raw_os_error()), (63 * MIB, Some(libc::EIO)));
    assert!(e.to_string().contains("66060288"), "{e}");
}

#[test]
fn what_mkfs_makes_is_found() {
    for (program, args, name) in [
        ("mkfs.ext2", &["-q", "-F"][..], "ext2"),
        ("mkfs.ext3", &["-q", "-F"], "ext3"),
        ("mkfs.ext4", &["-q", "-F"], "ext4"),
        ("mkswap", &[], "swap"),
        ("mkfs.xfs", &["-q"], "xfs"),
        ("mkfs.btrfs", &["-q"], "btrfs"),
        ("mkfs.vfat", &[], "vfat"),
        ("mkfs.minix", &[], "minix"),
        ("mkfs.minix", &["-3"], "minix"),
        ("mkfs.bfs", &["-V", "test"], "bfs"),
        ("mkfs.reiserfs", &["-q", "-f"], "reiserfs"),
        ("mkfs.jfs", &["-q"], "jfs"),
        ("mkfs.f2fs", &["-q"], "f2fs"),
        ("mkfs.ntfs", &["-q", "-F", "-f"], "ntfs"),
        ("mkfs.exfat", &[], "exfat"),
        ("mkfs.hfsplus", &[], "HFS+"),
        ("mkfs.hfs", &[], "HFS"),
        ("mkfs.nilfs2", &["-q"], "nilfs2"),
        ("mkfs.ocfs2", &["-q"], "ocfs2"),
        ("mkudffs", &[], "udf"),
        ("mkfs.gfs2", &["-q", "-O", "-p", "lock_nolock"], "gfs"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let path = image(dir.path(), "image", 320 * MIB);
        let args: Vec<&str> = args.iter().copied().chain(path.to_str()).collect();
        if run(program, &args).is_none() {
            skip("what_mkfs_makes_is_found", &format!("no {program}"));
            continue;
        }
        let file = std::fs::File::open(&path).unwrap();
        let found = find(&FdReader { fd: file.as_fd(), size: 320 * MIB }).unwrap();
        assert!(found.iter().any(|s| s.name == name), "{program}: {found:?}");
    }
}
