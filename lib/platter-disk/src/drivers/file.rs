//! A file or block device as a disk: its geometry, and channels of the driver chosen for it.

use crate::sys::{Kind, OpenedDisk, Probe, SysError, WriteCache};
use platter_block::backend::{Fact, LaneUse};
use platter_block::disk::{BlockingFlush, DiskChannel};
use platter_block::driver::{Features, Geometry};
use platter_block::limits::Limits;
use std::sync::Arc;

use super::choose::{self, Choice, Chosen, FileDriver};
use super::file_target::Target;
use super::threads::Workers;

/// Largest request if the device does not tell (the kernel's own default is 1280 KiB).
const MAX_TRANSFER: u32 = 1 << 20;
/// Most segments of one request (`IOV_MAX`).
const MAX_SEGMENTS: u16 = 1024;

/// Driver options of a file or block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileOptions {
    /// The driver.
    pub driver: Choice,
    /// Most requests of a channel at a time, 1 to 16384.
    pub depth: u32,
    /// `uring`: a kernel thread submits.
    pub sqpoll: bool,
    /// `uring`: completions are polled for.
    pub iopoll: bool,
    /// `threads`: most threads of this disk.
    pub threads: u32,
}

platter_block::setters! {
    const FileOptions {
        driver, with_driver: Choice;
        depth, with_depth: u32;
        sqpoll, with_sqpoll: bool;
        iopoll, with_iopoll: bool;
        threads, with_threads: u32;
    }
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
    pool: Arc<Workers>,
}

impl FileDisk {
    /// Chooses a driver for `disk` and makes sure that it works.
    ///
    /// # Errors
    /// The depth is out of range, or a driver requested by name is unavailable; the error says why.
    pub fn new(disk: OpenedDisk, options: FileOptions) -> Result<FileDisk, SysError> {
        if !(1..=choose::MAX_DEPTH).contains(&options.depth) {
            let message = format!("a depth of {} is out of range", options.depth);
            let help = format!("give a depth from 1 to {}", choose::MAX_DEPTH);
            return Err(SysError::new("drive", &disk.path, message, help));
        }
        crate::clock::check();
        let geometry = geometry(&disk);
        let target = Arc::new(Target::new(disk)?);
        let pool = Arc::new(Workers::new(options.threads as usize));
        let chosen = choose::choose(&target, &options, &pool)?;
        Ok(FileDisk { target, options, chosen, geometry, pool })
    }

    /// Opens a channel for lanes with this use.
    ///
    /// # Errors
    /// The system has run out of a resource.
    pub fn channel(&self, lane_use: LaneUse) -> Result<DiskChannel, SysError> {
        let driver = choose::open(&self.chosen, &self.target, &self.options, lane_use, &self.pool)?;
        Ok(DiskChannel::from(driver))
    }

    /// A function that flushes on the calling thread, as a driver's thread would.
    pub(crate) fn flusher(&self) -> BlockingFlush {
        let target = Arc::clone(&self.target);
        Arc::new(move |now| target.flush(now))
    }

    /// The driver that was chosen, and why not a better one.
    pub fn chosen(&self) -> &Chosen {
        &self.chosen
    }

    /// Size, limits and features.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The file or device.
    pub fn disk(&self) -> &OpenedDisk {
        &self.target.disk
    }

    /// The present size of the file or device in bytes. If a file is found to be shorter than its disk, this is
    /// remembered: no I/O beyond its end is carried out from then on, and no flush succeeds, until
    /// [`set_size`](FileDisk::set_size).
    ///
    /// # Errors
    /// The system cannot tell, for example because a device is gone.
    pub fn current_size(&self) -> Result<u64, SysError> {
        let size = self.target.disk.current_size()?;
        self.target.found(size);
        Ok(size)
    }

    /// The size of the file, if it was found to be less than the disk's.
    pub fn shrunk_to(&self) -> Option<u64> {
        self.target.size().shrunk_to()
    }

