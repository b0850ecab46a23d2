//! The page cache of Platter: the layer `cache` over any device, and the readahead policies.
//!
//! Pages of 4 KiB in a bounded number of frames that all threads share. A read of cached pages takes no lock
//! and needs no lane: a handle reads the frames directly ([`Resident`](platter_block::resident::Resident)).
//! Every other I/O becomes a bio to an engine behind a lock. The engine has an index of all its pages, asks
//! the handle's readahead policy what to read, and writes dirty pages back in runs, by age and by dirty
//! ratio, as Linux does (`mm/page-writeback.c`).
//!
//! - **Shards**: there is one engine, or with [`Settings::shards`] several, each with extents of the device, frames and a lock of
//!   its own. A transfer over the end of an extent is done in parts.
//! - **Memory** for frames is populated ahead of its use by a thread of the process, on first use, or at opening ([`Prefault`]).
//! - **The size** can be set while the cache is open, and follows memory pressure if that is asked for
//!   ([`Settings::max_size`], [`Settings::min_size`]): pages move out of the frames that go, and their memory goes back to the system.
//! - **A write** completes when it is in memory (`write=back`) or on the disk (`write=through`). A page that
//!   is being written back, is lent by reference, or has been dirty since before a barrier is not changed;
//!   the write makes a new version of it.
//! - **A flush** writes back the pages of the device or of its range that were dirty when the flush was
//!   submitted, and flushes the disk. Pages that could not be written stay dirty and are tried again; the
//!   next flush of each open handle reports the error once.
//! - **A barrier** begins an epoch: no write submitted after it reaches the disk before all pages that were
//!   dirty at the barrier.
//! - **Replacement** is S3-FIFO: a scan does not push out pages that are used often.

#![deny(unsafe_code)]

mod advice;
mod ahead;
mod answers;
mod blocks;
mod cgroup;
mod device;
mod dirty;
mod disk_writes;
mod engine;
mod extents;
mod frame;
#[allow(unsafe_code)]
mod frames;
mod handles;
mod holds;
mod inbox;
mod inflow;
mod ios;
mod jobs;
mod lane;
mod late;
#[allow(unsafe_code)]
mod memory;
mod moves;
mod opened;
mod order;
mod pages;
mod placement;
mod places;
mod plan;
mod policy;
mod populate;
mod pressure;
mod ranges;
mod read;
pub mod readahead;
pub mod replace;
#[allow(unsafe_code)]
mod resident;
mod sharded;
mod shared;
mod status;
mod sync;
mod tally;
mod task;
mod tuning;
mod unflushed;
mod write;
mod writeback;
mod writers;

pub use ahead::Prefault;
pub use cgroup::memory_left;

use device::Cache;
use platter_block::backend::Backend;
use platter_block::driver::Geometry;
use platter_block::params::{Param, ParamError, Unit};
use platter_block::text::short_size;
use platter_block::time::Span;
use platter_stack::{LayerError, LayerType};
use readahead::PAGE;
use sharded::Sharded;
use shared::Shared;
use std::sync::Arc;

/// Sizes are below this: pages are numbered with 31 bits.
const BELOW: i64 = 1 << 43;

/// The names of the readahead policies, as the values of a parameter.
const POLICIES: [&str; readahead::TABLE.len()] = {
    let mut names = [""; readahead::TABLE.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = readahead::TABLE[at].name;
        at += 1;
    }
    names
};

