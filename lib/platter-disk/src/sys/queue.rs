//! The limits of the kernel's own request queue of a device, and its treatment of I/O.

use super::node::{Kind, Node};
use super::sysfs::{BlockDir, Sysfs};
use super::{DeviceNumber, SysError};
use std::path::Path;

/// Limits of one I/O to a device, from sysfs. `None` if the kernel does not tell.
///
/// Sizes are in bytes. A value of 0 that means "no limit" or "not supported" in sysfs stays 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Smallest I/O that does not cost the device extra work.
    pub minimum_io: Option<u64>,
    /// Preferred size of streaming I/O; 0 means no preference.
    pub optimal_io: Option<u64>,
    /// Largest I/O that the kernel sends down in one piece.
    pub max_io: Option<u64>,
    /// Largest I/O that the hardware takes.
    pub max_hw_io: Option<u64>,
    /// Most segments in one I/O.
    pub max_segments: Option<u64>,
    /// Largest segment.
    pub max_segment_size: Option<u64>,
    /// Mask of bits that must be 0 in memory addresses: 511 means multiples of 512.
    pub dma_alignment: Option<u64>,
    /// I/O that crosses a multiple of this is split; 0 means no boundary.
    pub chunk: Option<u64>,
    /// Unit of discard.
    pub discard_granularity: Option<u64>,
    /// Largest discard; 0 means that the device cannot discard.
    pub discard_max: Option<u64>,
    /// Largest write-zeroes; 0 means that the device does not support it.
    pub write_zeroes_max: Option<u64>,
    /// Smallest write that can be made atomic; 0 means none.
    pub atomic_write_unit_min: Option<u64>,
    /// Largest power-of-two write that can be made atomic; 0 means none.
    pub atomic_write_unit_max: Option<u64>,
}

impl DeviceLimits {
    pub(super) fn read(disk: &BlockDir) -> Self {
        let bytes = |name: &str| disk.number_attr(&format!("queue/{name}"));
        let kib = |name: &str| bytes(name)?.checked_mul(1024);
        DeviceLimits {
            minimum_io: bytes("minimum_io_size"),
            optimal_io: bytes("optimal_io_size"),
            max_io: kib("max_sectors_kb"),
            max_hw_io: kib("max_hw_sectors_kb"),
            max_segments: bytes("max_segments"),
            max_segment_size: bytes("max_segment_size"),
            dma_alignment: bytes("dma_alignment"),
            chunk: bytes("chunk_sectors").and_then(|sectors| sectors.checked_mul(512)),
            discard_granularity: bytes("discard_granularity"),
            discard_max: bytes("discard_max_bytes"),
            write_zeroes_max: bytes("write_zeroes_max_bytes"),
            atomic_write_unit_min: bytes("atomic_write_unit_min_bytes"),
            atomic_write_unit_max: bytes("atomic_write_unit_max_bytes"),
        }
    }
}

/// Whether the kernel assumes that a device has a volatile write cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteCache {
    /// Writes may stay in a volatile cache until a flush.
    WriteBack,
    /// A completed write is durable; flushes are not sent to the device.
    WriteThrough,
}

/// What the kernel does to I/O on its way to a device. `None` if sysfs does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelQueue {
    /// Name of the whole disk, such as `sda`.
    pub disk: Option<String>,
    /// The I/O scheduler in use.
    pub scheduler: Option<String>,
    /// The available I/O schedulers.
    pub schedulers: Vec<String>,
    /// Requests that the scheduler's queue holds.
    pub nr_requests: Option<u64>,
    /// The kernel's view of the device's write cache.
    pub write_cache: Option<WriteCache>,
    /// Whether FUA writes are sent to the device as such.
    pub fua: Option<bool>,
    /// Whether the kernel treats the device as rotational; virtual disks often report this wrongly.
    pub rotational: Option<bool>,
    /// Whether the kernel can poll the device for completions.
    pub io_poll: Option<bool>,
    /// Readahead of buffered reads, in KiB.
    pub read_ahead_kb: Option<u64>,
    /// Merging: 0 tries all merges, 1 only simple ones, 2 none.
    pub nomerges: Option<u64>,
    /// Largest I/O sent down in one piece, in KiB.
    pub max_sectors_kb: Option<u64>,
    /// Latency target of write-back throttling in microseconds; 0 means off.
    pub wbt_lat_usec: Option<u64>,
    /// Zone model: `none`, `host-aware` or `host-managed`.
    pub zoned: Option<String>,
}

impl KernelQueue {
    pub(super) fn read(disk: &BlockDir) -> Self {
        let text = |name: &str| disk.attr(&format!("queue/{name}"));
        let number = |name: &str| disk.number_attr(&format!("queue/{name}"));
        let flag = |name: &str| number(name).map(|v| v != 0);
        let (scheduler, schedulers) = choices(&text("scheduler").unwrap_or_default());
        KernelQueue {
            disk: Some(disk.name()),
            scheduler,
            schedulers,
            nr_requests: number("nr_requests"),
            write_cache: text("write_cache").and_then(|t| write_cache(&t)),
            fua: flag("fua"),
            rotational: flag("rotational"),
            io_poll: flag("io_poll"),
            read_ahead_kb: number("read_ahead_kb"),
            nomerges: number("nomerges"),
            max_sectors_kb: number("max_sectors_kb"),
            wbt_lat_usec: number("wbt_lat_usec"),
            zoned: text("zoned"),
        }
    }

