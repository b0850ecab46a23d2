//! Parameters of a flash disk.

use platter_block::time::Span;
use std::fmt;

/// Bytes that are mapped as one unit.
pub(super) const UNIT: u64 = 4096;

/// Blocks of each die that are not available for data of the host: those that garbage collection keeps
/// [unfilled](super::collect), and one so that there is always a block to collect.
pub(super) const RESERVE: u64 = 5;

/// A flash disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdParams {
    /// Bytes that the host sees, a multiple of 4096.
    pub size: u64,
    /// Channels between controller and dies.
    pub channels: u32,
    /// Dies of each channel.
    pub dies: u32,
    /// Planes of each die, which work together: a program unit is a page of each.
    pub planes: u32,
    /// Bytes of a page, a multiple of 4096.
    pub page: u32,
    /// Pages of a block.
    pub pages: u32,
    /// Flash that the host does not see, in thousandths of the size, at least; what the cache takes comes on top.
    pub over_provisioning: u32,
    /// Time until a page is in a die's register.
    pub read: Span,
    /// Time to program a page.
    pub program: Span,
    /// Time to erase a block.
    pub erase: Span,
    /// Bytes per second of a channel.
    pub channel_rate: u64,
    /// The link to the host.
    pub link: Link,
    /// Costs of the controller.
    pub control: Control,
    /// The buffer for writes.
    pub buffer: Buffer,
    /// The cache of blocks with one bit in each cell.
    pub slc: Slc,
    /// Idle time after which garbage is collected ahead of need. `None`: only when blocks run out.
    pub background: Option<Span>,
    /// The initial state.
    pub start: Start,
    /// Seed for the places of data in [`Start::Steady`].
    pub seed: u64,
}

/// The way to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bytes per second, each way.
    pub rate: u64,
    /// Both ways at once.
    pub full_duplex: bool,
    /// Queues of commands.
    pub queues: u32,
    /// Commands of each.
    pub depth: u32,
}

/// What the controller costs for each command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Time in which it can do nothing else: the inverse is the limit of commands per second.
    pub command: Span,
    /// Time until the command takes effect, in which other commands may begin.
    pub latency: Span,
}

/// The buffer for writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes that may wait for the flash.
    pub bytes: u64,
    /// Writes complete here, not on the flash.
    pub write_back: bool,
    /// It survives a power cut, so that what is in it is durable.
    pub protected: bool,
}

/// Blocks that are used with one bit in each cell, which makes them fast. Writes go there while there is room; when the
/// disk is idle their data is moved to blocks that use all bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slc {
    /// Bytes that they hold, at least; 0 for no cache.
    pub bytes: u64,
    /// Bits of a cell otherwise: a block holds this many times as much.
    pub bits: u32,
    /// Time until a page is in a die's register.
    pub read: Span,
    /// Time to program a page.
    pub program: Span,
}

/// The state of a disk before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing: all is erased.
    Erased,
    /// All of it was written, then overwritten at random until the distribution of valid units is stationary. The
    /// [cache](Slc) is used up.
    Steady,
}

/// An invalid parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdError {
    /// The parameter.
    pub what: &'static str,
    /// Its value.
    pub found: String,
    /// The allowed values.
    pub expected: String,
}

impl fmt::Display for SsdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}: expected {}", self.what, self.found, self.expected)
    }
}

impl std::error::Error for SsdError {}

/// Numbers that follow from the parameters. "Units" are of 4 KiB, a row is a page of each plane, a block one
/// block of each plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Units that the host sees.
    pub(super) units: u32,
    pub(super) dies: u32,
    /// Blocks of a die, without those of the cache.
    pub(super) blocks: u32,
    /// Blocks of a die that are its cache; their numbers follow the others'.
    pub(super) slc_blocks: u32,
    /// Rows of a block.
    pub(super) rows: u32,
    /// Rows of a block of the cache.
    pub(super) slc_rows: u32,
    /// Units of a row.
    pub(super) row_units: u32,
}

impl Shape {
    /// Units of a block.
    pub(super) fn block_units(&self) -> u32 {
        self.rows * self.row_units
    }

    /// Rows by which a die is apart from the others: 1 to all of a block.
    pub(super) fn stagger(&self, die: u32) -> u32 {
        (u64::from(self.rows) * u64::from(die + 1)).div_ceil(u64::from(self.dies)) as u32
    }

