//! Probes a disk: size, alignments, limits, and what is under it.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, Statx, StatxFlags};
use rustix::io::Errno;

use super::mounts::{Mount, mounts};
use super::node::{Kind, Node, kind_of};
use super::queue::{DeviceLimits, KernelQueue};
use super::sysfs::Sysfs;
use super::{DeviceNumber, SysError, fsname};

/// Bits of `stx_mask` that rustix has no names for yet (Linux 6.11 and 6.14).
const WRITE_ATOMIC: StatxFlags = StatxFlags::from_bits_retain(0x1_0000);
const DIO_READ_ALIGN: StatxFlags = StatxFlags::from_bits_retain(0x2_0000);

/// Alignment assumed for direct I/O when nothing reports one: the page size of most machines, and
/// a multiple of every logical block size in use.
const ASSUMED_ALIGN: u32 = 4096;

/// The source of the direct I/O alignments of a [`Probe`], from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlignSource {
    /// The kernel reported them (`statx` with `STATX_DIOALIGN`, Linux 6.1).
    Statx,
    /// The logical block size of the block device itself.
    BlockSize,
    /// The logical block size of the device under the file system.
    BackingDevice,
    /// Nothing reported them; 4096 is assumed.
    Assumed,
}

/// The file system that a regular file is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filesystem {
    /// Its name from the mount table, otherwise by its magic number, otherwise that number in hex.
    pub name: String,
    /// The magic number from `statfs(2)` (`f_type`).
    pub magic: u32,
}

impl Filesystem {
    /// Whether its files exist only in memory (tmpfs, ramfs, hugetlbfs).
    pub fn is_memory(&self) -> bool {
        fsname::is_memory(self.magic)
    }
}

/// The properties of a regular file or block device, as far as the system reports them. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// Regular file or block device.
    pub kind: Kind,
    /// Size at the time of the probe.
    pub size_bytes: u64,
    /// Smallest unit of I/O: the logical block of a block device; for a file the unit of direct I/O, or 512 if the
    /// file does not support direct I/O.
    pub logical_block: u32,
    /// Smallest unit written without read-modify-write; at least `logical_block`.
    pub physical_block: u32,
    /// Alignment of memory for direct I/O. That of the kernel, but at least the logical block if it is 4096 bytes or more.
    pub dio_mem_align: u32,
    /// Alignment of offset and length for direct I/O.
    pub dio_offset_align: u32,
    /// Alignment of offset and length of direct reads, if it is less than for writes.
    pub dio_read_offset_align: u32,
    /// The source of the three alignments.
    pub align_source: AlignSource,
    /// Whether direct I/O works here, if the kernel tells.
    pub direct_io: Option<bool>,
    /// Limits of one I/O; for a file, those of the device under its file system.
    pub limits: DeviceLimits,
    /// What the kernel does to I/O on its way down; for a file, on the device under its file system.
    pub kernel: Option<KernelQueue>,
    /// Whether the kernel treats a block device as read-only. It can still be opened for writing, but
    /// every write fails. `None` for a file, or if sysfs does not tell.
    pub read_only: Option<bool>,
    /// The file system that a file is on; `None` for a block device.
    pub filesystem: Option<Filesystem>,
    /// The block device itself, or the one under a file's file system, if there is one.
    pub device: Option<DeviceNumber>,
    /// Device and inode number of the file or device node, which together tell whether two paths
    /// name the same one.
    pub inode: (u64, u64),
}

impl Probe {
    /// Probes what `path` names, following symbolic links. Needs permission to read a block device.
    ///
    /// # Errors
    /// The path does not exist, names neither a regular file nor a block device, or may not be read.
    pub fn of_path(path: impl AsRef<Path>) -> Result<Probe, SysError> {
        let path = path.as_ref();
        let node = Node::find("probe", path)?;
        let fd =
            node.open(OFlags::RDONLY).map_err(|e| SysError::from_errno("probe", path, e.raw_os_error()))?;
        Probe::of(&fd, path)
    }

    /// Probes an open descriptor; `path` is only for error messages.
    ///
    /// # Errors
    /// The descriptor is neither a regular file nor a block device, or the system cannot tell its size or block size.
    pub fn of(fd: impl AsFd, path: impl AsRef<Path>) -> Result<Probe, SysError> {
        probe(fd.as_fd(), path.as_ref(), &Sysfs::default())
    }

