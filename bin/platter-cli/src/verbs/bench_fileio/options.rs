//! The options of the test as the command line has them, under SysBench's names.

use crate::cli::Time;
use clap::Args;
use platter::spec::parse_size;
use platter_bench::fileio::{
    CacheState, Count, ExtraFlags, FileioError, Handles, IoMode, Mode, Plan, SyncMode, SyncedBy,
};
use platter_block::time::Span;
use std::time::Duration;

#[derive(Args, Debug)]
#[command(next_help_heading = "Test", allow_negative_numbers = true)]
pub(super) struct Options {
    /// Number of files
    #[arg(long, value_name = "N", default_value_t = 128)]
    file_num: u32,
    /// Bytes of all files together [default: 3G; on a smaller device, as much as fits]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    file_total_size: Option<u64>,
    /// Bytes of a request
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = parse_size)]
    file_block_size: u64,
    /// seqrd, seqwr, seqrewr, rndrd, rndwr or rndrw
    #[arg(long, value_name = "MODE", default_value = "rndrw", value_parser = mode)]
    file_test_mode: Mode,
    /// Reads to writes of rndrw
    #[arg(long, value_name = "RATIO", default_value_t = 1.5)]
    file_rw_ratio: f64,
    /// Reads and writes after which every file is made durable; 0: never
    #[arg(long, value_name = "N", default_value_t = 100)]
    file_fsync_freq: u32,
    /// Each thread makes every file durable at the end
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on",
          default_value = "on", value_parser = switch, action = clap::ArgAction::Set)]
    file_fsync_end: bool,
    /// Make each write durable at once, and no file at any other time
    #[arg(long, value_name = "on|off", num_args = 0..=1, require_equals = true, default_missing_value = "on",
          default_value = "off", value_parser = switch, action = clap::ArgAction::Set)]
    file_fsync_all: bool,
    /// How: fsync or fdatasync, which on a device are the same
    #[arg(long, value_name = "HOW", default_value = "fsync", value_parser = fsync_mode)]
    file_fsync_mode: SyncMode,
    /// Which threads do it: shared (all threads, as in SysBench 1.0.20) or one (the thread whose turn it is)
    #[arg(long, value_name = "THREADS", default_value = "shared", value_parser = fsync_by)]
    fsync_by: SyncedBy,
    /// How requests are issued: sync or async
    #[arg(long, value_name = "MODE", default_value = "sync", value_parser = io_mode)]
    file_io_mode: IoMode,
    /// Requests in flight per thread with async
    #[arg(long, value_name = "N", default_value_t = 128)]
    file_async_backlog: u32,
    /// Flags that files are opened with: direct, sync, dsync; of a device: direct
    #[arg(long, value_name = "FLAG", num_args = 1.., value_delimiter = ',', value_parser = extra_flag)]
    file_extra_flags: Vec<&'static str>,
    /// Open files: shared (one for all threads) or each (one per thread)
    #[arg(long, value_name = "SHARING", default_value = "shared", value_parser = handles)]
    handles: Handles,
    /// What caches have of the files at the start: as-is, cold (nothing) or warm (the files are read once)
    #[arg(long, value_name = "STATE", default_value = "as-is", value_parser = cache_state)]
    cache_state: CacheState,
    /// Number of threads
    #[arg(long, value_name = "N", default_value_t = 16)]
    threads: u32,
    /// Events after which to end; 0: no limit [default: 10000; with --time, 0]
    #[arg(long, value_name = "N")]
    events: Option<u64>,
    /// Definition of an event: requests (reads and writes) or all (fsyncs too, as in SysBench 1.0.20)
    #[arg(long, value_name = "WHAT", default_value = "requests", value_parser = count)]
    count: Count,
    /// Time after which to end: 10 (seconds), 10s, 500ms
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    time: Option<Duration>,
    /// Seed of the positions of requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    rand_seed: u64,
}

impl Options {
    /// The plan, whose sense the library checks.
    pub(super) fn plan(&self) -> Plan {
        let base = Plan::default();
        let flag = |name| self.file_extra_flags.contains(&name);
        Plan {
            files: self.file_num,
            total_size: self.file_total_size.unwrap_or(base.total_size),
            block: self.file_block_size,
            mode: self.file_test_mode,
            rw_ratio: self.file_rw_ratio,
            fsync_freq: self.file_fsync_freq,
            fsync_end: self.file_fsync_end,
            fsync_all: self.file_fsync_all,
            fsync_mode: self.file_fsync_mode,
            synced_by: self.fsync_by,
            io_mode: self.file_io_mode,
            backlog: self.file_async_backlog,
            extra_flags: ExtraFlags { direct: flag("direct"), sync: flag("sync"), dsync: flag("dsync") },
            handles: self.handles,
            cache_state: self.cache_state,
            threads: self.threads,
            events: self.events.unwrap_or(if self.time.is_some() { 0 } else { base.events }),
            count: self.count,
            time: self.time.map(|time| Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))),
            seed: self.rand_seed,
        }
    }

    /// Fits the files of a plan without a given size to a device.
    pub(super) fn fit(&self, plan: &mut Plan, device: u64) -> Result<(), FileioError> {
        if self.file_total_size.is_none() {
            plan.total_size = plan.largest_within(device.min(plan.total_size))?;
        }
        Ok(())
    }
}

/// The value with that name; the names are the allowed values.
fn named<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|value| name(*value) == text);
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|value| name(*value)).collect();
        format!("allowed are {}", names.join(", "))
    })
}

/// A time: `10` is ten seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    Time::parse(text, "s").map(|time| time.value)
}

fn mode(text: &str) -> Result<Mode, String> {
    named(text, &Mode::ALL, Mode::name)
}

fn fsync_mode(text: &str) -> Result<SyncMode, String> {
    named(text, &[SyncMode::Fsync, SyncMode::Fdatasync], SyncMode::name)
}

fn fsync_by(text: &str) -> Result<SyncedBy, String> {
    named(text, &[SyncedBy::Shared, SyncedBy::One], SyncedBy::name)
}

fn io_mode(text: &str) -> Result<IoMode, String> {
    if text == "mmap" {
        return Err(
            "mmap is not supported, because a device has no pages to map; expected one of: sync, async"
                .to_owned(),
        );
    }
    named(text, &[IoMode::Sync, IoMode::Async], IoMode::name)
}

fn extra_flag(text: &str) -> Result<&'static str, String> {
    named(text, &["direct", "sync", "dsync"], |name| name)
}

fn handles(text: &str) -> Result<Handles, String> {
    named(text, &[Handles::Shared, Handles::Each], Handles::name)
}

fn cache_state(text: &str) -> Result<CacheState, String> {
    named(text, &CacheState::ALL, CacheState::name)
}

fn count(text: &str) -> Result<Count, String> {
    named(text, &[Count::Requests, Count::All], Count::name)
}

fn switch(text: &str) -> Result<bool, String> {
    named(text, &[(true, "on"), (false, "off")], |(_, name)| name).map(|(on, _)| on)
}