/// The row of the table of layers.
pub const TYPE: LayerType = LayerType {
    name: "cache",
    summary: "a page cache: reads from memory, reads ahead, writes back",
    params: &[
        Param::number(
            "size",
            Unit::Bytes,
            64 << 20,
            ((MIN_PAGES * PAGE) as i64, BELOW - 1),
            "memory for pages; in each shard a multiple of 4096, at least 64K and two windows, \
             with several shards also four extents",
        ),
        // Values beyond the words are policies that the program has registered.
        Param {
            max: 65_535,
            ..Param::word("readahead", &POLICIES, POLICIES.len() - 1, "policy of each handle")
        },
        Param::number(
            "window",
            Unit::Bytes,
            128 << 10,
            (0, 1 << 30),
            "largest readahead window, a multiple of 4096; long streams of platter have larger ones, \
             up to the device's optimum",
        ),
        opened::WRITE,
        Param::number(
            "background",
            Unit::Percent,
            10,
            (0, 100),
            "share of dirty pages at which write-back begins, at most that of dirty",
        ),
        Param::number(
            "dirty",
            Unit::Percent,
            20,
            (1, 100),
            "share of dirty pages at which writers wait, at least that of background",
        ),
        Param::number(
            "expire",
            Unit::Millis,
            30_000,
            (0, 86_400_000),
            "age at which a dirty page is written back",
        ),
        Param::number("interval", Unit::Millis, 5_000, (1, 86_400_000), "how often ages are checked"),
        Param::number(
            "congestion",
            Unit::Requests,
            112,
            (1, 65_536),
            "no readahead while this many readahead I/Os are in flight",
        ),
        Param::number(
            "gather",
            Unit::Count,
            1024,
            (0, 1 << 31),
            "a flush of a range writes back all dirty pages if there are at most this many",
        ),
        Param::number(
            "write_depth",
            Unit::Requests,
            32,
            (1, 1024),
            "write-backs in flight while few pages are dirty and none is overdue",
        ),
        opened::PREFAULT,
        Param::number(
            "max_size",
            Unit::Bytes,
            0,
            (0, BELOW - 1),
            "most that size can be set to while the cache is open: at least size, with the same multiples; \
             0: as it is at opening",
        ),
        Param::number(
            "min_size",
            Unit::Bytes,
            0,
            (0, BELOW - 1),
            "under memory pressure the cache gives memory back down to this: at most size, \
             in each shard a multiple of 4096, at least 64K and two windows; 0: pressure is not watched",
        ),
        Param::number(
            "shards",
            Unit::Count,
            1,
            (1, MAX_SHARDS as i64),
            "parts with a lock of their own, for more threads at a time",
        ),
        Param::number(
            "extent",
            Unit::Bytes,
            1 << 20,
            (4096, 1 << 30),
            "the device is divided among the shards by extents of this size, a power of two",
        ),
    ],
    members: 1..=1,
    build: |values, mut members| {
        let Some(below) = members.pop() else {
            return Err(LayerError::Members("cache needs a device".to_string()));
        };
        let number = |at: usize| values[at].unsigned_abs();
        let millis = |at: usize| Span::from_millis(values[at].unsigned_abs());
        new(
            below,
            &Settings {
                size: number(0),
                readahead: readahead::all().get(number(1) as usize).copied().ok_or_else(|| {
                    let what = format!("there is no readahead policy number {}", number(1));
                    LayerError::Param(ParamError(what))
                })?,
                values: values.get(16..).unwrap_or_default().to_vec(),
                window: number(2),
                write: opened::write(values[3]),
                background: number(4) as u32,
                dirty: number(5) as u32,
                expire: millis(6),
                interval: millis(7),
                congestion: number(8) as u32,
                gather: number(9) as u32,
                write_depth: number(10) as u32,
                prefault: opened::prefault(values[11]),
                max_size: number(12),
                min_size: number(13),
                shards: number(14) as u32,
                extent: number(15),
            },
        )
    },
};

/// When a write completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// When it is in memory.
    Back,
    /// When it is on the disk.
    Through,
}

