//! A file or block device as a disk: its geometry, and channels over the driver that was chosen for it.

use crate::sys::{Kind, OpenedDisk, Probe, SysError, WriteCache};
use platter_block::backend::LaneUse;
use platter_block::driver::{Driver, Features, Geometry};
use platter_block::limits::Limits;
use std::sync::{Arc, OnceLock};

use super::choose::{self, Choice, Chosen};
use super::target::Target;
use super::threads::Workers;

/// Largest request where the device does not say (the kernel's own default is 1280 KiB).
const MAX_TRANSFER: u32 = 1 << 20;
/// Most segments of one request (`IOV_MAX`).
const MAX_SEGMENTS: u16 = 1024;

/// How a file or block device is driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// The driver.
    pub driver: Choice,
    /// Requests that a channel takes at a time, 1 to 16384.
    pub depth: u32,
    /// `uring`: a kernel thread submits.
    pub sqpoll: bool,
    /// `uring`: completions are polled for.
    pub iopoll: bool,
    /// `threads`: most threads of this disk.
    pub threads: u32,
}

impl Default for FileOptions {
    fn default() -> FileOptions {
        FileOptions { driver: Choice::Auto, depth: 128, sqpoll: false, iopoll: false, threads: 16 }
    }
}

/// An open file or block device and the driver chosen for it.
pub struct FileDisk {
    target: Arc<Target>,
    options: FileOptions,
    chosen: Chosen,
    geometry: Geometry,
    pool: OnceLock<Arc<Workers>>,
}

impl FileDisk {
    /// Chooses a driver for `disk` and makes sure that it can be had.
    ///
    /// # Errors
    /// A depth out of range, or a driver that was asked for by name and is not there; says why.
    pub fn new(disk: OpenedDisk, options: FileOptions) -> Result<FileDisk, SysError> {
        if !(1..=choose::MAX_DEPTH).contains(&options.depth) {
            let message = format!("a depth of {} is out of range", options.depth);
            let help = format!("give a depth from 1 to {}", choose::MAX_DEPTH);
            return Err(SysError::new("drive", &disk.path, message, help));
        }
        let geometry = geometry(&disk);
        let target = Arc::new(Target::new(disk));
        let chosen = choose::choose(&target, &options)?;
        Ok(FileDisk { target, options, chosen, geometry, pool: OnceLock::new() })
    }

    /// A channel, for one thread or for any.
    ///
    /// # Errors
    /// What the system ran out of.
    pub fn channel(&self, lane_use: LaneUse) -> Result<Box<dyn Driver>, SysError> {
        let pool = || {
            let pool = self.pool.get_or_init(|| Arc::new(Workers::new(self.options.threads as usize)));
            Arc::clone(pool)
        };
        choose::open(self.chosen.kind, &self.target, &self.options, lane_use, pool)
    }

    /// Which driver was chosen, and why not a better one.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// Size, limits and features.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What is driven.
    pub fn disk(&self) -> &OpenedDisk {
        &self.target.disk
    }

    /// How it is driven.
    pub fn options(&self) -> &FileOptions {
        &self.options
    }
}

/// What the queue must know of an open disk.
///
/// Write-zeroes and FUA work on everything (the kernel sees to that where the device cannot). A file always
/// needs a flush: its data may be in the device's cache, and where it lies in the file system's.
fn geometry(disk: &OpenedDisk) -> Geometry {
    let probe = &disk.probe;
    let flags = rustix::fs::fcntl_getfl(&disk.fd);
    let read_only = flags.is_ok_and(|f| f & rustix::fs::OFlags::RWMODE == rustix::fs::OFlags::RDONLY);
    let cache = probe.kernel.as_ref().and_then(|kernel| kernel.write_cache);
    let write_cache = !disk.direct || probe.kind == Kind::Regular || cache != Some(WriteCache::WriteThrough);
    let features = Features { write_cache, fua: true, read_only };
    Geometry { size: probe.size_bytes, limits: limits(disk.direct, probe), features }
}

fn limits(direct: bool, probe: &Probe) -> Limits {
    let small = |value: Option<u64>| value.and_then(|v| u32::try_from(v).ok()).unwrap_or(0);
    let block = probe.logical_block.max(1);
    let (discard_granularity, max_discard) = match probe.kind {
        Kind::Regular => (block, 1 << 40),
        Kind::Block => match probe.limits.discard_max {
            Some(most) if most > 0 => (small(probe.limits.discard_granularity).max(block), most),
            // Not supported; the size is that of write-zeroes then.
            _ => (0, 1 << 30),
        },
    };
    let max_io = small(probe.limits.max_io);
    Limits {
        logical_block: block,
        physical_block: probe.physical_block.max(block),
        memory_align: if direct { probe.dio_mem_align.max(1) } else { 1 },
        length_align: if direct { probe.dio_offset_align.max(1) } else { 1 },
        max_transfer: if max_io == 0 { MAX_TRANSFER } else { max_io.max(block) / block * block },
        max_segments: MAX_SEGMENTS,
        max_segment_size: 1 << 30,
        segment_boundary: 0,
        chunk: 0,
        optimal_io: small(probe.limits.optimal_io),
        discard_granularity,
        max_discard,
        write_zeroes: true,
        atomic_write: small(probe.limits.atomic_write_unit_max),
    }
}
