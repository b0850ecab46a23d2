//! Names of file systems by the magic number from `statfs(2)`.

/// Magic numbers, from `linux/magic.h` and the file systems' own headers.
static MAGICS: &[(u32, &str)] = &[
    (0xef53, "ext2/ext3/ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x2fc1_2fc1, "zfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0x794c_7630, "overlay"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0x5346_544e, "ntfs"),
    (0x7366_746e, "ntfs3"),
    (0x3153_464a, "jfs"),
    (0x5265_4973, "reiserfs"),
    (0x7371_7368, "squashfs"),
    (0xe0f5_e1e2, "erofs"),
    (0x9660, "iso9660"),
    (0x1501_3346, "udf"),
    (0xf15f, "ecryptfs"),
    (0x6462_6720, "debugfs"),
    (0x9fa0, "proc"),
    (0x6265_6572, "sysfs"),
];

/// The name of a file system, or `None` for a magic number not in the table.
pub(super) fn of(magic: u32) -> Option<&'static str> {
    MAGICS.iter().find(|(m, _)| *m == magic).map(|(_, name)| *name)
}

/// Whether files of this file system exist only in memory, so that direct I/O is meaningless there.
pub(super) fn is_memory(magic: u32) -> bool {
    matches!(of(magic), Some("tmpfs" | "ramfs" | "hugetlbfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magics_are_unique_and_the_usual_ones_are_known() {
        let unique: std::collections::BTreeSet<u32> = MAGICS.iter().map(|(m, _)| *m).collect();
        assert_eq!(unique.len(), MAGICS.len());
        assert_eq!(of(0x5846_5342), Some("xfs"));
        assert_eq!(of(1), None);
    }

    #[test]
    fn the_kernel_agrees_about_proc_and_only_memory_is_memory() {
        let proc = rustix::fs::statfs("/proc").unwrap();
        assert_eq!(of(proc.f_type as u32), Some("proc"));
        assert!(is_memory(0x0102_1994) && !is_memory(0x5846_5342));
    }
}