/// Settings of a cache.
#[derive(Clone)]
pub struct Settings {
    /// Memory for pages, in bytes.
    pub size: u64,
    /// The readahead policy of each handle.
    pub readahead: &'static readahead::ReadaheadType,
    /// The values of its parameters in order; missing values at the end have their defaults.
    pub values: Vec<i64>,
    /// Largest readahead window, in bytes. With the policy `platter` windows of long streams are larger, up to the device's
    /// optimal I/O size.
    pub window: u64,
    /// When a write completes.
    pub write: Write,
    /// Write-back begins at this share of dirty pages, in percent.
    pub background: u32,
    /// Writers wait at this share of dirty pages, in percent.
    pub dirty: u32,
    /// Age at which a dirty page is written back.
    pub expire: Span,
    /// How often the ages of dirty pages are checked.
    pub interval: Span,
    /// No readahead while this many readahead I/Os are in flight. The default is 7/8 of a queue's 128
    /// requests.
    pub congestion: u32,
    /// A flush of a range (a file) writes back all dirty pages of the device if there are at most this many:
    /// flushes of other ranges that follow then find nothing left to write.
    pub gather: u32,
    /// Write-backs in flight while few pages are dirty and none is overdue. There are more as the number of dirty pages goes from
    /// the middle between the background share and the limit to the limit, or the age of the oldest one from `expire` to twice
    /// that; then 1,024.
    pub write_depth: u32,
    /// When the memory for pages is populated. A cache over a simulated device does not populate it ahead.
    pub prefault: Prefault,
    /// Most bytes that `size` can be set to while the cache is open, or 0: it can only become smaller and as it was.
    pub max_size: u64,
    /// Under memory pressure the cache gives memory back until it has this many bytes. 0: pressure is not watched. A cache over
    /// a simulated device does not watch it.
    pub min_size: u64,
    /// Parts with a lock of their own, up to [`MAX_SHARDS`]. Each has its part of the memory, of the limits of dirty pages and
    /// of the other numbers of I/Os and pages.
    pub shards: u32,
    /// The device is divided among the shards by extents of this many bytes, a power of two. Of as many extents in succession as
    /// there are shards, each shard has one.
    pub extent: u64,
}

/// Most shards of a cache.
pub const MAX_SHARDS: u32 = 256;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            size: 64 << 20,
            readahead: &readahead::TABLE[readahead::TABLE.len() - 1],
            values: Vec::new(),
            window: 128 << 10,
            write: Write::Back,
            background: 10,
            dirty: 20,
            expire: Span::from_secs(30),
            interval: Span::from_secs(5),
            congestion: 112,
            gather: 1024,
            write_depth: 32,
            prefault: Prefault::Ahead,
            max_size: 0,
            min_size: 0,
            shards: 1,
            extent: 1 << 20,
        }
    }
}

/// Fewest extents that each of several shards has memory for. With less, data that fits into the cache may not fit into the
/// shards that it is in.
const FEWEST_EXTENTS: u64 = 4;

/// Most bytes for pages that a cache has for its shards without having been given a size.
const MOST_USUAL: u64 = 1 << 30;

/// Fewest pages of a cache: a single I/O may need this many at once.
const MIN_PAGES: u64 = 16;

impl Settings {
    /// Fewest bytes for pages: two windows of readahead in each shard.
    fn least(&self) -> u64 {
        self.window.saturating_mul(2).max(MIN_PAGES * PAGE).saturating_mul(self.shards.into())
    }

    /// Most bytes for pages.
    fn most(&self) -> u64 {
        self.size.max(self.max_size)
    }