    /// Blocks of a die, those of the cache included.
    pub(super) fn all_blocks(&self) -> u32 {
        self.blocks + self.slc_blocks
    }
}

fn check(ok: bool, what: &'static str, found: impl fmt::Display, expected: &str) -> Result<(), SsdError> {
    match ok {
        true => Ok(()),
        false => Err(SsdError { what, found: found.to_string(), expected: expected.to_owned() }),
    }
}

impl SsdParams {
    /// Bytes of flash, what the host does not see included.
    ///
    /// # Errors
    /// Parameters that no disk can have.
    pub fn raw_bytes(&self) -> Result<u64, SsdError> {
        let shape = self.shape()?;
        Ok(u64::from(shape.dies) * u64::from(shape.all_blocks()) * u64::from(shape.block_units()) * UNIT)
    }

    fn check_ranges(&self) -> Result<(), SsdError> {
        let most = |n: u32, most: u32| (1..=most).contains(&n);
        check(
            self.size >= UNIT && self.size.is_multiple_of(UNIT) && self.size <= 1 << 43,
            "size",
            self.size,
            "a multiple of 4096 up to 8 TiB",
        )?;
        check(most(self.channels, 64), "number of channels", self.channels, "1 to 64")?;
        check(most(self.dies, 64), "number of dies of a channel", self.dies, "1 to 64")?;
        check(most(self.planes, 16), "number of planes", self.planes, "1 to 16")?;
        let page = u64::from(self.page);
        check(
            page.is_multiple_of(UNIT) && (UNIT..=1 << 17).contains(&page),
            "page size",
            page,
            "a multiple of 4096 up to 128K",
        )?;
        check(most(self.pages, 8192), "number of pages of a block", self.pages, "1 to 8192")?;
        check(self.channel_rate > 0, "rate of a channel", self.channel_rate, "more than 0 bytes/s")?;
        check(self.link.rate > 0, "rate of the link", self.link.rate, "more than 0 bytes/s")?;
        check(most(self.link.queues, 1024), "number of queues", self.link.queues, "1 to 1024")?;
        check(most(self.link.depth, 65536), "depth of a queue", self.link.depth, "1 to 65536")?;
        check(self.buffer.bytes >= 1 << 20, "buffer size", self.buffer.bytes, "at least 1M")?;
        check(most(self.slc.bits, 8), "bits of a cell", self.slc.bits, "1 to 8")?;
        check(
            self.slc.bytes == 0 || self.pages >= self.slc.bits,
            "SLC cache",
            self.slc.bytes,
            "0 where a block has fewer pages than a cell has bits",
        )?;
        check(self.slc.bytes <= self.size, "SLC cache", self.slc.bytes, "at most the size")?;
        check(self.over_provisioning <= 10_000, "over-provisioning", self.over_provisioning, "up to 10000")
    }

    /// What follows from the parameters, if a disk can have them.
    pub(super) fn shape(&self) -> Result<Shape, SsdError> {
        self.check_ranges()?;
        let row_units = self.planes * (self.page / UNIT as u32);
        let dies = self.channels * self.dies;
        let block = u64::from(row_units) * u64::from(self.pages);
        let units = self.size / UNIT;
        let wanted = units + units * u64::from(self.over_provisioning) / 1000;
        let blocks = wanted.div_ceil(block * u64::from(dies));
        let needed = units.div_ceil(block * u64::from(dies)) + RESERVE;
        check(
            blocks >= needed,
            "over-provisioning",
            self.over_provisioning,
            &format!("flash for {needed} blocks on each die, not {blocks}: more of it, or smaller blocks"),
        )?;
        let slc_rows = self.pages / self.slc.bits;
        let slc_block = (u64::from(row_units) * u64::from(slc_rows) * UNIT).max(1);
        let slc_blocks = self.slc.bytes.div_ceil(slc_block * u64::from(dies));
        let all = (blocks + slc_blocks) * block * u64::from(dies);
        check(all < u64::from(u32::MAX) - 1, "flash", all * UNIT, "less than 16 TiB in all")?;
        let (blocks, slc_blocks) = (blocks as u32, slc_blocks as u32);
        Ok(Shape { units: units as u32, dies, blocks, slc_blocks, rows: self.pages, slc_rows, row_units })
    }
}
