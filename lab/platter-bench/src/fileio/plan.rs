//! SysBench's options.

use super::FileioError;
use crate::report::units::{self, bytes_short};
use platter_block::time::Span;

/// The kinds of requests, with SysBench's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads, one file after the other.
    SeqRd,
    /// Writes, one file after the other; files that are missing begin empty.
    SeqWr,
    /// Sequential writes, one file after the other, over existing data.
    SeqRewr,
    /// Reads at random places of random files.
    RndRd,
    /// Writes at random places of random files.
    RndWr,
    /// Both, by the ratio.
    RndRw,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 6] =
        [Mode::SeqRd, Mode::SeqWr, Mode::SeqRewr, Mode::RndRd, Mode::RndWr, Mode::RndRw];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::SeqRd => "seqrd",
            Mode::SeqWr => "seqwr",
            Mode::SeqRewr => "seqrewr",
            Mode::RndRd => "rndrd",
            Mode::RndWr => "rndwr",
            Mode::RndRw => "rndrw",
        }
    }

    /// Whether it writes.
    pub fn writes(self) -> bool {
        !matches!(self, Mode::SeqRd | Mode::RndRd)
    }

    /// Whether requests follow each other on the files.
    pub fn is_sequential(self) -> bool {
        matches!(self, Mode::SeqRd | Mode::SeqWr | Mode::SeqRewr)
    }
}

/// How a file is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// `fsync`.
    Fsync,
    /// `fdatasync`.
    Fdatasync,
}

impl SyncMode {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SyncMode::Fsync => "fsync",
            SyncMode::Fdatasync => "fdatasync",
        }
    }
}

/// How a thread issues its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoMode {
    /// One at a time, waiting for each.
    Sync,
    /// As many as the backlog.
    Async,
}

impl IoMode {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            IoMode::Sync => "sync",
            IoMode::Async => "async",
        }
    }
}

/// The definition of an event, for the limit and for latencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Reads and writes, as SysBench counted in 2004.
    Requests,
    /// Those and each fsync of a file between them, as SysBench 1.0.20 counts.
    All,
}

impl Count {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Count::Requests => "requests",
            Count::All => "all",
        }
    }
}

/// Which threads make the files durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncedBy {
    /// All threads: each takes the next file when it is free, as in SysBench 1.0.20.
    Shared,
    /// One thread, one file after the other, while the others continue.
    One,
}

impl SyncedBy {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            SyncedBy::Shared => "shared",
            SyncedBy::One => "one",
        }
    }
}

/// How threads share open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handles {
    /// All threads share one for each file, as SysBench does.
    Shared,
    /// Each thread has its own for each file.
    Each,
}

impl Handles {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Handles::Shared => "shared",
            Handles::Each => "each",
        }
    }
}

/// What caches have of the files when the run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheState {
    /// What they happen to have.
    AsIs,
    /// Nothing: all is made durable and evicted.
    Cold,
    /// As much as they can hold: the files are read once, from the first to the last.
    Warm,
}

impl CacheState {
    /// All of them.
    pub const ALL: [CacheState; 3] = [CacheState::AsIs, CacheState::Cold, CacheState::Warm];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            CacheState::AsIs => "as-is",
            CacheState::Cold => "cold",
            CacheState::Warm => "warm",
        }
    }
}

/// Flags that files are opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtraFlags {
    /// `O_DIRECT`.
    pub direct: bool,
    /// `O_SYNC`.
    pub sync: bool,
    /// `O_DSYNC`.
    pub dsync: bool,
}

impl ExtraFlags {
    /// Their names.
    pub fn names(self) -> Vec<&'static str> {
        let all = [("direct", self.direct), ("sync", self.sync), ("dsync", self.dsync)];
        all.into_iter().filter(|(_, on)| *on).map(|(name, _)| name).collect()
    }
}

/// A run. The default is the test of May 2004.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Number of files.
    pub files: u32,
    /// Bytes of all files together.
    pub total_size: u64,
    /// Bytes of a request.
    pub block: u64,
    /// The kind of requests.
    pub mode: Mode,
    /// Reads to writes of `rndrw`.
    pub rw_ratio: f64,
    /// Reads and writes after which all files are made durable; 0: never.
    pub fsync_freq: u32,
    /// Each thread makes all files durable at its end.
    pub fsync_end: bool,
    /// Each write is made durable at once, and nothing else is.
    pub fsync_all: bool,
    /// How.
    pub fsync_mode: SyncMode,
    /// Which threads do this.
    pub synced_by: SyncedBy,
    /// How requests are issued.
    pub io_mode: IoMode,
    /// Requests in flight per thread with [`IoMode::Async`].
    pub backlog: u32,
    /// Flags of files.
    pub extra_flags: ExtraFlags,
    /// How threads share open files.
    pub handles: Handles,
    /// What caches have of the files when the run begins. The time that takes is not part of the run.
    pub cache_state: CacheState,
    /// Number of threads.
    pub threads: u32,
    /// Events after which the run ends; 0: no limit.
    pub events: u64,
    /// The definition of an event.
    pub count: Count,
    /// Time after which the run ends, by the clock of the device.
    pub time: Option<Span>,
    /// Seed of positions and of written data.
    pub seed: u64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            files: 128,
            total_size: 3 << 30,
            block: 16 << 10,
            mode: Mode::RndRw,
            rw_ratio: 1.5,
            fsync_freq: 100,
            fsync_end: true,
            fsync_all: false,
            fsync_mode: SyncMode::Fsync,
            synced_by: SyncedBy::Shared,
            io_mode: IoMode::Sync,
            backlog: 128,
            extra_flags: ExtraFlags::default(),
            handles: Handles::Shared,
            cache_state: CacheState::AsIs,
            threads: 16,
            events: 10_000,
            count: Count::Requests,
            time: None,
            seed: 1,
        }
    }
}