    /// What I/O goes to, for messages: `ext4 file system`, `device`.
    pub(super) fn place(&self) -> String {
        match &self.filesystem {
            Some(fs) => format!("{} file system", fs.name),
            None => "device".to_owned(),
        }
    }
}

fn probe(fd: BorrowedFd<'_>, path: &Path, sysfs: &Sysfs) -> Result<Probe, SysError> {
    let fail = |e: Errno| SysError::from_errno("probe", path, e.raw_os_error());
    let stat = rustix::fs::fstat(fd).map_err(fail)?;
    let kind = kind_of("probe", path, &stat)?;
    // Without statx (kernel or sandbox), the fallbacks are used.
    let statx = statx(fd).ok();
    let mount = match kind {
        Kind::Regular => find_mount(statx.as_ref(), DeviceNumber::from_dev(stat.st_dev)),
        Kind::Block => None,
    };
    let device = match kind {
        Kind::Block => Some(DeviceNumber::from_dev(stat.st_rdev)),
        Kind::Regular => backing_device(DeviceNumber::from_dev(stat.st_dev), mount.as_ref()),
    };
    let queue = device.and_then(|dev| KernelQueue::of(sysfs, dev));
    let (mut limits, kernel) = queue.map_or((DeviceLimits::default(), None), |(l, k)| (l, Some(k)));
    only_atomic_of(&mut limits, statx.as_ref());

    let (size_bytes, blocks) = match kind {
        Kind::Block => (end_of(fd).map_err(fail)?, ioctl_blocks(fd).map_err(fail)?),
        Kind::Regular => (u64::try_from(stat.st_size).unwrap_or(0), backing_blocks(sysfs, device)),
    };
    let align = Align::find(kind, statx.as_ref(), blocks);
    let logical_block = match kind {
        Kind::Block => blocks.map_or(512, |b| b.logical),
        Kind::Regular if align.supported == Some(false) => 512,
        Kind::Regular => align.offset,
    };
    let physical_block = blocks.map_or(logical_block, |b| b.physical.max(logical_block));
    Ok(Probe {
        kind,
        size_bytes,
        logical_block,
        physical_block,
        dio_mem_align: align.memory,
        dio_offset_align: align.offset,
        dio_read_offset_align: align.read_offset,
        align_source: align.source,
        direct_io: align.supported,
        limits,
        kernel,
        read_only: device.filter(|_| kind == Kind::Block).and_then(|dev| read_only(sysfs, dev)),
        filesystem: (kind == Kind::Regular).then(|| filesystem(fd, mount.as_ref())).flatten(),
        device,
        inode: (stat.st_dev, stat.st_ino),
    })
}

fn statx(fd: BorrowedFd<'_>) -> Result<Statx, Errno> {
    let want = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID | StatxFlags::DIOALIGN;
    rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, want | WRITE_ATOMIC | DIO_READ_ALIGN)
}

fn has(statx: &Statx, flag: StatxFlags) -> bool {
    StatxFlags::from_bits_retain(statx.stx_mask).contains(flag)
}

/// The end of a block device, by seeking: works for every kind of driver and needs no ioctl.
pub(super) fn end_of(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    rustix::fs::seek(fd, rustix::fs::SeekFrom::End(0))
}

/// Block sizes of a block device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Blocks {
    logical: u32,
    physical: u32,
}

fn ioctl_blocks(fd: BorrowedFd<'_>) -> Result<Option<Blocks>, Errno> {
    let logical = rustix::fs::ioctl_blksszget(fd)?;
    let physical = rustix::fs::ioctl_blkpbszget(fd).unwrap_or(logical);
    Ok(Some(Blocks { logical, physical }))
}

fn backing_blocks(sysfs: &Sysfs, device: Option<DeviceNumber>) -> Option<Blocks> {
    let disk = sysfs.device(device?)?.whole_disk();
    let bytes = |name: &str| u32::try_from(disk.number_attr(name)?).ok().filter(|b| b.is_power_of_two());
    let logical = bytes("queue/logical_block_size")?;
    Some(Blocks { logical, physical: bytes("queue/physical_block_size").unwrap_or(logical) })
}

fn read_only(sysfs: &Sysfs, device: DeviceNumber) -> Option<bool> {
    Some(sysfs.device(device)?.number_attr("ro")? != 0)
}

