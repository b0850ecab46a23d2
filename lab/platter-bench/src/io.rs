//! The general workload with fio's options and their meanings: the implementation of `platter bench io`.
//!
//! Each job is a thread with its own channel that keeps `iodepth` bios in flight. The bios and their buffers
//! are created once and reused; the buffers are in one region that drivers register. The loop submits a batch
//! and takes a batch of completions, without a lock, an allocation or a hash lookup.
//!
//! Latency is counted per I/O from the submission of its batch to the time at which the batch with its
//! completion was seen: one reading of the clock per batch. With `rate_iops` it is counted from the scheduled
//! start of the I/O.
//!
//! On simulated devices the same jobs run on one thread in virtual time; the same seed gives the same report
//! except for values of the host ([`HOST_KEYS`]).
//!
//! As with fio, a job ends at its first failed I/O; blocks that do not verify are counted and the job
//! continues.
//!
//! ```
//! use core::sync::atomic::AtomicBool;
//! use platter_bench::io::{self, Hooks};
//! use platter_bench::workload::{JobOptions, Rw};
//! use platter_disk::device::Device;
//!
//! let disk = Device::null(1 << 40)?;
//! let job = JobOptions { rw: Rw::RandRead, iodepth: 32, number_ios: Some(1000), ..JobOptions::default() };
//! let report = io::run(&job, &[disk], 1, Hooks::none(&AtomicBool::new(false)))?;
//! assert_eq!((report.ios, report.errors()), (1000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod careful;
mod counts;
mod desk;
mod error;
mod gate;
mod hooks;
mod job;
mod json;
mod outcome;
mod plan;
mod repeats;
mod report;
mod run;
mod series;
mod simulated;
mod tally;
mod text;
mod usage;
mod verify;
mod worker;

pub use crate::stats::LatencySummary;
pub use error::IoError;
pub(crate) use gate::StartGate;
pub(crate) use hooks::TICK;
pub use hooks::{Hooks, Progress};
pub use json::HOST_KEYS;
pub use repeats::Repeats;
pub use report::{DeviceReport, DirectionReport, IoReport, Simulated, Stamps};
pub use run::run;
pub use series::{Part, Series};
pub(crate) use simulated::shared_clock;
pub use usage::Usage;
pub(crate) use worker::SLEEP_SLACK;