    /// Sets the size of the disk. [`geometry`](FileDisk::geometry) keeps the size at opening.
    ///
    /// # Errors
    /// Direct I/O cannot reach the new end, and no other descriptor can be opened for it.
    pub fn set_size(&self, size: u64) -> Result<(), SysError> {
        self.target.resize(size)
    }

    /// Number of times the size of the file was checked.
    pub fn looks_at_size(&self) -> u64 {
        self.target.size().looks()
    }

    /// Present facts about the driver for operators.
    pub fn facts(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        if self.chosen.kind == FileDriver::Uring
            && let Ok(abilities) = choose::uring_abilities()
        {
            facts.push(("io_uring", abilities.to_string()));
        }
        if self.chosen.shared != self.chosen.kind {
            let why = self.chosen.why_shared_threads.as_ref().map_or(String::new(), |why| format!(": {why}"));
            facts.push(("shared lanes", format!("{}{why}", self.chosen.shared)));
        }
        facts.extend(self.target.unregistered().map(|text| ("memory not registered", text)));
        facts.extend(self.shrunk_to().map(|size| {
            let was = self.target.size().device();
            (
                "file shrank",
                format!("from {was} to {size} bytes; flushes fail until the device has its new size"),
            )
        }));
        facts
    }

    /// The driver options.
    pub fn options(&self) -> &FileOptions {
        &self.options
    }
}

/// The geometry of an open disk for its queue.
///
/// Write-zeroes and FUA work on everything (the kernel emulates them if the device does not support them). A file
/// always needs a flush: its data may be in the device's cache, and its block mapping in the file system's.
pub(super) fn geometry(disk: &OpenedDisk) -> Geometry {
    let probe = &disk.probe;
    let flags = rustix::fs::fcntl_getfl(&disk.fd);
    let read_only = flags.is_ok_and(|f| f & rustix::fs::OFlags::RWMODE == rustix::fs::OFlags::RDONLY);
    let cache = probe.kernel.as_ref().and_then(|kernel| kernel.write_cache);
    let write_cache = !disk.direct || probe.kind == Kind::Regular || cache != Some(WriteCache::WriteThrough);
    let features = Features::default()
        .with_write_cache(write_cache)
        .with_fua(true)
        .with_read_only(read_only)
        .with_rotational(probe.kernel.as_ref().and_then(|kernel| kernel.rotational) == Some(true))
        .with_prebuild(true);
    Geometry::new(probe.size_bytes, limits(disk.direct, probe)).with_features(features)
}

fn limits(direct: bool, probe: &Probe) -> Limits {
    let small = |value: Option<u64>| value.and_then(|v| u32::try_from(v).ok()).unwrap_or(0);
    let block = probe.logical_block.max(1);
    let (discard_granularity, max_discard) = match probe.kind {
        Kind::Regular => (block, 1 << 40),
        Kind::Block => match probe.limits.discard_max {
            Some(most) if most > 0 => (small(probe.limits.discard_granularity).max(block), most),
            // Not supported; the limit of write-zeroes applies then.
            _ => (0, 1 << 30),
        },
    };
    let max_io = small(probe.limits.max_io);
    Limits::unlimited(block)
        .with_physical_block(probe.physical_block.max(block))
        .with_memory_align(if direct { probe.dio_mem_align.max(1) } else { 1 })
        .with_length_align(if direct { probe.dio_offset_align.max(1) } else { 1 })
        .with_max_transfer(if max_io == 0 { MAX_TRANSFER } else { max_io.max(block) / block * block })
        .with_max_segments(MAX_SEGMENTS)
        .with_max_segment_size(1 << 30)
        .with_optimal_io(small(probe.limits.optimal_io))
        .with_discard_granularity(discard_granularity)
        .with_max_discard(max_discard)
        // The kernel accepts atomic writes only with direct I/O.
        .with_atomic_write(if direct { small(probe.limits.atomic_write_unit_max) } else { 0 })
}