/// From this block size on, direct I/O only uses memory that is aligned to blocks, although the kernel reports less:
/// zram, whose blocks are pages, takes each piece of memory for a whole page (Linux 6.18), and then reads and writes
/// beside the memory of a caller. What is built on such a device, and a file system on it, has its block size.
const WHOLE_PAGE: u32 = 4096;

/// Alignments for direct I/O.
#[derive(Debug, PartialEq, Eq)]
struct Align {
    memory: u32,
    offset: u32,
    read_offset: u32,
    source: AlignSource,
    supported: Option<bool>,
}

impl Align {
    fn find(kind: Kind, statx: Option<&Statx>, blocks: Option<Blocks>) -> Align {
        let reported = statx.filter(|s| has(s, StatxFlags::DIOALIGN));
        if let Some(s) = reported.filter(|s| s.stx_dio_mem_align > 0 && s.stx_dio_offset_align > 0) {
            let offset = s.stx_dio_offset_align;
            let read = if has(s, DIO_READ_ALIGN) { s.stx_dio_read_offset_align } else { 0 };
            let block = blocks.map_or(offset, |b| b.logical);
            return Align {
                memory: s.stx_dio_mem_align.max(if block >= WHOLE_PAGE { block } else { 1 }),
                offset,
                read_offset: if read == 0 { offset } else { read },
                source: AlignSource::Statx,
                supported: Some(true),
            };
        }
        let (size, source) = match (kind, blocks) {
            (Kind::Block, Some(b)) => (b.logical, AlignSource::BlockSize),
            (Kind::Regular, Some(b)) => (b.logical, AlignSource::BackingDevice),
            (_, None) => (ASSUMED_ALIGN, AlignSource::Assumed),
        };
        // With alignments of zero statx reports that direct I/O does not work here.
        let supported = reported.map(|_| false);
        Align { memory: size, offset: size, read_offset: size, source, supported }
    }
}

/// Keeps only the limits of atomic writes that the open file itself reports (Linux 6.11). Those in sysfs are the
/// disk's: a file system or a stacked device in between may not support them, and an older kernel rejects the flag.
fn only_atomic_of(limits: &mut DeviceLimits, statx: Option<&Statx>) {
    let reported = statx.filter(|s| has(s, WRITE_ATOMIC) && s.stx_atomic_write_unit_max > 0);
    limits.atomic_write_unit_min = reported.map(|s| s.stx_atomic_write_unit_min.into());
    limits.atomic_write_unit_max = reported.map(|s| s.stx_atomic_write_unit_max.into());
}

fn find_mount(statx: Option<&Statx>, dev: DeviceNumber) -> Option<Mount> {
    let id = statx.filter(|s| has(s, StatxFlags::MNT_ID)).map(|s| s.stx_mnt_id);
    let mut all = mounts();
    let at =
        all.iter().position(|m| Some(m.id) == id).or_else(|| all.iter().position(|m| m.device == dev))?;
    Some(all.swap_remove(at))
}

/// The device under a file system: its device number, unless the file system made that up (major 0, as for btrfs and
/// overlay); in that case the mount source, if it is a block device.
fn backing_device(dev: DeviceNumber, mount: Option<&Mount>) -> Option<DeviceNumber> {
    if dev.major != 0 {
        return Some(dev);
    }
    let source = mount.map(|m| &m.source).filter(|s| s.is_absolute())?;
    let stat = rustix::fs::stat(source).ok()?;
    let block = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_block_device();
    block.then(|| DeviceNumber::from_dev(stat.st_rdev))
}

/// The file system that an open file or directory is on.
pub(super) fn filesystem_of(fd: BorrowedFd<'_>) -> Option<Filesystem> {
    let stat = rustix::fs::fstat(fd).ok()?;
    let mount = find_mount(statx(fd).ok().as_ref(), DeviceNumber::from_dev(stat.st_dev));
    filesystem(fd, mount.as_ref())
}