    fn check(&self, device: &str, geometry: &Geometry) -> Result<(), String> {
        let refuse = |what: String| Err(format!("cache over {device}: {what}"));
        let (shards, extent) = (self.shards, self.extent);
        if !(1..=MAX_SHARDS).contains(&shards) {
            return refuse(format!("shards={shards} is out of range: 1 to {MAX_SHARDS}"));
        }
        if !extent.is_power_of_two() || !(PAGE..=1 << 30).contains(&extent) {
            return refuse(format!("extent={extent} is out of range: powers of two from 4K to 1G"));
        }
        let least = self.least();
        if self.size < least {
            let (window, size) = (self.window, self.size);
            let each = if shards > 1 { format!(" for each of shards={shards}") } else { String::new() };
            return refuse(format!(
                "size={size} is out of range: at least {}, two windows of readahead (window={window}){each}",
                short_size(least)
            ));
        }
        let unit = PAGE * u64::from(shards);
        if !self.size.is_multiple_of(unit) || self.size / PAGE > u64::from(u32::MAX / 2) {
            let next = self.size.saturating_add(unit - 1).min(u64::from(u32::MAX / 2) * PAGE) / unit * unit;
            return refuse(format!(
                "size={} is out of range: multiples of {unit} below 8T (for example {})",
                self.size,
                short_size(next)
            ));
        }
        if !(1..=writeback::MAX_WRITES).contains(&self.write_depth) {
            let (depth, most) = (self.write_depth, writeback::MAX_WRITES);
            return refuse(format!("write_depth={depth} is out of range: 1 to {most}"));
        }
        let (size, max, min) = (self.size, self.max_size, self.min_size);
        if max != 0 && (max < size || !max.is_multiple_of(unit) || max / PAGE > u64::from(u32::MAX / 2)) {
            return refuse(format!(
                "max_size={max} is out of range: multiples of {unit} from {} (size), below 8T",
                short_size(size)
            ));
        }
        if min != 0 && (min < least || min > size || !min.is_multiple_of(unit)) {
            return refuse(format!(
                "min_size={min} is out of range: multiples of {unit} from {} to {} (size)",
                short_size(least),
                short_size(size)
            ));
        }
        let fewest = FEWEST_EXTENTS.saturating_mul(extent).saturating_mul(shards.into());
        if shards > 1 && self.size < fewest {
            return refuse(format!(
                "size={} is too small for shards={shards}: each needs memory for {FEWEST_EXTENTS} extents (extent={extent}), \
                 {} together",
                self.size,
                short_size(fewest)
            ));
        }
        if !self.window.is_multiple_of(PAGE) {
            return refuse(format!("window={} is out of range: multiples of {PAGE}", self.window));
        }
        if self.background > self.dirty {
            let (background, dirty) = (self.background, self.dirty);
            return refuse(format!("background={background} is out of range: 0 to dirty={dirty} percent"));
        }
        let block = geometry.limits.logical_block;
        if !(512..=PAGE as u32).contains(&block) {
            return refuse(format!("blocks of {block} bytes; 512 to {PAGE} can be cached"));
        }
        Ok(())
    }
}

/// The size of a cache whose spec gives none, in bytes: the default size, or the least that `shards` shards need if that is
/// larger. If they need more than 1 GiB, it is the default, rounded up to what they divide; [`new`] refuses that and says what
/// they need.
pub fn usual_size(shards: u64, extent: u64, window: u64) -> u64 {
    let usual = Settings::default().size;
    let unit = PAGE.saturating_mul(shards.max(1));
    let extents = if shards > 1 { FEWEST_EXTENTS.saturating_mul(extent).saturating_mul(shards) } else { 0 };
    let windows = if shards > 1 { window.saturating_mul(2).saturating_mul(shards) } else { 0 };
    let round = |size: u64| size.checked_next_multiple_of(unit).filter(|size| *size <= MOST_USUAL);
    round(usual.max(extents).max(windows)).or_else(|| round(usual)).unwrap_or(usual)
}

/// A page cache over `below`.
///
/// # Errors
/// Settings that are out of range or need more memory than there is, and a device that cannot be opened.
pub fn new(below: Arc<dyn Backend>, settings: &Settings) -> Result<Arc<dyn Backend>, LayerError> {
    match settings.shards {
        1 => Ok(Arc::new(Cache::new(below, settings)?)),
        _ => Ok(Arc::new(Sharded::new(below, settings)?)),
    }
}

/// Every layer: those of `platter-stack`, and the cache.
pub fn layers() -> impl Iterator<Item = &'static LayerType> {
    platter_stack::TABLE.iter().chain([&TYPE])
}

/// Looks a layer up by name.
pub fn by_name(name: &str) -> Option<&'static LayerType> {
    layers().find(|row| row.name == name)
}