    /// What the kernel does to I/O on the block device that `path` names; this process need not be permitted to open
    /// it. `None` for a file, or if sysfs does not have the device.
    ///
    /// # Errors
    /// The path does not exist, or is neither a file nor a block device.
    pub fn of_path(path: impl AsRef<Path>) -> Result<Option<KernelQueue>, SysError> {
        let node = Node::find("probe", path.as_ref())?;
        let device = DeviceNumber::from_dev(node.stat.st_rdev);
        let known = (node.kind == Kind::Block).then(|| KernelQueue::of(&Sysfs::default(), device)).flatten();
        Ok(known.map(|(_, queue)| queue))
    }

    /// Refuses to write to a device whose zones must be written in order from their beginning: writes anywhere else fail, and
    /// this library does not place writes accordingly. A host-aware device accepts any write.
    pub(super) fn refuse_zones(&self, path: &Path, write: bool) -> Result<(), SysError> {
        if !write || self.zoned.as_deref() != Some("host-managed") {
            return Ok(());
        }
        let message = "it is a host-managed zoned device, whose zones can only be written in order";
        let help = "open it for reading only, or put a layer that accepts any write on it (dm-zoned, a zoned file system)";
        Err(SysError::new("open", path, message, help))
    }

    /// What the kernel does to I/O on a device; `None` if sysfs does not have it.
    pub(super) fn of(sysfs: &Sysfs, dev: DeviceNumber) -> Option<(DeviceLimits, Self)> {
        let disk = sysfs.device(dev)?.whole_disk();
        Some((DeviceLimits::read(&disk), KernelQueue::read(&disk)))
    }
}

/// Splits `none [mq-deadline] kyber` into the selected one and all.
fn choices(text: &str) -> (Option<String>, Vec<String>) {
    let bare = |word: &str| word.trim_matches(['[', ']']).to_owned();
    let chosen = text.split_whitespace().find(|w| w.starts_with('[')).or(match text.trim() {
        "" => None,
        one if !one.contains(char::is_whitespace) => Some(one),
        _ => None,
    });
    (chosen.map(bare), text.split_whitespace().map(bare).collect())
}

fn write_cache(text: &str) -> Option<WriteCache> {
    match text {
        "write back" => Some(WriteCache::WriteBack),
        "write through" => Some(WriteCache::WriteThrough),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sysfs::fixture;
    use super::*;
    use crate::sys::DeviceNumber;

    const PART: DeviceNumber = DeviceNumber { major: 8, minor: 1 };

    #[test]
    fn only_zones_that_the_host_must_manage_are_refused() {
        for (zoned, refused) in [("none", false), ("host-aware", false), ("host-managed", true)] {
            let root = fixture::sysfs(
                &[("devices/sda/queue/zoned", zoned), ("devices/sda/sda1/partition", "1\n")],
                &[("8:1", "devices/sda/sda1")],
            );
            let (_, queue) = KernelQueue::of(&Sysfs::at(root.path()), PART).unwrap();
            assert!(queue.refuse_zones(Path::new("/dev/sda1"), false).is_ok(), "{zoned}: reading is allowed");
            let result = queue.refuse_zones(Path::new("/dev/sda1"), true);
            assert_eq!(result.is_err(), refused, "{zoned}");
            if let Err(error) = result {
                let text = error.to_string();
                assert!(
                    text.starts_with("cannot open /dev/sda1: it is a host-managed zoned device"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_partition_has_its_disks_queue() {
        let root = fixture::sysfs(
            &[
                ("devices/sda/queue/scheduler", "none [mq-deadline] kyber bfq\n"),
                ("devices/sda/queue/nr_requests", "64\n"),
                ("devices/sda/queue/write_cache", "write back\n"),
                ("devices/sda/queue/fua", "0\n"),
                ("devices/sda/queue/max_sectors_kb", "1280\n"),
                ("devices/sda/queue/chunk_sectors", "256\n"),
                ("devices/sda/queue/dma_alignment", "3\n"),
                ("devices/sda/queue/discard_max_bytes", "0\n"),
                ("devices/sda/sda1/partition", "1\n"),
            ],
            &[("8:1", "devices/sda/sda1")],
        );
        let (limits, queue) = KernelQueue::of(&Sysfs::at(root.path()), PART).unwrap();
        assert_eq!(queue.disk.as_deref(), Some("sda"));
        assert_eq!(queue.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!(queue.schedulers, ["none", "mq-deadline", "kyber", "bfq"]);
        assert_eq!((queue.nr_requests, queue.fua), (Some(64), Some(false)));
        assert_eq!(queue.write_cache, Some(WriteCache::WriteBack));
        assert_eq!((limits.max_io, limits.chunk), (Some(1280 * 1024), Some(128 * 1024)));
        assert_eq!((limits.dma_alignment, limits.discard_max), (Some(3), Some(0)));
    }

    #[test]
    fn missing_attributes_are_none() {
        let root = fixture::sysfs(&[("devices/sda/queue/rotational", "x")], &[("8:1", "devices/sda")]);
        let (limits, queue) = KernelQueue::of(&Sysfs::at(root.path()), PART).unwrap();
        assert_eq!(limits, DeviceLimits::default());
        assert_eq!(queue, KernelQueue { disk: Some("sda".into()), ..KernelQueue::default() });
        assert!(KernelQueue::of(&Sysfs::at(root.path()), DeviceNumber { major: 8, minor: 2 }).is_none());
    }

    #[test]
    fn scheduler_lists() {
        assert_eq!(choices("none"), (Some("none".into()), vec!["none".into()]));
        assert_eq!(choices("[none]"), (Some("none".into()), vec!["none".into()]));
        assert_eq!(choices(""), (None, vec![]));
    }
}