fn filesystem(fd: BorrowedFd<'_>, mount: Option<&Mount>) -> Option<Filesystem> {
    // Magic numbers are 32 bits wide; some architectures sign-extend them.
    let magic = rustix::fs::fstatfs(fd).ok()?.f_type as u32;
    let name = match (mount, fsname::of(magic)) {
        (Some(mount), _) => mount.fs_type.clone(),
        (None, Some(name)) => name.to_owned(),
        (None, None) => format!("{magic:#x}"),
    };
    Some(Filesystem { name, magic })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statx_of_a_file() -> Statx {
        let file = tempfile::NamedTempFile::new().unwrap();
        statx(file.as_fd()).unwrap()
    }

    const B512: Option<Blocks> = Some(Blocks { logical: 512, physical: 4096 });

    #[test]
    fn statx_alignments_win_over_block_sizes() {
        let mut s = statx_of_a_file();
        s.stx_mask |= (StatxFlags::DIOALIGN | DIO_READ_ALIGN).bits();
        (s.stx_dio_mem_align, s.stx_dio_offset_align, s.stx_dio_read_offset_align) = (4, 4096, 512);
        let a = Align::find(Kind::Regular, Some(&s), B512);
        assert_eq!((a.memory, a.offset, a.read_offset), (4, 4096, 512));
        assert_eq!((a.source, a.supported), (AlignSource::Statx, Some(true)));
        s.stx_dio_read_offset_align = 0;
        assert_eq!(Align::find(Kind::Regular, Some(&s), B512).read_offset, 4096);
    }

    #[test]
    fn memory_for_blocks_of_a_page_is_aligned_to_them() {
        let mut s = statx_of_a_file();
        s.stx_mask |= StatxFlags::DIOALIGN.bits();
        (s.stx_dio_mem_align, s.stx_dio_offset_align) = (512, 4096);
        let pages = Some(Blocks { logical: 4096, physical: 4096 });
        for (kind, blocks, memory) in [
            (Kind::Block, pages, 4096),
            (Kind::Regular, pages, 4096),
            (Kind::Regular, None, 4096),
            (Kind::Regular, B512, 512),
        ] {
            assert_eq!(Align::find(kind, Some(&s), blocks).memory, memory, "{kind:?} {blocks:?}");
        }
    }

    #[test]
    fn zero_alignments_mean_no_direct_io() {
        let mut s = statx_of_a_file();
        s.stx_mask |= StatxFlags::DIOALIGN.bits();
        (s.stx_dio_mem_align, s.stx_dio_offset_align) = (0, 0);
        let a = Align::find(Kind::Regular, Some(&s), B512);
        assert_eq!((a.supported, a.source, a.offset), (Some(false), AlignSource::BackingDevice, 512));
    }

    #[test]
    fn without_statx_the_best_guess_is_named() {
        let of = |kind, blocks| {
            let a = Align::find(kind, None, blocks);
            (a.memory, a.offset, a.source, a.supported)
        };
        assert_eq!(of(Kind::Block, B512), (512, 512, AlignSource::BlockSize, None));
        assert_eq!(of(Kind::Regular, B512), (512, 512, AlignSource::BackingDevice, None));
        assert_eq!(of(Kind::Regular, None), (4096, 4096, AlignSource::Assumed, None));
    }

    #[test]
    fn nothing_has_atomic_writes_unless_the_open_file_says_so() {
        let device = DeviceLimits { atomic_write_unit_max: Some(65536), ..DeviceLimits::default() };
        let of = |statx: Option<&Statx>| {
            let mut limits = device.clone();
            only_atomic_of(&mut limits, statx);
            limits.atomic_write_unit_max
        };
        let mut s = statx_of_a_file();
        s.stx_mask &= !WRITE_ATOMIC.bits();
        assert_eq!((of(Some(&s)), of(None)), (None, None));
        s.stx_mask |= WRITE_ATOMIC.bits();
        s.stx_atomic_write_unit_max = 16384;
        assert_eq!(of(Some(&s)), Some(16384));
        s.stx_atomic_write_unit_max = 0;
        assert_eq!(of(Some(&s)), None);
    }

    #[test]
    fn the_device_under_a_made_up_device_number_is_what_was_mounted() {
        let mount = |source: &str| Mount {
            id: 1,
            device: DeviceNumber { major: 0, minor: 40 },
            mount_point: "/mnt".into(),
            fs_type: "btrfs".into(),
            source: source.into(),
        };
        let made_up = DeviceNumber { major: 0, minor: 40 };
        let sda = DeviceNumber { major: 8, minor: 0 };
        assert_eq!(backing_device(sda, None), Some(sda));
        assert_eq!(backing_device(made_up, None), None);
        assert_eq!(backing_device(made_up, Some(&mount("overlay"))), None);
        assert_eq!(backing_device(made_up, Some(&mount("/dev/null"))), None);
    }
}
