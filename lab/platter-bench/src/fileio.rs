//! SysBench's fileio test, with its option names and rules: the implementation of `platter bench fileio`.
//!
//! Threads take requests from one source: reads and writes of a block, random or sequential, and at regular
//! intervals an fsync of every file. The files are files of a directory ([`run_in`]), or equal parts of a
//! device, which is called synchronously or by bios in real time and in virtual time ([`run`], [`simulate`]).
//!
//! ```
//! use platter_bench::fileio::{self, Plan};
//! use platter_block::time::Span;
//! use platter_disk::device::Device;
//! use platter_disk::disk_backend::DiskSettings;
//! use platter_sim::{SimDisk, World, ideal::Ideal};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Ideal { size: 4 << 30, latency: Span::from_micros(100), depth: 1, write_cache: false };
//! let disk = SimDisk::new(&World::new(1), model.into(), None);
//! let device = Device::from_disk(disk.attach("ideal"), DiskSettings::default(), None)?;
//! let report = fileio::simulate(&device, &Plan::default())?;
//! assert_eq!((report.reads, report.writes), (6000, 4000));
//! assert_eq!(report.seconds(), 1.0);
//! # Ok(())
//! # }
//! ```

mod bios;
mod caches;
mod counts;
mod device;
mod engine;
mod error;
mod hand;
mod hooks;
mod json;
mod plain;
mod plan;
mod real;
mod report;
pub mod requests;
mod run;
mod simulated;
mod tally;
mod text;

pub use error::FileioError;
pub use hooks::{Hooks, Progress};
pub use json::HOST_KEYS;
pub use plain::run_in;
pub use plan::{CacheState, Count, ExtraFlags, Handles, IoMode, Mode, Plan, SyncMode, SyncedBy};
pub use report::{Latency, OnDevice, Report};
pub use run::{run, simulate};