/// The most files.
const MOST_FILES: u32 = 65_536;
/// The most threads. Each takes four mappings of memory, and a process of Linux may have 65,530: where they end, the
/// standard library ends the process.
const MOST_THREADS: u32 = 8192;
/// The largest request.
const MOST_BYTES: u64 = 1 << 30;

impl Plan {
    /// Bytes of a file.
    pub fn file_size(&self) -> u64 {
        self.total_size / u64::from(self.files.max(1))
    }

    /// Requests that a thread may have out.
    pub fn depth(&self) -> u32 {
        match self.io_mode {
            IoMode::Sync => 1,
            IoMode::Async => self.backlog,
        }
    }

    /// The largest total size that is not above `bytes` and can be cut into files of whole blocks.
    ///
    /// # Errors
    /// Not even a block for each file.
    pub fn largest_within(&self, bytes: u64) -> Result<u64, FileioError> {
        let unit = self.block.saturating_mul(u64::from(self.files)).max(1);
        match bytes / unit * unit {
            0 => Err(FileioError::Unfit(format!(
                "{} are too small for {} files of at least one block of {}; give a larger device, or lower --file-num \
                 or --file-block-size",
                units::bytes(bytes),
                self.files,
                bytes_short(self.block)
            ))),
            size => Ok(size),
        }
    }

    /// Checks the options.
    ///
    /// # Errors
    /// The first invalid one: its name, its value, the allowed values.
    pub fn check(&self) -> Result<(), FileioError> {
        let within = |name: &str, value: u64, least: u64, most: u64| match (least..=most).contains(&value) {
            true => Ok(()),
            false => wrong(name, value, format!("{least} to {most}")),
        };
        within("file-num", self.files.into(), 1, MOST_FILES.into())?;
        within("threads", self.threads.into(), 1, MOST_THREADS.into())?;
        within("file-async-backlog", self.backlog.into(), 1, 65_536)?;
        if !(512..=MOST_BYTES).contains(&self.block) {
            let allowed = format!("512 to {}", bytes_short(MOST_BYTES));
            return wrong("file-block-size", bytes_short(self.block), allowed);
        }
        let files = u64::from(self.files);
        if self.total_size / files < self.block {
            let least = bytes_short(self.block.saturating_mul(files));
            let block = bytes_short(self.block);
            let allowed = format!("at least {least}: {files} files of one block of {block}");
            return wrong("file-total-size", bytes_short(self.total_size), allowed);
        }
        let unit = self.block.saturating_mul(files);
        if !self.total_size.is_multiple_of(unit) {
            let (unit, block) = (bytes_short(unit), bytes_short(self.block));
            let allowed = format!("a multiple of {unit}: {files} files of whole blocks of {block}");
            return wrong("file-total-size", bytes_short(self.total_size), allowed);
        }
        if !self.rw_ratio.is_finite() || self.rw_ratio < 0.0 {
            return wrong("file-rw-ratio", self.rw_ratio, "a number of at least 0".to_owned());
        }
        if self.cache_state == CacheState::Warm && self.extra_flags.direct {
            // The kernel would look for what it has cached, and drop it, in the time of the run.
            return wrong("cache-state", "warm", "as-is or cold with --file-extra-flags direct".to_owned());
        }
        if self.events == 0 && self.time.is_none() {
            return wrong("events", 0, "at least 1 where --time gives no limit".to_owned());
        }
        let slots = u64::from(self.threads) * u64::from(self.depth());
        if slots > 1 << 20 || slots.saturating_mul(self.block) > 1 << 34 {
            let allowed = format!(
                "such that --threads × --file-async-backlog is at most 1048576 and their buffers at most 16 GiB; \
                 these are {slots} of {}",
                bytes_short(self.block)
            );
            return wrong("threads", self.threads, allowed);
        }
        Ok(())
    }
}

fn wrong<T>(name: &str, value: impl std::fmt::Display, allowed: String) -> Result<T, FileioError> {
    Err(FileioError::Option(format!("--{name} {value}: allowed is {allowed}")))
}
